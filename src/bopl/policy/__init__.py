"""Policies: scores to probabilities to actions, and the file they are kept in."""

from bopl.policy.base import Policy
from bopl.policy.boosted import BoostedPolicy
from bopl.policy.model_file import load
from bopl.policy.paper import PAPER_VARIANTS, paper_policy

__all__ = ["PAPER_VARIANTS", "BoostedPolicy", "Policy", "load", "paper_policy"]
