"""Checks of objectives, learners, estimators and policies: the promises that the package relies on.

Each raises `AssertionError` with the promise that is broken.
"""

from bopl.testing.estimator_checks import check_estimator
from bopl.testing.learner_checks import check_learner
from bopl.testing.logs import random_log
from bopl.testing.objective_checks import check_objective
from bopl.testing.policy_checks import check_policy

__all__ = ["check_estimator", "check_learner", "check_objective", "check_policy", "random_log"]
