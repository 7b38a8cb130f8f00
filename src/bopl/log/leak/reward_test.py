"""Does a column know the reward after the action? Two questions: how much it tells, and whether it came first.

A strong honest column tells much of the reward, but not which action was drawn: the contrast of a `Trial` does not go
with it. A column that came of the reward does, and by as much as the reward itself: if the column depends on the action
through the reward alone, what it predicts may be replaced by the mean prediction at each reward, and the contrast goes
with both alike. Where actions hardly differ neither can be told, and then no column can make a policy look better.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bopl._typing import AnyArray, BoolArray, FloatArray
from bopl.log.leak.column_bins import BinnedColumn
from bopl.log.leak.column_trial import Trial, rank

MIN_COPY, COPY = 0.5, 0.999  # share of the variance explained, and rank correlation, from which numbers are a copy
SHRINK = 5.0  # samples of the overall mean that each bin is drawn towards


@dataclass(frozen=True)
class RewardTest:
    """What a column knows of the reward."""

    explained: float  # share of the variance of events, or of ranks of rewards, that the bins of the column explain
    n_told: int = 0  # samples in bins in which most are events; 0 where rewards have no events
    precision: float = 0.0  # share of these samples that are events
    recall: float = 0.0  # share of the events that are among them
    n_other: int = 0  # those among them that took another action than most of them did
    other_precision: float = 0.0  # share of those that are events
    is_apart: bool = False  # whether these bins are all but one, which holds a single value or what is missing
    # z-score of the hypothesis that the column came before the action; 0 without propensities. Above 0, the
    # column goes with what actions earn, as the reward does.
    honest_z: float = 0.0
    # z-score of the hypothesis that it came of the reward; far below 0, it goes with what actions earn less than
    # the reward says
    leak_z: float = 0.0
    is_copy: bool = False  # whether it sorts the samples as a reward without events does


def try_reward(
    trial: Trial, column: BinnedColumn, values: AnyArray | None = None, contrast: FloatArray | None = None
) -> RewardTest:
    """Predict rewards by the bins of a column, and ask which came first.

    ``values`` are those in the bins, if they are numbers; ``contrast`` is another one than that of the trial.
    """
    contrast = trial.contrast if contrast is None else contrast
    predicted, is_told = _predict(trial, column)
    error = ((trial.target - predicted) ** 2).sum()
    explained = 1.0 - float(error / max(trial.spread, 1e-300))
    honest_z, leak_z = _order(trial, predicted, contrast) if contrast is not None and explained > 0.0 else (0.0, 0.0)
    if trial.event is None or not is_told.any():
        is_copy = values is not None and explained > MIN_COPY and _is_copy(trial, values)
        return RewardTest(explained, honest_z=honest_z, leak_z=leak_z, is_copy=is_copy)
    told, event = np.flatnonzero(is_told), trial.event
    action = trial.action_idx[told]
    other = told[action != np.bincount(action).argmax()]
    rest = np.unique(column.code[~is_told])
    return RewardTest(
        explained,
        n_told=len(told),
        precision=float(event[told].mean()),
        recall=float(event[told].sum() / event.sum()),
        n_other=len(other),
        other_precision=float(event[other].mean()) if len(other) else 0.0,
        is_apart=len(rest) == 1 and rest[0] == column.common,
        honest_z=honest_z,
        leak_z=leak_z,
    )


def _is_copy(trial: Trial, values: AnyArray) -> bool:
    """Return whether numbers sort the samples as a reward without events does, upwards or downwards."""
    if trial.event is not None or np.isnan(values).any():
        return False
    return abs(float(np.corrcoef(rank(values), trial.target)[0, 1])) > COPY


def _predict(trial: Trial, column: BinnedColumn) -> tuple[FloatArray, BoolArray]:
    """Return the mean target of each sample's bin in the other half, and whether most of the samples there are events.

    Predictions are less the overall mean of that half, which the contrast has nothing to do with.
    """
    predicted, is_told = np.zeros(trial.n_samples), np.zeros(trial.n_samples, dtype=bool)
    for learned, tried in trial.halves:
        target, code = trial.target[learned], column.code[learned]
        count = np.bincount(code, minlength=column.n_bins)
        total = np.bincount(code, weights=target, minlength=column.n_bins)
        mean = (total + SHRINK * target.mean()) / (count + SHRINK)
        predicted[tried] = mean[column.code[tried]]
        is_told[tried] = (2.0 * total > count)[column.code[tried]]
    return predicted, is_told


def _order(trial: Trial, predicted: FloatArray, contrast: FloatArray) -> tuple[float, float]:
    """Return the z-scores of "it came before the action" and of "it came of the reward"."""
    centred, through = np.empty_like(predicted), np.empty_like(predicted)
    n_bins = int(trial.reward_bin.max()) + 1
    for learned, tried in trial.halves:
        count = np.maximum(np.bincount(trial.reward_bin[learned], minlength=n_bins), 1)
        mean = np.bincount(trial.reward_bin[learned], weights=predicted[learned], minlength=n_bins) / count
        through[tried] = mean[trial.reward_bin[tried]] - predicted[learned].mean()
        centred[tried] = predicted[tried] - predicted[learned].mean()
    return trial.z_of(centred, contrast), trial.z_of(centred - through, contrast)
