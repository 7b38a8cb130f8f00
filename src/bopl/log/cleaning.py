"""Which rows of a table become a log: the selected ones, without copies and invalid rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import narwhals.stable.v1 as nw
import numpy as np

from bopl._errors import UsageError, did_you_mean, quoted
from bopl._native import is_missing, missing_rows, unmasked
from bopl._typing import AnyArray, BoolArray, ContextMatrix, FloatArray, IntArray
from bopl.log.action import python_labels
from bopl.log.check import MAX_ABOVE_ONE, MIN_PROPENSITY, float_column, names_of
from bopl.log.column import distinct_values
from bopl.log.context import MANY, is_sparse
from bopl.log.duplicate import repeated_rows
from bopl.log.frame import TEXT
from bopl.log.instant import unreadable_times
from bopl.log.origin import COPY, ActionCounts, Dropped, LogOrigin, uneven_by_action
from bopl.log.where import Where

NUMBERS = ("reward", "propensity")
MAX_FLOAT32 = float(np.finfo(np.float32).max)
Reasons = dict[str, BoolArray]


@dataclass(frozen=True)
class RowChoice:
    """The choice of rows of a table."""

    where: Where | None = None  # condition that rows must satisfy
    drop_invalid: bool = False  # drop, and count, rows that would otherwise be refused
    # keep the first of the rows that agree in these columns; True compares all used columns
    drop_duplicates: bool | tuple[str, ...] = False
    other_rewards: tuple[str, ...] = ()  # columns of other rewards, without which a row is invalid

    @classmethod
    def of(cls, where: str | None, drop_invalid: bool, drop_duplicates: bool | Sequence[str]) -> RowChoice:
        """Return the choice given by parameters, or raise an error."""
        if not isinstance(drop_invalid, bool):
            raise UsageError(f"drop_invalid must be True or False; got {drop_invalid!r}.")
        named = (
            drop_duplicates
            if isinstance(drop_duplicates, bool)
            else tuple(names_of(drop_duplicates, "drop_duplicates"))
        )
        if named == ():
            named = False
        return cls(None if where is None else Where.parse(where), drop_invalid, named)

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns that have to be read for it."""
        named = () if isinstance(self.drop_duplicates, bool) else self.drop_duplicates
        return (*(() if self.where is None else self.where.columns), *named)

    @property
    def parameters(self) -> dict[str, Any]:
        """What it is called by, as parameters of `BanditLog.from_frame`."""
        where = None if self.where is None else self.where.text
        return {"where": where, "drop_invalid": self.drop_invalid, "drop_duplicates": self.drop_duplicates}

    @property
    def is_any(self) -> bool:
        """Whether anything is asked."""
        return self.where is not None or self.drop_invalid or self.drop_duplicates is not False

    def check_columns(self, present: Sequence[str]) -> None:
        """Raise if it names a column that is not there."""
        if self.where is not None:
            self.where.check_columns(present)
        absent = [name for name in self.columns if name not in present]
        if absent:
            raise UsageError(
                f"drop_duplicates names {absent[0]!r}, which is not a column; the columns are "
                f"{quoted(list(present), limit=MANY)}.{did_you_mean(absent[0], list(present))}"
            )


@dataclass(frozen=True)
class ChosenRows:
    """The rows that become a log."""

    rows: IntArray  # in order, among those that were read
    origin: LogOrigin
    # role to ndarray: rewards and propensities of these rows, where columns had to be turned into numbers
    numbers: dict[str, FloatArray]
    # action to (int, int): how many rows with that action were asked for, and how many of them were left out;
    # empty if none was, unless it is one of several tables
    counts: ActionCounts


