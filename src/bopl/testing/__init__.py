"""Checks of objectives, learners, estimators and policies: the promises that the package relies on.

Each raises `AssertionError` with the promise that is broken.
"""

from bopl.testing.estimator import check_estimator
from bopl.testing.learner import check_learner
from bopl.testing.logs import random_log
from bopl.testing.objective import check_objective
from bopl.testing.policy import check_policy

__all__ = ["check_estimator", "check_learner", "check_objective", "check_policy", "random_log"]
