"""The model file: one archive with the whole policy, readable without running code from it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bopl._archive import Archive, Packed, checking_contents, grouped, read_archive, write_archive
from bopl._registry import Registry
from bopl._settings import check_number
from bopl._typing import AnyArray
from bopl.log.action import label_array
from bopl.log.row_sketch import RowSketch
from bopl.log.schema import LogSchema

KIND = "policy"
FORMAT_NUMBER = 2  # 1 had no start, and objectives without settings
INFINITY = "inf"  # JSON has no number for it
_N_KEY = 624  # words of the state of a RandomState
MAX_COLUMNS = 1 << 25  # of contexts whose columns have no names, such as hashed ones
MAX_PARTS = 1000

_ROW_FACTS = ("is_whole", "alike", "n_samples", "digest")


def nest(policies: Sequence[Any]) -> Packed:
    """Return policies as parts of another's document: facts of each, and arrays with names ``part/0/…``."""
    packed = [with_common(policy, *policy.pack()) for policy in policies]
    arrays = {f"part/{number}/{name}": array for number, (_, own) in enumerate(packed) for name, array in own.items()}
    return {"parts": [facts for facts, _ in packed]}, arrays


def unnest(archive: Archive, whole: Any, parts: Sequence[str]) -> list[Any]:
    """Return the policies of `nest`.

    ``whole`` is the policy that they are parts of, with its actions and columns; ``parts`` are the allowed classes of
    the parts, and registered subclasses are allowed, too.
    """
    policies = [policy_from(part) for part in part_archives(archive, parts)]
    check_parts(whole, policies)
    return policies


def part_archives(archive: Archive, parts: Sequence[str]) -> list[Archive]:
    """Return the documents of `nest`, each with its arrays, after checking that their classes are or inherit these."""
    documents = archive.document["parts"]
    if not isinstance(documents, list) or not 1 <= len(documents) <= MAX_PARTS:
        raise ValueError(f"it must have 1 to {MAX_PARTS} parts")
    names = [document["class"] for document in documents]
    if not all(name in parts or _is_subclass(name, parts) for name in names):
        raise ValueError(f"its parts must be of {' or '.join(parts)}; they are of {names[:3]}")
    inner = {name.removeprefix("part/"): array for name, array in archive.arrays.items() if name.startswith("part/")}
    return [
        Archive(archive.kind, archive.format_number, document, own)
        for document, own in zip(documents, grouped(inner, len(documents)), strict=True)
    ]


def _is_subclass(name: str, parts: Sequence[str]) -> bool:
    """Return whether a registered class inherits one of some others."""
    return name in POLICIES and any(base.__name__ in parts for base in POLICIES[name].__mro__)


def check_parts(whole: Any, policies: Sequence[Any]) -> None:
    """Raise unless all parts of a policy have its columns and actions."""
    for policy in policies:
        if policy.actions_.tolist() != whole.actions_.tolist() or policy.n_features_in_ != whole.n_features_in_:
            raise ValueError("a part has other columns or actions than the whole")


# Classes that a model file may name, and where they are; a file must not make us import anything else.
POLICIES: Registry[type] = Registry(
    "bopl.policies",
    {
        "AutoPolicy": "bopl.race.auto:AutoPolicy",
        "BanditNetPolicy": "bopl.baseline.deep:BanditNetPolicy",
        "BlendedPolicy": "bopl.policy.blend:BlendedPolicy",
        "BoostedPolicy": "bopl.policy.boosted:BoostedPolicy",
        "BoostedRewardPolicy": "bopl.baseline.boosted_reward:BoostedRewardPolicy",
        "DeepRewardPolicy": "bopl.baseline.deep:DeepRewardPolicy",
        "LoggingPolicy": "bopl.baseline.simple:LoggingPolicy",
        "UniformPolicy": "bopl.baseline.simple:UniformPolicy",
        "XGBRewardPolicy": "bopl.baseline.xgb_reward:XGBRewardPolicy",
    },
)


def register_policy(kind: type) -> type:
    """Let `bopl.load` read policies of your own class, by its name.

    Its class method ``from_archive`` makes the policy of a file; `bopl.policy.LearnedPolicy` has one.
    """
    if not hasattr(kind, "from_archive"):
        raise TypeError(
            f"{kind.__name__} has no from_archive, so it cannot be loaded from a file; see bopl.policy.LearnedPolicy."
        )
    POLICIES[kind.__name__] = kind
    return kind


def check_known(kind: type) -> None:
    """Raise if a file with a policy of this class could not be loaded, or would be loaded as another class."""
    name = kind.__name__
    if name not in POLICIES:
        raise TypeError(
            f"a file of {name} could not be loaded: call bopl.policy.register_policy({name}) first, or give its entry "
            f"point the name {name}."
        )
    if POLICIES[name] is not kind:
        raise TypeError(f"a file with this {name} would be loaded as {POLICIES[name].__module__}.{name}: rename it.")


