"""`BoostedPolicy.fit` on a log in pieces: what is known of the whole log first, then the loop over pieces."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bopl._typing import FloatArray
from bopl.boosting import BoostingState, ProgressBar, Start
from bopl.boosting.loop import AnyCallback, BoostingResult, BoostingRun, boost, result_of
from bopl.boosting.pieces import PiecesLog, PiecesProblem, parts_of, run_over_pieces
from bopl.boosting.pieces.facts import LoadLog, find_layout, find_numbers, gather_rows
from bopl.boosting.pieces.state import BuildPolicy
from bopl.cluster import Cluster
from bopl.learner import HistTree, with_categories
from bopl.learner.hist_tree.learner import categorical_mask, check_tree_settings, feature_matrix
from bopl.learner.hist_tree.storage import Layout, store_context
from bopl.log.identical import decision_keys
from bopl.log.learnable import check_reward_size
from bopl.log.row_sketch import RowSketch
from bopl.objective import DR, IPS, Surrogate, get_objective
from bopl.objective.training_data import check_sample_weight

if TYPE_CHECKING:
    from bopl.policy.boosted import BoostedPolicy

ROW_WISE = (IPS, Surrogate, DR)  # objectives whose terms of a sample depend on that sample alone


def is_in_pieces(log: Any) -> bool:
    """Return whether a log is one in pieces."""
    return hasattr(log, "pieces") and hasattr(log, "spec")


@dataclass(frozen=True)
class PiecesFit:
    """What came of a fit: the result, and the rows it was trained on."""

    result: BoostingResult
    n_kept: int
    training_rows: RowSketch


def fit_over_pieces(
    policy: BoostedPolicy,
    log: PiecesLog,
    cluster: Cluster,
    *,
    sample_weight: Any,
    callbacks: Sequence[AnyCallback],
    seed: int,
    resume_from: str | Path | None,
    n_jobs: int,
) -> PiecesFit:
    """Train a policy on a log in pieces."""
    learner = _tree_of(policy, log)
    objective = _objective_of(policy)
    weight = check_sample_weight(sample_weight, log.n_samples)
    parts = parts_of(log, sample_weight=weight)
    with cluster.place(parts, LoadLog(log.spec)) as placed:
        numbers = find_numbers(placed, policy.reward_translation)
        check_reward_size(numbers.largest_reward)
        categorical = categorical_mask(learner.categorical, log.n_features, log.feature_names)
        layout = find_layout(placed, learner.max_bins, categorical, log.n_actions)
        sketch = _sketch(placed, log.n_samples)
    build = BuildPolicy(log.spec, layout, objective, policy.reward_translation, numbers.least_propensity, log.n_actions)
    problem = PiecesProblem(
        parts,
        build,
        learner,
        _without_rows(layout, log.n_features),
        feature_matrix(log.action_features, log.n_actions),
        log.n_samples,
        _has_mask(log),
    )
    state: Any = BoostingState(log, policy.n_rounds, seed, Start(), {})  # type: ignore[arg-type]
    watchers: list[AnyCallback] = [ProgressBar()] if policy.progress else []
    with run_over_pieces(problem, cluster, seed=seed, n_jobs=n_jobs, rounds=state.rounds) as (trees, ascent):
        none: FloatArray = np.zeros(0)

        def begin() -> BoostingRun:
            return BoostingRun(trees, ascent, none, policy._step_rule(), state, float("nan"))

        reason = boost(state, begin, policy.n_rounds, [*watchers, *callbacks])
    result = result_of(state, objective, reason)
    return PiecesFit(result, len(result.ensemble.rounds), sketch)


def _tree_of(policy: BoostedPolicy, log: PiecesLog) -> HistTree:
    learner = policy._learner()
    if not isinstance(learner, HistTree):
        raise TypeError(
            f"a log in pieces is learned from by bopl.HistTree or bopl.HistTreeClassifier; {type(learner).__name__} "
            "needs it in memory: pass log.to_log()."
        )
    learner = with_categories(learner, log)
    check_tree_settings(learner)
    return learner


def _objective_of(policy: BoostedPolicy) -> Any:
    objective = get_objective(policy.objective)
    if not isinstance(objective, ROW_WISE) or getattr(objective, "self_normalised", False):
        raise TypeError(
            f"the objective {objective.name!r} with these settings looks at all samples at once, and those of a log in "
            "pieces are never together; use 'ips', 'surrogate' or 'dr', or pass log.to_log()."
        )
    return objective


def _without_rows(layout: Layout, n_features: int) -> Any:
    return store_context(np.zeros((0, n_features), np.float32), layout)


def _has_mask(log: PiecesLog) -> bool:
    return bool(getattr(log, "has_action_mask", False))


def _sketch(placed: Any, n_samples: int) -> RowSketch:
    keys, reward = gather_rows(placed, _row_keys), gather_rows(placed, _rewards)
    return RowSketch.from_keys(keys, reward, n_samples)


def _row_keys(state: Any) -> Any:
    return np.zeros(0, np.uint64) if state[1] is None else decision_keys(state[1])


def _rewards(state: Any) -> Any:
    return np.zeros(0) if state[1] is None else state[1].reward
