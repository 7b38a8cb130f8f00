"""Hyperparameter search, scored by the truth if it is known, otherwise by off-policy estimates."""

from bopl.search.scorer import CrossValidatedScorer, Scorer, SimulatedScorer
from bopl.search.space import Choice, Float, Int
from bopl.search.study import SearchResult, search

__all__ = ["Choice", "CrossValidatedScorer", "Float", "Int", "Scorer", "SearchResult", "SimulatedScorer", "search"]
