"""The boosting loop (Algorithms 1 and 2): the heart of the library, on one screen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bopl import theory
from bopl._interrupt import uninterrupted
from bopl._typing import FloatArray
from bopl.boosting.ascent import Ascent, Standing, ascend
from bopl.boosting.callback import BoostingState, Callback, CallbackAction, check_answer
from bopl.boosting.ensemble import Ensemble, Round, Start, Step, StepRule
from bopl.boosting.history import History
from bopl.learner import BoundLearner
from bopl.objective import Objective, StepTarget, TrainingData
from bopl.objective.training_data import rows_in_order

# "We use early stopping whenever the gradient, base predictions or ensemble weight are less than 1e-10 in magnitude."
STOP_BELOW = 1e-10

#: Why a fit ended that Ctrl-C interrupted.
INTERRUPTED = "interrupted by the user"

AnyCallback = Callable[[BoostingState], CallbackAction | None]  # None continues


@dataclass(frozen=True)
class BoostingResult:
    """A fitted ensemble, its history, and why boosting ended."""

    ensemble: Ensemble
    history: History
    stop_reason: str


@dataclass(frozen=True)
class Problem:
    """What is boosted: samples, objective and start.

    Attributes
    ----------
    data : TrainingData
        In the order of the log, with contexts, rewards as logged.
    objective : Objective
    reward_translation : float
        Constant added to every reward.
    start : Start
    start_score : callable that returns an ndarray of shape (n_samples, n_actions), optional
        Scores of the samples at the start, if they are not those of ``start``: cross-fitted ones. Computed when needed,
        and not kept.
    has_certificate : bool
        Whether to compute the optimal risk, which Theorem 1 requires.
    """

    data: TrainingData
    objective: Objective
    reward_translation: float = 0.0
    start: Start = field(default_factory=Start)
    start_score: Callable[[], FloatArray] | None = None
    has_certificate: bool = True

    def translated(self) -> TrainingData:
        """Return the data with translated rewards; estimates move with them."""
        translation, data = self.reward_translation, self.data
        if translation == 0.0:
            return data
        estimate = None if data.reward_estimate is None else data.reward_estimate + translation
        return TrainingData(data.log.translated(translation), estimate, data.sample_weight, data.order)

    def initial_score(self) -> FloatArray:
        """Return the scores before the first round, column by column in memory."""
        if self.start_score is not None:
            return np.asfortranarray(self.start_score())
        log = self.data.log
        return np.asfortranarray(self.start.score(log.context, log.n_actions))

    def score_after(self, rounds: Sequence[Round]) -> FloatArray:
        """Return the scores after some rounds, added one by one as in training."""
        score, log = self.initial_score(), self.data.log
        for made in rounds:
            prediction = made.predictor.predict(log.context)
            eligible = prediction if log.action_mask is None else np.where(log.action_mask, prediction, 0.0)
            score += made.step.size * eligible
        return score


def fit_ensemble(
    problem: Problem,
    learner: BoundLearner,
    step_rule: StepRule,
    *,
    n_rounds: int,
    n_jobs: int = 1,
    seed: int = 0,
    settings: dict[str, Any] | None = None,
    callbacks: Sequence[AnyCallback] = (),
    resumed: BoostingState | None = None,
) -> BoostingResult:
    """Add rounds until there are ``n_rounds``, nothing changes any more, or a callback asks to stop.

    Ctrl-C ends the fit and keeps the rounds so far; before the first round it is re-raised.

    Parameters
    ----------
    problem : Problem
        Samples, objective and start.
    learner : BoundLearner
        Bound to the same log.
    step_rule : StepRule
        Chooses the step sizes.
    n_rounds : int
        Maximum number of rounds.
    n_jobs : int, default=1
        Number of threads outside the learner; the result does not depend on it.
    seed : int
        Passed on to callbacks, so that a checkpoint can repeat the fit.
    settings : dict, optional
        The caller's settings as plain values, for checkpoints.
    callbacks : sequence of callables
        Called after every round; they say whether to continue.
    resumed : BoostingState, optional
        State of an earlier fit of the same log.
    """
    state = resumed or BoostingState(problem.data.log, n_rounds, seed, problem.start, settings or {})
    reason = boost(
        state, lambda: BoostingRun.begin(problem, learner, step_rule, state, n_jobs=n_jobs), n_rounds, callbacks
    )
    return result_of(state, problem.objective, reason)


def boost(
    state: BoostingState, begin: Callable[[], BoostingRun], n_rounds: int, callbacks: Sequence[AnyCallback]
) -> str | None:
    """Add rounds to a state, with callbacks before, between and after them; return why it ended early.

    The state is changed in place. ``begin`` returns the run, if there are rounds left. Callbacks are called
    after every round, and say whether to continue.
    """
    stop_reason = None
    try:
        for callback in callbacks:
            if isinstance(callback, Callback):
                callback.on_start(state)
        stop_reason = _ended_before(state, callbacks)
        if stop_reason is None:
            run = begin()
            stop_reason = run.add_rounds(n_rounds, callbacks)
    except KeyboardInterrupt:
        if not state.rounds:
            raise
        stop_reason = INTERRUPTED
    finally:
        for callback in callbacks:
            if isinstance(callback, Callback):
                callback.on_end(state)
    return stop_reason


def _ended_before(state: BoostingState, callbacks: Sequence[AnyCallback]) -> str | None:
    """Return why a resumed fit had already ended; None if it had not."""
    if not state.rounds:
        return None
    over = (one for one in callbacks if isinstance(one, Callback) and one.is_over(state))
    return next((one.stop_reason for one in over), None)


def result_of(state: BoostingState, objective: Objective, stop_reason: str | None = None) -> BoostingResult:
    """Return the result of a fit; without a reason, it made all its rounds."""
    ensemble = Ensemble(tuple(state.rounds), state.log.n_actions, state.start)
    history = History.from_records(state.records, objective.name, objective.title)
    return BoostingResult(ensemble, history, stop_reason or "all rounds were made")


class BoostingRun:
    """The loop, which can pause after any round and continue later."""

    def __init__(
        self,
        learner: BoundLearner,
        ascent: Ascent,  # of the same samples, in the learner's order
        weight: FloatArray,  # (n_samples,): regression weights of the objective
        step_rule: StepRule,
        state: BoostingState,  # rounds so far; extended in place
        optimal_risk: float,  # minimum risk of any policy; NaN if it is unknown
    ) -> None:
        self.state = state
        self._learner, self._ascent, self._weight, self._step_rule = learner, ascent, weight, step_rule
        self._recorder = Recorder(ascent.standing, optimal_risk, state.records)

    @classmethod
    def begin(
        cls, problem: Problem, learner: BoundLearner, step_rule: StepRule, state: BoostingState, *, n_jobs: int = 1
    ) -> BoostingRun:
        """Return the run of a problem in memory.

        The learner is bound to the same log.
        """
        # The optimal risk groups samples by context, which ``take`` leaves behind: it comes first.
        data, order = problem.translated(), learner.row_order
        optimal_risk = problem.objective.bind(data).optimal_risk() if problem.has_certificate else float("nan")
        score = problem.score_after(state.rounds) if state.score is None else state.score
        state.score, state.row_order = score if order is None else rows_in_order(score, order), order
        del score  # which is as large as all that is made from here on
        logged = problem.data.log.outcomes(order)
        data = data.take(order)  # from here on, samples are in the learner's order
        bound = problem.objective.bind(data)
        ascent = ascend(bound, data, logged, state.score, n_jobs)
        return cls(learner, ascent, bound.weight, step_rule, state, optimal_risk)

    def add_rounds(self, n_rounds: int, callbacks: Sequence[AnyCallback] = ()) -> str | None:
        """Add rounds until there are ``n_rounds``; return the reason if boosting ended early."""
        state, ascent = self.state, self._ascent
        for round_idx in range(len(state.rounds), n_rounds):
            if ascent.standing.largest_gradient < STOP_BELOW:
                return "the gradient vanished"
            target = StepTarget(ascent.gradient, self._weight, ascent.standing.largest_gradient)
            fitted = self._learner.fit(target, round_idx)
            # Scores of ineligible actions have no effect, so they do not count as predictions either.
            sums = ascent.measure(fitted.prediction)
            if sums.largest < STOP_BELOW:
                return "the base learner found nothing to predict"
            step = self._step_rule(sums)
            if abs(step.alpha) < STOP_BELOW:
                return "the ensemble weight vanished"
            before = ascent.standing
            with uninterrupted():  # scores, rounds and records change together: Ctrl-C comes before or after
                ascent.move(fitted.prediction, step.size)
                state.rounds.append(Round(fitted.predictor, step))
                state.records.append(self._recorder.record(round_idx, before, ascent, step))
            del fitted  # its prediction is as large as the scores, and the next one would come on top of it
            requests = [check_answer(callback(state)) for callback in callbacks]  # every callback has seen this round
            if CallbackAction.STOP in requests:
                return getattr(callbacks[requests.index(CallbackAction.STOP)], "stop_reason", Callback.stop_reason)
        return None


class Recorder:
    """Turns the statistics after a round into a row of the history: risks, certificate, weights, value.

    ``initial`` are the statistics before the first new round, ``records`` the rows of the earlier rounds.
    """

    def __init__(self, initial: Standing, optimal_risk: float, records: list[dict[str, float]]) -> None:
        self.optimal_risk = optimal_risk
        self.excess_0 = records[0]["excess_emp_risk_0"] if records else initial.risk - optimal_risk
        # One by one, not sum(): a resumed fit adds the same floats in the same order as one that was not interrupted.
        self.total_decrease = 0.0
        for row in records:
            self.total_decrease += row["guaranteed_decrease"]

    def record(self, round_idx: int, before: Standing, ascent: Ascent, step: Step) -> dict[str, float]:
        """Return the row of the round that led from ``before`` to the current state of the ascent."""
        after = ascent.standing
        self.total_decrease += step.guaranteed_decrease
        return {
            "round": round_idx + 1,
            "empirical_risk": after.empirical_risk,
            "surrogate_risk": after.surrogate_risk,
            "objective_risk": after.risk,
            "gradient_norm": before.gradient_norm,
            "alpha": step.alpha,
            "guaranteed_decrease": step.guaranteed_decrease,
            # Eq. "emp_risk_quad_upper_bound_decrease", round by round; Theorem 1 is its product over all rounds.
            "recursive_bound": before.risk - step.guaranteed_decrease,
            "theorem_bound": self.optimal_risk + theory.excess_risk_after(self.excess_0, self.total_decrease),
            "opt_emp_risk": self.optimal_risk,
            "excess_emp_risk_0": self.excess_0,
            "mean_importance_weight": after.mean_importance_weight,
            "effective_sample_size": after.effective_sample_size,
            "snips_value": after.snips_value,
            "validation_value": float("nan"),
        }
