"""The leaderboard of a race, one row per candidate with its results, and the outcome as a card in a notebook."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import numpy as np

from bopl._html import card, element, facts, marked, table
from bopl._table import Tabular, column_texts, is_missing
from bopl.policy.blend import BlendedPolicy

if TYPE_CHECKING:
    from bopl.race.auto import AutoPolicy

HEADS = ("candidate", "uplift over logging", "95% interval", "rounds", "")
CHOSEN = ("won", "in the blend")
MAX_WHOLE = 1 << 53


@dataclass(frozen=True)
class Entry:
    """A row of the leaderboard; the columns are described in ``bopl.race.leaderboard.COLUMNS``."""

    candidate: Annotated[str, "name of the candidate"]
    about: Annotated[str, "what it is"]
    value: Annotated[float, "estimated reward on validation samples, doubly robust"]
    uplift: Annotated[float, "estimated reward minus that of the logging policy"]
    lower: Annotated[float, "lower end of the uplift's 95% interval"]
    upper: Annotated[float, "upper end of the uplift's 95% interval"]
    rounds: Annotated[int, "rounds at which it was best"]
    sharpness: Annotated[
        float, "inverse temperature at which it was judged, or at which the winner acts; infinity is greedy"
    ]
    seconds: Annotated[float, "time it took"]
    status: Annotated[str, "won, in the blend, dropped after some rounds, raced to the end, or not begun"]


COLUMNS: dict[str, str] = column_texts(Entry)
_KINDS: dict[str, type] = get_type_hints(Entry)


@dataclass(frozen=True)
class Leaderboard(Tabular, Sequence[Entry]):
    """The result of a race, best first.

    Attributes
    ----------
    entries : tuple of Entry
    verdict : str
        One sentence: what was chosen, and why.
    n_judged : int
        Number of samples that the judges used.
    n_parts : int
        Divisions of the log: 1 is a validation part, more is cross-validation.
    judged_by : str
        Description of the judging samples: the latest ones, random ones, or all in turn.
    """

    entries: tuple[Entry, ...]
    verdict: str
    n_judged: int
    n_parts: int
    judged_by: str = ""

    def __getitem__(self, index: Any) -> Any:
        return self.entries[index]

    def __len__(self) -> int:
        return len(self.entries)

    def __iter__(self) -> Iterator[Entry]:
        return iter(self.entries)

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values; an infinite sharpness becomes the word ``greedy``."""
        rows = [asdict(entry) for entry in self.entries]
        for row in rows:
            row["sharpness"] = "greedy" if np.isinf(row["sharpness"]) else row["sharpness"]
            row |= {name: None for name, value in row.items() if is_missing(value)}
        judged = {"n_judged": self.n_judged, "n_parts": self.n_parts, "judged_by": self.judged_by}
        return {"verdict": self.verdict, **judged, "entries": rows}

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> Leaderboard:
        """Return the leaderboard of `to_dict`."""
        judged_by = str(plain.get("judged_by", ""))  # not in older files
        entries = tuple(_read_entry(row) for row in plain["entries"])
        return cls(entries, str(plain["verdict"]), int(plain["n_judged"]), int(plain["n_parts"]), judged_by)

    def columns(self) -> dict[str, Any]:
        """Return one list per column."""
        return {name: [getattr(entry, name) for entry in self.entries] for name in COLUMNS}

    def _columns(self) -> dict[str, Any]:
        return self.columns()

    def cells(self) -> list[list[str]]:
        """Return the rows as text: candidate, uplift with its interval, rounds, sharpness, seconds, status."""
        return [
            [
                entry.candidate,
                "" if np.isnan(entry.value) else f"{entry.value:.4g}",
                "" if np.isnan(entry.uplift) else f"{entry.uplift:+.4g} [{entry.lower:+.4g}, {entry.upper:+.4g}]",
                f"{entry.rounds:,}",
                "greedy" if np.isinf(entry.sharpness) else f"{entry.sharpness:g}",
                "" if np.isnan(entry.seconds) else f"{entry.seconds:.1f}",
                entry.status,
            ]
            for entry in self.entries
        ]

    HEADINGS = ("candidate", "value", "uplift over logging [95%]", "rounds", "sharpness", "seconds", "")

    def lines(self) -> list[str]:
        """Return the headings and the rows in columns of text."""
        rows = [list(self.HEADINGS), *self.cells()]
        widths = [max(len(row[k]) for row in rows) for k in range(len(self.HEADINGS))]
        return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]

    def __str__(self) -> str:
        return "\n".join([*self.lines(), self.verdict, *([self.judged_by] if self.judged_by else [])])

    def _repr_html_(self) -> str:
        return card("Leaderboard", self.verdict, table(list(self.HEADINGS), self.cells(), numeric=range(1, 6)))


def _read_entry(row: dict[str, Any]) -> Entry:
    """Return the entry of plain values, as `Leaderboard.to_dict` writes them."""
    values: dict[str, Any] = {}
    for name, kind in _KINDS.items():
        value = np.inf if name == "sharpness" and row[name] == "greedy" else row[name]
        values[name] = float("nan") if value is None and kind is float else value
        is_huge = isinstance(value, int) and abs(value) > MAX_WHOLE  # numpy takes such a number for an object
        if is_huge or not isinstance(values[name], (int, float) if kind is float else kind):
            raise ValueError("an entry of the leaderboard is not valid")
    return Entry(**values)


def race_card(policy: AutoPolicy, settings: str) -> str:
    """Return the policy as HTML; ``settings`` is its representation as text."""
    shown = element("p", element("code", settings))
    if not policy.__sklearn_is_fitted__():
        return card("AutoPolicy", "not fitted", shown)
    board = policy.leaderboard_
    values = {
        "actions": f"{len(policy.actions_):,}",
        "features": f"{policy.n_features_in_:,}",
        "candidates": f"{sum(entry.candidate != 'blend' for entry in board):,}",
        "judged by": f"{board.n_judged:,} samples" + (f", {board.n_parts}-fold" if board.n_parts > 1 else ""),
        "rounds": f"{policy.n_rounds_:,}",
    }
    return card(
        "AutoPolicy",
        _winner(policy),
        element("p", board.verdict),
        element("p", "The race was interrupted; this is the best so far.") if policy.is_interrupted_ else None,
        facts(values),
        table(HEADS, [_row(entry) for entry in board], numeric=(1, 2, 3)),
        element("details", element("summary", "settings", class_="soft"), shown),
    )


def _winner(policy: AutoPolicy) -> str:
    if policy.is_logging_:
        return "the logging policy: nothing beat it"
    if isinstance(policy.best_policy_, BlendedPolicy):
        return f"a blend of {len(policy.best_policy_.policies_)} candidates"
    return next((entry.candidate for entry in policy.leaderboard_ if entry.status == "won"), "")


def _row(entry: Entry) -> tuple[str, ...]:
    look = "hollow" if np.isnan(entry.uplift) or entry.lower <= 0.0 <= entry.upper else "good"
    look = "bad" if entry.upper < 0.0 else look
    status = element("strong", entry.status) if entry.status in CHOSEN else entry.status
    if np.isnan(entry.uplift):
        return (marked(entry.candidate, look), "", "", "", status)
    interval = f"{entry.lower:+.4g} to {entry.upper:+.4g}"
    return (marked(entry.candidate, look), f"{entry.uplift:+.4g}", interval, f"{entry.rounds:,}", status)
