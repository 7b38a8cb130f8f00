"""Learning from the joined log: train on the older part, judge on the newest against what runs now."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from bopl._typing import FloatArray
from bopl.evaluation import Evaluation
from bopl.evaluation.estimator_registry import ESTIMATORS
from bopl.evaluation.verdict import BETTER
from bopl.log import BanditLog
from bopl.log.finding import Audit
from bopl.log.format import read_parts
from bopl.log.log_split import Division, divide
from bopl.serving.columns import ROLES
from bopl.serving.settings import LoopSettings
from bopl.workflow.auditing import audit_for_training
from bopl.workflow.config import AUTO, TrainConfig, make_config
from bopl.workflow.deciding import sharpen_trained
from bopl.workflow.judging import chosen_estimators, evaluate_as_set, fit_reward_model, probabilities_on
from bopl.workflow.racing import race
from bopl.workflow.reading import noting, read_training_log
from bopl.workflow.run_folder import StepClock, without_machine
from bopl.workflow.training import boost

logger = logging.getLogger(__name__)
NEW, RUNNING = "new", "running"


@dataclass(frozen=True)
class Learned:
    """A trained candidate, and what the newest part of the log says of it and of others."""

    policy: Any
    # of ``"new"`` and of the other contenders by their ids, against ``"running"``, or against the caller who
    # decides
    evaluation: Evaluation
    audit: Audit
    fingerprint: str  # of the log
    split: dict[str, Any]  # what was trained on and what was held out
    left_aside: dict[str, str]  # id to sentence: contenders that could not be judged

    def best(self) -> tuple[str, Mapping[str, Any]]:
        """Return the name of the most promising contender, those that are better first, and its comparison."""
        rows = [{**row, **self.evaluation.decision(row["policy"])} for row in self._differences()]
        better = [row for row in rows if row["verdict"] == BETTER]
        if better:
            best = max(better, key=lambda row: row["lower"])
        else:
            best = next(row for row in rows if row["policy"] == NEW)
        return best["policy"], best

    def _differences(self) -> list[dict[str, Any]]:
        """Return the difference of each contender to what runs now."""
        rows: list[Any] = [row for row in self.evaluation.comparisons if row["other"] == RUNNING]
        columns = ("difference", "ci_lower", "ci_upper")
        if not self.evaluation.comparisons:
            rows = [row for row in self.evaluation.rows if row["is_primary"]]
            columns = ("uplift", "uplift_ci_lower", "uplift_ci_upper")
        names = ("difference", "lower", "upper")
        return [
            {"policy": row["policy"], **dict(zip(names, (row[one] for one in columns), strict=True))} for row in rows
        ]


def training_config(log: Path, settings: LoopSettings, confidence: float) -> TrainConfig:
    """Return the settings of the training: those of ``[train]``, and what follows from the loop."""
    given: dict[str, Any] = {
        "log": str(log),
        "holdout": settings.holdout,
        "min_uplift": settings.min_uplift,
        "confidence": confidence,
    }
    return make_config(settings.train, given, propensity_settings(log, settings.train))


def propensity_settings(log: Path, train: Mapping[str, Any]) -> dict[str, Any]:
    """Return how propensities are read: what callers did not say is estimated, or left out where others have been said.

    An apprentice learns from its caller's decisions; once it decides itself, its own are enough.
    """
    missing = read_parts(log, columns=[ROLES["propensity"]]).table[ROLES["propensity"]]
    if missing.null_count == 0 or "assume_propensity" in train:
        return {}
    if missing.null_count == len(missing):
        return {"assume_propensity": "estimate"}
    known = f"not {ROLES['propensity']} is missing"
    return {"where": f"({train['where']}) and {known}" if train.get("where") else known}


def learn(
    log: Path,
    settings: LoopSettings,
    running: Any,
    contenders: Mapping[str, Any],
    *,
    confidence: float,
    is_caller: bool = False,
    progress: bool = False,
) -> Learned:
    """Train a candidate on the older part of the log and judge it on the newest, beside other contenders.

    Parameters
    ----------
    log : Path
        The folder of joined decisions.
    settings : LoopSettings
    running : policy or None
        What runs now; None is the uniform policy.
    contenders : mapping of id to policy
        Others that may take its place.
    confidence : float
        Of the verdicts on all of them together.
    is_caller : bool
        Whether the caller decides, and is what runs now.
    progress : bool
    """
    config = training_config(log, settings, confidence)
    config.check_objective()
    read = read_training_log(config)
    audited = audit_for_training(read, config)
    fingerprint = audited.log.fingerprint()
    division = divide(audited.log, config.holdout, by="time")
    rest, held_out = parts = division.split(audited.log)
    logger.info(parts.facts.sentence)
    policy = train_candidate(config, rest, len(held_out), progress)
    policy.trained_on_ = fingerprint
    others, left_aside = _judgeable(contenders, audited.log, division, config)
    running_prob = None if is_caller else _probabilities(running, audited.log, division, config)
    evaluation = judge_against(held_out, policy, others, running_prob, config, fit_reward_model(rest, config))
    return Learned(without_machine(policy), evaluation, audited.audit, fingerprint, parts.facts.to_dict(), left_aside)


def train_candidate(config: TrainConfig, rest: BanditLog, n_held_out: int, progress: bool) -> Any:
    """Return the winner of the race, or the policy of a single objective."""
    if config.objective == AUTO:
        policy, _ = race(config, rest, StepClock(), progress=progress)
    else:
        policy, _ = boost(config, rest, n_held_out, StepClock(), progress)
    return sharpen_trained(policy, config)


def judge_against(
    held_out: BanditLog,
    policy: Any,
    others: Mapping[str, FloatArray],
    running: FloatArray | None,
    config: TrainConfig,
    reward_model: Any,
) -> Evaluation:
    """Return what the held-out samples say of contenders against what runs now: a policy, or what wrote the log."""
    names = [name for name in chosen_estimators(config) if config.estimators is not None or ESTIMATORS[name].is_default]
    if reward_model is None and config.estimators is None:
        names = [name for name in names if not ESTIMATORS[name].needs]
    policies = {NEW: policy, **others, **({} if running is None else {RUNNING: running})}
    against = None if running is None else RUNNING
    return evaluate_as_set(config, held_out, policies, names, reward_model=reward_model, against=against)


def _judgeable(
    contenders: Mapping[str, Any], log: BanditLog, division: Division, config: TrainConfig
) -> tuple[dict[str, FloatArray], dict[str, str]]:
    """Return the probabilities of contenders on the held-out samples, and why others have none."""
    found: dict[str, FloatArray] = {}
    left_aside: dict[str, str] = {}
    for name, policy in contenders.items():
        try:
            found[name] = _probabilities(policy, log, division, config)
        except (ValueError, TypeError, KeyError) as error:  # trained on other columns than this loop has
            left_aside[name] = str(error)
    return found, left_aside


def _probabilities(policy: Any, log: BanditLog, division: Division, config: TrainConfig) -> FloatArray:
    """Return what a policy does on the held-out samples, read in the columns that it was fitted on."""
    if policy is None:
        mask = np.ones((log.n_samples, log.n_actions), dtype=bool) if log.action_mask is None else log.action_mask
        uniform: FloatArray = mask / mask.sum(axis=1, keepdims=True)
        return uniform[division.test]
    roles: dict[str, Any] = dict(ROLES)
    named = replace(config, **roles, context=None, ignore=(), categorical=(), keep=())
    with noting():
        found = probabilities_on(policy, log, named)
    return _on_known(found, log)[division.test]


def _on_known(action_prob: FloatArray, log: BanditLog) -> FloatArray:
    """Return probabilities in which a sample whose eligible actions a policy does not know has uniform ones.

    So it is served, too.
    """
    total = action_prob.sum(axis=1)
    lost = ~(total > 0.5)
    if not lost.any():
        return action_prob
    mask = np.ones_like(action_prob, dtype=bool) if log.action_mask is None else log.action_mask
    return np.where(lost[:, None], mask / mask.sum(axis=1, keepdims=True), action_prob)
