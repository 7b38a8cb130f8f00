"""A run: read, audit, hold out, race or boost, judge, write everything."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from bopl import report
from bopl._policy_reader import read_policy
from bopl._progress import Hear, RunLine, current_line, deprecated_listener
from bopl.boosting import TimeLimit, Workbench
from bopl.boosting.loop import AnyCallback
from bopl.boosting.workbench import Keeper
from bopl.evaluation import Evaluation
from bopl.learner import HistTree
from bopl.log import BanditLog, LogSplit, PartitionedLog, PiecesSplit
from bopl.log.drift import drift_finding
from bopl.log.finding import Audit
from bopl.log.log_split import SplitFacts
from bopl.objective.registry import get_objective, make_objective, parse_weight
from bopl.policy import BoostedPolicy
from bopl.race import AutoPolicy
from bopl.workflow.auditing import audit_for_training
from bopl.workflow.checkpoints import Checkpoints, digest_of, drop_checkpoints
from bopl.workflow.config import AUTO, TrainConfig
from bopl.workflow.deciding import sharpen_trained
from bopl.workflow.judging import fit_reward_model, judge
from bopl.workflow.racing import race
from bopl.workflow.reading import (
    check_training_log,
    describe_log,
    origin_facts,
    read_training_log,
    scale_of,
    split_log,
    split_pieces,
    split_validation,
)
from bopl.workflow.run_folder import RunFolder, StepClock
from bopl.workflow.translation import MAX_SAMPLES, SHARES, choose_translation, is_interrupted

logger = logging.getLogger(__name__)

MAX_SHOWN = 100_000  # samples of a log in pieces that the report looks at


@dataclass(frozen=True)
class TrainResult:
    """What a run has made."""

    policy: AutoPolicy | BoostedPolicy  # the winner of a race, or the policy of a single objective
    evaluation: Evaluation  # on the samples held out
    audit: Audit  # of the whole log, and of the drift between its parts
    summary: dict[str, Any]  # all of it, as plain values
    folder: RunFolder
    steps: list[dict[str, Any]]  # time and memory of each step
    is_interrupted: bool  # whether Ctrl-C cut the training short
    split: SplitFacts  # what was held out


def train(
    config: TrainConfig,
    *,
    say: Hear | None = None,
    progress: bool = False,
    callbacks: Sequence[AnyCallback] = (),
) -> TrainResult:
    """Do a whole run.

    The policy is saved as soon as it is trained. Ctrl-C ends the race or the boosting, not the run. Both go on from
    where an earlier run with the same log and settings was killed or interrupted.

    Parameters
    ----------
    config : TrainConfig
        All that the run is told.
    say : callable, optional
        Deprecated: what a run says goes to `logging`.
    progress : bool, default=False
        Show one line of progress for the whole run on standard error; where that is not a terminal, a plain line every
        half minute.
    callbacks : sequence of callables, optional
        Further callbacks of the boosting loop of a single objective.
    """
    config.check_objective()
    if callbacks and config.objective == AUTO:
        raise ValueError("callbacks apply to boosting a single objective: set objective to dr, ips or surrogate.")
    with deprecated_listener("say", say), RunFolder.open(config.out) as folder, RunLine(is_shown=progress):
        return _run(config, folder, progress, callbacks)


def _run(config: TrainConfig, folder: RunFolder, progress: bool, callbacks: Sequence[AnyCallback]) -> TrainResult:
    clock = StepClock(line=current_line())
    with clock.step("read"):
        log = read_for_training(config)
    folder.log_facts.update(origin_facts(log))
    logger.info(describe_log(log, config.paths))
    with clock.step("audit"):
        log, audit, left_out = audit_for_training(log, config)
        fingerprint = log.fingerprint()  # of what is learned from, which is what the policy will read
        # Times and groups are not part of it, but decide which sample is in which part.
        origin = [fingerprint]
        if isinstance(log, BanditLog):
            origin += [digest_of(log.time), digest_of(log.group)]
    with clock.step("split"):
        parts = _hold_out(log, config)
        rest, held_out = parts
        split, drift = parts.facts, parts.drift()
        del log, parts  # the parts are copies, and nothing else may keep the whole beside them
    if split.train.first is not None or split.train.n_groups is not None:
        logger.info(split.sentence)
    audit = audit.with_finding(drift_finding(drift))
    if drift:
        logger.warning(f"Drift: {audit['drift'].sentence}")
    policy: AutoPolicy | BoostedPolicy
    checkpoints = Checkpoints(folder.path, config, origin)
    if config.objective == AUTO:
        logger.info(f"Racing on {rest.n_samples:,} samples, and holding out {held_out.n_samples:,} for the verdict.")
        policy, was_interrupted = race(config, rest, clock, progress=progress, keeper=checkpoints)
    else:
        policy, was_interrupted = boost(config, rest, len(held_out), clock, progress, callbacks, checkpoints)
    policy = sharpen_trained(policy, config)
    policy.trained_on_ = fingerprint
    folder.save_policy(config, policy, split)
    logger.info(f"Judging on the {len(held_out):,} held-out samples.")
    with _telling_of(folder.out):
        with clock.step("evaluate"):
            reward_model = fit_reward_model(rest, config, checkpoints.pairs)
            # Held-out samples in memory are scored once, for the verdict and for the report.
            if isinstance(held_out, BanditLog):
                judged, cluster = read_policy(policy, held_out).kept().given, None
            else:
                judged, cluster = policy, config.cluster
            evaluation = judge(held_out, judged, config, reward_model, cluster=cluster)
        with clock.step("report"):
            shown = held_out if isinstance(held_out, BanditLog) else held_out.sample(MAX_SHOWN, 0)
            summary = report.summarise(
                judged, shown, evaluation, audit=audit, config=config.to_dict(), encoder=shown.schema
            )
        summary |= {"split": split.to_dict(), "drift": [one.to_dict() for one in drift], "steps": clock.steps}
        summary |= {"left_out": [leak.to_dict() for leak in left_out]}
        folder.save_run(config, policy, summary, clock)
    if was_interrupted:
        checkpoints.tell()
    else:
        drop_checkpoints(folder.path)
    return TrainResult(policy, evaluation, audit, summary, folder, clock.steps, was_interrupted, split)


def _hold_out(log: BanditLog | PartitionedLog, config: TrainConfig) -> LogSplit | PiecesSplit:
    """Return the samples to learn from, and those to judge on."""
    if isinstance(log, PartitionedLog):
        return split_pieces(log, config.holdout, config.random_state)
    return split_log(log, config.holdout, config.random_state)


def read_for_training(config: TrainConfig) -> BanditLog | PartitionedLog:
    """Return the log of a run, whole or in pieces, with the propensities it has or is said to have."""
    scale = scale_of(config, is_training=True)
    if not scale.is_in_pieces:
        return read_training_log(config)
    log = scale.scan(config)
    check_training_log(log)
    return log


@contextmanager
def _telling_of(out: Path) -> Iterator[None]:
    """Say, if what comes after the training fails or is interrupted, that there is a policy all the same."""
    try:
        yield
    except BaseException:
        logger.warning(f"There is no verdict, but the policy is trained and saved: {out}")
        raise


# -- A single objective -----------------------------------------------------------------------------------------------


def boost(
    config: TrainConfig,
    rest: BanditLog | PartitionedLog,
    n_held_out: int,
    clock: StepClock,
    progress: bool,
    callbacks: Sequence[AnyCallback] = (),
    checkpoints: Checkpoints | None = None,
    level: int = logging.INFO,
) -> tuple[BoostedPolicy, bool]:
    """Return the trained policy of a single objective, and whether Ctrl-C cut the training short."""
    part, validation = parts = split_validation(rest, config.validation_fraction, config.random_state + 1)
    logger.log(
        level,
        f"Training on {part.n_samples:,} samples, choosing on {choosing_text(parts.facts)}, and holding out "
        f"{n_held_out:,} for the verdict.{_dropped_text(parts.facts)}",
    )
    fitting = _Fitting(config, part, validation, progress, tuple(callbacks), checkpoints)
    policy, was_interrupted = fitting.run(clock, level)
    logger.log(level, _describe_training(policy))
    return policy, was_interrupted


def choosing_text(facts: SplitFacts) -> str:
    """Return which samples choose, in a few words."""
    if facts.by == "time":
        return f"the latest {facts.test.n_samples:,}"
    return f"{facts.test.n_samples:,}{f' ({facts.drawn[2:]})' if facts.why_random else ''}"


def _dropped_text(facts: SplitFacts) -> str:
    if not facts.n_dropped:
        return ""
    return f" {facts.n_dropped:,} earlier samples of the same groups are not used for training."


@dataclass(frozen=True)
class _Fitting:
    """The boosting part of a run."""

    config: TrainConfig
    part: BanditLog | PartitionedLog
    validation: BanditLog | PartitionedLog
    progress: bool
    callbacks: tuple[AnyCallback, ...]
    checkpoints: Checkpoints | None

    def run(self, clock: StepClock, level: int) -> tuple[BoostedPolicy, bool]:
        """Return the trained policy, and whether Ctrl-C cut the training short."""
        if not self._is_chosen:
            given = self.config.reward_translation
            return self._fit_final(0.0 if given == AUTO else float(given), clock)
        # A log that is small enough is trained on in full for every candidate: then that is the training.
        with clock.step("train" if self.part.n_samples <= MAX_SAMPLES else "choose"):
            choice = choose_translation(
                self.make, self._fit_candidate, self.part, self.validation, seed=self.config.random_state
            )
        listed = ", ".join(f"{one:g} gives {value:.4g}" for one, value in choice.values.items())
        logger.log(
            level,
            f"Reward translation {choice.reward_translation:g}, by the validation samples' lower bounds: {listed}.",
        )
        if choice.is_interrupted:
            logger.log(level, "Interrupted: the choice is among the policies trained so far.")
        if choice.is_complete:
            return choice.policy, choice.is_interrupted
        return self._fit_final(choice.reward_translation, clock)

    @property
    def _is_chosen(self) -> bool:
        """Whether the validation samples choose the reward translation: with a reward model it changes nothing."""
        needs_model = get_objective(self.config.objective).needs_reward_model
        return self.config.reward_translation == AUTO and not needs_model

    def make(self, translation: float) -> BoostedPolicy:
        """Return the unfitted policy with one reward translation."""
        policy = make_policy(self.config, translation)
        rounds = self.config.early_stopping_rounds
        return policy.set_params(early_stopping_rounds=rounds, progress=self.progress)

    def _fit_final(self, translation: float, clock: StepClock) -> tuple[BoostedPolicy, bool]:
        policy = self.make(translation)
        with clock.step("train"):
            self._fit(policy, self.part, self.validation, 0.5 if self._is_chosen else 1.0)
        return policy, is_interrupted(policy)

    def _fit_candidate(self, policy: BoostedPolicy, workbench: Workbench, validation: BanditLog) -> None:
        # Then half of the time need not be left for training on all samples.
        is_final = workbench.log.n_samples == self.part.n_samples
        self._fit(policy, workbench.log, validation, (1.0 if is_final else 0.5) / len(SHARES), workbench)

    def _fit(
        self,
        policy: BoostedPolicy,
        log: BanditLog | PartitionedLog,
        validation: BanditLog | PartitionedLog,
        share: float,
        workbench: Workbench | None = None,
    ) -> None:
        """Fit a policy within its share of the time."""
        limit = [] if self.config.minutes is None else [TimeLimit(60.0 * share * self.config.minutes)]
        fit = partial(policy.fit, validation=validation, workbench=workbench)
        if isinstance(log, PartitionedLog):
            fit = partial(fit, cluster=self.config.cluster, memory=self.config.memory)
        (self.checkpoints or Keeper()).fit(fit, log, [*limit, *self.callbacks])


def make_policy(config: TrainConfig, translation: float) -> BoostedPolicy:
    """Return an unfitted policy with the settings of a run."""
    learner = HistTree(
        config.max_depth,
        min_child_weight=0.0,
        min_leaf_samples=config.min_leaf_samples,
        colsample=config.colsample,
        reg_lambda=config.reg_lambda,
        n_jobs=config.n_jobs,
    )
    objective = make_objective(config.objective, weight=parse_weight(config.weight), smoothness=config.smoothness)
    return BoostedPolicy(
        objective,
        learner,
        config.n_rounds,
        translation,
        start=config.start,
        learning_rate=config.learning_rate,
        certificate=False,
        progress=False,
        random_state=config.random_state,
    )


def _describe_training(policy: BoostedPolicy) -> str:
    made, kept = policy.history_.n_rounds, policy.n_rounds_
    rounds = f"all {made} rounds" if made == policy.n_rounds else f"{made} rounds ({policy.stop_reason_})"
    has_start = bool(policy.ensemble_.start.predictors)
    if made == 0:
        left = "the policy is the start of boosting" if has_start else "all actions are equally probable"
        return f"Boosting made no round ({policy.stop_reason_}): {left}."
    if kept == 0:
        return f"Boosting made {rounds}; none of them improved on the start."
    return f"Boosting made {rounds}{'' if kept == made else f'; the first {kept}, the best, are kept'}."
