"""The verdict on a canary: the decisions made while it had a share of the traffic, looked at as often as one likes.

Two promises are kept at every look together: a canary that is not better is called better with probability
``(1 - confidence) / 2`` at most, and so is one that is not worse called worse. See `bopl.evaluation.sequential`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from bopl._typing import FloatArray
from bopl.evaluation.question import parse_min_uplift
from bopl.evaluation.sequential import (
    DifferenceBounds,
    DifferenceTerms,
    anytime_difference,
    difference_terms,
    max_log_capital,
)
from bopl.evaluation.verdict import BETTER, INCONCLUSIVE, WORSE
from bopl.serving.columns import ROLES
from bopl.serving.events import EventStore
from bopl.serving.folder import LoopFolder
from bopl.serving.joining import joined_files
from bopl.serving.promotion import Standing
from bopl.serving.record import MIXTURE, PromotionRow
from bopl.serving.settings import LoopSettings

_COLUMNS = ("_promotion", "_event", "_decider", "_policy_prob", "_baseline_prob", ROLES["propensity"], ROLES["reward"])
DOUBT = 0.8  # confidence of the bounds that put a policy with all traffic in doubt


@dataclass(frozen=True, eq=False)
class TrialRows:
    """Joined decisions that were drawn from what was served during a trial, in their order."""

    promotion: Any  # (n_samples,): id of the promotion that each was made under
    policy_prob: FloatArray  # (n_samples,): what the policy gives to the action that was taken
    baseline_prob: FloatArray  # (n_samples,): what the one that it is compared with gives to it
    propensity: FloatArray  # (n_samples,)
    reward: FloatArray  # (n_samples,)
    n_actions: int  # how many can be eligible at most

    def of(self, promotions: Sequence[PromotionRow]) -> TrialRows:
        """Return the rows of some promotions."""
        kept = np.isin(self.promotion, [row.id for row in promotions])
        names = [entry.name for entry in fields(self) if entry.name != "n_actions"]
        return replace(self, **{name: getattr(self, name)[kept] for name in names})

    def __len__(self) -> int:
        return len(self.reward)


def trial_rows(loop: LoopFolder, store: EventStore, standing: Standing) -> TrialRows:
    """Return the joined decisions of the trial in force that were drawn from what was served.

    At a share of 1 the server does not ask what was replaced: that is done here, from the records as they came.
    """
    import pyarrow

    promotions = {row.id: row for row in standing.trial}
    tables = [part for file in joined_files(loop.log) if len(part := _read(file, promotions)) > 0]
    mixture = loop.mixture(standing.now)
    n_actions = max(len(mixture.actions), 1)
    if not tables:
        none = np.zeros(0)
        return TrialRows(np.zeros(0, np.int64), none, none, none, none, n_actions)
    table = pyarrow.concat_tables(tables)
    columns = {name: table[name].to_numpy() for name in _COLUMNS if name not in ("_event", "_decider")}
    baseline = columns["_baseline_prob"].copy()
    unasked = np.flatnonzero(np.isnan(baseline))
    if len(unasked):
        baseline[unasked] = _asked_now(
            loop, store, standing.trial, [table["_event"][int(row)].as_py() for row in unasked]
        )
    return TrialRows(
        columns["_promotion"],
        columns["_policy_prob"],
        baseline,
        columns[ROLES["propensity"]],
        columns[ROLES["reward"]],
        n_actions,
    )


def _read(file: Path, promotions: dict[int, PromotionRow]) -> Any:
    from pyarrow import compute, parquet

    table = parquet.read_table(file, columns=list(_COLUMNS))
    is_part = np.isin(table["_promotion"].to_numpy(), list(promotions))
    is_drawn = compute.equal(table["_decider"], MIXTURE).to_numpy(zero_copy_only=False)
    return table.filter(is_part & is_drawn.astype(bool))


def _asked_now(
    loop: LoopFolder, store: EventStore, trial: Sequence[PromotionRow], events: Sequence[str]
) -> list[float]:
    """Return what the baseline of a trial gives to the actions of decisions that it was not asked for."""
    mixture = loop.mixture(trial[-1])
    place = {label: position for position, label in enumerate(mixture.actions)}
    wanted = set(events)
    found: dict[str, float] = {}
    for row in store.decisions(since=trial[0].time - 1):
        if row.event in wanted:
            prob = mixture.baseline_alone(row.context, mixture.mask(row.eligible))
            found[row.event] = float(prob[place[row.action]])
    return [found[event] for event in events]


@dataclass(frozen=True)
class CanaryVerdict:
    """What the decisions of a trial say of its policy.

    Attributes
    ----------
    verdict : {"better", "worse", "inconclusive"}
    reason : str
    difference, lower, upper : float
        Of the ramp in force where the verdict is not ``worse``, else of the whole trial.
    n_samples : int
        Decisions that they are made of.
    confidence : float
        Of both bounds, at all looks together.
    is_doubtful : bool
        Whether the verdict is inconclusive, but bounds of less confidence (`DOUBT`) say that the policy is worse.
    """

    verdict: str
    reason: str
    difference: float
    lower: float
    upper: float
    n_samples: int
    confidence: float
    is_doubtful: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values."""
        return {name: finite(value) for name, value in asdict(self).items()}


