"""One context column of a file: its kind, and how its values are encoded."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import narwhals.stable.v1 as nw
import numpy as np

from bopl._errors import UnseenCategoryWarning, quoted
from bopl._typing import AnyArray, FloatArray, IntArray
from bopl.log.context import CONTEXT_DTYPE, column_to_float
from bopl.log.frame import TEXT, dtype_name

Kind: TypeAlias = Literal["number", "flag", "category", "time", "vector"]
Category: TypeAlias = str | int | float | bool

MAX_CATEGORIES = 255  # a learner has 256 bins for a column, and one of them is for missing values
OTHER = "other"
TIME_PARTS = ("day", "weekday", "hour")  # days since 1970, 0 for Monday, hours since midnight
CYCLES = ("weekday", "hour")  # periodic parts, so that the future has them too
MIN_IDENTIFIERS = 1000  # fewer distinct values than this are a category, however long the log
IDENTIFIER_SHARE = 0.5  # a column with more distinct values than this share of the rows is an identifier


_WHOLE_NUMBER = re.compile(r"^([+-]?\d+)\.0+$")  # 3.0, as pandas writes integers of a column with missing values
SECONDS_A_DAY = 86_400.0
MONDAY = 3  # 1970-01-01 was a Thursday
# How the kinds are called in messages.
NOUN = {
    "number": "numbers",
    "flag": "booleans",
    "category": "categories",
    "time": "times",
    "vector": "lists of numbers",
}


@dataclass(frozen=True)
class Column:
    """How one column of a file is encoded as one or more columns of numbers.

    Attributes
    ----------
    name : str
    kind : {"number", "flag", "category", "time", "vector"}
        A flag becomes 0 or 1, a category its position in ``categories``, a time the numbers of its ``parts``, a vector
        as many as it is long.
    categories : tuple of str, int, float or bool
        The categories with their own positions, sorted. Any other category is missing, or, if rare ones
        were merged, "other": the position after the last.
    n_merged : int
        Categories merged into "other".
    is_identifier : bool
        Whether the column seems to identify rows rather than to describe them.
    size : int
        Length of a vector.
    parts : tuple of str
        The parts of a time: some of `TIME_PARTS`, in UTC if it has a zone.
    unit : {"s", "ms", "us", "ns"} or None
        Unit of a time that is a number, since 1970.
    is_optional : bool
        Whether it was missing in some rows when the schema was made; then a record may leave it out.
    """

    name: str
    kind: Kind
    categories: tuple[Category, ...] = ()
    n_merged: int = 0
    is_identifier: bool = False
    size: int = 1
    parts: tuple[str, ...] = TIME_PARTS
    unit: str | None = None
    is_optional: bool = field(default=False, compare=False)

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the columns of numbers it becomes."""
        if self.kind == "time":
            return tuple(f"{self.name} ({part})" for part in self.parts)
        if self.kind == "vector":
            return tuple(f"{self.name}[{place}]" for place in range(self.size))
        return (self.name,)

    @property
    def n_features(self) -> int:
        """How many columns of numbers it becomes."""
        return self.size if self.kind == "vector" else len(self.parts) if self.kind == "time" else 1

    def encode(self, values: nw.Series[Any]) -> AnyArray:
        """Return the values as numbers, of shape (n_samples,) or (n_samples, n_parts); NaN is missing."""
        if _is_empty(values):
            return np.full((len(values), self.n_features), np.nan, dtype=CONTEXT_DTYPE)
        if self.kind == "time" and values.dtype == nw.Object:  # pandas holds times of several zones as objects
            return self._encode_time(values)
        found = kind_of(values)
        if found is None or not self._takes(found):
            raise ValueError(
                f"column {self.name!r} held {NOUN[self.kind]} when the policy was fitted; here it holds "
                f"{dtype_name(values)}. Convert it, or use the right column."
            )
        if self.kind == "category":
            return self._encode_category(values)
        if self.kind == "time":
            return self._encode_time(values)
        if self.kind == "vector":
            return encode_vector(values, self.name, self.size)
        # By way of float64 in any case: a part of a column without gaps has the numbers of the whole.
        return np.asarray(column_to_float(values).astype(np.float64, copy=False))

    def _takes(self, found: Kind) -> bool:
        if self.kind == "category":
            return found != "vector"
        if self.kind == "time":
            return found in ("time", "category") or (found == "number" and self.unit is not None)
        return found == self.kind or {found, self.kind} == {"number", "flag"}

    def _encode_time(self, values: nw.Series[Any]) -> AnyArray:
        from bopl.log.instant import read_instants  # it reads text with what stands below

        return time_parts(read_instants(values, self.name, self.unit), self.parts)

    def _encode_category(self, values: nw.Series[Any]) -> FloatArray:
        labels, position = distinct_values(values)
        known, unknown = self.code_of, self.unknown_code
        code = [self.code(label, known, unknown) for label in labels]
        return np.array([*code, np.nan], dtype=CONTEXT_DTYPE)[position]  # position -1, missing, takes the last

    @property
    def code_of(self) -> dict[str, float]:
        """Position of every category, by the text that it is known by."""
        return {_as_text(category): float(code) for code, category in enumerate(self.categories)}

    @property
    def unknown_code(self) -> float:
        """What a category becomes that has no position: "other", or missing."""
        return float(len(self.categories)) if self.n_merged else float("nan")

    @staticmethod
    def code(label: Any, known: Mapping[str, float], unknown: float) -> float:
        """Return the number of a category, given `code_of` and `unknown_code`."""
        return known.get(category_text(label, known), unknown)

    def warn_of_unseen(self, values: nw.Series[Any], code: AnyArray) -> None:
        """Warn of categories that are not missing in the values, but are in what they were encoded as."""
        if self.kind != "category" or np.count_nonzero(np.isnan(code)) <= values.null_count():
            return
        labels, position = distinct_values(values)
        is_unseen = (position >= 0) & np.isnan(code)
        unseen = [labels[place] for place in np.unique(position[is_unseen])]
        share = 100.0 * is_unseen.mean()
        if unseen:
            warnings.warn(
                f"{share:.3g}% of the rows hold a {self.name!r} that was not there when the policy was "
                f"fitted, and is treated as missing: {quoted(unseen)}.",
                UnseenCategoryWarning,
                stacklevel=2,
            )

    @property
    def texts(self) -> tuple[str, ...]:
        """What the numbers 0, 1, … in the encoded column stand for; nothing where they are numbers."""
        if self.kind == "flag":
            return ("no", "yes")
        return (*map(str, self.categories), *([OTHER] if self.n_merged else []))

    def describe(self, code: float) -> str:
        """Return what a number in the encoded column stands for."""
        if np.isnan(code):
            return "missing"
        if self.kind == "flag":
            return "yes" if code else "no"
        if self.kind != "category":
            return f"{code:g}"
        return str(self.categories[int(code)]) if int(code) < len(self.categories) else OTHER


