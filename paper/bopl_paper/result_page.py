"""Pages of the results: tables and sentences, from the result lines alone."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bopl_paper.catalogue import DATASETS, DEFAULT, METHODS, NOISY, NOISY_FILE, SPLITS
from bopl_paper.claim import check_claims
from bopl_paper.default_standing import Standing, against_best, against_logging
from bopl_paper.result_line import Line
from bopl_paper.result_table import (
    TOLERANCE,
    noisy_table,
    of_quick_run,
    shortfalls,
    splits_table,
    table_1,
    table_2,
    table_records,
)

logger = logging.getLogger("bopl.paper.result_page")  # who hears the library hears this

BESIDE_BEST = f"{METHODS[DEFAULT]} beside the best of the others, judged by the intervals"
BESIDE_LOGGING = f"{METHODS[DEFAULT]} is never below the logging policy's most probable action by more than noise"
NOISY_TEXT = """# Noisy rewards

A reward is 1 with probability 0.6 if the action is right, and with probability 0.2 if it is not. An action is right if
it earns 1 in the tables of deterministic rewards: any of several true labels, and no partial credit. Values are shares
of right actions on the test contexts. Policies take their most probable action unless the row says otherwise.

- Trial t is on split t, with logging policies made as in the other tables. Covertype is 50,000 samples, drawn in each
  trial; the others are whole.
- The worlds of 50 and 200 actions are those of `bopl.simulation.make_mixture`: 20,000 samples in 12 dimensions, two
  clusters per action, and a linear logging policy with 2% exploration.
- Methods have the settings that the paper selected on the same data with deterministic rewards; those on the digits and
  the worlds are in `paper/bopl_paper/settings/`. XGBoost grows its trees by histogram. The default has no settings.
- Bold is the best of a column, and what has an interval that overlaps the best one's.
"""


def write_tables(lines: Sequence[Line], folder: Path, *, quick: bool = False) -> dict[str, Any]:
    """Write and say the tables and claims of deterministic rewards; return them as plain values."""
    splits = None if quick else splits_table(lines)
    tables = [table_1(lines), *([] if splits is None else [splits]), table_2(lines)]
    if quick:
        tables = [of_quick_run(each) for each in tables]
    claims, standings = check_claims(lines), [] if quick else against_best(lines, (*DATASETS, SPLITS))
    parts = [each.to_markdown() for each in tables]
    if standings:
        parts.append(_bullets(BESIDE_BEST, standings))
    parts.append(_bullets("The paper's claims, judged by the intervals", claims))
    if not quick:
        parts.append(_bullets(f"More than {TOLERANCE} below the paper", shortfalls(lines) or ["Nothing."]))
    _write(folder / "tables.md", "\n".join(parts))
    (folder / "tables.tex").write_text("\n".join(each.to_latex() for each in tables), encoding="utf8")
    logger.info(f"Written to {folder / 'tables.md'} and {folder / 'tables.tex'}.")
    return {
        "rewards": table_records(lines),
        "claims": [asdict(claim) for claim in claims],
        "standings": _plain(standings),
    }


def write_noisy(lines: Sequence[Line], folder: Path) -> list[dict[str, Any]]:
    """Write and say the page of noisy rewards, if there are any; return where the default stands as plain values."""
    found = noisy_table(lines)
    if found is None:
        return []
    best, logging = against_best(lines, NOISY), against_logging(lines, NOISY)
    parts = [NOISY_TEXT, found.to_markdown()]
    if best:
        parts.append(_bullets(BESIDE_BEST, best))
    if logging:
        verdict = "holds" if all(standing.holds for standing in logging) else "does not hold"
        parts.append(_bullets(f"{BESIDE_LOGGING}: {verdict}", logging))
    path = folder / f"{NOISY_FILE}.md"
    _write(path, "\n".join(parts))
    logger.info(f"Written to {path}.")
    return _plain([*best, *logging])


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf8")
    logger.info(text)


def _plain(standings: Sequence[Standing]) -> list[dict[str, Any]]:
    return [asdict(standing) for standing in standings]


def _bullets(title: str, sentences: Iterable[object]) -> str:
    return "\n".join([f"**{title}**\n", *(f"- {sentence}" for sentence in sentences), ""])