def choose_rows(
    choice: RowChoice,
    columns: Mapping[str, nw.Series[Any]],
    roles: Mapping[str, str],
    context: Sequence[str],
    actions: object | None = None,
    other_column: Callable[[str], Any] | None = None,
    *,
    is_part: bool = False,
) -> ChosenRows:
    """Return the rows of a table that become a log, and why others do not.

    ``context`` names the context columns that stand in the table, and ``other_column`` returns an arrow column that
    ``where`` names and that is not among ``columns``. If the table is one of several (``is_part``), there may be no
    such row, and actions are counted whatever is left out.
    """
    n_rows = len(columns[roles["action"]])
    rows: IntArray = np.arange(n_rows)
    origin = LogOrigin(n_rows)

    def arrow(name: str) -> Any:
        return columns[name].to_arrow() if name in columns or other_column is None else other_column(name)

    if choice.where is not None:
        rows = np.flatnonzero(choice.where.rows(arrow, n_rows))
        origin = replace(origin, where=choice.where.text, n_filtered=n_rows - len(rows))
        if len(rows) == 0 and not is_part:
            raise ValueError(f"none of the {n_rows:,} rows satisfies {choice.where.text}.")
    reasons: Reasons = {}
    if choice.drop_duplicates is not False:
        named = choice.drop_duplicates
        compared = [*roles.values(), *context] if named is True else named
        taken = [arrow(name).take(rows) for name in dict.fromkeys(compared)]
        # Rows without any number of a decision are not known to be the same one.
        is_known = True if named is True else ~np.logical_and.reduce([missing_rows(column) for column in taken])
        reasons[COPY] = repeated_rows(taken) & is_known
    numbers: dict[str, FloatArray] = {}
    if choice.drop_invalid:
        used = {role: select(columns[name].to_native(), rows) for role, name in roles.items()}
        numbers = {role: lenient_numbers(used[role], role) for role in NUMBERS if role in used}
        others = {repr(name): select(columns[name].to_native(), rows) for name in choice.other_rewards}
        reasons |= _not_numbers({role: used[role] for role in numbers} | others)
        reasons |= invalid_rows({**used, **numbers}, actions, others)
        if context:
            reasons["context is infinite"] = _infinite([select(columns[name].to_native(), rows) for name in context])
    kept, origin, counts = leave_out(reasons, rows, columns[roles["action"]].to_native(), origin, is_part=is_part)
    if not kept.any() and not is_part:
        raise no_row_left(origin)
    return ChosenRows(rows[kept], origin, {role: values[kept] for role, values in numbers.items()}, counts)


def valid_samples(
    matrix: ContextMatrix,
    columns: Mapping[str, Any],
    action_mask: Any,
    actions: object | None,
    *,
    beside: Sequence[str],
) -> tuple[ContextMatrix, dict[str, Any], Any, LogOrigin]:
    """Return contexts, columns and mask without the samples that cannot be used, and a record of those.

    ``beside`` names the columns that have no role: segments, which may hold anything, and other rewards.
    """
    used: dict[str, Any] = {
        role: values for role, values in columns.items() if values is not None and role not in beside
    }
    others = {name: columns[name] for name in beside if name != "segment"}
    reasons = _not_numbers({role: used[role] for role in NUMBERS if role in used} | others)
    used |= {role: lenient_numbers(used[role], role) for role in NUMBERS if role in used}
    reasons |= invalid_rows(used, actions, others) | {"context is infinite": infinite_rows(matrix)}
    every: IntArray = np.arange(matrix.shape[0])
    kept, origin, _ = leave_out(reasons, every, columns["action"], LogOrigin(len(every)))
    if not kept.any():
        raise no_row_left(origin)
    rows = every[kept]
    mask = None if action_mask is None else mask_rows(action_mask, rows, len(every))
    return matrix[rows], {role: select(used.get(role, columns[role]), rows) for role in columns}, mask, origin


def no_row_left(origin: LogOrigin) -> ValueError:
    """Return the error of a log of which no row can be used."""
    return ValueError(f"no valid row is left. {' '.join(origin.sentences())}")


def mask_rows(action_mask: Any, rows: IntArray, n_rows: int) -> AnyArray:
    """Return some rows of a mask; it must have one for each row that was read."""
    mask = np.asarray(action_mask)
    if len(mask) != n_rows:
        raise ValueError(f"action_mask has {len(mask)} rows, the log {n_rows}; each sample needs one.")
    return mask[rows]


def leave_out(
    reasons: Reasons, rows: IntArray, action: Any, origin: LogOrigin, *, is_part: bool = False
) -> tuple[BoolArray, LogOrigin, ActionCounts]:
    """Return which of the rows are kept, the record of the others, and how often each action is among them.

    A row counts for the first of the ``reasons`` that it has. ``rows`` says where the rows stand in what was read,
    ``action`` is the column of all that was read, and ``origin`` the record so far. If other parts may leave out rows
    (``is_part``), actions are counted also where nothing is left out.
    """
    kept = np.ones(len(rows), dtype=np.bool_)
    dropped = []
    for reason, bad in reasons.items():
        new = bad & kept
        if new.any():
            dropped.append(Dropped.of(reason, rows[new]))
            kept &= ~bad
    counts: ActionCounts = {}
    if dropped or is_part:
        label, position = _action_positions(select(action, rows))
        copies = reasons.get(COPY)
        is_judged = position >= 0 if copies is None else (position >= 0) & ~copies
        asked, lost = (np.bincount(position[is_judged & some], minlength=len(label)).tolist() for some in (True, ~kept))
        counts = {name: (n_asked, n_lost) for name, n_asked, n_lost in zip(label, asked, lost, strict=True)}
    origin = replace(origin, dropped=tuple(dropped), uneven=uneven_by_action(counts))
    return kept, origin, counts


