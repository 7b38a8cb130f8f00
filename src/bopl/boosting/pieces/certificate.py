"""The minimum risk of any policy on a log in pieces: samples that share a context are gathered."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from bopl._exact import no_limbs, value_of
from bopl._typing import AnyArray, FloatArray
from bopl.boosting.pieces.state import BuildPolicy
from bopl.cluster import Placement
from bopl.learner.pieces.facts import LoadedPiece, count_keys, is_among
from bopl.log import BanditLog
from bopl.log.concatenation import join_parts
from bopl.log.identical import Keys, context_keys, keys_of, mix
from bopl.objective import RewardTerms, TrainingData

MAX_SHARED = 20_000_000  # samples that share a context and are brought together, times actions for "dr"


def optimal_risk(raw: Placement, build: BuildPolicy, n_samples: int) -> float:
    """Return the minimum risk of the objective, as for a log in memory.

    ``raw`` are the loaded pieces, with folds if there are models; ``build`` binds the objective to a piece.
    """
    n_shared, repeated = 0, []
    for some in count_keys([(raw, _keys)], n_samples):
        n_shared += some.n_repeated
        repeated.append(some.repeated)
    width = build.n_actions if build.models is not None else 1
    if n_shared * width > MAX_SHARED:
        raise ValueError(
            f"{n_shared:,} of {n_samples:,} samples share their context with another one, and the certificate has to "
            f"bring them together, which takes too much memory; set certificate=False."
        )
    shared = np.concatenate(repeated)  # hashes of contexts that several samples have
    has_log, has_growing = (bool(one) for one in raw.reduce(_signs, build, add=operator.or_))
    is_surrogate = has_log and not has_growing
    total = raw.reduce(_alone, build, shared, is_surrogate, add=operator.add)
    if n_shared:
        found = [one for one in raw.gather(_shared, build, shared) if one is not None]
        total = total + _bind(build, _join(found)).optimal_total(is_surrogate)
    return value_of(total) / n_samples


def _keys(log: BanditLog) -> AnyArray:
    keys = keys_of(log)
    return keys if log.action_mask is None else mix(keys + context_keys(log.action_mask.astype(np.float32)))


def _bind(build: BuildPolicy, data: TrainingData) -> RewardTerms:
    bound: Any = build.objective.bind(data)
    assert isinstance(bound, RewardTerms)
    return bound


def _signs(state: LoadedPiece, build: BuildPolicy) -> AnyArray:
    if state.log is None:
        return np.zeros(2, np.int64)
    bound = _bind(build, build.data(state.part, state.log)[0])
    return np.array([bound.log.any(), (bound.linear > 0.0).any()]).astype(np.int64)


def _some(state: LoadedPiece, build: BuildPolicy, rows: AnyArray) -> TrainingData:
    assert state.log is not None
    data = build.data(state.part, state.log)[0]
    return TrainingData(
        data.log.subset(rows),
        None if data.reward_estimate is None else np.asfortranarray(data.reward_estimate[rows]),
        None if data.sample_weight is None else data.sample_weight[rows],
    )


def _alone(state: LoadedPiece, build: BuildPolicy, shared: Keys, is_surrogate: bool) -> AnyArray:
    rows = np.zeros(0, int) if state.log is None else np.flatnonzero(~is_among(_keys(state.log), shared))
    if not len(rows):
        return no_limbs()
    return _bind(build, _some(state, build, rows)).optimal_total(is_surrogate)


def _shared(state: LoadedPiece, build: BuildPolicy, shared: Keys) -> TrainingData | None:
    rows = np.zeros(0, int) if state.log is None else np.flatnonzero(is_among(_keys(state.log), shared))
    return _some(state, build, rows) if len(rows) else None


def _join(found: list[TrainingData]) -> TrainingData:
    def joined(parts: list[FloatArray | None]) -> FloatArray | None:
        there = [part for part in parts if part is not None]
        return np.asfortranarray(np.concatenate(there)) if there else None

    return TrainingData(
        join_parts([one.log for one in found]),
        joined([one.reward_estimate for one in found]),
        joined([one.sample_weight for one in found]),
    )
