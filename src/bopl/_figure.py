"""Figures that draw themselves in a notebook, and need neither a display nor a magic command."""

from __future__ import annotations

import io
from typing import Any

try:
    from matplotlib.figure import Figure
except ImportError:
    raise ImportError("plots need matplotlib: pip install 'bopl[plot]'.") from None


class NotebookFigure(Figure):
    """A matplotlib figure that notebooks show as it is.

    It is not known to ``matplotlib.pyplot``, so that no cell draws it a second time. Where ``%matplotlib inline`` is
    active, the notebook asks that for the picture, and this for nothing.
    """

    def _repr_png_(self) -> bytes:
        """Return the picture, as notebooks ask for it."""
        picture = io.BytesIO()
        self.savefig(picture, format="png", bbox_inches="tight")
        return picture.getvalue()


def new_figure(width: float, height: float) -> Any:
    """Return an empty figure of this size, in inches."""
    return NotebookFigure(figsize=(width, height), layout="constrained")
