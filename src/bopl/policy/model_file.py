"""The model file: one archive with all that a policy is, readable without running anything."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bopl._archive import Archive, grouped, read_archive, reason_of, write_archive
from bopl._settings import check_number
from bopl._typing import AnyArray
from bopl.boosting.ensemble import Ensemble
from bopl.boosting.history import COLUMNS, History
from bopl.boosting.start import Start
from bopl.boosting.store import pack_rounds, read_records, unpack_rounds
from bopl.learner.store import Packed, describe_learner, learner_from, pack_predictors, unpack_predictors
from bopl.learner.tree_check import MAX_NUMBER
from bopl.log.action import label_array
from bopl.log.row_sketch import RowSketch
from bopl.log.schema import LogSchema

if TYPE_CHECKING:
    from bopl.policy.boosted import BoostedPolicy
    from bopl.policy.records import RecordPolicy
    from bopl.reward import BoostedRewardModel

KIND = "policy"
FORMAT_NUMBER = 2  # 1 had no start, and objectives without settings
INFINITY = "inf"  # JSON has no number for it
_N_KEY = 624  # words of the state of a RandomState
MAX_COLUMNS = 1 << 25  # of contexts whose columns have no names, as hashed ones
MAX_PARTS = 1000
# Settings that are plain values; objective, learner and reward model are described separately.
_PLAIN_SETTINGS = (
    "n_rounds",
    "reward_translation",
    "start",
    "start_sharpness",
    "reward_prior",
    "n_folds",
    "learning_rate",
    "inverse_temperature",
    "ensemble_weight_penalty",
    "scale",
    "validation_fraction",
    "early_stopping_rounds",
    "certificate",
    "progress",
    "random_state",
)

_ROW_FACTS = ("is_whole", "alike", "n_samples", "digest")


def pack_boosted(policy: BoostedPolicy) -> Packed:
    """Return what a fitted `BoostedPolicy` has beside what all policies have."""
    rounds, arrays = pack_rounds(policy.ensemble_.rounds)
    start = policy.ensemble_.start
    start_facts, start_arrays = pack_predictors(start.predictors)
    facts = {
        "settings": {name: to_plain(getattr(policy, name)) for name in _PLAIN_SETTINGS},
        "objective": _describe_objective(policy.objective),
        **_objective_home(policy.objective),
        "learner": describe_learner(policy.learner),
        "reward_model": describe_reward_model(policy.reward_model),
        "start": {"kind": start.kind, "predictors": start_facts},
        "rounds": rounds,
        "history_objective": policy.history_.objective,
        "history_title": policy.history_.title,
        "stop_reason": policy.stop_reason_,
    }
    arrays |= {f"start/{name}": array for name, array in start_arrays.items()}
    arrays["start/coefficients"] = np.array(start.coefficients, dtype=np.float64)
    arrays |= {f"history/{name}": np.asarray(policy.history_[name], dtype=np.float64) for name in COLUMNS}
    return facts, arrays


def save_packed(policy: Any, path: str | Path) -> None:
    """Write a fitted policy that packs itself."""
    facts, arrays = policy.pack()
    write_policy(policy, facts, arrays, path)


def nest(policies: Sequence[Any]) -> Packed:
    """Return policies as parts of another's document: facts of each, and arrays with names ``part/0/…``."""
    packed = [with_common(policy, *policy.pack()) for policy in policies]
    arrays = {f"part/{number}/{name}": array for number, (_, own) in enumerate(packed) for name, array in own.items()}
    return {"parts": [facts for facts, _ in packed]}, arrays


def unnest(archive: Archive, whole: Any, parts: Sequence[str]) -> list[Any]:
    """Return the policies of `nest`.

    Parameters
    ----------
    archive : Archive
    whole : policy
        What they are parts of, with its actions and columns.
    parts : sequence of str
        Names of the classes that its parts can be of.
    """
    policies = [policy_from(part) for part in part_archives(archive, parts)]
    check_parts(whole, policies)
    return policies


def part_archives(archive: Archive, parts: Sequence[str]) -> list[Archive]:
    """Return the documents of `nest`, each with its arrays, after checking that they are of these classes."""
    documents = archive.document["parts"]
    if not isinstance(documents, list) or not 1 <= len(documents) <= MAX_PARTS:
        raise ValueError(f"it must have 1 to {MAX_PARTS} parts")
    names = [document["class"] for document in documents]
    if any(name not in parts for name in names):
        raise ValueError(f"its parts must be of {' or '.join(parts)}; they are of {names[:3]}")
    inner = {name.removeprefix("part/"): array for name, array in archive.arrays.items() if name.startswith("part/")}
    return [
        Archive(archive.kind, archive.format_number, document, own)
        for document, own in zip(documents, grouped(inner, len(documents)), strict=True)
    ]


