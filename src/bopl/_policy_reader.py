"""A policy's probabilities on the rows of a log, whatever form the policy comes in; checked once, read in blocks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from inspect import signature
from typing import Any, Protocol

import numpy as np

from bopl._errors import quoted, shortened
from bopl._native import column_names, is_frame, unmasked
from bopl._typing import AnyArray, BoolArray, FloatArray, IntArray

MATCH_TOLERANCE = 1e-3  # between propensities and the logging policy's probabilities of the logged actions
SUM_TOLERANCE = 1e-4  # of a row of probabilities; a float32 softmax is well within
BLOCK_ROWS = 1 << 16
BLOCK_CELLS = 1 << 22  # rows × actions of a block: 32 MiB of probabilities
KEPT_CELLS = 1 << 23  # rows × actions that are kept for later: 64 MiB of probabilities


class LogRows(Protocol):
    """What a policy needs of a log; see `bopl.BanditLog`."""

    @property
    def n_samples(self) -> int: ...
    @property
    def n_actions(self) -> int: ...
    @property
    def context(self) -> Any: ...
    @property
    def feature_names(self) -> Sequence[str] | None: ...
    @property
    def schema(self) -> Any: ...
    @property
    def actions(self) -> AnyArray: ...
    @property
    def action_idx(self) -> IntArray: ...
    @property
    def action_mask(self) -> BoolArray | None: ...


def row_blocks(n_samples: int, n_actions: int) -> Iterator[slice]:
    """Yield the rows of a log in blocks that keep (rows, actions) matrices small."""
    step = max(min(BLOCK_ROWS, BLOCK_CELLS // n_actions), 1)
    for start in range(0, n_samples, step):
        yield slice(start, min(start + step, n_samples))


def fits_in_memory(log: LogRows) -> bool:
    """Return whether a number for each sample and action of a log is little enough to keep."""
    return log.n_samples * log.n_actions <= KEPT_CELLS


@dataclass(frozen=True)
class PolicyBlock:
    """Probabilities of a policy on some rows of a log."""

    logged_prob: FloatArray  # (n_rows,): probability of the logged action
    # (n_rows, n_actions): of all actions; None if the policy was given by its probabilities of the logged actions
    action_prob: FloatArray | None

    def differs_from(self, propensity: FloatArray) -> BoolArray:
        """Return which logged actions have another probability than their propensity: this policy did not log them."""
        return np.abs(self.logged_prob - propensity) > MATCH_TOLERANCE * propensity


@dataclass(frozen=True, eq=False)
class PolicyOnRows:
    """A policy's probabilities on the rows of a log that it reads in other columns."""

    action_prob: FloatArray  # (n_samples, n_actions): columns in the order of the actions of the log it is judged on
    policy: Any
    own_log: Any  # the same rows in the columns that the policy was fitted on


@dataclass(frozen=True)
class PolicyReader:
    """Reads a policy's probabilities on a log, block by block."""

    log: LogRows
    name: str
    policy: Any
    order: IntArray | None = None  # columns of an object's probabilities that are the log's actions
    takes_mask: bool = False
    on_rows: PolicyOnRows | None = None  # where the policy reads the rows in other columns

    @property
    def fitted(self) -> tuple[Any, Any]:
        """The policy, and the rows in the columns that it was fitted on."""
        return (self.policy, self.log) if self.on_rows is None else (self.on_rows.policy, self.on_rows.own_log)

    @property
    def given(self) -> Any:
        """The policy as `read_policy` takes it."""
        return self.policy if self.on_rows is None else self.on_rows

    @property
    def has_all_actions(self) -> bool:
        """Whether the probabilities of all actions are known, not only of the logged ones."""
        return not isinstance(self.policy, np.ndarray) or self.policy.ndim == 2

    def kept(self) -> PolicyReader:
        """Return a reader that does not score the rows again, if their probabilities are few enough to keep."""
        log = self.log
        if isinstance(self.policy, np.ndarray) or not fits_in_memory(log):
            return self
        policy, rows = self.fitted
        action_prob = np.empty((log.n_samples, log.n_actions))
        for part in row_blocks(log.n_samples, log.n_actions):
            action_prob[part] = self._predicted(part)
        return PolicyReader(log, self.name, action_prob, on_rows=PolicyOnRows(action_prob, policy, rows))

    def block(self, rows: slice | IntArray) -> PolicyBlock:
        """Return the probabilities on some rows."""
        if not self.has_all_actions:
            return PolicyBlock(self.policy[rows], None)
        is_array = isinstance(self.policy, np.ndarray)
        action_prob = self.policy[rows] if is_array else self._predicted(rows)
        action_idx = self.log.action_idx[rows]
        return PolicyBlock(logged_entries(action_prob, action_idx), action_prob)

    def _predicted(self, rows: slice | IntArray) -> FloatArray:
        mask, context = self.log.action_mask, self.log.context[rows]
        arguments = {"action_mask": mask[rows]} if self.takes_mask and mask is not None else {}
        found = self.policy.predict_proba(context, **arguments)
        action_prob = _as_numbers(found, self.name)
        expected = (context.shape[0], self.log.n_actions)
        order = self.order
        if order is None and is_frame(found):
            order = _frame_order(column_names(found), self.log, self.name)
        if order is not None and action_prob.shape == expected:
            action_prob = action_prob[:, order]
        _check_matrix(action_prob, self.name, expected, rows.start if isinstance(rows, slice) else 0)
        return action_prob


