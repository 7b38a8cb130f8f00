"""The rows of an evaluation: what was estimated, compared and decided, each a record with named fields."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from bopl._table import Record, column_texts


@dataclass(frozen=True, eq=False)
class Estimate(Record):
    """What one estimator says of one policy; the columns are described in ``bopl.evaluation.row.COLUMNS``."""

    policy: Annotated[str, "name of the policy"]
    estimator: Annotated[str, "name of the estimator"]
    is_primary: Annotated[bool, "whether this is the primary estimator, which decides about the policy"]
    value: Annotated[float, "estimated reward per decision"]
    std_err: Annotated[float, "its standard error"]
    ci_lower: Annotated[float, "lower end of its interval"]
    ci_upper: Annotated[float, "upper end of its interval"]
    uplift: Annotated[float, "value less that of the logging policy under the same estimator"]
    uplift_ci_lower: Annotated[float, "lower end of the paired interval of the uplift"]
    uplift_ci_upper: Annotated[float, "upper end of it; of several policies the intervals hold together"]
    n: Annotated[int, "samples"]
    ess: Annotated[float, "effective sample size, sum(w)² / sum(w²)"]
    mean_weight: Annotated[float, "mean importance weight, 1 if all is well"]
    max_weight: Annotated[float, "largest importance weight"]
    clipped_share: Annotated[float, "share of the samples whose weight the estimator clipped or set aside"]
    unsupported_mass: Annotated[float, "share of the policy's choices that the log never took; missing if not known"]
    propensity_source: Annotated[str, "logged, balanced, mismatched, estimated or uniform"]
    verdict: Annotated[str, "better, worse, inconclusive or not trustworthy"]
    reason: Annotated[str, "why, in a sentence"]


COLUMNS: dict[str, str] = column_texts(Estimate)


@dataclass(frozen=True, eq=False)
class SegmentEstimate(Record):
    """What the primary estimator says of a policy in one segment of the log.

    Attributes
    ----------
    policy, segment : str
    logging_value : float
        Mean reward of the segment: what the logging policy earns there.
    estimator : str
    n : int
        Samples of the segment.
    ess : float
        Effective sample size.
    value : float
    uplift, uplift_ci_lower, uplift_ci_upper : float
        Difference from the logging policy and its interval, which holds for all segments together.
    verdict, reason : str
    """

    policy: str
    segment: str
    logging_value: float
    estimator: str
    n: int
    ess: float
    value: float
    uplift: float
    uplift_ci_lower: float
    uplift_ci_upper: float
    verdict: str
    reason: str


@dataclass(frozen=True, eq=False)
class Comparison(Record):
    """Two policies compared on the same samples.

    Attributes
    ----------
    policy, other : str
        The policy, and the one it is compared with.
    estimator : str
    difference, ci_lower, ci_upper : float
        What the policy earns more than the other one, and its interval.
    effective : float
        Effective samples that tell the two apart.
    verdict, reason : str
    """

    policy: str
    other: str
    estimator: str
    difference: float
    ci_lower: float
    ci_upper: float
    effective: float
    verdict: str
    reason: str


@dataclass(frozen=True, eq=False)
class GuardResult(Record):
    """Whether a policy keeps a guard.

    Attributes
    ----------
    policy, guard : str
    reward : str
        The reward that is guarded.
    estimator : str
    now : float
        What is earned of it now.
    change, ci_lower, ci_upper : float
        By how much the policy changes that, and its interval.
    limit : float
        The change that the guard allows.
    state : {"kept", "broken", "undecided"}
    reason : str
    """

    policy: str
    guard: str
    reward: str
    estimator: str
    now: float
    change: float
    ci_lower: float
    ci_upper: float
    limit: float
    state: str
    reason: str


@dataclass(frozen=True, eq=False)
class PolicyVerdict(Record):
    """The verdict on one policy: that of its primary estimator, guards included.

    Attributes
    ----------
    policy : str
    against : str or None
        What it was compared with, if not with the logging policy.
    estimator : str
    verdict : {"better", "worse", "inconclusive", "not trustworthy"}
    reason : str
    """

    policy: str
    against: str | None
    estimator: str
    verdict: str
    reason: str


@dataclass(frozen=True, eq=False)
class TippingPoint(Record):
    """How strong hidden confounding must be to overturn a verdict.

    Attributes
    ----------
    policy, estimator, verdict : str
    odds : float
        Factor by which an unmeasured cause must shift the odds of an action; infinite if even 100 does not suffice.
    """

    policy: str
    estimator: str
    verdict: str
    odds: float
