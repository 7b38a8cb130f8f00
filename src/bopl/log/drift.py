"""Drift: how the held-out samples differ from the training samples, column by column.

Every column is tested with yes-or-no questions: is it at most this, is it that category, is it missing? If both parts
have the same distribution, the samples that say yes fall into them at random, and their number in the held-out part is
hypergeometric. Samples of one group fall together: they count as the number of independent samples with their variance.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from bopl._native import plain
from bopl._typing import AnyArray, BoolArray, FloatArray, IntArray
from bopl.log.context import is_sparse
from bopl.log.finding import NOTE, OK, Finding
from bopl.log.leak.column_bins import MISSING, bin_column
from bopl.log.leak.view import ColumnView, column_views

if TYPE_CHECKING:
    from bopl.log.bandit_log import BanditLog

ERROR = 1e-3  # of all columns together: how many logs without drift have a column that is named
MIN_DISTANCE = 0.05  # in standard deviations: smaller differences are told by none but large logs, and matter to few
MIN_COUNT = 10.0  # samples that say yes, and no, for a question to be asked
MAX_ROWS = 50_000  # of each part that are compared …
MAX_CELLS, MIN_ROWS = 20_000_000, 5_000  # … and fewer of wide logs, but no fewer than these
MIN_Z = 3.0  # below which no probability is computed
MAX_NAMED = 3  # columns that a sentence names
_SEED = 20_142


@dataclass(frozen=True)
class Drift:
    """A column in which the held-out part differs from the training part.

    Attributes
    ----------
    column : str or int
        Its name, or its position where columns have no names; ``"action"`` or ``"reward"`` for these.
    role : {"context", "action", "reward"}
    where : str
        The values that are more frequent in one part, as a clause.
    train, test : float
        Their share in both parts.
    distance : float
        The difference of the shares in standard deviations.
    p_value : float
        Of all columns together (Holm).
    """

    column: str | int
    role: str
    where: str
    train: float
    test: float
    distance: float
    p_value: float

    @property
    def clause(self) -> str:
        """The change, as a clause."""
        shares = f"{100.0 * self.train:.3g}% of the training samples and {100.0 * self.test:.3g}% of the held-out ones"
        return f"{self.where} in {shares}"

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values."""
        return {**asdict(self), "clause": self.clause}


def find_drift(train: BanditLog, test: BanditLog) -> tuple[Drift, ...]:
    """Return the columns in which two parts of a log differ beyond chance, the most different first."""
    parts = _Parts(_drawn(train), _drawn(test))
    asked = [one for one in parts.ask() if one is not None]
    order = sorted(range(len(asked)), key=lambda place: asked[place].p_value)
    found, least = [], 0.0
    for rank, place in enumerate(order):  # Holm's p-values
        least = max(least, min(asked[place].p_value * (parts.n_columns - rank), 1.0))
        if least <= ERROR and asked[place].distance >= MIN_DISTANCE:
            found.append(Drift(**{**asdict(asked[place]), "p_value": least}))
    return tuple(sorted(found, key=lambda one: -one.distance))


def drift_finding(drifts: Sequence[Drift]) -> Finding:
    """Return the finding on the two parts."""
    if not drifts:
        return Finding("drift", OK, 0.0, "No column differs between the training and the held-out part beyond chance.")
    listed = "; ".join(one.clause for one in drifts[:MAX_NAMED])
    more = f"; and {len(drifts) - MAX_NAMED} more columns" if len(drifts) > MAX_NAMED else ""
    return Finding(
        "drift",
        NOTE,
        drifts[0].distance,
        f"The held-out part differs from the training part: {listed}{more}. The verdict applies to samples like those "
        "held out.",
    )


