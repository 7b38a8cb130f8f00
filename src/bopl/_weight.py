"""What the importance weights of a policy say about a log: how many samples it is worth, how heavy their tail is."""

from __future__ import annotations

import numpy as np

from bopl._trust import SAME_POLICY
from bopl._typing import FloatArray, IntArray

TOP_SHARE = 0.01  # the largest weights whose part in the value is looked at
MAX_WEIGHT = 1e30  # larger importance weights come from propensities that are none
MIN_TAIL = 10  # fewest weights from which a tail index is read


def importance_weights(logged_prob: FloatArray, propensity: FloatArray) -> FloatArray:
    """Return ``pi(a | x) / p`` of every sample, or raise if a propensity is so small that sums of powers overflow."""
    weight = logged_prob / propensity
    if weight.max(initial=0.0) > MAX_WEIGHT:
        row = int(weight.argmax())
        raise ValueError(
            f"a logged action has propensity {propensity[row]:.3g}: nothing was drawn with that probability. Drop the "
            "sample, or log the probability that the action was chosen with."
        )
    return weight


def snips_value(importance_weight: FloatArray, reward: FloatArray) -> float:
    """Return the self-normalised estimate ``sum(w · r) / sum(w)``; NaN if the policy never agrees with the log.

    Translating the reward translates this estimate by the same amount, and a constant reward is returned exactly.
    """
    total = float(importance_weight.sum())
    if total <= 0.0:
        return float("nan")
    # Weights are normalised by their maximum first: 1/p may be large enough for the products to overflow.
    scaled = importance_weight / importance_weight.max()
    return float((scaled * reward).sum() / scaled.sum())


def effective_sample_size(importance_weight: FloatArray) -> float:
    """Return ``sum(w)² / sum(w²)``: how many unweighted samples the log is worth to the policy; 0 if all w are 0."""
    largest = float(importance_weight.max(initial=0.0))
    if largest <= 0.0:
        return 0.0
    scaled = importance_weight / largest
    return float(scaled.sum() ** 2 / (scaled**2).sum())


def differing_sample_size(importance_weight: FloatArray) -> float:
    """Return ``sum(|w - 1|)² / sum((w - 1)²)``: how many samples tell it from the logging policy; 0 if none.

    It is to the uplift ``mean((w - 1) r)`` what the effective sample size is to the value ``mean(w r)``: a policy that
    differs in few contexts has few such samples, however many effective ones the log holds.
    """
    gap = np.abs(importance_weight - 1.0)
    largest = float(gap.max(initial=0.0))
    return effective_sample_size(gap) if largest > 0.0 else 0.0


def reward_share(reward: FloatArray, weight: FloatArray | None = None) -> float:
    """Return the share of the samples that carry the variance of the rewards, ``sum(d²)² / (n · sum(d⁴))``.

    That is one over the kurtosis of the rewards. For rewards of two values, one of them rare, it is the share of the
    rare one; for a normal reward 1/3; and it is small if a few rewards are far larger than the others. 0 if all rewards
    are the same. Samples may count more or less, by a weight.
    """
    count = np.ones(len(reward)) if weight is None else weight
    counted = reward[count > 0.0]
    spread = float(np.ptp(counted)) if len(counted) else 0.0
    if spread == 0.0:
        return 0.0
    square = ((reward - np.average(reward, weights=count)) / spread) ** 2
    return float((count * square).sum() ** 2 / (count.sum() * (count * square**2).sum()))


def deciding_share(of_all: float, where_apart: float) -> float:
    """Return the share of the samples that carry the variance of the rewards where two policies differ.

    It is that of the whole log, unless the samples that tell them apart have less than half of it, which is not chance:
    rewards may be rare where policies differ, and an interval from a handful of them is far too narrow.
    """
    return where_apart if where_apart < 0.5 * of_all else of_all


def rewarded_sample_size(importance_weight: FloatArray, reward: FloatArray) -> float:
    """Return the number of effective samples whose rewards carry information about a policy.

    Effective samples of the value or of the uplift, whichever are fewer, times the `deciding_share` of the rewards; for
    the logging policy itself, which needs no inference, those of the value.
    """
    size, share = effective_sample_size(importance_weight), reward_share(reward)
    if float(np.sqrt(((importance_weight - 1.0) ** 2).mean())) > SAME_POLICY:
        size = min(size, differing_sample_size(importance_weight))
        share = deciding_share(share, reward_share(reward, np.abs(importance_weight - 1.0)))
    return size * share


def rewarded_groups(apart: FloatArray, weighted_reward: FloatArray) -> float:
    """Return how many effective groups have rewards that decide, ``sum(g)² / sum(g²)`` over their squared skewness.

    g is the sum of ``|w - w'|`` in a group, and the skewness that of the groups' mean rewards, which count by g. If one
    user in a hundred buys, however often, that is 1% of the users. Infinite without skewness.

    Parameters
    ----------
    apart, weighted_reward : ndarray of shape (n_groups,)
        Sums of ``|w - w'|``, and of its products with the rewards.
    """
    apart, weighted_reward = apart[apart > 0.0], weighted_reward[apart > 0.0]
    if len(apart) == 0:
        return 0.0
    deviation = weighted_reward / apart - weighted_reward.sum() / apart.sum()
    largest = float(np.abs(deviation).max())
    if largest == 0.0:
        return float("inf")
    share, scaled = apart / apart.sum(), deviation / largest
    square, cube = float(share @ scaled**2), float(share @ scaled**3)
    return effective_sample_size(apart) * square**3 / cube**2 if cube != 0.0 else float("inf")