def column_from_json(entry: Mapping[str, Any]) -> Column:
    """Return the column of a schema in a file, after checking that each of its fields is of its type."""
    fields: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in entry.items()}
    column = Column(**fields)
    is_sound = (
        isinstance(column.name, str)
        and column.kind in NOUN
        and isinstance(column.categories, tuple)
        and all(isinstance(category, str | int | float | bool) for category in column.categories)
        and isinstance(column.parts, tuple)
        and isinstance(column.is_identifier, bool)
        and isinstance(column.is_optional, bool)
        and all(isinstance(count, int) and not isinstance(count, bool) for count in (column.n_merged, column.size))
        and column.n_merged >= 0
        and column.size >= 0
        and all(part in TIME_PARTS for part in column.parts)
        and len(set(column.parts)) == len(column.parts)
        and column.unit in (None, "s", "ms", "us", "ns")
    )
    if not is_sound:
        raise ValueError("a column of the schema is not valid")
    return column


def kind_of(values: nw.Series[Any]) -> Kind | None:
    """Return the kind of a column, None if it is one that cannot be used."""
    dtype = values.dtype
    if dtype == nw.Boolean:
        return "flag"
    if dtype.is_numeric() or (dtype in (nw.Unknown, nw.Object) and _is_empty(values)):
        return "number"
    if is_timestamp(values):
        return "time"
    if dtype in TEXT:
        return "category"
    if dtype in (nw.List, nw.Array) and dtype.inner.is_numeric():  # type: ignore[attr-defined]
        return "vector"
    return None


