"""Sums of moments that merge shard by shard, what they say of the spread of an estimate, and the unit of rewards."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from bopl._typing import FloatArray, IntArray

# Rewards are summed up in a unit in which sums of their fourth powers neither overflow nor vanish.
STEP = 100  # units are powers of 2**STEP, so that nearly all logs, and shards of one log, have the unit 1
MAX_EXPONENT = 1000
LEFT = 1e-13  # of a sum of squares, where its terms cancel: less is rounding, and says nothing of how little scatters


@dataclass(frozen=True)
class Spread:
    """How an estimate scatters, from the influences ``psi_i`` of its n independent units (samples or groups)."""

    std_err: float  # standard error of the estimate
    # In [-1, 1]: skewness of the estimate: ``sum(psi³) / sum(psi²)^1.5``, the skewness of one unit's influence over
    # sqrt(n).
    skewness: float
    # In [1/n, 1]: ``sum(psi⁴) / sum(psi²)²``, the kurtosis of one unit's influence over n: one over the number of units
    # that carry the variance.
    kurtosis: float
    n_units: int

    @classmethod
    def of_sums(cls, square: float, cube: float, fourth: float, n_samples: float, n_units: int) -> Spread:
        """Return the spread of an estimate whose influences have these sums of powers, taken over n_units units."""
        if n_units < 2:
            return cls(float("nan"), 0.0, 1.0, n_units)
        std_err = float(np.sqrt(max(square, 0.0) * n_units / (n_units - 1))) / n_samples
        if square <= 0.0:
            return cls(std_err, 0.0, 1.0 / n_units, n_units)
        # Rounding must not carry them out of the range that Cauchy and Schwarz leave them.
        skewness = float(np.clip(cube / square**1.5, -1.0, 1.0))
        return cls(std_err, skewness, float(np.clip(fourth / square**2, 1.0 / n_units, 1.0)), n_units)

    @property
    def degrees_of_freedom(self) -> float:
        """Degrees of freedom of the standard error, at most n - 1: ``2 / (kurtosis - 3/n + 2/(n - 1))``.

        They are those of the chi-squared variable that has the mean and the variance of the estimated variance
        (Satterthwaite, 1946), whose relative variance is ``(kappa - 3)/n + 2/(n - 1)``, kappa being the kurtosis of the
        influences.
        """
        return self._degrees_of_freedom(0.0)

    @property
    def residual_degrees_of_freedom(self) -> float:
        """Degrees of freedom at a given estimate, at most n - 1: ``2 / (kurtosis - skewness² - 3/n + 2/(n - 1))``.

        Estimate and estimated variance of a skewed mean move together, with squared correlation ``skewness²`` over the
        relative variance of the latter. What moves with the estimate is what Hall's transformation takes out
        (`bopl.evaluation.interval.Normal`); Student's quantile is left to answer for the rest.
        """
        return self._degrees_of_freedom(self.skewness**2)

    def _degrees_of_freedom(self, explained: float) -> float:
        most = self.n_units - 1.0
        if most <= 0.0:
            return 0.0
        scatter = self.kurtosis - explained - 3.0 / self.n_units + 2.0 / most  # relative variance of the variance
        return min(2.0 / scatter, most) if scatter > 0.0 else most


@dataclass(frozen=True)
class MomentSum:
    """Count, means and centred products of up to four moments; two shards add up to the whole, but for rounding.

    With ``c = moment - mean``, third products ``sum(c_i c_j · c_k)`` and fourth ``sum(c_i c_j · c_k c_l)`` are kept by
    pairs of moments, each pair once, in the order of `pair_indices`.
    """

    n_samples: float  # rows, or the sum of their weights
    mean: FloatArray  # (n_moments,)
    scatter: FloatArray  # (n_moments, n_moments): ``sum(c c^T)``
    third: FloatArray  # (n_pairs, n_moments)
    fourth: FloatArray  # (n_pairs, n_pairs)

    @classmethod
    def empty(cls, n_moments: int) -> MomentSum:
        """Return the sum over no samples."""
        n_pairs = n_moments * (n_moments + 1) // 2
        shapes = ((n_moments,), (n_moments, n_moments), (n_pairs, n_moments), (n_pairs, n_pairs))
        return cls(0, *(np.zeros(shape) for shape in shapes))

    @classmethod
    def of(cls, moments: FloatArray, weight: FloatArray | None = None) -> MomentSum:
        """Return the sum over the rows of an array of shape (n_rows, n_moments), which may count more or less."""
        n_rows, n_moments = moments.shape
        n_samples = n_rows if weight is None else float(weight.sum())
        if n_samples == 0:
            return cls.empty(n_moments)
        left, right = pair_indices(n_moments)
        factors = np.empty((n_moments + len(left), n_rows))  # c, then the products of its pairs
        centred, pairs = factors[:n_moments], factors[n_moments:]
        centred[:] = moments.T
        mean = centred.mean(axis=1) if weight is None else centred @ (weight / n_samples)
        centred -= mean[:, None]
        for row, (i, j) in enumerate(zip(left, right, strict=True)):
            np.multiply(centred[i], centred[j], out=pairs[row])
        products = factors @ factors.T if weight is None else (factors * weight) @ factors.T
        return cls(
            n_samples,
            mean,
            products[:n_moments, :n_moments],
            products[n_moments:, :n_moments],
            products[n_moments:, n_moments:],
        )

    def __add__(self, other: MomentSum) -> MomentSum:
        """Merge two shards: both are moved to the mean of the whole, and there they add (Pébay, 2008)."""
        if other.n_samples == 0 or self.n_samples == 0:
            return self if other.n_samples == 0 else other
        n_samples = self.n_samples + other.n_samples
        step = other.mean - self.mean
        mine = self._about(step * (-other.n_samples / n_samples))
        yours = other._about(step * (self.n_samples / n_samples))
        mean = self.mean + step * (other.n_samples / n_samples)
        return MomentSum(n_samples, mean, *(a + b for a, b in zip(mine, yours, strict=True)))

    def _about(self, s: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return scatter, third and fourth products of ``c + s`` in the place of c; the sum of c is zero."""
        n, (i, j) = self.n_samples, pair_indices(len(s))
        scatter, ss = self.scatter[i, j], s[i] * s[j]  # (n_pairs,)
        mixed = self.scatter[i] * s[j][:, None] + self.scatter[j] * s[i][:, None]  # (n_pairs, n_moments)
        third = self.third + np.outer(scatter, s) + mixed + n * np.outer(ss, s)
        single = self.third[:, i] * s[j] + self.third[:, j] * s[i]
        double = np.outer(scatter, ss) + np.outer(ss, scatter) + mixed[:, i] * s[j] + mixed[:, j] * s[i]
        fourth = self.fourth + single + single.T + double + n * np.outer(ss, ss)
        return self.scatter + n * np.outer(s, s), third, fourth

    def spread(self, gradient: FloatArray) -> Spread:
        """Return the spread of ``gradient · mean`` for independent samples."""
        left, right = pair_indices(len(gradient))
        by_pair = gradient[left] * gradient[right] * np.where(left == right, 1.0, 2.0)
        size = np.abs(gradient)
        return Spread.of_sums(
            max(float(gradient @ self.scatter @ gradient), LEFT * float(size @ np.abs(self.scatter) @ size)),
            float(by_pair @ self.third @ gradient),
            float(by_pair @ self.fourth @ by_pair),
            self.n_samples,
            int(self.n_samples),
        )

    @property
    def carried_share(self) -> float:
        """Share of the rows that carry the variance of the first moment: one over its kurtosis; 0 if all are alike."""
        square, fourth = float(self.scatter[0, 0]), float(self.fourth[0, 0])
        rounding = self.n_samples * (1e-14 * float(self.mean[0])) ** 2  # what centring leaves of equal rows
        return min(square**2 / (self.n_samples * fourth), 1.0) if fourth > 0.0 and square > rounding else 0.0


