"""Estimates of a policy's value from a log, with intervals and a verdict.

Names are imported when first used.
"""

from typing import TYPE_CHECKING

from bopl._lazy import lazy_modules

if TYPE_CHECKING:
    from bopl.evaluation.accumulate import ValueAccumulator as ValueAccumulator
    from bopl.evaluation.beta_ips import BetaIPS as BetaIPS
    from bopl.evaluation.estimator import IPS as IPS
    from bopl.evaluation.estimator import SNIPS as SNIPS
    from bopl.evaluation.estimator import ClippedIPS as ClippedIPS
    from bopl.evaluation.estimator import Estimator as Estimator
    from bopl.evaluation.estimator import MeanEstimator as MeanEstimator
    from bopl.evaluation.estimator import Need as Need
    from bopl.evaluation.estimator_registry import ESTIMATORS as ESTIMATORS
    from bopl.evaluation.estimator_registry import register_estimator as register_estimator
    from bopl.evaluation.interval import Evidence as Evidence
    from bopl.evaluation.interval import Interval as Interval
    from bopl.evaluation.interval_registry import INTERVALS as INTERVALS
    from bopl.evaluation.interval_registry import register_interval as register_interval
    from bopl.evaluation.model_based import DirectMethod as DirectMethod
    from bopl.evaluation.model_based import DoublyRobust as DoublyRobust
    from bopl.evaluation.model_based import SelfNormalisedDR as SelfNormalisedDR
    from bopl.evaluation.model_based import ShrinkageDR as ShrinkageDR
    from bopl.evaluation.model_based import SwitchDR as SwitchDR
    from bopl.evaluation.pieces import evaluate_parquet as evaluate_parquet
    from bopl.evaluation.planning import LearningCurve as LearningCurve
    from bopl.evaluation.planning import Plan as Plan
    from bopl.evaluation.planning import detectable_effect as detectable_effect
    from bopl.evaluation.planning import learning_curve as learning_curve
    from bopl.evaluation.planning import plan as plan
    from bopl.evaluation.planning import required_samples as required_samples
    from bopl.evaluation.propensity import estimate_propensity as estimate_propensity
    from bopl.evaluation.question import Guard as Guard
    from bopl.evaluation.result import Evaluation as Evaluation
    from bopl.evaluation.row import Comparison as Comparison
    from bopl.evaluation.row import Estimate as Estimate
    from bopl.evaluation.row import GuardResult as GuardResult
    from bopl.evaluation.row import PolicyVerdict as PolicyVerdict
    from bopl.evaluation.row import SegmentEstimate as SegmentEstimate
    from bopl.evaluation.row import TippingPoint as TippingPoint
    from bopl.evaluation.sample_terms import Terms as Terms
    from bopl.evaluation.whole_log import compare as compare
    from bopl.evaluation.whole_log import evaluate as evaluate

__all__, __getattr__, __dir__ = lazy_modules(
    __name__,
    {
        "accumulate": "ValueAccumulator",
        "beta_ips": "BetaIPS",
        "estimator": "ClippedIPS Estimator IPS MeanEstimator Need SNIPS",
        "estimator_registry": "ESTIMATORS register_estimator",
        "interval": "Evidence Interval",
        "interval_registry": "INTERVALS register_interval",
        "model_based": "DirectMethod DoublyRobust SelfNormalisedDR ShrinkageDR SwitchDR",
        "pieces": "evaluate_parquet",
        "planning": "LearningCurve Plan detectable_effect learning_curve plan required_samples",
        "propensity": "estimate_propensity",
        "question": "Guard",
        "result": "Evaluation",
        "row": "Comparison Estimate GuardResult PolicyVerdict SegmentEstimate TippingPoint",
        "sample_terms": "Terms",
        "whole_log": "compare evaluate",
    },
)
