"""`ServedMixture`: what is served under a promotion: policy, baseline and exploration, as one distribution."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import compress
from typing import Any, Protocol

import numpy as np

from bopl._errors import UsageError, quoted
from bopl._typing import AnyArray, BoolArray, FloatArray, IntArray
from bopl.policy.decision import actions_at
from bopl.serving.record import BASELINE, MIXTURE, UNIFORM, Action, DecisionRow, PromotionRow

MAX_ROUNDING = 1e-6


class RecordPolicy(Protocol):
    """What is asked of a policy here."""

    actions_: AnyArray
    n_features_in_: int

    def record_proba(self, record: Any, *, eligible: Any = None) -> FloatArray:
        """Return the probabilities of its actions for one record."""
        ...


@dataclass(frozen=True, eq=False)
class _Place:
    """A policy, its actions, and where they stand among all."""

    policy: RecordPolicy
    labels: list[Action]
    position: IntArray

    @classmethod
    def of(cls, policy: RecordPolicy, position: Mapping[Any, int]) -> _Place:
        labels = policy.actions_.tolist()
        return cls(policy, labels, np.array([position[_key(one)] for one in labels]))


@dataclass(frozen=True, eq=False)
class Chosen:
    """A drawn action with its probabilities: under what was asked, and under policy and baseline alone."""

    action: Action
    propensity: float | None  # None where a caller decided and did not say
    policy_prob: float | None
    baseline_prob: float | None


@dataclass(frozen=True, eq=False)
class ServedMixture:
    """The distribution of decisions under one promotion.

    With the promotion's share s and K eligible actions, an eligible action has the probability ::

        (1 - u) (s · policy + (1 - s) · baseline) + u / K,    u = min(1, max(exploration, K · min_propensity))

    so that none is below ``min_propensity`` as long as K of them fit.

    Parameters
    ----------
    promotion : PromotionRow
        What is served, and its share.
    policy, baseline : policy or None
        None stands for the uniform policy.
    """

    promotion: PromotionRow
    policy: RecordPolicy | None
    baseline: RecordPolicy | None
    actions: tuple[Action, ...] = field(init=False)
    _position: Mapping[Any, int] = field(init=False, repr=False)
    _places: tuple[_Place | None, _Place | None] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        labels: dict[Any, Action] = {}
        for known in (self.policy, self.baseline):
            labels |= {} if known is None else {_key(one): one for one in known.actions_.tolist()}
        for one in self.promotion.actions or ():
            labels.setdefault(_key(one), one)
        position = {key: place for place, key in enumerate(labels)}
        object.__setattr__(self, "actions", tuple(labels.values()))
        object.__setattr__(self, "_position", position)
        places = tuple(None if one is None else _Place.of(one, position) for one in (self.policy, self.baseline))
        object.__setattr__(self, "_places", places)

    # -- Distributions ----------------------------------------------------------------------------------------------

    def mask(self, eligible: Sequence[Action] | None) -> BoolArray:
        """Return which actions are eligible, or raise one sentence about one that is not known."""
        if not self.actions:
            raise UsageError("the loop knows no actions: list them as actions in loop.toml, or promote a policy.")
        if eligible is None:
            return np.ones(len(self.actions), dtype=bool)
        found = [self._position.get(_key(one), -1) for one in eligible]
        if -1 in found:
            unknown = [one for one, position in zip(eligible, found, strict=True) if position < 0]
            raise UsageError(
                f"eligible lists {quoted(unknown[:3])}, unknown here; a new action must be listed as one of actions in "
                "loop.toml first."
            )
        if not found:
            raise UsageError("eligible is empty: name at least one action, or leave it out for all.")
        mask = np.zeros(len(self.actions), dtype=bool)
        mask[found] = True
        return mask

    def knows(self, action: Action) -> bool:
        """Return whether it is one of the actions."""
        return _key(action) in self._position

    def policy_alone(self, record: Mapping[str, Any], mask: BoolArray) -> FloatArray:
        """Return the probabilities of the policy, without baseline and exploration."""
        return self._alone(self._places[0], record, mask)

    def baseline_alone(self, record: Mapping[str, Any], mask: BoolArray) -> FloatArray:
        """Return the probabilities of the baseline, without policy and exploration."""
        return self._alone(self._places[1], record, mask)

    def explored(self, action_prob: FloatArray, mask: BoolArray) -> FloatArray:
        """Return probabilities mixed with exploration."""
        n_eligible = int(mask.sum())
        share = min(1.0, max(self.promotion.exploration, n_eligible * self.promotion.min_propensity))
        return (1.0 - share) * action_prob + np.where(mask, share / n_eligible, 0.0)

    def _alone(self, place: _Place | None, record: Mapping[str, Any], mask: BoolArray) -> FloatArray:
        if place is not None:
            allowed = mask[place.position]
            if allowed.any():
                eligible = None if allowed.all() else list(compress(place.labels, allowed.tolist()))
                found = np.zeros(len(self.actions))
                found[place.position] = place.policy.record_proba(record, eligible=eligible)
                total = float(found.sum())
                if not abs(total - 1.0) < MAX_ROUNDING:
                    raise ArithmeticError(f"the policy's probabilities sum to {total:g}.")
                return found
        return mask / mask.sum()  # it knows none of them

    # -- Decisions --------------------------------------------------------------------------------------------------

    def decide(
        self, record: Mapping[str, Any], eligible: Sequence[Action] | None, draw: float, decider: str = MIXTURE
    ) -> Chosen:
        """Return the action that a uniform number stands for, with its propensity.

        Parameters
        ----------
        record : mapping
            Values by the name of their column.
        eligible : sequence of actions, optional
            All by default.
        draw : float in [0, 1)
            The uniform number that chooses.
        decider : {"mixture", "baseline", "uniform"}
            What the action is drawn from; the last two are for fallbacks, and have exploration mixed in too.
        """
        mask = self.mask(eligible)
        parts, served = self._parts(record, mask, decider)
        served = self.explored(served, mask)
        chosen = int(actions_at(served[None], np.array([draw]))[0])
        policy_prob, baseline_prob = (None if one is None else float(one[chosen]) for one in parts)
        return Chosen(self.actions[chosen], float(served[chosen]), policy_prob, baseline_prob)

    def row(
        self, event: str, record: Mapping[str, Any], eligible: list[Action] | None, draw: float, chosen: Chosen
    ) -> DecisionRow:
        """Return what is kept of a decision that was drawn from the mixture; it gets its time when it is written."""
        served, taken = (self.promotion.id, self.promotion.policy), (chosen.action, chosen.propensity)
        probs = (chosen.policy_prob, chosen.baseline_prob)
        return DecisionRow(event, 0, *served, *taken, record, eligible, draw, MIXTURE, None, *probs)

    def prob_of(self, record: Mapping[str, Any], eligible: Sequence[Action] | None, action: Action) -> float | None:
        """Return the probability of an action under what is served; None if it is not known or not eligible."""
        mask = self.mask(eligible)
        position = self._position.get(_key(action))
        if position is None or not mask[position]:
            return None
        return float(self.explored(self._parts(record, mask, MIXTURE)[1], mask)[position])

    def _parts(
        self, record: Mapping[str, Any], mask: BoolArray, decider: str
    ) -> tuple[tuple[FloatArray | None, FloatArray | None], FloatArray]:
        """Return policy and baseline alone, where they were asked, and what decides before exploration."""
        if decider == UNIFORM:
            return (None, None), mask / mask.sum()
        share = self.promotion.share
        # A baseline without a share is not asked: it costs time, and may not understand the record.
        baseline = None if decider == MIXTURE and share == 1.0 else self.baseline_alone(record, mask)
        if decider == BASELINE:
            assert baseline is not None
            return (None, baseline), baseline
        policy = self.policy_alone(record, mask)
        return (policy, baseline), policy if baseline is None else share * policy + (1.0 - share) * baseline


def _key(label: Any) -> Any:
    """Return what a label is found by: Python takes true for 1, and JSON does not."""
    if isinstance(label, list | tuple):
        return tuple(_key(one) for one in label)
    return (label,) if isinstance(label, bool) else label
