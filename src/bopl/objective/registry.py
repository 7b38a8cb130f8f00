"""Objectives and weights by name, as text and as plain settings."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

from bopl._errors import did_you_mean
from bopl.objective.base import Objective
from bopl.objective.dr import DR
from bopl.objective.ips import IPS
from bopl.objective.surrogate import Surrogate
from bopl.objective.weight import WEIGHTS, Plain, Weight

OBJECTIVES: dict[str, type] = {kind.name: kind for kind in (IPS, Surrogate, DR)}


def register_objective(kind: type) -> None:
    """Make an objective of your own known by its ``name``: to `get_objective`, model files and checkpoints."""
    OBJECTIVES[kind.name] = kind  # type: ignore[attr-defined]


def get_objective(objective: str | Objective) -> Objective:
    """Return the objective of that name, or the object itself if it already is one."""
    if not isinstance(objective, str):
        if not hasattr(objective, "bind") or not hasattr(objective, "name"):
            raise TypeError(f"objective must be a name or an object with a name and bind; got {objective!r}.")
        return objective
    if objective not in OBJECTIVES:
        raise ValueError(f"objective must be one of {', '.join(map(repr, OBJECTIVES))}; got {objective!r}.")
    made: Objective = OBJECTIVES[objective]()
    return made


def parse_weight(text: str) -> Weight:
    """Return the weight that a word such as ``plain`` or ``clipped:0.05`` stands for.

    >>> parse_weight("clipped:0.1")
    Clipped(tau=0.1)
    """
    name, _, strength = text.partition(":")
    if name not in WEIGHTS:
        hint = did_you_mean(name, list(WEIGHTS))
        raise ValueError(f"weight must be one of {', '.join(WEIGHTS)}; got {name!r}.{hint}")
    if not strength:
        default: Weight = WEIGHTS[name]()
        return default
    if name == Plain.name:
        raise ValueError("the weight 'plain' takes no number.")
    try:
        number = float(strength)
    except ValueError:
        raise ValueError(f"weight must be a name, or a name and a number as in clipped:0.05; got {text!r}.") from None
    made: Weight = WEIGHTS[name](number)
    return made


def describe(part: Any) -> dict[str, Any]:
    """Return an objective or a weight as plain JSON: its name and its fields.

    >>> describe(IPS())["name"]
    'ips'
    """
    name: str = part.name
    if not is_dataclass(part):
        return {"name": name}
    values = {entry.name: getattr(part, entry.name) for entry in fields(part)}
    return {
        "name": name,
        **{name: describe(value) if is_dataclass(value) else value for name, value in values.items()},
    }


def objective_from(description: dict[str, Any]) -> Objective | None:
    """Return the objective that `describe` described; None if it is of a kind that was not registered."""
    if description["name"] not in OBJECTIVES:
        return None
    settings = {name: value for name, value in description.items() if name != "name"}
    if isinstance(settings.get("weight"), dict):
        weight = dict(settings["weight"])
        settings["weight"] = WEIGHTS[weight.pop("name")](**weight)
    made: Objective = OBJECTIVES[description["name"]](**settings)
    return made
