"""Splits of a log: at random, or by time with nothing of the future in training; and what was held out, in words."""

from __future__ import annotations

import warnings
from dataclasses import asdict, dataclass, replace
from numbers import Number, Real
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar

import numpy as np

from bopl._errors import DroppedSamplesWarning, shortened
from bopl._native import plain
from bopl._settings import check_number, generator_of
from bopl._typing import AnyArray, BoolArray, IntArray
from bopl.log.instant import instant_text

if TYPE_CHECKING:
    from bopl.log.bandit_log import BanditLog
    from bopl.log.drift import Drift
    from bopl.log.pieces.partitioned import PartitionedLog  # noqa: F401 (named in a string)

SomeLog = TypeVar("SomeLog")

MAX_DROPPED = 0.5  # share of the earlier samples that may be dropped without a warning
MAX_LARGER = 1.5  # held-out part beside what was asked for, from which that is said
MAX_COMPARED = 100_000  # samples of each part that drift is looked for in


class NothingToTrainOnError(ValueError):
    """The samples before the held-out part are all of groups that it has as well."""


@dataclass(frozen=True)
class PartFacts:
    """One part of a split.

    Attributes
    ----------
    n_samples : int
    n_groups : int or None
        None for a log without groups.
    first, last : numpy.datetime64, number or None
        The earliest and the latest time; None for a log without times.
    """

    n_samples: int
    n_groups: int | None
    first: Any
    last: Any

    @property
    def text(self) -> str:
        """The part in words: how many samples and groups, from when to when."""
        groups = "" if self.n_groups is None else f" of {_counted(self.n_groups, 'group')}"
        when = "" if self.first is None else f" from {instant_text(self.first)} to {instant_text(self.last)}"
        return f"{_counted(self.n_samples, 'sample')}{groups}{when}"

    def to_dict(self) -> dict[str, Any]:
        """Return the facts as plain values; times that are dates as text."""
        return {**asdict(self), "first": _plain(self.first), "last": _plain(self.last)}


