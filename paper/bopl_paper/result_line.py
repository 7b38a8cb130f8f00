"""Result lines: appended one by one, so that a killed run loses only unfinished work."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bopl_paper.catalogue import COLUMNS

Line = dict[str, Any]

CONFIDENCE = 0.95
FIGURE_FILE = "figure"


def result_file(folder: Path, line: Line) -> Path:
    """Return the file a line belongs to: one per dataset, one for noisy rewards, and one for the figure."""
    name = FIGURE_FILE if "gradient_norm" in line else COLUMNS[line["dataset"]].file
    return folder / f"{name}.jsonl"


def append_lines(folder: Path, lines: Iterable[Line]) -> None:
    """Append lines and flush them to disk; half a line left by a killed run is removed first."""
    folder.mkdir(parents=True, exist_ok=True)
    for line in lines:
        with result_file(folder, line).open("a+b") as file:
            _lock(file)
            _cut_half_line(file)
            file.write(json.dumps(line).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())


def _lock(file: Any) -> None:
    """Make other runs that write the same file wait until it is closed."""
    try:
        import fcntl
    except ImportError:  # pragma: no cover
        return
    fcntl.flock(file, fcntl.LOCK_EX)


def _cut_half_line(file: Any) -> None:
    file.seek(0)
    content = file.read()
    if content and not content.endswith(b"\n"):
        file.truncate(content.rfind(b"\n") + 1)
    file.seek(0, os.SEEK_END)


def read_results(folder: Path) -> list[Line]:
    """Return all lines of ``<folder>/*.jsonl``; half a last line, left by a killed run, is not a line.

    Raises
    ------
    ValueError
        A line in the middle of a file is not JSON; the message names file and line.
    """
    lines: list[Line] = []
    for path in sorted(folder.glob("*.jsonl")):
        texts = path.read_text(encoding="utf8").split("\n")
        for number, text in enumerate(texts[:-1], start=1):  # what follows the last newline is half a line
            try:
                lines.append(json.loads(text))
            except json.JSONDecodeError as error:
                raise ValueError(f"line {number} of {path} is not a result line: {error}. Delete that line.") from None
    return lines


@dataclass(frozen=True)
class Cell:
    """Mean of some trials with the half-width of its 95% interval."""

    mean: float
    half_width: float
    n_trials: int

    @property
    def low(self) -> float:
        """Lower end of the interval."""
        return self.mean - self.half_width

    @property
    def high(self) -> float:
        """Upper end of the interval."""
        return self.mean + self.half_width

    def overlaps(self, other: Cell) -> bool:
        """Return whether the intervals have a point in common."""
        return self.low <= other.high and other.low <= self.high


def mean_interval(values: Sequence[float]) -> Cell:
    """Return the mean and Student's 95% interval of independent trials; infinite for a single trial."""
    sample = np.asarray(values, dtype=np.float64)
    if len(sample) < 2:
        return Cell(float(sample.mean()), float("inf"), len(sample))
    from scipy.stats import t

    quantile = float(t.ppf(0.5 + CONFIDENCE / 2.0, len(sample) - 1))
    return Cell(float(sample.mean()), quantile * float(sample.std(ddof=1)) / len(sample) ** 0.5, len(sample))


Trials = dict[tuple[str, str], dict[int, float]]


def collect_trials(lines: Iterable[Line], field: str = "test_reward") -> Trials:
    """Return a field's values by (method, dataset) and trial; of several lines for a trial, the last counts."""
    latest: Trials = {}
    for line in lines:
        if field in line and "gradient_norm" not in line:
            latest.setdefault((line["method"], line["dataset"]), {})[line["trial"]] = line[field]
    return latest


def collect(lines: Iterable[Line], field: str = "test_reward") -> dict[tuple[str, str], Cell]:
    """Return mean and interval of a field by (method, dataset)."""
    return {key: mean_interval(list(trials.values())) for key, trials in collect_trials(lines, field).items()}


def paired_gap(trials: Trials, dataset: str, method: str, other: str) -> Cell | None:
    """Return the difference of two methods, paired by trial; None if they have no trial in common.

    Methods of one trial learn from the same log and are measured on the same contexts, so effects of the trial cancel
    in the difference.
    """
    ours, theirs = trials.get((method, dataset), {}), trials.get((other, dataset), {})
    common = sorted(ours.keys() & theirs.keys())
    return mean_interval([ours[trial] - theirs[trial] for trial in common]) if common else None


def collect_direct_method(lines: Iterable[Line]) -> dict[tuple[str, str], Cell]:
    """Return the direct method's estimates by (method, dataset)."""
    found = [
        {"dataset": line["dataset"], "trial": line["trial"], "method": method, "estimate": estimate}
        for line in lines
        for method, estimate in line.get("direct_method", {}).items()
    ]
    return collect(found, "estimate")
