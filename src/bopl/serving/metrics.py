"""Counts of what the service did since it started, in the text format of Prometheus."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping

BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
HELP = {
    "bopl_requests_total": "Requests answered, by path and status.",
    "bopl_decisions_total": "New decisions, by policy and by what the action was drawn from.",
    "bopl_repeated_decisions_total": "Requests for an event that had been decided before.",
    "bopl_fallbacks_total": "Decisions that the served mixture could not make, by reason.",
    "bopl_rewards_total": "Rewards received, by status.",
    "bopl_activations_total": "Activations received.",
    "bopl_swaps_total": "Promotions that were taken over while serving.",
    "bopl_failed_swaps_total": "Promotions that could not be served; the one before stays.",
}


class Metrics:
    """Counters and the histogram of response times; used from one thread."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, tuple[tuple[str, str], ...]], int] = defaultdict(int)
        self._buckets = [0] * (len(BUCKETS) + 1)
        self._seconds = 0.0

    def count(self, name: str, **labels: str) -> None:
        """Add one to a counter."""
        self._counts[name, tuple(labels.items())] += 1

    def total(self, name: str, **labels: str) -> int:
        """Return the sum of a counter over all labels but those given."""
        wanted = set(labels.items())
        return sum(count for (one, found), count in self._counts.items() if one == name and wanted <= set(found))

    def observe(self, seconds: float) -> None:
        """Note how long a decision took, from the request to its answer."""
        self._buckets[bisect_left(BUCKETS, seconds)] += 1
        self._seconds += seconds

    def render(self, gauges: Mapping[str, tuple[str, float, Mapping[str, str]]]) -> str:
        """Return everything as text; ``gauges`` maps names to help, value and labels."""
        lines: list[str] = []
        for name, text in HELP.items():
            lines += [f"# HELP {name} {text}", f"# TYPE {name} counter"]
            found = [(labels, count) for (one, labels), count in sorted(self._counts.items()) if one == name]
            lines += [f"{name}{_labels(labels)} {count}" for labels, count in found or [((), 0)]]
        lines += self._histogram()
        for name, (text, value, labels) in gauges.items():
            lines += [f"# HELP {name} {text}", f"# TYPE {name} gauge", f"{name}{_labels(labels.items())} {value!r}"]
        return "\n".join(lines) + "\n"

    def _histogram(self) -> list[str]:
        name = "bopl_decide_seconds"
        lines = [f"# HELP {name} Time from a request for a decision to its answer.", f"# TYPE {name} histogram"]
        total = 0
        for edge, count in zip((*map(repr, BUCKETS), "+Inf"), self._buckets, strict=True):
            total += count
            lines.append(f'{name}_bucket{{le="{edge}"}} {total}')
        return [*lines, f"{name}_sum {self._seconds!r}", f"{name}_count {total}"]


def _labels(labels: Iterable[tuple[str, str]]) -> str:
    inner = ",".join(f'{name}="{_escaped(value)}"' for name, value in labels)
    return f"{{{inner}}}" if inner else ""


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
