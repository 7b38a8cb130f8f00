"""What all pieces of a log have in common."""

from __future__ import annotations

from dataclasses import dataclass

from bopl._typing import AnyArray, FloatArray
from bopl.log.schema import LogSchema


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
