"""`EvaluationSettings`: the options of an evaluation, declared, documented and checked in one place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bopl._settings import check_number
from bopl.evaluation.estimator import Estimator
from bopl.evaluation.interval import Interval, get_interval
from bopl.evaluation.question import Question, ask
from bopl.evaluation.registry import get_estimators


@dataclass(frozen=True, kw_only=True)
class EvaluationSettings:
    """How policies are evaluated, whatever form the log comes in.

    The fields are keywords of `bopl.evaluate`, `bopl.evaluate_parquet` and `bopl.ValueAccumulator`, which build this
    record and pass on nothing else.

    Attributes
    ----------
    estimators : names or Estimators, "all", or None
        What to estimate with; None takes the default ones.
    interval : str
        Kind of interval.
    confidence : float in (0, 1)
        Confidence level of intervals and verdicts.
    min_uplift : float or str
        Smallest uplift of interest.
    guards : sequence of str or Guard
        Other rewards that must not get worse.
    against : str or None
        Name of the policy that runs now, if that is not the logging policy.
    head_to_head : bool
        Compare every policy with every other one.
    simultaneous : bool
        Let the verdicts on several policies hold together.
    n_replicates : int
        Replicates of the bootstrap.
    reward_range : (float, float) or None
        Range of the rewards, for bounds; None takes it from the log.
    min_propensity : float or None
        Smallest propensity, for bounds; None takes it from the log.
    random_state : int
        Seed of folds and replicates.
    n_jobs : int or None
        Threads of the bootstrap; None takes all cores.
    """

    estimators: object = None
    interval: str = "normal"
    confidence: float = 0.95
    min_uplift: object = 0.0
    guards: object = ()
    against: str | None = None
    head_to_head: bool = False
    simultaneous: bool = True
    n_replicates: int = 1000
    reward_range: tuple[float, float] | None = None
    min_propensity: float | None = None
    random_state: int = 0
    n_jobs: int | None = None

    def __post_init__(self) -> None:
        check_number("random_state", self.random_state, low=0, integer=True)
        if self.reward_range is not None:
            low, high = self.reward_range
            if not (np.isfinite(low) and np.isfinite(high) and low <= high):
                raise ValueError(
                    f"reward_range must be two finite numbers, the smaller one first; got {self.reward_range}."
                )

    @cached_property
    def interval_kind(self) -> Interval:
        """The kind of interval, at the confidence level."""
        return get_interval(self.interval, self.confidence)

    def find_estimators(self, *, has_reward_model: bool) -> tuple[Estimator, ...]:
        """Return the estimators by their names."""
        return get_estimators(self.estimators, self.interval_kind, has_reward_model=has_reward_model)

    def ask(self, names: Sequence[str]) -> Question:
        """Return what is asked of policies of these names."""
        question = ask(
            names,
            min_uplift=self.min_uplift,
            guards=self.guards,
            against=self.against,
            head_to_head=self.head_to_head,
            simultaneous=self.simultaneous,
        )
        question.check(self.interval_kind)
        return question
