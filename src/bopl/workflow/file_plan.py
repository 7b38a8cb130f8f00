"""How many decisions are needed, and whether more would help: plans and learning curves of log files."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from bopl._errors import UsageError
from bopl.evaluation import LearningCurve, Plan, learning_curve, plan
from bopl.log import BanditLog
from bopl.policy import load
from bopl.workflow.auditing import audit_for_training
from bopl.workflow.config import AUTO, TrainConfig
from bopl.workflow.deciding import describe_acting, sharpen_trained
from bopl.workflow.judging import align_policy, policy_names, read_for_policies
from bopl.workflow.racing import race
from bopl.workflow.reading import describe_log, noting, read_training_log, split_log
from bopl.workflow.run_folder import StepClock
from bopl.workflow.training import boost

logger = logging.getLogger(__name__)
SHARES = (0.125, 0.25, 0.5, 1.0)  # of the training samples, each twice the previous one
MIN_TRAINED = 100  # samples of a part that is worth training on


@dataclass(frozen=True)
class PlanQuestion:
    """A question about a log."""

    min_uplift: str | None = None  # a number, or a share of what is earned now, such as ``"1%"``
    power: float = 0.8

    def effect(self, log: BanditLog) -> float | None:
        """Return the minimum uplift of interest per decision."""
        if self.min_uplift is None:
            return None
        try:
            size = float(self.min_uplift.removesuffix("%"))
        except ValueError:
            size = np.nan
        if not (size > 0.0 and np.isfinite(size)):
            raise UsageError(f"min_uplift must be a positive number, or a share such as '1%'; got {self.min_uplift!r}.")
        if not self.min_uplift.endswith("%"):
            return size
        now = abs(float(log.reward.mean()))
        if now == 0.0:
            raise ValueError("the log earns nothing, so a share of it is not an uplift: give min_uplift as a number.")
        return size / 100.0 * now


@dataclass(frozen=True)
class FilePlan:
    """The plan of a log file."""

    log: BanditLog  # the samples that it is based on
    plan: Plan
    min_uplift: float | None  # per decision
    warnings: list[str]
    notes: list[str]  # what the values describe
    curve: LearningCurve | None = None

    @property
    def is_enough(self) -> bool:
        """Whether there are enough samples for the minimum uplift of interest, for every policy; true without one."""
        return self.min_uplift is None or all(row["n_for_min_uplift"] <= row["n"] for row in self.plan.rows)


def plan_file(config: TrainConfig, files: Sequence[str | Path], question: PlanQuestion) -> FilePlan:
    """Return the plan of a log for policy files, or for always taking one action if there are none."""
    if not files:
        log = read_training_log(config)
        return _planned(log, None, config, question, [])
    policies = {name: load(file) for name, file in zip(policy_names(files), files, strict=True)}
    with noting() as unseen:
        read = read_for_policies(policies, config)
        aligned = {name: align_policy(policy, read.log) for name, policy in read.policies.items()}
        found = _planned(read.log, aligned, config, question, read.acting)
    return replace(found, warnings=[*read.warnings, *dict.fromkeys(unseen)])


def _planned(log: BanditLog, policies: Any, config: TrainConfig, question: PlanQuestion, notes: list[str]) -> FilePlan:
    effect = question.effect(log)
    planned = plan(log, policies, min_uplift=effect, confidence=config.confidence, power=question.power)
    return FilePlan(log, planned, effect, [], notes)


def plan_curve(config: TrainConfig, question: PlanQuestion, *, progress: bool = False) -> FilePlan:
    """Return the learning curve of a log, and the plan for its policies.

    Policies are trained on an eighth, a quarter, a half and all of the samples that are not held out, each part within
    the next, with whole groups; ``minutes`` is for all of them together. Ctrl-C ends it without a result.
    """
    config.check_objective()
    log = read_training_log(config)
    logger.info(describe_log(log, config.paths))
    log = audit_for_training(log, config).log
    rest, held_out = split_log(log, config.holdout, config.random_state)
    effect = question.effect(held_out)
    parts = usable_parts(rest, config.random_state)
    total = sum(part.n_samples for part in parts)
    policies = {}
    for part in parts:
        logger.info(f"Training on {part.n_samples:,} samples, to be judged on the {held_out.n_samples:,} held out.")
        minutes = None if config.minutes is None else config.minutes * part.n_samples / total
        policies[part.n_samples] = _train(replace(config, minutes=minutes), part, progress)
    levels = {"confidence": config.confidence, "power": question.power}
    curve = learning_curve(held_out, policies, min_uplift=effect, **levels)
    return FilePlan(
        held_out, curve.plan, effect, [], [describe_acting(policies[max(policies)], "the last policy")], curve
    )


def _train(config: TrainConfig, log: BanditLog, progress: bool) -> Any:
    """Return the policy of a run on this log."""
    if config.objective == AUTO:
        policy, was_interrupted = race(config, log, StepClock(), progress=progress, level=logging.DEBUG)
    else:
        policy, was_interrupted = boost(config, log, 0, StepClock(), progress, level=logging.DEBUG)
    if was_interrupted:
        raise KeyboardInterrupt
    return sharpen_trained(policy, config, level=logging.DEBUG)


def usable_parts(log: BanditLog, seed: int) -> list[BanditLog]:
    """Return the parts of a log that can be trained on, from the smallest; raise if there are not two."""
    parts = [part for part in nested_parts(log, seed) if part.n_samples >= MIN_TRAINED and np.ptp(part.reward) > 0.0]
    sizes = dict.fromkeys(part.n_samples for part in parts)
    if len(sizes) < 2:
        raise ValueError(
            f"the log is too small for a learning curve: half of its {log.n_samples:,} training samples must be at "
            f"least {MIN_TRAINED} and have different rewards."
        )
    return list({part.n_samples: part for part in parts}.values())


def nested_parts(log: BanditLog, seed: int) -> Iterator[BanditLog]:
    """Yield random shares of a log, each part within the next, with whole groups."""
    unit = np.arange(log.n_samples) if log.group is None else log.group
    order = np.random.default_rng([seed, 11]).permutation(int(unit.max()) + 1)
    size = np.bincount(unit, minlength=len(order))[order]
    before = np.cumsum(size) - size
    for share in SHARES:
        is_in = np.zeros(len(order), dtype=bool)
        is_in[order[before < share * log.n_samples]] = True
        yield log.subset(np.flatnonzero(is_in[unit]))