def read_policy(policy: object, log: LogRows, name: str = "the policy") -> PolicyReader:
    """Return a reader of a policy's probabilities, after checking what can be checked before scoring.

    Parameters
    ----------
    policy : object with ``predict_proba``, `PolicyOnRows`, array of shape (n_samples, n_actions) or (n_samples,)
        The last holds the probabilities of the logged actions alone. Columns of a frame that are named after the
        actions may come in any order.
    name : str
        How messages call it.
    """
    if isinstance(policy, PolicyOnRows):
        return replace(read_policy(policy.action_prob, log, name), on_rows=policy)
    if isinstance(policy, type):
        raise TypeError(f"{name} is the class {policy.__name__}; pass a fitted policy, {policy.__name__}(…).fit(log).")
    if hasattr(policy, "predict_proba"):
        order = _column_order(policy, log, name)
        check_contexts(policy, log, name)
        return PolicyReader(log, name, policy, order, "action_mask" in signature(policy.predict_proba).parameters)
    if isinstance(policy, str | bytes) or not hasattr(policy, "__len__"):
        raise TypeError(
            f"{name} must be a policy with predict_proba, an array of shape (n_samples, n_actions) or one of shape "
            f"(n_samples,); got {type(policy).__name__}."
        )
    order = None
    if is_frame(policy):
        order = _frame_order(column_names(policy), log, name)
    else:
        _check_no_labels(policy, log, name)
    array = _as_numbers(policy, name)
    if array.ndim == 1:
        _check_logged(array, name, log.n_samples)
    else:
        _check_matrix(array, name, (log.n_samples, log.n_actions), 0)
    return PolicyReader(log, name, array if order is None else array[:, order])


def _as_numbers(values: Any, name: str) -> FloatArray:
    try:
        return np.asarray(unmasked(values), dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"{name} must hold numbers, the probabilities of actions.") from None


def _column_order(policy: Any, log: LogRows, name: str) -> IntArray | None:
    """Return where the log's actions stand among the policy's; None if the policy does not say what its columns are."""
    labels = getattr(policy, "actions_", getattr(policy, "classes_", None))
    if labels is None:
        return None
    own, logged = np.asarray(labels).tolist(), log.actions.tolist()
    position = {label: column for column, label in enumerate(own)}
    known = set(logged)
    foreign = [label for label in own if label not in known] + [label for label in logged if label not in position]
    if foreign:
        raise ValueError(
            f"{name} has other actions than the log: {quoted(foreign)} {'is' if len(foreign) == 1 else 'are'} known to "
            "only one of the two. Build the log with the policy's actions, actions=policy.actions_."
        )
    return np.array([position[label] for label in logged])


