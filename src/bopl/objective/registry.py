"""Objectives and weights by name, as text and as plain settings."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from inspect import signature
from typing import Any, ClassVar

from bopl._errors import did_you_mean
from bopl._registry import Registry, full_name, required_settings, with_defaults
from bopl._settings import check_choice
from bopl.objective.dr import DR
from bopl.objective.ips import IPS
from bopl.objective.protocol import BoundObjective, Objective
from bopl.objective.surrogate import Surrogate
from bopl.objective.training_data import TrainingData
from bopl.objective.weight import WEIGHTS, Plain, Weight

OBJECTIVES: Registry[type] = Registry("bopl.objectives", {kind.name: kind for kind in (IPS, Surrogate, DR)})


def register_objective(kind: type) -> type:
    """Register your own objective under its ``name``: for `get_objective`, model files and checkpoints."""
    OBJECTIVES[kind.name] = kind  # type: ignore[attr-defined]
    return kind


def get_objective(objective: str | Objective) -> Objective:
    """Return the objective of that name, or the object itself if it already is one."""
    if isinstance(objective, UnknownObjective):
        return objective.known()
    if not isinstance(objective, str):
        if isinstance(objective, type) or not hasattr(objective, "bind") or not hasattr(objective, "name"):
            raise TypeError(f"objective must be a name or an object with a name and bind; got {objective!r}.")
        return objective
    check_choice("objective", objective, list(OBJECTIVES))
    made: Objective = with_defaults(OBJECTIVES[objective], objective)
    return made


def default_objective(name: str) -> Objective | None:
    """Return the objective that a name stands for; None if it is unknown, or has settings without a default."""
    return get_objective(name) if name in OBJECTIVES and not required_settings(OBJECTIVES[name]) else None


def make_objective(name: str, **options: Any) -> Objective:
    """Return the objective of that name, with the options that differ from its defaults.

    Raises
    ------
    ValueError
        The objective is unknown, or it does not have an option.
    """
    made = get_objective(name)
    # An option that an objective lacks is not an error where it asks for what the objective does anyway.
    changed = {key: value for key, value in options.items() if value != getattr(made, key, _USUAL.get(key))}
    known: list[str] = [entry.name for entry in fields(made)] if is_dataclass(made) else []
    unknown = [key for key in changed if key not in known]
    if unknown:
        raise ValueError(f"the objective {name!r} has no {unknown[0]}: leave it out.")
    return replace(made, **changed) if changed else made  # type: ignore[type-var]


_USUAL = {"weight": Plain(), "smoothness": "sharp"}  # what an objective without these options does


def parse_weight(text: str) -> Weight:
    """Return the weight that a word such as ``plain`` or ``clipped:0.05`` stands for.

    >>> parse_weight("clipped:0.1")
    Clipped(tau=0.1)
    """
    name, _, strength = text.partition(":")
    if name not in WEIGHTS:
        hint = did_you_mean(name, list(WEIGHTS))
        raise ValueError(f"weight must be one of {', '.join(WEIGHTS)}; got {name!r}.{hint}")
    if not strength and required_settings(WEIGHTS[name]):
        raise ValueError(f"the weight {name!r} needs a number, as in {name}:0.05.")
    if not strength:
        default: Weight = WEIGHTS[name]()
        return default
    if not signature(WEIGHTS[name]).parameters:
        raise ValueError(f"the weight {name!r} takes no number.")
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
    if isinstance(part, UnknownObjective):
        return dict(part.description)
    name: str = part.name
    if not is_dataclass(part):
        return {"name": name}
    values = {entry.name: getattr(part, entry.name) for entry in fields(part)}
    return {
        "name": name,
        **{name: describe(value) if is_dataclass(value) else value for name, value in values.items()},
    }


def objective_from(description: Mapping[str, Any], home: str | None = None) -> Objective | None:
    """Return the objective that `describe` described; None if its class, or that of its weight, is not known here.

    Parameters
    ----------
    description : mapping
    home : str, optional
        The result of `home_of`. Its module is used only if it is already imported; nothing is imported for a file.
    """
    kind = OBJECTIVES.get(description["name"]) or _imported_class(home, description["name"])
    settings = {name: value for name, value in description.items() if name != "name"}
    if kind is None:
        return None
    if isinstance(settings.get("weight"), dict):
        weight = dict(settings["weight"])
        if weight.get("name") not in WEIGHTS:
            return None
        settings["weight"] = WEIGHTS[weight.pop("name")](**weight)
    made: Objective = kind(**settings)
    return made


# -- Objectives of your own, in files ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class UnknownObjective:
    """Placeholder for the objective of a file whose class is unknown here.

    The policy predicts without it. Fitting again looks for the class once more, and says what is missing.
    """

    description: Mapping[str, Any]  # its name and its settings
    home: str | None = None  # module and name of its class

    title: ClassVar[str] = "risk"
    needs_reward_model: ClassVar[bool] = False

    @property
    def name(self) -> str:
        """Its name."""
        return str(self.description["name"])

    def known(self) -> Objective:
        """Return the objective itself, if its class has been registered or imported meanwhile."""
        found = objective_from(self.description, self.home)
        if found is None:
            where = "" if self.home is None else f" It was {self.home.replace(':', '.')}: import that module first."
            raise ValueError(
                f"the policy was trained with the objective {self.name!r}, but its class, or that of its weight, is "
                f"unknown here; predicting needs neither.{where} Register it with bopl.objective.register_objective."
            )
        return found

    def bind(self, data: TrainingData) -> BoundObjective:
        """Return the objective of these samples."""
        return self.known().bind(data)


def home_of(objective: Objective) -> str | None:
    """Return module and name of the class of an objective, if it is not built in."""
    if isinstance(objective, UnknownObjective):
        return objective.home
    kind = type(objective)
    return None if kind.__module__.startswith("bopl.") else f"{kind.__module__}:{kind.__qualname__}"


def check_objective(objective: Objective) -> None:
    """Raise if a policy fitted with this objective could not be saved and loaded with it."""
    kind, weight = type(objective), getattr(objective, "weight", None)
    named: list[tuple[str, Any, Registry[type]]] = [("objectives", objective, OBJECTIVES)]
    named += [("weights", weight, WEIGHTS)] if hasattr(weight, "name") else []
    for noun, part, known in named:
        own, registered = type(part), known.get(part.name)
        if registered is not None and full_name(registered) != full_name(own):
            raise ValueError(
                f"the {noun} {own.__name__} and {registered.__name__} have the same name {part.name!r}: a saved policy "
                f"would be loaded with the latter. Give {own.__name__} another name."
            )
    if not is_dataclass(objective) and vars(objective):
        raise TypeError(
            f"the objective {kind.__name__} has attributes that cannot be saved ({', '.join(vars(objective))}): make "
            "the class a frozen dataclass, whose fields are saved and compared."
        )


def _imported_class(home: str | None, name: str) -> type | None:
    """Return the class of an objective by its module and name, if that module is already imported."""
    module, _, qualname = (home or "").partition(":")
    found: Any = sys.modules.get(module)
    for part in qualname.split("."):
        found = vars(found).get(part) if hasattr(found, "__dict__") else None  # no attribute is made for a file
    if not isinstance(found, type) or found.__module__ != module or not is_dataclass(found):
        return None
    return found if getattr(found, "name", None) == name and hasattr(found, "bind") else None
