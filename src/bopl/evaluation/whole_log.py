"""`evaluate`: is the policy better than what runs now, by how much, how sure are we, and can this log answer at all?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bopl._errors import UsageError
from bopl._settings import check_choice, check_number
from bopl._typing import BoolArray, FloatArray
from bopl.evaluation.accumulate import ValueAccumulator
from bopl.evaluation.confounding import Sensitivity, describe_confounding, find_confounding, interval_for
from bopl.evaluation.pieces import check_suits_pieces, evaluate_pieces
from bopl.evaluation.propensity import estimate_logging_prob
from bopl.evaluation.result import Evaluation
from bopl.evaluation.sources import Sources, check_all_actions, read_logging_policy, with_running
from bopl.evaluation.unit import reward_unit
from bopl.evaluation.verdict import DECIDED
from bopl.log import BanditLog, PartitionedLog
from bopl.log.policy_prob import read_policy
from bopl.objective.softmax import softmax
from bopl.reward.prediction import is_fitted, predict_rewards

PROPENSITY_CHOICES = ("estimate", "uniform")


def evaluate(
    log: BanditLog | PartitionedLog,
    policies: object,
    *,
    estimators: object = None,
    interval: str = "normal",
    confidence: float = 0.95,
    min_uplift: object = 0.0,
    guards: object = (),
    segment: object = None,
    against: object = None,
    head_to_head: bool = False,
    simultaneous: bool = True,
    reward_model: object = None,
    propensity: str | None = None,
    propensity_model: object = None,
    logging_policy: object = None,
    logger: object = None,
    logger_propensity: object = None,
    exact_propensity: bool | None = None,
    n_folds: int = 5,
    n_replicates: int = 1000,
    reward_range: tuple[float, float] | None = None,
    min_propensity: float | None = None,
    confounding: bool | None = None,
    random_state: int = 0,
    n_jobs: int | None = None,
    cluster: object = None,
) -> Evaluation:
    """Estimate the value of policies from a log, with intervals and a verdict against the logging policy.

    A log in pieces is read one piece at a time. The numbers are those of the log in memory, but for rounding; settings
    that estimators choose from the data are chosen from the first piece.

    Parameters
    ----------
    log : BanditLog or PartitionedLog
        Samples that the policies were not trained on. If it has groups, intervals and folds respect them.
    policies : policy, or mapping of name to policy
        A policy is an object with ``predict_proba``, an array of shape (n_samples, n_actions), or an array of shape
        (n_samples,) with the probabilities of the logged actions: O(n) memory for any number of actions, enough for
        estimators without a reward model.
    estimators : sequence of names or Estimators, or "all", optional
        Names are ``ips, clipped_ips, snips, dm, dr, sndr, switch_dr, dr_shrinkage, beta_ips``. By default IPS and
        SNIPS, and DR if a reward model is given.
    interval : {"normal", "bootstrap", "empirical_bernstein", "log_smoothing", "betting"}, default="normal"
        The first two hold for many samples and any estimator; the last three for any number of samples, for IPS.
    confidence : float in (0, 1), default=0.95
        Of the intervals, and of the verdict.
    min_uplift : float or str, default=0
        Smallest uplift of interest, per decision (``0.001``) or as a share of what is earned now (``"1%"``): `better`
        takes a lower bound above it.
    guards : sequence of str or Guard, optional
        Other rewards that must not get worse, such as ``["revenue>=-1%", "complaints<=+0.002"]``; the log has them as
        ``other_rewards``. `better` then takes all of them to be kept, too.
    segment : sequence of shape (n_samples,), optional
        What each sample counts to; by default the log's ``segment``. Every segment gets an uplift with an interval.
    against : policy, or name of one of ``policies``, optional
        What runs now, if it is not the logging policy: verdicts are on the paired difference to it.
    head_to_head : bool, default=False
        Compare every policy with every other one, paired on the same samples.
    simultaneous : bool, default=True
        Let the verdicts on several policies hold together: with twenty candidates, each has a twentieth of the error.
    reward_model : model or array of shape (n_samples, n_actions), optional
        For estimators that need one. Not fitted: it is cross-fitted here (`bopl.BoostedRewardModel` by default, any
        scikit-learn regressor). Fitted: on other samples than these.
    propensity : {"estimate", "uniform"}, optional
        For a log without propensities (or instead of those it has): fit a model of the logging policy, see
        `bopl.estimate_propensity`, or declare it uniform.
    propensity_model : scikit-learn classifier, optional
        For ``propensity="estimate"``.
    logging_policy : object with ``predict_proba`` or array of shape (n_samples, n_actions), optional
        What wrote the log. Known in full, it sharpens the uplift of estimators with a reward model.
    logger, logger_propensity : optional
        For a log of several logging policies: who wrote each sample, and what each would have done, as for
        `BanditLog.balanced`.
    exact_propensity : bool, optional
        Whether the propensities are exact, however few digits they have: intervals are then not widened for rounding.
        By default what the log says.
    n_folds : int, default=5
        Of cross-fitting.
    n_replicates : int, default=1000
        Of the bootstrap.
    reward_range : (float, float), optional
        What rewards can be, for bounds; by default [0, 1] if all rewards lie there, else the range seen.
    min_propensity : float, optional
        Smallest probability with which the logging policy takes an action, for ``"empirical_bernstein"``; by default
        the smallest seen.
    confounding : bool, optional
        Whether to tell by how much an unmeasured cause would have to shift the odds of actions for a verdict to fall
        (`bopl.evaluation.confounding`); by default where propensities are estimated.
    random_state : int, default=0
        Seed of folds and replicates.
    n_jobs : int, optional
        Threads of the bootstrap; all cores by default. They do not change the result.
    cluster : distributed.Client, str or Cluster, optional
        A Dask client, or the address of its scheduler, whose workers evaluate the pieces of a log in pieces; the result
        is the same.

    Returns
    -------
    Evaluation
        With ``.table``, ``.plot()``, ``.to_json()``.

    Examples
    --------
    >>> import numpy as np, bopl
    >>> rng = np.random.default_rng(0)
    >>> context, action = rng.normal(size=(2000, 2)), rng.integers(0, 2, size=2000)
    >>> reward = (action == (context[:, 0] > 0)).astype(float)
    >>> log = bopl.BanditLog(context, action, reward, np.full(2000, 0.5))
    >>> good = np.column_stack([context[:, 0] <= 0, context[:, 0] > 0]).astype(float)
    >>> evaluation = bopl.evaluate(log, {"good": good})
    >>> evaluation.row("good", "snips")["value"], evaluation.row("good", "snips")["verdict"]
    (1.0, 'better')
    """
    if not isinstance(log, BanditLog | PartitionedLog):
        raise TypeError(f"evaluate takes a BanditLog or a PartitionedLog; got {type(log).__name__}.")
    check_number("n_folds", n_folds, low=2, integer=True)
    policies, against = with_running(policies, against)
    accumulator = ValueAccumulator(
        policies,
        estimators=estimators,
        interval=interval,
        confidence=confidence,
        min_uplift=min_uplift,
        guards=guards,
        against=against,
        head_to_head=head_to_head,
        simultaneous=simultaneous,
        reward_model=reward_model,
        n_replicates=n_replicates,
        reward_range=reward_range,
        min_propensity=min_propensity,
        random_state=random_state,
        n_jobs=n_jobs,
    )
    log = log if exact_propensity is None else log.with_exact_propensity(exact_propensity)
    if isinstance(log, PartitionedLog):
        check_suits_pieces(propensity, logger, segment, confounding, reward_model)
        if propensity == "uniform":
            log, logging_policy = log.with_propensity("uniform"), _UniformPolicy(log.n_actions)
        accumulator.logging_policy, accumulator.n_samples = logging_policy, log.n_samples
        return evaluate_pieces(log, accumulator, cluster)
    if cluster is not None:
        raise UsageError("cluster= evaluates the pieces of a log in pieces: make one with BanditLog.scan_parquet.")
    log = log if segment is None else log.with_segment(segment)
    log, logging_policy = _with_propensity(
        log, propensity, propensity_model, logging_policy, logger, logger_propensity, n_folds, random_state
    )
    sources = _sources(accumulator, log, reward_model, logging_policy, n_folds, random_state)
    accumulator.add_from(sources, is_whole=True)
    evaluation = accumulator.result()
    asks = log.has_estimates if confounding is None else confounding
    return _with_confounding(evaluation, accumulator, sources) if asks else evaluation


def _with_confounding(evaluation: Evaluation, accumulator: ValueAccumulator, sources: Sources) -> Evaluation:
    """Return the evaluation with what hidden confounding could do to its verdicts."""
    found = []
    rows = iter(evaluation.rows)
    for position, estimators in enumerate(accumulator.tuned_estimators):
        own = [next(rows) for _ in estimators]
        terms = sources.all_terms(position) if any(row["verdict"] in DECIDED for row in own) else None
        for row, estimator in zip(own, estimators, strict=True):
            if terms is not None:
                interval = interval_for(accumulator.interval)
                low, high = accumulator.reward_limits
                limits = low / sources.unit, high / sources.unit
                propensity, group = sources.log.propensity, sources.group
                sensitivity = Sensitivity(estimator, terms, propensity, group, interval, limits)
                found.append(find_confounding(row, sensitivity))
    known = tuple(one for one in found if one is not None)
    return replace(evaluation, confounding=known, notes=(*evaluation.notes, *describe_confounding(known)))


def compare(
    log: BanditLog,
    policies: Mapping[str, object],
    *,
    against: object = None,
    estimators: object = None,
    confidence: float = 0.95,
    min_uplift: object = 0.0,
    guards: object = (),
    segment: object = None,
    reward_model: object = None,
    logging_policy: object = None,
    random_state: int = 0,
) -> Evaluation:
    """Compare policies head to head: each with each other, or all with the one that runs now.

    Differences are paired: both policies are judged by the same samples, and what they share cancels. Intervals and
    verdicts hold for all comparisons together.

    Parameters
    ----------
    log : BanditLog
        Held-out samples.
    policies : mapping of name to policy
        Policies to compare with each other; as for `evaluate`.
    against : policy, or name of one of ``policies``, optional
        What runs now; by default every policy is compared with every other one.
    estimators, confidence, min_uplift, guards, segment, reward_model, logging_policy, random_state
        As for `evaluate`.

    Returns
    -------
    Evaluation
        With ``.comparisons``.

    Examples
    --------
    >>> import numpy as np, bopl
    >>> rng = np.random.default_rng(0)
    >>> action = rng.integers(0, 2, size=2000)
    >>> log = bopl.BanditLog(rng.normal(size=(2000, 1)), action, action + rng.normal(size=2000), np.full(2000, 0.5))
    >>> first, second = np.tile([0.4, 0.6], (2000, 1)), np.tile([0.2, 0.8], (2000, 1))
    >>> row = bopl.compare(log, {"new": second}, against=first).comparisons[0]
    >>> row["policy"], row["other"], row["verdict"]
    ('new', 'running', 'better')
    """
    return evaluate(
        log,
        policies,
        estimators=estimators,
        confidence=confidence,
        min_uplift=min_uplift,
        guards=guards,
        segment=segment,
        against=against,
        head_to_head=against is None,
        reward_model=reward_model,
        logging_policy=logging_policy,
        random_state=random_state,
    )


@dataclass(frozen=True)
class _UniformPolicy:
    """Takes every eligible action with the same probability."""

    n_actions: int

    def predict_proba(self, context: Any, *, action_mask: BoolArray | None = None) -> FloatArray:
        """Return probabilities of all actions, of shape (n_samples, n_actions)."""
        return softmax(np.zeros((context.shape[0], self.n_actions)), action_mask=action_mask)


def _with_propensity(
    log: BanditLog,
    propensity: str | None,
    model: object,
    logging_policy: object,
    logger: object,
    logger_propensity: object,
    n_folds: int,
    seed: int,
) -> tuple[BanditLog, Any]:
    """Return the log with the propensities asked for, and the logging policy in full where that makes it known."""
    if (logger is None) != (logger_propensity is None):
        raise ValueError("logger and logger_propensity belong together: pass both or none.")
    if propensity is None:
        log = log if logger is None else log.balanced(logger, logger_propensity)
        log.require_propensity()
        return log, logging_policy
    check_choice("propensity", propensity, PROPENSITY_CHOICES)
    if logging_policy is not None or logger is not None:
        raise ValueError(
            f"propensity={propensity!r} stands in for a logging policy that is not known: pass one of them."
        )
    if propensity == "uniform":
        return log.with_propensity("uniform"), _UniformPolicy(log.n_actions)
    action_prob = estimate_logging_prob(log, model=model, n_folds=n_folds, random_state=seed)
    logged = action_prob[np.arange(log.n_samples), log.action_idx]
    return log.with_propensity(logged, source="estimated"), action_prob


def _sources(
    accumulator: ValueAccumulator,
    log: BanditLog,
    reward_model: object,
    logging_policy: object,
    n_folds: int,
    seed: int,
) -> Sources:
    readers = tuple(read_policy(policy, log, f"policy {name!r}") for name, policy in accumulator.policies.items())
    rewards = None
    if accumulator.needs_reward_model:
        check_all_actions(readers, accumulator.estimators)
        rewards = predict_rewards(reward_model, _in_usual_size(log, reward_model), n_folds=n_folds, seed=seed)
        if rewards.fold is not None:
            name = "BoostedRewardModel" if reward_model is None else type(reward_model).__name__
            accumulator.notes.append(f"Reward model: {name}, cross-fitted on {int(rewards.fold.max()) + 1} folds.")
    logging = read_logging_policy(logging_policy, log)
    return Sources(
        log, readers, rewards, logging, log.group, hat_is_scaled=rewards is not None and rewards.fold is not None
    )


def _in_usual_size(log: BanditLog, reward_model: Any) -> BanditLog:
    """Return the log that a reward model is cross-fitted on: with rewards in their unit, which 32 bits can hold."""
    unit = reward_unit(log.reward)
    is_given = isinstance(reward_model, np.ndarray | list) or (reward_model is not None and is_fitted(reward_model))
    return log if unit == 1.0 or is_given else log.with_reward(log.reward / unit)
