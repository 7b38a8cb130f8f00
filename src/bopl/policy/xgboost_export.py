"""A boosted policy as an XGBoost model file."""

from __future__ import annotations

import json
from pathlib import Path

from bopl.boosting import Ensemble
from bopl.learner.hist_tree.export import to_xgboost
from bopl.learner.hist_tree.predictor import HistTreePredictor


def write_xgboost(ensemble: Ensemble, path: str | Path) -> None:
    """Write the ensemble's scores as an XGBoost JSON model."""
    if Path(path).suffix != ".json":
        raise ValueError(
            f"XGBoost tells the format of a model by the file's name: use one that ends in .json, not {path}."
        )
    trees = [entry.predictor.tree for entry in ensemble.rounds if isinstance(entry.predictor, HistTreePredictor)]
    if not trees or len(trees) < len(ensemble.rounds):
        raise TypeError("to_xgboost needs a policy whose learner is HistTree or HistTreeClassifier.")
    coefficient = [entry.step.size for entry in ensemble.rounds]
    model = to_xgboost(trees, coefficient, n_action_features=trees[0].n_action_features)
    Path(path).write_text(json.dumps(model), encoding="utf8")
