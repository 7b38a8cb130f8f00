"""The runner: tasks in processes; finished ones are written at once, failed ones reported at the end."""

from __future__ import annotations

import logging
import math
import os
import signal
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from multiprocessing import get_context, parent_process
from multiprocessing.connection import Connection, wait
from pathlib import Path
from threading import Thread
from typing import Any

from bopl._machine import thread_variables
from bopl_paper.catalogue import COLUMNS
from bopl_paper.dataset import check_dataset
from bopl_paper.result_line import append_lines, read_results
from bopl_paper.task import Task, without_done

logger = logging.getLogger("bopl.paper.runner")  # who hears the library hears this


@dataclass
class Outcome:
    """Result of a run: how many trials were written, how many there was no time for, and which failed, and why."""

    n_written: int = 0
    n_left: int = 0
    failures: list[str] = field(default_factory=list)


def duration_text(seconds: float) -> str:
    """Return a duration in words.

    >>> duration_text(42), duration_text(600), duration_text(8000)
    ('42 s', '10 min', '2 h 13 min')
    """
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60} min"


class Clock:
    """The remaining time of a run: expected durations, corrected by those observed so far."""

    def __init__(self, tasks: Sequence[Task], n_jobs: int) -> None:
        self.n_jobs = n_jobs
        self.remaining = sum(task.expected_seconds for task in tasks)
        self.expected_so_far = self.seen_so_far = 0.0

    def finish(self, task: Task, seconds: float) -> None:
        """Record a finished task."""
        self.remaining -= task.expected_seconds
        self.expected_so_far += task.expected_seconds
        self.seen_so_far += seconds

    @property
    def seconds_left(self) -> float:
        """Expected time until the end."""
        ratio = self.seen_so_far / self.expected_so_far if self.expected_so_far > 0.0 else 1.0
        return max(self.remaining, 0.0) * ratio / self.n_jobs


def run_plan(tasks: Sequence[Task], folder: Path, *, n_jobs: int = 1, minutes: float | None = None) -> Outcome:
    """Run what is not yet in ``folder``; every finished trial is written as a line before the next begins.

    Parameters
    ----------
    tasks : sequence of Task
    folder : Path
        Folder of the result files. Lines that exist for the same settings are not computed again.
    n_jobs : int
        Number of tasks in parallel, each in its own process.
    minutes : float, optional
        When the time is up, unfinished tasks are ended; the next run starts them again.

    Raises
    ------
    FileNotFoundError
        A required data file cannot be found or downloaded; nothing was started.
    ValueError
        A data file is damaged; nothing was started.
    """
    waiting = without_done(tasks, read_results(folder))
    _check_data(waiting)
    n_trials = sum(len(task.trials) for task in tasks)
    n_done = n_trials - sum(len(task.trials) for task in waiting)
    clock, outcome = Clock(waiting, n_jobs), Outcome()
    logger.info(
        f"{n_trials} trials, {n_done} of them already done; the rest takes about {duration_text(clock.seconds_left)} "
        f"with {n_jobs} at a time."
    )
    running: dict[Connection, _Running] = {}
    queue = list(waiting)
    deadline = math.inf if minutes is None else time.monotonic() + 60.0 * minutes
    with _terminated_on_signal():
        try:
            while queue or running:
                while queue and len(running) < n_jobs:
                    started = _start(queue.pop(0))
                    running[started.connection] = started
                for ready in wait(list(running), _seconds_until(deadline)):
                    assert isinstance(ready, Connection)
                    finished = running.pop(ready)
                    n_done += _finish(finished, folder, clock, outcome, n_done, n_trials)
                    if queue and _can_go_on(finished, queue[0]):
                        running[ready] = _go_on(finished, queue.pop(0))
                    else:
                        _end(finished)
                if time.monotonic() >= deadline:
                    break
        finally:
            for left in running.values():
                left.process.terminate()
                left.process.join()
    outcome.n_left = sum(len(task.trials) for task in (*queue, *(left.task for left in running.values())))
    if outcome.n_left:
        logger.info(f"The time is up, and {outcome.n_left} trials are left; run the same command again to continue.")
    return outcome


