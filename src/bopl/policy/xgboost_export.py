"""A boosted policy as an XGBoost model file."""

from __future__ import annotations

import json
from pathlib import Path

from bopl.boosting import Ensemble
from bopl.learner.hist_tree.export import to_xgboost
from bopl.policy.explanation import engine_trees


def write_xgboost(ensemble: Ensemble, path: str | Path) -> None:
    """Write the ensemble's scores as an XGBoost JSON model."""
    if Path(path).suffix != ".json":
        raise ValueError(
            f"XGBoost tells the format of a model by the file's name: use one that ends in .json, not {path}."
        )
    trees = engine_trees(ensemble)
    if not trees:
        raise ValueError("there are no trees to export: no round was made.")
    model = to_xgboost(trees, ensemble.coefficients, n_action_features=trees[0].n_action_features)
    Path(path).write_text(json.dumps(model), encoding="utf8")
