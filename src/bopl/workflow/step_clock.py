"""How long each step of a run takes, and how much memory."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from bopl._machine import peak_memory_mib, reset_peak_memory
from bopl._progress import RunLine


@dataclass
class StepClock:
    """Times the steps of a run.

    Attributes
    ----------
    steps : list of dict
        ``step``, ``seconds`` and ``peak_mib``, the most memory the process held meanwhile.
    line : RunLine or None
        Is told which step begins.
    """

    steps: list[dict[str, Any]] = field(default_factory=list)
    line: RunLine | None = None

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Time what happens inside."""
        if self.line is not None:
            self.line.stage(name)
        reset_peak_memory()
        start = time.perf_counter()
        yield
        seconds = round(time.perf_counter() - start, 3)
        self.steps.append({"step": name, "seconds": seconds, "peak_mib": peak_memory_mib()})

    @property
    def peak_mib(self) -> float:
        """The most memory of any step."""
        return max((step["peak_mib"] for step in self.steps), default=0.0)
