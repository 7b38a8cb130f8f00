"""Checks of a log's columns: each raises an error that says what is wrong, where, and what to do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import narwhals.stable.v1 as nw
import numpy as np

from bopl._errors import UsageError, did_you_mean, quoted, shortened
from bopl._native import column_names, is_frame, is_missing, missing_clause, missing_rows, object_to_float, unmasked
from bopl._policy_reader import logged_entries
from bopl._typing import AnyArray, BoolArray, FloatArray, IntArray
from bopl.log.action import MAX_EXACT, check_hashable, label_array
from bopl.log.column import distinct_values
from bopl.log.context import MANY, check_unique_names, column_to_float, is_sparse, read_context
from bopl.log.frame import TEXT, dtype_name
from bopl.log.propensity_hint import propensity_hint

MISSING_SEGMENT = "missing"
MIN_PROPENSITY = 1e-100  # third powers of weights, which skewness needs, leave the range of a float below it
MAX_ABOVE_ONE = 1e-6  # what sums of probabilities in 32 bits leave above 1


def check_reward(reward: object, name: str = "reward") -> FloatArray:
    """Return rewards as floats; they must be finite."""
    values = float_column(reward, name)
    bad = ~np.isfinite(values)
    if bad.any():
        raise ValueError(
            f"{name} must be finite; {_count_and_first(bad, values)}. An unknown reward is not zero: fill "
            "in what was earned, or drop those samples with drop_invalid=True."
        )
    return values


def named_rewards(other_rewards: Mapping[str, object] | None) -> dict[str, object]:
    """Return other rewards by what messages call them."""
    if other_rewards is None:
        return {}
    if not isinstance(other_rewards, Mapping):
        raise TypeError(f"other_rewards must be a mapping of names to columns; got {type(other_rewards).__name__}.")
    return {f"other_rewards[{name!r}]": one for name, one in other_rewards.items()}


def check_propensity(
    propensity: object,
    n_samples: int,
    columns: Mapping[str, nw.Series[Any]] | None = None,
    action: str | None = None,
) -> FloatArray:
    """Return propensities as floats in (0, 1], NaN if there are none; a bad one usually has a reason.

    ``columns`` are the other columns of the samples, and ``action`` is the name of the one with the actions.
    """
    if propensity is None:
        return np.full(n_samples, np.nan)
    values = float_column(propensity, "propensity")
    values[(values > 1.0) & (values <= 1.0 + MAX_ABOVE_ONE)] = 1.0
    bad = ~((values >= MIN_PROPENSITY) & (values <= 1.0))
    if bad.any():
        raise ValueError(
            f"propensity must lie in (0, 1]; {_count_and_first(bad, values)}. "
            f"{propensity_hint(values, bad, columns or {}, action)}"
        )
    return values


def check_propensity_column(table: nw.DataFrame[Any], roles: Mapping[str, str]) -> None:
    """Raise the error of `check_propensity`, and say what else the bad rows of a table have in common."""
    name = roles["propensity"]
    others = {one: table[one] for one in table.columns if one != name}
    check_propensity(table[name].to_native(), len(table), others, roles["action"])


def float_column(values: object, name: str) -> FloatArray:
    """Return a column of numbers as floats, missing ones as NaN."""
    series = nw.from_native(unmasked(values), series_only=True, pass_through=True)
    if isinstance(series, nw.Series):
        if series.dtype == nw.Object:  # as pandas.NA among numbers makes it
            values = series.to_list()
        elif series.null_count() == len(series):  # no rows or no values: readers cannot know its type
            values = np.full(len(series), np.nan)
        elif not (series.dtype.is_numeric() or series.dtype == nw.Boolean):
            raise TypeError(f"{name} must be numeric; the column holds {dtype_name(series)}.{_first_text(series)}")
        else:
            values = column_to_float(series)
    else:
        values = series
    try:
        # Always a copy: the log is frozen, the caller's array is not.
        is_plain = isinstance(values, np.ndarray) and values.dtype.kind in "biuf"
        array = np.array(values, dtype=np.float64) if is_plain else object_to_float(np.array(values, object))
    except (TypeError, ValueError, OverflowError):
        raise TypeError(f"{name} must be numeric; {_first_non_number(values)}.") from None
    if array.ndim != 1:
        raise ValueError(f"{name} must have one dimension (n_samples,); it has shape {array.shape}.")
    return array


def _first_text(series: nw.Series[Any]) -> str:
    """Return a sentence about the first value of a column of text."""
    labels, position = distinct_values(series) if series.dtype in TEXT else ([], np.zeros(0, np.int64))
    if not labels:
        return ""
    row = int(np.flatnonzero(position >= 0)[0])
    return f" Row {row} holds {shortened(labels[position[row]])}: turn it into numbers."


def _first_non_number(values: Any) -> str:
    for row, value in enumerate(values):
        try:
            if not is_missing(value):
                float(value)
        except (TypeError, ValueError, OverflowError):
            return f"row {row} holds {shortened(value)}"
    return "its values are not all numbers"


def _count_and_first(bad: BoolArray, values: FloatArray) -> str:
    row = int(np.flatnonzero(bad)[0])
    verb = "does" if bad.sum() == 1 else "do"
    return f"{int(bad.sum())} of {len(values)} samples {verb} not, the first at row {row} with {values[row]:g}"


def number_groups(group: object) -> tuple[IntArray, AnyArray]:
    """Return groups as integers from 0, equal for equal labels, and the labels; none of them may be missing."""
    series = nw.from_native(unmasked(group), series_only=True, pass_through=True)
    if isinstance(series, nw.Series) and series.dtype in TEXT:
        found, position = distinct_values(series)
        _check_groups_present(position < 0)
        order = sorted(range(len(found)), key=lambda idx: str(found[idx]))
        return np.argsort(order)[position], label_array([str(found[idx]) for idx in order])
    values = series.to_numpy() if isinstance(series, nw.Series) else _label_column(series)
    if values.ndim != 1:
        raise ValueError(f"group must have one dimension (n_samples,); it has shape {values.shape}.")
    _check_groups_present(missing_rows(group))
    if values.dtype.kind == "f" and (np.abs(values) >= MAX_EXACT).any():
        row = int(np.flatnonzero(np.abs(values) >= MAX_EXACT)[0])
        raise ValueError(
            f"group holds numbers beyond 2**53 as floats, the first at row {row} with {float(values[row])!r}: several "
            "groups may have been merged. Store them as text or as integers."
        )
    if values.dtype == object:  # labels of several types cannot be sorted: number them in order of appearance
        code_of: dict[Any, int] = {}
        check_hashable(values.tolist(), "labels of group")
        codes = np.array([code_of.setdefault(label, len(code_of)) for label in values.tolist()], dtype=np.int64)
        return codes, label_array(list(code_of))
    labels_found, position = np.unique(values, return_inverse=True)
    return position.astype(np.int64), labels_found


def _check_groups_present(missing: BoolArray) -> None:
    if missing.any():
        raise ValueError(
            f"{missing_clause('group', missing)}; give each one a group, or drop those samples with drop_invalid=True."
        )


def check_segment(segment: object) -> AnyArray:
    """Return segments as text; a missing one is the segment "missing"."""
    column_length(segment, "segment")  # raises if it is the name of a column, or a frame
    series = nw.from_native(segment, series_only=True, pass_through=True)
    labels = series.to_list() if isinstance(series, nw.Series) else _label_column(segment).tolist()
    if not isinstance(labels, list) or any(isinstance(label, list) for label in labels):
        raise ValueError("segment must have one dimension (n_samples,).")
    return label_array([MISSING_SEGMENT if is_missing(label) else str(label) for label in labels])


def _label_column(values: Any) -> AnyArray:
    """Return labels as an array; lists that numpy would change (several kinds, text ending in nulls) as objects."""
    values = unmasked(values)
    if isinstance(values, np.ndarray):
        return values
    try:
        array = np.asarray(values)
    except ValueError:  # lists of several lengths
        return label_array(list(values))
    is_text = array.dtype.kind in "US" and all(isinstance(value, str | bytes) for value in values)
    is_kept = array.tolist() == list(values) if is_text else array.dtype.kind not in "US"
    return array if is_kept else label_array(list(values))


def check_same_order(columns: Mapping[str, Any]) -> None:
    """Raise if pandas objects hold the same rows in different orders, by their indexes: they are used by position."""
    indexed = {name: one.index for name, one in columns.items() if hasattr(one, "iloc")}
    first, index = next(iter(indexed.items()), ("", None))
    for name, other in indexed.items():
        if index is None or other.equals(index) or not (other.is_unique and set(other) == set(index)):
            continue
        row = next(row for row, pair in enumerate(zip(index, other, strict=True)) if pair[0] != pair[1])
        raise ValueError(
            f"{name} has the rows of {first} in another order: row {row} of {first} has the index "
            f"{shortened(index[row])}, that of {name} {shortened(other[row])}. Reorder it with .loc[{first}.index], or "
            "pass .to_numpy() if it is in order."
        )


def _check_action_order(names: Sequence[Any], actions: AnyArray, what: str) -> None:
    """Raise if the columns of a mask, or the rows of features, are named after the actions, but not in their order."""
    named, wanted = [str(name) for name in names], [str(label) for label in actions.tolist()]
    is_numbered = named == [str(place) for place in range(len(named))]  # what pandas calls whatever has no name
    if named != wanted and sorted(named) == sorted(wanted) and not is_numbered:
        raise ValueError(
            f"{what} in the order {quoted(named)}, but the actions are {quoted(wanted)}: they are used by position. "
            "Reorder them, or list the actions in that order with actions=[…]."
        )


def check_mask(mask: object, actions: AnyArray, action_idx: IntArray | None) -> BoolArray:
    """Return the mask as booleans; every row needs an eligible action, and the logged one must be eligible."""
    if is_frame(mask):
        _check_action_order(column_names(mask), actions, "action_mask has columns")
    try:
        array = np.asarray(unmasked(mask))
    except ValueError:
        raise ValueError("action_mask has rows of different lengths; it needs a column for each action.") from None
    if array.ndim != 2 or array.shape[1] != len(actions):
        raise ValueError(
            f"action_mask must have one column for each of the {len(actions)} actions; it has shape {array.shape}."
        )
    if array.dtype != np.bool_ and (bad := np.argwhere(~np.isin(array, (0, 1)))).size:
        row, place = bad[0].tolist()
        raise ValueError(
            f"action_mask must hold booleans or 0 and 1 only; row {row} holds {shortened(array[row, place])} for "
            f"action {shortened(actions[place])}."
        )
    eligible = array.astype(np.bool_)
    if action_idx is not None and len(eligible) != len(action_idx):
        raise ValueError(f"action_mask has {len(eligible)} rows, the log {len(action_idx)}; each sample needs one.")
    empty = ~eligible.any(axis=1)
    if empty.any():
        row = int(np.flatnonzero(empty)[0])
        raise ValueError(
            f"action_mask leaves no eligible action in {int(empty.sum())} of {len(eligible)} rows, the first at row "
            f"{row}. Drop those samples, or give their eligible actions."
        )
    if action_idx is not None:
        _check_logged_eligible(eligible, actions, action_idx)
    return eligible


def _check_logged_eligible(eligible: BoolArray, actions: AnyArray, action_idx: IntArray) -> None:
    forbidden = ~logged_entries(eligible, action_idx)
    if forbidden.any():
        row = int(np.flatnonzero(forbidden)[0])
        raise ValueError(
            f"action_mask forbids the logged action in {int(forbidden.sum())} of {len(eligible)} rows, the first at "
            f"row {row} with {shortened(actions[action_idx[row]])}. An action that was taken was eligible: check the "
            "mask."
        )


def check_features(action_features: object, actions: AnyArray) -> FloatArray:
    """Return action features: one row per action, nothing missing."""
    if hasattr(action_features, "iloc"):
        _check_action_order(list(action_features.index), actions, "action_features has rows")  # type: ignore[attr-defined]
    matrix, _ = read_context(action_features, what="action_features")
    features = np.asarray(matrix.toarray() if is_sparse(matrix) else matrix)
    if len(features) != len(actions):
        raise ValueError(
            f"action_features must have one row for each of the {len(actions)} actions, in their order; it has "
            f"{len(features)} rows."
        )
    if np.isnan(features).any():
        row, column_idx = (int(position) for position in np.argwhere(np.isnan(features))[0])
        raise ValueError(
            f"action_features must not be missing; action {shortened(actions[row])} has NaN in column {column_idx}. "
            "Fill it in."
        )
    return features


def check_names(given: Sequence[str] | None, found: tuple[str, ...] | None, n_features: int) -> tuple[str, ...] | None:
    """Return the names of the context columns, given or found."""
    if given is None:
        return found
    names = tuple(names_of(given, "feature_names"))
    if len(names) != n_features:
        raise ValueError(f"feature_names has {len(names)} names, but context has {n_features} columns.")
    check_unique_names(names, "feature_names")
    return names


def names_of(names: Any, what: str) -> list[str]:
    """Return names of columns as a list; a single text is one name, not a list of letters."""
    if isinstance(names, str):
        return [names]
    if not isinstance(names, Iterable):
        raise UsageError(f"{what} must be a list of names; got {shortened(names)}.")
    return [str(name) for name in names]


def column_length(column: Any, name: str) -> int:
    """Return the length of a column of any type."""
    if isinstance(column, str):
        told = f"{name} must have one value per sample; got {shortened(column)}."
        raise TypeError(f"{told} Pass the column, not its name.")
    shape = getattr(column, "shape", None)
    if shape is not None and len(shape) == 0:
        raise TypeError(f"{name} must have one value per sample; got a single number.")
    if isinstance(shape, tuple) and len(shape) > 1 and not isinstance(column, np.ndarray):
        raise ValueError(f"{name} must have one dimension (n_samples,); it has shape {shape}. Pass one of its columns.")
    try:
        return len(column)
    except TypeError:
        raise TypeError(f"{name} must have one value per sample; got {type(column).__name__}.") from None


def check_lengths(lengths: dict[str, int]) -> None:
    """Raise if the columns differ in length."""
    if len(set(lengths.values())) > 1:
        listed = ", ".join(f"{name} {length}" for name, length in lengths.items())
        raise ValueError(
            f"all columns must have the same length (inconsistent numbers of samples): {listed}. Each sample needs all "
            "four values; check that no column was filtered on its own."
        )


def context_columns(
    columns: Sequence[str], roles: Mapping[str, str], context: Sequence[str] | None, ignore: Sequence[str] = ()
) -> list[str]:
    """Return the context columns: those named, or all without another role than time that are not to be ignored."""
    listed = {"context": context or (), "ignore": ignore}
    wanted = dict(roles) | {f"{what}[{i}]": name for what, names in listed.items() for i, name in enumerate(names)}
    absent = {role: name for role, name in wanted.items() if name not in columns}
    if absent:
        role, name = next(iter(absent.items()))
        raise UsageError(
            f"there is no column {name!r} (given as {role.partition('[')[0]}); the columns are "
            f"{quoted(list(columns), limit=MANY)}.{did_you_mean(name, columns)}"
        )
    if len(set(roles.values())) < len(roles):
        raise UsageError(
            f"one column is given two roles: {', '.join(f'{role}={name!r}' for role, name in roles.items())}."
        )
    taken = [name for role, name in roles.items() if role != "time"]  # of the time, weekday and hour are context
    if context is None:
        return [name for name in columns if name not in taken and name not in ignore]
    repeated = [name for place, name in enumerate(context) if name in context[:place]]
    if repeated:
        raise UsageError(f"context names {quoted(repeated)} more than once; name each column once.")
    leaked = [name for name in context if name in taken]
    if leaked:
        raise UsageError(
            f"context contains {quoted(leaked)}, which is also the action, reward, propensity or group: a policy must "
            "not see them. Leave them out of context."
        )
    return [name for name in context if name not in ignore]


def check_rows(rows: object, n_samples: int) -> IntArray:
    """Return row numbers from a slice, a mask or a sequence."""
    if isinstance(rows, slice):
        index: AnyArray = np.arange(n_samples)[rows]
    else:
        index = np.asarray(rows)
        if index.dtype == np.bool_:
            if index.shape != (n_samples,):
                raise ValueError(f"a boolean mask must have shape ({n_samples},); got {index.shape}.")
            index = np.flatnonzero(index)
    if index.ndim != 1 or (index.dtype.kind not in "iu" and index.size > 0):
        raise TypeError("rows must be a slice, a boolean mask or a one-dimensional sequence of row numbers.")
    if index.size == 0:
        raise ValueError("the subset is empty: no row was selected.")
    if index.min() < -n_samples or index.max() >= n_samples:
        raise ValueError(f"row numbers must lie in 0 … {n_samples - 1}; got {int(index.min())} … {int(index.max())}.")
    return index
