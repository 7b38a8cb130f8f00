"""The model file: one archive with all that a policy is, readable without running anything."""

from __future__ import annotations

from collections.abc import Hashable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bopl._archive import Archive, read_archive, write_archive
from bopl.boosting import Ensemble, History
from bopl.boosting.history import COLUMNS
from bopl.boosting.store import pack_rounds, unpack_rounds
from bopl.learner.store import describe_learner, learner_from
from bopl.log.action import label_array
from bopl.log.row_sketch import RowSketch
from bopl.log.schema import LogSchema

if TYPE_CHECKING:
    from bopl.policy.boosted import BoostedPolicy

KIND = "policy"
FORMAT_NUMBER = 1
# Settings that are plain values; objective and learner are described separately.
_PLAIN_SETTINGS = (
    "n_rounds",
    "reward_translation",
    "ensemble_weight_penalty",
    "scale",
    "validation_fraction",
    "early_stopping_rounds",
    "progress",
)

_ROW_FACTS = ("is_whole", "alike", "n_samples", "digest")


def save_boosted(policy: BoostedPolicy, path: str | Path) -> None:
    """Write a fitted `BoostedPolicy`."""
    rounds, arrays = pack_rounds(policy.ensemble_.rounds)
    facts = {
        "settings": {name: _plain(getattr(policy, name)) for name in _PLAIN_SETTINGS},
        "objective": policy.objective if isinstance(policy.objective, str) else policy.objective.name,
        "learner": describe_learner(policy.learner),
        "rounds": rounds,
        "history_objective": policy.history_.objective,
        "stop_reason": policy.stop_reason_,
    }
    arrays |= {f"history/{name}": np.asarray(policy.history_[name], dtype=np.float64) for name in COLUMNS}
    write_policy(policy, facts, arrays, path)


# Classes that may be named in a model file, and where they live; a file must not make us import anything else.
_HOME_OF_CLASS = {
    "BanditNetPolicy": "bopl.baseline.deep",
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
    archive = read_archive(path, KIND, FORMAT_NUMBER)
    try:
        name = archive.document["class"]
        if name in _HOME_OF_CLASS:
            return getattr(import_module(_HOME_OF_CLASS[name]), name).from_archive(archive)
        return _boosted_from(archive)
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise ValueError(f"{str(path)!r} is not a valid bopl policy file: {error}.") from None


def write_policy(policy: Any, facts: dict[str, Any], arrays: dict[str, Any], path: str | Path) -> None:
    """Write a fitted policy: what all policies have in common, with its own facts and arrays."""
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
    write_archive(path, Archive(KIND, FORMAT_NUMBER, document, arrays))


def restore_common(policy: Any, archive: Archive) -> None:
    """Set on an unfitted policy what `write_policy` wrote of all policies."""
    document = archive.document
    policy.actions_ = label_array([_label_from_json(label) for label in document["actions"]])
    policy.n_features_in_ = int(document["n_features"])
    policy.action_features_ = archive.arrays.get("action_features")
    if policy.action_features_ is not None and (
        policy.action_features_.ndim != 2 or len(policy.action_features_) != len(policy.actions_)
    ):
        raise ValueError("the action features do not match the actions")
    policy.training_rows_ = _training_rows(archive)
    if document["feature_names"] is not None:
        policy.feature_names_in_ = np.array(document["feature_names"], dtype=object)
    policy.trained_on_ = document.get("trained_on")  # files written before there were runs and schemas have none
    schema = document.get("schema")
    policy.schema_ = None if schema is None else LogSchema.from_json(schema)
    if policy.schema_ is not None and list(policy.schema_.feature_names) != document["feature_names"]:
        raise ValueError("the schema does not match the context columns")


def _training_rows(archive: Archive) -> RowSketch | None:
    """Return the sketch of the rows that the policy was trained on; None if the file has none, as the first ones."""
    facts = archive.document.get("training_rows")
    if facts is None:
        return None
    lowest = archive.arrays["training_rows"]
    if lowest.ndim != 1 or lowest.dtype != np.uint64 or len(lowest) == 0 or not 0.0 <= facts["alike"] <= 1.0:
        raise ValueError("the hashes of the training rows are not valid")
    return RowSketch(
        lowest, bool(facts["is_whole"]), float(facts["alike"]), int(facts["n_samples"]), str(facts["digest"])
    )


def _boosted_from(archive: Archive) -> BoostedPolicy:
    from bopl.policy.boosted import BoostedPolicy

    document, arrays = archive.document, archive.arrays
    if document["class"] != "BoostedPolicy":
        raise ValueError(f"it holds a {document['class']!r}")
    policy = BoostedPolicy(
        objective=document["objective"],
        learner=learner_from(document["learner"]),
        **{name: document["settings"][name] for name in _PLAIN_SETTINGS},
    )
    restore_common(policy, archive)
    rounds = unpack_rounds(
        document["rounds"],
        arrays,
        n_features=policy.n_features_in_,
        n_actions=len(policy.actions_),
        action_features=policy.action_features_,
    )
    columns = [{name: arrays[f"history/{name}"][row].item() for name in COLUMNS} for row in range(_n_recorded(arrays))]
    policy.ensemble_ = Ensemble(rounds, len(policy.actions_))
    policy.history_ = History.from_records(columns, document["history_objective"])
    policy.stop_reason_ = document["stop_reason"]
    return policy


def _n_recorded(arrays: dict[str, Any]) -> int:
    lengths = {arrays[f"history/{name}"].shape for name in COLUMNS}
    if len(lengths) != 1:
        raise ValueError("the history's columns differ in length")
    return int(lengths.pop()[0])


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


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
        return tuple(_label_from_json(part) for part in value["tuple"])
    if isinstance(value, bool | int | float | str):
        return value
    raise ValueError(f"{value!r} is not an action label")
