"""From footers to a log in pieces: what the columns are, and one pass over those that do not tell it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import narwhals.stable.v1 as nw

from bopl._errors import UsageError
from bopl.log.action import check_action_count, check_action_list, label_array, python_labels
from bopl.log.check import check_features
from bopl.log.cleaning import ChosenRows, no_row_left
from bopl.log.format.columnar import Wanted
from bopl.log.format.files import check_same_columns
from bopl.log.format.log_format import PARQUET
from bopl.log.format.log_parts import LogParts, table_parts
from bopl.log.origin import MAX_FIRST, Dropped, LogOrigin, uneven_by_action
from bopl.log.pieces.collector import Collector, Groups, Labels, SchemaFit, Times
from bopl.log.pieces.footer import Footer, common_types, find_footers
from bopl.log.pieces.partitioned import PartitionedLog
from bopl.log.pieces.piece import LogFacts, Piece, naming_rows
from bopl.log.pieces.spec import PieceSpec, read_piece
from bopl.log.read import categorical_columns, dense_context, sparse_schema
from bopl.log.request import LogRequest, Meaning, meaning_of
from bopl.log.schema import LogSchema, check_time_is_used
from bopl.log.written import further_columns, with_one_description


def scan(
    request: LogRequest,
    footers: Sequence[Footer],
    *,
    actions: Any = None,
    known_actions: Sequence[Any] = (),
    schema: LogSchema | None = None,
) -> PartitionedLog:
    """Return the log in pieces that files hold; see `BanditLog.scan_parquet`.

    ``known_actions`` can be chosen besides those that occur, and come first.
    """
    if request.rows.drop_duplicates is not False:
        raise UsageError(
            "drop_duplicates compares all rows of a log with each other, but a log in pieces never has them in memory "
            "at once: drop the copies when the files are written, or read the log with BanditLog.read."
        )
    plan = _plan(request, footers, actions, list(known_actions), schema)
    pieces = pieces_of(footers)
    if not pieces:
        raise ValueError(f"the log is empty: there is no row in {footers[0].path!r}{_and_others(footers)}.")
    look = _Look(plan, sum(piece.n_rows for piece in pieces))
    pieces = look.over(pieces)
    return look.log(pieces)


def scan_files(request: LogRequest, *, actions: Any = None, schema: LogSchema | None = None) -> PartitionedLog:
    """Return the log in pieces that the files of the request's path hold; see `BanditLog.scan_parquet`."""
    return scan(request, find_footers(request.path), actions=actions, schema=schema)


@dataclass(frozen=True)
class _Plan:
    """What is known of a log before its rows are looked at."""

    spec: PieceSpec  # as far as it is known
    meaning: Meaning
    schema: LogSchema | None  # how columns become contexts, where that is known
    context: list[str]  # columns that become contexts, where it is not
    known_actions: list[Any]  # actions that come before those that occur

    @property
    def empty(self) -> nw.DataFrame[Any]:
        """The columns, without rows."""
        return nw.from_native(self.meaning.parts.table, eager_only=True)


def _plan(
    request: LogRequest, footers: Sequence[Footer], actions: Any, known_actions: list[Any], schema: LogSchema | None
) -> _Plan:
    """Find out from footers what the columns are; raise if one is not there or differs between files."""
    first = footers[0].schema
    with_one_description([footer.schema.empty_table() for footer in footers])
    seen: set[str] = set()
    wanted = Wanted(request.needed_columns(schema), request.unused_columns(schema), seen=seen)
    found = {footer.path: wanted.of(footer.schema.names) for footer in footers}
    wanted.check_ignored(seen)
    check_same_columns(found, wanted.columns)
    columns = found[footers[0].path]
    columns += further_columns(first, columns, request.ignore)
    types = common_types(footers, columns)
    meaning = meaning_of(request, _empty_parts(first, types), schema)
    parts, roles = meaning.parts, meaning.roles
    context: list[str] = []
    known = meaning.schema
    if parts.sparse is not None:
        known = sparse_schema(request, parts.sparse, parts, roles, known)
        request.rows.check_columns([*parts.table.column_names, *parts.sparse.names])
    else:
        context = dense_context(request if known is None else replace(request, context=None), parts, roles)
        request.rows.check_columns(parts.table.column_names)
    listed = None if known_actions else parts.actions
    labels = listed if actions is None else python_labels(actions)
    spec = PieceSpec(
        request,
        roles,
        tuple(columns),
        types,
        context=tuple(context) if known is None else (),
        actions=None if labels is None else check_action_list(labels),
        schema=None if meaning.written is not None else known,
    )
    return _Plan(spec, meaning, known, context, known_actions)


def _empty_parts(schema: Any, types: Mapping[str, Any]) -> LogParts:
    """Return what files hold, without a row."""
    import pyarrow

    empty = pyarrow.schema(list(types.items()), metadata=schema.metadata).empty_table()
    return replace(table_parts(empty), format=PARQUET.title)


def pieces_of(footers: Sequence[Footer]) -> list[Piece]:
    """Return the row groups of all files that have rows, in order."""
    pieces, offset = [], 0
    for footer in footers:
        file_row = 0
        for row_group, n_rows in enumerate(footer.group_rows):
            if n_rows:
                pieces.append(
                    Piece(footer.path, row_group, file_row, offset, n_rows, n_rows, footer.stamp, footer.partition)
                )
            file_row += n_rows
            offset += n_rows
    return pieces


def _and_others(footers: Sequence[Footer]) -> str:
    return "" if len(footers) == 1 else f" and {len(footers) - 1} more"


