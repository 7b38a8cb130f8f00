"""`BoostedPolicy.fit` on a log in pieces: first what depends on the whole log, then the loop over pieces."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bopl._registry import keeps
from bopl._typing import FloatArray
from bopl.boosting import BoostingState, ProgressBar, Start, Validation, read_checkpoint
from bopl.boosting.loop import AnyCallback, BoostingResult, BoostingRun, boost, result_of
from bopl.boosting.pieces import PiecesProblem, WaitingShare, run_over_pieces
from bopl.boosting.pieces.certificate import optimal_risk
from bopl.boosting.pieces.models import AfterPrior, PiecesBench, StartModels, own_reward
from bopl.boosting.pieces.run import working_memory
from bopl.boosting.pieces.state import BuildPolicy
from bopl.boosting.pieces.validation import PiecesValidation
from bopl.boosting.workbench import LoggingFit, reward_start
from bopl.cluster import Cluster, Placement
from bopl.learner import HistTree, with_categories
from bopl.learner.hist_tree.inputs import categorical_mask, check_tree_settings, feature_matrix
from bopl.learner.pieces import Part, parts_of, place_parts
from bopl.learner.pieces.facts import (
    LoadedPiece,
    LoadLog,
    add_some,
    count_keys,
    find_layout,
    find_numbers,
    plain_context,
    rewards,
    stream_values,
    without_rows,
)
from bopl.learner.pieces.part import place_of
from bopl.learner.pieces.stored import find_row_key
from bopl.log.identical import content_digest, decision_keys, digest_of, sample_keys
from bopl.log.learnable import check_reward_size
from bopl.log.row_sketch import RowSketch
from bopl.objective import RowWise, TrainingData
from bopl.objective.training_data import check_sample_weight
from bopl.reward.boosted_model import BoostedRewardModel

if TYPE_CHECKING:
    from bopl.policy.boosted import BoostedPolicy
    from bopl.policy.boosting_plan import BoostingPlan


def is_in_pieces(log: Any) -> bool:
    """Return whether a log is one in pieces."""
    return hasattr(log, "pieces") and hasattr(log, "spec")


@dataclass(frozen=True)
class PiecesFit:
    """Result of a fit, and the rows it was trained on."""

    result: BoostingResult
    n_kept: int
    training_rows: RowSketch


def fit_over_pieces(
    plan: BoostingPlan,  # from the settings of the policy
    log: Any,  # PiecesLog
    cluster: Cluster,
    *,
    sample_weight: Any,  # (n_samples,)
    validation: Any,  # BanditLog or PiecesLog
    callbacks: Sequence[AnyCallback],
    seed: int,
    resume_from: str | Path | None,
) -> PiecesFit:
    """Train a policy on a log in pieces."""
    policy, weight = plan.policy, check_sample_weight(sample_weight, log.n_samples)
    if policy.validation_fraction is not None and validation is None:
        rows, watched = log.split_rows(policy.validation_fraction, by="latest", random_state=seed)
        weight = None if weight is None else check_sample_weight(weight[rows], len(rows))
        log, validation = log.subset(rows), log.subset(watched)
    cluster.reserve(working_memory(log, _tree_of(plan, log)))
    with ExitStack() as stack:
        ready = _prepare(plan, log, cluster, weight, seed, validation)
        settings = plan.round_settings(weight, policy.n_folds, seed)
        state = BoostingState(log, policy.n_rounds, seed, ready.start, settings, digest=ready.digest)
        if resume_from is not None:
            state = read_checkpoint(resume_from, log, settings, policy.n_rounds, digest=ready.digest)
            state.start, state.score = ready.start, None
        watch = _watch(policy, validation, cluster)
        if isinstance(watch, PiecesValidation):
            stack.callback(watch.close)
        waiting = WaitingShare()
        bar = [ProgressBar(note=waiting.text)] if policy.progress else []
        watchers: list[AnyCallback] = [*([watch] if watch else []), *bar]

        def begin() -> BoostingRun:
            run = run_over_pieces(ready.problem, cluster, seed=state.seed, n_jobs=plan.n_threads, rounds=state.rounds)
            trees, ascent = stack.enter_context(run)
            waiting.watch(ascent.traffic)
            return BoostingRun(trees, ascent, np.zeros(0), plan.step_rule, state, ready.optimal_risk)

        reason = boost(state, begin, policy.n_rounds, [*watchers, *callbacks])
        result = result_of(state, plan.objective, reason)
        n_kept = len(result.ensemble.rounds) if watch is None or watch.best_value == -np.inf else watch.best_n_rounds
        return PiecesFit(result, n_kept, ready.training_rows)


@dataclass(frozen=True)
class _Ready:
    """Everything computed before the first round."""

    problem: PiecesProblem
    start: Start
    optimal_risk: float
    digest: str
    training_rows: RowSketch


def _sketch(raw: Placement, log: Any, validation: Any, cluster: Cluster) -> RowSketch:
    """Return the sketch of the training and validation rows."""
    digest = digest_of(array for function in (decision_keys, rewards) for array in stream_values(raw, function))
    own, others = (raw, decision_keys), partial(decision_keys, actions=log.actions)
    if validation is None:
        return RowSketch.from_counts(count_keys([own], log.n_samples), log.n_samples, digest.hexdigest())
    with ExitStack() as stack:
        placed = validation
        if is_in_pieces(validation):
            placed = stack.enter_context(place_parts(cluster, parts_of(validation), LoadLog(validation.spec)))
        counts = count_keys([own, (placed, others)], log.n_samples + validation.n_samples)
        return RowSketch.from_counts(counts, log.n_samples, digest.hexdigest())


def _prepare(
    plan: BoostingPlan, log: Any, cluster: Cluster, weight: FloatArray | None, seed: int, validation: Any
) -> _Ready:
    """Compute what depends on the whole log: bins, models, certificate."""
    policy, learner, objective = plan.policy, _tree_of(plan, log), _objective_of(plan)
    with place_parts(cluster, parts_of(log, sample_weight=weight), LoadLog(log.spec)) as raw:
        numbers = find_numbers(raw, policy.reward_translation)
        _, sample, reward = numbers.largest_reward
        check_reward_size(reward, lambda: place_of(log, -sample))
        plan.check_has_reward(numbers.has_reward, log.n_samples)
        bench = PiecesBench(
            log,
            raw,
            cluster,
            sample_weight=weight,
            n_folds=policy.n_folds,
            seed=seed,
            n_jobs=plan.n_threads,
            is_sparse=numbers.is_sparse,
        )
        models, folded, start = _models(plan, bench)
        parts = parts_of(log, sample_weight=weight) if folded is None else folded
        categorical = categorical_mask(learner.categorical, log.n_features, log.feature_names)
        layout = find_layout(raw, plain_context, learner.max_bins, categorical, log.n_actions)
        build = BuildPolicy(
            log.spec,
            layout,
            objective.for_parts(raw.reduce(_objective_sums, objective, add=add_some)),
            policy.reward_translation,
            numbers.least_propensity,
            log.n_actions,
            numbers.is_sparse,
            models,
            None if numbers.is_sparse else find_row_key(raw, learner, log.n_samples, max(one.n_rows for one in parts)),
        )
        training_rows = _sketch(raw, log, validation, cluster)
        digest = content_digest(stream_values(raw, sample_keys), log)
        optimal = float("nan")
        if policy.certificate and folded is None:
            optimal = optimal_risk(raw, build, log.n_samples)
    if policy.certificate and folded is not None:  # pieces that know their folds
        with place_parts(cluster, folded, LoadLog(log.spec)) as raw:
            optimal = optimal_risk(raw, build, log.n_samples)
    problem = PiecesProblem(
        parts,
        build,
        learner,
        without_rows(layout, is_sparse=numbers.is_sparse),
        feature_matrix(log.action_features, log.n_actions),
        log.n_samples,
        bool(log.has_action_mask),
    )
    return _Ready(problem, start, optimal, digest, training_rows)


def _models(plan: BoostingPlan, bench: PiecesBench) -> tuple[StartModels | None, list[Part] | None, Start]:
    """Return the models that boosting starts from, the pieces with their folds, and the start."""
    policy, words, needs_model = plan.policy, plan.start_parts, plan.needs_reward_model
    if not plan.uses_models:
        return None, None, Start()
    model = BoostedRewardModel() if policy.reward_model is None else policy.reward_model
    if needs_model and not keeps(model, BoostedRewardModel, "fit", "predict"):
        raise TypeError(
            f"only bopl.BoostedRewardModel supports a log in pieces; {type(model).__name__} needs it in memory: "
            "pass log.to_log()."
        )
    has_prior = needs_model and policy.reward_prior
    logging = bench.logging() if "logging" in words or has_prior else None
    prior = bench.prior(logging) if has_prior and logging is not None else None
    factor = plan.start_factor(bench.spread())
    fitted, parts = None, None
    if needs_model:
        read = own_reward if prior is None or logging is None else AfterPrior(logging, prior)
        fitted, parts = bench.rewards(model, read)
    start = Start()
    if "logging" in words and logging is not None:
        start = start + LoggingFit(logging, np.zeros((0, 0))).start()
    if "reward_model" in words and fitted is not None:
        start = start + reward_start(fitted, prior, factor)
    in_start = factor if "reward_model" in words else 0.0
    models = StartModels(logging, fitted, prior, in_start, "logging" in words, plan.objective.needs_reward_model)
    return models, parts, start


def _watch(policy: BoostedPolicy, validation: Any, cluster: Cluster) -> Validation | None:
    if validation is None:
        return None
    if is_in_pieces(validation):
        return PiecesValidation(validation, cluster, policy.early_stopping_rounds)
    return Validation(validation, policy.early_stopping_rounds)


def _tree_of(plan: BoostingPlan, log: Any) -> HistTree:
    learner = plan.learner
    if not keeps(learner, HistTree, "bind"):
        raise TypeError(
            f"only bopl.HistTree and bopl.HistTreeClassifier support a log in pieces; {type(learner).__name__} "
            "needs it in memory: pass log.to_log()."
        )
    learner = with_categories(learner, log)
    check_tree_settings(learner)
    return learner


def _objective_of(plan: BoostingPlan) -> Any:
    objective = plan.objective
    owner = next((kind for kind in type(objective).__mro__ if "for_parts" in vars(kind)), None)
    if owner is None or not (owner is RowWise or keeps(objective, owner, "bind")):
        raise TypeError(
            f"the objective {objective.name!r} may use all samples at once, but those of a log in pieces are never "
            "together: let its class inherit bopl.objective.RowWise if it does not, and define for_parts beside bind "
            "if it inherits both, or pass log.to_log()."
        )
    return objective


def _objective_sums(state: LoadedPiece, objective: RowWise) -> Any:
    if state.log is None:
        return None
    return objective.sums_of(TrainingData(state.log, None, state.part.sample_weight))
