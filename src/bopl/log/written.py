"""`Written`: what a table made of a log says of itself, so that reading it gives the same log."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from bopl._typing import FloatArray
from bopl.log.column import Column
from bopl.log.context import CONTEXT_DTYPE
from bopl.log.schema import ROLES, LogSchema

KEY = b"bopl.log"  # in the metadata of an arrow table or a Parquet file
FORMAT = 1
SOURCES = ("logged", "estimated", "uniform", "balanced", "mismatched", "unknown")


@dataclass(frozen=True, eq=False)
class Written:
    """What stands in the columns of a table, and what does not fit into columns."""

    roles: Mapping[str, str]  # role to column name
    actions: list[Any]  # all actions, in order
    names: tuple[str, ...]  # what the columns of contexts without a schema are called in the table
    feature_names: tuple[str, ...] | None  # what the log itself calls them
    propensity_source: str
    schema: LogSchema | None = None
    action_features: FloatArray | None = None  # (n_actions, n_action_features)
    # column with the list of actions that could be chosen; it is empty (null) where all could
    eligible: str | None = None
    sparse: str | None = None  # column with the contexts, where they list only what is there
    other_rewards: Mapping[str, str] = field(default_factory=dict)  # name to column name
    segment: str | None = None  # column with what samples count to
    exact_propensity: bool = False
    # for a table whose contexts are as they came, to be encoded by whoever reads it: the columns that are
    # neither context nor a role. None for a table that was made of a log.
    beside: tuple[str, ...] | None = None

    @property
    def is_raw(self) -> bool:
        """Whether the contexts stand in the table as they came."""
        return self.beside is not None

    def reading_schema(self) -> LogSchema:
        """Return how the columns become contexts."""
        if self.schema is not None:
            return self.schema
        columns = tuple(Column(name, "number") for name in self.names)
        return LogSchema(columns, **dict(self.roles), is_sparse=self.sparse is not None)

    def renamed(self, other_rewards: Mapping[str, FloatArray]) -> dict[str, FloatArray]:
        """Return other rewards that were read by the names of their columns, by their own names."""
        name_of = {column: name for name, column in self.other_rewards.items()}
        return {name_of.get(column, column): values for column, values in other_rewards.items()}

    def to_bytes(self) -> bytes:
        """Return the description as it stands in the metadata of a table."""
        features = self.action_features
        document = {
            "format": FORMAT,
            "roles": dict(self.roles),
            "actions": self.actions,
            "names": list(self.names),
            "has_names": self.feature_names is not None,
            "propensity_source": self.propensity_source,
            "schema": None if self.schema is None else self.schema.to_json(),
            "action_features": None if features is None else _pack(features),
            "eligible": self.eligible,
            "sparse": self.sparse,
            "other_rewards": dict(self.other_rewards),
            "segment": self.segment,
            "exact_propensity": self.exact_propensity,
        } | ({} if self.beside is None else {"beside": list(self.beside)})
        return json.dumps(document, ensure_ascii=False).encode()

    @classmethod
    def from_bytes(cls, raw: bytes) -> Written:
        """Return the description written by `to_bytes`; raise `ValueError` where it is none."""
        try:
            return cls._from_json(json.loads(raw))
        except (KeyError, TypeError, AttributeError, ValueError, OverflowError, RecursionError) as error:
            reason = str(error).splitlines()[0].rstrip(".") if str(error) else type(error).__name__
            raise ValueError(
                f"the file says that BanditLog.to_parquet wrote it, but its description of the columns cannot be read "
                f"({reason}): write it again, or remove the description {KEY.decode()!r} from its metadata."
            ) from None

    @classmethod
    def _from_json(cls, document: Mapping[str, Any]) -> Written:
        if document["format"] != FORMAT:
            raise ValueError(f"it has format {document['format']!r}, and this version reads {FORMAT}")
        schema = None if document["schema"] is None else LogSchema.from_json(document["schema"])
        names = tuple(_text(name) for name in document["names"])
        actions = document["actions"]
        if not isinstance(actions, list) or any(not isinstance(label, str | int | float) for label in actions):
            raise ValueError("its actions are not a list of labels")
        if document["propensity_source"] not in SOURCES:
            raise ValueError(f"its propensities are {document['propensity_source']!r}")
        roles = {role: _text(name) for role, name in document["roles"].items()}
        if not set(roles) <= set(ROLES):
            raise ValueError(f"it gives columns the roles {sorted(roles)}")
        features = document["action_features"]
        exact, segment = document.get("exact_propensity", False), document.get("segment")  # older files have none
        if not isinstance(exact, bool):
            raise ValueError(f"its propensities are exact: {exact!r}")
        return cls(
            roles,
            actions,
            names,
            (names if schema is None else schema.feature_names) if document["has_names"] else None,
            document["propensity_source"],
            schema,
            None if features is None else _unpack(features, len(actions)),
            _text_or_none(document["eligible"]),
            _text_or_none(document["sparse"]),
            {name: _text(column) for name, column in document.get("other_rewards", {}).items()},
            _text_or_none(segment),
            exact,
            tuple(_text(name) for name in document["beside"]) if "beside" in document else None,
        )


def description_of(table: Any) -> Written | None:
    """Return what an arrow table says of itself; None if it was not made of a log."""
    raw = (table.schema.metadata or {}).get(KEY)
    return None if raw is None else Written.from_bytes(raw)


def is_raw(table: Any) -> bool:
    """Return whether an arrow table holds contexts as they came, from records that name only what they have."""
    written = description_of(table)
    return written is not None and written.is_raw


def further_columns(schema: Any, columns: Sequence[str], ignore: Sequence[str]) -> list[str]:
    """Return the columns of an arrow schema that belong to the log besides those that are asked for by name."""
    raw = (schema.metadata or {}).get(KEY)
    if raw is None:
        return []
    written = Written.from_bytes(raw)
    extra = [name for name in (written.eligible, written.sparse) if name is not None]
    return [name for name in extra if name in schema.names and name not in columns and name not in ignore]


def with_one_description(tables: Sequence[Any]) -> list[Any]:
    """Return tables that are to be one log, or raise if they were made of logs that differ in more than their samples.

    Actions may come in the course of time to logs whose contexts are as they came: then all tables get all of them.
    """
    found = {(table.schema.metadata or {}).get(KEY) for table in tables}
    known = [description_of(table) for table in tables] if len(found) > 1 else []
    if known and all(one is not None and one.is_raw for one in known):
        written = [one for one in known if one is not None]
        actions = list(dict.fromkeys(label for one in written for label in one.actions))
        joined = replace(written[0], actions=actions).to_bytes()
        if len({replace(one, actions=actions).to_bytes() for one in written}) == 1:
            return [table.replace_schema_metadata({KEY: joined}) for table in tables]
    if len(found) > 1:
        raise ValueError(
            "the files were written from logs whose actions or columns differ, so they are not one log: read them one "
            "by one, and join them with bopl.concat."
        )
    return list(tables)


def _pack(features: FloatArray) -> dict[str, Any]:
    values = np.ascontiguousarray(features, dtype="<f4")
    return {"shape": list(values.shape), "float32": base64.b64encode(values.tobytes()).decode()}


def _unpack(packed: Mapping[str, Any], n_actions: int) -> FloatArray:
    n_rows, n_columns = packed["shape"]
    values = np.frombuffer(base64.b64decode(packed["float32"], validate=True), dtype="<f4")
    if n_rows != n_actions or not isinstance(n_columns, int) or len(values) != n_rows * n_columns:
        raise ValueError("its action features do not match its actions")
    return values.reshape(n_rows, n_columns).astype(CONTEXT_DTYPE)


def _text_or_none(value: Any) -> str | None:
    return None if value is None else _text(value)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is not the name of a column")
    return value