def check_parts(whole: Any, policies: Sequence[Any]) -> None:
    """Raise unless all parts of a policy have its columns and actions."""
    for policy in policies:
        if policy.actions_.tolist() != whole.actions_.tolist() or policy.n_features_in_ != whole.n_features_in_:
            raise ValueError("a part has other columns or actions than the whole")


# Classes that may be named in a model file, and where they live; a file must not make us import anything else.
_HOME_OF_CLASS = {
    "AutoPolicy": "bopl.race.auto",
    "BanditNetPolicy": "bopl.baseline.deep",
    "BlendedPolicy": "bopl.policy.blend",
    "BoostedRewardPolicy": "bopl.baseline.boosted_reward",
    "DeepRewardPolicy": "bopl.baseline.deep",
    "LoggingPolicy": "bopl.baseline.simple",
    "UniformPolicy": "bopl.baseline.simple",
    "XGBRewardPolicy": "bopl.baseline.xgb_reward",
}


def load(path: str | Path) -> Any:
    """Read a policy written by ``save``.

    Nothing in the file is executed. A file that is truncated, altered, foreign or from a newer version is refused with
    one sentence.
    """
    return read_policy(path, policy_from)


def read_policy(path: str | Path, make: Callable[[Archive], Any]) -> Any:
    """Return what is made of a model file; whatever is wrong with the file is said in one sentence."""
    archive = read_archive(path, KIND, FORMAT_NUMBER)
    try:
        return make(archive)
    except (ImportError, MemoryError):  # which are no faults of the file
        raise
    except Exception as error:  # of a file that is whole and says nonsense, whoever noticed it
        raise ValueError(f"{str(path)!r} is not a valid bopl policy file: {reason_of(error)}.") from error


def policy_from(archive: Archive) -> Any:
    """Return the policy of a model file."""
    name = archive.document["class"]
    if name in _HOME_OF_CLASS:
        return getattr(import_module(_HOME_OF_CLASS[name]), name).from_archive(archive)
    return _boosted_from(archive)


def write_policy(policy: Any, facts: dict[str, Any], arrays: dict[str, Any], path: str | Path) -> None:
    """Write a fitted policy: what all policies have in common, with its own facts and arrays."""
    write_archive(path, Archive(KIND, FORMAT_NUMBER, *with_common(policy, facts, arrays)))


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
    """Set on an unfitted policy what `write_policy` wrote of all policies."""
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
    wrong = next((name for name, value in given.items() if isinstance(value, dict) and name != "random_state"), None)
    if wrong in defaults:
        raise ValueError(f"setting {wrong!r} cannot be {given[wrong]!r}")
    settings = {name: from_plain(value) for name, value in given.items() if name in defaults}
    for name, value in settings.items():
        if value is None:
            continue
        if name == "random_state" and isinstance(value, np.random.RandomState):
            continue
        if name in _COUNTS or name == "random_state":
            check_number(name, value, low=_COUNTS.get(name, 0), high=MAX_SETTING, integer=True)
        elif name == "inverse_temperature":
            check_number(name, value, low=0.0)
        elif not isinstance(value, _kinds_of(defaults[name])):
            raise ValueError(f"setting {name!r} cannot be {value!r}")
    return settings


_COUNTS = {"n_jobs": 1, "n_rounds": 0, "n_folds": 1, "early_stopping_rounds": 1, "max_depth": 1}  # with the least
MAX_SETTING = 1 << 62


def _kinds_of(default: Any) -> tuple[type, ...]:
    """Return the types that a setting can have beside None."""
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


def _boosted_from(archive: Archive) -> BoostedPolicy:
    from bopl.learner import HistTree
    from bopl.policy.boosted import BoostedPolicy

    document, arrays = archive.document, archive.arrays
    if document["class"] != "BoostedPolicy":
        raise ValueError(f"it holds a {document['class']!r}")
    defaults = BoostedPolicy().get_params(deep=False)
    settings = read_settings(document["settings"], {name: defaults[name] for name in _PLAIN_SETTINGS})
    learner = learner_from(document["learner"])
    if learner is None and archive.format_number == 1:
        learner = HistTree()  # the learner of a policy that named none, when such files were written
    policy = BoostedPolicy(
        objective=_objective_from(document["objective"], document.get("objective_home")),
        learner=learner,
        reward_model=reward_model_from(document.get("reward_model")),
        **settings,
    )
    restore_common(policy, archive)
    policy.ensemble_ = ensemble_from(policy, archive)
    objective, title = document["history_objective"], document.get("history_title")
    policy.stop_reason_ = document["stop_reason"]
    if not isinstance(objective, str) or not isinstance(title, str | None) or not isinstance(policy.stop_reason_, str):
        raise ValueError("names in its history are not text")
    policy.history_ = History.from_records(read_records(arrays), objective, title)
    return policy


