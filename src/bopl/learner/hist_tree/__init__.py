"""The native tree engine: trees over (context, action) pairs whose matrix is never built."""

from bopl.learner.hist_tree.export import to_xgboost
from bopl.learner.hist_tree.learner import BoundHistTree, HistTree, HistTreeClassifier
from bopl.learner.hist_tree.predict import FlatEnsemble, flatten
from bopl.learner.hist_tree.predictor import HistTreePredictor
from bopl.learner.hist_tree.tree import Tree

__all__ = [
    "BoundHistTree",
    "FlatEnsemble",
    "HistTree",
    "HistTreeClassifier",
    "HistTreePredictor",
    "Tree",
    "flatten",
    "to_xgboost",
]