def _action_positions(action: Any) -> tuple[list[str], IntArray]:
    """Return the labels that occur, as text, and which of them stands in each row, -1 where it is missing."""
    series = nw.from_native(unmasked(action), series_only=True, pass_through=True)
    values = series.to_list() if isinstance(series, nw.Series) else list(series)
    place: dict[str, int] = {}
    position = [-1 if is_missing(value) else place.setdefault(repr(value), len(place)) for value in values]
    return list(place), np.array(position, dtype=np.int64)


def _infinite(columns: Sequence[Any]) -> BoolArray:
    """Return which rows hold infinity, or what float32 cannot hold, in a column of floats."""
    found = np.zeros(len(columns[0]), dtype=np.bool_)
    for column in columns:
        series = nw.from_native(column, series_only=True)
        if series.dtype.is_float():
            with np.errstate(invalid="ignore"):
                found |= np.abs(np.asarray(lenient_numbers(column, "context"))) > MAX_FLOAT32
    return found


def infinite_rows(matrix: Any) -> BoolArray:
    """Return which rows of a matrix, dense or sparse, hold infinity."""
    if not is_sparse(matrix):
        return np.asarray(np.isinf(matrix).any(axis=1))
    found = np.zeros(matrix.shape[0], dtype=np.bool_)
    found[np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))[np.isinf(matrix.data)]] = True
    return found


def select(values: Any, rows: AnyArray) -> Any:
    """Return some entries of a column, whatever holds it."""
    if values is None:
        return None
    values = unmasked(values)
    series = nw.from_native(values, series_only=True, pass_through=True)
    if isinstance(series, nw.Series):
        return series[rows.tolist()].to_native() if len(rows) < len(series) else values
    if isinstance(values, np.ndarray):
        return values[rows]
    return [values[row] for row in rows.tolist()]


def invalid_rows(
    columns: Mapping[str, Any], actions: object | None = None, others: Mapping[str, Any] | None = None
) -> Reasons:
    """Return which rows cannot be used, by reason.

    ``columns`` has any of action, reward, propensity, time and group; rewards and propensities are as `lenient_numbers`
    gives them. ``actions`` are all that can be chosen, where they are listed, and ``others`` the other rewards.
    """
    found: Reasons = {}
    for name, values in (others or {}).items():
        numbers = lenient_numbers(values, name)
        found |= {f"{name} is missing": np.isnan(numbers), f"{name} is infinite": np.isinf(numbers)}
    for role, values in columns.items():
        if role == "reward":
            found |= {"reward is missing": np.isnan(values), "reward is infinite": np.isinf(values)}
        elif role == "time":
            found |= {"time is missing": missing_rows(values), "time cannot be read": unreadable_times(values)}
        elif role == "propensity":
            found |= {
                "propensity is missing": np.isnan(values),
                "propensity is 0 or negative": values <= 0.0,
                f"propensity is below {MIN_PROPENSITY:g}": (values > 0.0) & (values < MIN_PROPENSITY),
                "propensity is above 1": values > 1.0 + MAX_ABOVE_ONE,
            }
        else:
            found[f"{role} is missing"] = missing_rows(values)
    if actions is not None and "action" in columns:
        known = set(python_labels(actions))
        logged = python_labels(columns["action"])
        unknown = [not is_missing(label) and label not in known for label in logged]
        found["action is not one of the actions"] = np.array(unknown, dtype=np.bool_)
    return {reason: rows for reason, rows in found.items() if rows.any()}


def _not_numbers(columns: Mapping[str, Any]) -> Reasons:
    """Return which rows hold something that is there and is not a number, such as ``yes`` or ``€ 5``, by reason."""
    found: Reasons = {}
    for name, values in columns.items():
        rows = np.flatnonzero(np.isnan(lenient_numbers(values, name)) & ~missing_rows(values))
        if not len(rows):
            continue
        texts = [str(value).strip().casefold() for value in select(_listed(values), rows)]
        bad = np.zeros(len(values), dtype=np.bool_)
        bad[rows] = [text not in ("", "nan") for text in texts]
        if bad.any():
            found[f"{name} is not a number"] = bad
    return found


def _listed(values: Any) -> list[Any]:
    series = nw.from_native(unmasked(values), series_only=True, pass_through=True)
    return series.to_list() if isinstance(series, nw.Series) else list(series)


def lenient_numbers(values: Any, name: str) -> FloatArray:
    """Return a column as floats; text that is not a number, and anything else that is not, becomes NaN."""
    series = nw.from_native(unmasked(values), series_only=True, pass_through=True)
    if isinstance(series, nw.Series) and series.dtype in TEXT:
        labels, position = distinct_values(series)
        return np.array([*map(_number, labels), np.nan])[position]
    try:
        return float_column(values, name)
    except TypeError:
        return np.array([_number(value) for value in _listed(values)], dtype=np.float64)


def _number(value: Any) -> float:
    try:
        return np.nan if is_missing(value) else float(value)
    except (TypeError, ValueError, OverflowError):
        return np.nan
