"""What weights and rewards say about whether the log can answer for a policy; accumulated block by block."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from bopl._trust import MAX_WEIGHT_SKEWNESS, MIN_TOGETHER
from bopl._typing import BoolArray, FloatArray, IntArray
from bopl._weight import deciding_share, mean_weight_gap, mean_weight_z, rewarded_groups, tail_index, top_share
from bopl.evaluation.estimator import Estimator
from bopl.evaluation.moments import GroupSum, MomentSum, SampleSums
from bopl.evaluation.sample_terms import Terms
from bopl.log import BanditLog
from bopl.log.row_sketch import RowSketch

TAIL_ROWS = 100_000  # largest weights that are kept: the top 1% of ten million samples


@dataclass(frozen=True)
class WeightFacts:
    """The weights of one policy, summed up."""

    n_samples: int
    ess: float  # effective sample size, ``sum(w)² / sum(w²)``
    # Effective samples that tell the policy from the logging policy, ``sum(|w - 1|)² / sum((w - 1)²)``.
    differing: float
    # Effective samples with a reward that decides: the smaller of the two above, times the share of the samples that
    # carry the variance of the rewards (`bopl._weight.deciding_share`). The second is for estimators with a reward
    # model q, to which the rewards are ``r - q_pi(x)``.
    rewarded: float
    corrected: float
    gap: float  # root mean square of ``w - 1``: 0 for the logging policy
    mean: float
    max: float
    mean_z: float  # how many standard errors the mean is from what is expected, `bopl._weight.mean_weight_gap`
    tail_index: float  # Hill's estimate; infinite if the largest weights are alike
    top_share: float  # part of ``sum(w |r|)`` in the top 1% of the weights
    single_share: float  # part of ``sum(w²)`` in the largest weight: what one sample has of the variance
    # Mean probability that the policy gives to actions the log never took, or that could not be chosen; NaN if the
    # probabilities of all actions are not known.
    unsupported_mass: float
    # Share of the policy's choices that rare large weights would stand for and that the log happens to lack: by how
    # much the mean weight is too low, where it is so skewed that this is to be expected.
    missing_mass: float
    trained_share: float  # share of the samples that the policy was trained on, as far as it remembers
    n_groups: int | None  # groups of dependent samples
    # Effective groups that tell the policy from the logging policy, as `differing` counts samples.
    differing_groups: float | None = None
    # Effective groups with rewards that decide, as `rewarded` and `corrected` count samples; None where the samples of
    # a group were drawn one by one.
    rewarded_groups: float | None = None
    corrected_groups: float | None = None
    reward_share: float = 1.0  # share of the samples that carry the variance of the rewards; 0 if all are the same
    # Mean weight of the policy that takes every eligible action alike, and how many standard errors it is from 1: off
    # only if the propensities are.
    uniform_mean: float = 1.0
    uniform_z: float = 0.0

    def rewarded_under(self, estimator: Estimator) -> tuple[float, float | None]:
        """Return the effective samples, and groups, with rewards that decide."""
        if estimator.needs_model:
            return self.corrected, self.corrected_groups
        return self.rewarded, self.rewarded_groups

    def missing_from(self, estimator: Estimator) -> float:
        """Return the missing mass that an estimator takes for nothing, unless it is self-normalised."""
        return 0.0 if estimator.shifts_with_rewards else self.missing_mass


class TrainedRows:
    """Counts the samples that a policy was trained on, by the sketch of its training rows."""

    def __init__(self) -> None:
        self.sketch: RowSketch | None = None
        self.n_compared = self.n_shared = 0
        self.is_same = False

    def add(self, policy: object, log: BanditLog) -> None:
        """Look up the rows of a part of the log."""
        policy, log = _fitted_part(policy, log)
        sketch: RowSketch | None = getattr(policy, "training_rows_", None)
        if sketch is None:
            return
        n_compared, n_shared = sketch.count_shared(log, policy.actions_)  # type: ignore[attr-defined]
        self.sketch, self.is_same = sketch, self.is_same or sketch.is_same(log)
        self.n_compared, self.n_shared = self.n_compared + n_compared, self.n_shared + n_shared

    def merge(self, other: TrainedRows) -> None:
        """Add the counts of another shard."""
        self.sketch, self.is_same = self.sketch or other.sketch, self.is_same or other.is_same
        self.n_compared, self.n_shared = self.n_compared + other.n_compared, self.n_shared + other.n_shared

    @property
    def share(self) -> float:
        """Share of the samples that the policy was trained on; 0 if that is not known or can be chance."""
        if self.sketch is None:
            return 0.0
        return 1.0 if self.is_same else self.sketch.shared_share(self.n_compared, self.n_shared)


def _fitted_part(policy: Any, log: BanditLog) -> tuple[Any, BanditLog]:
    """Return the policy that a search chose, a pipeline ends with or a wrapper holds, and the log as it sees it."""
    policy = getattr(policy, "best_estimator_", policy)
    if not hasattr(policy, "steps") or getattr(policy[-1], "training_rows_", None) is None:
        return _held_policy(policy), log
    context = log.context if len(policy.steps) == 1 else policy[:-1].transform(log.context)
    return policy[-1], BanditLog(context, log.action, log.reward, log.propensity, actions=log.actions)


def _held_policy(policy: Any, depth: int = 3) -> Any:
    """Return the policy that remembers its training rows: the given one, or one that it holds, itself or in a list."""
    if depth == 0 or getattr(policy, "training_rows_", None) is not None:
        return policy
    held: Iterable[Any] = (
        vars(policy).values() if hasattr(policy, "predict_proba") and hasattr(policy, "__dict__") else ()
    )
    if isinstance(policy, list | tuple | dict):
        held = policy.values() if isinstance(policy, dict) else policy
    found = (_held_policy(one, depth - 1) for one in held)
    return next((one for one in found if getattr(one, "training_rows_", None) is not None), policy)


class RewardTotals:
    """Moments and limits of the rewards."""

    def __init__(self) -> None:
        self.moments = MomentSum.empty(1)
        self.low, self.high = np.inf, -np.inf

    def add(self, reward: FloatArray) -> None:
        """Add samples."""
        self.moments = self.moments + MomentSum.of(reward[:, None])
        self.low, self.high = min(self.low, float(reward.min())), max(self.high, float(reward.max()))

    def merge(self, other: RewardTotals) -> None:
        """Add the sums of another shard."""
        self.moments = self.moments + other.moments
        self.low, self.high = min(self.low, other.low), max(self.high, other.high)

    @property
    def mean(self) -> float:
        """Mean reward."""
        return float(self.moments.mean[0])

    @property
    def standard_deviation(self) -> float:
        """Standard deviation of the rewards."""
        return float(np.sqrt(self.moments.scatter[0, 0] / self.moments.n_samples))

    @property
    def share(self) -> float:
        """Share of the samples that carry the variance of the rewards, as `bopl._weight.reward_share` has it."""
        if self.low == self.high:
            return 0.0
        return self.moments.carried_share


class DecidingRewards:
    """Rewards of the samples that tell two policies apart, each as much as it tells: by ``|w - w'|``.

    With a reward model, ``r - q_pi(x)`` stands in the place of the reward: what the model foresees of a context,
    whatever the action, cancels.
    """

    def __init__(self) -> None:
        self.reward = self.corrected = MomentSum.empty(1)
        # Sums of ``|w - w'|``, of ``w - w'``, and of the products of the first with the rewards.
        self.groups: GroupSum | None = None
        self.square_gap = 0.0

    def add(self, difference: FloatArray, terms: Terms, group: IntArray | None) -> None:
        """Add samples whose weights differ by so much, ``w - w'``."""
        gap = np.abs(difference)
        self.square_gap += float((gap**2).sum())
        columns = [terms.reward]
        if terms.policy_reward_hat is not None:
            columns.append(terms.reward - terms.policy_reward_hat)
            self.corrected = self.corrected + MomentSum.of(columns[1][:, None], gap)
        self.reward = self.reward + MomentSum.of(terms.reward[:, None], gap)
        if group is not None:
            self.groups = self.groups or GroupSum(2 + len(columns))
            self.groups.add(np.column_stack([gap, difference, *(gap * column for column in columns)]), group)

    def merge(self, other: DecidingRewards) -> None:
        """Add the sums of another shard."""
        self.reward, self.corrected = self.reward + other.reward, self.corrected + other.corrected
        self.square_gap += other.square_gap
        if other.groups is not None:
            self.groups = self.groups or GroupSum(other.groups.n_moments)
            self.groups.merge(other.groups)

    @property
    def n_groups(self) -> float | None:
        """Effective groups that tell the two apart, ``sum(g)² / sum(g²)``; None without groups."""
        if self.groups is None:
            return None
        apart = self.groups.total[:, 0]
        square = float((apart**2).sum())
        return float(apart.sum()) ** 2 / square if square > 0.0 else 0.0

    def rewarded_groups(self, *, has_model: bool = False) -> float | None:
        """Return the effective groups with rewards that decide; None without groups whose samples were drawn together.

        Where each sample has a draw of its own, ``w - w'`` adds up to nearly nothing in a group, whatever its rewards
        have in common: its samples are then counted one by one (`share`).
        """
        if self.groups is None:
            return None
        apart, difference, *rewards = self.groups.total.T
        if float((difference**2).sum()) < MIN_TOGETHER * self.square_gap:
            return None
        return rewarded_groups(apart, rewards[-1] if has_model else rewards[0])

    def share(self, of_all: float, *, has_model: bool = False) -> float:
        """Return the share of the samples that carry the variance of the rewards, given that of the whole log."""
        total = self.corrected if has_model and self.corrected.n_samples > 0 else self.reward
        return deciding_share(of_all, total.carried_share)


