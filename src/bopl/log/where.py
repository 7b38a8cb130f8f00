"""`Where`: which rows of a table are wanted, in the words of a comparison; nothing that is written there is ever run.

``country == 'DE' and day >= 3``, ``device in ('app', 'web')``, ``age is missing or not (age < 18)``; names with spaces
stand in backticks. A comparison with a missing value is neither true nor false, and its row is not taken, unless the
condition asks for it with ``is missing``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, TypeAlias

import numpy as np

from bopl._errors import UsageError, did_you_mean, quoted
from bopl._typing import BoolArray
from bopl.log.context import MANY
from bopl.log.time_text import parse_moment

Scalar: TypeAlias = str | int | float | bool
Columns: TypeAlias = Callable[[str], Any]  # from a name to an arrow column

MAX_LENGTH = 10_000  # characters
MAX_DEPTH = 50  # brackets and nots inside one another
COMPARISONS = {"==": "equal", "=": "equal", "!=": "not_equal", "<>": "not_equal"}
COMPARISONS |= {"<": "less", "<=": "less_equal", ">": "greater", ">=": "greater_equal"}
KEYWORDS = ("and", "or", "not", "in", "is", "missing", "null", "true", "false")
_TOKEN = re.compile(
    r"""\s*(?:(?P<number>[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?(?![\w.]))
    |(?P<text>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")
    |`(?P<quoted>[^`]+)`
    |(?P<name>[^\W\d][\w.]*)
    |(?P<sign>==|!=|<>|<=|>=|[=<>(),\[\]]))""",
    re.X,
)


@dataclass(frozen=True)
class Token:
    """One word of a condition: its kind, its value and where it begins."""

    kind: str
    value: Any
    start: int


@dataclass(frozen=True)
class Name:
    """A column."""

    name: str


Operand: TypeAlias = "Name | Scalar"


@dataclass(frozen=True)
class Compared:
    """A comparison of a column with a value or another column."""

    sign: str
    left: Operand
    right: Operand


@dataclass(frozen=True)
class Flag:
    """Whether a column of booleans, or of nothing but 0 and 1, is true."""

    column: Name


@dataclass(frozen=True)
class Missing:
    """Whether a column is missing."""

    column: Name


@dataclass(frozen=True)
class Combined:
    """Conditions that are all to hold, or at least one of which, or one that is not."""

    word: str
    parts: tuple[Any, ...]


@dataclass(frozen=True)
class Where:
    """A condition on the columns of a log."""

    text: str  # as it was written
    columns: tuple[str, ...]  # columns that it names
    _tree: Any = field(repr=False)

    @classmethod
    def parse(cls, text: str) -> Where:
        """Return the condition of a text, or raise one sentence that says where it cannot be read."""
        if not isinstance(text, str):
            raise UsageError(f"where must be text such as \"country == 'DE'\"; got {text!r}.")
        if len(text) > MAX_LENGTH:
            raise UsageError(f"where has {len(text):,} characters; it may have {MAX_LENGTH:,}.")
        tree = _Parser(text).parse()
        return cls(text, tuple(dict.fromkeys(_names(tree))), tree)

    def check_columns(self, present: Sequence[str]) -> None:
        """Raise if the condition names a column that is not there."""
        absent = [name for name in self.columns if name not in present]
        if absent:
            raise UsageError(
                f"where names {absent[0]!r}, which is not a column; the columns are "
                f"{quoted(list(present), limit=MANY)}.{did_you_mean(absent[0], list(present))}"
            )

    def rows(self, column: Columns, n_rows: int) -> BoolArray:
        """Return which rows of a table hold the condition; ``column`` returns the arrow column of a name."""
        import pyarrow

        try:
            found = _evaluate(self._tree, column)
        except (pyarrow.ArrowInvalid, pyarrow.ArrowNotImplementedError, pyarrow.ArrowTypeError, OverflowError) as error:
            reason = str(error).splitlines()[0].rstrip(".")
            raise UsageError(f"where cannot be applied: {self.text!r} ({reason}).") from None
        return np.asarray(found.fill_null(False), dtype=np.bool_).reshape(n_rows)


def _names(tree: Any) -> Iterator[str]:
    if isinstance(tree, Combined):
        for part in tree.parts:
            yield from _names(part)
    elif isinstance(tree, Compared):
        yield from (side.name for side in (tree.left, tree.right) if isinstance(side, Name))
    else:
        yield tree.column.name


# -- Reading ----------------------------------------------------------------------------------------------------------


class _Parser:
    """Reads a condition word by word: or, and, not, comparison."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = list(_tokens(text))
        self._place = 0
        self._depth = 0

    def parse(self) -> Any:
        if not self._tokens:
            raise UsageError("where is empty; write a condition such as \"country == 'DE'\", or leave it out.")
        tree = self._either()
        if self._place < len(self._tokens):
            raise self._error("'and', 'or' or the end")
        return tree

    def _either(self) -> Any:
        return self._chain("or", lambda: self._chain("and", self._one))

    def _chain(self, word: str, part: Callable[[], Any]) -> Any:
        parts = [part()]
        while self._take("word", word):
            parts.append(part())
        return parts[0] if len(parts) == 1 else Combined(word, tuple(parts))

    def _one(self) -> Any:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise UsageError(f"where has more than {MAX_DEPTH} nested parentheses; simplify it.")
        if self._take("word", "not"):
            tree: Any = Combined("not", (self._one(),))
        elif self._take("sign", "("):
            tree = self._either()
            self._need("sign", ")")
        else:
            tree = self._comparison()
        self._depth -= 1
        return tree

    def _comparison(self) -> Any:
        left = self._operand()
        if isinstance(left, Name):
            if self._take("word", "is"):
                is_negated = self._take("word", "not")
                if not (self._take("word", "missing") or self._take("word", "null")):
                    raise self._error("'missing'")
                return Combined("not", (Missing(left),)) if is_negated else Missing(left)
            if self._take("word", "in"):
                return self._among(left)
            if self._peek("word", "not") and self._place + 1 < len(self._tokens):
                self._place += 1
                self._need("word", "in")
                return Combined("not", (self._among(left),))
        sign = self._next()
        if sign is None or sign.kind != "sign" or sign.value not in COMPARISONS:
            if isinstance(left, Name):
                self._place -= sign is not None
                return Flag(left)
            raise self._error("a comparison such as ==", sign)
        right = self._operand()
        if not isinstance(left, Name) and not isinstance(right, Name):
            raise self._error("a column", sign)
        return Compared(COMPARISONS[sign.value], left, right)

    def _among(self, column: Name) -> Any:
        """Read the values of which a column must be one."""
        closing = ")" if self._take("sign", "(") else "]"
        if closing == "]":
            self._need("sign", "[")
        values = []
        while True:
            value = self._operand()
            if isinstance(value, Name):
                raise self._error("a value (put text in quotes)", self._tokens[self._place - 1])
            values.append(Compared("equal", column, value))
            if not self._take("sign", ","):
                break
        self._need("sign", closing)
        return Combined("or", tuple(values))

    def _operand(self) -> Operand:
        token = self._next()
        if token is not None and token.kind in ("number", "text"):
            return token.value
        if token is not None and token.kind == "name":
            return Name(token.value)
        if token is not None and token.kind == "word" and token.value in ("true", "false"):
            return bool(token.value == "true")
        raise self._error("a column or a value", token)

    def _peek(self, kind: str, value: str) -> bool:
        token = self._tokens[self._place] if self._place < len(self._tokens) else None
        return token is not None and token.kind == kind and token.value == value

    def _take(self, kind: str, value: str) -> bool:
        is_there = self._peek(kind, value)
        self._place += is_there
        return is_there

    def _need(self, kind: str, value: str) -> None:
        if not self._take(kind, value):
            raise self._error(repr(value))

    def _next(self) -> Token | None:
        if self._place == len(self._tokens):
            return None
        self._place += 1
        return self._tokens[self._place - 1]

    def _error(self, expected: str, token: Token | None = None) -> UsageError:
        at = token if token is not None else self._tokens[self._place] if self._place < len(self._tokens) else None
        where = "at its end" if at is None else f"at {self._text[at.start :][:20]!r}"
        return UsageError(f"the condition {self._text!r} cannot be read {where}: expected {expected}.")


def _tokens(text: str) -> Iterator[Token]:
    place = 0
    while text[place:].strip():
        found = _TOKEN.match(text, place)
        if found is None:
            raise UsageError(
                f"the condition cannot be read at {text[place:].strip()[:20]!r}. Write columns as names (in backticks "
                "if they have spaces), text in quotes, and compare with ==, !=, <, <=, >, >=, in, is missing, and, or, "
                "not."
            )
        kind = str(found.lastgroup)
        yield _token(kind, found.group(kind), found.start(kind))
        place = found.end()


def _token(kind: str, word: str, start: int) -> Token:
    if kind == "number":
        is_whole = re.fullmatch(r"[+-]?\d+", word) is not None
        return Token(kind, int(word) if is_whole else float(word), start)
    if kind == "text":
        return Token(kind, re.sub(r"\\(.)", r"\1", word[1:-1]), start)
    if kind == "name" and word.lower() in KEYWORDS:
        return Token("word", word.lower(), start)
    return Token("name" if kind == "quoted" else kind, word, start)


# -- Applying ---------------------------------------------------------------------------------------------------------


def _evaluate(tree: Any, column: Columns) -> Any:
    """Return, for each row, whether a condition holds: true, false, or null where that is not known."""
    from pyarrow import compute

    if isinstance(tree, Combined):
        parts = [_evaluate(part, column) for part in tree.parts]
        if tree.word == "not":
            return compute.invert(parts[0])
        return reduce(compute.and_kleene if tree.word == "and" else compute.or_kleene, parts)
    if isinstance(tree, Missing):
        return compute.is_null(_plain(column(tree.column.name)), nan_is_null=True)
    if isinstance(tree, Flag):
        return _true(_plain(column(tree.column.name)), tree.column.name)
    return _compare(tree, column)


def _true(values: Any, name: str) -> Any:
    """Return whether a column is true, or raise if it holds what is neither true nor false."""
    from pyarrow import compute, types

    if not types.is_boolean(values.type):
        is_number = types.is_integer(values.type) or types.is_floating(values.type)
        if not is_number or not set(compute.unique(values).to_pylist()) <= {0, 1, None}:
            raise UsageError(
                f"where uses {name!r} as a condition, but it is not true or false; compare it with a value."
            )
    return compute.equal(values, _scalar(True, values.type, name))


def _compare(tree: Compared, column: Columns) -> Any:
    from pyarrow import compute

    sides = (tree.left, tree.right)
    named = {side.name: _plain(column(side.name)) for side in sides if isinstance(side, Name)}
    name, values = next(iter(named.items()))
    compared = [named[side.name] if isinstance(side, Name) else _scalar(side, values.type, name) for side in sides]
    return compute.call_function(tree.sign, compared)


def _plain(values: Any) -> Any:
    """Return an arrow column whose text is text, not positions in a dictionary, and whose NaN are missing."""
    from pyarrow import compute, types

    if types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    if types.is_floating(values.type):
        values = compute.if_else(compute.is_nan(values), None, values)
    return values


def _scalar(value: Scalar, kind: Any, name: str) -> Any:
    """Return a value to compare a column of this kind with, or raise one sentence."""
    import pyarrow
    from pyarrow import types

    is_text = types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind)
    is_moment = types.is_timestamp(kind) or types.is_date(kind)
    is_number = types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind)
    if types.is_null(kind):
        return pyarrow.scalar(value)
    if is_text and isinstance(value, str):
        return pyarrow.scalar(value, kind)
    if is_moment and isinstance(value, str):
        return _moment(value, kind, name)
    if is_number and isinstance(value, int | float) and not isinstance(value, bool):
        return pyarrow.scalar(value)
    if types.is_boolean(kind) and (isinstance(value, bool) or value in (0, 1)):
        return pyarrow.scalar(bool(value))
    if is_number and isinstance(value, bool):
        return pyarrow.scalar(int(value))
    held = "text" if is_text else "times" if is_moment else str(kind)
    hint = " Put text in quotes." if is_text else ""
    raise UsageError(f"where compares {name!r}, which holds {held}, with {value!r}.{hint}")


def _moment(value: str, kind: Any, name: str) -> Any:
    import pyarrow
    from pyarrow import types

    try:
        moment = parse_moment(value).nanoseconds // 1000
        return pyarrow.scalar(moment, pyarrow.timestamp("us", kind.tz if types.is_timestamp(kind) else None))
    except (ValueError, OverflowError):
        raise UsageError(
            f"where compares {name!r}, which holds times, with {value!r}; write it as 2024-05-31."
        ) from None
