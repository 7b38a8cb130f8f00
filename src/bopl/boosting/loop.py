"""The boosting loop (Algorithms 1 and 2): the heart of the library, on one screen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from bopl import theory
from bopl._typing import FloatArray
from bopl.boosting.callback import BoostingState, Callback, CallbackAction
from bopl.boosting.ensemble import Ensemble, Round
from bopl.boosting.history import History
from bopl.boosting.step import Step, StepRule, by_column, inner
from bopl.learner import BoundLearner, row_order
from bopl.log import BanditLog
from bopl.objective import IPSObjective, Objective, StepTarget, SurrogateObjective
from bopl.objective.value import effective_sample_size, snips_value

# "We use early stopping whenever the gradient, base predictions or ensemble weight are less than 1e-10 in magnitude."
STOP_BELOW = 1e-10

#: Why a fit ended that Ctrl-C cut short.
INTERRUPTED = "interrupted by the user"

AnyCallback = Callable[[BoostingState], CallbackAction]


@dataclass(frozen=True)
class BoostingResult:
    """A fitted ensemble, its history, and why boosting ended."""

    ensemble: Ensemble
    history: History
    stop_reason: str


def fit_ensemble(
    log: BanditLog,
    objective: Objective,
    learner: BoundLearner,
    step_rule: StepRule,
    *,
    n_rounds: int,
    seed: int = 0,
    reward_translation: float = 0.0,
    settings: dict[str, str] | None = None,
    callbacks: Sequence[AnyCallback] = (),
    resumed: BoostingState | None = None,
) -> BoostingResult:
    """Add rounds until there are ``n_rounds``, nothing moves any more, or a callback asks to stop.

    Ctrl-C ends the fit and keeps the rounds made so far; before the first round it is passed on.

    Parameters
    ----------
    log : BanditLog
        Rewards as logged; ``reward_translation`` is added here.
    objective : Objective
    learner : BoundLearner
        Bound to the same log.
    step_rule : StepRule
    n_rounds : int
    seed : int
        Handed on to callbacks, so that a checkpoint can repeat the fit.
    reward_translation : float
    settings : dict of str to str, optional
        The caller's settings as text, for checkpoints.
    callbacks : sequence of callables
    resumed : BoostingState, optional
        Where an earlier fit of the same log stood.
    """
    # Column by column: sums over a handful of actions are then sums of long columns, and the engine reads by action.
    score = np.zeros((log.n_samples, log.n_actions), order="F")
    state = resumed or BoostingState(log, n_rounds, seed, score, settings or {})
    stop_reason = "all rounds were made"
    try:
        for callback in callbacks:
            if isinstance(callback, Callback):
                callback.on_start(state)
        stop_reason = _add_rounds(state, objective, learner, step_rule, reward_translation, callbacks) or stop_reason
    except KeyboardInterrupt:
        del state.rounds[len(state.records) :]  # a round is whole once it is recorded
        if not state.rounds:
            raise
        stop_reason = INTERRUPTED
    finally:
        for callback in callbacks:
            if isinstance(callback, Callback):
                callback.on_end(state)
    ensemble = Ensemble(tuple(state.rounds), log.n_actions)
    return BoostingResult(ensemble, History.from_records(state.records, objective.name), stop_reason)


def _add_rounds(
    state: BoostingState,
    objective: Objective,
    learner: BoundLearner,
    step_rule: StepRule,
    reward_translation: float,
    callbacks: Sequence[AnyCallback],
) -> str | None:
    """Run the loop; return the reason if it ended before ``n_rounds``."""
    optimal_risk = objective.optimal_risk(state.log.translated(reward_translation))
    logged = state.log.outcomes(row_order(learner))  # from here on samples are as the learner keeps them
    log = logged.translated(reward_translation)
    recorder = Recorder(logged, log, objective, optimal_risk)
    target = objective.step_target(log, state.score)
    for round_idx in range(len(state.rounds), state.n_rounds):
        if np.abs(target.gradient).max() < STOP_BELOW:
            return "the gradient vanished"
        fitted = learner.fit(target, round_idx)
        # Scores of ineligible actions change nothing, so they do not count as predictions either.
        prediction = fitted.prediction if log.action_mask is None else np.where(log.action_mask, fitted.prediction, 0.0)
        if np.abs(prediction).max() < STOP_BELOW:
            return "the base learner found nothing to predict"
        step = step_rule(target, prediction)
        if abs(step.alpha) < STOP_BELOW:
            return "the ensemble weight vanished"
        state.score += step.size * prediction
        before, target = target, objective.step_target(log, state.score)
        record = recorder.record(round_idx, before, target, step, state.records)
        state.rounds.append(Round(fitted.predictor, step))
        state.records.append(record)
        requests = [callback(state) for callback in callbacks]  # every callback has seen this round
        if CallbackAction.STOP in requests:
            return _reason_of(callbacks[requests.index(CallbackAction.STOP)])
    return None


def _reason_of(callback: AnyCallback) -> str:
    return getattr(callback, "stop_reason", Callback.stop_reason)


class Recorder:
    """Turns what is known after a round into a row of the history: risks, certificate, weights, value."""

    def __init__(self, log: BanditLog, translated: BanditLog, objective: Objective, optimal_risk: float) -> None:
        self.log = log
        self.translated = translated
        self.objective = objective
        self.optimal_risk = optimal_risk
        self.initial_risk = objective.risk(translated, -np.log(theory.n_eligible(log)))

    def record(
        self, round_idx: int, before: StepTarget, after: StepTarget, step: Step, earlier: list[dict[str, float]]
    ) -> dict[str, float]:
        """Return the row of the round that led from ``before`` to ``after``."""
        excess_0 = self.initial_risk - self.optimal_risk
        total_decrease = sum(row["guaranteed_decrease"] for row in earlier) + step.guaranteed_decrease
        importance_weight = np.exp(after.log_prob) / self.log.propensity
        return {
            "round": round_idx + 1,
            "empirical_risk": IPSObjective().risk(self.translated, after.log_prob),
            "surrogate_risk": SurrogateObjective().risk(self.translated, after.log_prob),
            "objective_risk": self.objective.risk(self.translated, after.log_prob),
            "gradient_norm": _norm(before.gradient) / self.log.n_samples,
            "alpha": step.alpha,
            "guaranteed_decrease": step.guaranteed_decrease,
            "recursive_bound": self.objective.risk(self.translated, before.log_prob) - step.guaranteed_decrease,
            "theorem_bound": self.optimal_risk + theory.excess_risk_after(excess_0, total_decrease),
            "opt_emp_risk": self.optimal_risk,
            "excess_emp_risk_0": excess_0,
            "mean_importance_weight": float(importance_weight.mean()),
            "effective_sample_size": effective_sample_size(importance_weight),
            "snips_value": snips_value(importance_weight, self.log.reward),
            "validation_value": float("nan"),
        }


def _norm(gradient: FloatArray) -> float:
    column = by_column(gradient)
    return float(np.sqrt(inner(column, column)))