def _drawn(log: BanditLog) -> BanditLog:
    """Return a log, or so many samples of it as are compared."""
    most = MAX_ROWS if is_sparse(log.context) else min(MAX_ROWS, max(MIN_ROWS, MAX_CELLS // max(log.n_features, 1)))
    if log.n_samples <= most:
        return log
    return log.subset(np.sort(np.random.default_rng(_SEED).permutation(log.n_samples)[:most]))


@dataclass(frozen=True, eq=False)
class _Question:
    """What was asked of a column, or of a part of it: how many samples said yes."""

    total: FloatArray  # (n_questions,): samples that said yes in both parts
    test: FloatArray  # (n_questions,): those of them in the held-out part
    second: FloatArray  # (n_questions,): sum of the squares of what groups said beyond the mean
    text: Any  # the clause of a question


class _Parts:
    """Two parts of a log, one below the other."""

    def __init__(self, train: BanditLog, test: BanditLog) -> None:
        self.train, self.test = train, test
        self.views = column_views(train)
        self.n_columns = len(self.views) + 2
        self.n_samples, self.n_test = train.n_samples + test.n_samples, test.n_samples
        self.is_test: BoolArray = np.arange(self.n_samples) >= train.n_samples

    @cached_property
    def group(self) -> IntArray | None:
        if self.train.group is None or self.test.group is None:
            return None
        first, second = (np.unique(group, return_inverse=True)[1] for group in (self.train.group, self.test.group))
        return np.concatenate([first, second + int(first.max()) + 1])

    @cached_property
    def size(self) -> FloatArray:
        """Samples of each group."""
        return np.ones(self.n_samples) if self.group is None else np.bincount(self.group).astype(np.float64)

    def ask(self) -> Iterator[Drift | None]:
        """Yield the answer that tells the two parts apart best, for each column."""
        yield self._worst("action", "action", [self._actions()])
        yield self._worst("reward", "reward", [self._numbers(self._both("reward"), "the reward is")])
        if is_sparse(self.train.context):
            yield from self._sparse()
            return
        for view in self.views:
            yield self._worst(view.name, "context", list(self._context(view)))

    def _both(self, field: str) -> AnyArray:
        return np.concatenate([getattr(self.train, field), getattr(self.test, field)])

    # -- Questions ------------------------------------------------------------------------------------------------

    def _actions(self) -> _Question:
        labels = self.train.actions
        code = self._both("action_idx")
        return self._count(code, len(labels), lambda place: f"the action is {plain(labels[place])!r}")

    def _context(self, view: ColumnView) -> Iterator[_Question]:
        values = zip(view.values(self.train.context), view.values(self.test.context), strict=True)
        names = (view.name,) if view.column is None else view.column.features
        for name, pair in zip(names, values, strict=True):
            what = f"column {name} is" if isinstance(name, int) else f"{name!r} is"
            both = np.concatenate(pair)
            yield self._categories(both, view, what) if view.is_category else self._numbers(both, what)

    def _categories(self, values: FloatArray, view: ColumnView, what: str) -> _Question:
        code = bin_column(values, is_category=True).code

        def text(place: int) -> str:
            held = np.unique(values[code == place])
            if place == MISSING or len(held) != 1 or view.column is None:
                return f"{what} {'missing' if place == MISSING else 'rare'}"
            return f"{what} {view.column.describe(float(held[0]))!r}"

        return self._count(code, int(code.max()) + 1, text)

    def _numbers(self, values: FloatArray, what: str) -> _Question:
        binned = bin_column(values)

        def text(place: int) -> str:
            held = values[binned.code <= place]
            present = held[~np.isnan(held)]
            if not len(present):
                return f"{what} missing"
            least, most = float(present.min()), float(present.max())
            or_missing = "missing or " if len(present) < len(held) else ""
            return f"{what} {or_missing}{'' if least == most else 'at most '}{most:g}"

        return self._count(binned.code, int(binned.code.max()) + 1, text, is_ordered=True)

    def _count(self, code: IntArray, n_bins: int, text: Any, *, is_ordered: bool = False) -> _Question:
        """Return the counts of each bin; of numbers, of each with those below it, what is missing lying lowest."""
        from scipy.sparse import csr_array

        each = csr_array((np.ones(self.n_samples), (np.arange(self.n_samples), code)), shape=(self.n_samples, n_bins))
        if not is_ordered:
            return self._ask_all(each, text)
        total, test = (np.bincount(rows, minlength=n_bins).astype(np.float64) for rows in (code, code[self.is_test]))
        total, test = np.cumsum(total), np.cumsum(test)
        rate = total / self.n_samples
        if self.group is None:
            return _Question(total, test, total * (1.0 - rate), text)
        said = np.cumsum(self._by_group(each).toarray(), axis=1)
        return _Question(total, test, ((said - self.size[:, None] * rate) ** 2).sum(axis=0), text)

    def _ask_all(self, present: AnyArray, text: Any) -> _Question:
        """Return the counts of each column of a sparse matrix of zeros and ones."""
        total, test = present.T @ np.ones(self.n_samples), present.T @ self.is_test.astype(np.float64)
        rate = total / self.n_samples
        if self.group is None:
            return _Question(total, test, total * (1.0 - rate), text)
        said = self._by_group(present)
        squares = said.power(2).T @ np.ones(len(self.size))
        return _Question(
            total, test, squares - 2.0 * rate * (said.T @ self.size) + rate**2 * (self.size**2).sum(), text
        )

    def _by_group(self, present: AnyArray) -> Any:
        from scipy.sparse import csr_array

        member = csr_array((np.ones(self.n_samples), (self.group, np.arange(self.n_samples))))
        return member @ present

    def _sparse(self) -> Iterator[Drift | None]:
        """Yield the answer of every column of a sparse context: is it there?"""
        from scipy.sparse import csr_array, vstack

        present = vstack([csr_array(self.train.context), csr_array(self.test.context)]).astype(np.float64).tocsr()
        present.data[:] = 1.0
        every = self._ask_all(present, None)
        for view in self.views:
            what = f"column {view.name} is there" if isinstance(view.name, int) else f"{view.name!r} is there"
            total, test, second = (part[view.place] for part in (every.total, every.test, every.second))
            asked = _Question(total, test, second, lambda _, what=what: what)
            yield self._worst(view.name, "context", [asked])

    # -- Answers --------------------------------------------------------------------------------------------------

    def _worst(self, name: str | int, role: str, questions: Sequence[_Question]) -> Drift | None:
        """Return the surest answer of a column; its p-value is of all questions that it was asked."""
        surest = [self._surest(question) for question in questions]
        n_asked = sum(one[3] for one in surest)
        number = min(range(len(surest)), key=lambda place: surest[place][0])
        p_value, distance, place, _ = surest[number]
        if p_value >= 1.0:
            return None
        question = questions[number]
        train = (question.total[place] - question.test[place]) / self.train.n_samples
        test = question.test[place] / self.n_test
        text = question.text(place)
        return Drift(name, role, text, float(train), float(test), distance, min(n_asked * p_value, 1.0))

    def _surest(self, question: _Question) -> tuple[float, float, int, int]:
        """Return the smallest p-value, its distance, its place, and how many questions there were."""
        rate = question.total / self.n_samples
        spread = self.n_samples * rate * (1.0 - rate)
        factor = np.maximum(question.second / np.maximum(spread, 1e-300), 1.0)  # samples that count for one
        asked = np.flatnonzero(np.minimum(question.total, self.n_samples - question.total) >= MIN_COUNT * factor)
        if not len(asked):
            return 1.0, 0.0, 0, 0
        share = self.n_test / self.n_samples
        z = (question.test - share * question.total) / np.sqrt(share * (1.0 - share) * np.maximum(spread * factor, 1.0))
        best = int(asked[np.abs(z[asked]).argmax()])
        if abs(z[best]) < MIN_Z:
            return 1.0, 0.0, best, len(asked)
        counts = (self.n_samples, question.total[best], self.n_test, question.test[best])
        distance = abs(float(z[best])) / np.sqrt(share * (1.0 - share) * self.n_samples / factor[best])
        return _chance(*(float(count) / factor[best] for count in counts)), float(distance), best, len(asked)


def _chance(n_samples: float, n_yes: float, n_test: float, n_yes_test: float) -> float:
    """Return the probability, from both sides, of so many or so few of those who say yes in the held-out part."""
    from scipy.stats import hypergeom

    n_all, yes, drawn, both = (round(number) for number in (n_samples, n_yes, n_test, n_yes_test))
    more = hypergeom.sf(both - 1, n_all, yes, drawn)
    less = hypergeom.sf(yes - both - 1, n_all, yes, n_all - drawn)
    return float(min(2.0 * min(more, less), 1.0))
