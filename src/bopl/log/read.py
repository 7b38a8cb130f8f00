"""From files and from a frame to a log: which rows and columns it has, encoded by a schema old or new."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import narwhals.stable.v1 as nw

from bopl._errors import UsageError, quoted
from bopl._machine import return_unused_memory
from bopl._native import is_frame
from bopl.log.action import new_labels
from bopl.log.bandit_log import BanditLog
from bopl.log.check import check_propensity_column, context_columns
from bopl.log.cleaning import ChosenRows, RowChoice, choose_rows, mask_rows, select
from bopl.log.column import Column, distinct_values
from bopl.log.context import check_frame_names, check_not_empty
from bopl.log.format import LogParts, read_parts
from bopl.log.format.log_parts import SparseContext
from bopl.log.frame import as_table
from bopl.log.identical import context_keys
from bopl.log.origin import LogOrigin
from bopl.log.request import LogRequest, meaning_of
from bopl.log.schema import LogSchema, check_time_is_used, fit_schema
from bopl.log.written import Written

CONTEXT_KEY = "(context)"  # what stands for a whole sparse context where rows are compared


def read_log(
    request: LogRequest, *, actions: Any = None, known_actions: Sequence[Any] = (), schema: LogSchema | None = None
) -> BanditLog:
    """Return the log that is asked for; with a schema, in the columns of that schema.

    ``actions`` are all that can be chosen: by default those the format lists, else those that occur. ``known_actions``
    can be chosen besides those that occur, and come first.
    """
    log = log_of_parts(
        request,
        read_parts(
            request.path,
            format=request.format,
            columns=request.needed_columns(schema),
            ignore=request.unused_columns(schema),
            text=request.text_columns(known_actions, schema),
            ids=request.label_columns(schema),
        ),
        actions=actions,
        known_actions=known_actions,
        schema=schema,
    )
    return_unused_memory()  # nothing holds the table any more
    return log


def log_of_parts(
    request: LogRequest,
    parts: LogParts,
    *,
    actions: Any = None,
    known_actions: Sequence[Any] = (),
    schema: LogSchema | None = None,
) -> BanditLog:
    """Return the log that is asked for of what files hold; the parameters are those of `read_log`."""
    if parts.written is not None:
        request = _with_carried(request, parts.written, parts.table.column_names)
    meaning = meaning_of(request, parts, schema)
    parts, roles = meaning.parts, meaning.roles
    if actions is None and known_actions:
        actions = _all_actions(parts, roles["action"], known_actions)
    elif actions is None:
        actions = parts.actions
    if parts.sparse is not None:
        log = _sparse_log(request, parts.sparse, parts, roles, actions, meaning.schema)
    else:
        log = _dense_log(request, parts, roles, actions, meaning.schema)
    if parts.written is not None and roles.get("propensity") == parts.written.roles.get("propensity"):
        log = _with_source(log, parts.written)
    if meaning.written is not None:
        log = _as_written(log, meaning.written)
    if parts.written is not None:
        log = log.with_other_rewards(parts.written.renamed(log.other_rewards))
    if request.exact_propensity:
        log = log.with_exact_propensity()
    return log if log.origin is None else log.with_origin(log.origin.with_format(parts.format))


# -- Files that were made of a log ------------------------------------------------------------------------------------


def _with_carried(request: LogRequest, written: Written, present: Sequence[str]) -> LogRequest:
    """Return what to read of a file that was made of a log, with the other rewards and the segments that it holds.

    A column that is asked for as something else is that; one that is to be ignored is left out.
    """
    asked = {*request.roles.values(), *(request.context or ()), *request.ignore}
    own = [name for name in written.other_rewards.values() if name in present and name not in asked]
    segment, ignore = request.segment, request.ignore
    if segment is None and written.segment is not None and written.segment in {*present} - asked:
        segment = written.segment
        ignore = [*ignore, segment]  # what the context knows of it stands in a column of its own
    return replace(
        request, other_rewards=list(dict.fromkeys([*request.other_rewards, *own])), segment=segment, ignore=ignore
    )


def _with_source(log: BanditLog, written: Written) -> BanditLog:
    if not log.has_propensity or written.propensity_source == "unknown":
        return log
    found = log.with_propensity(log.propensity, source=written.propensity_source)
    return found.with_exact_propensity(written.exact_propensity)


def _as_written(log: BanditLog, written: Written) -> BanditLog:
    """Return a log with the schema, or the lack of one, of the log that its file was made of."""
    if written.schema is not None:
        return log.with_schema(written.schema)
    return log.without_schema(written.feature_names)


def _dense_log(
    request: LogRequest, parts: LogParts, roles: Mapping[str, str], actions: Any, schema: LogSchema | None
) -> BanditLog:
    """Return the log of contexts that are columns of the table."""
    context = None if schema is not None else request.context
    asked = replace(
        request.with_roles(roles),
        context=context,
        ignore=[*_read_but_ignored(request, roles), *_beside(parts, roles)],
        categorical=categorical_columns(request, parts, roles, context),
    )
    return log_of_frame(
        parts.table if schema is None else parts.table_for(schema),
        asked,
        actions=actions,
        action_mask=parts.mask_for(actions),
        action_features=parts.features_for(actions),
        schema=schema,
    )


def categorical_columns(
    request: LogRequest, parts: LogParts, roles: Mapping[str, str], context: Sequence[str] | None
) -> list[str]:
    """Return the columns that hold categories: those named, and those of which the format says so."""
    own = [name for name in parts.categorical if context is None or name in context]
    known = [name for name in own if name in parts.table.column_names and name not in roles.values()]
    return list(dict.fromkeys([*request.categorical, *known]))


def dense_context(request: LogRequest, parts: LogParts, roles: Mapping[str, str]) -> list[str]:
    """Return the names of the columns that become contexts of no schema yet, or raise if a column is not there."""
    asked = replace(request.with_roles(roles), ignore=_read_but_ignored(request, roles))
    return named_context(asked, parts.table.column_names)


def _read_but_ignored(request: LogRequest, roles: Mapping[str, str]) -> list[str]:
    """Return the columns that were read although they are not context."""
    beside = {*request.rows.columns, *request.carried}
    ignored = [name for name in request.ignore if name in beside and name not in roles.values()]
    return [*_unseen_time(request, roles), *ignored]


def _unseen_time(request: LogRequest, roles: Mapping[str, str]) -> list[str]:
    """Return the time where it is not context: it is to be ignored, or nobody but the format has named it."""
    time = roles.get("time")
    if time is None:
        return []
    is_named = request.roles.get("time") == time or time in (request.context or ())
    return [] if is_named and time not in request.ignore else [time]


def _beside(parts: LogParts, roles: Mapping[str, str]) -> list[str]:
    """Return the columns that a table with contexts as they came says are no context, its unused roles among them."""
    if parts.written is None or parts.written.beside is None:
        return []
    named = (*parts.written.beside, *parts.written.roles.values())
    return [name for name in named if name in parts.table.column_names and name not in roles.values()]


def _sparse_log(
    request: LogRequest,
    sparse: SparseContext,
    parts: LogParts,
    roles: Mapping[str, str],
    actions: Any,
    schema: LogSchema | None,
) -> BanditLog:
    """Return the log of contexts that list only what is there."""
    schema = sparse_schema(request, sparse, parts, roles, schema)
    chosen = sparse_rows(request.rows, sparse, parts, roles, actions)
    used = {role: select(parts.table[name], chosen.rows) for role, name in roles.items()} | chosen.numbers
    mask = parts.mask_for(actions)
    log = BanditLog(
        schema.align(sparse.matrix[chosen.rows], sparse.names),
        used["action"],
        used["reward"],
        used.get("propensity"),
        actions=actions,
        feature_names=schema.feature_names,
        time=used.get("time"),
        group=used.get("group"),
        action_mask=None if mask is None else mask[chosen.rows],
        action_features=parts.features_for(actions),
        other_rewards={name: select(parts.table[name], chosen.rows) for name in request.other_rewards},
        segment=None if request.segment is None else select(parts.table[request.segment], chosen.rows),
    )
    return log.with_schema(schema).with_origin(chosen.origin)


def sparse_rows(
    choice: RowChoice,
    sparse: SparseContext,
    parts: LogParts,
    roles: Mapping[str, str],
    actions: Any,
    *,
    is_part: bool = False,
) -> ChosenRows:
    """Return the rows that are asked for; a condition may name features, which are zero where they are absent."""
    import pyarrow

    choice.check_columns([*parts.table.column_names, *sparse.names])
    columns = {name: nw.from_native(parts.table[name], series_only=True) for name in parts.table.column_names}
    place = {name: idx for idx, name in enumerate(sparse.names)}

    def feature(name: str) -> Any:
        return pyarrow.array(sparse.matrix[:, [place[name]]].toarray()[:, 0])

    if choice.drop_duplicates is True:
        key = context_keys(sparse.matrix)
        columns[CONTEXT_KEY] = nw.from_native(pyarrow.chunked_array([pyarrow.array(key)]), series_only=True)
    compared = [CONTEXT_KEY] if choice.drop_duplicates is True else []
    return choose_rows(choice, columns, roles, compared, actions, feature, is_part=is_part)


def sparse_schema(
    request: LogRequest, sparse: SparseContext, parts: LogParts, roles: Mapping[str, str], schema: LogSchema | None
) -> LogSchema:
    """Return the schema of sparse contexts: the one given, or one of the features that are asked for."""
    context = None if schema is not None else request.context
    ignore = [name for name in request.ignore if name not in roles.values()]
    carried = {f"column {name!r}": name for name in request.carried}
    context_columns(parts.table.column_names, carried, None)  # raises if one is not there
    names = context_columns([*parts.table.column_names, *sparse.names], roles, context, ignore)
    if schema is not None:
        return schema
    if request.categorical:
        raise UsageError(
            f"categorical names {quoted(request.categorical)}, but all features in Vowpal Wabbit's text are numbers: "
            "write each category as a separate feature, such as city=Rom."
        )
    known = set(sparse.names)
    return LogSchema(tuple(Column(name, "number") for name in names if name in known), **roles, is_sparse=True)


def _all_actions(parts: LogParts, column: str, known: Sequence[Any]) -> list[Any] | None:
    """Return the known actions and then those that only the log has; None if its column says nothing usable."""
    if column not in parts.table.column_names:
        return None
    logged, _ = distinct_values(nw.from_native(parts.table[column], series_only=True))
    return [*known, *new_labels(logged, known)]


def log_of_frame(
    frame: object,
    request: LogRequest,
    *,
    actions: object | None = None,
    action_mask: object | None = None,
    action_features: object | None = None,
    schema: LogSchema | None = None,
) -> BanditLog:
    """Return the log of a frame, whose roles the request names; see `BanditLog.from_frame`."""
    if not is_frame(frame):
        raise TypeError(f"from_frame takes a pandas, polars or arrow frame; got {type(frame).__name__}.")
    check_frame_names(frame)
    table, roles, choice = as_table(frame), request.roles, request.rows
    names = named_context(request, table.columns)
    n_read = len(table)
    check_not_empty(n_read)
    origin, numbers = LogOrigin(n_read), {}
    if choice.is_any:
        choice.check_columns(table.columns)
        columns = {name: table[name] for name in table.columns}
        chosen = choose_rows(choice, columns, roles, names if schema is None else [], actions)
        table = table if len(chosen.rows) == len(table) else table[chosen.rows.tolist()]
        origin, numbers = chosen.origin, chosen.numbers
        action_mask = None if action_mask is None else mask_rows(action_mask, chosen.rows, n_read)
    if "propensity" in roles and "propensity" not in numbers:
        check_propensity_column(table, roles)
    schema = fit_schema(table, names, roles, request.categorical) if schema is None else schema.with_roles(roles)
    check_time_is_used(request.context, request.time, schema)
    used: dict[str, Any] = {role: table[name].to_native() for role, name in roles.items()} | numbers
    log = BanditLog(
        schema.encode(table),
        used["action"],
        used["reward"],
        used.get("propensity"),
        actions=actions,
        feature_names=schema.feature_names,
        time=used.get("time"),
        group=used.get("group"),
        action_mask=action_mask,
        action_features=action_features,
        other_rewards={name: table[name].to_native() for name in request.other_rewards},
        segment=None if request.segment is None else table[request.segment].to_native(),
        exact_propensity=request.exact_propensity,
    )
    return log.with_schema(schema).with_origin(origin)


def named_context(request: LogRequest, columns: Sequence[str]) -> list[str]:
    """Return the names of the columns that become contexts, or raise if a column is not there."""
    names = context_columns(columns, request.roles | request.known_after, request.context, request.ignore)
    if request.segment is not None:
        context_columns(columns, {"segment": request.segment}, None)  # raises if it is not there
    return names
