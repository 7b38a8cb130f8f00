"""The summands of a policy's scores: trees, also for XGBoost, and functions of the logging policy's probabilities."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bopl._files import as_path, write_text
from bopl.boosting import Ensemble
from bopl.learner.hist_tree.export import to_xgboost
from bopl.learner.hist_tree.predictor import HistTreePredictor
from bopl.learner.hist_tree.tree import Tree
from bopl.reward.logging_model import LoggingTerm


@dataclass(frozen=True, eq=False)
class Summands:
    """``score = Σ coefficient · tree + Σ term``, of the start and of the rounds."""

    trees: list[Tree]
    coefficients: list[float]  # of each tree
    sparse_trees: list[Tree]  # trees for which zeros of the context are missing values
    sparse_coefficients: list[float]
    terms: list[LoggingTerm]  # one for each model of the logging policy; their coefficients are multiplied in


def summands_of(ensemble: Ensemble) -> Summands:
    """Return the summands of an ensemble.

    Other predictors than trees and the logging policy raise a TypeError.
    """
    trees: list[tuple[Tree, float]] = []
    sparse: list[tuple[Tree, float]] = []
    terms: list[tuple[LoggingTerm, float]] = []
    for predictor, coefficient in zip(ensemble.predictors, ensemble.coefficients, strict=True):
        if isinstance(predictor, HistTreePredictor):
            (sparse if predictor.zero_is_missing else trees).append((predictor.tree, coefficient))
        elif isinstance(predictor, LoggingTerm):
            terms.append((predictor, coefficient))
        else:
            raise TypeError(
                "explanations and exports need a policy whose learner is HistTree, HistTreeClassifier, XGBTree or a "
                "decision tree of scikit-learn, and whose reward model, if boosting starts from one, is "
                "BoostedRewardModel."
            )
    return Summands(*_columns(trees), *_columns(sparse), _merged(terms))


def _columns(pairs: Sequence[tuple[Tree, float]]) -> tuple[list[Tree], list[float]]:
    return [tree for tree, _ in pairs], [coefficient for _, coefficient in pairs]


def _merged(terms: Sequence[tuple[LoggingTerm, float]]) -> list[LoggingTerm]:
    """Return one term for each model: terms are linear in their factors."""
    # By identity: terms of one start share their model, and comparing models would compare all their arrays.
    factors = {id(term.model): (term.model, 0.0, 0.0) for term, _ in terms}
    for term, coefficient in terms:
        model, log_factor, prob_factor = factors[id(term.model)]
        factors[id(term.model)] = (
            model,
            log_factor + coefficient * term.log_factor,
            prob_factor + coefficient * term.prob_factor,
        )
    return [LoggingTerm(*entry) for entry in factors.values()]


def write_xgboost(ensemble: Ensemble, path: str | Path) -> None:
    """Write the ensemble's scores as an XGBoost JSON model."""
    if as_path(path).suffix != ".json":
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
