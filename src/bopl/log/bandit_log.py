"""`BanditLog`: logged interactions, checked once and then trusted by everything to the right."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import narwhals.stable.v1 as nw
import numpy as np

from bopl._typing import AnyArray, BoolArray, ContextMatrix, FloatArray, IntArray
from bopl.log.action import encode_actions
from bopl.log.context import (
    check_unique_names,
    column_names,
    column_to_float,
    is_frame,
    is_sparse,
    quoted,
    read_context,
)


@dataclass(frozen=True, init=False, eq=False, repr=False)
class BanditLog:
    """A frozen, checked log of decisions: one sample is (context, action, propensity, reward).

    Parameters
    ----------
    context : array-like, scipy sparse matrix or frame of shape (n_samples, n_features)
        What was known when the action was chosen: numbers or booleans, stored as float32. NaN and null mean missing.
        Frames (pandas, polars, arrow) keep their column names. A float32 C-contiguous array is not copied, so leave it
        unchanged afterwards.
    action : sequence of shape (n_samples,)
        The action taken: any hashable labels.
    reward : array-like of shape (n_samples,)
        What came of it: any finite number, higher is better.
    propensity : array-like of shape (n_samples,)
        Probability, in (0, 1], with which the logging policy chose the logged action (p_i in the paper).
    actions : sequence of labels, optional
        All actions that can be chosen, in order; needed when some were never logged. By default those that occur,
        sorted.
    feature_names : sequence of str, optional
        Names of the context columns; taken from the frame where there is one.
    time : sequence of shape (n_samples,), optional
        When each decision was made: anything that sorts. Used by ``split(by="time")``.
    action_mask : boolean array of shape (n_samples, n_actions), optional
        Which actions could be chosen for each sample; all of them by default. An ineligible action is never chosen and
        teaches nothing.
    action_features : array-like of shape (n_actions, n_action_features), optional
        What is known of the actions themselves, rows in the order of ``actions``; learners may split on these columns
        as well as on the action.

    Attributes
    ----------
    action_idx : ndarray of shape (n_samples,)
        Position of the logged action in ``actions``.
    actions : ndarray of shape (n_actions,)

    Examples
    --------
    >>> import bopl
    >>> context = [[0.0], [1.0], [1.0]]
    >>> log = bopl.BanditLog(context, ["b", "a", "b"], [1, 0, 1], [0.5, 0.2, 0.8], actions=["a", "b", "c"])
    >>> log
    BanditLog(n_samples=3, n_features=1, n_actions=3, mean_reward=0.6667, min_propensity=0.2)
    >>> log.translated(-0.5).reward.tolist()
    [0.5, -0.5, 0.5]
    """

    context: ContextMatrix
    action_idx: IntArray
    reward: FloatArray
    propensity: FloatArray
    actions: AnyArray
    feature_names: tuple[str, ...] | None
    time: AnyArray | None
    action_mask: BoolArray | None
    action_features: FloatArray | None

    def __init__(
        self,
        context: object,
        action: object,
        reward: object,
        propensity: object,
        *,
        actions: object | None = None,
        feature_names: Sequence[str] | None = None,
        time: object | None = None,
        action_mask: object | None = None,
        action_features: object | None = None,
    ) -> None:
        matrix, names_found = read_context(context)
        _check_lengths(
            {"context": matrix.shape[0], "action": _length(action), "reward": _length(reward)}
            | ({} if propensity is None else {"propensity": _length(propensity)})
            | ({} if time is None else {"time": _length(time)})
        )
        action_idx, labels = encode_actions(action, actions)
        _set_fields(
            self,
            context=_read_only(matrix),
            action_idx=_read_only(action_idx),
            reward=_read_only(_check_reward(reward)),
            propensity=_read_only(_check_propensity(propensity)),
            actions=labels,
            feature_names=_check_names(feature_names, names_found, matrix.shape[1]),
            time=None if time is None else _read_only(_check_time(time)),
            action_mask=None if action_mask is None else _read_only(check_mask(action_mask, labels, action_idx)),
            action_features=None if action_features is None else _read_only(_check_features(action_features, labels)),
        )

    # -- Constructors ---------------------------------------------------------------------------------------------

    @classmethod
    def from_frame(
        cls,
        frame: object,
        *,
        action: str,
        reward: str,
        propensity: str,
        context: Sequence[str] | None = None,
        actions: object | None = None,
        time: str | None = None,
    ) -> BanditLog:
        """Build a log from a pandas, polars or arrow frame.

        Parameters
        ----------
        frame : frame of n_samples rows
        action, reward, propensity : str
            Names of the columns.
        context : sequence of str, optional
            Names of the context columns; by default all that have no other role.
        actions : sequence of labels, optional
            As for `BanditLog`.
        time : str, optional
            Name of the column with the time of the decision.
        """
        if not is_frame(frame):
            raise TypeError(f"from_frame takes a pandas, polars or arrow frame; got {type(frame).__name__}.")
        check_unique_names([str(name) for name in column_names(frame)], "the frame")
        table = nw.from_native(frame, eager_only=True)
        roles = {"action": action, "reward": reward, "propensity": propensity} | ({"time": time} if time else {})
        context_names = _context_columns(table.columns, roles, context)
        return cls(
            table.select(context_names).to_native(),
            table[action].to_native(),
            table[reward].to_native(),
            table[propensity].to_native(),
            actions=actions,
            time=None if time is None else table[time].to_native(),
        )

    @classmethod
    def from_parquet(
        cls,
        path: str | Path,
        *,
        action: str,
        reward: str,
        propensity: str,
        context: Sequence[str] | None = None,
        actions: object | None = None,
        time: str | None = None,
    ) -> BanditLog:
        """Read a log from a Parquet file; the parameters are those of `from_frame`."""
        from bopl.log.reader import read_parquet

        columns = None if context is None else [*context, action, reward, propensity, *([time] if time else [])]
        table = read_parquet(path, columns=columns)
        return cls.from_frame(
            table, action=action, reward=reward, propensity=propensity, context=context, actions=actions, time=time
        )

    @classmethod
    def from_csv(
        cls,
        path: str | Path,
        *,
        action: str,
        reward: str,
        propensity: str,
        context: Sequence[str] | None = None,
        actions: object | None = None,
        time: str | None = None,
    ) -> BanditLog:
        """Read a log from a CSV file with a header line; the parameters are those of `from_frame`."""
        from bopl.log.reader import read_csv

        return cls.from_frame(
            read_csv(path),
            action=action,
            reward=reward,
            propensity=propensity,
            context=context,
            actions=actions,
            time=time,
        )

    # -- Views ----------------------------------------------------------------------------------------------------

    @property
    def n_samples(self) -> int:
        """Number of logged interactions."""
        return int(self.context.shape[0])

    @property
    def n_features(self) -> int:
        """Number of context columns."""
        return int(self.context.shape[1])

    @property
    def n_actions(self) -> int:
        """Number of actions that can be chosen, logged or not."""
        return len(self.actions)

    @property
    def action(self) -> AnyArray:
        """Labels of the logged actions, of shape (n_samples,)."""
        return self.actions[self.action_idx]

    def __len__(self) -> int:
        return self.n_samples

    def __repr__(self) -> str:
        return (
            f"BanditLog(n_samples={self.n_samples}, n_features={self.n_features}, n_actions={self.n_actions}, "
            f"mean_reward={self.reward.mean():.4g}, min_propensity={self.propensity.min():.4g})"
        )

    # -- New logs from this one -------------------------------------------------------------------------------------

    def subset(self, rows: object) -> BanditLog:
        """Return the log of some samples, with all actions kept.

        Parameters
        ----------
        rows : slice, boolean mask of shape (n_samples,), or sequence of row numbers
            Row numbers may repeat (a bootstrap sample) and come in any order.
        """
        index = _check_rows(rows, self.n_samples)
        return _replaced(
            self,
            context=_read_only(self.context[index]),
            action_idx=_read_only(self.action_idx[index]),
            reward=_read_only(self.reward[index]),
            propensity=_read_only(self.propensity[index]),
            time=None if self.time is None else _read_only(self.time[index]),
            action_mask=None if self.action_mask is None else _read_only(self.action_mask[index]),
        )

    def split(
        self, test_fraction: float = 0.2, *, by: str = "random", random_state: int | None = None
    ) -> tuple[BanditLog, BanditLog]:
        """Return two logs, ``(train, test)``.

        Parameters
        ----------
        test_fraction : float in (0, 1), default=0.2
        by : {"random", "time"}, default="random"
            ``"time"`` puts the latest samples into the test part (needs ``time``): what deployment looks like.
        random_state : int, optional
            Seed of the random split.
        """
        if not 0.0 < test_fraction < 1.0:
            raise ValueError(f"test_fraction must lie strictly between 0 and 1; got {test_fraction!r}.")
        n_test = round(self.n_samples * test_fraction)
        if not 0 < n_test < self.n_samples:
            raise ValueError(
                f"test_fraction={test_fraction:g} of {self.n_samples} samples leaves one part empty; use a larger log "
                "or another fraction."
            )
        order = self._split_order(by, random_state)
        train, test = order[: self.n_samples - n_test], order[self.n_samples - n_test :]
        return self.subset(np.sort(train)), self.subset(np.sort(test))

    def _split_order(self, by: str, random_state: int | None) -> IntArray:
        if by == "random":
            return np.random.default_rng(random_state).permutation(self.n_samples)
        if by != "time":
            raise ValueError(f"by must be 'random' or 'time'; got {by!r}.")
        if self.time is None:
            raise ValueError("split(by='time') needs the time of each decision: build the log with time=….")
        return np.argsort(self.time, kind="stable")

    def translated(self, reward_translation: float) -> BanditLog:
        """Return the log with ``reward_translation`` added to every reward (the paper's sign: -0.4 means r - 0.4)."""
        if not np.isfinite(reward_translation):
            raise ValueError(f"reward_translation must be a finite number; got {reward_translation!r}.")
        if reward_translation == 0.0:
            return self
        return _replaced(self, reward=_read_only(self.reward + reward_translation))

    def fingerprint(self) -> str:
        """Return a hash of the log's contents: equal for equal logs, in every process."""
        digest = hashlib.sha256()
        for array in self._fingerprint_parts():
            digest.update(f"{array.dtype.str}{array.shape}".encode())
            digest.update(np.ascontiguousarray(array).data)
        digest.update(repr((self.actions.tolist(), self.feature_names)).encode())
        return digest.hexdigest()

    def _fingerprint_parts(self) -> Iterator[AnyArray]:
        if is_sparse(self.context):
            yield from (self.context.indptr.astype(np.int64), self.context.indices.astype(np.int64), self.context.data)
        else:
            yield self.context
        yield from (self.action_idx, self.reward, self.propensity)
        yield from (part for part in (self.action_mask, self.action_features) if part is not None)


# -- Checks: each raises one sentence that says what is wrong, where, and what to do -----------------------------------


def _check_reward(reward: object) -> FloatArray:
    values = _float_column(reward, "reward")
    bad = ~np.isfinite(values)
    if bad.any():
        raise ValueError(
            f"reward must be finite; {_count_and_first(bad, values)}. Drop those samples or fill in the reward that "
            "was earned: an unknown reward is not a reward of zero."
        )
    return values


def _check_propensity(propensity: object) -> FloatArray:
    if propensity is None:
        raise ValueError(
            "propensity is missing: pass the probability with which the logging policy chose each logged action. "
            "Without it no unbiased estimate exists; start logging it with the next deployment."
        )
    values = _float_column(propensity, "propensity")
    bad = ~((values > 0.0) & (values <= 1.0))
    if bad.any():
        raise ValueError(
            f"propensity must lie in (0, 1]; {_count_and_first(bad, values)}. {_propensity_hint(values[bad])}"
        )
    return values


def _propensity_hint(bad_values: FloatArray) -> str:
    first = bad_values[0]
    if np.isnan(first):
        return "A missing propensity cannot be guessed: drop those samples or recover it from the logging policy."
    if first < 0.0:
        return "Negative values usually mean the log stores log-probabilities: pass np.exp of them."
    if first == 0.0:
        return (
            "An action that was taken had a positive probability: zeros usually come from rounding; log more digits "
            "or drop those samples."
        )
    if (bad_values <= 100.0).all():
        return "Values up to 100 usually mean percentages: divide by 100."
    return "Values far above 1 usually mean inverse propensities: pass 1 / propensity."


def _float_column(values: object, name: str) -> FloatArray:
    series = nw.from_native(values, series_only=True, pass_through=True)
    if isinstance(series, nw.Series):
        if not (series.dtype.is_numeric() or series.dtype == nw.Boolean):
            raise TypeError(f"{name} must be numeric; the column holds {series.dtype}.")
        values = column_to_float(series)
    try:
        array = np.array(values, dtype=np.float64)  # always a copy: the log is frozen, the caller's array is not
    except (TypeError, ValueError):
        raise TypeError(f"{name} must be numeric; {_first_non_number(values)}.") from None
    if array.ndim != 1:
        raise ValueError(f"{name} must have one dimension (n_samples,); it has shape {array.shape}.")
    return array


def _first_non_number(values: Any) -> str:
    for row, value in enumerate(values):
        try:
            float(value)
        except (TypeError, ValueError):
            return f"row {row} holds {value!r}"
    return "its values are not all numbers"


def _count_and_first(bad: BoolArray, values: FloatArray) -> str:
    row = int(np.flatnonzero(bad)[0])
    verb = "does" if bad.sum() == 1 else "do"
    return f"{int(bad.sum())} of {len(values)} samples {verb} not, the first at row {row} with {values[row]:g}"


def _check_time(time: object) -> AnyArray:
    series = nw.from_native(time, series_only=True, pass_through=True)
    values = np.array(series.to_numpy() if isinstance(series, nw.Series) else time)
    if values.ndim != 1:
        raise ValueError(f"time must have one dimension (n_samples,); it has shape {values.shape}.")
    if values.dtype == object:
        raise TypeError("time must sort: numbers, dates or text of one kind without missing values.")
    missing = np.isnat(values) if values.dtype.kind == "M" else np.isnan(values) if values.dtype.kind == "f" else None
    if missing is not None and missing.any():
        row = int(np.flatnonzero(missing)[0])
        raise ValueError(f"time is missing in {int(missing.sum())} of {len(values)} samples, the first at row {row}.")
    return values


def check_mask(mask: object, actions: AnyArray, action_idx: IntArray | None) -> BoolArray:
    """Return the mask as booleans; every row needs an eligible action, and the logged one must be eligible."""
    array = np.asarray(mask)
    if array.ndim != 2 or array.shape[1] != len(actions):
        raise ValueError(
            f"action_mask must have one column for each of the {len(actions)} actions; it has shape {array.shape}."
        )
    if array.dtype != np.bool_ and not np.isin(array, (0, 1)).all():
        raise ValueError("action_mask must hold booleans or 0 and 1 only.")
    eligible = array.astype(np.bool_)
    if action_idx is not None and len(eligible) != len(action_idx):
        raise ValueError(f"action_mask has {len(eligible)} rows, the log {len(action_idx)}; each sample needs one.")
    empty = ~eligible.any(axis=1)
    if empty.any():
        row = int(np.flatnonzero(empty)[0])
        raise ValueError(
            f"action_mask leaves no eligible action in {int(empty.sum())} of {len(eligible)} rows, the first at row "
            f"{row}. Leave those samples out, or say what could be chosen."
        )
    if action_idx is not None:
        _check_logged_eligible(eligible, actions, action_idx)
    return eligible


def _check_logged_eligible(eligible: BoolArray, actions: AnyArray, action_idx: IntArray) -> None:
    forbidden = ~eligible[np.arange(len(action_idx)), action_idx]
    if forbidden.any():
        row = int(np.flatnonzero(forbidden)[0])
        raise ValueError(
            f"action_mask forbids the logged action in {int(forbidden.sum())} of {len(eligible)} rows, the first at "
            f"row {row} with {actions[action_idx[row]]!r}. An action that was taken was eligible: check the mask."
        )


def _check_features(action_features: object, actions: AnyArray) -> FloatArray:
    matrix, _ = read_context(action_features)
    features = np.asarray(matrix.toarray() if is_sparse(matrix) else matrix)
    if len(features) != len(actions):
        raise ValueError(
            f"action_features must have one row for each of the {len(actions)} actions, in their order; it has "
            f"{len(features)} rows."
        )
    if np.isnan(features).any():
        row, column_idx = (int(position) for position in np.argwhere(np.isnan(features))[0])
        raise ValueError(
            f"action_features must not be missing; action {actions[row]!r} has NaN in column {column_idx}. Fill it in."
        )
    return features


def _check_names(given: Sequence[str] | None, found: tuple[str, ...] | None, n_features: int) -> tuple[str, ...] | None:
    if given is None:
        return found
    names = tuple(str(name) for name in given)
    if len(names) != n_features:
        raise ValueError(f"feature_names has {len(names)} names, but context has {n_features} columns.")
    check_unique_names(names, "feature_names")
    return names


def _length(column: Any) -> int:
    shape = getattr(column, "shape", None)
    if shape is not None and len(shape) == 0:
        raise TypeError("action, reward and propensity must have one value per sample; got a single number.")
    try:
        return len(column)
    except TypeError:
        raise TypeError(
            f"action, reward and propensity must have one value per sample; got {type(column).__name__}."
        ) from None


def _check_lengths(lengths: dict[str, int]) -> None:
    if len(set(lengths.values())) > 1:
        listed = ", ".join(f"{name} {length}" for name, length in lengths.items())
        raise ValueError(
            f"all columns must have the same length (inconsistent numbers of samples): {listed}. Each sample needs all "
            "four values; check that no column was filtered on its own."
        )


def _context_columns(columns: Sequence[str], roles: dict[str, str], context: Sequence[str] | None) -> list[str]:
    wanted = {**roles} if context is None else {**roles, **{f"context[{i}]": name for i, name in enumerate(context)}}
    absent = {role: name for role, name in wanted.items() if name not in columns}
    if absent:
        role, name = next(iter(absent.items()))
        raise ValueError(f"there is no column {name!r} (given as {role}); the columns are {quoted(list(columns))}.")
    if len(set(roles.values())) < len(roles):
        raise ValueError(
            f"one column is given two roles: {', '.join(f'{role}={name!r}' for role, name in roles.items())}."
        )
    if context is None:
        return [name for name in columns if name not in roles.values()]
    check_unique_names(list(context), "context")
    leaked = [name for name in context if name in roles.values()]
    if leaked:
        raise ValueError(
            f"context contains {quoted(leaked)}, which is also the action, reward, propensity or time: a policy must "
            "not see them. Leave them out of context."
        )
    return list(context)


def _check_rows(rows: object, n_samples: int) -> IntArray:
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


def _read_only(array: Any) -> Any:
    """Return an array that cannot be written to, without touching the flags of the caller's own array."""
    if is_sparse(array):
        for part in (array.data, array.indices, array.indptr):
            part.flags.writeable = False
        return array
    view = array.view()
    view.flags.writeable = False
    return view


def _set_fields(log: BanditLog, **fields: object) -> None:
    for name, value in fields.items():
        object.__setattr__(log, name, value)


def _replaced(log: BanditLog, **changes: object) -> BanditLog:
    """Return a copy with other columns that are known to be good: nothing is checked twice."""
    copy = object.__new__(BanditLog)
    kept = {name: getattr(log, name) for name in BanditLog.__dataclass_fields__}
    _set_fields(copy, **(kept | changes))
    return copy