def pair_indices(n_moments: int) -> tuple[IntArray, IntArray]:
    """Return the positions ``(i, j)``, ``i <= j``, of all pairs of moments."""
    return np.triu_indices(n_moments)


@dataclass
class GroupSum:
    """Sums of moments by group: samples of one group may depend on each other in any way."""

    n_moments: int
    total: FloatArray = field(init=False)  # (n_groups, n_moments)
    count: FloatArray = field(init=False)  # (n_groups,): samples of each group

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

    @property
    def n_groups(self) -> int:
        """Groups that have samples."""
        return int((self.count > 0).sum())

    def spread(self, gradient: FloatArray, mean: FloatArray) -> Spread:
        """Return the spread of ``gradient · mean`` if groups are independent, samples within one are not.

        The influence of a group is the sum of those of its samples, ``gradient · (S_c - n_c · mean)``; the squared
        standard error is ``C/(C - 1) · sum_c influence_c² / n²`` over the C groups (Liang and Zeger, 1986).
        """
        present = self.count > 0
        influence = (self.total[present] - self.count[present, None] * mean) @ gradient
        square, cube, fourth = (float((influence**power).sum()) for power in (2, 3, 4))
        return Spread.of_sums(square, cube, fourth, int(self.count.sum()), self.n_groups)

    def _make_room(self, n_groups: int) -> None:
        missing = n_groups - len(self.count)
        if missing > 0:
            self.count = np.concatenate([self.count, np.zeros(missing)])
            self.total = np.concatenate([self.total, np.zeros((missing, self.n_moments))])