def load(path: str | Path) -> Any:
    """Read a policy written by ``save``.

    Nothing in the file is executed. A file that is truncated, altered, foreign or from a newer version is refused with
    one sentence.
    """
    return read_policy(path, policy_from)


def read_policy(path: str | Path, make: Callable[[Archive], Any]) -> Any:
    """Return the policy in a model file; an invalid file raises a one-sentence error."""
    archive = read_archive(path, KIND, FORMAT_NUMBER)
    with checking_contents(path, "is not a valid bopl policy file"):
        return make(archive)


def policy_from(archive: Archive) -> Any:
    """Return the policy of a model file."""
    name = archive.document["class"]
    if name not in POLICIES:
        raise ValueError(f"it contains {name!r}, a class that is not registered here")
    return POLICIES[name].from_archive(archive)  # type: ignore[attr-defined]


def write_policy(policy: Any, path: str | Path) -> None:
    """Write a fitted policy: what all policies have in common, with its own facts and arrays."""
    check_known(type(policy))
    write_archive(path, Archive(KIND, FORMAT_NUMBER, *with_common(policy, *policy.pack())))


def with_common(policy: Any, facts: dict[str, Any], arrays: dict[str, Any]) -> Packed:
    """Return a policy's own facts and arrays with those that all policies have."""
    names, rows = getattr(policy, "feature_names_in_", None), policy.training_rows_
    document = {
        "class": type(policy).__name__,
        "actions": [label_to_json(label) for label in policy.actions_.tolist()],
        "n_features": int(policy.n_features_in_),
        "feature_names": None if names is None else [str(name) for name in names],
        "training_rows": None if rows is None else {name: getattr(rows, name) for name in _ROW_FACTS},
        "trained_on": policy.trained_on_,
        "schema": None if policy.schema_ is None else policy.schema_.to_json(),
        **facts,
    }
    if rows is not None:
        arrays = arrays | {"training_rows": rows.lowest}
    if policy.action_features_ is not None:
        arrays = arrays | {"action_features": policy.action_features_}
    return document, arrays


def restore_common(policy: Any, archive: Archive) -> None:
    """Set on an unfitted policy what `write_policy` wrote for all policies."""
    document = archive.document
    policy.actions_ = _actions_from(document["actions"])
    policy.n_features_in_ = document["n_features"]
    check_number("n_features", policy.n_features_in_, low=1, high=MAX_COLUMNS, integer=True)
    policy.action_features_ = _action_features(archive, len(policy.actions_))
    policy.training_rows_ = _training_rows(archive)
    names = document["feature_names"]
    if names is not None:
        if not _is_text_list(names) or len(names) != policy.n_features_in_:
            raise ValueError("the names do not match the context columns")
        policy.feature_names_in_ = np.array(names, dtype=object)
    policy.trained_on_ = document.get("trained_on")  # files written before there were runs and schemas have none
    if not isinstance(policy.trained_on_, str | None):
        raise ValueError("the fingerprint of the log is not text")
    schema = document.get("schema")
    policy.schema_ = None if schema is None else LogSchema.from_json(schema, n_features=policy.n_features_in_)
    if policy.schema_ is not None and list(policy.schema_.feature_names) != names:
        raise ValueError("the schema does not match the context columns")


def _actions_from(values: Any) -> AnyArray:
    if not isinstance(values, list) or not values:
        raise ValueError("it lists no actions")
    labels = [_label_from_json(value) for value in values]
    if len(set(labels)) != len(labels):
        raise ValueError("it lists an action twice")
    return label_array(labels)


def _action_features(archive: Archive, n_actions: int) -> AnyArray | None:
    features = archive.arrays.get("action_features")
    if features is not None and (
        features.ndim != 2
        or len(features) != n_actions
        or features.dtype.kind != "f"
        or not np.isfinite(features).all()
    ):
        raise ValueError("the action features do not match the actions")
    return features


def _is_text_list(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(entry, str) for entry in value)


