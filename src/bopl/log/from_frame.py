"""From a frame to a log: which rows and columns it has, and how they become numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bopl._native import is_frame
from bopl.log.bandit_log import BanditLog
from bopl.log.check import check_propensity_column, context_columns
from bopl.log.cleaning import choose_rows, mask_rows
from bopl.log.context import check_frame_names, check_not_empty
from bopl.log.frame import as_table
from bopl.log.origin import LogOrigin
from bopl.log.request import LogRequest
from bopl.log.schema import LogSchema, check_time_is_used, fit_schema


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