class SampleSums:
    """Sums of moments over samples: of all of them, and by group if samples of a group depend on each other."""

    def __init__(self) -> None:
        self.moments = MomentSum.empty(1)  # the first samples say how many moments there are
        self.groups: GroupSum | None = None

    @classmethod
    def of(cls, moments: FloatArray, group: IntArray | None = None) -> SampleSums:
        """Return the sums over the rows of an array of shape (n_rows, n_moments)."""
        found = cls()
        found.add(moments, group)
        return found

    @property
    def mean(self) -> FloatArray:
        """Means of the moments."""
        return self.moments.mean

    @property
    def n_samples(self) -> int:
        """How many samples there are."""
        return int(self.moments.n_samples)

    def add(self, moments: FloatArray, group: IntArray | None) -> None:
        """Add samples."""
        self.moments = self.moments + MomentSum.of(moments)
        if group is not None:
            self.groups = self.groups or GroupSum(moments.shape[1])
            self.groups.add(moments, group)

    def merge(self, other: SampleSums) -> None:
        """Add the sums of another shard."""
        self.moments = self.moments + other.moments
        if other.groups is not None:
            self.groups = self.groups or GroupSum(other.groups.n_moments)
            self.groups.merge(other.groups)

    def spread(self, gradient: FloatArray) -> Spread:
        """Return the spread of ``gradient · mean``, by group if there are groups."""
        return self.moments.spread(gradient) if self.groups is None else self.groups.spread(gradient, self.mean)


def reward_unit(reward: FloatArray) -> float:
    """Return the power of ``2**100`` (about 1e30) that is nearest to the largest reward; 1 for rewards of usual size.

    A power of two: dividing by it rounds nothing, so that rewards of any size give the same verdict and the same
    interval, but for the factor.
    """
    largest = float(np.abs(reward).max(initial=0.0))
    if largest == 0.0:
        return 1.0
    exponent = STEP * round(math.log2(largest) / STEP)
    return math.ldexp(1.0, max(-MAX_EXPONENT, min(exponent, MAX_EXPONENT)))


def in_unit(reward: FloatArray, unit: float) -> FloatArray:
    """Return rewards in a unit."""
    return reward if unit == 1.0 else reward / unit


def check_unit(largest: float, unit: float, what: str) -> None:
    """Raise one sentence if rewards that came later, up to ``largest`` in units, are far from the first ones."""
    if largest > 0.0 and not 2.0**-STEP <= largest <= 2.0**STEP:
        raise ValueError(
            f"{what} of the parts of the log differ in size by a factor of more than 1e30: the largest is "
            f"{largest * unit:g}, while the first part has rewards of about {unit:g}. Are all of them in one unit?"
        )
