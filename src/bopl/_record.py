"""`Record`: a frozen dataclass that can also be read as a mapping, ``row["value"]`` beside ``row.value``."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Any, get_type_hints


class Record(Mapping[str, Any]):
    """Base of the rows of a result: fields for code, names for users, frames and JSON.

    Subclasses are ``@dataclass(frozen=True, eq=False)``, so that two records are compared as mappings are, and a record
    equals a dict of the same values.
    """

    def __getitem__(self, name: str) -> Any:
        if name not in list(self):
            raise KeyError(f"there is no {name!r}; there are {', '.join(self)}.")
        return getattr(self, name)

    def __iter__(self) -> Iterator[str]:
        return (field.name for field in fields(self))  # type: ignore[arg-type]  # subclasses are dataclasses

    def __len__(self) -> int:
        return len(fields(self))  # type: ignore[arg-type]

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as plain values that JSON can hold; a number that is not finite becomes None."""
        return {name: None if is_missing(value) else value for name, value in self.items()}


def is_missing(value: object) -> bool:
    """Return whether a value is a number that JSON cannot hold."""
    return isinstance(value, float) and not math.isfinite(value)


def column_texts(kind: type) -> dict[str, str]:
    """Return what the columns of a record are, by name: the texts of its ``Annotated`` fields."""
    return {name: hint.__metadata__[0] for name, hint in get_type_hints(kind, include_extras=True).items()}
