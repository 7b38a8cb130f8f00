"""What columns are tried on: rewards, actions and propensities of the samples, prepared once for all columns.

A column that was known before the decision cannot depend on which action was then drawn. So for every function f of
the context and of the action

    E[f(x, A) / p(A | x) | x] = sum over eligible a of f(x, a),

if the propensities are right. A column that came of the action, or of the reward where actions earn differently, breaks
this, and nothing that is honest does, however well it predicts rewards.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from bopl._typing import AnyArray, BoolArray, FloatArray, IntArray
from bopl.log.leak.column_bins import bin_column

if TYPE_CHECKING:
    from bopl.log.bandit_log import BanditLog

_SEED = 20_140  # of the two halves


@dataclass(frozen=True, eq=False)
class Trial:
    """Samples in two halves: what is learned of a column on one of them is tried on the other."""

    half: BoolArray  # (n_samples,): which half a sample is in; samples of one group are in one
    group: IntArray | None  # (n_samples,): samples that belong together, numbered from 0
    action_idx: IntArray  # (n_samples,)
    n_actions: int
    action_mask: BoolArray | None  # (n_samples, n_actions)
    # (n_samples,): 1/p, where propensities were logged or declared; estimated ones know the actions that they
    # are tried on
    inverse: FloatArray | None
    # (n_samples,): whether the reward is another than the one that half of the samples or more have; None if
    # there is no such
    event: BoolArray | None
    target: FloatArray  # (n_samples,): 1 for events, or the rank of the reward among all, between 0 and 1
    reward: FloatArray

    @property
    def n_samples(self) -> int:
        """Number of samples."""
        return len(self.target)

    @cached_property
    def halves(self) -> tuple[tuple[IntArray, IntArray], ...]:
        """Rows to learn from and rows to try on, twice."""
        rows = np.flatnonzero(self.half), np.flatnonzero(~self.half)
        return (rows, rows[::-1])

    @cached_property
    def openness(self) -> FloatArray:
        """``-ln p`` of each sample."""
        assert self.inverse is not None
        return np.log(self.inverse)

    @cached_property
    def spread(self) -> float:
        """Sum of the squares of the target about its mean."""
        return float(((self.target - self.target.mean()) ** 2).sum())

    @cached_property
    def reward_bin(self) -> IntArray:
        """The bin of each sample's reward, numbered from 0."""
        code = bin_column(self.reward).code if self.event is None else self.event.astype(np.int64)
        return np.unique(code, return_inverse=True)[1]

    @cached_property
    def n_eligible(self) -> FloatArray:
        """How many actions each sample could have taken."""
        if self.action_mask is None:
            return np.full(self.n_samples, float(self.n_actions))
        return self.action_mask.sum(axis=1).astype(np.float64)

    @cached_property
    def contrast(self) -> FloatArray | None:
        """A number per sample whose mean, given the context, is 0, and that goes with what actions earn.

        It joins two contrasts: of actions that earn more than others, and of the logging policy with the uniform one.
        Both are learned on one half and written on the other. Whatever came of the reward goes with them as well.
        """
        if self.inverse is None:
            return None
        contrast = np.zeros(self.n_samples)
        for learned, tried in self.halves:
            effect = self._effect(learned)
            parts = np.stack([self._centred(effect, learned), self._centred(None, learned)])
            gain = parts * (self.target[learned] - self.target[learned].mean())
            share = gain.mean(axis=1) / np.maximum((gain**2).mean(axis=1), 1e-300)
            joined = share @ np.stack([self._centred(effect, tried), self._centred(None, tried)])
            contrast[tried] = joined / max(float(np.sqrt((joined**2).mean())), 1e-300)
        return contrast

    def _effect(self, rows: IntArray) -> FloatArray:
        """Return what each action earns beyond the others, drawn towards zero by its standard error."""
        assert self.inverse is not None
        action, inverse, target = self.action_idx[rows], self.inverse[rows], self.target[rows]

        def sums(values: FloatArray) -> FloatArray:
            return np.asarray(np.bincount(action, weights=values, minlength=self.n_actions), dtype=np.float64)

        seen = sums(inverse) > 0.0
        total = np.where(seen, sums(inverse), 1.0)
        mean = sums(inverse * target) / total
        effect = np.where(seen, mean - mean[seen].mean(), 0.0)
        variance = (sums((inverse * (target - mean[action])) ** 2) + inverse.max() ** 2 / 4.0) / total**2
        return effect * effect**2 / np.maximum(effect**2 + variance, 1e-300)

    def _centred(self, effect: FloatArray | None, rows: IntArray) -> FloatArray:
        """Return ``f(a) / (n_eligible · p)`` less its mean given the context; f is the effect, or -1."""
        assert self.inverse is not None
        weight = self.inverse[rows] / self.n_eligible[rows]
        if effect is None:
            return 1.0 - weight
        if self.action_mask is None:
            return effect[self.action_idx[rows]] * weight - effect.mean()
        return effect[self.action_idx[rows]] * weight - (self.action_mask[rows] @ effect) / self.n_eligible[rows]

    def z_of(self, values: FloatArray, contrast: FloatArray | None = None) -> float:
        """Return the z-score of the mean of a contrast times some values, which is 0 for what is honest."""
        contrast = self.contrast if contrast is None else contrast
        assert contrast is not None
        part = contrast * values
        if self.group is not None:
            part = np.asarray(np.bincount(self.group, weights=part), dtype=np.float64)
        return float(part.sum() / max(float(np.sqrt((part**2).sum())), 1e-300))


def make_trial(log: BanditLog, rows: IntArray) -> Trial:
    """Return what the columns of a log are tried on, with these of its rows."""
    group = None if log.group is None else np.unique(log.group[rows], return_inverse=True)[1]
    n_units = len(rows) if group is None else int(group.max()) + 1
    is_divided = group is None or n_units < 2  # a single group cannot be in one half, and has no spread either
    half = np.random.default_rng(_SEED).permutation(len(rows) if is_divided else n_units) % 2 == 0
    reward = log.reward[rows]
    value, count = np.unique(reward, return_counts=True)
    has_mode = 2 * int(count.max()) >= len(rows) and len(value) > 1
    event = reward != value[count.argmax()] if has_mode else None
    is_given = log.propensity_source in ("logged", "balanced", "uniform")
    return Trial(
        half=half if is_divided or group is None else half[group],
        group=group,
        action_idx=log.action_idx[rows],
        n_actions=log.n_actions,
        action_mask=None if log.action_mask is None else log.action_mask[rows],
        inverse=1.0 / log.propensity[rows] if is_given else None,
        event=event,
        target=rank(reward) if event is None else event.astype(np.float64),
        reward=reward,
    )


def rank(values: AnyArray) -> FloatArray:
    """Return the share of smaller values, ties sharing their ranks."""
    _, position, count = np.unique(values, return_inverse=True, return_counts=True)
    return ((np.cumsum(count) - 0.5 * count) / len(values))[position]