def read_settings(given: Any, defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a file that are known here, after checking that each is of the kind of its default."""
    # A file may come from anybody: an impossible setting would fail later, elsewhere, and less clearly.
    wrong = next((name for name, value in given.items() if isinstance(value, dict) and name != "random_state"), None)
    if wrong in defaults:
        raise ValueError(f"setting {wrong!r} cannot be {given[wrong]!r}")
    settings = {name: from_plain(value) for name, value in given.items() if name in defaults}
    for name, value in settings.items():
        if value is None and defaults[name] is None:
            continue
        if name in _NAMES:
            if not _is_text_list(value):
                raise ValueError(f"setting {name!r} must be a list of names; it is {value!r}")
        elif name == "random_state" and isinstance(value, np.random.RandomState):
            continue
        elif name in _COUNTS or name == "random_state":
            check_number(name, value, low=_COUNTS.get(name, 0), high=MAX_SETTING, integer=True)
        elif name == "inverse_temperature":
            check_number(name, value, low=0.0)
        elif not isinstance(value, _kinds_of(defaults[name])):
            raise ValueError(f"setting {name!r} cannot be {value!r}")
    return settings


def plain_settings(given: Any, known: Collection[str]) -> dict[str, Any]:
    """Return the settings of a file that a class knows; what each may be is for the class to say, whatever its name."""
    settings = {name: from_plain(value) for name, value in given.items() if name in known}
    for name, value in settings.items():
        if not is_plain(value):
            raise ValueError(f"setting {name!r} cannot be {value!r}")
    return settings


def is_plain(value: Any) -> bool:
    """Return whether a setting can be written: a number, text, a boolean or None, or a list of these."""
    if isinstance(value, list | tuple):
        return all(map(is_plain, value))
    return isinstance(value, bool | int | float | str | np.generic | None)


_NAMES = ("include", "exclude")  # settings that list names
_COUNTS = {"n_jobs": 1, "n_rounds": 0, "n_folds": 1, "early_stopping_rounds": 1, "max_depth": 1}  # with the least
MAX_SETTING = 1 << 62


def _kinds_of(default: Any) -> tuple[type, ...]:
    """Return the types that a setting can have besides None."""
    if isinstance(default, bool):
        return (bool,)
    if isinstance(default, int | float):
        return (int, float)
    return (str,) if isinstance(default, str) else (str, int, float, bool, list)


def _training_rows(archive: Archive) -> RowSketch | None:
    """Return the sketch of the rows that the policy was trained on; None if the file has none, as the first ones."""
    facts = archive.document.get("training_rows")
    if facts is None:
        return None
    lowest = archive.arrays["training_rows"]
    if lowest.ndim != 1 or lowest.dtype != np.uint64 or len(lowest) == 0 or not 0.0 <= facts["alike"] <= 1.0:
        raise ValueError("the hashes of the training rows are not valid")
    check_number("n_samples", facts["n_samples"], low=1, integer=True)
    return RowSketch(lowest, bool(facts["is_whole"]), float(facts["alike"]), facts["n_samples"], str(facts["digest"]))


def to_plain(value: Any) -> Any:
    """Return a setting as JSON; a source of randomness is written with its state."""
    if isinstance(value, list | tuple):
        return [to_plain(one) for one in value]
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, np.random.RandomState):
        state = value.get_state(legacy=False)
        key, place = state["state"]["key"], state["state"]["pos"]
        return {"key": key.tolist(), "pos": int(place), "has_gauss": state["has_gauss"], "gauss": state["gauss"]}
    if isinstance(value, float) and not np.isfinite(value):
        return INFINITY if value == np.inf else {"float": str(value)}
    return value if isinstance(value, bool | int | float | str | None) else None


def from_plain(value: Any) -> Any:
    """Return a setting as it was before it was written."""
    if isinstance(value, dict):
        return float(value["float"]) if "float" in value else _random_state_from(value)
    if isinstance(value, list):
        return [from_plain(one) for one in value]
    return np.inf if isinstance(value, str) and value == INFINITY else value


def _random_state_from(state: dict[str, Any]) -> np.random.RandomState:
    """Return a source of randomness with its state, after checking that the state is valid."""
    key, place, gauss = state["key"], state["pos"], state["gauss"]
    is_word = [isinstance(word, int) and 0 <= word < 1 << 32 for word in key]
    if len(is_word) != _N_KEY or not all(is_word) or not isinstance(place, int) or not 0 <= place <= _N_KEY:
        raise ValueError("the state of random_state is not valid")
    if not isinstance(gauss, int | float) or not np.isfinite(gauss):
        raise ValueError("the state of random_state is not valid")
    made = np.random.RandomState()
    made.set_state(("MT19937", np.array(key, dtype=np.uint32), place, int(bool(state["has_gauss"])), float(gauss)))
    return made


def label_to_json(label: Hashable) -> Any:
    """Return a label as JSON that remembers its type: plain for text, numbers and booleans, marked for tuples."""
    if isinstance(label, tuple):
        return {"tuple": [label_to_json(part) for part in label]}
    if isinstance(label, bool | int | float | str):
        return label
    raise TypeError(
        f"action label {label!r} of type {type(label).__name__} cannot be written to a model file; use text, numbers, "
        "booleans or tuples of these as labels."
    )


def _label_from_json(value: Any) -> Hashable:
    if isinstance(value, dict):
        return tuple(_label_from_json(part) for part in [*value["tuple"]])
    if isinstance(value, bool | int | float | str):
        return value
    raise ValueError(f"{value!r} is not an action label")
