"""Vowpal Wabbit's text: contextual bandit examples of one line (cb) or of one line per action (cb_adf).

=========================================  ==========================================================
``2:1.5:0.25 |user age:30 Rom``            cb: action 2 was taken, cost 1.5, with probability 0.25
``shared |user age:30 Rom``                cb_adf: the context,
``0:1.5:0.25 |item tea``                   the action that was taken, with its cost and probability,
``|item milk``                             another that was not, and an empty line
=========================================  ==========================================================

Rewards are costs with the other sign. Contexts are sparse: a feature ``name`` of namespace ``user`` is the column
``user^name``.
"""

from __future__ import annotations

import bz2
import gzip
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from io import TextIOBase
from pathlib import Path
from typing import Any, TextIO
from zlib import error as zlib_error

import numpy as np

from bopl.log.format.action_table import ActionTable, action_parts
from bopl.log.format.log_parts import LogParts, SparseContext

ROLES = {"action": "_action", "reward": "_reward", "propensity": "_propensity"}
_OPENERS: dict[str, Callable[..., TextIO]] = {".gz": gzip.open, ".bz2": bz2.open}


@dataclass(frozen=True)
class Line:
    """One line: what stands before the first bar, and the features after it."""

    head: tuple[str, ...]
    features: dict[str, float]
    where: str

    @property
    def is_shared(self) -> bool:
        """Whether it describes the context of the lines below it."""
        return self.head[:1] == ("shared",)

    def labels(self) -> list[tuple[str, float, float]]:
        """Return action, cost and probability of every label that has them."""
        parts = [word.split(":") for word in self.head if not word.startswith("'")]
        try:
            return [(one[0], float(one[1]), float(one[2])) for one in parts if len(one) == 3]
        except ValueError:
            raise ValueError(
                f"{self.where} has a label that is not action:cost:probability: {self.head[0]!r}."
            ) from None


@dataclass
class Decisions:
    """Decisions as they are read, column by column."""

    action: list[Any] = field(default_factory=list)
    reward: list[float | None] = field(default_factory=list)
    propensity: list[float | None] = field(default_factory=list)
    context: list[dict[str, float]] = field(default_factory=list)

    def add(self, action: Any, cost: float | None, propensity: float | None, context: dict[str, float]) -> None:
        """Add one decision; a cost is a reward with the other sign."""
        self.action.append(action)
        self.reward.append(None if cost is None else 0.0 - cost)
        self.propensity.append(propensity)
        self.context.append(context)

    def table(self) -> Any:
        """Return the columns that are not context."""
        import pyarrow

        columns = (self.action, self.reward, self.propensity)
        return pyarrow.table(dict(zip(ROLES.values(), columns, strict=True)))


def read_vowpal(files: Sequence[Path]) -> LogParts:
    """Return the decisions of files in Vowpal Wabbit's text format, cb or cb_adf."""
    blocks = [block for file in files for block in _blocks(file)]
    if not blocks:
        raise ValueError(f"{str(files[0])!r} holds no example.")
    return _read_adf(blocks) if _is_adf(blocks) else _read_cb([line for block in blocks for line in block])


def _is_adf(blocks: list[list[Line]]) -> bool:
    """Whether the lines of a block are the actions of one decision, rather than decisions of their own."""
    lines = [line for block in blocks for line in block]
    if any(line.is_shared for line in lines):
        return True
    n_labelled = sum(bool(line.labels()) for line in lines)
    if n_labelled == len(lines) or len(blocks) == len(lines):
        return False
    return len(blocks) > 1 or n_labelled > 0  # otherwise they are contexts to decide on


def _read_cb(lines: list[Line]) -> LogParts:
    decisions = Decisions()
    for line in lines:
        labels = line.labels()
        if len(labels) > 1:
            raise _too_many_costs(line, len(labels))
        if labels:
            action, cost, propensity = labels[0]
            decisions.add(_action(action, line), cost, propensity, line.features)
        else:
            decisions.add(None, None, None, line.features)
    return LogParts(decisions.table(), ROLES, sparse=to_sparse(decisions.context))


def _too_many_costs(line: Line, n_actions: int) -> ValueError:
    return ValueError(f"{line.where} has the costs of {n_actions} actions; a log has only that of the one taken.")