class PropensityTotals:
    """Weights of the policy that takes every eligible action alike: what the propensities say of themselves.

    Their mean is 1 if the propensities are right and every eligible action can be taken; an action that never is leaves
    it below 1, which says nothing of the propensities.
    """

    def __init__(self) -> None:
        self.weight = SampleSums()

    def add(self, propensity: FloatArray, n_eligible: FloatArray | int, group: IntArray | None) -> None:
        """Add samples."""
        self.weight.add((1.0 / (n_eligible * propensity))[:, None], group)

    def merge(self, other: PropensityTotals) -> None:
        """Add the sums of another shard."""
        self.weight.merge(other.weight)

    def mean_and_z(self) -> tuple[float, float]:
        """Return the mean weight and its z-score; a mean below 1 counts as 1."""
        mean = float(self.weight.mean[0])
        if mean <= 1.0:
            return mean, 0.0
        spread = self.weight.spread(np.ones(1))
        return mean, mean_weight_z(mean, spread.std_err, spread.skewness)


class WeightTotals:
    """Sums from which `WeightFacts` follow."""

    def __init__(self, n_actions: int) -> None:
        self.weight = SampleSums()
        self.gap = 0.0
        self.max = 0.0
        self.total = 0.0
        self.largest, self.contribution = np.zeros(0), np.zeros(0)
        self.action_mass: FloatArray | None = np.zeros(n_actions)
        self.forbidden_mass = 0.0
        self.deciding = DecidingRewards()

    def add(
        self,
        terms: Terms,
        action_prob: FloatArray | None,  # (n_rows, n_actions)
        impossible: BoolArray | None = None,  # (n_rows, n_actions): actions that the logging policy could not choose
        group: IntArray | None = None,  # (n_rows,): groups of dependent samples
    ) -> None:
        """Add samples."""
        weight = terms.importance_weight
        contribution = weight * np.abs(terms.reward)
        gap = np.abs(weight - 1.0)
        self.deciding.add(weight - 1.0, terms, group)
        self.weight.add(weight[:, None], group)
        self.gap += float(gap.sum())
        self.max = max(self.max, float(weight.max()))
        self.total += float(contribution.sum())
        self._keep(weight, contribution)
        if action_prob is None or self.action_mass is None:
            self.action_mass = None
        elif impossible is None:
            self.action_mass += action_prob.sum(axis=0)
        else:
            self.forbidden_mass += float((action_prob * impossible).sum())
            self.action_mass += np.where(impossible, 0.0, action_prob).sum(axis=0)

    def merge(self, other: WeightTotals) -> None:
        """Add the sums of another shard."""
        self.weight.merge(other.weight)
        self.gap += other.gap
        self.max, self.total = max(self.max, other.max), self.total + other.total
        self._keep(other.largest, other.contribution)
        both = self.action_mass is not None and other.action_mass is not None
        self.action_mass = self.action_mass + other.action_mass if both else None  # type: ignore[operator]
        self.forbidden_mass += other.forbidden_mass
        self.deciding.merge(other.deciding)

    def _keep(self, weight: FloatArray, contribution: FloatArray) -> None:
        full = len(self.largest) == TAIL_ROWS
        large = weight > self.largest.min() if full else np.ones(len(weight), dtype=np.bool_)
        self.largest = np.concatenate([self.largest, weight[large]])
        self.contribution = np.concatenate([self.contribution, contribution[large]])
        if len(self.largest) > TAIL_ROWS:
            top = np.argpartition(self.largest, len(self.largest) - TAIL_ROWS)[-TAIL_ROWS:]
            self.largest, self.contribution = self.largest[top], self.contribution[top]

    def facts(
        self,
        action_count: FloatArray,  # (n_actions,): how often the log took each action
        *,
        reward_share: float,  # share of the samples that carry the variance of the rewards
        trained_share: float = 0.0,  # share of the samples that the policy was trained on
        uniform: tuple[float, float] = (1.0, 0.0),  # mean weight of the uniform policy and its z-score
    ) -> WeightFacts:
        """Return what the sums say."""
        n_samples, mean = self.weight.n_samples, float(self.weight.mean[0])
        scatter = float(self.weight.moments.scatter[0, 0])
        second, square_gap = scatter + n_samples * mean**2, scatter + n_samples * (mean - 1.0) ** 2
        ess = (n_samples * mean) ** 2 / second if second > 0.0 else 0.0
        differing = self.gap**2 / square_gap if square_gap > 0.0 else 0.0
        spread, unsupported = self.weight.spread(np.ones(1)), self._unsupported_mass(action_count)
        return WeightFacts(
            n_samples=n_samples,
            ess=ess,
            differing=differing,
            rewarded=min(ess, differing) * self.deciding.share(reward_share),
            corrected=min(ess, differing) * self.deciding.share(reward_share, has_model=True),
            gap=float(np.sqrt(square_gap / n_samples)),
            mean=mean,
            max=self.max,
            mean_z=mean_weight_z(mean, spread.std_err, spread.skewness, unsupported=unsupported),
            tail_index=tail_index(self.largest, n_samples),
            top_share=top_share(self.largest, self.contribution, n_samples, self.total),
            single_share=self.max**2 / second if second > 0.0 else 0.0,
            unsupported_mass=unsupported,
            missing_mass=max(-mean_weight_gap(mean, unsupported), 0.0) * (spread.skewness > MAX_WEIGHT_SKEWNESS),
            trained_share=trained_share,
            n_groups=None if self.weight.groups is None else self.weight.groups.n_groups,
            differing_groups=self.deciding.n_groups,
            rewarded_groups=self.deciding.rewarded_groups(),
            corrected_groups=self.deciding.rewarded_groups(has_model=True),
            reward_share=reward_share,
            uniform_mean=uniform[0],
            uniform_z=uniform[1],
        )

    def _unsupported_mass(self, action_count: FloatArray) -> float:
        if self.action_mass is None:
            return float("nan")
        never = float(self.action_mass[action_count == 0].sum())
        return (never + self.forbidden_mass) / self.weight.n_samples
