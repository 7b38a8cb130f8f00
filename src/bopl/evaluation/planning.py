"""How many decisions it takes to detect a difference, and whether more of them would help to train a better policy."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from scipy.special import ndtri

from bopl._policy_reader import read_policy, row_blocks
from bopl._settings import check_flag, check_number
from bopl._table import Record, Tabular, column_texts
from bopl._trust import MIN_ESS, MIN_GROUPS, min_rewarded, min_rewarded_groups
from bopl._typing import FloatArray
from bopl._weight import effective_sample_size, importance_weights, rewarded_sample_size
from bopl.evaluation.diagnosis import DecidingRewards
from bopl.evaluation.estimator import SNIPS
from bopl.evaluation.moments import SampleSums, in_unit, reward_unit
from bopl.evaluation.sample_terms import Pilot, Terms
from bopl.evaluation.sources import named_policies
from bopl.evaluation.verdict import NOT_TRUSTWORTHY
from bopl.evaluation.whole_log import compare
from bopl.log import BanditLog


@dataclass(frozen=True, eq=False)
class PlanRow(Record):
    """How many decisions it takes for one policy; the columns are described in ``bopl.evaluation.planning.COLUMNS``."""

    policy: Annotated[str, "name of the policy"]
    uplift: Annotated[float, "estimated uplift over the logging policy (snips)"]
    uplift_ci_lower: Annotated[float, "lower end of its interval"]
    uplift_ci_upper: Annotated[float, "upper end of it"]
    n: Annotated[int, "decisions at hand"]
    std_dev: Annotated[float, "standard error of the uplift, times the square root of the decisions"]
    detectable: Annotated[float, "smallest uplift that these decisions can detect, with the given power"]
    n_for_min_uplift: Annotated[float, "decisions needed to detect the minimum uplift; missing if there is none"]
    n_for_uplift: Annotated[float, "decisions needed to detect the estimated uplift, if it is the true one"]
    n_for_lower: Annotated[
        float, "the same if the truth is the lower end of the interval; infinite if that is not above zero"
    ]
    n_for_upper: Annotated[float, "the same if the truth is the upper end"]
    n_for_ab_test: Annotated[
        float, "decisions of an A/B test, both arms together, for the minimum uplift or else the estimate"
    ]


COLUMNS: dict[str, str] = column_texts(PlanRow)


def required_samples(std_dev: float, effect: float, *, confidence: float = 0.95, power: float = 0.8) -> float:
    """Return how many decisions tell an effect from zero: ``((z_confidence + z_power) · std_dev / effect)²``.

    Parameters
    ----------
    std_dev : float
        Standard error of the estimate, times the square root of the decisions it rests on.
    effect : float
        If it is not positive, infinitely many decisions are needed.
    confidence : float in (0, 1), default=0.95
        Confidence level of the two-sided interval that has to exclude zero.
    power : float in (0, 1), default=0.8
        Probability with which it does.
    """
    if not effect > 0.0:
        return math.inf
    return (_factor(confidence, power) * std_dev / effect) ** 2


def detectable_effect(std_dev: float, n_samples: float, *, confidence: float = 0.95, power: float = 0.8) -> float:
    """Return the smallest effect that ``n_samples`` decisions tell from zero; the inverse of `required_samples`."""
    return _factor(confidence, power) * std_dev / math.sqrt(n_samples)


def _factor(confidence: float, power: float) -> float:
    for name, value in (("confidence", confidence), ("power", power)):
        check_number(name, value, low=0.0, high=1.0, low_open=True, high_open=True)
    return float(ndtri(0.5 + confidence / 2.0) + ndtri(power))


@dataclass(frozen=True, eq=False)
class Plan(Tabular):
    """How many decisions it takes to distinguish each policy from the logging policy.

    A plan for the uplift that was estimated is as uncertain as that estimate, so it comes with both ends of its
    interval; the plan for the smallest uplift of interest rests on the spread alone. No plan is for fewer decisions
    than a verdict relies on: enough for 50 effective samples, 30 of them with a reward that decides.

    Attributes
    ----------
    rows : tuple of PlanRow
        One per policy; ``row.n`` and ``row["n"]`` are the same.
    """

    rows: tuple[PlanRow, ...]

    def _columns(self) -> dict[str, list[Any]]:
        return {name: [row[name] for row in self.rows] for name in COLUMNS}


def plan(
    log: BanditLog,
    policies: object = None,
    *,
    min_uplift: float | None = None,
    confidence: float = 0.95,
    power: float = 0.8,
    simultaneous: bool = True,
) -> Plan:
    """Return how many decisions it takes to distinguish policies from the logging policy.

    Parameters
    ----------
    log : BanditLog
        Its weights, rewards and groups determine how much estimates scatter. If it has groups, new decisions are
        assumed to come in groups of the same sizes.
    policies : policy, or mapping of name to policy, optional
        As for `bopl.evaluate`. Before there is one: always taking one action, for each action of the log.
    min_uplift : float, optional
        The smallest uplift of interest.
    confidence, power : float in (0, 1), default=0.95 and 0.8
        As for `required_samples`.
    simultaneous : bool, default=True
        As for `bopl.evaluate`: plan for verdicts on several policies that hold together, each with its share of the
        error.

    Examples
    --------
    >>> import numpy as np, bopl
    >>> rng = np.random.default_rng(0)
    >>> action = rng.integers(0, 2, size=2000)
    >>> log = bopl.BanditLog(np.zeros((2000, 1)), action, rng.random(2000) < 0.1, np.full(2000, 0.5))
    >>> rows = bopl.evaluation.plan(log, min_uplift=0.01).rows
    >>> [row["policy"] for row in rows], rows[0]["n_for_min_uplift"] > 2000
    (['always 0', 'always 1'], True)
    """
    if not isinstance(log, BanditLog):
        raise TypeError(f"plan takes a BanditLog; got {type(log).__name__}.")
    log.require_propensity()
    if min_uplift is not None:
        check_number("min_uplift", min_uplift, low=0.0, low_open=True, high=np.inf, high_open=True)
    _factor(confidence, power)
    check_flag("simultaneous", simultaneous)
    weights = _constant_weights(log) if policies is None else _policy_weights(log, policies)
    if simultaneous and policies is not None:
        confidence = 1.0 - (1.0 - confidence) / len(weights)
    return Plan(tuple(_row(log, name, weight, min_uplift, confidence, power) for name, weight in weights))


def _constant_weights(log: BanditLog) -> Sequence[tuple[str, FloatArray]]:
    """Return the weights of the policies that always take one action, of those that were logged."""
    return [
        (f"always {log.actions[idx]}", importance_weights(log.action_idx == idx, log.propensity))
        for idx in np.unique(log.action_idx)
    ]


def _policy_weights(log: BanditLog, policies: object) -> Sequence[tuple[str, FloatArray]]:
    """Return each policy's name with its importance weights on the log."""
    found = []
    for name, policy in named_policies(policies).items():
        reader = read_policy(policy, log, f"policy {name!r}")
        blocks = [reader.block(rows).logged_prob for rows in row_blocks(log.n_samples, log.n_actions)]
        found.append((name, importance_weights(np.concatenate(blocks), log.propensity)))
    return found


