"""The reward translation of a run: a few candidates are trained, and the validation samples choose."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from bopl._policy_reader import logged_entries
from bopl._typing import FloatArray
from bopl.boosting import Workbench
from bopl.boosting.loop import INTERRUPTED
from bopl.evaluation.whole_log import off_policy_score
from bopl.log import BanditLog, PartitionedLog
from bopl.policy import BoostedPolicy

SHARES = (0.0, 0.5, 1.0, 1.5)  # positions from the minimum reward to the mean, and beyond
MAX_SAMPLES = 100_000  # more do not make the choice better, only slower
MAX_VALIDATION = 50_000  # ... nor do more of these, which are scored after every round
CONFIDENCE = 0.84  # candidates are ranked by a bound one standard error below their estimate


@dataclass(frozen=True)
class TranslationChoice:
    """The choice, and its alternatives."""

    reward_translation: float
    values: dict[float, float]  # lower bound of the validation value of each candidate that was trained
    policy: BoostedPolicy  # of the chosen candidate
    # whether that policy need not be trained again: it was trained on all samples, or Ctrl-C stopped the run
    is_complete: bool
    is_interrupted: bool  # whether Ctrl-C ended the choice, even in a candidate that was not chosen


def candidates(reward: FloatArray) -> tuple[float, ...]:
    """Return translations that put zero between the minimum reward and one and a half times the way to the mean."""
    low, mean = float(reward.min()), float(reward.mean())
    if low == mean:
        raise ValueError(f"all {len(reward)} rewards are {low:g}: nothing distinguishes the actions.")
    return tuple(dict.fromkeys(translation_at(reward, share) for share in SHARES))


def translation_at(reward: FloatArray, share: float) -> float:
    """Return the translation that puts zero at a share of the way from minimum to mean reward, in four digits."""
    low, mean = float(reward.min()), float(reward.mean())
    return float(f"{-(low + share * (mean - low)):.4g}") + 0.0  # no negative zero


def choose_translation(
    make: Callable[[float], BoostedPolicy],
    fit: Callable[[BoostedPolicy, Workbench, BanditLog], Any],
    train: BanditLog | PartitionedLog,
    validation: BanditLog | PartitionedLog,
    *,
    seed: int,
) -> TranslationChoice:
    """Train a policy for every candidate and keep the one with the best validation value.

    Parameters
    ----------
    make : callable of a translation that returns an unfitted policy
    fit : callable of a policy, the workbench of its log, and a validation log that fits it
    train, validation : BanditLog or PartitionedLog
    seed : int
        Seed of the draw, if the log is larger than the choice needs, and of the workbench.

    Notes
    -----
    All candidates share one workbench, so that contexts are binned once. Ctrl-C ends the choice with the candidates
    trained so far.
    """
    is_whole = train.n_samples <= MAX_SAMPLES
    part = drawn_part(train, MAX_SAMPLES, [seed, 1])
    watched = drawn_part(validation, validation.n_samples if is_whole else MAX_VALIDATION, [seed, 2])
    possible = candidates(_rewards(train))
    workbench = Workbench(part, seed=seed)
    trained: list[tuple[float, BoostedPolicy, float]] = []
    for translation in possible:
        policy = make(translation)
        try:
            fit(policy, workbench, watched)
        except KeyboardInterrupt:
            if not trained:
                raise
            break
        trained.append((_bound(policy, watched), policy, translation))
        if is_interrupted(policy):
            break
    _, policy, translation = max(trained, key=lambda one: one[0])  # the first of a tie: closest to no translation
    was_cut = len(trained) < len(possible) or is_interrupted(trained[-1][1])
    return TranslationChoice(
        translation, {one: bound for bound, _, one in trained}, policy, is_whole or was_cut, was_cut
    )


def is_interrupted(policy: BoostedPolicy) -> bool:
    """Return whether Ctrl-C ended the fit."""
    return policy.stop_reason_ == INTERRUPTED


def drawn_part(log: BanditLog | PartitionedLog, n_most: int, seed: list[int]) -> BanditLog:
    """Return the log, or this many random samples of it in their order, in memory."""
    if log.n_samples > n_most:
        log = log.subset(np.sort(np.random.default_rng(seed).permutation(log.n_samples)[:n_most]))
    return log.to_log() if isinstance(log, PartitionedLog) else log


def _rewards(log: BanditLog | PartitionedLog) -> FloatArray:
    if isinstance(log, PartitionedLog):
        return np.concatenate([log.spec.rewards_of(piece) for piece in log.pieces])
    return log.reward


def _bound(policy: BoostedPolicy, log: BanditLog) -> float:
    action_prob = policy.predict_proba(log.context, action_mask=log.action_mask)
    logged_prob = logged_entries(action_prob, log.action_idx)
    return off_policy_score(log, logged_prob, confidence=CONFIDENCE)
