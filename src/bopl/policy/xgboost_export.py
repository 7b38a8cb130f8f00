"""A boosted policy as an XGBoost model file."""

from __future__ import annotations

import json
from pathlib import Path

from bopl._files import write_text
from bopl.boosting import Ensemble
from bopl.learner.hist_tree.export import to_xgboost
from bopl.policy.summands import summands_of


def write_xgboost(ensemble: Ensemble, path: str | Path) -> None:
    """Write the ensemble's scores as an XGBoost JSON model."""
    if Path(path).suffix != ".json":
        raise ValueError(f"XGBoost determines the format by the file name: use one that ends in .json, not {path}.")
    summands = summands_of(ensemble)
    if summands.terms:
        raise TypeError(
            "the policy starts from a linear model of the logging policy, which is not a tree, so XGBoost cannot "
            "represent it; export it to ONNX instead."
        )
    if summands.sparse_trees:
        raise TypeError(
            "the policy's trees were grown by XGBoost on sparse contexts and take zeros for missing values, which a "
            "model file cannot say; export it to ONNX instead, or fit it on dense contexts."
        )
    if not summands.trees:
        raise ValueError("there are no trees to export: no round was made.")
    n_action_features = summands.trees[0].n_action_features
    model = to_xgboost(summands.trees, summands.coefficients, n_action_features=n_action_features)
    write_text(path, json.dumps(model))