def _row(
    log: BanditLog, name: str, weight: FloatArray, min_uplift: float | None, confidence: float, power: float
) -> PlanRow:
    unit = reward_unit(log.reward)
    terms = Terms(weight, in_unit(log.reward, unit))
    estimator = SNIPS().tuned(Pilot(terms, log.n_samples))
    total = SampleSums.of(estimator.moments(terms), log.group)
    uplift, std_dev = float(estimator.uplift(total.mean)) * unit, math.nan
    if total.mean[1] > 0.0:
        std_dev = total.spread(estimator.uplift_gradient(total.mean)).std_err * math.sqrt(log.n_samples) * unit
    half = float(ndtri(0.5 + confidence / 2.0)) * std_dev / math.sqrt(log.n_samples)
    # No decisions are planned from a log that shows no spread, such as one whose rewards are all the same.
    spread, ab_spread = (
        one if np.ptp(log.reward) > 0.0 and one > 0.0 else math.nan for one in (std_dev, _ab_std_dev(terms) * unit)
    )
    levels = {"confidence": confidence, "power": power}
    effect = uplift if min_uplift is None else min_uplift
    least = _least_samples(log, terms, confidence, power)

    def needed(size: float) -> float:
        return float(np.maximum(required_samples(spread, size, **levels), least))

    return PlanRow(
        policy=name,
        uplift=uplift,
        uplift_ci_lower=uplift - half,
        uplift_ci_upper=uplift + half,
        n=log.n_samples,
        std_dev=std_dev,
        detectable=detectable_effect(spread, log.n_samples, **levels),
        n_for_min_uplift=math.nan if min_uplift is None else needed(min_uplift),
        n_for_uplift=needed(uplift),
        n_for_lower=needed(uplift - half),
        n_for_upper=needed(uplift + half),
        n_for_ab_test=required_samples(ab_spread, effect, **levels),
    )


def _least_samples(log: BanditLog, terms: Terms, confidence: float, power: float) -> float:
    """Return how many decisions it takes before a verdict relies on an interval (`bopl._trust`), with this power.

    What is counted in a log of that size scatters as a Poisson variable: ``mean - z · sqrt(mean)`` has to reach the
    limit.
    """
    weight, reward = terms.importance_weight, terms.reward
    sizes = [
        (MIN_ESS, effective_sample_size(weight)),
        (min_rewarded((1.0 - confidence) / 2.0), rewarded_sample_size(weight, reward)),
    ]
    if log.group is not None:
        sizes.append((MIN_GROUPS, len(np.unique(log.group))))
        deciding = DecidingRewards()
        deciding.add(weight - 1.0, terms, log.group)
        n_groups = deciding.rewarded_groups()
        if n_groups is not None:
            sizes.append((min_rewarded_groups((1.0 - confidence) / 2.0), n_groups))
    z = max(float(ndtri(power)), 0.0)
    ratios = [((z + math.sqrt(z**2 + 4.0 * limit)) / 2.0) ** 2 / size if size else math.inf for limit, size in sizes]
    return log.n_samples * max(ratios)


