"""From a method's name and settings to a policy."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

from bopl._settings import check_choice
from bopl.policy.scored import ScoredPolicy
from bopl_paper.catalogue import DEFAULT, NETWORKS

_OBJECTIVE_OF = {
    "bopl-regr": "ips",
    "bopl-class": "ips",
    "bopl-s-regr": "surrogate",
    "bopl-s-class": "surrogate",
    "bopl-cs-regr": "surrogate",
}
_TRAINED = ("brr-gb", "brr-xgb", "drr", "banditnet", *_OBJECTIVE_OF, DEFAULT)


def build_policy(
    method: str, settings: Mapping[str, Any], *, n_jobs: int | None = None, device: str = "auto", seed: int = 0
) -> ScoredPolicy:
    """Return an unfitted policy.

    The boosted methods use the native engine where the paper used XGBoost's exact trees and scikit-learn's classifier:
    the same trees up to the binning of the columns, in a fraction of the time. The ``-class`` variants count
    ``min_child_weight`` in rows, as the paper's learner does.

    Parameters
    ----------
    method : str
        One of the trained methods of the tables, or ``"bopl-cs-regr"``.
    settings : mapping
        Hyperparameters as in the settings files; the default, ``"bopl"``, has none.
    n_jobs : int, optional
        Number of threads.
    device : {"auto", "cpu", "cuda"}
        Device of the networks.
    seed : int
    """
    check_choice("method", method, _TRAINED)
    known = dict(settings)
    if method == "drr":
        from bopl.baseline import DeepRewardPolicy

        return DeepRewardPolicy(**known, device=device, progress=False, random_state=seed)
    if method == "banditnet":
        from bopl.baseline import BanditNetPolicy

        return BanditNetPolicy(**known, device=device, progress=False, random_state=seed)
    if method == "brr-xgb":
        from bopl.baseline import XGBRewardPolicy

        return XGBRewardPolicy(**known, n_jobs=n_jobs, random_state=seed)
    if method == DEFAULT:
        from bopl.race import AutoPolicy

        return AutoPolicy(**known, n_jobs=n_jobs, progress=False, random_state=seed)
    learner = _learner(method, known, n_jobs)
    if method == "brr-gb":
        from bopl.baseline import BoostedRewardPolicy

        return BoostedRewardPolicy(learner, **known, n_jobs=n_jobs, random_state=seed)
    from bopl.policy import BoostedPolicy
    from bopl.policy.paper import PAPER_OBJECTIVES

    objective = PAPER_OBJECTIVES[_OBJECTIVE_OF[method]]
    return BoostedPolicy(objective, learner, **known, certificate=False, progress=False, random_state=seed)


def resolve_device(method: str, device: str) -> str:
    """Return where a method's networks run, ``"cpu"`` or ``"cuda"``; trees always run on the CPU.

    The default may train a network if PyTorch is installed, on whatever device there is.
    """
    if method not in (*NETWORKS, DEFAULT) or (method == DEFAULT and find_spec("torch") is None):
        return "cpu"
    import torch

    from bopl._machine import pick_device

    return str(pick_device(torch, "auto" if method == DEFAULT else device).type)


def _learner(method: str, known: dict[str, Any], n_jobs: int | None) -> Any:
    """Take the learner's settings out of ``known`` and return the learner."""
    from bopl.learner import HistTree, HistTreeClassifier

    max_depth, least = known.pop("max_depth"), known.pop("min_child_weight")
    reg_lambda = known.pop("reg_lambda", 0.0)
    if method.endswith("-class"):
        return HistTreeClassifier(max_depth, min_samples_leaf=round(least), min_child_weight=0.0, n_jobs=n_jobs)
    return HistTree(max_depth, min_child_weight=least, reg_lambda=reg_lambda, n_jobs=n_jobs)
