"""`Meaning`: what the columns of files are, by what is asked, what is remembered and what the files say themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from bopl.log.format import LogParts
from bopl.log.request import DEFAULT_ROLES, LogRequest
from bopl.log.schema import LogSchema
from bopl.log.written import Written


@dataclass(frozen=True)
class Meaning:
    """What the columns of files are.

    Attributes
    ----------
    parts : LogParts
        Without what belongs to another action column than the one asked for.
    roles : dict of role to column name
    schema : LogSchema or None
        How columns become contexts, where that is known beforehand.
    written : Written or None
        What a table that was made of a log says of itself, where nothing else is asked of its columns.
    """

    parts: LogParts
    roles: dict[str, str]
    schema: LogSchema | None
    written: Written | None


def meaning_of(request: LogRequest, parts: LogParts, schema: LogSchema | None) -> Meaning:
    """Return what the columns are that files hold, or raise if a role is not told."""
    written = parts.written if schema is None and _is_asked_as_written(request, parts.written) else None
    if written is not None:
        schema = written.reading_schema()
    usual = request.roles_of(parts.roles, None if written is not None else schema)
    roles = _without_absent(request, usual, parts.table.column_names)
    if parts.written is not None:
        parts, roles = _as_asked(request, parts, parts.written, roles)
    request.check_named(roles, parts.table.column_names)
    return Meaning(parts, roles, schema, written)


def _is_asked_as_written(request: LogRequest, written: Written | None) -> bool:
    """Return whether a file was made of a log and nothing else is asked of its columns."""
    if written is None or written.is_raw or request.context is not None or request.categorical:
        return False
    if any(name not in request.carried for name in request.ignore):
        return False
    return all(written.roles.get(role) == name for role, name in request.roles.items())


def _as_asked(
    request: LogRequest, parts: LogParts, written: Written, roles: Mapping[str, str]
) -> tuple[LogParts, dict[str, str]]:
    """Return parts and roles without what belongs to another action column, and without propensities never logged."""
    if roles["action"] != written.roles.get("action"):
        parts = replace(parts, actions=None, action_mask=None, action_features=None)
    is_named = request.propensity is not None or "propensity" in written.roles
    return parts, {role: name for role, name in roles.items() if role != "propensity" or is_named}


def _without_absent(request: LogRequest, roles: Mapping[str, str], columns: Sequence[str]) -> dict[str, str]:
    """Return the roles without a time or group that nobody has named and that is not there: a log can do without."""
    return {
        role: name for role, name in roles.items() if role in DEFAULT_ROLES or name in columns or role in request.roles
    }
