"""Callbacks: everything that observes or stops the loop without being part of it."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, TextIO

import numpy as np

from bopl._exact import Limbs, limbs_of, value_of
from bopl._machine import memory_in_use_mib
from bopl._policy_reader import logged_entries
from bopl._progress import RunLine, current_line, left_text
from bopl._settings import check_number
from bopl._typing import AnyArray, FloatArray
from bopl.boosting.ensemble import Round, Start
from bopl.log import BanditLog
from bopl.log.identical import content_digest, sample_keys
from bopl.objective.softmax import log_softmax


class CallbackAction(Enum):
    """The answer of a callback to the loop."""

    CONTINUE = "continue"
    STOP = "stop"


@dataclass
class BoostingState:
    """What callbacks see after each round: read it, add columns to ``records[-1]``, change nothing else.

    Attributes
    ----------
    log : BanditLog
        The training log, rewards not translated.
    n_rounds : int
        Requested number of rounds.
    seed : int
        Seed of the fit.
    start : Start
        Initial scores of the ensemble.
    settings : dict
        Settings of the fit as plain values; a checkpoint is resumed only under the same settings.
    score : ndarray of shape (n_samples, n_actions), or None before they are known
        Scores of the training contexts after the rounds so far, in the order of the learner; always None for a log
        in pieces, which keep their own scores.
    rounds : list of Round
    records : list of dict
        One row of the history per round.
    digest : str or None
        Digest of the log, if it is already known.
    row_order : ndarray of int or None
        The log's row at each position of ``score``; None if the order is that of the log.
    """

    log: BanditLog
    n_rounds: int
    seed: int
    start: Start = field(default_factory=Start)
    settings: dict[str, Any] = field(default_factory=dict)
    score: FloatArray | None = None
    rounds: list[Round] = field(default_factory=list)
    records: list[dict[str, float]] = field(default_factory=list)
    digest: str | None = None
    row_order: AnyArray | None = None

    def log_digest(self) -> str:
        """Return a hash of everything that training reads from the log; the same in pieces and in memory."""
        if self.digest is None:
            self.digest = content_digest([sample_keys(self.log)], self.log)
        return self.digest


class Callback:
    """Base class of callbacks. A plain function of the state that returns a `CallbackAction` works as well."""

    #: Why the fit ended, if this callback ended it.
    stop_reason = "a callback asked to stop"

    def on_start(self, state: BoostingState) -> None:
        """Run once before the first round; ``state.rounds`` is not empty when a fit is resumed."""

    def __call__(self, state: BoostingState) -> CallbackAction:
        """Run after each round."""
        return CallbackAction.CONTINUE

    def is_over(self, state: BoostingState) -> bool:
        """Return whether this callback would have stopped after the last round; called when a fit is resumed."""
        return False

    def on_end(self, state: BoostingState) -> None:
        """Run once at the end, however the fit ends."""


def check_callbacks(callbacks: Any) -> list[Any]:
    """Return callbacks as a list, or raise one sentence if they are something else."""
    given = list(callbacks) if isinstance(callbacks, Iterable) else [callbacks]
    wrong = [one for one in given if not callable(one) or isinstance(one, type)]
    if wrong or not isinstance(callbacks, Iterable):
        raise TypeError(f"callbacks must be a list of functions or Callback objects; got {(wrong or given)[0]!r}.")
    return given


def check_answer(answer: Any) -> Any:
    """Return what a callback answered; raise one sentence if it means to stop as the callbacks of others do."""
    if isinstance(answer, bool):
        raise TypeError(f"a callback must return a CallbackAction, or None to continue; got {answer}.")
    return answer


class Validation(Callback):
    """Track the policy's self-normalised value on a second log, and stop if it has not improved for a while.

    Parameters
    ----------
    log : BanditLog
        A log with the same columns and actions as the training log.
    patience : int, optional
        Stop after this many rounds without improvement; never, by default.
    """

    stop_reason = "the validation value stopped improving"

    def __init__(self, log: BanditLog, patience: int | None = None) -> None:
        if patience is not None:
            check_number("early_stopping_rounds", patience, low=1, integer=True)
        self.log = log
        self.patience = patience
        self.best_n_rounds = 0
        self.best_value = -np.inf
        self._score: FloatArray = np.zeros((0, 0))
        self._least = 1.0
        self._has_start = False

    def on_start(self, state: BoostingState) -> None:
        """Check the log and catch up with the rounds before a resume."""
        _check_same_shape(state.log, self.log)
        self.best_n_rounds, self.best_value = 0, -np.inf
        self._has_start = bool(state.start.predictors)
        self._begin(state)
        self._watch(0)
        for made, record in zip(state.rounds, state.records, strict=True):
            self._add(made, record)

    def _begin(self, state: BoostingState) -> None:
        """Score the log before the first round."""
        self._score = state.start.score(self.log.context, self.log.n_actions)
        self._least = float(self.log.propensity.min())

    def __call__(self, state: BoostingState) -> CallbackAction:
        """Write ``validation_value`` and decide."""
        self._add(state.rounds[-1], state.records[-1])
        return CallbackAction.STOP if self.is_over(state) else CallbackAction.CONTINUE

    def is_over(self, state: BoostingState) -> bool:
        """Return whether the value has not improved for too long."""
        waited = len(state.rounds) - self.best_n_rounds
        return self.patience is not None and waited >= self.patience

    def _add(self, made: Round, record: dict[str, float]) -> None:
        self._move(made)
        record["validation_value"] = self._watch(int(record["round"]))

    def _move(self, made: Round) -> None:
        self._score += made.step.size * made.predictor.predict(self.log.context)

    def _watch(self, n_rounds: int) -> float:
        """Return the value after this many rounds, and remember the best."""
        total, rewarded = watched_totals(self._score, self.log, self._least)
        return self._judge(n_rounds, value_of(total), value_of(rewarded))

    def _judge(self, n_rounds: int, weight: float, rewarded: float) -> float:
        """Return the value of a policy with these sums, and remember the best."""
        value = rewarded / weight if weight > 0.0 else float("nan")
        # Keep the start itself only if it contains information: the uniform policy is not a result.
        if value > self.best_value and (n_rounds > 0 or self._has_start):
            self.best_n_rounds, self.best_value = n_rounds, value
        return value


def watched_totals(score: FloatArray, log: BanditLog, least_propensity: float) -> tuple[Limbs, Limbs]:
    """Return the sums of importance weights (relative to the largest 1/p) and of the weighted rewards."""
    # Weights relative to the largest 1/p: their sums stay finite, and the ratio of two sums does not change.
    log_prob = logged_entries(log_softmax(score, log.action_mask), log.action_idx)
    weight = np.exp(log_prob) * (least_propensity / log.propensity)
    return limbs_of(weight), limbs_of(weight * log.reward)


def _check_same_shape(train: BanditLog, other: BanditLog) -> None:
    if other.n_features != train.n_features or other.feature_names != train.feature_names:
        raise ValueError(
            f"the validation log has other context columns than the training log: {other.n_features} "
            f"against {train.n_features}, or other names."
        )
    if other.actions.tolist() != train.actions.tolist():
        raise ValueError("the validation log has other actions than the training log: give both the same actions=[…].")


class TimeLimit(Callback):
    """Stop after the round in which ``seconds`` have passed since the start of the fit."""

    stop_reason = "the time limit was reached"

    def __init__(self, seconds: float) -> None:
        check_number("seconds", seconds, low=0.0)
        self.seconds = seconds
        self._started = 0.0

    def on_start(self, state: BoostingState) -> None:
        """Start the clock."""
        self._started = time.monotonic()

    def __call__(self, state: BoostingState) -> CallbackAction:
        """Look at the clock."""
        is_over = time.monotonic() - self._started >= self.seconds
        return CallbackAction.STOP if is_over else CallbackAction.CONTINUE


class ProgressBar(Callback):
    """A rich progress bar with the validation value (otherwise the training value), time left and memory in use.

    Silent if the stream is not a terminal. In a run with its own progress line, it reports there.

    Parameters
    ----------
    stream : text stream, optional
        Standard error by default.
    note : callable, optional
        Returns additional text about the last round.
    """

    def __init__(self, stream: TextIO | None = None, note: Callable[[], str] | None = None) -> None:
        self.stream, self.note = stream, note
        self._bar: Any = None
        self._task: Any = None
        self._line: RunLine | None = None
        self._began, self._n_before = 0.0, 0

    def on_start(self, state: BoostingState) -> None:
        """Open the bar."""
        stream = self.stream or sys.stderr
        self._line = current_line()
        self._began, self._n_before = time.monotonic(), len(state.rounds)
        if self._line is not None or not stream.isatty():
            return
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        self._bar = Progress(
            TextColumn("boosting"),
            BarColumn(bar_width=12),  # all of it fits a terminal of eighty columns
            MofNCompleteColumn(),
            TextColumn("{task.fields[value]}"),
            TimeRemainingColumn(compact=True),
            TextColumn("left, {task.fields[memory]} used"),
            console=Console(file=stream),
            transient=True,
        )
        self._task = self._bar.add_task(
            "", total=state.n_rounds, completed=len(state.rounds), value="", memory=_memory_text()
        )
        self._bar.start()

    def __call__(self, state: BoostingState) -> CallbackAction:
        """Update the bar."""
        if self._bar is None and self._line is None:
            return CallbackAction.CONTINUE
        record = state.records[-1]
        has_validation = np.isfinite(record.get("validation_value", np.nan))
        text = f"{'validation' if has_validation else 'reward'} "
        text += f"{record['validation_value' if has_validation else 'snips_value']:.4f}"
        note = "" if self.note is None else self.note()
        text += f", {note}" if note else ""
        if self._line is not None:
            share = (len(state.rounds) - self._n_before) / (state.n_rounds - self._n_before)
            left = left_text(time.monotonic() - self._began, share)
            self._line.note(f"round {len(state.rounds)} of {state.n_rounds}{left}, {text}")
        else:
            self._bar.update(self._task, completed=len(state.rounds), value=text, memory=_memory_text())
        return CallbackAction.CONTINUE

    def on_end(self, state: BoostingState) -> None:
        """Close the bar."""
        if self._line is not None:
            self._line.note("")
        if self._bar is not None:
            self._bar.stop()
            self._bar = None


def _memory_text() -> str:
    return f"{memory_in_use_mib() / 1024:.1f} GB"
