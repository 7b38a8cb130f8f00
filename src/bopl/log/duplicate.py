"""Decisions that were logged more than once: detected beyond chance, and dropped by key columns.

Two samples with one context drew their actions independently: the second repeats the action of the first with just the
probability that the propensity says. Copies always repeat it. So agreements beyond the sum of the propensities are
copies, however often contexts come again by themselves. Where contexts are few, most samples that follow another one
with the same context are no copies, and a small excess could be the propensities' fault: there, samples that follow at
once are compared with those that follow later, for copies are delivered soon, and a wrong propensity is wrong always.
And where everything came twice, every combination of context, action and reward occurs an even number of times.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from bopl._interrupt import each_column
from bopl._typing import BoolArray, FloatArray, IntArray
from bopl.log.context import is_sparse
from bopl.log.identical import Keys, column_keys, keys_of, keys_without, mix

if TYPE_CHECKING:
    from bopl.log.bandit_log import BanditLog

MAX_ROWS = 200_000  # rows that are compared; of a larger log those with small hashes, so that copies stay together
MAX_WORK = 200_000_000  # entries that are hashed once more to leave one column out
MIN_COPIES = 5.0  # fewer can be chance
MIN_COPIED = 0.3  # share of the pairs that are copies; a smaller excess can come from propensities that are off
MIN_NEAR = 0.03  # share of the pairs that are copies, where those that follow later say what chance does
FAR = range(3, 6)  # how many samples later, among those with the same context, "later" is
MIN_EVEN = 0.95  # share of the combinations that occur an even number of times where everything came twice
MAX_P = 1e-6  # of all the tests on one log together
MIN_DRAWN = 0.8  # share of the pairs that repeat a draw; a column that partly reveals the action repeats fewer
MIN_DRAWS = 100  # repeated contexts from which samples with the same one can be counted as one draw


@dataclass(frozen=True)
class NearExcess:
    """How much oftener samples have the action of the one before them in their context than of one farther back."""

    excess: float  # difference of the two shares, each less what the propensities explain
    chance: float  # share of those farther back that agree
    z: float  # the excess in standard errors
    n_pairs: int  # samples that follow at once
    n_agreeing: int  # those that agree


@dataclass(frozen=True)
class Repetition:
    """How often samples that agree in their contexts agree in their actions."""

    column: str | None  # context column that was left out of the comparison
    n_pairs: int  # samples that follow another one with the same context
    n_agreeing: int  # those that have its action
    n_expected: float  # those that should, by the propensities
    n_cells: int  # combinations of context, action and reward
    n_even: int  # those that occur an even number of times; by chance at most half of them do
    n_rows: int  # rows that were looked at
    share: float = 1.0  # their share of all rows
    # how much oftener samples that follow at once agree than those that follow later; None if none follow later
    near: NearExcess | None = None
    columns: tuple[str | int, ...] = ()  # those that alone were compared, if not the whole context
    key: Keys | None = field(default=None, repr=False, compare=False)  # (n_samples,): equal for those compared

    def as_groups(self, log: BanditLog) -> BanditLog:
        """Return a log in which samples that were compared are one group, as one draw may have served all of them."""
        from bopl.log.bandit_log import replaced

        if log.group is not None or self.key is None:
            return log
        _, group, count = np.unique(self.key, return_inverse=True, return_counts=True)
        return replaced(log, group=group) if np.count_nonzero(count > 1) >= MIN_DRAWS else log

    def is_sure(self, n_tests: int = 1) -> bool:
        """Whether one of so many comparisons shows more copies than chance and small errors of propensities make."""
        return self.has_many and self.p_value() <= MAX_P / n_tests

    @property
    def is_near(self) -> bool:
        """Whether the copies show only beside samples that follow later: too few of the pairs are copies."""
        is_plain = self._n_plain >= max(MIN_COPIES, MIN_COPIED * self.n_pairs / self.share)
        return self.near is not None and not self.is_doubled and not is_plain

    @property
    def has_many(self) -> bool:
        """Whether there are so many copies that chance and small errors of the propensities do not make them."""
        least = MIN_NEAR if self.is_near else MIN_COPIED
        return self.n_copies >= max(MIN_COPIES, least * self.n_pairs / self.share)

    @property
    def is_doubled(self) -> bool:
        """Whether nearly all combinations occur an even number of times: everything was logged twice."""
        return self.n_even >= MIN_EVEN * self.n_cells

    @property
    def n_copies(self) -> float:
        """Samples of the whole log that are copies, about."""
        if self.is_doubled:
            return 0.5 * self.n_rows / self.share
        if self.is_near and self.near is not None:
            return max(self.near.excess, 0.0) / max(1.0 - self.near.chance, 1e-9) * self.n_pairs / self.share
        return self._n_plain

    @property
    def _n_plain(self) -> float:
        excess = self.n_agreeing - self.n_expected
        chance = self.n_expected / max(self.n_pairs, 1)
        return max(excess, 0.0) / max(1.0 - chance, 1e-9) / self.share

    def p_value(self) -> float:
        """Return the probability of so many agreements, or even numbers, by chance, from above."""
        from scipy.stats import binom, norm, poisson

        if self.is_doubled:
            return float(binom.sf(self.n_even - 1, self.n_cells, 0.5))
        if self.is_near and self.near is not None:
            return float(norm.sf(self.near.z))
        return float(poisson.sf(self.n_agreeing - 1, max(self.n_expected, 1e-12)))


# -- Finding ----------------------------------------------------------------------------------------------------------


def find_copies(log: BanditLog) -> Repetition | None:
    """Return the comparison that shows most copies, None if none shows more than chance explains.

    Contexts are compared in all columns that do not name rows, and in all but one of them. Where samples have groups,
    those of one group are not compared: folds and intervals keep them together.
    """
    return _most_copies(_repetitions(log))


def find_copies_in_groups(log: BanditLog) -> Repetition | None:
    """Return the comparison of samples of one group that shows most copies; None without groups, or if none does."""
    from bopl.log.bandit_log import replaced

    if log.group is None:
        return None
    return _most_copies(_repetitions(replaced(log, group=None, group_labels=None), within=log.group))


def _most_copies(tried: Sequence[Repetition]) -> Repetition | None:
    sure = [one for one in tried if one.is_sure(len(tried))]
    if not sure:
        return None
    most = max(one.n_copies for one in sure)
    return next(one for one in sure if one.n_copies >= 0.8 * most)  # all columns come first


def find_shared_draws(log: BanditLog, columns: Mapping[str | int, IntArray]) -> Repetition | None:
    """Return what shows that samples share a draw which agree in these columns, given by their places, or in all.

    A user who keeps the action once drawn is known by such columns, and they need not be all of the context.
    """
    if log.group is not None or not log.has_propensity or is_sparse(log.context):
        return None
    key = mix(column_keys(log.context, np.concatenate(list(columns.values())).tolist()))
    own = replace(_compare(log, key, None), columns=tuple(columns))
    is_draw = own.is_sure() and own.n_copies * own.share >= MIN_DRAWN * own.n_pairs
    found = own if is_draw and own.as_groups(log) is not log else find_copies(log)
    return None if found is None or found.as_groups(log) is log else found


def _repetitions(log: BanditLog, within: IntArray | None = None) -> list[Repetition]:
    """Return the comparison in all columns, and in all but one; where times are known, also of samples of one time.

    Only samples that agree in ``within`` are compared, if it is given.
    """
    if is_sparse(log.context):
        total, columns = keys_of(log), []
    else:
        columns = [(name, features) for name, features, is_identifier in _columns(log) if not is_identifier]
        total = column_keys(log.context, [idx for _, features in columns for idx in features])
    if within is not None:
        total = total + mix(within.astype(np.uint64) + np.uint64(1))
    totals = [total]
    if log.time is not None:
        totals.append(total + mix(np.unique(log.time, return_inverse=True)[1].astype(np.uint64) + np.uint64(1)))
    n_most = max(MAX_WORK // max(log.n_samples, 1), 1) if len(columns) > 1 else 0

    def compare_without(column: tuple[str, range]) -> list[Repetition]:
        name, features = column
        return [_compare(log, keys_without(log.context, features, one), name) for one in totals]

    found = [_compare(log, mix(one), None) for one in totals]
    return [*found, *chain.from_iterable(each_column(compare_without, columns[:n_most], log.n_samples))]


def _columns(log: BanditLog) -> Iterator[tuple[str, range, bool]]:
    """Yield name and features of every context column, and whether it names rows."""
    if log.schema is None:
        names = log.feature_names or [f"column {idx}" for idx in range(log.n_features)]
        yield from ((name, range(idx, idx + 1), False) for idx, name in enumerate(names))
        return
    for column, place in log.schema.places():
        yield column.name, range(place.start, place.stop), column.is_identifier


def _compare(log: BanditLog, key: Keys, column: str | None) -> Repetition:
    """Compare each sample with the one before it that has the same key."""
    share = min(1.0, MAX_ROWS / log.n_samples)
    rows: IntArray = np.arange(log.n_samples)
    if share < 1.0:
        rows = np.flatnonzero(key < np.uint64(int(share * 2.0**64)))
    if not _has_repeats(key[rows]):  # then there is nothing to compare
        n_cells = len(rows) if log.group is None else 1
        return Repetition(column, 0, 0, 0.0 if log.has_propensity else float("inf"), n_cells, 0, len(rows), share)
    by_key = (key[rows],) if log.time is None else (log.time[rows], key[rows])  # the last of them counts first
    order = rows[np.lexsort(by_key)]
    earlier, later = order[:-1], order[1:]
    is_pair = key[earlier] == key[later]
    if log.group is not None:
        is_pair &= log.group[earlier] != log.group[later]
    earlier, later = earlier[is_pair], later[is_pair]
    expected = float("inf")
    if log.has_propensity:
        chance = _chance(log.propensity[earlier], log.propensity[later], is_same_context=column is None)
        expected = float(chance.sum())
    agreeing = int((log.action_idx[earlier] == log.action_idx[later]).sum())
    n_cells, n_even = (1, 0) if log.group is not None else _count_cells(log, key, rows)
    near = _near_excess(log, key, order) if log.has_propensity else None
    return Repetition(column, len(earlier), agreeing, expected, n_cells, n_even, len(rows), share, near, key=key)


def _has_repeats(key: Keys) -> bool:
    """Return whether a key occurs twice; a plain sort is several times as quick as one that remembers places."""
    ordered = np.sort(key)
    return bool((ordered[1:] == ordered[:-1]).any())


def _near_excess(log: BanditLog, key: Keys, order: IntArray) -> NearExcess | None:
    """Compare samples with the one before them in their context, and with some farther back.

    With ``h(i, j) = 1{a_i = a_j} - p_i - p_j`` two pairs are uncorrelated under chance, also if they share a sample,
    and what the mean of ``h`` is in a context cancels between near and far pairs.
    """
    last = order[FAR[-1] :]  # every sample that has one far enough back, if it has the same key
    if not len(last):
        return None
    has_far = key[order[: -FAR[-1]]] == key[last]
    near = _agreement(log, order, 1, has_far)
    far = [_agreement(log, order, lag, has_far) for lag in FAR]
    n_far = sum(len(one) for one, _ in far)
    if len(near[0]) < MIN_COPIES or n_far < MIN_COPIES:
        return None
    h_far = np.concatenate([one for one, _ in far])
    excess = float(near[0].mean() - h_far.mean())
    variance = float(h_far.var()) * (1.0 / len(near[0]) + 1.0 / n_far)
    chance = float(np.concatenate([agrees for _, agrees in far]).mean())
    z = excess / np.sqrt(variance) if variance > 0.0 else 0.0
    return NearExcess(excess, chance, float(z), len(near[0]), int(near[1].sum()))


def _agreement(log: BanditLog, order: IntArray, lag: int, has_far: BoolArray) -> tuple[FloatArray, BoolArray]:
    """Return h of the samples and those that stand ``lag`` before them, and whether they have one action."""
    later = order[FAR[-1] :][has_far]
    earlier = order[FAR[-1] - lag : len(order) - lag][has_far]
    if log.group is not None:
        is_apart = log.group[later] != log.group[earlier]
        later, earlier = later[is_apart], earlier[is_apart]
    agrees = log.action_idx[later] == log.action_idx[earlier]
    return agrees - log.propensity[later] - log.propensity[earlier], agrees


def _count_cells(log: BanditLog, key: Keys, rows: IntArray) -> tuple[int, int]:
    """Return how many combinations of key, action and reward there are, and how many occur an even number of times."""
    reward = (log.reward[rows] + 0.0).view(np.uint64)
    cell = mix(mix(key[rows] + log.action_idx[rows].astype(np.uint64)) + reward)
    count = np.unique(cell, return_counts=True)[1]
    return len(count), int((count % 2 == 0).sum())


def _chance(earlier: FloatArray, later: FloatArray, *, is_same_context: bool) -> FloatArray:
    """Return the probability that the later sample has the earlier one's action, from above.

    In one context that is the earlier one's propensity. In two contexts it is the inner product of two distributions,
    on average at most the mean of their squared lengths, which is that of the propensities.
    """
    return earlier if is_same_context else 0.5 * (earlier + later)


# -- Leaving out ------------------------------------------------------------------------------------------------------


def repeated_rows(columns: Sequence[Any]) -> BoolArray:
    """Return which rows agree with an earlier one in all of these arrow columns."""
    n_rows = len(columns[0])
    code = np.zeros(n_rows, dtype=np.int64)
    for column in columns:
        own = _codes(column)
        code = np.unique(code * (int(own.max(initial=0)) + 1) + own, return_inverse=True)[1].reshape(-1)
    _, first = np.unique(code, return_index=True)
    repeated = np.ones(n_rows, dtype=np.bool_)
    repeated[first] = False
    return repeated


def _codes(column: Any) -> IntArray:
    """Return a number for each value of an arrow column, equal for equal values; missing ones equal each other."""
    import pyarrow

    values = column.combine_chunks() if isinstance(column, pyarrow.ChunkedArray) else column
    if not pyarrow.types.is_dictionary(values.type):
        try:
            values = values.dictionary_encode()
        except pyarrow.ArrowNotImplementedError:  # lists
            values = pyarrow.array([repr(one) for one in values.to_pylist()]).dictionary_encode()
    index = values.indices.cast(pyarrow.int64()).fill_null(-1).to_numpy(zero_copy_only=False) + 1
    place = {label: idx for idx, label in reversed(list(enumerate(values.dictionary.to_pylist(), start=1)))}
    moved = [0, *(place[label] if label == label else 0 for label in values.dictionary.to_pylist())]
    return np.asarray(moved, dtype=np.int64)[index]
