"""The race of a run: its settings, and its leaderboard."""

from __future__ import annotations

import logging
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from bopl._errors import LeakWarning, PartTrainedWarning
from bopl.boosting.loop import INTERRUPTED
from bopl.boosting.workbench import Keeper
from bopl.log import BanditLog, PartitionedLog
from bopl.race import AutoPolicy, Leaderboard
from bopl.report.plain import MINUS, within_text
from bopl.report.training_summary import boosted_parts
from bopl.workflow.config import TrainConfig
from bopl.workflow.reading import noting
from bopl.workflow.run_folder import StepClock

logger = logging.getLogger(__name__)


def race(
    config: TrainConfig,
    log: BanditLog | PartitionedLog,
    clock: StepClock,
    *,
    progress: bool,
    keeper: Keeper | None = None,
    level: int = logging.INFO,
) -> tuple[AutoPolicy, bool]:
    """Return the policy that won a race on a log and was trained on all of it, and whether Ctrl-C interrupted it.

    What it says has this level of `logging`: of one race among many, nobody reads every word.
    """
    policy = AutoPolicy(
        config.include,
        config.exclude,
        minutes=config.minutes,
        validation_fraction=config.validation_fraction,
        n_jobs=config.n_jobs,
        progress=progress,
        random_state=config.random_state,
    )
    with clock.step("train"), noting(PartTrainedWarning) as parts, warnings.catch_warnings():
        warnings.simplefilter("ignore", LeakWarning)  # the audit has reported them; the rest is to be kept
        if isinstance(log, PartitionedLog):
            policy.fit(log, keeper=keeper, cluster=config.cluster, memory=config.memory)
        else:
            policy.fit(log, keeper=keeper)
    for sentence in parts:  # on which part of the log the winner was trained
        logger.log(level, sentence[:1].upper() + sentence[1:])
    logger.log(level, LeaderboardTable(policy.leaderboard_))
    logger.log(level, policy.leaderboard_.verdict)
    if policy.leaderboard_.n_parts == 1:  # the table says so for a cross-validation
        logger.log(level, policy.leaderboard_.judged_by)
    # A race that ended before Ctrl-C may have had its winner's training interrupted.
    was_interrupted = policy.is_interrupted_ or any(part.stop_reason_ == INTERRUPTED for part in boosted_parts(policy))
    if was_interrupted:
        logger.log(level, "Interrupted: the policy is the best of those trained so far.")
    return policy, was_interrupted


@dataclass(frozen=True)
class LeaderboardTable:
    """A leaderboard as it is said: plain lines in a log file, a table that fits eighty columns on a terminal."""

    leaderboard: Leaderboard

    def __str__(self) -> str:
        return "\n".join(self.leaderboard.lines())

    def __rich__(self) -> Any:
        return leaderboard_table(self.leaderboard)


def leaderboard_table(leaderboard: Leaderboard) -> Any:
    """Return one line per candidate, the best first, in a table that fits a terminal of eighty columns."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    division = "" if leaderboard.n_parts == 1 else f" ({leaderboard.n_parts}-fold)"
    title = f"Uplift over the logging policy on {leaderboard.n_judged:,} validation samples{division}"
    table = Table(
        box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), title=title, title_justify="left", title_style=""
    )
    for heading in ("candidate", "uplift [95%]", "rounds", "seconds", "status"):
        is_number = heading not in ("candidate", "status")
        table.add_column(heading, justify="right" if is_number else "left", overflow="fold")
    best = leaderboard[0]
    for entry in leaderboard:
        table.add_row(
            Text(entry.candidate),
            Text(_interval([entry.uplift, entry.lower, entry.upper], best.lower, best.upper)),
            f"{entry.rounds:,}",
            "" if np.isnan(entry.seconds) else f"{entry.seconds:.1f}",
            Text(entry.status.removesuffix(" rounds")),  # the heading of the previous column says what is counted
            style="bold" if entry.status == "won" else "",
        )
    return table


def _interval(numbers: list[float], lower: float, upper: float) -> str:
    """Return an uplift with its interval, in the digits that are meaningful given the best candidate's interval."""
    if np.isnan(numbers).any():
        return ""
    texts = [within_text(one, lower, upper) for one in numbers]
    centre, low, high = (text if text.startswith(MINUS) else f"+{text}" for text in texts)
    return f"{centre} [{low}, {high}]"
