"""Uplifts or values with their intervals as a forest plot."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bopl.evaluation.result import Evaluation
    from bopl.evaluation.row import Estimate

# Blue and orange stay apart for colour-blind eyes; what cannot be trusted is hollow as well.
COLOURS = {"better": "#0b6fb8", "worse": "#d1590c", "inconclusive": "#666666", "not trustworthy": "#b0b0b0"}


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
        color=COLOURS[verdict],
        markerfacecolor="white" if verdict == "not trustworthy" else COLOURS[verdict],
        linestyle="none",
        capsize=3.0,
        label=None if verdict in seen else verdict,
    )
    seen.add(verdict)