def _action(word: str, line: Line) -> int:
    try:
        action = int(word)
    except ValueError:
        raise ValueError(f"{line.where} has an action that is not an integer: {word[:50]!r}.") from None
    if not -(2**63) <= action < 2**63:
        raise ValueError(f"{line.where} has an action beyond 64 bits: {word[:50]!r}. Number the actions from 1.")
    return action


def _read_adf(blocks: list[list[Line]]) -> LogParts:
    decisions, table = Decisions(), ActionTable()
    for block in blocks:
        shared = block[0].features if block[0].is_shared else {}
        lines = [line for line in block if not line.is_shared]
        if not lines:
            raise ValueError(f"{block[0].where} shares a context, but no action follows.")
        offered = table.add([line.features for line in lines], [None] * len(lines), lines[0].where)
        taken = [(place, label) for place, line in enumerate(lines) for label in line.labels()]
        if len(taken) > 1:
            raise _too_many_costs(block[0], len(taken))
        if taken:
            place, (_, cost, propensity) = taken[0]
            decisions.add(offered[place], cost, propensity, shared)
        else:
            decisions.add(None, None, None, shared)
    facts = action_parts(table)
    decisions.action = [None if number is None else facts["actions"][number] for number in decisions.action]
    return LogParts(decisions.table(), ROLES, sparse=to_sparse(decisions.context), **facts)


def to_sparse(contexts: Sequence[dict[str, float]]) -> SparseContext:
    """Return contexts that list what they have as a sparse matrix with sorted column names."""
    from scipy.sparse import csr_array

    names = sorted({name for context in contexts for name in context})
    place = {name: column for column, name in enumerate(names)}
    ends = np.cumsum([0, *(len(context) for context in contexts)])
    column = np.fromiter((place[name] for context in contexts for name in context), dtype=np.int64, count=ends[-1])
    value = np.fromiter((one for context in contexts for one in context.values()), dtype=np.float32, count=ends[-1])
    return SparseContext(csr_array((value, column, ends), shape=(len(contexts), len(names))), tuple(names))


# -- Lines ---------------------------------------------------------------------------------------------------------


def open_text(file: Path) -> TextIO | TextIOBase:
    """Open a text file, packed or not."""
    return _OPENERS.get(file.suffix.lower(), open)(file, "rt", encoding="utf8")


def text_lines(file: Path) -> Iterator[tuple[str, str]]:
    """Yield where each line of a file stands, and the line."""
    try:
        with open_text(file) as lines:
            for number, text in enumerate(lines, start=1):
                yield f"line {number} of {file.name}", text
    except (UnicodeDecodeError, EOFError, OSError, zlib_error) as error:
        if isinstance(error, OSError) and error.errno is not None:  # the file system's, not the content's
            raise
        raise ValueError(f"{str(file)!r} cannot be read as text: {error}.") from None


def _blocks(file: Path) -> Iterator[list[Line]]:
    """Yield the examples of a file: lines up to an empty one."""
    block: list[Line] = []
    for where, text in text_lines(file):
        if text.strip():
            block.append(parse_line(text, where))
        elif block:
            yield block
            block = []
    if block:
        yield block


def parse_line(text: str, where: str) -> Line:
    """Return one line of Vowpal Wabbit's text format."""
    head, bar, rest = text.rstrip("\r\n").partition("|")
    if not bar:
        raise ValueError(f"{where} has no '|' between label and features.")
    features: dict[str, float] = {}
    for part in rest.split("|"):
        words = part.split()
        has_name = bool(part) and not part[0].isspace()
        namespace, scale = _split_value(words[0], where) if has_name else ("", 1.0)
        for word in words[1:] if has_name else words:
            name, value = _split_value(word, where)
            features[f"{namespace}^{name}" if namespace else name] = scale * value
    return Line(tuple(head.split()), features, where)


def _split_value(word: str, where: str) -> tuple[str, float]:
    name, colon, value = word.partition(":")
    try:
        return name, float(value) if colon else 1.0
    except ValueError:
        raise ValueError(f"{where} has a feature whose value is not a number: {word!r}.") from None
