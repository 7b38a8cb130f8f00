"""Hidden confounding: how strong a cause that the log does not hold would have to be to overturn a verdict.

Under the marginal sensitivity model (Tan, 2006) the odds of the logged action given all causes, ``p* / (1 - p*)``, are
within a factor of those of the log, ``1/Γ <= [p* / (1 - p*)] / [p / (1 - p)] <= Γ``. The weight of a sample is then
known up to limits only, ::

    π · (1 + (1/p - 1) / Γ)  <=  w  <=  π · (1 + (1/p - 1) · Γ),

and the uplift up to the least and the largest value that weights within them give: a linear or a linear-fractional
programme whose solution has every weight at a limit (Zhao, Small and Bhattacharya, 2019). The interval at Γ is the
interval of the samples with those weights: by the envelope theorem their choice adds nothing to its width.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from bopl._typing import BoolArray, FloatArray, IntArray
from bopl.evaluation.answer import Answers
from bopl.evaluation.estimator import Estimator
from bopl.evaluation.evaluation_task import EvaluationTask
from bopl.evaluation.interval import Bounds, Evidence, Interval, Normal, at_confidence
from bopl.evaluation.log_sums import LogSums
from bopl.evaluation.moments import SampleSums
from bopl.evaluation.paired import Difference
from bopl.evaluation.result import Evaluation
from bopl.evaluation.row import Comparison, Estimate, TippingPoint
from bopl.evaluation.sample_terms import Terms
from bopl.evaluation.sources import Sources
from bopl.evaluation.verdict import DECIDED, WORSE

MAX_ODDS = 100.0  # larger factors are not told apart
N_HALVINGS = 14  # of the logarithm of the odds: to 0.03%
MAX_STEPS = 50  # of the iteration that finds an extreme


@dataclass(frozen=True, eq=False)
class WeightBox:
    """Samples whose importance weights are known to lie within limits."""

    terms: Terms  # with the weights as they were estimated
    # (n_rows,): limits of the weights
    low: FloatArray
    high: FloatArray

    @classmethod
    def of(cls, terms: Terms, propensity: FloatArray, odds: float) -> WeightBox:
        """Return the limits if a hidden cause moves the odds of actions by up to ``odds``."""
        weight = terms.importance_weight
        at_least = weight * propensity  # π: what the weight would be if the action had been certain
        return cls(terms, at_least + (weight - at_least) / odds, at_least + (weight - at_least) * odds)

    def at(self, is_high: BoolArray) -> Terms:
        """Return the terms with every weight at one of its limits."""
        return replace(self.terms, importance_weight=np.where(is_high, self.high, self.low))


@dataclass(frozen=True, eq=False)
class Sensitivity:
    """One policy's samples under one estimator, and how the uplift depends on a hidden cause."""

    estimator: Estimator  # its uplift is monotone in every weight; a `Difference` if there is another policy
    terms: Terms
    propensity: FloatArray  # (n_samples,)
    group: IntArray | None = None  # (n_samples,)
    interval: Interval = field(default_factory=Normal)  # the normal interval stands in for the bootstrap
    reward_range: tuple[float, float] = (0.0, 1.0)  # for intervals that are bounds
    other: Terms | None = None  # of the policy that it is compared with

    def box(self, odds: float) -> WeightBox:
        """Return the limits of the weights if a hidden cause moves the odds of actions by up to ``odds``."""
        return WeightBox.of(self.terms, self.propensity, odds)

    def extreme(self, odds: float, *, largest: bool) -> list[Terms]:
        """Return the terms with the weights within their limits that make the uplift smallest, or largest.

        An uplift that is linear in the weights is extreme where every weight is at one of its limits. One that is a
        ratio of linear functions is, too: which limit a sample takes follows from the gradient at the extreme, and
        Dinkelbach's (1967) iteration finds it: take the gradient at the present means, move every weight to the
        limit that it asks for, and again until nothing moves. Weights of two policies that are compared move together,
        and of a difference of two ratios the iteration finds an extreme that no step improves.
        """
        sign = 1.0 if largest else -1.0
        boxes = [self.box(odds)]
        if self.other is not None:
            boxes.append(WeightBox.of(self.other, self.propensity, odds))
        best, best_uplift = np.zeros(len(self.propensity), dtype=np.bool_), -np.inf
        at_low, at_high = (self._moments([box.at(one) for box in boxes]) for one in (best, ~best))
        mean = self._moments([box.terms for box in boxes]).mean(axis=0)
        for _ in range(MAX_STEPS):
            takes_high = (at_high - at_low) @ (sign * self.estimator.uplift_gradient(mean)) > 0.0
            mean = np.where(takes_high[:, None], at_high, at_low).mean(axis=0)
            uplift = sign * float(self.estimator.uplift(mean))
            if not uplift > best_uplift:
                break
            best, best_uplift = takes_high, uplift
        return [box.at(best) for box in boxes]

    def _moments(self, terms: Sequence[Terms]) -> FloatArray:
        if isinstance(self.estimator, Difference):
            return self.estimator.paired_moments(*terms)
        return self.estimator.moments(*terms)

    def uplift(self, odds: float) -> Bounds:
        """Return the least and the largest estimate of the uplift."""
        ends = (self._evidence(self.extreme(odds, largest=one)).uplift for one in (False, True))
        lower, upper = ends
        return lower, upper

    def bounds(self, odds: float) -> Bounds:
        """Return the interval of the uplift: the lower end at the least, the upper end at the largest estimate."""
        return self.bound(odds, upper=False), self.bound(odds, upper=True)

    def bound(self, odds: float, *, upper: bool) -> float:
        """Return one end of the interval."""
        return self.interval.uplift(self._evidence(self.extreme(odds, largest=upper)))[int(upper)]

    def tipping_odds(self, *, upper: bool, threshold: float = 0.0) -> float:
        """Return the smallest odds at which an end of the interval reaches a threshold; infinity beyond `MAX_ODDS`.

        ``upper`` follows the upper end, which rises, instead of the lower one, which falls.
        """
        sign = 1.0 if upper else -1.0

        def has_fallen(log_odds: float) -> bool:
            return not sign * self.bound(float(np.exp(log_odds)), upper=upper) < sign * threshold

        low, high = 0.0, float(np.log(MAX_ODDS))
        if has_fallen(low):
            return 1.0
        if not has_fallen(high):
            return float("inf")
        for _ in range(N_HALVINGS):
            middle = 0.5 * (low + high)
            low, high = (low, middle) if has_fallen(middle) else (middle, high)
        return float(np.exp(low))

    def _evidence(self, terms: Sequence[Terms]) -> Evidence:
        weight = terms[0].importance_weight
        return Evidence(
            estimator=self.estimator,
            sums=SampleSums.of(self._moments(terms), self.group),
            importance_weight=weight,
            reward=terms[0].reward,
            reward_range=self.reward_range,
            max_weight=float(weight.max()),
        )


