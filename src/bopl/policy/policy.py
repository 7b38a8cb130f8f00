"""`Policy`: from contexts to probabilities to actions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from inspect import signature
from typing import Any

import numpy as np

from bopl._errors import quoted
from bopl._native import column_names, is_frame
from bopl._policy_reader import logged_entries
from bopl._typing import AnyArray, BoolArray, ContextMatrix, FloatArray
from bopl.log.context import read_context
from bopl.policy.decision import (
    Decision,
    RandomState,
    action_at,
    actions_at,
    eligible_row,
    eligible_rows,
    new_event,
    uniform_number,
    uniform_numbers,
)
from bopl.policy.decision import draw_actions as draw_actions
from bopl.policy.decision import draw_labels as draw_labels


class Policy(ABC):
    """Something that chooses actions: define `predict_proba`, and the rest follows.

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
            Probability with which it was chosen; log it with the action.
        """
        return draw_labels(self.predict_proba(context), self.actions_, random_state)

    # -- One record at a time -------------------------------------------------------------------------------------

    @property
    def policy_id(self) -> str:
        """Name of the policy in a log of decisions: here that of its class, which suffices if the policy is code."""
        return f"{type(self).__module__}.{type(self).__qualname__}"

    def decide(
        self,
        record: Any,
        *,
        eligible: Any = None,
        random_state: RandomState = None,
        draw: float | None = None,
        event: str | None = None,
    ) -> Decision:
        """Draw an action for one record; a service calls this.

        Threads and forked processes can share a policy.

        Parameters
        ----------
        record : mapping, or sequence of n_features numbers
            Values by the name of their column, as `bopl.log.schema.LogSchema.encode_record` takes them.
        eligible : sequence of action labels, or of n_actions booleans, optional
            What can be chosen; all actions by default.
        random_state : int or Generator, optional
            Source of the draw; the operating system by default, so that no two processes share draws.
        draw : float in [0, 1), optional
            The uniform number itself, to replay a decision.
        event : str, optional
            Id of the event; a new one by default.

        Returns
        -------
        Decision
            The action, its propensity, the id of the event and that of the policy.
        """
        policy, labels = self._identity()
        mask = None if eligible is None else eligible_row(eligible, labels)[None]
        action_prob = self._records_proba([record], mask)[0]
        chosen = action_at(action_prob, uniform_number(random_state, draw))
        return Decision(labels[chosen], float(action_prob[chosen]), new_event() if event is None else event, policy)

    def decide_many(
        self,
        records: Sequence[Any],
        *,
        eligible: Sequence[Any] | None = None,
        random_state: RandomState = None,
        draw: Sequence[float] | FloatArray | None = None,
        events: Sequence[str] | None = None,
    ) -> list[Decision]:
        """Draw an action for each of several records; the arguments of `decide` are sequences here."""
        if events is not None and len(events) != len(records):
            raise ValueError(f"events has {len(events)} ids for {len(records)} records; each needs one.")
        if not len(records):
            return []
        policy, labels = self._identity()
        action_prob = self._records_proba(records, eligible_rows(eligible, labels, len(records)))
        chosen = actions_at(action_prob, uniform_numbers(len(records), random_state, draw)).tolist()
        propensity = logged_entries(action_prob, chosen).tolist()
        names = [new_event() for _ in chosen] if events is None else events
        return [
            Decision(labels[one], prob, name, policy) for one, prob, name in zip(chosen, propensity, names, strict=True)
        ]

    def record_proba(self, record: Any, *, eligible: Any = None) -> FloatArray:
        """Return the probabilities of all actions for one record, of shape (n_actions,); see `decide`."""
        mask = None if eligible is None else eligible_row(eligible, self._identity()[1])[None]
        found: FloatArray = self._records_proba([record], mask)[0]
        return found

    def records_proba(self, records: Sequence[Any], *, eligible: Sequence[Any] | None = None) -> FloatArray:
        """Return the probabilities of all actions for several records, of shape (n_records, n_actions)."""
        return self._records_proba(records, eligible_rows(eligible, self._identity()[1], len(records)))

    def _identity(self) -> tuple[str, list[Any]]:
        """Return the policy's id, and the actions as Python's own values."""
        return self.policy_id, list(self.actions_.tolist())

    def _records_proba(self, records: Sequence[Any], mask: BoolArray | None) -> FloatArray:
        if isinstance(records[0], Mapping):
            raise TypeError(
                f"{type(self).__name__} does not know the names of its columns; pass a sequence of numbers."
            )
        return self._masked_proba(np.asarray(records), mask)

    def _masked_proba(self, context: Any, mask: BoolArray | None) -> FloatArray:
        if mask is None:
            return self.predict_proba(context)
        if "action_mask" not in signature(self.predict_proba).parameters:
            raise TypeError(f"{type(self).__name__}.predict_proba takes no action_mask, so eligible cannot be given.")
        return self.predict_proba(context, action_mask=mask)  # type: ignore[call-arg]


def read_fitted_context(
    context: Any, n_features: int, feature_names: Sequence[str] | None, owner: str
) -> ContextMatrix:
    """Return contexts, after checking that they have the columns the policy was fitted on."""
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
