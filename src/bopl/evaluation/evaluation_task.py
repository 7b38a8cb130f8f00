"""What is asked of an evaluation: its options, checked once, what its bounds assume, and the task that reads a log."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from numbers import Real
from typing import TYPE_CHECKING

import numpy as np

from bopl._errors import quoted
from bopl._policy_reader import PolicyReader, read_policy
from bopl._settings import check_flag, check_number
from bopl._typing import IntArray
from bopl.evaluation.estimator import Estimator
from bopl.evaluation.estimator_registry import get_estimators
from bopl.evaluation.interval import Interval
from bopl.evaluation.interval_registry import get_interval
from bopl.evaluation.moments import reward_unit
from bopl.evaluation.question import Question, ask
from bopl.evaluation.rounding import Rounding
from bopl.evaluation.sources import Sources, check_all_actions, named_policies, read_logging_policy
from bopl.log import BanditLog

if TYPE_CHECKING:
    from bopl.reward.prediction import RewardPredictor


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
        check_flag("head_to_head", self.head_to_head)
        check_flag("simultaneous", self.simultaneous)
        if self.min_propensity is not None:
            check_number("min_propensity", self.min_propensity, low=0.0, high=1.0, low_open=True)
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


@dataclass(frozen=True, eq=False)
class EvaluationTask:
    """What is evaluated; settings are checked and names looked up."""

    settings: EvaluationSettings
    policies: Mapping[str, object]  # None stands for probabilities that every part of the log brings along
    reward_model: object = None  # model or predictions, for estimators that need one
    logging_policy: object = None  # the logging policy, where it is known in full
    n_folds: int | None = None  # folds of cross-fitting; None for parts of a log, on which nothing is fitted
    n_samples: int | None = None  # length of the whole log; None takes that of the first part
    rounding: Rounding | None = None  # of the propensities of the whole log; None looks at each part
    interval: Interval = field(init=False)
    question: Question = field(init=False)
    estimators: tuple[Estimator, ...] = field(init=False)  # settings left to the data are not chosen yet

    def __post_init__(self) -> None:
        has_model = self.reward_model is not None
        object.__setattr__(self, "interval", self.settings.interval_kind)
        object.__setattr__(self, "question", self.settings.ask(list(self.policies)))
        object.__setattr__(self, "estimators", self.settings.find_estimators(has_reward_model=has_model))

    def suits(self, other: EvaluationTask) -> bool:
        """Return whether the sums of two tasks can be merged; their estimators are compared once they are tuned."""
        mine, yours = (
            (
                one.question,
                one.interval,
                one.settings.reward_range,
                one.settings.min_propensity,
                (one.settings.n_replicates, one.settings.random_state) if one.interval.needs_replicates else None,
            )
            for one in (self, other)
        )
        return mine == yours

    def read(self, log: BanditLog, policies: Mapping[str, object] | None = None, group: object = None) -> Sources:
        """Return checked readers of everything that is needed of a log, or of a part of one.

        ``policies`` has probabilities on this part, where they are arrays, and ``group`` the group of each sample,
        numbered as in the whole log; those of ``log`` by default.
        """
        log.require_propensity()
        readers = self._readers(log, policies)
        rewards = self._rewards(log, readers) if any(one.needs_model for one in self.estimators) else None
        fold = None if rewards is None else rewards.fold
        return Sources(
            log,
            readers,
            rewards,
            read_logging_policy(self.logging_policy, log),
            log.group if group is None else _check_group(group, log),
            Rounding.of(log, [log.propensity]) if self.rounding is None else self.rounding,
            hat_is_scaled=fold is not None,
            notes=() if fold is None else (self._model_note(int(fold.max()) + 1),),
        )

    def _readers(self, log: BanditLog, policies: Mapping[str, object] | None) -> tuple[PolicyReader, ...]:
        given = {**self.policies, **({} if policies is None else named_policies(policies))}
        unknown = [name for name in given if name not in self.policies]
        if unknown:
            raise ValueError(
                f"the part has unknown policies: {quoted(unknown)}; the policies are {quoted(list(self.policies))}."
            )
        return tuple(read_policy(policy, log, f"policy {name!r}") for name, policy in given.items())

    def _rewards(self, log: BanditLog, readers: tuple[PolicyReader, ...]) -> RewardPredictor:
        from bopl.reward.prediction import (
            predict_rewards,
        )  # with scikit-learn and the booster, which most calls need not

        check_all_actions(readers, self.estimators)
        if self.reward_model is None and self.n_folds is None:
            raise ValueError("estimators with a reward model need one that was fitted on other samples here.")
        return predict_rewards(
            self.reward_model, self._scaled(log), n_folds=self.n_folds, seed=self.settings.random_state
        )

    def _scaled(self, log: BanditLog) -> BanditLog:
        """Return the log that a reward model is cross-fitted on: with rewards in their unit, which 32 bits can hold."""
        from bopl.reward.prediction import is_fitted

        unit, model = reward_unit(log.reward), self.reward_model
        is_given = isinstance(model, np.ndarray | list) or (model is not None and is_fitted(model))
        return log if unit == 1.0 or is_given else log.with_reward(log.reward / unit)

    def _model_note(self, n_folds: int) -> str:
        name = "BoostedRewardModel" if self.reward_model is None else type(self.reward_model).__name__
        return f"Reward model: {name}, cross-fitted on {n_folds} folds."


def _check_group(group: object, log: BanditLog) -> IntArray:
    numbers = np.asarray(group)
    if numbers.shape != (log.n_samples,) or numbers.dtype.kind not in "iu" or numbers.min() < 0:
        raise ValueError(
            f"group must hold {log.n_samples} integers of at least 0, one per sample: the number of its group in the "
            "whole log."
        )
    return numbers.astype(np.int64)


@dataclass(frozen=True)
class Assumptions:
    """What bounds rest on."""

    reward_range: tuple[float, float]  # no reward lies outside
    max_weight: float  # no importance weight is larger

    def notes(self, interval: Interval, settings: EvaluationSettings) -> list[str]:
        """Return what is assumed, as sentences; nothing for intervals that are not bounds."""
        if not interval.is_bound:
            return []
        (low, high), given = self.reward_range, settings.reward_range is not None
        notes = [
            f"The bounds hold for rewards in [{low:g}, {high:g}] "
            f"({'given' if given else 'assumed, from the rewards seen'})."
        ]
        if interval.needs_min_propensity:
            origin = "given" if settings.min_propensity is not None else "assumed: the smallest propensity seen"
            notes.append(f"They hold for propensities of at least {1.0 / self.max_weight:.4g} ({origin}).")
        return notes


def find_assumptions(settings: EvaluationSettings, seen: tuple[float, float], min_propensity: float) -> Assumptions:
    """Return the range of rewards and the largest weight: as given, else taken from the samples.

    ``seen`` is the smallest and the largest reward of the samples: where both lie in [0, 1], so do all rewards by
    default. ``min_propensity`` is the smallest propensity of the samples.
    """
    low, high = seen
    limits = settings.reward_range
    if limits is None:
        limits = (0.0, 1.0) if low >= 0.0 and high <= 1.0 else seen
    elif low < limits[0] or high > limits[1]:
        raise ValueError(
            f"reward_range={limits} does not hold the rewards of the log, which lie in [{low:g}, {high:g}]."
        )
    given = settings.min_propensity
    if given is not None and not 0.0 < given <= min_propensity * (1.0 + 1e-9):
        raise ValueError(
            f"min_propensity={given:g} must be positive and at most the smallest propensity of the log, "
            f"{min_propensity:g}."
        )
    return Assumptions(limits, 1.0 / (min_propensity if given is None else given))
