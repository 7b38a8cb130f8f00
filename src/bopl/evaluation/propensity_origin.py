"""Where an evaluation takes its propensities from: the log, a declaration, a model, or several logging policies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from bopl._policy_reader import logged_entries
from bopl._settings import check_choice
from bopl._typing import BoolArray, FloatArray
from bopl.log import BanditLog, PartitionedLog
from bopl.objective.softmax import softmax

PROPENSITY_CHOICES = ("estimate", "uniform")


@dataclass(frozen=True, eq=False)
class PropensityOrigin:
    """What the caller says of the logging policy; the fields are keywords of `bopl.evaluate`, which describes them."""

    propensity: str | None = None
    propensity_model: object = None
    logging_policy: object = None
    logger: object = None
    logger_propensity: object = None

    def on(self, log: BanditLog, n_folds: int, seed: int) -> tuple[BanditLog, Any]:
        """Return the log with its propensities, and the logging policy in full where that makes it known."""
        if (self.logger is None) != (self.logger_propensity is None):
            raise ValueError("logger and logger_propensity belong together: pass both or none.")
        if self.propensity is None:
            log = log if self.logger is None else log.balanced(self.logger, self.logger_propensity)
            log.require_propensity()
            return log, self.logging_policy
        check_choice("propensity", self.propensity, PROPENSITY_CHOICES)
        if self.logging_policy is not None or self.logger is not None:
            raise ValueError(
                f"propensity={self.propensity!r} stands in for a logging policy that is not known: pass one of them."
            )
        if self.propensity == "uniform":
            return log.with_propensity("uniform"), UniformPolicy(log.n_actions)
        from bopl.evaluation.propensity import estimate_logging_prob  # with the booster

        action_prob = estimate_logging_prob(log, model=self.propensity_model, n_folds=n_folds, random_state=seed)
        logged = logged_entries(action_prob, log.action_idx)
        return log.with_propensity(logged, source="estimated"), action_prob

    def on_pieces(self, log: PartitionedLog) -> tuple[PartitionedLog, Any]:
        """Return the same of a log in pieces, which has propensities of its own or those declared uniform."""
        if self.propensity == "uniform":
            return log.with_propensity("uniform"), UniformPolicy(log.n_actions)
        return log, self.logging_policy


@dataclass(frozen=True)
class UniformPolicy:
    """Takes every eligible action with the same probability."""

    n_actions: int

    def predict_proba(self, context: Any, *, action_mask: BoolArray | None = None) -> FloatArray:
        """Return probabilities of all actions, of shape (n_samples, n_actions)."""
        return softmax(np.zeros((context.shape[0], self.n_actions)), action_mask=action_mask)