def _ab_std_dev(terms: Terms) -> float:
    """Return the same for an A/B test in halves, ``sqrt(2 (σ_old² + σ_new²))``; decisions taken to be independent."""
    weight, reward = terms.importance_weight, terms.reward
    if not weight.any():
        return math.nan
    share = weight / weight.sum()
    new = float(share @ (reward - share @ reward) ** 2)
    return math.sqrt(2.0 * (float(reward.var()) + new))


@dataclass(frozen=True, eq=False)
class LearningCurve:
    """What policies earn that were trained on more and more samples.

    Attributes
    ----------
    n_trained : tuple of int
        Samples that each policy was trained on, in ascending order.
    plan : Plan
        Uplift of each policy on the held-out samples, in that order, and the decisions needed to detect it.
    gain, gain_ci_lower, gain_ci_upper : float
        What the largest policy earns more than the one before, paired on the same samples, and its interval.
    n_held_out : int
    confidence : float
    min_uplift : float or None
        The smallest uplift of interest.
    complaint : str
        Why the held-out samples cannot tell, if a verdict on the gain would not be trustworthy.
    """

    n_trained: tuple[int, ...]
    plan: Plan
    gain: float
    gain_ci_lower: float
    gain_ci_upper: float
    n_held_out: int
    confidence: float
    min_uplift: float | None
    complaint: str = ""

    @property
    def still_rises(self) -> bool | None:
        """Whether the last step earned more; None if the held-out samples cannot tell.

        False if it earned nothing, or less than the smallest uplift of interest.
        """
        if self.complaint:
            return None
        if self.gain_ci_upper <= 0.0 or (self.min_uplift is not None and self.gain_ci_upper < self.min_uplift):
            return False
        return True if self.gain_ci_lower > 0.0 else None

    @property
    def sentence(self) -> str:
        """What to make of it."""
        before, last = self.n_trained[-2:]
        head = {
            True: "More data would probably still help",
            False: "More data would hardly help",
            None: f"{self.n_held_out:,} held-out samples cannot tell whether more data would help",
        }[self.still_rises]
        interval = f"{100.0 * self.confidence:.4g}% interval {self.gain_ci_lower:+.3g} to {self.gain_ci_upper:+.3g}"
        earned = f"{head}: going from {before:,} to {last:,} training samples earned {self.gain:+.3g} ({interval})."
        return f"{earned} {self.complaint}".strip()

    def to_dict(self) -> dict[str, Any]:
        """Return the curve as plain values."""
        points = [
            {"n_trained": n_trained, **{name: row[name] for name in ("uplift", "uplift_ci_lower", "uplift_ci_upper")}}
            for n_trained, row in zip(self.n_trained, self.plan.rows, strict=True)
        ]
        names = ("gain", "gain_ci_lower", "gain_ci_upper", "n_held_out", "still_rises", "sentence")
        return {"points": points, **{name: getattr(self, name) for name in names}}


def learning_curve(
    log: BanditLog,
    policies: Mapping[int, Any],
    *,
    min_uplift: float | None = None,
    confidence: float = 0.95,
    power: float = 0.8,
) -> LearningCurve:
    """Judge policies that were trained on more and more samples.

    Parameters
    ----------
    log : BanditLog
        Samples that none of them was trained on.
    policies : mapping of int to policy
        By the number of samples that each was trained on; at least two.
    min_uplift, confidence, power
        As for `bopl.evaluation.plan`.

    Examples
    --------
    >>> import numpy as np, bopl
    >>> rng = np.random.default_rng(0)
    >>> action = rng.integers(0, 2, size=2000)
    >>> log = bopl.BanditLog(np.zeros((2000, 1)), action, action * 1.0, np.full(2000, 0.5))
    >>> small, large = np.tile([0.5, 0.5], (2000, 1)), np.tile([0.1, 0.9], (2000, 1))
    >>> bopl.evaluation.learning_curve(log, {500: small, 1000: large}).still_rises
    True
    """
    if not isinstance(policies, Mapping):
        raise TypeError("a learning curve takes a mapping from the numbers of training samples to policies.")
    for n_trained in policies:
        check_number("the number of samples that a policy was trained on", n_trained, low=0, integer=True)
    if len(policies) < 2:
        raise ValueError(f"a learning curve needs policies of at least two sizes; got {len(policies)}.")
    ordered = dict(sorted(policies.items()))
    named = {f"{n_trained:,} samples": policy for n_trained, policy in ordered.items()}
    planned = plan(log, named, min_uplift=min_uplift, confidence=confidence, power=power, simultaneous=False)
    before, last = list(named)[-2:]
    last_two = {name: named[name] for name in (before, last)}
    (gain,) = compare(log, last_two, against=before, estimators="snips", confidence=confidence).comparisons
    return LearningCurve(
        tuple(ordered),
        planned,
        gain.difference,
        gain.ci_lower,
        gain.ci_upper,
        log.n_samples,
        confidence,
        min_uplift,
        gain.reason if gain.verdict == NOT_TRUSTWORTHY else "",
    )
