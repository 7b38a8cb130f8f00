"""`BoostingPlan`: what the settings of a `BoostedPolicy` mean, for a log in memory and for one in pieces."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bopl._exact import exact_mean
from bopl._settings import check_choice, check_flag, check_number
from bopl._typing import FloatArray
from bopl.boosting import Problem, Start, StepRule
from bopl.boosting.ensemble import STARTS
from bopl.boosting.workbench import Workbench, describe_model
from bopl.learner import default_learner
from bopl.learner.store import learner_settings, settings_of
from bopl.log import BanditLog
from bopl.objective import Objective, TrainingData, get_objective
from bopl.objective.registry import check_objective, describe

if TYPE_CHECKING:
    from bopl.policy.boosted import BoostedPolicy


@dataclass(frozen=True)
class BoostingPlan:
    """Objective, learner, steps and start of a policy that is to be boosted."""

    policy: BoostedPolicy  # with the settings
    objective: Objective
    learner: Any
    start_parts: tuple[str, ...]  # summands of the start; none if it is uniform

    @classmethod
    def of(cls, policy: BoostedPolicy, validation: Any = None) -> BoostingPlan:
        """Return the plan of a policy, after checking its settings."""
        objective = get_objective(policy.objective)
        check_objective(objective)
        _check_settings(policy, validation)
        if policy.start is None:
            parts: tuple[str, ...] = ("logging", "reward_model") if objective.needs_reward_model else ()
        else:
            parts = () if policy.start == "uniform" else tuple(policy.start.split("+"))
        return cls(policy, objective, default_learner() if policy.learner is None else policy.learner, parts)

    @property
    def needs_reward_model(self) -> bool:
        """Whether the objective or the start needs a model of the reward."""
        return self.objective.needs_reward_model or "reward_model" in self.start_parts

    @property
    def uses_models(self) -> bool:
        """Whether anything is cross-fitted before the first round."""
        return bool(self.start_parts) or self.objective.needs_reward_model

    @property
    def step_rule(self) -> StepRule:
        """The rule for the step size."""
        return StepRule(self.policy.ensemble_weight_penalty, self.policy.scale, self.policy.learning_rate)

    @property
    def n_threads(self) -> int:
        """The number of threads of the learner, or all processors."""
        given = (settings_of(self.learner) or {}).get("n_jobs")
        return int(given) if given is not None and given > 0 else os.cpu_count() or 1

    def check_has_reward(self, has_reward: bool, n_samples: int) -> None:
        """Raise if rounds are requested and all rewards are zero; a race starts candidates without this."""
        if self.policy.n_rounds > 0 and not self.objective.needs_reward_model and not has_reward:
            raise ValueError(
                f"all {n_samples} rewards are zero after adding reward_translation={self.policy.reward_translation:g}: "
                "there is nothing to learn from. Use another translation, or check the reward column."
            )

    def check_rewards(self, log: BanditLog) -> None:
        """Raise if there is nothing to learn from the rewards of a log in memory."""
        self.check_has_reward(bool(np.any(log.translated(self.policy.reward_translation).reward)), log.n_samples)

    def check_resume(self, resume_from: str | Path | None) -> None:
        """Raise if a checkpoint is given but its random draws cannot be repeated."""
        is_drawn = self.policy.validation_fraction is not None or self.uses_models
        if resume_from is not None and self.policy.random_state is None and is_drawn:
            raise ValueError(
                "resume_from needs a random_state here, or the validation samples and the folds would be different. "
                "Set random_state."
            )

    def start_factor(self, spread: float) -> float:
        """Return beta, the factor of the reward model in the start, for rewards of some standard deviation."""
        return float(self.policy.start_sharpness / (spread or 1.0))

    def problem(self, workbench: Workbench) -> Problem:
        """Return the boosting problem: data, objective and start."""
        policy, parts, log = self.policy, self.start_parts, workbench.log
        rewards = (
            workbench.rewards(policy.reward_model, has_prior=policy.reward_prior) if self.needs_reward_model else None
        )
        start, logging = Start(), workbench.logging() if "logging" in parts else None
        factor = self.start_factor(_spread_of(log.reward, workbench.sample_weight))
        if logging is not None:
            start = start + logging.start()
        if "reward_model" in parts:
            assert rewards is not None
            start = start + rewards.start(factor)

        # Training starts at estimates that have not seen their samples; the policy has the folds' mean, for new
        # contexts. Starting at the mean would overstate the start on the log, and boosting would correct what is not
        # wrong.
        def cross_fitted_score() -> FloatArray:
            score = np.zeros((log.n_samples, log.n_actions), order="F")
            if logging is not None:
                score += logging.log_prob
            if "reward_model" in parts and rewards is not None:
                for action in range(log.n_actions):  # in place, a column at a time
                    score[:, action] += factor * rewards.estimate[:, action]
            return score

        estimate = rewards.estimate if rewards is not None and self.objective.needs_reward_model else None
        data = TrainingData(log, estimate, workbench.sample_weight)
        score = cross_fitted_score if parts else None
        return Problem(data, self.objective, policy.reward_translation, start, score, policy.certificate)

    def round_settings(self, sample_weight: FloatArray | None, n_folds: int, seed: int) -> dict[str, Any]:
        """Return the settings that determine a round, as plain values; a checkpoint can be resumed only under these."""
        policy = self.policy
        return {
            "objective": describe(self.objective),
            "learner": learner_settings(self.learner),
            "reward_translation": float(policy.reward_translation),
            "start": "+".join(self.start_parts) or "uniform",
            "start_sharpness": float(policy.start_sharpness),
            "reward_model": None if policy.reward_model is None else describe_model(policy.reward_model),
            "reward_prior": bool(policy.reward_prior),
            "n_folds": int(n_folds),
            # Other folds would mean other estimates; without models, only the checkpoint's own seed matters.
            "random_state": int(seed) if self.uses_models else None,
            "sample_weight": None if sample_weight is None else hashlib.sha256(sample_weight.tobytes()).hexdigest(),
            "learning_rate": float(policy.learning_rate),
            "ensemble_weight_penalty": float(policy.ensemble_weight_penalty),
            "scale": None if policy.scale is None else float(policy.scale),
            "certificate": bool(policy.certificate),
        }


def _check_settings(policy: BoostedPolicy, validation: Any) -> None:
    check_number("n_rounds", policy.n_rounds, low=0, integer=True)
    for name in ("reward_prior", "certificate", "progress"):
        check_flag(name, getattr(policy, name))
    check_number("reward_translation", policy.reward_translation, low_open=True, high_open=True)
    if policy.start is not None:
        check_choice("start", policy.start, STARTS)
    check_number("start_sharpness", policy.start_sharpness, low=0.0, high=np.inf, high_open=True)
    check_number("n_folds", policy.n_folds, low=2, integer=True)
    check_number("learning_rate", policy.learning_rate, low=0.0, high=1.0, low_open=True)
    check_number("inverse_temperature", policy.inverse_temperature, low=0.0)
    check_number("ensemble_weight_penalty", policy.ensemble_weight_penalty, low=0.0)
    if policy.scale is not None:
        check_number("scale", policy.scale, low=1e-100, high=1e100)
    if policy.validation_fraction is not None:
        check_number(
            "validation_fraction", policy.validation_fraction, low=0.0, high=1.0, low_open=True, high_open=True
        )
    if policy.early_stopping_rounds is not None:
        check_number("early_stopping_rounds", policy.early_stopping_rounds, low=1, integer=True)
        if validation is None and policy.validation_fraction is None:
            raise ValueError(
                f"early_stopping_rounds={policy.early_stopping_rounds} needs a validation log: pass validation=… "
                "to fit, or set validation_fraction."
            )


def _spread_of(reward: FloatArray, sample_weight: FloatArray | None) -> float:
    """Return the standard deviation of weighted rewards."""
    mean = exact_mean(reward, sample_weight)
    return float(np.sqrt(exact_mean((reward - mean) ** 2, sample_weight)))