def with_confounding(evaluation: Evaluation, task: EvaluationTask, sums: LogSums, sources: Sources) -> Evaluation:
    """Return the evaluation with what hidden confounding could do to its verdicts."""
    answers = Answers(task, sums, sums.assumptions(task))
    points = _of_estimates if task.question.against is None else _of_comparisons
    found = tuple(points(evaluation, answers, sources))
    return replace(evaluation, confounding=found, notes=(*evaluation.notes, *describe_confounding(found)))


def _of_estimates(evaluation: Evaluation, answers: Answers, sources: Sources) -> Iterator[TippingPoint]:
    """Yield what overturns the verdicts on policies compared with the logging policy."""
    question, unit = answers.question, sources.unit
    level = question.confidence(evaluation.confidence, question.n_judged)
    interval = interval_for(at_confidence(answers.task.interval, level))
    least = question.min_uplift.absolute(evaluation.logging_value) / unit
    low, high = answers.assumptions.reward_range
    rows = iter(evaluation.rows)
    for place, estimators in enumerate(answers.sums.estimators):
        own = [next(rows) for _ in estimators]
        if not (_holds(evaluation, own) and any(one.verdict in DECIDED for one in own)):
            continue
        terms = sources.all_terms(place)
        for position, (one, estimator) in enumerate(zip(own, estimators, strict=True)):
            if one.verdict in DECIDED and estimator.is_monotone_in_weight:
                known = (terms, sources.log.propensity, sources.group)
                sensitivity = Sensitivity(estimator, *known, interval, (low / unit, high / unit))
                yield find_tipping_point(one, sensitivity, answers.judged(place, position, interval), least)


