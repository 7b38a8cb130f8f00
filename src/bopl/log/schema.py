"""`LogSchema`: what the columns of a log are called and how they become numbers; policies remember it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

import narwhals.stable.v1 as nw
import numpy as np

from bopl._errors import UsageError, did_you_mean, quoted
from bopl._native import is_frame, missing_rows
from bopl._typing import AnyArray, ContextMatrix
from bopl.log.column import Column, column_from_json, fit_column, fit_time_of_decision
from bopl.log.context import CONTEXT_DTYPE, check_frame_names, is_sparse
from bopl.log.frame import as_table, dtype_name
from bopl.log.record_encoder import RecordEncoder

ROLES = ("action", "reward", "propensity", "time", "group")


@dataclass(frozen=True)
class LogSchema:
    """Names and kinds of the columns of a log.

    Attributes
    ----------
    columns : tuple of Column
        The context columns, in order.
    action, reward, propensity, time, group : str or None
        Names of the other columns, if there are any.
    is_sparse : bool
        Whether contexts list only what is there, as Vowpal Wabbit's do: a column that is absent is then zero.

    Examples
    --------
    >>> import pandas as pd, bopl
    >>> frame = pd.DataFrame({"city": ["Rom", "Ulm", None], "item": [1, 2, 1], "click": [1, 0, 0], "p": [0.5] * 3})
    >>> log = bopl.BanditLog.from_frame(frame, action="item", reward="click", propensity="p")
    >>> log.schema.categorical, log.context[:, 0].tolist()
    (('city',), [0.0, 1.0, nan])
    >>> log.schema.encode(pd.DataFrame({"city": ["Ulm", None]}))[:, 0].tolist()
    [1.0, nan]
    """

    columns: tuple[Column, ...]
    action: str | None = None
    reward: str | None = None
    propensity: str | None = None
    time: str | None = None
    group: str | None = None
    is_sparse: bool = False

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the columns of numbers, in the order of `BanditLog.context`."""
        return tuple(feature for column in self.columns for feature in column.features)

    def places(self) -> Iterator[tuple[Column, slice]]:
        """Yield the columns, and where their numbers stand among those of a context."""
        start = 0
        for column in self.columns:
            yield column, slice(start, start + column.n_features)
            start += column.n_features

    @property
    def categorical(self) -> tuple[str, ...]:
        """Names of those that are positions of categories."""
        return tuple(column.name for column in self.columns if column.kind == "category")

    @property
    def text_columns(self) -> tuple[str, ...]:
        """Names of the columns of categories that are all text: in a CSV file they may look like something else."""
        return tuple(
            column.name
            for column in self.columns
            if column.kind == "category" and all(isinstance(category, str) for category in column.categories)
        )

    @property
    def categories(self) -> dict[str, tuple[str, ...]]:
        """What the numbers 0, 1, … in each column of categories and in each flag stand for."""
        return {column.name: column.texts for column in self.columns if column.texts}

    @property
    def roles(self) -> dict[str, str]:
        """Names of the columns that are not context, by what they are."""
        return {role: name for role in ROLES if (name := getattr(self, role)) is not None}

    def with_roles(self, roles: Mapping[str, str | None]) -> LogSchema:
        """Return a schema with other names for some roles; None leaves one as it is."""
        named: dict[str, Any] = {role: name for role, name in roles.items() if name is not None}
        return replace(self, **named)

    def encode(self, frame: Any) -> AnyArray:
        """Return the context columns of any frame as a float32 matrix; columns with other names are ignored.

        Categories that the schema does not know become missing, with a warning, or "other" if the column has that.
        """
        if is_frame(frame):
            check_frame_names(frame)
        table = as_table(frame)
        self.check_present(table.columns)
        matrix = np.empty((len(table), len(self.feature_names)), dtype=CONTEXT_DTYPE)
        with np.errstate(over="ignore"):  # what overflows float32 becomes infinite and is refused later, with its value
            for column, place in self.places():
                values = column.encode(table[column.name])
                column.warn_of_unseen(table[column.name], values)
                matrix[:, place] = values.reshape(len(table), column.n_features)
        return matrix

    def encode_record(self, record: Mapping[str, Any]) -> AnyArray:
        """Return one record as a float32 array of shape (n_features,), to the last bit as `encode` of a frame does.

        Parameters
        ----------
        record : mapping
            Values by the name of their column, of the types that JSON has; datetimes, numpy's numbers and lists of
            numbers will do as well. None is missing; so is a column that is left out, if it was missing in some rows
            of the log, and otherwise leaving it out is an error. Other names are ignored. Categories that the schema
            does not know become missing, without a warning, or "other" if the column has that.

        Examples
        --------
        >>> import pandas as pd, bopl
        >>> frame = pd.DataFrame({"city": ["Rom", "Ulm"], "age": [31, None], "item": [1, 2], "click": [1, 0]})
        >>> log = bopl.BanditLog.from_frame(frame.assign(p=0.5), action="item", reward="click", propensity="p")
        >>> log.schema.encode_record({"city": "Ulm"}).tolist()
        [1.0, nan]
        """
        return self._encoder.encode([record])[0]

    def encode_records(self, records: Sequence[Mapping[str, Any]]) -> AnyArray:
        """Return records as a float32 matrix, a row for each; see `encode_record`."""
        return self._encoder.encode(records)

    @cached_property
    def _encoder(self) -> RecordEncoder:
        return RecordEncoder(self.columns, is_sparse=self.is_sparse)

    def __getstate__(self) -> dict[str, Any]:
        # The encoder is made again where it is needed: it holds functions, which cannot be pickled.
        return {name: value for name, value in vars(self).items() if name != "_encoder"}

    def align(self, matrix: ContextMatrix, names: Sequence[str]) -> ContextMatrix:
        """Return a sparse matrix with this schema's columns in its order: absent ones zero, unknown ones left out."""
        from scipy.sparse import csr_array

        position = {name: idx for idx, name in enumerate(self.feature_names)}
        entries = matrix.tocoo()
        target = np.array([position.get(name, -1) for name in names], dtype=np.int64)[entries.coords[1]]
        kept = target >= 0
        shape = (matrix.shape[0], len(position))
        return csr_array((entries.data[kept], (entries.coords[0][kept], target[kept])), shape=shape)

    def read(self, context: Any, names: Sequence[str] | None = None) -> Any:
        """Return contexts in the policy's columns: frames are encoded, sparse matrices with names aligned."""
        if is_frame(context):
            return self.encode(context)
        return self.align(context, names) if is_sparse(context) and names is not None else context

    def describe(self, feature: str, code: float) -> str:
        """Return what a number in a column of the encoded contexts stands for."""
        for column in self.columns:
            if feature in column.features:
                return column.describe(code)
        raise KeyError(f"there is no context column {feature!r}.")

    def check_present(self, names: Sequence[str]) -> None:
        """Raise if a frame with these columns lacks some of the schema's."""
        absent = [column.name for column in self.columns if column.name not in names]
        if absent:
            raise ValueError(
                f"the contexts lack {len(absent)} of the {len(self.columns)} columns that the policy was fitted on: "
                f"{quoted(absent)}.{did_you_mean(absent[0], list(names))}"
            )

    def to_json(self) -> dict[str, Any]:
        """Return the schema as plain values that JSON can hold."""
        optional = [column.name for column in self.columns if column.is_optional]
        return {
            "columns": [_plain(column) for column in self.columns],
            "roles": self.roles,
            "is_sparse": self.is_sparse,
            **({"optional": optional} if optional else {}),
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any], *, n_features: int | None = None) -> LogSchema:
        """Return the schema written by `to_json`, after checking the number of columns, if it is given."""
        optional = document.get("optional", [])  # earlier schemas do not say
        if not isinstance(optional, list):
            raise ValueError("the schema does not list the columns that may be left out")
        columns = [
            replace(column, is_optional=column.name in optional)
            for column in (column_from_json(entry) for entry in document["columns"])
        ]
        roles = document["roles"]
        if len({column.name for column in columns}) != len(columns):
            raise ValueError("the schema has a column twice")
        if not all(role in ROLES and isinstance(name, str) for role, name in roles.items()):
            raise ValueError("the schema has a role that is not known")
        if n_features is not None and sum(column.n_features for column in columns) != n_features:
            raise ValueError(f"the schema is not one of {n_features} columns of numbers")
        return cls(tuple(columns), **roles, is_sparse=bool(document["is_sparse"]))


