"""The experiments: datasets, methods, and one settings file for each pair."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from functools import partial
from importlib.resources import files
from typing import Any

from bopl._settings import check_choice


@dataclass(frozen=True)
class Column:
    """A column of a table: the data, how logs are made from it, and where its settings and results are.

    Attributes
    ----------
    title : str
        Heading.
    data : str
        Name for `bopl_paper.dataset.load_dataset`; empty for a world.
    settings : str
        Folder of the settings.
    file : str
        Result lines are in ``<file>.jsonl``.
    has_split_per_trial : bool
        Whether trial t uses split t; otherwise all trials use the same split.
    is_noisy : bool
        Whether rewards are noisy; see `bopl.simulation.with_noisy_rewards`.
    n_drawn : int or None
        Size of the training log, drawn anew in every trial; None: all samples.
    n_actions : int or None
        Number of actions of a world; see `bopl.simulation.make_mixture`.
    tree_method : str
        Tree method of XGBoost.
    cost : float
        Cost of a trial, as a multiple of the value in its settings file.
    """

    title: str
    data: str
    settings: str
    file: str
    has_split_per_trial: bool = False
    is_noisy: bool = False
    n_drawn: int | None = None
    n_actions: int | None = None
    tree_method: str = "exact"
    cost: float = 1.0


NOISY_FILE = "noisy"


# XGBoost grows its trees by histogram where rewards are noisy, which takes a fraction of the time.
_noisy = partial(Column, file=NOISY_FILE, has_split_per_trial=True, is_noisy=True, tree_method="hist")

# Name in the result lines: heading in the tables.
DATASETS = {
    "covertype": "Covertype",
    "fashion_mnist": "Fashion-MNIST",
    "scene": "Scene",
    "tmc2007_500": "TMC2007-500",
    "tmc2007_500_v1": "TMC2007-500 v1",
}
SPLITS = "scene_splits"
# The paper has one TMC2007-500; both versions of the data run with its values. The digits need no download.
COLUMNS = {
    **{name: Column(title, name, name.removesuffix("_v1"), name) for name, title in DATASETS.items()},
    "digits": Column("Digits", "digits", "digits", "digits"),
    SPLITS: Column("Scene, trial t on split t", "scene", "scene", SPLITS, has_split_per_trial=True),
    "noisy_covertype": _noisy("Covertype", "covertype", "covertype", n_drawn=50_000, cost=0.12),
    "noisy_fashion_mnist": _noisy("Fashion-MNIST", "fashion_mnist", "fashion_mnist"),
    "noisy_scene": _noisy("Scene", "scene", "scene"),
    "noisy_tmc2007_500": _noisy("TMC2007-500", "tmc2007_500", "tmc2007_500"),
    "noisy_digits": _noisy("Digits", "digits", "digits"),
    "noisy_world_50": _noisy("50 actions", "", "world", n_actions=50),
    "noisy_world_200": _noisy("200 actions", "", "world", n_actions=200, cost=4.0),
}
NOISY = tuple(name for name, column in COLUMNS.items() if column.is_noisy)

PAPER_METHODS = {
    "logging": "Logging",
    "brr-gb": "BRR-gb",
    "brr-xgb": "BRR-xgb",
    "drr": "DRR",
    "banditnet": "BanditNet",
    "bopl-regr": "BOPL-regr",
    "bopl-class": "BOPL-class",
    "bopl-s-regr": "BOPL-S-regr",
    "bopl-s-class": "BOPL-S-class",
}
DEFAULT = "bopl"  # what a user gets without choosing
METHODS = PAPER_METHODS | {DEFAULT: "bopl (default)"}
GREEDY_LOGGING = "logging-greedy"
LOGGING = ("logging", GREEDY_LOGGING)  # they are not trained
NOISY_METHODS = {
    "logging": "Logging, as it samples",
    GREEDY_LOGGING: "Logging, most probable action",
    **{name: title for name, title in METHODS.items() if name != "logging"},
}
NETWORKS = ("drr", "banditnet")
BOOSTED = tuple(name for name in PAPER_METHODS if name not in ("logging", *NETWORKS))
OWN_ENGINE = (*(name for name in BOOSTED if name != "brr-xgb"), DEFAULT)
FIGURE_METHODS = {"bopl-regr": "BOPL", "bopl-s-regr": "BOPL-S", "bopl-cs-regr": "BOPL-CS"}


@dataclass(frozen=True)
class Config:
    """Settings of one method on one dataset.

    Attributes
    ----------
    policy : dict
        Hyperparameters by name.
    search : dict of str to (low, high)
        The ranges the paper searched.
    seconds : float
        Approximate duration of one trial with two threads.
    """

    policy: dict[str, Any] = field(default_factory=dict)
    search: dict[str, tuple[float, float]] = field(default_factory=dict)
    seconds: float = 5.0


def read_config(dataset: str, method: str) -> Config:
    """Return the settings of a method on a dataset, from ``settings/<dataset>/<method>.toml``.

    >>> read_config("scene", "bopl-s-regr").policy["n_rounds"]
    100
    """
    check_choice("dataset", dataset, (*COLUMNS, "figure"))
    check_choice("method", method, (*METHODS, GREEDY_LOGGING, *FIGURE_METHODS))
    if method in LOGGING:
        return Config()
    column = COLUMNS.get(dataset)
    folder = dataset if column is None else column.settings
    path = files("bopl_paper") / "settings" / folder / f"{method}.toml"
    document = tomllib.loads(path.read_text(encoding="utf8"))
    policy, seconds = document["policy"], float(document["seconds"])
    if column is not None:
        seconds *= column.cost
        if method == "brr-xgb" and column.tree_method != "exact":
            policy["tree_method"] = column.tree_method
    ranges = {name: (low, high) for name, (low, high) in document.get("search", {}).items()}
    return Config(policy, ranges, seconds)
