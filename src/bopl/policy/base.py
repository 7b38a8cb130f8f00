"""`Policy`: from contexts to probabilities to actions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np

from bopl._typing import AnyArray, ContextMatrix, FloatArray, IntArray
from bopl.log.context import column_names, is_frame, quoted, read_context


class Policy(ABC):
    """Something that chooses actions: give `predict_proba` and the rest follows.

    Attributes
    ----------
    actions_ : ndarray of shape (n_actions,)
        Labels of the actions, in the order of the columns of `predict_proba`.
    """

    actions_: AnyArray

    @abstractmethod
    def predict_proba(self, context: Any) -> FloatArray:
        """Return probabilities of all actions, of shape (n_samples, n_actions)."""

    def predict(self, context: Any) -> AnyArray:
        """Return the most probable action for each context (the first in the order of ``actions_`` among ties)."""
        return self.actions_[self.predict_proba(context).argmax(axis=1)]

    def sample(
        self, context: Any, *, random_state: int | np.random.Generator | None = None
    ) -> tuple[AnyArray, FloatArray]:
        """Draw an action for each context.

        Returns
        -------
        action : ndarray of shape (n_samples,)
            What to do.
        propensity : ndarray of shape (n_samples,)
            Probability with which it was chosen: what to log next to it.
        """
        return draw_labels(self.predict_proba(context), self.actions_, random_state)


def draw_labels(
    action_prob: FloatArray, actions: AnyArray, random_state: int | np.random.Generator | None
) -> tuple[AnyArray, FloatArray]:
    """Return one drawn action label per row, and the probability it was drawn with."""
    chosen = draw_actions(action_prob, np.random.default_rng(random_state))
    return actions[chosen], action_prob[np.arange(len(chosen)), chosen]


def draw_actions(action_prob: FloatArray, rng: np.random.Generator) -> IntArray:
    """Return one action position per row, drawn from its probabilities."""
    cumulative = np.cumsum(action_prob, axis=1)
    # Rounding may leave the last cumulative value short of 1: scale the draw to what is there, and stay below it.
    total = cumulative[:, -1:]
    threshold = np.minimum(rng.random(len(action_prob))[:, None] * total, np.nextafter(total, 0.0))
    return (cumulative <= threshold).sum(axis=1)


def read_fitted_context(
    context: Any, n_features: int, feature_names: Sequence[str] | None, owner: str
) -> ContextMatrix:
    """Return contexts to predict on, after checking that they have the columns the policy was fitted on."""
    if is_frame(context) and feature_names is not None:
        _check_frame_names([str(name) for name in column_names(context)], list(feature_names))
    matrix, _ = read_context(context)
    if matrix.shape[1] != n_features:
        raise ValueError(
            f"context has {matrix.shape[1]} columns: X has {matrix.shape[1]} features, but {owner} is expecting "
            f"{n_features} features as input."
        )
    return matrix


def _check_frame_names(names: list[str], fitted: list[str]) -> None:
    if names == fitted:
        return
    text = "The feature names should match those that were passed during fit."
    unseen, missing = [name for name in names if name not in fitted], [name for name in fitted if name not in names]
    if unseen:
        text += f"\nFeature names unseen at fit time:\n- {quoted(sorted(unseen))}"
    if missing:
        text += f"\nFeature names seen at fit time, yet now missing:\n- {quoted(sorted(missing))}"
    if not unseen and not missing:
        text += "\nFeature names must be in the same order as they were in fit."
    raise ValueError(text)