def is_timestamp(values: nw.Series[Any]) -> bool:
    """Return whether a column holds dates or timestamps; narwhals does not know pandas' seconds with a zone."""
    import pyarrow

    if values.dtype != nw.Unknown:
        return values.dtype in (nw.Datetime, nw.Date)
    try:
        return pyarrow.types.is_timestamp(values.to_arrow().type)
    except (pyarrow.ArrowException, TypeError, NotImplementedError):
        return False


def fit_column(name: str, values: nw.Series[Any], *, is_category: bool = False) -> Column | None:
    """Choose how a column is encoded from its values; None if it cannot be."""
    kind = kind_of(values)
    if kind is None:
        return None
    if kind == "category" or is_category:
        return fit_categories(name, values)
    if kind == "vector":
        lengths = [len(value) for value in values.drop_nulls().head(1).to_list()]
        return Column(name, kind, size=lengths[0] if lengths else 1)
    names_rows = values.dtype.is_integer() and is_identifier(values.n_unique(), len(values))
    return Column(name, kind, is_identifier=names_rows)


def fit_categories(name: str, values: nw.Series[Any]) -> Column:
    """Give the most common categories a position of their own, in sorted order, and merge the rest."""
    labels, position = distinct_values(values)
    count = np.bincount(position[position >= 0], minlength=len(labels))
    return column_of_counts(name, dict(zip(labels, count.tolist(), strict=True)), len(values))


def column_of_counts(name: str, counts: Mapping[Any, int], n_samples: int) -> Column:
    """Return a column of categories that occur so often in a log of that many samples."""
    # Dates and decimals are known by their text.
    counts = {label if isinstance(label, str | int | float) else str(label): n for label, n in counts.items()}
    if len(counts) <= MAX_CATEGORIES:
        return Column(name, "category", tuple(_sorted(list(counts))))
    by_count = sorted(counts.items(), key=lambda pair: (-pair[1], str(pair[0])))
    kept = [label for label, _ in by_count[: MAX_CATEGORIES - 1]]
    return Column(
        name,
        "category",
        tuple(_sorted(kept)),
        n_merged=len(counts) - len(kept),
        is_identifier=is_identifier(len(counts), n_samples),
    )


def distinct_values(values: nw.Series[Any]) -> tuple[list[Category], IntArray]:
    """Return the distinct values of a column and which of them stands in each row, -1 where it is missing."""
    import pyarrow

    column = values.to_arrow()
    if isinstance(column, pyarrow.ChunkedArray):  # as text of joined pandas frames is
        column = column.combine_chunks()
    if not pyarrow.types.is_dictionary(column.type):
        try:
            column = column.dictionary_encode()
        except pyarrow.ArrowNotImplementedError:
            raise TypeError(
                f"column {values.name!r} holds {column.type}, whose values cannot be used as labels; turn them "
                "into text or numbers."
            ) from None
    held = column.type.value_type
    if pyarrow.types.is_nested(held) or isinstance(held, pyarrow.BaseExtensionType):  # such as intervals of pandas.cut
        raise TypeError(
            f"column {values.name!r} holds {getattr(held, 'extension_name', held)}, whose values cannot be used as "
            "labels; turn them into text or numbers."
        )
    indices = column.indices.cast(pyarrow.int64())  # they may be unsigned
    position = indices.fill_null(-1).to_numpy(zero_copy_only=False)
    return _without_repeats(column.dictionary.to_pylist(), position)


def _without_repeats(labels: list[Any], position: IntArray) -> tuple[list[Category], IntArray]:
    """Return labels that occur, each once, none of them missing; dictionaries in files promise nothing of the kind."""
    is_used = np.zeros(len(labels) + 1, dtype=bool)
    is_used[position] = True
    new_of: dict[Any, int] = {}
    moved = np.full(len(labels) + 1, -1, dtype=np.int64)  # the last entry serves position -1
    for old, label in enumerate(labels):
        if is_used[old] and label is not None and label == label:
            moved[old] = new_of.setdefault(label, len(new_of))
    return list(new_of), moved[position]


