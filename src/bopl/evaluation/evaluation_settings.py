"""`EvaluationSettings`: the options of an evaluation, declared, documented and checked in one place."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from numbers import Real

import numpy as np

from bopl._settings import check_number
from bopl.evaluation.estimator import Estimator
from bopl.evaluation.estimator_registry import get_estimators
from bopl.evaluation.interval import Interval, get_interval
from bopl.evaluation.question import Question, ask


@dataclass(frozen=True, kw_only=True)
class EvaluationSettings:
    """How policies are evaluated, whatever form the log comes in.

    The fields are keywords of `bopl.evaluate`, which describes them, of `bopl.evaluate_parquet` and of
    `bopl.ValueAccumulator`; all three build this record and pass on nothing else. ``against`` is the name of a policy.
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
            ends = tuple(self.reward_range) if isinstance(self.reward_range, Iterable) else ()
            is_pair = len(ends) == 2 and all(isinstance(end, Real) and np.isfinite(end) for end in ends)
            if not is_pair or ends[0] > ends[1]:
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