def _of_comparisons(evaluation: Evaluation, answers: Answers, sources: Sources) -> Iterator[TippingPoint]:
    """Yield what overturns the verdicts on policies compared with the one that runs now."""
    question = answers.question
    interval = Normal(question.confidence(evaluation.confidence, len(answers.books.pairs)))
    for pair, one in zip(answers.books.pairs, evaluation.comparisons, strict=True):
        both = (pair.estimator.first, pair.estimator.second)
        if one.verdict in DECIDED and _holds(evaluation, [one]) and all(each.is_monotone_in_weight for each in both):
            first, second = (sources.all_terms(place) for place in (pair.first, pair.second))
            known = (first, sources.log.propensity, sources.group)
            sensitivity = Sensitivity(pair.estimator, *known, interval, other=second)
            base = float(both[1].value(both[1].moments(second).mean(axis=0)))
            least = question.min_uplift.absolute(base)
            yield find_tipping_point(one, sensitivity, answers.judged_pair(pair, interval), least)


def _holds(evaluation: Evaluation, found: Sequence[Estimate | Comparison]) -> bool:
    """Return whether the verdict on a policy is the one that was found on the main reward, not that of a guard."""
    main = next(one for one in found if not isinstance(one, Estimate) or one.is_primary)
    return evaluation.decision(main.policy)["verdict"] == main.verdict


def find_tipping_point(
    found: Estimate | Comparison, sensitivity: Sensitivity, judged: Bounds, least: float = 0.0
) -> TippingPoint:
    """Return how strong a hidden cause must be to overturn a verdict of `better` or `worse`.

    ``judged`` is the interval that the verdict rests on, with all that it allows for, and ``least`` what `better`
    takes, the smallest uplift of interest: both in the unit of the terms. The sensitivity is that of its policy and
    estimator.
    """
    is_worse = found.verdict == WORSE
    allowed = sensitivity.bound(1.0, upper=is_worse) - judged[int(is_worse)]
    odds = sensitivity.tipping_odds(upper=is_worse, threshold=(0.0 if is_worse else least) + allowed)
    return TippingPoint(found.policy, found.estimator, found.verdict, odds)


def describe_confounding(found: Sequence[TippingPoint]) -> list[str]:
    """Return one sentence for each policy and verdict."""
    by_verdict: dict[tuple[str, str], list[TippingPoint]] = {}
    for one in found:
        by_verdict.setdefault((one.policy, one.verdict), []).append(one)
    return [_sentence(policy, verdict, points) for (policy, verdict), points in by_verdict.items()]


def _sentence(policy: str, verdict: str, points: Sequence[TippingPoint]) -> str:
    listed = ", ".join(f"{_odds_text(one.odds)} ({one.estimator})" for one in points)
    return (
        f"Hidden confounding: the verdict {verdict!r} on {policy} falls if an unmeasured cause shifts the odds of an "
        f"action by a factor of more than {listed}."
    )


def _odds_text(odds: float) -> str:
    """Return the odds up to which a verdict stands, rounded down."""
    return f"{MAX_ODDS:.0f}" if not np.isfinite(odds) else f"{np.floor(odds * 100.0) / 100.0:.3g}"


def interval_for(interval: Interval) -> Interval:
    """Return the interval of a sensitivity analysis: the caller's, or the normal one for the bootstrap."""
    return Normal(interval.confidence) if interval.needs_replicates else interval
