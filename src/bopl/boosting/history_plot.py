"""The training history as a figure of four panels."""

from __future__ import annotations

from typing import Any

import numpy as np

from bopl.boosting.history import History


def plot_history(history: History) -> Any:
    """Return a matplotlib figure of the history."""
    from bopl._figure import new_figure

    figure = new_figure(10.0, 6.5)
    panels = figure.subplots(2, 2, sharex=True)
    _draw_risk(panels[0, 0], history)
    _draw_lines(panels[0, 1], history, {"gradient_norm": "norm of the gradient"}, "gradient")
    panels[0, 1].set_yscale("log")
    _draw_lines(
        panels[1, 0], history, {"snips_value": "training (SNIPS)", "validation_value": "validation (SNIPS)"}, "reward"
    )
    _draw_lines(panels[1, 1], history, {"effective_sample_size": "effective sample size"}, "importance weights")
    for panel in panels[1]:
        panel.set_xlabel("round")
    return figure


def _draw_risk(panel: Any, history: History) -> None:
    panel.plot(history["round"], history.objective_risk, label=history.title, color="C0", linewidth=2)
    panel.plot(history["round"], history["recursive_bound"], label="recursive bound", color="C1", linewidth=1)
    panel.plot(history["round"], history["theorem_bound"], label="Theorem 1", color="C2", linewidth=1, linestyle="--")
    panel.set_title("risk under its bounds")
    panel.legend(frameon=False)


def _draw_lines(panel: Any, history: History, labels: dict[str, str], title: str) -> None:
    drawn = False
    for column_idx, (column, label) in enumerate(labels.items()):
        if np.isfinite(history[column]).any():
            panel.plot(history["round"], history[column], label=label, color=f"C{column_idx}")
            drawn = True
    panel.set_title(title)
    if drawn:
        panel.legend(frameon=False)