def time_parts(moments: AnyArray, parts: Sequence[str] = TIME_PARTS) -> AnyArray:
    """Return some of day, weekday and hour of datetimes, of shape (n_samples, n_parts), NaN where they are missing."""
    seconds = np.where(np.isnat(moments), np.nan, moments.astype("datetime64[ms]").astype(np.int64) / 1000.0)
    day = np.floor(seconds / SECONDS_A_DAY)
    found = {"day": day, "weekday": (day + MONDAY) % 7.0, "hour": (seconds - day * SECONDS_A_DAY) / 3600.0}
    return np.column_stack([found[part] for part in parts])


def fit_time_of_decision(name: str, values: nw.Series[Any]) -> Column | None:
    """Return what the context may know of the time by which a log is split: weekday and hour, where they differ.

    Not the day: the future has other days than the training part, so that what is learned of one day says nothing of
    the next. None if there is nothing to know, as of numbers that only count.
    """
    from bopl.log.instant import epoch_unit, read_instants

    is_number = values.dtype.is_numeric()
    unit = epoch_unit(column_to_float(values)) if is_number else None
    if is_number and unit is None:
        return None
    known = time_parts(read_instants(values, name, unit), CYCLES)
    return time_column(name, unit, [_differs(column) for column in known.T])


def time_column(name: str, unit: str | None, is_various: Sequence[bool]) -> Column | None:
    """Return the column of a time whose weekday and hour differ or not; None if neither does."""
    parts = tuple(part for part, differs in zip(CYCLES, is_various, strict=True) if differs)
    return Column(name, "time", parts=parts, unit=unit) if parts else None


def _differs(column: AnyArray) -> bool:
    there = column[~np.isnan(column)]
    return len(there) > 0 and bool((there != there[0]).any())


def encode_vector(values: nw.Series[Any], name: str, size: int) -> AnyArray:
    """Return lists of numbers, all of one length, as rows of a matrix; a list that is missing is a row of NaN."""
    from pyarrow import compute

    column = values.to_arrow()
    length = compute.list_value_length(column).fill_null(size).to_numpy(zero_copy_only=False)
    if (length != size).any():
        row = int(np.flatnonzero(length != size)[0])
        raise ValueError(
            f"column {name!r} must hold lists of {size} numbers; row {row} holds {int(length[row])}. Lists of one "
            "length become columns; turn others into separate columns."
        )
    matrix = np.full((len(column), size), np.nan, dtype=CONTEXT_DTYPE)
    is_there = column.is_valid().to_numpy(zero_copy_only=False)
    present = column.drop_null()
    matrix[is_there] = present.flatten().to_numpy(zero_copy_only=False).reshape(len(present), size)
    return matrix


def category_text(label: Any, known: Mapping[str, float]) -> str:
    """Return the text that a category is known by, as it is or as it would be written; its own text if it is not."""
    text = _as_text(label)
    return text if text in known else written if (written := _as_written(label)) in known else text


def _as_text(label: Category) -> str:
    """Return what a category is known by: the same text, whether a file stores it as text or as a number."""
    if isinstance(label, bool):
        return "true" if label else "false"
    if isinstance(label, float) and label.is_integer():
        return str(int(label))  # a column of whole numbers with gaps is read as floats
    return str(label)


def _as_written(label: Category) -> str:
    """Return the category that a text may stand for where a program has written numbers and booleans its own way."""
    text = str(label)
    return text.lower() if text in ("True", "False") else _WHOLE_NUMBER.sub(r"\1", text)


def _sorted(labels: Sequence[Category]) -> list[Category]:
    return sorted(labels, key=lambda label: (isinstance(label, str), label))


def is_identifier(n_distinct: int, n_samples: int) -> bool:
    """Return whether a column with so many distinct values names rows rather than describes them."""
    return n_distinct > max(MIN_IDENTIFIERS, IDENTIFIER_SHARE * n_samples)


def _is_empty(values: nw.Series[Any]) -> bool:
    return values.null_count() == len(values)
