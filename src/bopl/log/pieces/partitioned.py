"""`PartitionedLog`: a log that stays in its files, and is read piece by piece."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bopl._settings import check_flag, check_number
from bopl._typing import AnyArray, FloatArray
from bopl.log.any_log import AnyLog
from bopl.log.bandit_log import BanditLog
from bopl.log.cleaning import RowChoice
from bopl.log.concatenation import join_parts
from bopl.log.log_split import Division, PiecesSplit, divide, divide_latest, warn_of_dropped
from bopl.log.origin import LogOrigin
from bopl.log.pieces.piece import LogFacts, Piece, rows_taken, taking
from bopl.log.pieces.spec import PieceSpec, RowColumns, Step
from bopl.log.pieces.spill import PIECE_ROWS, Spill, spill
from bopl.log.request import LogRequest
from bopl.log.schema import LogSchema

if TYPE_CHECKING:
    from bopl.log.finding import Audit


@dataclass(frozen=True, eq=False, repr=False)
class PartitionedLog(AnyLog):
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
        The rows that were read, selected and dropped.
    spill : Spill or None
        The temporary folder of the files, if there is one: it lives as long as a log that needs it.

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

    _without_propensity = (
        "propensity is missing: name the column with the probability with which the logging policy chose each logged "
        "action; without it no unbiased estimate exists. log.with_propensity('uniform') says that every eligible "
        "action was equally likely."
    )

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
        """Return the log of a sequence of Arrow batches or frames, such as a query's.

        They are written to Parquet files as they come, so that they can be read more than once.

        Parameters
        ----------
        batches : iterable of Arrow record batches, tables, or pandas or polars frames
            Each is one piece; they are read once and stored in their own folder.
        folder : str or Path, optional
            Where the files are written, and stay; a cluster's workers must see it. By default a temporary folder, which
            is removed with the last log that needs it, or by `close`.
        piece_rows : int, default=262144
            Maximum number of rows of a piece.
        action, reward, propensity, has_propensity, context, ignore, categorical, actions, time, group, other_rewards,
        segment, schema, where, drop_invalid, exact_propensity
            As for `BanditLog.scan_parquet`.
        """
        from bopl.log.pieces.scan import scan_files

        kept = spill(batches, folder, piece_rows)
        try:
            request = LogRequest(
                sorted(kept.folder.glob("*.parquet")),
                action=action,
                reward=reward,
                propensity=propensity,
                time=time,
                group=group,
                has_propensity=has_propensity,
                context=context,
                ignore=ignore,
                categorical=categorical,
                rows=RowChoice.of(where, drop_invalid, drop_duplicates=False),
                other_rewards=other_rewards,
                segment=segment,
                exact_propensity=exact_propensity,
            )
            log = scan_files(request, actions=actions, schema=schema)
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
    def propensity_source(self) -> str:
        """Where the propensities come from; see `BanditLog`."""
        return self.facts.propensity_source

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

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            hint = "; a log in memory may have it: log.to_log(), or a part such as log.sample(100_000)"
            raise AttributeError(f"a log in pieces has no {name!r}{'' if name.startswith('_') else hint}.")

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
        return replace(self, pieces=taking(self.pieces, rows_taken(rows, self.n_samples)))

    def split(self, test_fraction: float = 0.2, *, by: str = "random", random_state: int | None = None) -> PiecesSplit:
        """Return two logs in pieces, ``(train, test)``: the same samples as `BanditLog.split` of the whole log.

        It needs about 17 bytes per sample for a while, and 8 to 16 more with times or groups, which are read once.

        Parameters
        ----------
        test_fraction, by, random_state
            As for `BanditLog.split`.
        """
        rows = self._divisible()
        pair = self._pair(rows, divide(rows, test_fraction, by=by, random_state=random_state))
        warn_of_dropped(pair.facts)
        return pair

    def split_latest(self, test_fraction: float, *, random_state: int | None = None) -> PiecesSplit:
        """Return two logs in pieces, divided by time where that is possible, else at random; the split says which."""
        rows = self._divisible()
        return self._pair(rows, divide_latest(rows, test_fraction, random_state=random_state))

    def _pair(self, rows: RowColumns, division: Division) -> PiecesSplit:
        return PiecesSplit(self.subset(division.train), self.subset(division.test), division.facts(rows))

    def _divisible(self) -> RowColumns:
        """Return the times and groups of all samples, if there are any."""
        if not self.has_time and self.group_labels is None:
            return RowColumns(self.n_samples)
        return RowColumns.joined([self.spec.rows_of(piece) for piece in self.pieces])

    def sample(self, n_samples: int, random_state: int | None = None) -> BanditLog:
        """Return ``n_samples`` samples, drawn without replacement, as a log in memory; all if there are fewer.

        Parameters
        ----------
        n_samples : int
            How many to draw; they stay in their order.
        random_state : int, optional
            Seed of the draw.
        """
        return self.drawn(n_samples, random_state).to_log()

    def drawn(self, n_samples: int, random_state: int | None = None) -> PartitionedLog:
        """Return a log in pieces of ``n_samples`` samples, drawn without replacement; see `sample`."""
        check_number("n_samples", n_samples, low=1, integer=True)
        if n_samples >= self.n_samples:
            return self
        rng = np.random.default_rng(random_state)
        return self.subset(rng.choice(self.n_samples, n_samples, replace=False, shuffle=False))

    def with_propensity(self, propensity: str) -> PartitionedLog:
        """Return the log with propensities ``"uniform"``: every eligible action was equally likely."""
        if propensity != "uniform":
            raise ValueError(f"propensity of a log in pieces must be 'uniform'; got {propensity!r}.")
        return self._with_step(Step("with_propensity", ("uniform",)), propensity_source="uniform")

    def with_exact_propensity(self, exact_propensity: bool = True) -> PartitionedLog:
        """Return the log with its propensities declared exact, or with that declaration withdrawn."""
        check_flag("exact_propensity", exact_propensity)
        return self._with_step(Step("with_exact_propensity", (exact_propensity,)))

    def translated(self, reward_translation: float) -> PartitionedLog:
        """Return the log with ``reward_translation`` added to every reward."""
        if not np.isfinite(reward_translation):
            raise ValueError(f"reward_translation must be a finite number; got {reward_translation!r}.")
        step = Step("translated", (float(reward_translation),))
        return self if reward_translation == 0.0 else self._with_step(step)

    def without_columns(self, columns: Sequence[str | int]) -> PartitionedLog:
        """Return the log without some context columns; see `BanditLog.without_columns`."""
        step = Step("without_columns", (tuple(columns),))
        first = self.pieces[0].taking(np.arange(self.pieces[0].n_rows) == 0, 0)
        assert first is not None
        seen = step(self.load(first))
        return self._with_step(step, feature_names=seen.feature_names, n_features=seen.n_features, schema=seen.schema)

    def _with_step(self, step: Step, **facts: Any) -> PartitionedLog:
        spec = replace(self.spec, steps=(*self.spec.steps, step))
        return replace(self, spec=spec, facts=replace(self.facts, **facts))

    def _looked_at(self) -> BanditLog:
        from bopl.log.pieces.pieces_audit import MAX_CONTEXTS

        return self.sample(MAX_CONTEXTS, 0)

    def _audit(self, policy: object | None, logging_policy: object | None, keep: Sequence[str | int]) -> Audit:
        from bopl.log.pieces.pieces_audit import audit_pieces

        return audit_pieces(self, policy, logging_policy, keep)
