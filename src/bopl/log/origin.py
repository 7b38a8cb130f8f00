"""`LogOrigin`: the format of a log's files, and which rows were selected and dropped."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from bopl._typing import IntArray
from bopl.log.finding import NOTE, OK, PROBLEM, Finding

ActionCounts: TypeAlias = Mapping[str, tuple[int, int]]

COPY = "another row is the same decision"  # the reason of copies
MAX_FIRST = 5  # rows that are listed for a reason
MAX_DROPPED = 0.05  # a larger share of rows left out is doubtful
MIN_UNEVEN_P = 1e-4  # of the hypothesis that rows were left out whatever their action
MIN_UNEVEN = 0.01  # a smaller difference between actions, in the share that was left out, changes nothing


@dataclass(frozen=True)
class Dropped:
    """Rows that were left out for one reason.

    Attributes
    ----------
    reason : str
        Such as "reward is missing".
    n_rows : int
    first : tuple of int
        The first of them, counted from 0 among the rows that were read.
    """

    reason: str
    n_rows: int
    first: tuple[int, ...]

    @classmethod
    def of(cls, reason: str, rows: IntArray) -> Dropped:
        """Return the record of some rows."""
        return cls(reason, len(rows), tuple(int(row) for row in rows[:MAX_FIRST]))

    def __str__(self) -> str:
        noun = "row" if self.n_rows == 1 else "rows"
        more = ", …" if self.n_rows > len(self.first) else ""
        return f"{self.reason} in {self.n_rows:,} ({noun} {', '.join(map(str, self.first))}{more})"


@dataclass(frozen=True)
class LogOrigin:
    """How a log came about.

    Attributes
    ----------
    n_rows : int
        Rows that were read.
    format : str or None
        Name of the format of the files, such as "Open Bandit Dataset".
    where : str or None
        Condition on the rows that were asked for.
    n_filtered : int
        Rows that did not meet it.
    dropped : tuple of Dropped
        Rows that were invalid, or copies of others, by reason.
    uneven : str or None
        What is doubtful about which rows were dropped, in a sentence.
    """

    n_rows: int
    format: str | None = None
    where: str | None = None
    n_filtered: int = 0
    dropped: tuple[Dropped, ...] = ()
    uneven: str | None = None

    @property
    def n_dropped(self) -> int:
        """Rows that were left out although they were asked for."""
        return sum(one.n_rows for one in self.dropped)

    @property
    def dropped_share(self) -> float:
        """Their share."""
        return self.n_dropped / max(self.n_rows - self.n_filtered, 1)

    @property
    def invalid_share(self) -> float:
        """The share of rows that were left out, but not as copies, among those that are no copies."""
        n_copies = sum(one.n_rows for one in self.dropped if one.reason.endswith(COPY))
        return (self.n_dropped - n_copies) / max(self.n_rows - self.n_filtered - n_copies, 1)

    def with_format(self, format: str) -> LogOrigin:
        """Return the record with the name of a format."""
        return replace(self, format=format)

    def sentences(self) -> list[str]:
        """Return what should be known of the rows, in plain sentences; nothing where all were taken."""
        said = []
        if self.where is not None:
            kept = self.n_rows - self.n_filtered
            said.append(f"{kept:,} of {self.n_rows:,} rows satisfy {self.where}.")
        if self.dropped:
            listed = "; ".join(map(str, self.dropped))
            said.append(
                f"{self.n_dropped:,} of {self.n_rows - self.n_filtered:,} rows were dropped "
                f"({_percent(self.dropped_share)}): {listed}."
            )
        if self.uneven is not None:
            said.append(self.uneven)
        return said

    def findings(self) -> list[Finding]:
        """Return what an audit says of it."""
        found = []
        if self.format is not None:
            found.append(Finding("format", OK, float(self.n_rows), f"{self.n_rows:,} rows were read as {self.format}."))
        if self.where is not None:
            share = self.n_filtered / max(self.n_rows, 1)
            found.append(Finding("where", NOTE, share, self.sentences()[0]))
        if self.dropped:
            found.append(self._dropped_finding())
        return found

    def _dropped_finding(self) -> Finding:
        text = " ".join(self.sentences()[self.where is not None :])
        if self.uneven is None and self.invalid_share > MAX_DROPPED:
            text += " That is a lot: if missing values are related to the reward, estimates are biased."
        elif self.uneven is None and self.dropped_share > MAX_DROPPED:
            text += " That is a lot: do the columns that are compared tell every decision from the others?"
        return Finding("dropped_rows", PROBLEM if self.invalid_share > 0.5 else NOTE, self.dropped_share, text)

    def to_json(self) -> dict[str, Any]:
        """Return the record as plain values that JSON can hold."""
        return {
            "n_rows": self.n_rows,
            "format": self.format,
            "where": self.where,
            "n_filtered": self.n_filtered,
            "n_dropped": self.n_dropped,
            "dropped": [{"reason": one.reason, "n_rows": one.n_rows, "first": list(one.first)} for one in self.dropped],
            "uneven": self.uneven,
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> LogOrigin:
        """Return the record written by `to_json`."""
        dropped = [Dropped(one["reason"], one["n_rows"], tuple(one["first"])) for one in document["dropped"]]
        names = ("n_rows", "format", "where", "n_filtered", "uneven")
        return cls(**{name: document[name] for name in names}, dropped=tuple(dropped))


def _percent(share: float) -> str:
    """Return a share with two digits; 100% has three."""
    return f"{100.0 * share:.{2 if share < 0.995 else 3}g}%"


def uneven_by_action(counts: ActionCounts) -> str | None:
    """Return a sentence if rows were dropped more often after some actions than after others; None if not.

    ``counts`` says of each action how many rows have it, and how many of them were dropped.
    """
    from scipy.stats import chi2

    tried = {label: pair for label, pair in counts.items() if pair[0] > 0}
    total, lost = np.array(list(tried.values()), dtype=np.float64).reshape(-1, 2).T
    share = lost.sum() / max(total.sum(), 1.0)
    if not 0.0 < share < 1.0 or len(total) < 2:
        return None
    statistic = float((((lost - share * total) ** 2) / (share * (1.0 - share) * total)).sum())
    rate = lost / total
    most = int(np.argmax(np.where(lost >= 5.0, rate, -1.0)))
    if chi2.sf(statistic, len(total) - 1) > MIN_UNEVEN_P or rate[most] - share < MIN_UNEVEN or lost[most] < 5.0:
        return None
    name = list(tried)[most]
    return (
        f"Rows were dropped more often after some actions than after others ({_percent(rate[most])} after {name}, "
        f"{_percent(share)} overall): estimates may be biased; find out why these rows are invalid."
    )
