"""Learn better decisions from logs: boosted off-policy learning.

Names are imported when first used, so that ``import bopl`` stays quick and pulls in neither torch nor xgboost.
"""

import logging
from importlib import import_module
from typing import TYPE_CHECKING, Any

from bopl._lazy import lazy_modules

if TYPE_CHECKING:
    from bopl import baseline as baseline
    from bopl import cluster as cluster
    from bopl import objective as objective
    from bopl import report as report
    from bopl import search as search
    from bopl import simulation as simulation
    from bopl import theory as theory
    from bopl.boosting import Callback as Callback
    from bopl.boosting import CallbackAction as CallbackAction
    from bopl.boosting import Checkpoint as Checkpoint
    from bopl.boosting import TimeLimit as TimeLimit
    from bopl.evaluation import Evaluation as Evaluation
    from bopl.evaluation import Guard as Guard
    from bopl.evaluation import ValueAccumulator as ValueAccumulator
    from bopl.evaluation import compare as compare
    from bopl.evaluation import estimate_propensity as estimate_propensity
    from bopl.evaluation import evaluate as evaluate
    from bopl.evaluation import evaluate_parquet as evaluate_parquet
    from bopl.learner import HistTree as HistTree
    from bopl.learner import HistTreeClassifier as HistTreeClassifier
    from bopl.learner import XGBTree as XGBTree
    from bopl.log import BanditLog as BanditLog
    from bopl.log import PartitionedLog as PartitionedLog
    from bopl.log import concat as concat
    from bopl.log import outcomes as outcomes
    from bopl.policy import BlendedPolicy as BlendedPolicy
    from bopl.policy import BoostedPolicy as BoostedPolicy
    from bopl.policy import Policy as Policy
    from bopl.policy import load as load
    from bopl.policy import paper_policy as paper_policy
    from bopl.race import AutoPolicy as AutoPolicy
    from bopl.reward import BoostedRewardModel as BoostedRewardModel

__version__ = "0.2.0"

logging.getLogger("bopl").addHandler(logging.NullHandler())  # nothing is printed unless a program asks for it

_MODULES = (
    *("baseline", "boosting", "cluster", "evaluation", "learner", "log", "objective", "policy", "race", "report"),
    *("reward", "search", "simulation", "testing", "theory", "workflow"),
)
_EXTRA_MODULES = ("mlflow", "serving")  # which need packages that not everybody has
_NAMES, _get, _ = lazy_modules(
    __name__,
    {
        "boosting": "Callback CallbackAction Checkpoint TimeLimit",
        "evaluation": "Evaluation Guard ValueAccumulator compare estimate_propensity evaluate evaluate_parquet",
        "learner": "HistTree HistTreeClassifier XGBTree",
        "log": "BanditLog PartitionedLog concat outcomes",
        "policy": "BlendedPolicy BoostedPolicy Policy load paper_policy",
        "race": "AutoPolicy",
        "reward": "BoostedRewardModel",
    },
)
__all__ = sorted([*_NAMES, *_MODULES])


def __getattr__(name: str) -> Any:
    return import_module(f"bopl.{name}") if name in (*_MODULES, *_EXTRA_MODULES) else _get(name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
