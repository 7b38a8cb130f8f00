"""Hyper-parameter search, scored by the truth where it is known and by off-policy estimates where it is not."""

from bopl.search.scorer import CrossValidatedScorer, Scorer, SimulatedScorer
from bopl.search.space import Choice, Float, Int
from bopl.search.study import SearchResult, search

__all__ = ["Choice", "CrossValidatedScorer", "Float", "Int", "Scorer", "SearchResult", "SimulatedScorer", "search"]