def check_contexts(policy: Any, log: LogRows, name: str, called: str = "policy") -> None:
    """Raise if a policy or model was fitted on other columns than a log has, in another order, or on other categories.

    The context of a log has no names any more, so that it would be read by position.
    """
    fitted, schema = getattr(policy, "feature_names_in_", None), getattr(policy, "schema_", None)
    own, logged = list(map(str, [] if fitted is None else fitted)), list(log.feature_names or [])
    codes, logged_codes = (
        {} if one is None else {column: one.categories.get(column) for column in one.categorical}
        for one in (schema, log.schema)
    )
    if own and logged and own != logged:
        apart = [one for one in dict.fromkeys([*own, *logged]) if (one in own) != (one in logged)]
        said = f"was fitted on other columns: only one of the two has {quoted(apart)}"
        said = said if apart else f"was fitted on columns in another order, {quoted(own)}"
    elif schema is not None and log.schema is not None and codes != logged_codes:
        apart = [one for one in {**codes, **logged_codes} if codes.get(one) != logged_codes.get(one)]
        said = f"was fitted on other categories of {quoted(apart)}, which stand for other numbers there"
    else:
        return
    remedy = (
        f"Read the log with schema={called}.schema_" if schema is not None else "Pass its probabilities on these rows"
    )
    raise ValueError(f"{name} cannot read the contexts of the log: it {said}. {remedy}.")


def _frame_order(names: Sequence[Any], log: LogRows, name: str) -> IntArray | None:
    """Return where the log's actions stand among the columns of a frame; None if those are not named after actions."""
    own, logged = [str(one) for one in names], [str(label) for label in log.actions.tolist()]
    if set(own) == set(logged):
        return np.array([own.index(label) for label in logged])
    shared = [one for one in own if one in set(logged)]
    if shared and len(own) > 1:
        raise ValueError(
            f"{name} is a frame whose columns {quoted(shared)} are actions of the log, but others are not: name the "
            "columns after all actions, or pass an array with columns in the order of log.actions."
        )
    return None


def _check_no_labels(policy: Any, log: LogRows, name: str) -> None:
    """Raise if a policy was given by the actions it takes, which could pass for probabilities where there are two."""
    given, labels = np.asarray(policy), log.actions
    kinds = {"i": "iu", "u": "iu", "b": "b", "U": "U", "O": "OU"}.get(given.dtype.kind, "")
    if given.ndim != 1 or labels.dtype.kind not in kinds or not set(given.tolist()) <= set(labels.tolist()):
        return
    raise ValueError(
        f"{name} holds actions such as {shortened(given[0])}, not probabilities. For those of the logged actions pass "
        "(chosen == log.action).astype(float), and for those of all actions "
        "(chosen[:, None] == log.actions).astype(float)."
    )


def _check_logged(prob: FloatArray, name: str, n_samples: int) -> None:
    if prob.shape != (n_samples,):
        raise ValueError(
            f"{name} has {len(prob)} probabilities of logged actions, but the log has {n_samples} samples; each needs "
            "one."
        )
    bad = ~((prob >= 0.0) & (prob <= 1.0 + SUM_TOLERANCE))
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise ValueError(
            f"{name} must hold probabilities in [0, 1]; {int(bad.sum())} of {n_samples} are not, the first at row "
            f"{row} with {prob[row]:g}."
        )


def _check_matrix(prob: FloatArray, name: str, expected: tuple[int, int], first_row: int) -> None:
    if prob.shape != expected:
        raise ValueError(
            f"{name} must give probabilities of shape {expected}, one row per sample and one column per action; it has "
            f"shape {prob.shape}."
        )
    bad = ~(prob >= 0.0)
    if bad.any():
        row, column = (int(idx) for idx in np.argwhere(bad)[0])
        raise ValueError(
            f"{name} has probabilities that are negative or not a number, the first at row {row + first_row}, column "
            f"{column} with {prob[row, column]:g}. Use a softmax to turn scores into probabilities."
        )
    total = prob.sum(axis=1)
    off = np.abs(total - 1.0) > SUM_TOLERANCE
    if off.any():
        row = int(np.flatnonzero(off)[0])
        raise ValueError(
            f"{name} has probabilities that do not sum to one in {int(off.sum())} of {len(prob)} rows, the first at "
            f"row {row + first_row} with {total[row]:g}."
        )


def logged_entries(matrix: AnyArray, action_idx: IntArray) -> AnyArray:
    """Return each row's entry at its action, ``matrix[i, action_idx[i]]``, of shape (n_samples,).

    Parameters
    ----------
    matrix : ndarray of shape (n_samples, n_actions)
        Probabilities, scores, predicted rewards or a mask.
    action_idx : ndarray of shape (n_samples,)
        Position of each sample's action.
    """
    return matrix[np.arange(len(action_idx)), action_idx]