def largest_share(importance_weight: FloatArray) -> float:
    """Return ``max(w²) / sum(w²)``, the part of one sample in the sum of squared weights; 0 if all are 0."""
    largest = float(importance_weight.max(initial=0.0))
    return 0.0 if largest <= 0.0 else 1.0 / float(((importance_weight / largest) ** 2).sum())


def mean_std_err(values: FloatArray, group: IntArray | None = None) -> float:
    """Return the standard error of a mean, if there are groups that of dependent samples; NaN of a single one.

    Its square is ``C/(C - 1) · sum_c d_c² / n²``, ``d_c`` being the sum of the deviations of one of C groups.
    """
    deviation = _deviations(values, group)
    n_units = len(deviation)
    return float(np.sqrt(n_units / (n_units - 1) * (deviation**2).sum())) / len(values) if n_units > 1 else float("nan")


def mean_skewness(values: FloatArray, group: IntArray | None = None) -> float:
    """Return the skewness of a mean, ``sum_c d_c³ / (sum_c d_c²)^1.5``, between -1 and 1; 0 if nothing scatters."""
    deviation = _deviations(values, group)
    largest = float(np.abs(deviation).max(initial=0.0))
    if largest == 0.0:
        return 0.0
    scaled = deviation / largest
    return float((scaled**3).sum() / (scaled**2).sum() ** 1.5)


def _deviations(values: FloatArray, group: IntArray | None) -> FloatArray:
    """Return the deviations from the mean, added up by group if there are groups."""
    deviation = values - values.mean()
    if group is None:
        return deviation
    return np.bincount(np.unique(group, return_inverse=True)[1], weights=deviation).astype(np.float64)


def mean_weight_gap(mean: float, unsupported: float = 0.0) -> float:
    """Return how far the mean weight is from what it may be if the propensities are right.

    That is 1, less the share of the policy's choices that the log never took, if it is known: they have no weight.
    """
    return mean - min(max(mean, 1.0 - unsupported), 1.0) if unsupported > 0.0 else mean - 1.0


def mean_weight_z(mean: float, std_err: float, skewness: float = 0.0, *, unsupported: float = 0.0) -> float:
    """Return the z-score of the mean weight against what it is expected to be if the propensities are right.

    ``z = gap / std_err``, see `mean_weight_gap`; 0 if the gap is rounding. Where rare large weights make the mean
    skewed, a log without any of them has a mean below 1 and looks sure of it: Hall's transformation
    (`without_skewness`) brings such a z nearer to 0, and never further away from it.
    """
    gap = mean_weight_gap(mean, unsupported)
    if abs(gap) < 1e-9:
        return 0.0
    if std_err == 0.0:
        return float(np.copysign(np.inf, gap))
    z = gap / std_err
    normal = float(without_skewness(np.asarray(z), np.asarray(skewness)))
    return min(max(z, normal), 0.0) if z < 0.0 else max(min(z, normal), 0.0)


def without_skewness(z: FloatArray, skewness: FloatArray) -> FloatArray:
    """Return Hall's (1992) monotone transformation of a Studentised mean, which is normal to order 1/n.

    ``g(z) = z + A z²/3 + A² z³/27 + A/6``, A being the skewness of the mean.
    """
    return z + skewness * z**2 / 3.0 + skewness**2 * z**3 / 27.0 + skewness / 6.0


def tail_size(n_samples: int) -> int:
    """Return how many of the largest weights the tail index is read from: the square root of their number."""
    return max(MIN_TAIL, int(np.sqrt(n_samples)))


def tail_index(largest: FloatArray, n_samples: int) -> float:
    """Return Hill's (1975) estimate of the tail index of the weights; infinite if the largest are all alike.

    ``1 / mean(log(w_(i) / w_(k + 1)))`` over the k largest weights, ``k = sqrt(n)``. Below 2 the variance of an
    unbounded weight is infinite and nothing built on the central limit theorem holds.

    Parameters
    ----------
    largest : ndarray
        The positive weights, or at least the ``tail_size(n_samples) + 1`` largest of them, in any order.
    """
    k = tail_size(n_samples)
    positive = largest[largest > 0.0]
    if len(positive) <= k:
        return float("inf")
    ordered = np.sort(positive)[-(k + 1) :]
    mean_log = float(np.log(ordered[1:] / ordered[0]).mean())
    return float("inf") if mean_log <= 0.0 else 1.0 / mean_log


def top_share(largest: FloatArray, contribution: FloatArray, n_samples: int, total: float) -> float:
    """Return the part of ``total`` that the top 1% of the weights carry; samples of equal weight share alike.

    Parameters
    ----------
    largest, contribution : ndarray
        Weights and what each adds to the total (``w · |r|``): of all samples, or of the largest 1% at least.
    total : float
        Sum of the contributions of all samples.
    """
    n_top = min(int(np.ceil(TOP_SHARE * n_samples)), len(largest))
    if total <= 0.0 or n_top == 0:
        return 0.0
    cut = np.partition(largest, len(largest) - n_top)[len(largest) - n_top]
    above, tied = largest > cut, largest == cut
    shared = float(contribution[tied].mean()) * (n_top - int(above.sum()))
    return (float(contribution[above].sum()) + shared) / total
