"""From what the tests of a column saw to what is said of it: the limits, and why they are where they are."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import betaincinv

from bopl._typing import AnyArray, FloatArray
from bopl.log.column import Column
from bopl.log.leak.action_test import ActionTest
from bopl.log.leak.column_trial import Trial
from bopl.log.leak.leak import ACTION, DOUBTFUL, IDENTIFIER, SURE, TIME, Leak
from bopl.log.leak.reward_test import RewardTest
from bopl.log.leak.view import ColumnView

ERROR = 1e-3  # of a kind of test, over all columns of a log: chance that a bet against sound propensities is won
MIN_HONEST_Z = 4.5  # of one column: 7 in a million honest ones exceed it, if normal; the more columns, the higher
MAX_LEAK_Z = 3.0  # beyond it a column goes with what actions earn more, or less, than what came of the reward does
MIN_EXPLAINED = 0.005  # of the reward's variance: less than this is not worth the name of knowing
MIN_PRECISION, MIN_RECALL = 0.98, 0.8
MIN_PRECISION_BOUND = 0.9  # below which the precision must not be, at the level of PRECISION_ERROR
PRECISION_ERROR = 1e-4
MIN_OTHER, OTHER_PRECISION = 15, 0.95  # of samples that took another action than most
MIN_EXCESS = 0.1  # of the bet on actions: less can be rounded propensities
SURE_SHARE = 0.5  # of what the propensities leave open about the action, from which a column gives it away
MAX_ODDS = 12  # powers of ten; larger ones are not told
SURE_TOLD = 0.99  # probability of the action taken, where there are no propensities to compare with
SAME_SHARE = 0.5  # of the number of propensities, which a column that comes of them has but for rounding
MIN_LATER = 0.5  # share of the times that lie after the decision, from which that is told
TOLERANCE = 1.0 / 3600.0  # hours: clocks and float32
MIN_DISTINCT_SHARE = 0.95  # distinct texts among those that are there, from which a column names rows
MIN_DISTINCT = 100
MAX_EXACT = 2.0**24  # integers beyond it are not exact in float32
MAX_SPREAD = 2.0  # range of integers that count rows, in rows
_ID_NAME = re.compile(r"(^|[^a-z])(id|ids|uuid|guid|hash|token|number|no|nr|key)$|[a-z]I[dD]$", re.IGNORECASE)


@dataclass(frozen=True)
class Suspicion:
    """What is to be judged besides the tests of a column."""

    # how many columns of numbers are tried, some of them twice: the more, the more has to be shown of each
    n_columns: int
    openness: float  # mean of -ln p: what the propensities leave open about the action
    # whether a column without any information passes; if not, it is the propensities that are wrong
    are_propensities_sound: bool
    # whether they were declared uniform: then a column that knows more may as well refute that
    are_propensities_declared: bool = False
    has_groups: bool = False
    # what a column without any information gains on the propensities, where these are so wrong that it does
    constant_gain: float = 0.0

    @property
    def otherwise(self) -> str:
        """What else than a leak it may be, as a sentence."""
        draws = "" if self.has_groups else ", or one draw served several samples: then name their group"
        return f"Or the propensities ignore it{draws}"

    @property
    def honest_limit(self) -> float:
        """How large the z-score of an honest column may be."""
        return float(np.sqrt(MIN_HONEST_Z**2 + 2.0 * np.log(self.n_columns)))

    @property
    def capital_limit(self) -> float:
        """How large the logarithm of the capital of a bet may be."""
        return math.log(self.n_columns / ERROR)


def judge_reward(name: str | int, test: RewardTest, given: Suspicion, knows: str) -> Leak | None:
    """Return what a column knows of the reward beyond what is honest, if anything.

    ``knows`` is what it is called if it came of the reward: reward, outcome or time.
    """
    is_dependent = abs(test.honest_z) > given.honest_limit  # on the drawn action
    is_late = given.are_propensities_sound and is_dependent and test.explained > MIN_EXPLAINED
    decides = _is_pure(test) or test.is_copy
    if is_late and (decides or abs(test.leak_z) < MAX_LEAK_Z):
        return Leak(name, knows, SURE, f"{_told(test)}, and {_late(test)}", test.explained)
    if is_late:
        text = f"{_told(test)}, and {_late(test)}. {given.otherwise}"
        return Leak(name, knows, DOUBTFUL, text, test.explained)
    if decides and test.leak_z > -MAX_LEAK_Z:
        return Leak(name, knows, SURE, f"{_told(test)}, whatever the action was", test.explained)
    return None


def _is_pure(test: RewardTest) -> bool:
    """Return whether a column decides the reward whatever the action: then actions cannot matter, if it is honest."""
    if test.n_told == 0 or test.precision < MIN_PRECISION or not (test.is_apart or test.recall >= MIN_RECALL):
        return False
    if test.n_other < MIN_OTHER or test.other_precision < OTHER_PRECISION:
        return False
    n_events = round(test.precision * test.n_told)
    lowest = betaincinv(n_events, test.n_told - n_events + 1, PRECISION_ERROR)
    # A column that tells all events and no others needs fewer of them to be believed.
    return bool(lowest > MIN_PRECISION_BOUND or (lowest > 0.5 and test.recall > MIN_PRECISION))


def _told(test: RewardTest) -> str:
    if test.is_copy:
        return "it sorts the samples as the reward does"
    if test.n_told and test.precision >= MIN_PRECISION:
        return (
            f"it marks {test.n_told:,} samples, {test.precision:.0%} of them with another reward than the usual one, "
            f"and so {test.recall:.0%} of all that have one"
        )
    return f"it explains {test.explained:.0%} of the rewards"


def _late(test: RewardTest) -> str:
    way = "with" if test.honest_z > 0.0 else "against"
    return f"goes {way} what the drawn action earned, which nothing known before can do (z = {test.honest_z:.1f})"


def judge_action(name: str | int, test: ActionTest, given: Suspicion, n_tests: int = 1) -> Leak | None:
    """Return what a column knows of the action beyond the propensities, if anything, by one of so many tests of it."""
    share = (test.gain - given.constant_gain) / max(given.openness - given.constant_gain, 1e-12)
    odds = min(int(test.log_capital / math.log(10.0)), MAX_ODDS)
    text = (
        f"its values give the action that was taken {test.told:.0%} on average, the propensities "
        f"{math.exp(-given.openness):.0%}; in less than one of 10^{odds} logs with sound "
        "propensities is so much known"
    )
    if test.log_capital < given.capital_limit + math.log(n_tests) or test.excess < MIN_EXCESS:
        return None
    if share > SURE_SHARE and not given.are_propensities_declared:
        return Leak(name, ACTION, SURE, text, test.excess)
    if not given.are_propensities_sound:
        return None  # a column without any information fails as well: it is the propensities
    return Leak(name, ACTION, DOUBTFUL, f"{text}. {given.otherwise}", test.excess)


def judge_propensity(name: str | int, values: FloatArray, trial: Trial) -> Leak | None:
    """Return whether a column that was blamed is the propensity of the action taken in another form: 1/p, ln p."""
    assert trial.inverse is not None
    step = np.diff(values[np.argsort(trial.inverse, kind="stable")])
    n_weights = len(np.unique(trial.inverse))
    # Where so many actions are equally likely, 1/p is how many there are, which may have been known.
    if n_weights <= trial.n_actions or len(np.unique(values)) < SAME_SHARE * n_weights:
        return None
    if not ((step >= 0.0).all() or (step <= 0.0).all()):
        return None
    return Leak(name, ACTION, SURE, "it is the propensity of the action that was taken, or follows from it", 1.0)


def judge_told_action(name: str | int, told: float, constant: float) -> Leak | None:
    """Return what a column knows of the action where there are no propensities that were logged."""
    if told < SURE_TOLD or constant >= SURE_TOLD:
        return None
    text = (
        f"its values give the action that was taken {told:.0%} on average. If it was known before, the logging policy "
        "did not explore, and the log says nothing about other actions"
    )
    return Leak(name, ACTION, DOUBTFUL, text, told)


def lags(view: ColumnView, values: Sequence[AnyArray], time: AnyArray | None) -> FloatArray | None:
    """Return hours between the decision and a column of times, NaN where it is missing; None if that is not known."""
    if view.column is None or view.column.kind != "time" or time is None or time.dtype.kind != "M":
        return None
    part = dict(zip(view.column.parts, values, strict=True))
    if not {"day", "hour"} <= set(part):  # of the time of the decision itself, no day is in the context
        return None
    decided = time.astype("datetime64[ms]").astype(np.int64) / 3.6e6
    day, hour = part["day"].astype(np.float64), part["hour"].astype(np.float64)
    if not hour[~np.isnan(hour)].any():  # dates: only whole days can be compared
        return 24.0 * (day - np.floor(decided / 24.0))
    return 24.0 * day + hour - decided


def judge_time(view: ColumnView, lag: FloatArray | None) -> Leak | None:
    """Return whether a column holds times that lie after the decision: a plan, or something that came of it."""
    if lag is None or np.isnan(lag).all():
        return None
    later = float((lag[~np.isnan(lag)] > TOLERANCE).mean())
    if later < MIN_LATER:
        return None
    text = f"{later:.0%} of its times lie after the decision. If they were planned before, that is fine"
    return Leak(view.name, TIME, DOUBTFUL, text, later)


def judge_identifier(column: Column, values: AnyArray) -> Leak | None:
    """Return whether nearly every row has a value of its own in a column of text, or in one of integers that count.

    Integers that merely are many, as incomes and distances are, say how much of something there is. ``values`` are
    those of all samples, encoded.
    """
    if column.kind == "category":
        return _judge_text(column, values)
    if column.kind != "number" or not column.is_identifier:
        return None
    if _ID_NAME.search(column.name):
        return _leak(
            column, SURE, "most rows have a unique number, and its name suggests an identifier", _n_present(values)
        )
    return _leak(column, SURE, "it numbers the rows", _n_present(values)) if _counts(values) else None


def _judge_text(column: Column, values: AnyArray) -> Leak | None:
    n_distinct = len(column.categories) + column.n_merged
    if n_distinct < MIN_DISTINCT and not column.is_identifier:
        return None
    n_present = _n_present(values)
    is_sure = n_distinct >= max(MIN_DISTINCT, MIN_DISTINCT_SHARE * n_present)
    if not (is_sure or column.is_identifier):
        return None
    certainty = SURE if is_sure else DOUBTFUL
    return _leak(column, certainty, f"it has {n_distinct:,} values in {n_present:,} rows", n_distinct)


def _n_present(values: AnyArray) -> int:
    return int(np.count_nonzero(~np.isnan(values)))


def _counts(values: AnyArray) -> bool:
    """Return whether numbers are all different and fill half of their range or more."""
    present = values[~np.isnan(values)].astype(np.float64)
    if np.abs(present).max() >= MAX_EXACT or np.ptp(present) > MAX_SPREAD * len(present):
        return False
    return len(np.unique(present)) == len(present)


def _leak(column: Column, certainty: str, text: str, value: float) -> Leak:
    return Leak(column.name, IDENTIFIER, certainty, f"{text}, so nothing can be learned from it", float(value))