def _seconds_until(deadline: float) -> float | None:
    return None if math.isinf(deadline) else max(deadline - time.monotonic(), 0.0)


def _check_data(tasks: Sequence[Task]) -> None:
    """Find or download every data file once, and check it, before any worker looks for it."""
    for dataset in dict.fromkeys(COLUMNS[task.dataset].data for task in tasks):
        if not dataset:  # a world
            continue
        try:
            check_dataset(dataset)
        except FileNotFoundError as error:
            raise FileNotFoundError(f"{error} `bopl reproduce run --datasets` runs the others without it.") from None


@dataclass(frozen=True)
class _Running:
    task: Task
    process: Any
    connection: Connection
    started: float


def _start(task: Task) -> _Running:
    context = get_context("spawn")  # threads of numerical libraries do not survive a fork
    here, there = context.Pipe()
    process = context.Process(target=work, args=(there,), daemon=True)
    with thread_variables(task.threads):
        process.start()
    there.close()
    return _go_on(_Running(task, process, here, 0.0), task)


def _can_go_on(finished: _Running, task: Task) -> bool:
    """Return whether a process can take another task: starting one takes longer than a task on a subsample.

    Tasks on all samples get their own process, so that a line's peak memory is its own.
    """
    are_small = finished.task.n_samples is not None and task.n_samples is not None
    return are_small and finished.task.threads == task.threads and finished.process.is_alive()


def _go_on(process: _Running, task: Task) -> _Running:
    with suppress(OSError):  # of a process that has died: its end of the pipe says so next
        process.connection.send(task)
    return replace(process, task=task, started=time.monotonic())


def _end(finished: _Running) -> None:
    finished.connection.close()
    finished.process.join()


def work(connection: Connection) -> None:
    """Run tasks and send their lines, or an error message; the body of a worker process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes; the parent ends this one
    Thread(target=_end_with_parent, daemon=True).start()
    with suppress(EOFError):  # the parent has no more tasks
        while True:
            task = connection.recv()
            try:
                from bopl_paper.task_run import run_task

                connection.send(run_task(task))
            except Exception as error:
                connection.send(f"{type(error).__name__}: {error}")


def _end_with_parent() -> None:
    """End this process when its parent is gone: nobody is left to receive its answer."""
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _finish(finished: _Running, folder: Path, clock: Clock, outcome: Outcome, n_done: int, n_trials: int) -> int:
    """Write the answer of a worker; return the number of trials that it completes."""
    task = finished.task
    try:
        answer = finished.connection.recv()
    except (EOFError, ConnectionResetError):
        finished.process.join()
        answer = f"its process ended without a result (exit code {finished.process.exitcode}; out of memory?)"
    clock.finish(task, time.monotonic() - finished.started)
    if isinstance(answer, str):
        outcome.failures.append(f"{task.label}: {answer}")
        logger.warning(f"failed: {task.label}: {answer}")
        return 0
    append_lines(folder, answer)
    outcome.n_written += len(answer)
    n_done += len(answer)
    rewards = ", ".join(f"{line['test_reward']:.4f}" for line in answer)
    logger.info(
        f"[{n_done}/{n_trials}] {task.label}: {rewards} after {duration_text(time.monotonic() - finished.started)}; "
        f"about {duration_text(clock.seconds_left)} left."
    )
    return len(answer)


class _terminated_on_signal:  # noqa: N801
    """Turn a request to terminate, or the end of the terminal, into an exception, so that workers end too."""

    def __enter__(self) -> None:
        self.before: dict[int, Any] = {}
        for name in ("SIGTERM", "SIGHUP"):  # Windows has no SIGHUP
            number = getattr(signal, name, None)
            if number is None or signal.getsignal(number) is signal.SIG_IGN:  # nohup asks to continue
                continue
            with suppress(ValueError):  # outside the main thread there is nothing to catch
                self.before[number] = signal.signal(number, self._interrupt)

    def __exit__(self, *error: object) -> None:
        for number, before in self.before.items():
            signal.signal(number, before)

    @staticmethod
    def _interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt
