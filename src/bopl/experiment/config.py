"""What is run: datasets, methods, and one file of settings for each pair."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any

from bopl._settings import check_choice

# Name in the result lines: heading in the tables.
DATASETS = {
    "covertype": "Covertype",
    "fashion_mnist": "Fashion-MNIST",
    "scene": "Scene",
    "tmc2007_500": "TMC2007-500",
    "tmc2007_500_v1": "TMC2007-500 v1",
}
METHODS = {
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
NETWORKS = ("drr", "banditnet")
BOOSTED = tuple(name for name in METHODS if name not in ("logging", *NETWORKS))
OWN_ENGINE = tuple(name for name in BOOSTED if name != "brr-xgb")
FIGURE_METHODS = {"bopl-regr": "BOPL", "bopl-s-regr": "BOPL-S", "bopl-cs-regr": "BOPL-CS"}
FIGURE_DATASET = "covertype"

N_TRIALS = 10  # of the paper

# The paper knows one TMC2007-500; both versions of the data run with its values. The digits need no download.
_FOLDER_OF = {"tmc2007_500_v1": "tmc2007_500"}
_KNOWN_DATASETS = (*DATASETS, "digits", "figure")


@dataclass(frozen=True)
class Config:
    """Settings of one method on one dataset.

    Attributes
    ----------
    policy : dict
        Hyper-parameters by name.
    search : dict of str to (low, high)
        The ranges the paper searched.
    seconds : float
        What one trial takes with two threads, roughly.
    """

    policy: dict[str, Any] = field(default_factory=dict)
    search: dict[str, tuple[float, float]] = field(default_factory=dict)
    seconds: float = 5.0


def read_config(dataset: str, method: str) -> Config:
    """Return the settings of a method on a dataset, from ``settings/<dataset>/<method>.toml``.

    >>> read_config("scene", "bopl-s-regr").policy["n_rounds"]
    100
    """
    check_choice("dataset", dataset, _KNOWN_DATASETS)
    check_choice("method", method, (*METHODS, *FIGURE_METHODS))
    if method == "logging":
        return Config()
    path = files("bopl.experiment") / "settings" / _FOLDER_OF.get(dataset, dataset) / f"{method}.toml"
    document = tomllib.loads(path.read_text(encoding="utf8"))
    ranges = {name: (low, high) for name, (low, high) in document.get("search", {}).items()}
    return Config(document["policy"], ranges, float(document["seconds"]))
