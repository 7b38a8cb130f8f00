"""From what the tests of a column saw to what is said of it: the limits, and why they are where they are."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import betaincinv

from bopl.log.leak.action_test import ActionTest
from bopl.log.leak.leak import ACTION, DOUBTFUL, SURE, Leak
from bopl.log.leak.reward_test import RewardTest

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


@dataclass(frozen=True)
class Suspicion:
    """What is to be judged beside the tests of a column.

    Attributes
    ----------
    n_columns : int
        How many columns of numbers are tried, some of them twice: the more, the more has to be shown of each.
    openness : float
        Mean of -ln p: what the propensities leave open about the action.
    are_propensities_sound : bool
        Whether a column without any information passes; if not, it is the propensities that are wrong.
    are_propensities_declared : bool
        Whether they were declared uniform: then a column that knows more may as well refute that.
    """

    n_columns: int
    openness: float
    are_propensities_sound: bool
    are_propensities_declared: bool = False

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

    Parameters
    ----------
    name : str or int
    test : RewardTest
    given : Suspicion
    knows : {"reward", "outcome", "time"}
        What it is called if it came of the reward.
    """
    is_late = given.are_propensities_sound and test.honest_z > given.honest_limit and test.explained > MIN_EXPLAINED
    decides = _is_pure(test) or test.is_copy
    if is_late and (decides or abs(test.leak_z) < MAX_LEAK_Z):
        return Leak(name, knows, SURE, f"{_told(test)}, and {_late(test)}", test.explained)
    if is_late:
        text = f"{_told(test)}, and {_late(test)}. Or the propensities ignore it"
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
    return f"goes with what the drawn action earned, which nothing known before can do (z = {test.honest_z:.1f})"


def judge_action(name: str | int, test: ActionTest, given: Suspicion) -> Leak | None:
    """Return what a column knows of the action beyond the propensities, if anything."""
    share = test.gain / max(given.openness, 1e-12)
    odds = min(int(test.log_capital / math.log(10.0)), MAX_ODDS)
    text = (
        f"its values give the action that was taken {test.told:.0%} on average, the propensities "
        f"{math.exp(-given.openness):.0%}; in less than one of 10^{odds} logs with sound "
        "propensities is so much known"
    )
    if test.log_capital < given.capital_limit or test.excess < MIN_EXCESS:
        return None
    if share > SURE_SHARE and not given.are_propensities_declared:
        return Leak(name, ACTION, SURE, text, test.excess)
    if not given.are_propensities_sound:
        return None  # a column without any information fails as well: it is the propensities
    return Leak(name, ACTION, DOUBTFUL, f"{text}. Or the propensities ignore it", test.excess)


def judge_told_action(name: str | int, told: float, constant: float) -> Leak | None:
    """Return what a column knows of the action where there are no propensities that were logged."""
    if told < SURE_TOLD or constant >= SURE_TOLD:
        return None
    text = (
        f"its values give the action that was taken {told:.0%} on average. If it was known before, the logging policy "
        "did not explore, and the log says nothing about other actions"
    )
    return Leak(name, ACTION, DOUBTFUL, text, told)
