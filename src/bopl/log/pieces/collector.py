"""What can only be told from all pieces: categories, identifiers, actions, groups and times, collected one by one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

import narwhals.stable.v1 as nw
import numpy as np

from bopl._native import is_missing, missing_rows
from bopl._typing import AnyArray
from bopl.log.action import new_labels, sorted_labels
from bopl.log.check import number_groups
from bopl.log.column import (
    CYCLES,
    IDENTIFIER_SHARE,
    MIN_IDENTIFIERS,
    Column,
    Kind,
    column_of_counts,
    distinct_values,
    is_identifier,
    kind_of,
    time_column,
    time_parts,
)
from bopl.log.instant import epoch_unit, from_epoch, read_times
from bopl.log.pieces.spec import TimeReading
from bopl.log.schema import LogSchema, check_categorical, schema_of_columns
from bopl.log.time_text import parse_moment


class Collector(Protocol):
    """What is told from one column, a piece at a time."""

    def add(self, values: nw.Series[Any]) -> None:
        """Take in the column of one piece."""
        ...

    @property
    def is_done(self) -> bool:
        """Whether further pieces would tell nothing new."""
        return False


class Gaps(Collector):
    """Whether a value of a column is missing."""

    def __init__(self) -> None:
        self.has_any = False

    def add(self, values: nw.Series[Any]) -> None:
        """Take in the column of one piece."""
        self.has_any = self.has_any or bool(missing_rows(values.to_native()).any())

    @property
    def is_done(self) -> bool:
        """Whether one was found."""
        return self.has_any


class Labels(Collector):
    """The distinct values of a column, and how often each occurs; missing ones are ignored."""

    def __init__(self) -> None:
        self.counts: Counter[Any] = Counter()

    def add(self, values: nw.Series[Any]) -> None:
        """Take in the column of one piece."""
        labels, position = distinct_values(values)
        count = np.bincount(position[position >= 0], minlength=len(labels))
        for label, number in zip(labels, count.tolist(), strict=True):
            if not is_missing(label):
                self.counts[label] += number

    def actions(self, known: Sequence[Any] = ()) -> list[Any]:
        """Return the labels as the actions of a log: those known, if any, and the others sorted behind them."""
        if not known:
            return sorted_labels(self.counts)
        return [*known, *new_labels(self.counts, known)]


class Integers(Collector):
    """How many distinct whole numbers a column has, as long as that may matter.

    ``n_rows`` are the rows of all pieces, asked for or not.
    """

    def __init__(self, n_rows: int) -> None:
        self.limit = max(MIN_IDENTIFIERS, IDENTIFIER_SHARE * n_rows)
        self.found: AnyArray | None = None
        self.has_missing = False

    def add(self, values: nw.Series[Any]) -> None:
        """Take in the column of one piece."""
        self.has_missing = self.has_missing or values.null_count() > 0
        if self.n_distinct <= self.limit:  # more than that are an identifier, however many more
            new = np.unique(values.drop_nulls().to_numpy())
            self.found = new if self.found is None else np.union1d(self.found, new)

    @property
    def n_distinct(self) -> int:
        """How many there are, a missing value among them."""
        return (0 if self.found is None else len(self.found)) + self.has_missing


class VectorSize(Collector):
    """The length of the first list of a column."""

    def __init__(self) -> None:
        self.size: int | None = None

    def add(self, values: nw.Series[Any]) -> None:
        """Take in the column of one piece."""
        if self.size is None:
            first = values.drop_nulls().head(1).to_list()
            self.size = len(first[0]) if first else None


class Groups(Collector):
    """The labels of all groups, in the order in which a log in memory numbers them."""

    def __init__(self) -> None:
        self.labels: AnyArray | None = None

    def add(self, values: nw.Series[Any]) -> None:
        """Take in the column of one piece."""
        new = number_groups(values.to_native())[1]
        if self.labels is None:
            self.labels = new
        elif self.labels.dtype == object:  # in the order in which they come
            both = list(dict.fromkeys([*self.labels.tolist(), *new.tolist()]))
            self.labels = np.array([*both, None], dtype=object)[:-1]
        else:
            self.labels = np.union1d(self.labels, new)


class Times(Collector):
    """What the times of a log are, and whether their weekdays and hours differ."""

    def __init__(self) -> None:
        self.dtype: Any = None  # of times that are dates
        self.units: set[str | None] = set()  # what the numbers of each piece count in
        self.parts: list[AnyArray] = []
        self.first_text: str | None = None

    def add(self, values: nw.Series[Any]) -> None:
        """Take in the column of one piece."""
        moments = read_times(values.to_native())
        moments = moments[moments == moments]  # neither NaN nor NaT is
        if not len(moments):
            return
        if kind_of(values) == "category":
            self._check_zone(values)
        if moments.dtype.kind == "M":
            self.dtype = moments.dtype if self.dtype is None else np.promote_types(self.dtype, moments.dtype)
        else:
            # No number is in the range of two units, so that pieces of one unit are a log of that unit.
            unit = epoch_unit(moments)
            self.units.add(unit)
            if unit is None:
                return
            moments = from_epoch(moments, unit)
        parts = time_parts(moments, CYCLES)
        self.parts += [parts.min(axis=0), parts.max(axis=0)]

    def _check_zone(self, values: nw.Series[Any]) -> None:
        """Raise if texts of one piece have a zone and those of another have none; within one, they agree already."""
        text = str(values.drop_nulls().head(1).to_list()[0])
        first = self.first_text = self.first_text or text
        if parse_moment(first).has_zone != parse_moment(text).has_zone:
            raise ValueError(
                "time has a zone in some rows and none in others, so they cannot be ordered, such as "
                f"'{first:.40}' and '{text:.40}'. Give all a zone, or none."
            )

    def reading(self) -> TimeReading:
        """Return how the times of the whole log are read."""
        return TimeReading(None if self.units else str(self.dtype), self._unit)

    @property
    def _unit(self) -> str | None:
        return next(iter(self.units)) if len(self.units) == 1 else None

    def column(self, name: str) -> Column | None:
        """Return what the context may know of the time; None if that is nothing."""
        if self.units and self._unit is None:
            return None
        if not self.parts:
            return None
        differs = np.ptp(self.parts, axis=0) > 0
        return time_column(name, self._unit, differs.tolist())


class SchemaFit:
    """How each context column of a log is encoded, told from all pieces as `fit_schema` tells it from a whole log.

    The frame ``empty`` has all columns and no rows; ``n_rows`` are the rows of all pieces, asked for or not.
    """

    def __init__(
        self,
        context: Sequence[str],
        roles: Mapping[str, str],
        categorical: Sequence[str],
        empty: nw.DataFrame[Any],
        n_rows: int,
    ) -> None:
        check_categorical(context, roles, categorical)
        self.context, self.roles = list(context), dict(roles)
        self.dtypes = {name: empty[name].dtype for name in context}
        self.kinds = {name: _kind_without_rows(empty[name]) for name in context}
        self.gaps = {name: Gaps() for name, kind in self.kinds.items() if kind is not None}
        self.collectors: dict[str, Collector] = {}
        for name, kind in self.kinds.items():
            if name == roles.get("time"):
                continue
            if kind == "category" or (kind is not None and name in categorical):
                self.collectors[name] = Labels()
            elif kind == "vector":
                self.collectors[name] = VectorSize()
            elif kind is not None and self.dtypes[name].is_integer():
                self.collectors[name] = Integers(n_rows)

    def column(self, name: str, n_samples: int) -> Column | None:
        """Return how a column is encoded, None if it cannot be."""
        kind, collector = self.kinds[name], self.collectors.get(name)
        if kind is None:
            return None
        if isinstance(collector, Labels):
            return column_of_counts(name, collector.counts, n_samples)
        if isinstance(collector, VectorSize):
            return Column(name, kind, size=1 if collector.size is None else collector.size)
        names_rows = isinstance(collector, Integers) and is_identifier(collector.n_distinct, n_samples)
        return Column(name, kind, is_identifier=names_rows)

    def schema(self, n_samples: int, times: Times | None) -> LogSchema:
        """Return the schema of all pieces."""
        time = self.roles.get("time")
        fitted = {name: self.column(name, n_samples) for name in self.context if name != time}
        if time in self.context and time is not None and times is not None:
            fitted[time] = times.column(time)
        fitted = {
            name: column and replace(column, is_optional=self.gaps[name].has_any) for name, column in fitted.items()
        }
        return schema_of_columns(fitted, self.dtypes, self.context, self.roles)


def _kind_without_rows(values: nw.Series[Any]) -> Kind | None:
    """Return the kind of a column by its type alone: one of an unknown type holds no numbers, unless it is empty."""
    import pyarrow

    is_unknown = values.dtype == nw.Unknown and not pyarrow.types.is_null(values.to_arrow().type)
    return None if is_unknown else kind_of(values)
