"""Rows of the event store: frozen records, with times in microseconds since 1970 (UTC)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, TypeAlias

Action: TypeAlias = str | int | float | bool | tuple[Any, ...]

OK, LATE, UNKNOWN, DUPLICATE = "ok", "late", "unknown", "duplicate"
MIXTURE, BASELINE, CALLER = "mixture", "baseline", "caller"
UNIFORM = "uniform"  # stands in the place of a policy's id where every eligible action is equally likely


@dataclass(frozen=True)
class DecisionRow:
    """One decision, as it was answered.

    Attributes
    ----------
    event : str
        Id of the decision; whoever asks again with it gets the same answer.
    time : int
        Microseconds since 1970; never falls from one decision to the next.
    promotion : int
        Row of `PromotionRow` that says what was served: policy, share, baseline and exploration.
    policy : str
        Id of the policy that was promoted at that time, or ``"uniform"``.
    action : str, int, float, bool or tuple
    propensity : float or None
        Probability of the action under what was served, in full precision; None where a caller decided and did not say.
    context : dict
        The record, as it came.
    eligible : list or None
        Actions that were allowed; None for all.
    draw : float
        The uniform number in [0, 1) that chose the action.
    decider : str
        What the action was drawn from: ``"mixture"`` (what is served), in a fallback ``"baseline"`` or ``"uniform"``,
        both with exploration; ``"caller"`` where the loop is an apprentice.
    fallback : str or None
        Why something other than the mixture decided: ``"bad_record"``, ``"exception"`` or ``"time"``.
    policy_prob, baseline_prob : float or None
        Probability of the action under the policy and under the baseline alone, where they were asked.
    is_active : bool
        False for a decision that counts only once it is activated.
    shadow : dict or None
        For an apprentice: what it would have done (``action``, ``propensity``, and ``caller_propensity``, its own
        probability of the caller's action).
    """

    event: str
    time: int
    promotion: int
    policy: str
    action: Action
    propensity: float | None
    context: Mapping[str, Any]
    eligible: list[Action] | None
    draw: float
    decider: str = MIXTURE
    fallback: str | None = None
    policy_prob: float | None = None
    baseline_prob: float | None = None
    is_active: bool = True
    shadow: Mapping[str, Any] | None = None

    @property
    def is_fallback(self) -> bool:
        """Whether something other than the served mixture decided."""
        return self.fallback is not None

    @property
    def is_apprentice(self) -> bool:
        """Whether the caller decided."""
        return self.decider == CALLER


@dataclass(frozen=True)
class RewardRow:
    """One reward; ``key`` tells the rewards of one event apart."""

    event: str
    key: str
    value: float
    time: int
    status: str
    n_received: int = 1


@dataclass(frozen=True)
class PromotionRow:
    """What is served from a time on: ``share`` of the policy, the rest of the baseline, both mixed with exploration.

    The newest row is in force; it is the only place where that is written. ``actions`` are those that neither policy
    knows yet: only exploration takes them.
    """

    policy: str
    share: float
    baseline: str
    exploration: float
    min_propensity: float
    reason: str
    verdict: Mapping[str, Any] | None = None
    log_fingerprint: str | None = None
    actions: list[Action] | None = None
    time: int = 0
    id: int = field(default=0)


def to_json(value: Any) -> str:
    """Return JSON whose numbers are read back to the last bit; NaN and infinity are refused."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def names(kind: type) -> tuple[str, ...]:
    """Return the columns of a record's table."""
    return tuple(entry.name for entry in fields(kind))


def as_label(value: Any) -> Any:
    """Return the label of an action that JSON holds: a tuple has become a list there."""
    return tuple(as_label(one) for one in value) if isinstance(value, list) else value
