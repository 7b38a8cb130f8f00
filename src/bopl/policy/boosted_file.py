"""A `BoostedPolicy` in a model file: its settings, where boosting started, its rounds and their history."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from bopl._archive import Archive, Packed
from bopl._registry import required_settings
from bopl.boosting.ensemble import Ensemble, Start, pack_rounds, read_records, unpack_rounds
from bopl.boosting.history import COLUMNS, History
from bopl.learner.hist_tree.tree import MAX_NUMBER
from bopl.learner.store import describe_learner, learner_from, pack_predictors, unpack_predictors
from bopl.policy.model_file import is_plain, plain_settings, read_settings, restore_common, to_plain

if TYPE_CHECKING:
    from bopl.policy.boosted import BoostedPolicy
    from bopl.policy.records import RecordPolicy
    from bopl.reward import BoostedRewardModel

Boosted = TypeVar("Boosted", bound="BoostedPolicy")

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


@dataclass(frozen=True)
class UnknownPart:
    """Placeholder for the learner or the reward model of a file that does not hold it.

    The policy predicts without it. Fitting again raises an error, instead of fitting something else.
    """

    setting: str  # what it was: "learner" or "reward_model"
    name: str  # of its class

    def bind(self, log: Any, *, seed: int) -> Any:
        """Raise an error."""
        raise ValueError(
            f"the policy was trained with the {self.setting.replace('_', ' ')} {self.name!r}, which its file does not "
            f"hold or which is unknown here: set {self.setting} before fitting it again."
        )

    def fit(self, log: Any) -> Any:
        """Raise the same error."""
        self.bind(log, seed=0)

    predict = fit


def _unknown_names(policy: BoostedPolicy, facts: Mapping[str, Any]) -> dict[str, str]:
    """Return the names of the parts that the facts do not describe."""
    parts = {name: getattr(policy, name) for name in ("learner", "reward_model") if facts[name] is None}
    return {
        name: part.name if isinstance(part, UnknownPart) else type(part).__name__
        for name, part in parts.items()
        if part is not None
    }


def pack_boosted(policy: BoostedPolicy) -> Packed:
    """Return what a fitted `BoostedPolicy` has besides what all policies have."""
    kind = type(policy)
    if required := required_settings(kind):
        raise TypeError(f"a file of {kind.__name__} could not be loaded: give its setting {required[0]!r} a default.")
    rounds, arrays = pack_rounds(policy.ensemble_.rounds)
    start = policy.ensemble_.start
    start_facts, start_arrays = pack_predictors(start.predictors)
    facts = {
        "settings": {name: to_plain(getattr(policy, name)) for name in (*_PLAIN_SETTINGS, *own_settings(policy))},
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
    unknown = _unknown_names(policy, facts)
    facts |= {"unknown": unknown} if unknown else {}
    arrays |= {f"start/{name}": array for name, array in start_arrays.items()}
    arrays["start/coefficients"] = np.array(start.coefficients, dtype=np.float64)
    arrays |= {f"history/{name}": np.asarray(policy.history_[name], dtype=np.float64) for name in COLUMNS}
    return facts, arrays


def own_settings(policy: BoostedPolicy) -> list[str]:
    """Return the settings that a subclass has besides ours, and that can be written."""
    ours = (*_PLAIN_SETTINGS, "objective", "learner", "reward_model")
    return [name for name, value in policy.get_params(deep=False).items() if name not in ours and is_plain(value)]


def boosted_from(archive: Archive, kind: type[Boosted]) -> Boosted:
    """Return the policy of a model file, of the class that the file names."""
    from bopl.learner import HistTree

    document, arrays, policy = archive.document, archive.arrays, kind()
    settings = read_settings(document["settings"], {name: getattr(policy, name) for name in _PLAIN_SETTINGS})
    settings |= plain_settings(document["settings"], own_settings(policy))
    # An unknown learner or objective is not an error: the policy predicts without it, and fitting again
    # says what is missing; see `UnknownPart`.
    learner = learner_from(document["learner"])
    if learner is None and archive.format_number == 1:
        learner = HistTree()  # the learner of a policy that named none, when such files were written
    # One by one: the constructor of a subclass need not take all of them.
    policy.objective = _objective_from(document["objective"], document.get("objective_home"))
    policy.learner, policy.reward_model = learner, reward_model_from(document.get("reward_model"))
    unknown = {name: str(found) for name, found in document.get("unknown", {}).items()}
    if learner is None and document["learner"] is not None:
        unknown["learner"] = str(document["learner"]["class"])  # registered where the policy was saved
    for name in {"learner", "reward_model"} & unknown.keys():
        setattr(policy, name, UnknownPart(name, unknown[name]))
    for name, value in settings.items():
        setattr(policy, name, value)
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
    """Return the objective of a file: the name alone if nothing else was set; a placeholder if it is unknown here."""
    from bopl.objective.registry import UnknownObjective, default_objective, objective_from
    from bopl.policy.paper import PAPER_OBJECTIVES

    if not isinstance(description if isinstance(description, str) else description.get("name"), str):
        raise ValueError("its objective is not described")
    if isinstance(description, str):  # files from when an objective was only a name
        return PAPER_OBJECTIVES.get(description, description)
    found = objective_from(description, home)
    if found is None:
        return UnknownObjective(description, home)
    return description["name"] if found == default_objective(description["name"]) else found


def _start_from(archive: Archive, shape: dict[str, Any]) -> Start:
    facts = archive.document.get("start")
    if facts is None:  # files from when boosting always started at zero
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

    if type(model) is not BoostedRewardModel:
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