def ensemble_from(policy: RecordPolicy, archive: Archive) -> Ensemble:
    """Return the ensemble of a `BoostedPolicy`, given the actions and columns that `restore_common` set."""
    shape: dict[str, Any] = {
        "n_features": policy.n_features_in_,
        "n_actions": len(policy.actions_),
        "action_features": policy.action_features_,
    }
    rounds = unpack_rounds(archive.document["rounds"], archive.arrays, **shape)
    return Ensemble(rounds, len(policy.actions_), _start_from(archive, shape))


def _describe_objective(objective: Any) -> dict[str, Any]:
    """Return name and settings; the name alone of an objective that a file named and nobody registered."""
    from bopl.objective.registry import OBJECTIVES, UnknownObjective, describe, get_objective

    if isinstance(objective, str) and objective not in OBJECTIVES:
        return {"name": objective}
    return describe(objective if isinstance(objective, UnknownObjective) else get_objective(objective))


def _objective_home(objective: Any) -> dict[str, str]:
    """Return where the class of an objective of one's own is defined."""
    from bopl.objective.registry import home_of

    home = None if isinstance(objective, str) else home_of(objective)
    return {} if home is None else {"objective_home": home}


def _objective_from(description: Any, home: Any = None) -> Any:
    """Return the objective of a file: the name alone where nothing else was set; a stand-in if it is not known here."""
    from bopl.objective.registry import OBJECTIVES, UnknownObjective, get_objective, objective_from
    from bopl.policy.paper import PAPER_OBJECTIVES

    if not isinstance(description if isinstance(description, str) else description.get("name"), str):
        raise ValueError("its objective is not described")
    if isinstance(description, str):  # files written while an objective was a name and nothing else
        return PAPER_OBJECTIVES.get(description, description)
    name = description["name"]
    found = objective_from(description, home)
    if found is None:
        return UnknownObjective(description, home)
    return name if name in OBJECTIVES and found == get_objective(name) else found


def _start_from(archive: Archive, shape: dict[str, Any]) -> Start:
    facts = archive.document.get("start")
    if facts is None:  # files written while boosting always started at zero
        return Start()
    own = {name.removeprefix("start/"): array for name, array in archive.arrays.items() if name.startswith("start/")}
    coefficients = own.pop("coefficients")
    predictors = unpack_predictors(facts["predictors"], own, **shape)
    if coefficients.shape != (len(predictors),) or not (np.abs(coefficients) <= MAX_NUMBER).all():
        raise ValueError("the coefficients of the start do not match its predictors")
    return Start(str(facts["kind"]), predictors, tuple(coefficients.tolist()))


def describe_reward_model(model: Any) -> dict[str, Any] | None:
    """Return the settings of a `BoostedRewardModel` for a JSON document; None for the default, or if it is another."""
    from bopl.reward import BoostedRewardModel

    if not isinstance(model, BoostedRewardModel):
        return None
    settings = {name: to_plain(value) for name, value in model.get_params(deep=False).items() if name != "learner"}
    return {"settings": settings, "learner": describe_learner(model.learner)}


def reward_model_from(description: dict[str, Any] | None) -> BoostedRewardModel | None:
    """Return the unfitted model that `describe_reward_model` described."""
    from bopl.reward import BoostedRewardModel

    if description is None:
        return None
    settings = read_settings(description["settings"], BoostedRewardModel().get_params(deep=False))
    return BoostedRewardModel(learner_from(description["learner"]), **settings)


def to_plain(value: Any) -> Any:
    """Return a setting as JSON has it; a source of randomness is written with its state."""
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, np.random.RandomState):
        state = value.get_state(legacy=False)
        key, place = state["state"]["key"], state["state"]["pos"]
        return {"key": key.tolist(), "pos": int(place), "has_gauss": state["has_gauss"], "gauss": state["gauss"]}
    if isinstance(value, float) and value == np.inf:
        return INFINITY
    return value if isinstance(value, bool | int | float | str | None) else None


def from_plain(value: Any) -> Any:
    """Return a setting as it was before it was written."""
    if isinstance(value, dict):
        return _random_state_from(value)
    return np.inf if isinstance(value, str) and value == INFINITY else value


def _random_state_from(state: dict[str, Any]) -> np.random.RandomState:
    """Return a source of randomness with its state, after checking that no draw can leave it."""
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
