"""Hashes of samples and logs: which samples share a context, and which logs are the same."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from bopl._typing import AnyArray, ContextMatrix, IntArray
from bopl.log.context import is_sparse

if TYPE_CHECKING:
    from bopl.log.bandit_log import BanditLog

MIN_COMPILED = 1 << 20  # entries from which it is worth loading compiled code to hash them
MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
Keys = npt.NDArray[np.uint64]


class ContextKeys:
    """Hashes of a log's contexts, computed when they are first asked for, and once for all logs that share them.

    ``keys`` are given where they are known already.
    """

    def __init__(self, keys: Keys | None = None) -> None:
        self._keys = keys

    def of(self, context: ContextMatrix) -> Keys:
        """Return the hashes; the contexts must be those of the log."""
        if self._keys is None:
            self._keys = context_keys(context)
        return self._keys

    def subset(self, rows: IntArray) -> ContextKeys:
        """Return those of some rows, which need not be hashed again."""
        return ContextKeys(None if self._keys is None else self._keys[rows])

    def __reduce__(self) -> tuple[type[ContextKeys], tuple[()]]:
        return ContextKeys, ()  # cheaper to compute than to send


def keys_of(log: BanditLog) -> Keys:
    """Return a hash of every context of a log; see `context_keys`."""
    return log._context_keys.of(log.context)


def group_identical_contexts(context: ContextMatrix, keys: Keys | None = None) -> IntArray:
    """Return a group number per sample; samples are in one group when all their context values are equal.

    Missing values equal each other. Time is O(n_samples · n_features): rows are hashed, not sorted. ``keys`` are those
    of `context_keys`, where they are known.
    """
    keys = context_keys(context) if keys is None else keys
    _, first, group = np.unique(keys, return_index=True, return_inverse=True)
    if not _rows_equal(context, first[group]):  # two rows with one 64-bit hash: sort the rows themselves
        _, group = np.unique(_dense(context), axis=0, return_inverse=True, equal_nan=True)
    return np.asarray(group).reshape(-1)


def context_keys(context: ContextMatrix) -> Keys:
    """Return a hash of every context: equal rows have equal keys, in every process."""
    return _hash_sparse_rows(context) if is_sparse(context) else _hash_dense_rows(context)


def decision_keys(log: BanditLog, actions: AnyArray | None = None) -> Keys:
    """Return a hash of context and action of every sample; actions are numbered as in the log, or as in ``actions``."""
    action_idx = log.action_idx
    if actions is not None and log.actions.tolist() != actions.tolist():
        position = {label: number for number, label in enumerate(actions.tolist())}
        action_idx = np.array([position.get(label, -1) for label in log.actions.tolist()])[action_idx]
    return mix(keys_of(log) + action_idx.astype(np.uint64) + MULTIPLIER)


def row_keys(log: BanditLog) -> Keys:
    """Return a hash of context, action and reward of every sample."""
    return mix(decision_keys(log) + (log.reward + 0.0).view(np.uint64))


def sample_keys(log: BanditLog) -> Keys:
    """Return a hash of all that training reads of every sample: context, action, reward, propensity, mask."""
    keys = mix(row_keys(log) + (log.propensity + 0.0).view(np.uint64))
    return keys if log.action_mask is None else mix(keys + context_keys(log.action_mask.astype(np.float32)))


def content_digest(keys: Iterable[Keys], log: Any) -> str:
    """Return a hash of a log's contents from those of its samples, in order: it is the same in pieces and in memory.

    ``keys`` are those of `sample_keys`, of all samples or of one piece after the other.
    """
    digest = digest_of(keys)
    features = None if log.action_features is None else np.asarray(log.action_features, np.float64).tolist()
    digest.update(repr((log.n_samples, log.actions.tolist(), log.feature_names, features)).encode())
    return digest.hexdigest()


def digest_of(arrays: Iterable[AnyArray]) -> hashlib._Hash:
    """Return the SHA-256 of arrays, one after the other."""
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(np.ascontiguousarray(array).data)
    return digest


def fingerprint_of(log: BanditLog) -> str:
    """Return a hash of a log's arrays, actions and names: equal for equal logs, in every process."""
    digest = hashlib.sha256()
    for array in _arrays_of(log):
        digest.update(f"{array.dtype.str}{array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data)
    digest.update(repr((log.actions.tolist(), log.feature_names)).encode())
    return digest.hexdigest()


def _arrays_of(log: BanditLog) -> Iterator[AnyArray]:
    if is_sparse(log.context):
        yield from (log.context.indptr.astype(np.int64), log.context.indices.astype(np.int64), log.context.data)
    else:
        yield log.context
    yield from (log.action_idx, log.reward, log.propensity)
    yield from (part for part in (log.action_mask, log.action_features) if part is not None)


def mix(bits: Keys) -> Keys:
    """Return numbers that are spread over all 64 bits, equal for equal ones."""
    bits = (bits ^ (bits >> np.uint64(31))) * MULTIPLIER
    return bits ^ (bits >> np.uint64(29))


def _value_bits(values: AnyArray) -> Keys:
    """Return bits that are equal for equal values: one zero, one NaN."""
    canonical = np.where(np.isnan(values), np.float32(np.nan), values + np.float32(0.0))
    return canonical.astype(np.float32).view(np.uint32).astype(np.uint64)


def entry_keys(column_idx: Keys, values: AnyArray) -> Keys:
    """Return a hash of (column, value) for every entry, 0 for zeros: a row's key is the sum over its entries."""
    keys = mix(mix(column_idx + np.uint64(1)) + _value_bits(values))
    return np.where(values == 0.0, np.uint64(0), keys)


def column_keys(context: AnyArray, columns: Sequence[int]) -> Keys:
    """Return the sum of the hashes of every row's entries in some columns of dense contexts."""
    keys = np.zeros(len(context), dtype=np.uint64)
    kernel = _kernel_for(context)
    if kernel is not None:
        kernel.add_entry_keys(_words(context), *_salted(columns), keys)
        return keys
    for column_idx in columns:
        keys += entry_keys(np.array([column_idx], dtype=np.uint64), context[:, column_idx])
    return keys


def keys_without(context: AnyArray, columns: Sequence[int], total: Keys) -> Keys:
    """Return keys of rows without some of their columns: ``total`` is the sum of the hashes of all entries."""
    kernel = _kernel_for(context)
    if kernel is None:
        return mix(total - column_keys(context, columns))
    keys = np.empty(len(context), dtype=np.uint64)
    kernel.write_keys_without(_words(context), *_salted(columns), total, keys)
    return keys


def _kernel_for(context: AnyArray) -> Any:
    """Return the compiled hashes of contexts that are large enough for them, None for others."""
    if context.dtype != np.float32 or not context.flags.c_contiguous or context.size < MIN_COMPILED:
        return None
    try:
        from bopl.log import identical_kernel
    except ImportError:  # policies without trees run without the compiled layer
        return None
    return identical_kernel


def _words(context: AnyArray) -> AnyArray:
    words = context.view(np.uint32)
    words.flags.writeable = False  # as most are: for the other kind numba would compile anew
    return words


def _salted(columns: Sequence[int]) -> tuple[IntArray, Keys]:
    """Return the numbers of columns, and their hashes."""
    number = np.array(columns, dtype=np.int64)
    return number, mix(number.astype(np.uint64) + np.uint64(1))


def _hash_dense_rows(context: AnyArray) -> Keys:
    return mix(column_keys(context, range(context.shape[1])))


def _hash_sparse_rows(context: ContextMatrix) -> Keys:
    entry = entry_keys(context.indices.astype(np.uint64), context.data)
    running = np.concatenate([np.zeros(1, dtype=np.uint64), np.cumsum(entry, dtype=np.uint64)])
    return mix(running[context.indptr[1:]] - running[context.indptr[:-1]])  # sums modulo 2**64 subtract exactly


def _rows_equal(context: ContextMatrix, other: IntArray) -> bool:
    moved = np.flatnonzero(other != np.arange(context.shape[0]))  # most rows are the first of their group
    if moved.size == 0:
        return True
    left, right = context[moved], context[other[moved]]
    if is_sparse(context):
        same = np.array_equal(left.indptr, right.indptr) and np.array_equal(left.indices, right.indices)
        return bool(same and np.array_equal(left.data, right.data, equal_nan=True))
    return bool(np.array_equal(left, right, equal_nan=True))


def _dense(context: ContextMatrix) -> AnyArray:
    return np.asarray(context.toarray() if is_sparse(context) else context)
