"""Base learners: how one boosting step is fitted.

Names are imported when first used.
"""

from typing import TYPE_CHECKING

from bopl._lazy import lazy_modules

if TYPE_CHECKING:
    from bopl.learner.base import BaseLearner as BaseLearner
    from bopl.learner.base import BoundLearner as BoundLearner
    from bopl.learner.base import FittedStep as FittedStep
    from bopl.learner.base import Predictor as Predictor
    from bopl.learner.binding import bind_learner as bind_learner
    from bopl.learner.binding import default_learner as default_learner
    from bopl.learner.binding import with_categories as with_categories
    from bopl.learner.hist_tree.learner import HistTree as HistTree
    from bopl.learner.hist_tree.learner import HistTreeClassifier as HistTreeClassifier
    from bopl.learner.store import LEARNERS as LEARNERS
    from bopl.learner.store import Codec as Codec
    from bopl.learner.store import register_learner as register_learner
    from bopl.learner.store import register_predictor as register_predictor
    from bopl.learner.xgboost import XGBTree as XGBTree

__all__, __getattr__, __dir__ = lazy_modules(
    __name__,
    {
        "base": "BaseLearner BoundLearner FittedStep Predictor",
        "binding": "bind_learner default_learner with_categories",
        "hist_tree.learner": "HistTree HistTreeClassifier",
        "store": "LEARNERS Codec register_learner register_predictor",
        "xgboost": "XGBTree",
    },
)
