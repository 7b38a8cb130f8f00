"""Learners and logs: any learner bound to the contexts of a log, and the learner that is used where none is named."""

from __future__ import annotations

from dataclasses import is_dataclass, replace
from typing import Any

from sklearn.base import clone

from bopl.learner.base import BoundLearner
from bopl.learner.hist_tree.learner import HistTree
from bopl.log import BanditLog


def bind_learner(learner: Any, log: BanditLog, *, seed: int) -> BoundLearner:
    """Bind a bopl learner or any scikit-learn regressor or classifier to the contexts of a log."""
    if hasattr(learner, "bind"):
        bound: BoundLearner = with_categories(learner, log).bind(log, seed=seed)
        return bound
    from bopl.learner.sklearn import bind_estimator

    return bind_estimator(learner, log, seed=seed)


def with_categories(learner: Any, log: BanditLog) -> Any:
    """Return a learner that knows which columns are categories: what it was told, else what the log says."""
    if not log.categorical or getattr(learner, "categorical", ()) is not None:
        return learner
    if is_dataclass(learner):
        return replace(learner, categorical=log.categorical)  # type: ignore[type-var]
    return clone(learner).set_params(categorical=log.categorical)


def default_learner() -> HistTree:
    """Return the learner of a policy that names none."""
    return HistTree(max_depth=12, min_child_weight=0.0, min_leaf_samples=20.0, colsample=0.5)
