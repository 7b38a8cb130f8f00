"""How good a configuration is: its validation reward on simulated logs, or a cross-validated estimate on a real one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from sklearn.base import clone

from bopl._policy_reader import logged_entries
from bopl._settings import check_number
from bopl._typing import FloatArray
from bopl.boosting.loop import INTERRUPTED
from bopl.evaluation.estimator import Estimator
from bopl.evaluation.estimator_registry import get_estimators
from bopl.evaluation.interval_registry import get_interval
from bopl.evaluation.whole_log import off_policy_score
from bopl.log import BanditLog
from bopl.reward.folds import draw_folds
from bopl.simulation import SimulatedProblem


def _fit(policy: Any, log: BanditLog) -> Any:
    """Return the fitted policy; one that Ctrl-C interrupted must not be scored, and ends the search."""
    fitted = policy.fit(log)
    if getattr(fitted, "stop_reason_", None) == INTERRUPTED or getattr(fitted, "is_interrupted_", False):
        raise KeyboardInterrupt
    return fitted


class Scorer(Protocol):
    """Scores an unfitted policy with a number, higher is better. It is sent to worker processes."""

    def __call__(self, policy: Any) -> float:
        """Train copies of the policy and return their score."""
        ...


@dataclass
class SimulatedScorer:
    """The paper's rule: mean validation reward of the policies trained on several simulated logs.

    Parameters
    ----------
    make_problem : callable of a trial number that returns a `SimulatedProblem`
        Called once per trial in every worker process, so it must be importable: a function or a `functools.partial`.
    trials : sequence of int
        Trials whose rewards are averaged.
    is_seeded : bool, default=False
        Use the trial's number as ``random_state`` of the policy trained on its log.
    """

    make_problem: Callable[[int], SimulatedProblem]
    trials: Sequence[int]
    is_seeded: bool = False
    _made: dict[int, SimulatedProblem] = field(default_factory=dict, repr=False)

    def __call__(self, policy: Any) -> float:
        """Return the mean validation reward."""
        return float(np.mean([self._reward(policy, trial) for trial in self.trials]))

    def _reward(self, policy: Any, trial: int) -> float:
        if trial not in self._made:
            self._made[trial] = self.make_problem(trial)
        problem = self._made[trial]
        fresh = clone(policy)
        if self.is_seeded:
            fresh.set_params(random_state=trial)
        return problem.validation_value(_fit(fresh, problem.train))

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_made": {}}  # recreated where it is needed: logs are large


@dataclass(frozen=True)
class CrossValidatedScorer:
    """For a real log: every sample is judged by a policy that was trained without it.

    Parameters
    ----------
    log : BanditLog
        Samples to divide into folds.
    n_folds : int, default=3
        Number of folds; samples of one group share a fold.
    estimator : str or Estimator, default="snips"
        Estimator of the value, one that needs no reward model; `snips` is less noisy than `ips`.
    confidence : float in (0.5, 1) or None, default=None
        Rank configurations by a lower bound with this confidence, the lower end of the normal interval of
        `bopl.evaluate`, which distrusts policies that few logged samples support.
    is_greedy : bool, default=False
        Judge the greedy policy instead of the policy as it samples.
    random_state : int, default=0
        Seed of the folds.
    """

    log: BanditLog
    n_folds: int = 3
    estimator: str | Estimator = "snips"
    confidence: float | None = None
    is_greedy: bool = False
    random_state: int = 0

    def __post_init__(self) -> None:
        check_number("n_folds", self.n_folds, low=2, high=self.log.n_samples, integer=True)
        (estimator,) = get_estimators([self.estimator], get_interval("normal", 0.95), has_reward_model=False)
        if estimator.needs_model:
            raise ValueError(f"estimator must not need a reward model; got {self.estimator!r}.")
        if self.confidence is not None:
            check_number("confidence", self.confidence, low=0.5, high=1.0, low_open=True, high_open=True)

    def __repr__(self) -> str:
        settings = (self.n_folds, self.estimator, self.confidence, self.is_greedy, self.random_state)
        return f"CrossValidatedScorer({self.log.fingerprint()}, {', '.join(map(repr, settings))})"

    def __call__(self, policy: Any) -> float:
        """Return the estimate, or its lower bound."""
        logged_prob = np.empty(self.log.n_samples)
        fold = draw_folds(self.log, self.n_folds, self.random_state)
        for number in range(int(fold.max()) + 1):
            held_out = fold == number
            fitted = _fit(clone(policy), self.log.subset(~held_out))
            logged_prob[held_out] = self._logged_prob(fitted, self.log.subset(held_out))
        return off_policy_score(self.log, logged_prob, estimator=self.estimator, confidence=self.confidence)

    def _logged_prob(self, policy: Any, log: BanditLog) -> FloatArray:
        mask = {} if log.action_mask is None else {"action_mask": log.action_mask}
        temperature = {"inverse_temperature": np.inf} if self.is_greedy else {}
        action_prob: FloatArray = policy.predict_proba(log.context, **temperature, **mask)
        return logged_entries(action_prob, log.action_idx)
