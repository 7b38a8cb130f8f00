"""Does a column know the action beyond the propensities? A bet against it, which honest columns lose.

Whoever sees the bin of a column alone and names probabilities q of the actions, earns q(A) / p on average 1 at most, if
p are the propensities: ``E[q(A) / p(A | x) | x] = sum_a q(a) <= 1``. So the capital of a gambler who stakes a share λ
on it in sample after sample grows beyond 1/α with a probability of at most α, whatever the weights and however many
samples there are (Ville's inequality). What to bet on is learned from the other half of the samples.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bopl._typing import AnyArray, BoolArray, FloatArray, IntArray
from bopl.log.leak.column_bins import BinnedColumn
from bopl.log.leak.column_trial import Trial

STAKES = np.array([0.02, 0.1, 0.3, 0.6, 0.9])  # shares of the capital; their mean is a fair bet as well
MIN_Z = 2.0  # of an action in a bin on the half that is learned from, to be bet on
MIN_COUNT = 3


@dataclass(frozen=True)
class ActionTest:
    """What a column knows of the action."""

    log_capital: float  # logarithm of what 1 has grown to
    excess: float  # mean of q(A)/p - 1 where something was bet on
    told: float  # mean probability that the bins of the column gave to the action taken
    # mean of ln q(A) - ln p, q being the frequencies of the actions in the bin: above 0, the column alone
    # predicts the action better than the propensities do
    gain: float


def try_action(trial: Trial, column: BinnedColumn) -> ActionTest:
    """Bet on actions by the bins of a column."""
    assert trial.inverse is not None
    capital, excess, told, gain = [], [], [], []
    cell = column.code * trial.n_actions + trial.action_idx
    for learned, tried in trial.halves:
        own, count = cell[tried], _counted(trial, column, cell[learned])
        prob = _bets(trial, column, cell[learned], learned, count)
        won = prob[own] * trial.inverse[tried] - 1.0
        is_open: BoolArray = np.any(prob.reshape(column.n_bins, -1) > 0.0, axis=1)
        is_bet = is_open[column.code[tried]]
        capital.append(_log_capital(np.where(is_bet, won, 0.0), None if trial.group is None else trial.group[tried]))
        excess.append(float(won[is_bet].mean()) if is_bet.any() else 0.0)
        share = _shares(count)
        told.append(float(share[own].mean()))
        gain.append(float((np.log(share)[own] + trial.openness[tried]).mean()))
    return ActionTest(
        float(np.logaddexp.reduce(capital) - np.log(2.0)),
        float(np.mean(excess)),
        float(np.mean(told)),
        float(np.mean(gain)),
    )


def told_action(trial: Trial, column: BinnedColumn) -> float:
    """Return the mean probability that the bins of a column give to the action taken; needs no propensities."""
    cell = column.code * trial.n_actions + trial.action_idx
    share = [_shares(_counted(trial, column, cell[learned]))[cell[tried]].mean() for learned, tried in trial.halves]
    return float(np.mean(share))


def _counted(trial: Trial, column: BinnedColumn, cell: IntArray, weights: FloatArray | None = None) -> AnyArray:
    """Return how often, or with which weight, each action was taken in each bin, of shape (n_bins, n_actions)."""
    shape = (column.n_bins, trial.n_actions)
    return np.bincount(cell, weights=weights, minlength=shape[0] * shape[1]).reshape(shape)


def _shares(count: IntArray) -> FloatArray:
    """Return the share of each action in each bin, drawn a little towards its share in all, of length of the cells."""
    overall = (count.sum(axis=0) + 1.0 / count.shape[1]) / (count.sum() + 1.0)
    return ((count + overall) / (count.sum(axis=1, keepdims=True) + 1.0)).ravel()


def _bets(trial: Trial, column: BinnedColumn, cell: IntArray, rows: IntArray, count: IntArray) -> FloatArray:
    """Return probabilities of the actions in each bin, 0 for all where nothing is bet, of length of the cells.

    An action is bet on where its sum of 1/p exceeds the samples of the bin; the more, the farther it does, and the
    larger its propensities are.
    """
    assert trial.inverse is not None
    inverse = trial.inverse[rows]
    total, expected = _counted(trial, column, cell, inverse), _expected(trial, column, rows, count)
    z = (total - expected) / np.sqrt(np.maximum(_counted(trial, column, cell, inverse**2), 1e-300))
    is_bet = (z > MIN_Z) & (count >= MIN_COUNT)
    stake = np.where(is_bet, total / np.maximum(expected, 1.0) - 1.0, 0.0) * count / np.maximum(total, 1e-300)
    stake = np.maximum(stake, 0.0)
    return (stake / np.maximum(stake.sum(axis=1, keepdims=True), 1e-300)).ravel()


def _expected(trial: Trial, column: BinnedColumn, rows: IntArray, count: IntArray) -> FloatArray:
    """Return how many samples of each bin could have taken each action, of shape (n_bins, n_actions) or (n_bins, 1)."""
    if trial.action_mask is None:
        return count.sum(axis=1, keepdims=True).astype(np.float64)
    code = column.code[rows]
    from scipy.sparse import csr_array

    member = csr_array((np.ones(len(rows)), (code, np.arange(len(rows)))), shape=(column.n_bins, len(rows)))
    return np.asarray(member @ trial.action_mask[rows].astype(np.float64))


def _log_capital(won: FloatArray, group: IntArray | None) -> float:
    """Return the logarithm of the capital, averaged over the stakes; a group, whose samples may depend, is one bet."""
    if group is not None:
        _, unit, size = np.unique(group, return_inverse=True, return_counts=True)
        won = np.bincount(unit, weights=won) / size
    won = won[won != 0.0]
    grown = [float(np.log1p(stake * won).sum()) for stake in STAKES]
    return float(np.logaddexp.reduce(grown) - np.log(len(grown)))