@dataclass(frozen=True)
class SplitFacts:
    """What a split has held out.

    Attributes
    ----------
    by : {"random", "time", "group"}
    train, test : PartFacts
    n_dropped, n_dropped_groups : int
        Earlier samples that are in neither part, because their groups are in the test part, and how many groups those
        are.
    why_random : str
        Why a log with times is divided at random all the same; empty otherwise.
    too_large : str
        What to do about a group that made the held-out part far larger than asked for, in a sentence; else empty.
    """

    by: str
    train: PartFacts
    test: PartFacts
    n_dropped: int = 0
    n_dropped_groups: int = 0
    why_random: str = ""
    too_large: str = ""

    @property
    def sentence(self) -> str:
        """What was held out, what is trained on, and what was dropped."""
        text = f"Held out: {self.test.text}{self.drawn}. Training: {self.train.text}."
        return " ".join(part for part in (text, self.dropped if self.n_dropped else "", self.too_large) if part)

    @property
    def drawn(self) -> str:
        """How the held-out part was drawn, with a comma before it; nothing where it is the latest part."""
        why = f", as {self.why_random}" if self.why_random else ""
        return f", drawn at random{why}" if self.by == "random" else ""

    @property
    def dropped(self) -> str:
        """What was dropped and why, in a sentence."""
        return (
            f"Dropped from training: {_counted(self.n_dropped, 'earlier sample')} of "
            f"{_counted(self.n_dropped_groups, 'group')} that are also in the held-out part."
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the facts as plain values."""
        return {
            "by": self.by,
            "train": self.train.to_dict(),
            "test": self.test.to_dict(),
            "n_dropped": self.n_dropped,
            "n_dropped_groups": self.n_dropped_groups,
            "sentence": self.sentence,
        }


class Numbered(Protocol):
    """Samples in order, with their times and groups where they have such: a log, or these columns of one in pieces."""

    @property
    def n_samples(self) -> int:
        """Number of samples."""
        ...

    @property
    def time(self) -> AnyArray | None:
        """Their times."""
        ...

    @property
    def group(self) -> IntArray | None:
        """Their groups, as whole numbers from 0."""
        ...


@dataclass(frozen=True)
class Division:
    """Rows of a log in two parts, and those that are in neither.

    Attributes
    ----------
    by : {"random", "time", "group"}
    train, test, dropped : ndarray of int64
        Sorted.
    why_random, too_large : str
        See `SplitFacts`.
    """

    by: str
    train: IntArray
    test: IntArray
    dropped: IntArray
    why_random: str = ""
    too_large: str = ""

    def facts(self, log: Numbered) -> SplitFacts:
        """Return what the division holds out of a log."""
        n_groups = 0 if log.group is None else len(np.unique(log.group[self.dropped]))
        parts = _part(log, self.train), _part(log, self.test)
        return SplitFacts(self.by, *parts, len(self.dropped), n_groups, self.why_random, self.too_large)

    def split(self, log: BanditLog) -> LogSplit:
        """Return the two logs."""
        return LogSplit(log.subset(self.train), log.subset(self.test), self.facts(log))


class SplitPair(tuple[SomeLog, SomeLog]):
    """The pair ``(train, test)`` of logs; ``print`` says what was held out.

    Attributes
    ----------
    facts : SplitFacts
        Samples, groups, first and last time of both parts, and what was dropped.
    """

    facts: SplitFacts

    def __new__(cls, train: SomeLog, test: SomeLog, facts: SplitFacts) -> Self:
        """Return the pair."""
        pair = super().__new__(cls, (train, test))
        pair.facts = facts
        return pair

    def __getnewargs__(self) -> tuple[SomeLog, SomeLog, SplitFacts]:
        return (*self, self.facts)

    @property
    def train(self) -> SomeLog:
        """The part to train on."""
        return self[0]

    @property
    def test(self) -> SomeLog:
        """The part to judge on."""
        return self[1]

    def __str__(self) -> str:
        return self.facts.sentence

    def __repr__(self) -> str:
        return f"{type(self).__name__}(train={self[0]!r}, test={self[1]!r})"


class LogSplit(SplitPair["BanditLog"]):
    """The pair ``(train, test)`` of logs in memory, with their ``facts``; ``print`` says what was held out."""

    def drift(self) -> tuple[Drift, ...]:
        """Return the columns, action and reward included, that differ between the parts beyond chance, worst first."""
        from bopl.log.drift import find_drift

        return find_drift(*self)


def divide(log: Numbered, test_fraction: float, *, by: str = "random", random_state: int | None = None) -> Division:
    """Divide the rows of a log; see `BanditLog.split`."""
    if not isinstance(test_fraction, Real):
        raise TypeError(f"test_fraction must be a number; got {test_fraction!r}.")
    if not 0.0 < test_fraction < 1.0:
        raise ValueError(f"test_fraction must lie strictly between 0 and 1; got {test_fraction!r}.")
    if isinstance(random_state, Number | str):  # not a generator
        check_number("random_state", random_state, low=0, integer=True)
    n_test = round(log.n_samples * test_fraction)
    if not 0 < n_test < log.n_samples:
        raise ValueError(
            f"test_fraction={test_fraction:g} of {log.n_samples} samples leaves one part empty; use a larger log "
            "or another fraction."
        )
    if not isinstance(by, str) or by not in ("random", "time", "group"):
        raise ValueError(f"by must be 'random', 'time' or 'group'; got {shortened(by)}.")
    if by == "group" and log.group is None:
        raise ValueError("split(by='group') needs the group of each sample: build the log with group=….")
    if by in ("random", "group"):
        return _divide_at_random(log, n_test, by, random_state)
    return divide_at(log, _cut(times_of(log), n_test))


def divide_latest(log: Numbered, test_fraction: float, *, random_state: int | None = None) -> Division:
    """Divide by time where that is possible, else at random; samples of one group are never in both parts.

    It is possible where times are known, some are later than others, and the groups that go on into the latest part
    leave at least half of the earlier samples. Samples are drawn at random otherwise, and the division says why.
    """
    if log.time is None:
        return divide(log, test_fraction, random_state=random_state)
    why = "all samples have the same time" if log.time.min() == log.time.max() else ""
    if not why:
        try:
            by_time = divide(log, test_fraction, by="time")
        except NothingToTrainOnError:
            why = "every group has samples in the latest part"
        else:
            if len(by_time.dropped) <= MAX_DROPPED * (len(by_time.train) + len(by_time.dropped)):
                return by_time
            why = "most groups have samples in the latest part"
    return replace(divide(log, test_fraction, random_state=random_state), why_random=why)


def divide_at(log: Numbered, start: Any, *, stop: Any = None, since: Any = None) -> Division:
    """Divide a log at a time: what lies before it trains, what lies at it or after it is held out.

    Groups with samples on both sides leave the training part. They could leave the held-out part instead, but what is
    left there would be those who came for the first time, and the verdict would be about them alone. Samples from
    ``stop`` on, and those before ``since``, are in neither part.
    """
    time = times_of(log)
    is_test = (time >= start) & (True if stop is None else time < stop)
    is_past = (time < start) & (True if since is None else time >= since)
    is_dropped = np.zeros(log.n_samples, dtype=bool) if log.group is None else is_past & _shares_group(log, is_test)
    train, test, dropped = (np.flatnonzero(rows) for rows in (is_past & ~is_dropped, is_test, is_dropped))
    division = Division("time", train, test, dropped)
    if not len(division.train):
        _refuse(division, start)
    return division


def warn_of_dropped(facts: SplitFacts) -> None:
    """Warn if groups took most of the training part with them."""
    n_past = facts.train.n_samples + facts.n_dropped
    if facts.n_dropped > MAX_DROPPED * n_past:
        warnings.warn(
            f"{facts.n_dropped / n_past:.0%} of the samples before the held-out part are not used for training. "
            f"{facts.dropped}",
            DroppedSamplesWarning,
            stacklevel=3,
        )


def times_of(log: Numbered) -> AnyArray:
    """Return the times of a log, or raise if it has none."""
    if log.time is None:
        raise ValueError("split(by='time') needs the time of each decision: build the log with time=….")
    return log.time


def _refuse(division: Division, start: Any) -> None:
    if not len(division.dropped):
        raise ValueError(f"no sample lies before {instant_text(start)}: there is nothing to train on.")
    raise NothingToTrainOnError(
        f"every group with samples before {instant_text(start)} also has some after it, so that nothing is left to "
        "train on: samples of one group must not be in both parts. Split at random, which keeps groups whole, or leave "
        "out the group if its samples are independent."
    )


def _shares_group(log: Numbered, rows: BoolArray) -> BoolArray:
    """Return which samples are of a group that has some of these rows."""
    assert log.group is not None
    has_row = np.zeros(int(log.group.max()) + 1, dtype=bool)
    has_row[log.group[rows]] = True
    return has_row[log.group]


def _cut(time: AnyArray, n_test: int) -> Any:
    """Return the first time to hold out, so that the held-out part is as near to ``n_test`` samples as times allow."""
    ordered = np.sort(time)
    n_samples = len(ordered)
    if ordered[0] == ordered[-1]:
        raise ValueError(
            f"all {n_samples} samples have the same time, {instant_text(ordered[0])}, so none is later than "
            "another. Split at random, or use a column with different times."
        )
    at = ordered[n_samples - n_test]
    first, after = (int(np.searchsorted(ordered, at, side)) for side in ("left", "right"))
    # Samples of one time stay together: all of them are held out, or none.
    starts = [start for start in (first, after) if 0 < start < n_samples]
    return ordered[min(starts, key=lambda start: abs(n_samples - start - n_test))]


def _divide_at_random(log: Numbered, n_test: int, by: str, random_state: int | None) -> Division:
    """Divide at random; samples of one group stay together."""
    rng = generator_of(random_state)
    if log.group is None:  # the last of them in a random order
        is_test = np.zeros(log.n_samples, dtype=np.bool_)
        is_test[rng.permutation(log.n_samples)[log.n_samples - n_test :]] = True
    else:
        place = np.argsort(rng.permutation(int(log.group.max()) + 1))[log.group]
        # ``n_test`` samples, more if a group would be cut.
        is_test = place >= np.partition(place, len(place) - n_test)[len(place) - n_test]
    if is_test.all():
        raise ValueError("the split leaves no sample to train on: one group holds nearly all of them.")
    train, test = np.flatnonzero(~is_test), np.flatnonzero(is_test)
    too_large = ""
    if log.group is not None and len(test) > MAX_LARGER * n_test:
        too_large = (
            f"More is held out than the {_counted(n_test, 'sample')} asked for, as a group of "
            f"{np.bincount(log.group[test]).max():,} cannot be divided: if it stands for many users, such as guests, "
            "give each of them a group."
        )
    return Division(by, train, test, np.zeros(0, dtype=np.int64), too_large=too_large)


def _part(log: Numbered, rows: IntArray) -> PartFacts:
    n_groups = None if log.group is None else len(np.unique(log.group[rows]))
    if log.time is None or not len(rows):
        return PartFacts(len(rows), n_groups, None, None)
    time = log.time[rows]
    return PartFacts(len(rows), n_groups, time.min(), time.max())


def _plain(time: Any) -> Any:
    if isinstance(time, np.datetime64):
        return instant_text(time)
    return plain(time)


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


class PiecesSplit(SplitPair["PartitionedLog"]):
    """The pair ``(train, test)`` of logs in pieces, with their ``facts``; ``print`` says what was held out."""

    def drift(self) -> tuple[Drift, ...]:
        """Return the columns that differ between the parts beyond chance, by 100,000 samples drawn from each."""
        from bopl.log.drift import find_drift

        return find_drift(*(part.sample(MAX_COMPARED, 0) for part in self))