def _plain(column: Column) -> dict[str, Any]:
    """Return a column as plain values, but for what the schema says of several; what only times have is left out of
    others.
    """
    values = {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(column).items()}
    unused = ("is_optional",) if column.kind == "time" else ("is_optional", "parts", "unit")
    return {name: value for name, value in values.items() if name not in unused}


def fit_schema(
    table: nw.DataFrame[Any], context: Sequence[str], roles: Mapping[str, Any], categorical: Sequence[str] = ()
) -> LogSchema:
    """Choose how each context column of a table is encoded.

    ``categorical`` names columns of numbers that are categories.
    """
    check_categorical(context, roles, categorical)
    time = roles.get("time")
    fitted = {name: fit_column(name, table[name], is_category=name in categorical) for name in context if name != time}
    if time is not None and time in context:
        fitted[time] = fit_time_of_decision(time, table[time])
    fitted = {
        name: column and replace(column, is_optional=bool(missing_rows(table[name].to_native()).any()))
        for name, column in fitted.items()
    }
    return schema_of_columns(fitted, {name: dtype_name(table[name]) for name in context}, context, roles)


def check_categorical(context: Sequence[str], roles: Mapping[str, Any], categorical: Sequence[str]) -> None:
    """Raise if a column that is said to hold categories is not a context column."""
    unknown = [name for name in categorical if name not in context or name == roles.get("time")]
    if unknown:
        raise UsageError(
            f"categorical names {quoted(unknown)}, which is not a context column.{did_you_mean(unknown[0], context)}"
        )


def schema_of_columns(
    fitted: Mapping[str, Column | None], dtypes: Mapping[str, Any], context: Sequence[str], roles: Mapping[str, Any]
) -> LogSchema:
    """Return the schema of fitted columns, or raise if one of them cannot be used.

    A column that cannot be used is None in ``fitted``, and so is the time of the decision if there is nothing in it to
    know. ``dtypes`` says, for messages, what the columns hold.
    """
    time = roles.get("time")
    others = {name: column for name, column in fitted.items() if name != time}
    bad = [f"{name!r} ({dtypes[name]})" for name, column in others.items() if column is None]
    if bad:
        raise UsageError(
            f"context columns must hold numbers, booleans, text, times or lists of numbers; {len(bad)} of "
            f"{len(others)} do not: {', '.join(bad[:8])}. Exclude them with ignore=[…], or turn them "
            "into numbers or text."
        )
    columns = [column for name in context if (column := fitted[name]) is not None]
    return LogSchema(tuple(columns), **roles)


def check_time_is_used(context: Sequence[str] | None, time: str | None, schema: LogSchema) -> None:
    """Raise if the time was named as context and there is nothing in it that may be context."""
    if context is not None and time in context and time not in [column.name for column in schema.columns]:
        raise UsageError(
            f"context contains {time!r}, which is the time by which the log is split, and has no weekday or hour that "
            "differ: a policy must not see the rest. Leave it out of context."
        )
