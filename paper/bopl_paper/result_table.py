"""Tables 1 and 2 with the paper's numbers beside ours, in Markdown and LaTeX, from the result lines alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from bopl_paper.catalogue import (
    COLUMNS,
    DATASETS,
    DEFAULT,
    METHODS,
    NOISY,
    NOISY_METHODS,
    PAPER_METHODS,
    SPLITS,
)
from bopl_paper.paper_result import paper_direct_method, paper_reward
from bopl_paper.result_line import Cell, Line, collect, collect_direct_method, collect_trials, paired_gap

TOLERANCE = 0.015  # below the paper's mean by more than this needs an explanation
_EXTRA_DATASETS = ("digits",)


@dataclass(frozen=True)
class Table:
    """A heading row and body rows of text; cells in ``bold`` are (row, column)."""

    title: str
    heading: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    bold: frozenset[tuple[int, int]] = frozenset()

    def to_markdown(self) -> str:
        """Return the table in Markdown."""
        lines = [f"| {' | '.join(self.heading)} |", "|---" + "|---:" * (len(self.heading) - 1) + "|"]
        for number, row in enumerate(self.rows):
            cells = [f"**{cell}**" if (number, at) in self.bold else cell for at, cell in enumerate(row)]
            lines.append(f"| {' | '.join(cells)} |")
        return f"**{self.title}**\n\n" + "\n".join(lines) + "\n"

    def to_latex(self) -> str:
        """Return the table in LaTeX; it needs the package booktabs."""
        body = [" & ".join(rf"\textbf{{{_latex(cell)}}}" for cell in self.heading) + r" \\", r"\midrule"]
        for number, row in enumerate(self.rows):
            cells = [
                rf"\textbf{{{_latex(cell)}}}" if (number, at) in self.bold else _latex(cell)
                for at, cell in enumerate(row)
            ]
            body.append(" & ".join(cells) + r" \\")
        return "\n".join(
            [
                r"\begin{table*}[ht]",
                rf"\caption{{{_latex(self.title)}}}",
                r"\centering",
                rf"\begin{{tabular}}{{l{'r' * (len(self.heading) - 1)}}}",
                r"\toprule",
                *body,
                r"\bottomrule",
                r"\end{tabular}",
                r"\end{table*}",
                "",
            ]
        )


def _latex(text: str) -> str:
    for plain, written in (("±", r"$\pm$"), ("%", r"\%"), ("_", r"\_"), ("−", "$-$"), ("–", "--")):
        text = text.replace(plain, written)
    return text


def cell_text(cell: Cell | None) -> str:
    """Return ``mean ± half-width``; a single trial has no interval."""
    if cell is None:
        return "–"
    return f"{cell.mean:.4f}" if cell.n_trials < 2 else f"{cell.mean:.4f} ± {cell.half_width:.4f}"


def datasets_in(cells: Iterable[tuple[str, str]]) -> list[str]:
    """Return the datasets that occur, in the order of the paper."""
    found = {dataset for _, dataset in cells}
    return [name for name in (*DATASETS, *_EXTRA_DATASETS) if name in found]


def table_1(lines: Sequence[Line]) -> Table:
    """Return average test rewards: for each dataset our column and, where the paper has one, the paper's.

    Rows are the paper's methods and, once it has results, the default.

    Versions of one dataset stand side by side, with the paper's column after the last.

    Bold is the paper's rule: the best of a column and whatever has an interval that overlaps the best one's. A single
    trial has no interval.
    """
    cells = collect(lines)
    datasets = datasets_in(cells)
    found = {method for method, dataset in cells if dataset in datasets}
    methods = [method for method in METHODS if method in PAPER_METHODS or method in found]
    heading, columns = ["method"], []
    papers = [{method: paper_reward(method, dataset) for method in methods} for dataset in datasets]
    for place, (dataset, paper) in enumerate(zip(datasets, papers, strict=True), start=1):
        title = COLUMNS[dataset].title
        heading.append(title)
        columns.append({method: cells.get((method, dataset)) for method in methods})
        if any(paper.values()) and paper not in papers[place : place + 1]:
            heading.append(f"{title.removesuffix(' v1')}, paper")
            columns.append(paper)
    rows = tuple((METHODS[method], *(cell_text(column[method]) for column in columns)) for method in methods)
    n_trials = sorted({cell.n_trials for (_, dataset), cell in cells.items() if dataset in datasets})
    title = f"Average reward on the test data over {_trials_text(n_trials)}, with 95% intervals"
    bold = {(row, at) for at, column in enumerate(columns, start=1) for row in best_rows(list(column.values()))}
    return Table(title if datasets else "No results yet", tuple(heading), rows, frozenset(bold))


def splits_table(lines: Sequence[Line]) -> Table | None:
    """Return the rewards on Scene over splits, trial t on split t, or None where there are none.

    Bold is the rule of `table_1`. Splits differ more than methods do, which widens every interval; the last column has
    the difference from the default on the same splits.
    """
    trials = collect_trials(line for line in lines if line["dataset"] == SPLITS)
    cells = collect(line for line in lines if line["dataset"] == SPLITS)
    if not cells:
        return None
    column = [cells.get((method, SPLITS)) for method in METHODS]
    rows = tuple(
        (title, cell_text(cell), "" if method == DEFAULT else gap_text(paired_gap(trials, SPLITS, method, DEFAULT)))
        for (method, title), cell in zip(METHODS.items(), column, strict=True)
    )
    n_trials = sorted({cell.n_trials for cell in cells.values()})
    title = f"Average reward on Scene over {_trials_text(n_trials)}, trial t on split t, with 95% intervals over splits"
    bold = frozenset((row, 1) for row in best_rows(column))
    return Table(title, ("method", "Scene over splits", f"less {METHODS[DEFAULT]}, paired"), rows, bold)


def noisy_table(lines: Sequence[Line]) -> Table | None:
    """Return shares of right actions where rewards are noisy, or None where there are none.

    Bold is the rule of `table_1`, among policies that take their most probable action and the logging policy. The
    default as it samples stands below, out of competition.
    """
    known = [line for line in lines if line["dataset"] in NOISY]
    cells, sampled = collect(known), collect(known, "value_sampled")
    columns = [name for name in NOISY if any(dataset == name for _, dataset in cells)]
    if not columns:
        return None
    rows = [
        (title, *(cell_text(cells.get((method, name))) for name in columns)) for method, title in NOISY_METHODS.items()
    ]
    rows.append((f"{METHODS[DEFAULT]}, as it samples", *(cell_text(sampled.get((DEFAULT, name))) for name in columns)))
    bold = {
        (row, at)
        for at, name in enumerate(columns, start=1)
        for row in best_rows([cells.get((method, name)) for method in NOISY_METHODS])
    }
    n_trials = sorted({cell.n_trials for cell in cells.values()})
    title = f"Share of right actions over {_trials_text(n_trials)}, learned from noisy rewards, with 95% intervals"
    return Table(title, ("method", *(COLUMNS[name].title for name in columns)), tuple(rows), frozenset(bold))


def gap_text(gap: Cell | None) -> str:
    """Return a difference with its sign."""
    if gap is None:
        return "–"
    return f"{gap.mean:+.4f}" if gap.n_trials < 2 else f"{gap.mean:+.4f} ± {gap.half_width:.4f}"


def _trials_text(n_trials: Sequence[int]) -> str:
    """Return numbers of trials in words, smallest first: one number, or a range."""
    if len(n_trials) > 1:
        return f"{n_trials[0]} to {n_trials[-1]} trials"
    return " ".join("1 trial" if number == 1 else f"{number} trials" for number in n_trials)


def best_rows(column: Sequence[Cell | None]) -> list[int]:
    """Return the rows of the best cell and of those that are tied with it."""
    found = [cell for cell in column if cell is not None]
    if not found:
        return []
    best = max(found, key=lambda cell: cell.mean)
    return [row for row, cell in enumerate(column) if cell is not None and (cell is best or is_tied(cell, best))]


def is_tied(cell: Cell, best: Cell) -> bool:
    """Return whether the intervals overlap; a single trial has none, and is tied with nothing."""
    return min(cell.n_trials, best.n_trials) > 1 and cell.overlaps(best)


def table_2(lines: Sequence[Line]) -> Table:
    """Return the direct method's estimates beside the true rewards, ours and the paper's."""
    estimates, truths = collect_direct_method(lines), collect(lines)
    rows = []
    for dataset in datasets_in(estimates):
        for method in METHODS:
            if (method, dataset) not in estimates:
                continue
            rows.append(
                (
                    f"{DATASETS.get(dataset, dataset)}, {METHODS[method]}",
                    cell_text(estimates[method, dataset]),
                    cell_text(truths.get((method, dataset))),
                    cell_text(paper_direct_method(method, dataset)),
                    cell_text(paper_reward(method, dataset)),
                )
            )
    heading = ("policy", "direct method", "true reward", "direct method, paper", "true reward, paper")
    return Table("Direct-method estimate against the true test reward", heading, tuple(rows))


def table_records(lines: Sequence[Line]) -> list[dict[str, Any]]:
    """Return both tables as records, one per method and dataset: ours, the direct method's and the paper's numbers."""
    estimates = collect_direct_method(lines)
    return [
        {
            "dataset": dataset,
            "method": method,
            **_numbers("reward", cell),
            "n_trials": cell.n_trials,
            **_numbers("paper_reward", paper_reward(method, dataset)),
            **_numbers("direct_method", estimates.get((method, dataset))),
            **_numbers("paper_direct_method", paper_direct_method(method, dataset)),
        }
        for (method, dataset), cell in sorted(collect(lines).items(), key=lambda item: item[0][::-1])
    ]


def _numbers(name: str, cell: Cell | None) -> dict[str, float]:
    """Return a cell's mean and the half-width of its interval, nothing if there is none."""
    if cell is None:
        return {}
    return {name: cell.mean} | ({f"{name}_half_width": cell.half_width} if cell.n_trials > 1 else {})


def of_quick_run(table: Table) -> Table:
    """Return the table with a title that says that the paper's numbers are no measure for it."""
    return replace(table, title=f"Quick run, small samples and settings but for Scene's boosted methods. {table.title}")


def shortfalls(lines: Sequence[Line]) -> list[str]:
    """Return a sentence for every row that is more than 0.015 below the paper's mean."""
    found = []
    for (method, dataset), cell in sorted(collect(lines).items()):
        paper = paper_reward(method, dataset)
        if paper is not None and method != "logging" and cell.mean < paper.mean - TOLERANCE:
            found.append(
                f"{METHODS.get(method, method)} on {DATASETS[dataset]}: {cell_text(cell)} over "
                f"{_trials_text([cell.n_trials])}, {paper.mean - cell.mean:.4f} below the paper's {paper.mean:.4f}."
            )
    return found
