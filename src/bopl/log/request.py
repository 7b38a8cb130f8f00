"""`LogRequest`: what is asked of files and their columns; `Meaning`: what the columns are, by all that is known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bopl._errors import UsageError, quoted
from bopl._settings import check_flag
from bopl.log.check import names_of
from bopl.log.cleaning import RowChoice
from bopl.log.context import MANY
from bopl.log.schema import ROLES, LogSchema

if TYPE_CHECKING:
    from bopl.log.format import LogParts
    from bopl.log.written import Written

DEFAULT_ROLES = {"action": "action", "reward": "reward", "propensity": "propensity"}


@dataclass(frozen=True)
class LogRequest:
    """What to read: a path, and what its columns are; the fields are the parameters of `BanditLog.read`."""

    path: str | Path | Sequence[str | Path] = ""
    action: str | None = None
    reward: str | None = None
    propensity: str | None = None
    time: str | None = None
    group: str | None = None
    has_propensity: bool = True
    context: Sequence[str] | None = None
    ignore: Sequence[str] = ()
    categorical: Sequence[str] = ()
    format: str | None = None
    # what is asked of the rows: ``where``, ``drop_invalid`` and ``drop_duplicates``
    rows: RowChoice = field(default_factory=RowChoice)
    other_rewards: Sequence[str] = ()
    segment: str | None = None
    exact_propensity: bool = False

    def __post_init__(self) -> None:
        check_flag("exact_propensity", self.exact_propensity)
        for name in ("context", "ignore", "categorical", "other_rewards"):
            given = getattr(self, name)
            is_open = given is None and name == "context"
            object.__setattr__(self, name, None if is_open else tuple(names_of(() if given is None else given, name)))
        after = (self.action, self.reward, self.propensity, *self.other_rewards)
        if self.segment is not None and self.segment in after:
            raise UsageError(
                f"segment names {self.segment!r}, which was not known before the action was chosen: the value of a "
                "policy in such a segment has no meaning. Name a column that describes the context."
            )
        for role in (*ROLES, "segment"):
            named = getattr(self, role)
            if hasattr(named, "__len__") and not isinstance(named, str | tuple):
                raise UsageError(f"{role} must be the name of a column; got {type(named).__name__}.")
        object.__setattr__(self, "rows", replace(self.rows, other_rewards=tuple(self.other_rewards)))

    @property
    def roles(self) -> dict[str, str]:
        """Names of the columns whose role was given, by role."""
        return {role: str(name) for role in ROLES if (name := getattr(self, role)) is not None}

    @property
    def carried(self) -> list[str]:
        """Names of the columns that the log carries besides its roles and its context."""
        return [*self.other_rewards, *([] if self.segment is None else [self.segment])]

    @property
    def known_after(self) -> dict[str, str]:
        """Names of the columns that nobody knew when the action was chosen, by how they were given."""
        return {f"other_rewards[{place}]": name for place, name in enumerate(self.other_rewards)}

    def with_roles(self, roles: Mapping[str, str]) -> LogRequest:
        """Return the request with these roles and no others."""
        named: dict[str, Any] = {role: roles.get(role) for role in ROLES}
        return replace(self, **named)

    def roles_of(self, usual: Mapping[str, str], schema: LogSchema | None) -> dict[str, str]:
        """Return the name of each role's column: given, remembered, the format's, or the usual one."""
        remembered = {} if schema is None else schema.roles
        wanted = {role: name for role, name in usual.items() if name not in self.ignore}
        roles = {**DEFAULT_ROLES, **wanted, **remembered, **self.roles}
        if not self.has_propensity:
            roles.pop("propensity", None)
        return roles

    def check_named(self, roles: Mapping[str, str], columns: Sequence[str]) -> None:
        """Raise if a column that nobody has named is not called what such columns are usually called."""
        for role, usual in DEFAULT_ROLES.items():
            if role not in self.roles and roles.get(role) == usual and usual not in columns:
                hint = ", or declare that there is none with has_propensity=False" if role == "propensity" else ""
                raise UsageError(
                    f"which column is the {role}? Name it with {role}=…{hint}; the columns are "
                    f"{quoted(list(columns), limit=MANY)}."
                )

    # -- Columns of the files -------------------------------------------------------------------------------------

    def unused_columns(self, schema: LogSchema | None) -> list[str]:
        """Return the columns to leave in the file: a column to ignore may still be the group or the time."""
        kept = {*self.roles_of({}, schema).values(), *self.rows.columns, *self.carried}
        return [name for name in self.ignore if name not in kept]

    def needed_columns(self, schema: LogSchema | None) -> list[str] | None:
        """Return the columns to read, None for all: a list only where every name is known beforehand."""
        if schema is not None:
            context: Sequence[str] = [column.name for column in schema.columns]
        elif self.context is not None:
            context = self.context
        else:
            return None
        return list(dict.fromkeys([*context, *self.roles_of({}, schema).values(), *self.rows.columns, *self.carried]))

    def text_columns(self, known_actions: Sequence[Any], schema: LogSchema | None) -> list[str]:
        """Return the columns that are known to be text."""
        context = [] if schema is None else schema.text_columns
        is_text = bool(known_actions) and all(isinstance(label, str) for label in known_actions)
        return [*context, *([self.roles_of({}, schema)["action"]] if is_text else [])]

    def label_columns(self, schema: LogSchema | None) -> list[str]:
        """Return the columns whose values are only ever compared: actions, groups, categories, numbers of decisions."""
        roles = self.roles_of({}, schema)
        compared = self.rows.drop_duplicates
        named = () if isinstance(compared, bool) else compared
        segment = [] if self.segment is None else [self.segment]
        return [*(roles[role] for role in ("action", "group") if role in roles), *self.categorical, *named, *segment]


@dataclass(frozen=True)
class Meaning:
    """What the columns of files are."""

    parts: LogParts  # without what belongs to another action column than the one asked for
    roles: dict[str, str]  # role to column name
    schema: LogSchema | None  # how columns become contexts, where that is known beforehand
    # what a table that was made of a log says of itself, where nothing else is asked of its columns
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
