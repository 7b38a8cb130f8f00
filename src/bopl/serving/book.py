"""`VerdictBook`: every look at the log, written down before anything follows from it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bopl._files import write_text

CANDIDATE, RAMP = "candidate", "ramp"
_DIGITS = 6


class VerdictBook:
    """The verdicts of a loop, one JSON file each, numbered from 1, in the folder ``verdicts/``."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.path.mkdir(exist_ok=True)

    def entries(self) -> list[dict[str, Any]]:
        """Return all verdicts, the oldest first."""
        return [_read(file) for file in self._files()]

    def last(self) -> dict[str, Any] | None:
        """Return the newest verdict, or None."""
        files = self._files()
        return _read(files[-1]) if files else None

    def write(self, entry: Mapping[str, Any]) -> dict[str, Any]:
        """Write a verdict in one step and return it with its number."""
        files = self._files()
        number = int(files[-1].stem) + 1 if files else 1
        numbered = {"number": number, **entry}
        target = self.path / f"{number:0{_DIGITS}d}.json"
        write_text(target, json.dumps(numbered, indent=1, ensure_ascii=False, allow_nan=False) + "\n")
        return numbered

    def looks(self, running: str) -> list[dict[str, Any]]:
        """Return the verdicts on candidates for the place of a policy."""
        return [one for one in self.entries() if one["kind"] == CANDIDATE and one["running"] == running]

    def _files(self) -> list[Path]:
        return sorted(file for file in self.path.glob("*.json") if file.stem.isdigit())


def _read(file: Path) -> dict[str, Any]:
    try:
        entry = json.loads(file.read_text(encoding="utf8"))
        if isinstance(entry, dict) and {"kind", "running", "action", "after", "n_joined"} <= entry.keys():
            return entry
    except ValueError:
        pass
    raise ValueError(f"{str(file)!r} is not the verdict of a step: restore it, so that all looks are counted.")


def level_of_look(confidence: float, look: int) -> float:
    """Return the confidence of one look, so that all looks together have the requested confidence.

    Look k may err with ``(1 - confidence) / (k (k + 1))``; over all k these sum to ``1 - confidence``.

    Examples
    --------
    >>> [round(level_of_look(0.95, look), 4) for look in (1, 2, 3)]
    [0.975, 0.9917, 0.9958]
    """
    return 1.0 - (1.0 - confidence) / (look * (look + 1))
