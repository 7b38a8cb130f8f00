"""How the default compares, judged by the intervals: with the best of every column, and with the logging policy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from bopl_paper.catalogue import COLUMNS, DEFAULT, GREEDY_LOGGING, NOISY_METHODS
from bopl_paper.result_line import Cell, Line, collect, collect_trials, paired_gap
from bopl_paper.result_table import cell_text, gap_text, is_tied


@dataclass(frozen=True)
class Standing:
    """The standing of the default in one column.

    Attributes
    ----------
    dataset : str
    holds : bool
        Whether it is as good as it should be.
    text : str
        One sentence with the numbers.
    """

    dataset: str
    holds: bool
    text: str

    def __str__(self) -> str:
        return f"{COLUMNS[self.dataset].title}: {self.text}"


def against_best(lines: Sequence[Line], datasets: Iterable[str]) -> list[Standing]:
    """Return whether the default is best or tied with the best of the others, column by column.

    Tied is the rule of the tables: the intervals of the means overlap. The difference on the same trials, which is
    sharper, stands beside it. Columns in which the default or all others have fewer than two trials are left out.
    """
    cells, trials = collect(lines), collect_trials(lines)
    found = []
    for dataset in datasets:
        own, others = cells.get((DEFAULT, dataset)), _others(cells, dataset)
        if own is None or own.n_trials < 2 or not others:
            continue
        best = max(others, key=lambda method: others[method].mean)
        named = f"{NOISY_METHODS[best]} {cell_text(others[best])}"
        gap = gap_text(paired_gap(trials, dataset, DEFAULT, best))
        if own.mean >= others[best].mean:
            word = "best; next is"
        elif is_tied(own, others[best]):
            word = "tied with the best,"
        else:
            word = "below the best,"
        text = f"{cell_text(own)}, {word} {named}; on the same trials {gap}."
        found.append(Standing(dataset, not word.startswith("below"), text))
    return found


def _others(cells: Mapping[tuple[str, str], Cell], dataset: str) -> dict[str, Cell]:
    return {
        method: cells[method, dataset]
        for method in NOISY_METHODS
        if method != DEFAULT and (method, dataset) in cells and cells[method, dataset].n_trials > 1
    }


def against_logging(lines: Sequence[Line], datasets: Iterable[str]) -> list[Standing]:
    """Return whether the default is at least as good as the logging policy's most probable action, up to noise.

    It is below by more than noise if the whole interval of the difference, on the same trials, is below zero.
    """
    trials = collect_trials(lines)
    found = []
    for dataset in datasets:
        gap = paired_gap(trials, dataset, DEFAULT, GREEDY_LOGGING)
        if gap is not None and gap.n_trials > 1:
            is_below = gap.high < 0.0
            word = (
                "below by more than noise" if is_below else "above" if gap.low > 0.0 else "not below by more than noise"
            )
            found.append(Standing(dataset, not is_below, f"{gap_text(gap)}, {word}."))
    return found