def finite(value: Any) -> Any:
    """Return a value, or None in the place of a number that JSON does not have."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def judge_trial(
    rows: TrialRows,
    trial: Sequence[PromotionRow],
    ramp: Sequence[PromotionRow],
    settings: LoopSettings,
    reward_range: tuple[float, float],
) -> CanaryVerdict:
    """Return the verdict on a canary: worse by all decisions of its trial, or better by those of its ramp.

    Parameters
    ----------
    rows : TrialRows
        Decisions of the trial, with their rewards.
    trial, ramp : sequence of PromotionRow
        See `Standing`.
    settings : LoopSettings
        What `loop.toml` says.
    reward_range : (float, float)
        No reward lies outside.
    """
    whole = bounds_of(rows.of(trial), trial, settings.confidence, reward_range)
    if whole.upper < 0.0:
        reason = (
            f"It earns less: the difference from what it is compared with is at most {whole.upper:+.4g} a decision "
            f"({_sure(settings)}, by {whole.n_samples:,} decisions)."
        )
        return _verdict(WORSE, reason, whole, settings)
    part = rows.of(ramp)
    bounds = bounds_of(part, ramp, settings.confidence, reward_range)
    earned = float(part.reward.mean()) if len(part) else 0.0
    least = parse_min_uplift(settings.min_uplift).absolute(earned)
    between = (
        f"the difference lies between {bounds.lower:+.4g} and {bounds.upper:+.4g} a decision ({_sure(settings)}, by "
        f"{bounds.n_samples:,} decisions of this ramp)"
    )
    if bounds.lower > least:
        return _verdict(BETTER, f"It earns more: {between}.", bounds, settings)
    asked = "" if least == 0.0 else f"; {least:+.4g} is required"
    verdict = _verdict(INCONCLUSIVE, f"There is not enough evidence yet: {between}{asked}.", bounds, settings)
    return replace(verdict, is_doubtful=seems_worse(part, ramp, min(DOUBT, settings.confidence), reward_range))


def bounds_of(
    rows: TrialRows, promotions: Sequence[PromotionRow], confidence: float, reward_range: tuple[float, float]
) -> DifferenceBounds:
    """Return the difference of the two policies with bounds that hold at all times."""
    return anytime_difference(_terms_of(rows, promotions, reward_range), confidence, reward_range=reward_range)


def seems_worse(
    rows: TrialRows, promotions: Sequence[PromotionRow], confidence: float, reward_range: tuple[float, float]
) -> bool:
    """Return whether the upper one of these bounds has ever been below zero."""
    terms = _terms_of(rows, promotions, reward_range)
    has_rows = len(rows) > 0
    return has_rows and max_log_capital(-terms.term, terms.most, 0.0) >= math.log(2.0 / (1.0 - confidence))


def _terms_of(
    rows: TrialRows, promotions: Sequence[PromotionRow], reward_range: tuple[float, float]
) -> DifferenceTerms:
    limits = {row.id: weight_limits(row, rows.n_actions) for row in promotions}
    pairs = np.array([limits[one] for one in rows.promotion.tolist()]).reshape(-1, 2)
    return difference_terms(
        rows.policy_prob,
        rows.baseline_prob,
        rows.propensity,
        rows.reward,
        reward_range=reward_range,
        max_new_weight=pairs[:, 0],
        max_running_weight=pairs[:, 1],
    )


def weight_limits(promotion: PromotionRow, n_actions: int) -> tuple[float, float]:
    """Return the largest weights that policy and baseline can have under what is served.

    With u the share of exploration, an action that one of them surely takes, at share s, has a propensity of at least
    ``(1 - u) s + u / K`` among K eligible ones.
    """
    explored = min(1.0, max(promotion.exploration, n_actions * promotion.min_propensity))
    least = max(promotion.exploration / n_actions, promotion.min_propensity)
    if explored == 1.0:
        return n_actions, n_actions
    policy, baseline = (1.0 / ((1.0 - explored) * share + least) for share in (promotion.share, 1.0 - promotion.share))
    return policy, baseline


def _verdict(word: str, reason: str, bounds: DifferenceBounds, settings: LoopSettings) -> CanaryVerdict:
    return CanaryVerdict(
        word, reason, bounds.difference, bounds.lower, bounds.upper, bounds.n_samples, settings.confidence
    )


def _sure(settings: LoopSettings) -> str:
    return f"{100.0 * settings.confidence:.4g}% confidence at all looks together"