class _Look:
    """One pass over the columns that have to be looked at before pieces, of so many rows together, can be read."""

    def __init__(self, plan: _Plan, n_rows: int) -> None:
        self.plan = plan
        spec, roles = plan.spec, plan.spec.roles
        self.labels = Labels() if spec.actions is None else None
        self.groups = Groups() if "group" in roles else None
        self.fit: SchemaFit | None = None
        if plan.schema is None:
            categorical = categorical_columns(spec.request, plan.meaning.parts, roles, spec.request.context)
            self.fit = SchemaFit(plan.context, roles, categorical, plan.empty, n_rows)
        self.times = Times() if "time" in roles else None
        self.collectors: list[tuple[str, Collector]] = [
            (roles[role], collector)
            for role, collector in (("action", self.labels), ("group", self.groups), ("time", self.times))
            if collector is not None
        ]
        if self.fit is not None:
            self.collectors += [*self.fit.collectors.items(), *self.fit.gaps.items()]
        self.origin = LogOrigin(n_rows, format=PARQUET.title)
        self.counts: Counter[str] = Counter()
        self.lost: Counter[str] = Counter()
        self.n_samples = n_rows

    def over(self, pieces: Sequence[Piece]) -> list[Piece]:
        """Look at the columns, and return the pieces with the rows that are asked for; none of them is empty."""
        choice = self.plan.spec.request.rows
        if not choice.is_any and not self.collectors:
            return list(pieces)
        kept, offset = [], 0
        for piece in pieces:
            n_rows = self._look_at(piece)
            if n_rows:
                kept.append(replace(piece, offset=offset, n_rows=n_rows, n_available=n_rows))
            offset += n_rows
        self.n_samples = offset
        if choice.is_any:
            self.origin = replace(
                self.origin,
                where=None if choice.where is None else choice.where.text,
                uneven=uneven_by_action({label: (n, self.lost[label]) for label, n in self.counts.items()}),
            )
        if not kept:
            raise no_row_left(self.origin)
        return kept

    def _look_at(self, piece: Piece) -> int:
        """Collect what is to be known from one piece, and return how many of its rows are asked for."""
        spec = self.plan.spec
        if not spec.request.rows.is_any:
            names = tuple(dict.fromkeys(name for name, collector in self.collectors if not collector.is_done))
            if not names:
                return piece.n_rows
            parts, rows = read_piece(piece, names, spec.types), None
        else:
            chosen = spec.choose(piece, parts := read_piece(piece, spec.columns, spec.types))
            self._note(piece, chosen)
            parts, rows = spec.taken(parts, chosen), chosen.rows
        if len(parts.table):
            table = nw.from_native(parts.table, eager_only=True)  # its columns know their names
            with naming_rows(piece, rows):
                for name, collector in self.collectors:
                    if not collector.is_done:
                        collector.add(table[name])
        return len(parts.table)

    def _note(self, piece: Piece, chosen: ChosenRows) -> None:
        """Add what was left out of a piece to the record of the whole log, with the log's numbers of rows."""
        for label, (n_rows, n_lost) in chosen.counts.items():
            self.counts[label] += n_rows
            self.lost[label] += n_lost
        dropped = {one.reason: one for one in self.origin.dropped}
        for one in chosen.origin.dropped:
            before = dropped.get(one.reason, Dropped(one.reason, 0, ()))
            first = (*before.first, *(row + piece.offset for row in one.first))[:MAX_FIRST]
            dropped[one.reason] = Dropped(one.reason, before.n_rows + one.n_rows, first)
        n_filtered = self.origin.n_filtered + chosen.origin.n_filtered
        self.origin = replace(self.origin, n_filtered=n_filtered, dropped=tuple(dropped.values()))

    def log(self, pieces: Sequence[Piece]) -> PartitionedLog:
        """Return the log, now that everything is known."""
        plan, spec, parts = self.plan, self.plan.spec, self.plan.meaning.parts
        schema = plan.schema
        if self.fit is not None:
            schema = self.fit.schema(self.n_samples, self.times)
            check_time_is_used(spec.request.context, spec.roles.get("time"), schema)
        actions = spec.actions if self.labels is None else self.labels.actions(plan.known_actions)
        assert actions is not None
        assert schema is not None
        if not actions:
            raise ValueError(
                f"action is missing in all {self.n_samples:,} samples, the first at row {pieces[0].file_row} of "
                f"{pieces[0].file!r}: name another column than {spec.roles['action']!r}."
            )
        check_action_count(len(actions), actions)
        written = plan.meaning.written
        if written is None and parts.sparse is None:
            schema = schema.with_roles(spec.roles)
        spec = replace(
            spec,
            actions=actions,
            schema=None if written is not None else schema,
            groups=None if self.groups is None else self.groups.labels,
            time=None if self.times is None else self.times.reading(),
        )
        features = parts.features_for(actions)
        labels = label_array(actions)
        facts = LogFacts(
            actions=labels,
            feature_names=schema.feature_names if written is None else written.feature_names,
            n_features=len(schema.feature_names),
            schema=schema if written is None else written.schema,
            action_features=None if features is None else check_features(features, labels),
            has_action_mask=parts.action_mask is not None,
            propensity_source=_source(plan.meaning),
        )
        return PartitionedLog(tuple(pieces), spec, facts, self.origin)


def _source(meaning: Meaning) -> str:
    """Return where the propensities come from."""
    name, written = meaning.roles.get("propensity"), meaning.parts.written
    if name is None:
        return "unknown"
    is_told = written is not None and name == written.roles.get("propensity") and written.propensity_source != "unknown"
    return written.propensity_source if written is not None and is_told else "logged"
