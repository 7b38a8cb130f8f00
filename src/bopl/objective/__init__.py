"""Objectives: what is optimised.

Names are imported when first used.
"""

from typing import TYPE_CHECKING

from bopl._lazy import lazy_modules

if TYPE_CHECKING:
    from bopl.objective.dr import DR as DR
    from bopl.objective.ips import IPS as IPS
    from bopl.objective.protocol import BoundObjective as BoundObjective
    from bopl.objective.protocol import Objective as Objective
    from bopl.objective.protocol import RowWise as RowWise
    from bopl.objective.protocol import StepTarget as StepTarget
    from bopl.objective.registry import OBJECTIVES as OBJECTIVES
    from bopl.objective.registry import get_objective as get_objective
    from bopl.objective.registry import make_objective as make_objective
    from bopl.objective.registry import parse_weight as parse_weight
    from bopl.objective.registry import register_objective as register_objective
    from bopl.objective.surrogate import Surrogate as Surrogate
    from bopl.objective.terms import RewardTerms as RewardTerms
    from bopl.objective.training_data import TrainingData as TrainingData
    from bopl.objective.weight import WEIGHTS as WEIGHTS
    from bopl.objective.weight import Clipped as Clipped
    from bopl.objective.weight import ExponentialSmoothing as ExponentialSmoothing
    from bopl.objective.weight import ImplicitExploration as ImplicitExploration
    from bopl.objective.weight import LogSmoothing as LogSmoothing
    from bopl.objective.weight import Plain as Plain
    from bopl.objective.weight import Weight as Weight
    from bopl.objective.weight import register_weight as register_weight

__all__, __getattr__, __dir__ = lazy_modules(
    __name__,
    {
        "dr": "DR",
        "ips": "IPS",
        "protocol": "BoundObjective Objective RowWise StepTarget",
        "registry": "OBJECTIVES get_objective make_objective parse_weight register_objective",
        "surrogate": "Surrogate",
        "terms": "RewardTerms",
        "training_data": "TrainingData",
        "weight": "Clipped ExponentialSmoothing ImplicitExploration LogSmoothing Plain WEIGHTS Weight register_weight",
    },
)
