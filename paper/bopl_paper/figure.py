"""Figure 1 from the result lines: gradient norm, training reward and test reward, round by round."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bopl_paper.catalogue import FIGURE_METHODS
from bopl_paper.result_line import Line

PANELS = {
    "gradient_norm": "norm of the gradient",
    "training_reward": "reward on the training log (SNIPS)",
    "round_reward": "reward on the test data",
}


def draw_figure(lines: Sequence[Line]) -> Any:
    """Return a matplotlib figure with one panel per quantity and one curve per algorithm."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise ImportError("the figure needs matplotlib: pip install 'bopl[plot]'.") from None
    latest = {line["method"]: line for line in lines if "gradient_norm" in line}
    if not latest:
        raise ValueError("there are no lines of the figure's runs yet: run `bopl reproduce figure`.")
    figure = Figure(figsize=(12.0, 3.6), layout="constrained")
    for axis, (field, title) in zip(figure.subplots(1, len(PANELS)), PANELS.items(), strict=True):
        for method, name in FIGURE_METHODS.items():
            if method in latest:
                values = latest[method][field]
                axis.plot(range(1, len(values) + 1), values, label=name)
        axis.set_xlabel("round")
        axis.set_title(title)
        axis.grid(alpha=0.3)
    figure.axes[0].legend()
    return figure


def write_figure(lines: Sequence[Line], folder: Path) -> list[Path]:
    """Write ``figure_1.svg`` and ``figure_1.png``; return their paths."""
    figure = draw_figure(lines)
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / "figure_1.svg", folder / "figure_1.png"]
    for path in paths:
        figure.savefig(path, dpi=150)
    return paths
