"""The verdict of a run: the policy on samples it was not trained on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from bopl._errors import UsageError, quoted
from bopl._policy_reader import PolicyOnRows
from bopl._typing import BoolArray, FloatArray
from bopl.evaluation import Evaluation, evaluate
from bopl.evaluation.estimator import Need
from bopl.evaluation.estimator_registry import ESTIMATORS, estimator_names
from bopl.evaluation.interval_registry import get_interval
from bopl.log import BanditLog, PartitionedLog
from bopl.log.action import label_array
from bopl.log.duplicate import find_copies
from bopl.log.duplicate_audit import audit_duplicates
from bopl.log.finding import PROBLEM
from bopl.log.propensity_audit import propensity_findings, with_raised_propensities
from bopl.policy import load
from bopl.reward import BoostedRewardModel
from bopl.reward.boosted_model import BoundPairs, default_reward_learner
from bopl.reward.prediction import predict_rewards
from bopl.workflow.config import TrainConfig
from bopl.workflow.deciding import describe_acting, with_sharpness
from bopl.workflow.reading import WHOLE, Scale, fill_propensity, noting, read_log_for, scale_of, schema_of
from bopl.workflow.translation import drawn_part

MAX_REWARD_SAMPLES = 200_000  # of the reward model: it only makes estimates more precise, and more samples hardly help
MAX_MODEL_ACTIONS = 256  # the reward model has a bin for every action


def fit_reward_model(
    log: BanditLog | PartitionedLog, config: TrainConfig, pairs: BoundPairs | None = None
) -> BoostedRewardModel | None:
    """Return a reward model of the training samples for the estimators that need one, or None."""
    if log.n_actions > MAX_MODEL_ACTIONS or not any(map(estimator_needs_model, chosen_estimators(config))):
        return None
    part = drawn_part(log, MAX_REWARD_SAMPLES, [config.random_state, 3])
    learner = default_reward_learner().set_params(n_jobs=config.n_jobs)
    return BoostedRewardModel(learner, random_state=config.random_state).fit(part, pairs=pairs)


def judge(
    log: BanditLog | PartitionedLog, policy: Any, config: TrainConfig, reward_model: Any, *, cluster: str | None = None
) -> Evaluation:
    """Evaluate the policy on the held-out samples; those of a log in pieces may be read on a cluster."""
    names = chosen_estimators(config)
    if reward_model is None and config.estimators is None:
        names = tuple(name for name in names if not estimator_needs_model(name))
    if isinstance(log, BanditLog) and reward_model is not None:  # which is asked twice, for settings and for estimates
        predicted = predict_rewards(reward_model, log).kept()
        reward_model = reward_model if predicted.given is None else predicted.given
    return evaluate_as_set(config, log, {"policy": policy}, names, reward_model=reward_model, cluster=cluster)


def evaluate_as_set(
    config: TrainConfig,
    log: BanditLog | PartitionedLog,
    policies: Mapping[str, Any],
    estimators: Sequence[str],
    *,
    reward_model: Any = None,
    against: str | None = None,
    head_to_head: bool = False,
    cluster: str | None = None,
) -> Evaluation:
    """Evaluate policies with the intervals, margins, guards and seed of the settings; see `bopl.evaluate`."""
    return evaluate(
        log,
        dict(policies),
        estimators=list(estimators),
        interval=config.interval,
        confidence=config.confidence,
        confounding=config.confounding or None,
        min_uplift=config.min_uplift,
        guards=config.guard,
        reward_model=reward_model,
        against=against,
        head_to_head=head_to_head,
        random_state=config.random_state,
        n_jobs=config.n_jobs,
        cluster=cluster,
    )


def chosen_estimators(config: TrainConfig) -> tuple[str, ...]:
    """Return the names of the estimators: those requested, or all that support the interval."""
    if config.estimators is not None:
        return config.estimators
    possible = estimator_names(get_interval(config.interval, config.confidence))
    # Those of a plain evaluation first, with the primary estimator among them.
    return tuple(sorted(possible, key=lambda name: (not ESTIMATORS[name].is_default, ESTIMATORS[name].priority)))


def estimator_needs_model(name: str) -> bool:
    """Return whether an estimator needs a reward model."""
    return Need.REWARD_MODEL in ESTIMATORS[name].needs


@dataclass(frozen=True)
class PaddedPolicy:
    """A policy that gives probability zero to actions it does not know."""

    policy: Any
    actions_: Any  # (n_actions,): its own actions first

    @property
    def training_rows_(self) -> Any:
        """Sketch of the rows that the policy was trained on, if there is one."""
        return getattr(self.policy, "training_rows_", None)

    def predict_proba(self, context: Any, *, action_mask: BoolArray | None = None) -> FloatArray:
        """Return probabilities of all actions, of shape (n_samples, n_actions)."""
        n_known = len(self.policy.actions_)
        masked = {} if action_mask is None else {"action_mask": action_mask[:, :n_known]}
        known = self.policy.predict_proba(context, **masked)
        return np.pad(known, ((0, 0), (0, len(self.actions_) - n_known)))


def evaluate_files(
    config: TrainConfig,
    files: Sequence[str | Path],
    running: str | Path | None = None,
    *,
    head_to_head: bool = False,
) -> tuple[Evaluation, list[str]]:
    """Judge policy files on a log; return the evaluation and its warnings.

    Every policy reads the log in the columns it was fitted on. The log's own columns are those that the first policy
    remembers, unless the settings name others. ``running`` is the file of the policy in production: the verdict on the
    others is then about their difference from it. ``head_to_head`` compares all of them with each other instead.
    """
    if head_to_head and running is not None:
        raise UsageError(
            "policies are compared either with each other or with the one in production: give only one of the two."
        )
    files = [*files, *([] if running is None else [running])]
    names = policy_names(files)
    policies = {name: load(file) for name, file in zip(names, files, strict=True)}
    against = None if running is None else names[-1]
    with noting() as unseen:
        read = read_for_policies(policies, config, scale_of(config))
        evaluation = evaluate_on(
            read.log, read.policies, config, quick=True, against=against, head_to_head=head_to_head
        )
    evaluation = replace(evaluation, notes=(*read.acting, *evaluation.notes))
    return evaluation, [*read.warnings, *dict.fromkeys(unseen)]


@dataclass(frozen=True)
class ReadForPolicies:
    """A log in the columns of policies, and the policies on it."""

    log: Any  # BanditLog or PartitionedLog
    policies: dict[str, Any]  # by name; `PolicyOnRows` for those that read the log in other columns
    warnings: list[str]  # what to know before trusting a verdict
    acting: list[str]  # whether the values are those of each policy as it samples, or of its best actions


def read_for_policies(policies: Mapping[str, Any], config: TrainConfig, scale: Scale = WHOLE) -> ReadForPolicies:
    """Return a log in the columns of the first policy, with policies that act as sharply as requested."""
    policies = {name: with_sharpness(policy, config.inverse_temperature) for name, policy in policies.items()}
    acting = [describe_acting(policy, name) for name, policy in policies.items()]
    first = next(iter(policies.values()))
    if scale.is_in_pieces:
        other = [name for name, policy in policies.items() if schema_of(policy) != schema_of(first)]
        if other:
            raise UsageError(
                f"{next(iter(policies))!r} and {other[0]!r} read the columns of a log differently, but a log in pieces "
                "is read only once: evaluate them one by one, or give the log more memory with memory=…."
            )
        pieces = scale.scan(config, first)
        warnings = [*pieces.origin.sentences()]
        warnings += [text for name, policy in policies.items() for text in warnings_about(name, policy, pieces)]
        return ReadForPolicies(pieces, policies, warnings, acting)
    log = fill_propensity(read_log_for(first, config.request()), config.assume_propensity, config.random_state)
    readable, warnings = {}, rows_warnings(log)
    for name, policy in policies.items():
        if schema_of(policy) == schema_of(first):
            readable[name], own = policy, log
        else:
            own = read_log_for(policy, config.request())
            readable[name] = PolicyOnRows(_probabilities(policy, own, log), policy, own)
        warnings += warnings_about(name, policy, own)
    return ReadForPolicies(log, readable, warnings, acting)


def evaluate_on(
    log: BanditLog | PartitionedLog,
    policies: Mapping[str, Any],  # policies, `PolicyOnRows`, or arrays of shape (n_samples, n_actions)
    config: TrainConfig,
    *,
    quick: bool = False,  # use the few estimators that a decision needs, if the settings name none
    against: str | None = None,  # name of the policy in production
    head_to_head: bool = False,  # compare every policy with every other one
) -> Evaluation:
    """Evaluate policies on a log that they were not trained on.

    The reward model is cross-fitted on a log in memory; on a log in pieces there is none.
    """
    names = chosen_estimators(config)
    if config.estimators is None:
        has_model = isinstance(log, BanditLog) and log.n_actions <= MAX_MODEL_ACTIONS
        names = tuple(name for name in names if has_model or not estimator_needs_model(name))
        names = tuple(name for name in names if not quick or ESTIMATORS[name].is_default)
    aligned = {name: align_policy(policy, log) for name, policy in policies.items()}
    cluster = config.cluster if isinstance(log, PartitionedLog) else None
    return evaluate_as_set(config, log, aligned, names, against=against, head_to_head=head_to_head, cluster=cluster)


def policy_names(files: Sequence[str | Path]) -> list[str]:
    """Return a name for each file: its stem, or its path if stems repeat."""
    repeated = [str(file) for place, file in enumerate(files) if file in files[:place]]
    if repeated:
        raise UsageError(f"{repeated[0]!r} is named more than once; name each policy once.")
    stems = [Path(file).stem for file in files]
    return stems if len(set(stems)) == len(stems) else [str(file) for file in files]


def rows_warnings(log: BanditLog) -> list[str]:
    """Return warnings about the rows of a log: those dropped, and those that occur more than once."""
    found = [] if log.origin is None else log.origin.sentences()
    compared = with_raised_propensities(log, propensity_findings(log))
    copies = audit_duplicates(compared, find_copies(compared))
    return [*found, copies.sentence] if copies.status == PROBLEM else found


def warnings_about(name: str, policy: Any, log: BanditLog | PartitionedLog) -> list[str]:
    """Return what to know before trusting the verdict of a log on a policy."""
    found = []
    if policy.trained_on_ is not None and policy.trained_on_ == log.fingerprint():
        found.append(
            f"{name} was trained on parts of this log, so its numbers here are too good. The verdict on held-out "
            "samples is in its run folder; evaluate on later decisions."
        )
    group = None if policy.schema_ is None else policy.schema_.group
    if group is not None and log.group_labels is None:
        found.append(
            f"the log has no column {group!r}, the group of samples when {name} was trained: samples are "
            "assumed to be independent, and intervals may be too narrow."
        )
    unknown = [label for label in log.actions.tolist() if label not in set(policy.actions_.tolist())]
    if unknown:
        found.append(
            f"{name} does not know {quoted(unknown)}, and never takes {'it' if len(unknown) == 1 else 'them'}."
        )
    return found


def align_policy(policy: Any, log: BanditLog | PartitionedLog) -> Any:
    """Return the policy, with probability zero for actions of the log that it does not know."""
    if not hasattr(policy, "actions_"):
        return policy
    own = policy.actions_.tolist()
    unknown = [label for label in log.actions.tolist() if label not in set(own)]
    return PaddedPolicy(policy, label_array([*own, *unknown])) if unknown else policy


def probabilities_on(policy: Any, log: BanditLog, config: TrainConfig) -> FloatArray:
    """Return the probabilities of a policy that was fitted on other columns than those of the log."""
    return _probabilities(policy, read_log_for(policy, config.request()), log)


def _probabilities(policy: Any, own: BanditLog, log: BanditLog) -> FloatArray:
    """Return probabilities of the actions of a log, for the same rows in the policy's own columns."""
    padded = PaddedPolicy(policy, own.actions)
    position = {label: column for column, label in enumerate(own.actions.tolist())}
    found = padded.predict_proba(own.context, action_mask=own.action_mask)
    order = [position.get(label, -1) for label in log.actions.tolist()]
    return np.pad(found, ((0, 0), (0, 1)))[:, order]
