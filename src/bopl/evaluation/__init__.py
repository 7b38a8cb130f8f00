"""Estimates of a policy's value from a log, with intervals and a verdict."""

from bopl.evaluation.accumulate import ValueAccumulator
from bopl.evaluation.estimator import IPS, SNIPS, BetaIPS, ClippedIPS, Estimator, MeanEstimator, Need
from bopl.evaluation.interval import INTERVALS
from bopl.evaluation.learning_curve import LearningCurve, learning_curve
from bopl.evaluation.margin import Guard
from bopl.evaluation.model_based import DirectMethod, DoublyRobust, SelfNormalisedDR, ShrinkageDR, SwitchDR
from bopl.evaluation.parquet import evaluate_parquet
from bopl.evaluation.planning import Plan, detectable_effect, plan, required_samples
from bopl.evaluation.propensity import estimate_propensity
from bopl.evaluation.registry import ESTIMATORS, register_estimator
from bopl.evaluation.result import Evaluation
from bopl.evaluation.terms import Terms
from bopl.evaluation.whole_log import compare, evaluate

__all__ = [
    "ESTIMATORS",
    "INTERVALS",
    "IPS",
    "SNIPS",
    "BetaIPS",
    "ClippedIPS",
    "DirectMethod",
    "DoublyRobust",
    "Estimator",
    "Evaluation",
    "Guard",
    "LearningCurve",
    "MeanEstimator",
    "Need",
    "Plan",
    "SelfNormalisedDR",
    "ShrinkageDR",
    "SwitchDR",
    "Terms",
    "ValueAccumulator",
    "compare",
    "detectable_effect",
    "estimate_propensity",
    "evaluate",
    "evaluate_parquet",
    "learning_curve",
    "plan",
    "register_estimator",
    "required_samples",
]
