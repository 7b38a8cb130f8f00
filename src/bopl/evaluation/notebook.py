"""An evaluation to look at: a card in a notebook, with uplifts drawn beside their numbers, and a forest plot."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import isfinite
from typing import Any

from bopl._html import Markup, card, element, marked, table
from bopl.evaluation.result import Evaluation, part_rows, row_cells
from bopl.evaluation.row import Estimate
from bopl.evaluation.verdict import BETTER, INCONCLUSIVE, NOT_TRUSTWORTHY, WORSE

LOOKS = {BETTER: "good", WORSE: "bad", INCONCLUSIVE: "plain", NOT_TRUSTWORTHY: "hollow"}
COLOURS = {BETTER: "#2f86d6", WORSE: "#d9691c", INCONCLUSIVE: "currentColor", NOT_TRUSTWORTHY: "currentColor"}
# Blue and orange stay apart for colour-blind eyes; what cannot be trusted is hollow as well.
PLOT_COLOURS = {BETTER: "#0b6fb8", WORSE: "#d1590c", INCONCLUSIVE: "#666666", NOT_TRUSTWORTHY: "#b0b0b0"}
HEADS = ("policy", "estimator", "value", "uplift", "", "effective samples", "verdict")
WIDTH, HEIGHT, RADIUS = 110.0, 18.0, 3.5  # of a drawing, in pixels


def evaluation_card(evaluation: Evaluation, reasons: Sequence[str]) -> str:
    """Return an evaluation as HTML, with the reasons for its verdicts."""
    place = _scale(evaluation)
    rows = []
    for row in evaluation.rows:
        policy, estimator, value, uplift, effective = row_cells(row)
        verdict = marked(row.verdict, LOOKS[row.verdict])
        rows.append((policy, estimator, value, uplift, _interval(row, place), effective, verdict))
    below = [
        part for title, heads, texts in part_rows(evaluation) for part in (element("p", title), table(heads, texts))
    ]
    below += [element("p", reason) for reason in reasons]
    below += [element("p", note, class_="soft") for note in evaluation.notes]
    return card("Evaluation", evaluation.title, table(HEADS, rows, numeric=(2, 3, 5)), *below)


def _scale(evaluation: Evaluation) -> Callable[[float], float]:
    """Return where an uplift is drawn; what cannot be trusted does not decide on the scale."""
    trusted = [row for row in evaluation.rows if row.verdict != NOT_TRUSTWORTHY] or evaluation.rows
    ends = [0.0, *(end for row in trusted for end in (row.uplift_ci_lower, row.uplift_ci_upper))]
    known = [end for end in ends if isfinite(end)]
    low, span = min(known), (max(known) - min(known)) or 1.0
    return lambda uplift: RADIUS + (WIDTH - 2.0 * RADIUS) * min(max((uplift - low) / span, 0.0), 1.0)


def _interval(row: Estimate, place: Callable[[float], float]) -> Markup:
    """Return the uplift as a dot on its interval, with a dashed line at zero."""
    middle, colour = f"{HEIGHT / 2.0:g}", COLOURS[row.verdict]
    lower, upper = row.uplift_ci_lower, row.uplift_ci_upper
    ends = (lower, upper) if isfinite(lower) and isfinite(upper) else (row.uplift, row.uplift)
    zero, centre = f"{place(0.0):.1f}", f"{place(row.uplift):.1f}"
    start, end = (f"{place(value):.1f}" for value in ends)
    dashed = {"stroke_dasharray": "2 2", "stroke_opacity": "0.5"}
    fill = "none" if row.verdict == NOT_TRUSTWORTHY else colour
    return element(
        "svg",
        element("line", x1=zero, x2=zero, y1="0", y2=f"{HEIGHT:g}", stroke="currentColor", **dashed),
        element("line", x1=start, x2=end, y1=middle, y2=middle, stroke=colour, stroke_width="2"),
        element("circle", cx=centre, cy=middle, r=f"{RADIUS:g}", fill=fill, stroke=colour),
        width=f"{WIDTH:g}",
        height=f"{HEIGHT:g}",
        role="img",
        aria_label="uplift and its interval",
    )


def plot_forest(evaluation: Evaluation, *, show_uplift: bool) -> Any:
    """Return a matplotlib figure with one line per policy and estimator."""
    from bopl._figure import new_figure

    rows = evaluation.rows
    figure = new_figure(9.0, 1.6 + 0.34 * len(rows))
    panel = figure.subplots()
    seen: set[str] = set()
    for position, row in enumerate(reversed(rows)):
        _draw_row(panel, position, row, show_uplift, seen)
    reference = 0.0 if show_uplift else evaluation.logging_value
    panel.axvline(reference, color="black", linewidth=0.8, linestyle=":")
    panel.set_yticks(range(len(rows)), [f"{row.policy} · {row.estimator}" for row in reversed(rows)])
    panel.set_ylim(-0.6, len(rows) - 0.4)
    what = "uplift over the logging policy" if show_uplift else "reward per decision (dotted: the logging policy)"
    panel.set_xlabel(f"{what}, {100.0 * evaluation.confidence:.4g}% {evaluation.interval.replace('_', ' ')} intervals")
    panel.spines[["top", "right"]].set_visible(False)
    panel.legend(frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=4)
    return figure


def _draw_row(panel: Any, position: int, row: Estimate, show_uplift: bool, seen: set[str]) -> None:
    centre, lower, upper, verdict = row.value, row.ci_lower, row.ci_upper, row.verdict
    if show_uplift:
        centre, lower, upper = row.uplift, row.uplift_ci_lower, row.uplift_ci_upper
    panel.errorbar(
        centre,
        position,
        xerr=[[max(centre - lower, 0.0)], [max(upper - centre, 0.0)]],
        fmt="o",
        color=PLOT_COLOURS[verdict],
        markerfacecolor="white" if verdict == NOT_TRUSTWORTHY else PLOT_COLOURS[verdict],
        linestyle="none",
        capsize=3.0,
        label=None if verdict in seen else verdict,
    )
    seen.add(verdict)
