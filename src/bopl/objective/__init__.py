"""Objectives: what is optimised."""

from bopl.objective.base import BoundObjective, Objective, RowWise, StepTarget
from bopl.objective.dr import DR
from bopl.objective.ips import IPS
from bopl.objective.registry import OBJECTIVES, get_objective, parse_weight, register_objective
from bopl.objective.surrogate import Surrogate
from bopl.objective.terms import RewardTerms
from bopl.objective.training_data import TrainingData
from bopl.objective.weight import (
    WEIGHTS,
    Clipped,
    ExponentialSmoothing,
    ImplicitExploration,
    LogSmoothing,
    Plain,
    Weight,
)

__all__ = [
    "DR",
    "IPS",
    "OBJECTIVES",
    "WEIGHTS",
    "BoundObjective",
    "Clipped",
    "ExponentialSmoothing",
    "ImplicitExploration",
    "LogSmoothing",
    "Objective",
    "Plain",
    "RewardTerms",
    "RowWise",
    "StepTarget",
    "Surrogate",
    "TrainingData",
    "Weight",
    "get_objective",
    "parse_weight",
    "register_objective",
]
