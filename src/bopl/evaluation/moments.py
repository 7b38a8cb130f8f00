"""Sums of moments that can be taken shard by shard and merged."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from bopl._typing import FloatArray, IntArray


@dataclass(frozen=True)
class MomentSum:
    """Count, means and centred products of moments; the sum of two shards is that of the whole to rounding.

    Attributes
    ----------
    n_samples : int
    mean : ndarray of shape (n_moments,)
    scatter : ndarray of shape (n_moments, n_moments)
        ``sum_i (moment_i - mean)(moment_i - mean)^T``.
    """

    n_samples: int
    mean: FloatArray
    scatter: FloatArray

    @classmethod
    def empty(cls, n_moments: int) -> MomentSum:
        """Return the sum over no samples."""
        return cls(0, np.zeros(n_moments), np.zeros((n_moments, n_moments)))

    @classmethod
    def of(cls, moments: FloatArray) -> MomentSum:
        """Return the sum over the rows of an array of shape (n_rows, n_moments)."""
        mean = moments.mean(axis=0)
        centred = moments - mean
        return cls(len(moments), mean, centred.T @ centred)

    def __add__(self, other: MomentSum) -> MomentSum:
        """Merge two shards by the pairwise update of Chan, Golub and LeVeque (1983)."""
        if other.n_samples == 0 or self.n_samples == 0:
            return self if other.n_samples == 0 else other
        n_samples = self.n_samples + other.n_samples
        step = other.mean - self.mean
        mean = self.mean + step * (other.n_samples / n_samples)
        between = np.outer(step, step) * (self.n_samples * other.n_samples / n_samples)
        return MomentSum(n_samples, mean, self.scatter + other.scatter + between)

    def variance_of_mean(self, gradient: FloatArray) -> float:
        """Return the variance of ``gradient · mean`` for independent samples."""
        if self.n_samples < 2:
            return float("nan")
        total = float(gradient @ self.scatter @ gradient)
        return max(total, 0.0) / (self.n_samples * (self.n_samples - 1))


@dataclass
class GroupSum:
    """Sums of moments by group: samples of one group may depend on each other in any way.

    Attributes
    ----------
    total : ndarray of shape (n_groups, n_moments)
    count : ndarray of shape (n_groups,)
        Samples of each group.
    """

    n_moments: int
    total: FloatArray = field(init=False)
    count: FloatArray = field(init=False)

    def __post_init__(self) -> None:
        self.total, self.count = np.zeros((0, self.n_moments)), np.zeros(0)

    def add(self, moments: FloatArray, group: IntArray) -> None:
        """Add samples to their groups."""
        self._make_room(int(group.max()) + 1)
        n_groups = len(self.count)
        self.count += np.bincount(group, minlength=n_groups)
        for column in range(self.n_moments):
            self.total[:, column] += np.bincount(group, weights=moments[:, column], minlength=n_groups)

    def merge(self, other: GroupSum) -> None:
        """Add the sums of another shard whose groups have the same numbers."""
        self._make_room(len(other.count))
        self.total[: len(other.count)] += other.total
        self.count[: len(other.count)] += other.count

    def variance_of_mean(self, gradient: FloatArray, mean: FloatArray) -> float:
        """Return the variance of ``gradient · mean`` if groups are independent, samples within one are not.

        ``C/(C - 1) · sum_c (gradient · (S_c - n_c · mean))² / n²`` over the C groups (Liang and Zeger, 1986).
        """
        present = self.count > 0
        n_groups = int(present.sum())
        if n_groups < 2:
            return float("nan")
        influence = (self.total[present] - self.count[present, None] * mean) @ gradient
        return float((influence**2).sum()) / float(self.count.sum()) ** 2 * n_groups / (n_groups - 1)

    def _make_room(self, n_groups: int) -> None:
        missing = n_groups - len(self.count)
        if missing > 0:
            self.count = np.concatenate([self.count, np.zeros(missing)])
            self.total = np.concatenate([self.total, np.zeros((missing, self.n_moments))])
