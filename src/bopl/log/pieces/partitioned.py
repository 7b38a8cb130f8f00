"""`PartitionedLog`: a log that stays in its files, and is read piece by piece."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bopl._settings import check_flag, check_number
from bopl._typing import AnyArray, BoolArray, FloatArray, IntArray
from bopl.log.bandit_log import BanditLog
from bopl.log.check import check_rows
from bopl.log.origin import LogOrigin
from bopl.log.pieces.join import join_parts
from bopl.log.pieces.piece import Piece
from bopl.log.pieces.spec import PieceSpec, RowColumns, Step
from bopl.log.pieces.spill import PIECE_ROWS, Spill, spill
from bopl.log.pieces.step import ExactPropensity, Translation, UniformPropensity, WithoutColumns
from bopl.log.schema import LogSchema
from bopl.log.split import SplitFacts, divide, divide_latest, warn_of_dropped

if TYPE_CHECKING:
    from bopl.log.drift import Drift
    from bopl.log.finding import Audit
    from bopl.log.leak import Leak

MAX_COMPARED = 100_000  # samples of each part that drift is looked for in


@dataclass(frozen=True, eq=False)
class LogFacts:
    """What all pieces of a log have in common; the fields are those of `BanditLog`."""

    actions: AnyArray
    feature_names: tuple[str, ...] | None
    n_features: int
    schema: LogSchema | None
    action_features: FloatArray | None
    has_action_mask: bool
    propensity_source: str


@dataclass(frozen=True, eq=False, repr=False)
class PartitionedLog:
    """A log in pieces: the row groups of Parquet files, read and checked when they are needed.

    `BanditLog.scan_parquet` makes one. Samples are numbered through all pieces, in their order; a piece is loaded as
    the `BanditLog` of its samples, encoded as the whole log would be.

    Attributes
    ----------
    pieces : tuple of Piece
        In order; none of them is empty.
    spec : PieceSpec
        How a piece becomes a log: with a piece, all that another process needs.
    facts : LogFacts
    origin : LogOrigin
        The rows that were read, asked for and left out.
    spill : Spill or None
        The temporary folder of the files, where there is one: it lives as long as a log that needs it.

    Examples
    --------
    >>> import bopl
    >>> log = bopl.BanditLog.scan_parquet("days/*.parquet", action="item", reward="click")  # doctest: +SKIP
    >>> policy = bopl.BoostedPolicy().fit(log)  # doctest: +SKIP
    """

    pieces: tuple[Piece, ...]
    spec: PieceSpec
    facts: LogFacts
    origin: LogOrigin
    spill: Spill | None = None

    # -- Constructors ---------------------------------------------------------------------------------------------

    @classmethod
    def from_batches(
        cls,
        batches: Iterable[Any],
        *,
        action: str | None = None,
        reward: str | None = None,
        propensity: str | None = None,
        has_propensity: bool = True,
        context: Sequence[str] | None = None,
        ignore: Sequence[str] = (),
        categorical: Sequence[str] = (),
        actions: object | None = None,
        time: str | None = None,
        group: str | None = None,
        other_rewards: Sequence[str] = (),
        segment: str | None = None,
        schema: LogSchema | None = None,
        where: str | None = None,
        drop_invalid: bool = False,
        exact_propensity: bool = False,
        folder: str | Path | None = None,
        piece_rows: int = PIECE_ROWS,
    ) -> PartitionedLog:
        """Return the log of Arrow batches or frames that come one after the other, such as a query's.

        They are written to Parquet files as they come, so that they can be read more than once.

        Parameters
        ----------
        batches : iterable of Arrow record batches, tables, or pandas or polars frames
            Each is one piece; they are read once and kept in a folder of their own.
        folder : str or Path, optional
            Where the files are written, and stay; a cluster's workers must see it. By default a temporary folder, which
            is removed with the last log that needs it, or by `close`.
        piece_rows : int, default=262144
            Most rows of a piece.
        action, reward, propensity, has_propensity, context, ignore, categorical, actions, time, group, other_rewards,
        segment, schema, where, drop_invalid, exact_propensity
            As for `BanditLog.scan_parquet`.
        """
        kept = spill(batches, folder, piece_rows)
        try:
            log = BanditLog.scan_parquet(
                sorted(kept.folder.glob("*.parquet")),
                action=action,
                reward=reward,
                propensity=propensity,
                has_propensity=has_propensity,
                context=context,
                ignore=ignore,
                categorical=categorical,
                actions=actions,
                time=time,
                group=group,
                other_rewards=other_rewards,
                segment=segment,
                schema=schema,
                where=where,
                drop_invalid=drop_invalid,
                exact_propensity=exact_propensity,
            )
        except BaseException:
            kept.close()
            raise
        return replace(log, spill=kept)

    @classmethod
    def from_dask(
        cls,
        frame: Any,
        *,
        action: str | None = None,
        reward: str | None = None,
        propensity: str | None = None,
        has_propensity: bool = True,
        context: Sequence[str] | None = None,
        ignore: Sequence[str] = (),
        categorical: Sequence[str] = (),
        actions: object | None = None,
        time: str | None = None,
        group: str | None = None,
        other_rewards: Sequence[str] = (),
        segment: str | None = None,
        schema: LogSchema | None = None,
        where: str | None = None,
        drop_invalid: bool = False,
        exact_propensity: bool = False,
        folder: str | Path | None = None,
        piece_rows: int = PIECE_ROWS,
    ) -> PartitionedLog:
        """Return the log of a Dask DataFrame, computed partition by partition and written to Parquet files.

        Parameters
        ----------
        frame : dask.dataframe.DataFrame
            Its rows in the order of its partitions; the index is left out.
        folder, piece_rows, action, reward, propensity, has_propensity, context, ignore, categorical, actions, time, \
        group, other_rewards, segment, schema, where, drop_invalid, exact_propensity
            As for `from_batches`.
        """
        if not hasattr(frame, "to_delayed"):
            raise TypeError(f"from_dask takes a Dask DataFrame; got {type(frame).__name__}.")
        return cls.from_batches(
            (part.compute() for part in frame.to_delayed()),
            action=action,
            reward=reward,
            propensity=propensity,
            has_propensity=has_propensity,
            context=context,
            ignore=ignore,
            categorical=categorical,
            actions=actions,
            time=time,
            group=group,
            other_rewards=other_rewards,
            segment=segment,
            schema=schema,
            where=where,
            drop_invalid=drop_invalid,
            exact_propensity=exact_propensity,
            folder=folder,
            piece_rows=piece_rows,
        )

    def close(self) -> None:
        """Remove the temporary files of a log made of batches; of any other log nothing is removed."""
        if self.spill is not None:
            self.spill.close()

    def __enter__(self) -> PartitionedLog:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    # -- Views ----------------------------------------------------------------------------------------------------

    @property
    def n_samples(self) -> int:
        """Number of logged interactions."""
        return sum(piece.n_rows for piece in self.pieces)

    @property
    def n_features(self) -> int:
        """Number of context columns."""
        return self.facts.n_features

    @property
    def n_actions(self) -> int:
        """Number of actions that can be chosen, logged or not."""
        return len(self.facts.actions)

    @property
    def actions(self) -> AnyArray:
        """All actions, in order."""
        return self.facts.actions

    @property
    def action_features(self) -> FloatArray | None:
        """What is known of the actions themselves."""
        return self.facts.action_features

    @property
    def schema(self) -> LogSchema | None:
        """How the columns of the files become numbers."""
        return self.facts.schema

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """Names of the context columns."""
        return self.facts.feature_names

    @property
    def categorical(self) -> tuple[int, ...]:
        """Positions of the context columns that hold categories."""
        schema = self.schema
        return () if schema is None else tuple(schema.feature_names.index(name) for name in schema.categorical)

    @property
    def propensity_source(self) -> str:
        """Where the propensities come from; see `BanditLog`."""
        return self.facts.propensity_source

    @property
    def has_propensity(self) -> bool:
        """Whether propensities are there, logged or filled in."""
        return self.propensity_source != "unknown"

    @property
    def has_action_mask(self) -> bool:
        """Whether the files say which actions could be chosen."""
        return self.facts.has_action_mask

    @property
    def group_labels(self) -> AnyArray | None:
        """Labels of all groups, in the order of their numbers; None for a log without groups."""
        return self.spec.groups

    @property
    def has_time(self) -> bool:
        """Whether each sample has a time."""
        return self.spec.time is not None

    def __len__(self) -> int:
        return self.n_samples

    def __repr__(self) -> str:
        return (
            f"PartitionedLog(n_samples={self.n_samples}, n_features={self.n_features}, n_actions={self.n_actions}, "
            f"n_pieces={len(self.pieces)})"
        )

    # -- Reading ----------------------------------------------------------------------------------------------------

    def load(self, piece: Piece) -> BanditLog:
        """Return the samples of a piece as a checked log.

        What it holds depends on the piece and on ``spec`` alone: ``log.spec.load(piece)`` is the same on any machine
        that sees the files. An error names the file and the row.
        """
        return self.spec.load(piece)

    def __iter__(self) -> Iterator[BanditLog]:
        """Load the pieces one after the other."""
        return map(self.load, self.pieces)

    def to_log(self) -> BanditLog:
        """Return the whole log in memory."""
        return join_parts([self.load(piece) for piece in self.pieces]).with_origin(self.origin)

    def mean_reward(self) -> float:
        """Return what the logging policy earned per sample, by the rewards of the files."""
        return sum(float(self.spec.rewards_of(piece).sum()) for piece in self.pieces) / self.n_samples

    def fingerprint(self) -> str:
        """Return a hash that changes if a file, the selected rows, or the action, reward or propensity change."""
        roles = [self.spec.roles.get(role) for role in ("action", "reward", "propensity")]
        digest = hashlib.sha256(repr((roles, self.spec.request.rows.parameters)).encode())
        for piece in self.pieces:
            digest.update(piece.fingerprint.encode())
        return digest.hexdigest()

    # -- New logs from this one -------------------------------------------------------------------------------------

    def subset(self, rows: object) -> PartitionedLog:
        """Return the log of some samples, in their order, with all actions kept.

        Parameters
        ----------
        rows : slice, boolean mask of shape (n_samples,), or sequence of row numbers
            Each row at most once: pieces keep the order of their files.
        """
        is_taken = np.zeros(self.n_samples, dtype=np.bool_)
        if isinstance(rows, np.ndarray) and rows.dtype == np.bool_ and rows.shape == is_taken.shape:
            is_taken = rows
        else:
            index = check_rows(rows, self.n_samples)
            is_taken[index] = True
            if np.count_nonzero(is_taken) != len(index):
                raise ValueError("a row is selected more than once: a log in pieces takes each row at most once.")
        return replace(self, pieces=_taking(self.pieces, is_taken))

    def split(self, test_fraction: float = 0.2, *, by: str = "random", random_state: int | None = None) -> PiecesSplit:
        """Return two logs in pieces, ``(train, test)``: the same samples as `BanditLog.split` of the whole log.

        It needs about 17 bytes per sample for a while, and 8 to 16 more with times or groups, which are read once.

        Parameters
        ----------
        test_fraction, by, random_state
            As for `BanditLog.split`.
        """
        rows = self._row_columns()
        division = divide(rows, test_fraction, by=by, random_state=random_state)
        facts = division.facts(rows)
        warn_of_dropped(facts)
        return PiecesSplit(self.subset(division.train), self.subset(division.test), facts)

    def split_rows(
        self, test_fraction: float = 0.2, *, by: str = "random", random_state: int | None = None
    ) -> tuple[IntArray, IntArray]:
        """Return the rows of the two logs of `split`, for what belongs to the samples without being part of the log.

        ``by="latest"`` divides by time where that is possible, else at random.
        """
        choose = divide_latest if by == "latest" else partial(divide, by=by)
        division = choose(self._row_columns(), test_fraction, random_state=random_state)
        return division.train, division.test

    def split_latest(self, test_fraction: float, *, random_state: int | None = None) -> PiecesSplit:
        """Return two logs in pieces, divided by time where that is possible, else at random; the split says which."""
        rows = self._row_columns()
        division = divide_latest(rows, test_fraction, random_state=random_state)
        return PiecesSplit(self.subset(division.train), self.subset(division.test), division.facts(rows))

    def _row_columns(self) -> RowColumns:
        """Return the times and groups of all samples, where they have such."""
        if not self.has_time and self.group_labels is None:
            return RowColumns(self.n_samples)
        return RowColumns.joined([self.spec.rows_of(piece) for piece in self.pieces])

    def sample(self, n_samples: int, random_state: int | None = None) -> BanditLog:
        """Return so many samples, drawn without replacement, as a log in memory, in their order; at most all of them.

        Parameters
        ----------
        n_samples : int
            How many to draw, without replacement.
        random_state : int, optional
            Seed of the draw.
        """
        return self.drawn(n_samples, random_state).to_log()

    def drawn(self, n_samples: int, random_state: int | None = None) -> PartitionedLog:
        """Return the log in pieces of so many samples, drawn without replacement; see `sample`."""
        check_number("n_samples", n_samples, low=1, integer=True)
        if n_samples >= self.n_samples:
            return self
        rng = np.random.default_rng(random_state)
        return self.subset(rng.choice(self.n_samples, n_samples, replace=False, shuffle=False))

    def audit(
        self,
        policy: object | None = None,
        *,
        logging_policy: object | None = None,
        keep: Sequence[str | int] = (),
        strict: bool = False,
    ) -> Audit:
        """Check whether the log can be trusted, and whether it can answer for a policy.

        Actions, propensities, rewards and weights of all samples are checked (of 10,000,000 drawn ones, if there are
        more), some 50 bytes each. Leaks, copies and columns are looked for in 200,000 samples, drawn at random: a
        finding says so.

        Parameters
        ----------
        policy, logging_policy : object with ``predict_proba``, optional
            As for `BanditLog.audit`.
        keep, strict
            As for `BanditLog.audit`.
        """
        from bopl.log.pieces.audit import audit_pieces

        report = audit_pieces(self, policy, logging_policy, keep)
        if strict:
            report.raise_problems()
        return report

    def leaks(self) -> tuple[Leak, ...]:
        """Find context columns that know too much in 200,000 samples, drawn at random; see `BanditLog.leaks`."""
        from bopl.log.pieces.audit import MAX_CONTEXTS

        return self.sample(MAX_CONTEXTS, 0).leaks()

    def with_propensity(self, propensity: str) -> PartitionedLog:
        """Return the log with propensities ``"uniform"``: every eligible action was equally likely."""
        if propensity != "uniform":
            raise ValueError(f"propensity of a log in pieces must be 'uniform'; got {propensity!r}.")
        return self._with_step(UniformPropensity(), propensity_source="uniform")

    def with_exact_propensity(self, exact_propensity: bool = True) -> PartitionedLog:
        """Return the log with the word that its propensities are exact, or with that word taken back."""
        check_flag("exact_propensity", exact_propensity)
        return self._with_step(ExactPropensity(exact_propensity))

    def translated(self, reward_translation: float) -> PartitionedLog:
        """Return the log with ``reward_translation`` added to every reward."""
        if not np.isfinite(reward_translation):
            raise ValueError(f"reward_translation must be a finite number; got {reward_translation!r}.")
        return self if reward_translation == 0.0 else self._with_step(Translation(float(reward_translation)))

    def without_columns(self, columns: Sequence[str | int]) -> PartitionedLog:
        """Return the log without some context columns; see `BanditLog.without_columns`."""
        step = WithoutColumns(tuple(columns))
        first = self.pieces[0].taking(np.arange(self.pieces[0].n_rows) == 0, 0)
        assert first is not None
        seen = step(self.load(first))
        return self._with_step(step, feature_names=seen.feature_names, n_features=seen.n_features, schema=seen.schema)

    def _with_step(self, step: Step, **facts: Any) -> PartitionedLog:
        return replace(self, spec=self.spec.with_step(step), facts=replace(self.facts, **facts))

    def require_propensity(self) -> None:
        """Raise one sentence if the log has no propensities."""
        if not self.has_propensity:
            raise ValueError(
                "propensity is missing: name the column with the probability with which the logging policy chose each "
                "logged action; without it no unbiased estimate exists. log.with_propensity('uniform') says that every "
                "eligible action was equally likely."
            )


class PiecesSplit(tuple[PartitionedLog, PartitionedLog]):
    """The pair ``(train, test)`` of logs in pieces; ``print`` says what was held out.

    Attributes
    ----------
    facts : SplitFacts
        Samples, groups, first and last time of both parts, and what was dropped.
    """

    facts: SplitFacts

    def __new__(cls, train: PartitionedLog, test: PartitionedLog, facts: SplitFacts) -> PiecesSplit:
        """Return the pair."""
        pair = super().__new__(cls, (train, test))
        pair.facts = facts
        return pair

    def __getnewargs__(self) -> tuple[PartitionedLog, PartitionedLog, SplitFacts]:
        return (*self, self.facts)

    @property
    def train(self) -> PartitionedLog:
        """The part to train on."""
        return self[0]

    @property
    def test(self) -> PartitionedLog:
        """The part to judge on."""
        return self[1]

    def drift(self) -> tuple[Drift, ...]:
        """Return the columns that differ between the parts beyond chance, by 100,000 samples drawn from each."""
        from bopl.log.drift import find_drift

        return find_drift(*(part.sample(MAX_COMPARED, 0) for part in self))

    def __str__(self) -> str:
        return self.facts.sentence


def _taking(pieces: Sequence[Piece], is_taken: BoolArray) -> tuple[Piece, ...]:
    """Return the pieces of a log with some of its samples, numbered anew."""
    taken: list[Piece] = []
    offset = 0
    for piece in pieces:
        part = piece.taking(is_taken[piece.rows], offset)
        if part is not None:
            taken.append(part)
            offset += part.n_rows
    if not taken:
        raise ValueError("the subset is empty: no row was selected.")
    return tuple(taken)
