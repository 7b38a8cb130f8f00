"""The native tree engine: trees over (context, action) pairs whose matrix is never built.

Names are imported when first used.
"""

from typing import TYPE_CHECKING

from bopl._lazy import lazy_modules

if TYPE_CHECKING:
    from bopl.learner.hist_tree.bound import BoundHistTree as BoundHistTree
    from bopl.learner.hist_tree.export import to_xgboost as to_xgboost
    from bopl.learner.hist_tree.learner import HistTree as HistTree
    from bopl.learner.hist_tree.learner import HistTreeClassifier as HistTreeClassifier
    from bopl.learner.hist_tree.predict import FlatEnsemble as FlatEnsemble
    from bopl.learner.hist_tree.predict import flatten as flatten
    from bopl.learner.hist_tree.predictor import HistTreePredictor as HistTreePredictor
    from bopl.learner.hist_tree.tree import Tree as Tree

__all__, __getattr__, __dir__ = lazy_modules(
    __name__,
    {
        "bound": "BoundHistTree",
        "export": "to_xgboost",
        "learner": "HistTree HistTreeClassifier",
        "predict": "FlatEnsemble flatten",
        "predictor": "HistTreePredictor",
        "tree": "Tree",
    },
)
