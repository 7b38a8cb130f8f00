"""Cross-fitting over a log in pieces: the models of `cross_fit`, to the last byte."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bopl._exact import Limbs, limbs_of, no_limbs, value_of
from bopl._policy_reader import logged_entries
from bopl._typing import AnyArray, FloatArray
from bopl.cluster import Cluster, Placement
from bopl.learner.hist_tree.apply import GrownTree
from bopl.learner.hist_tree.bound import placed_rounds
from bopl.learner.hist_tree.held_rows import HeldRows, run_wave
from bopl.learner.hist_tree.inputs import as_context, categorical_mask, check_tree_settings, feature_matrix
from bopl.learner.hist_tree.layout import Layout
from bopl.learner.hist_tree.problem import Target
from bopl.learner.hist_tree.rounds import TreeRounds, WeightSummary
from bopl.learner.hist_tree.storage import BinnedContext
from bopl.learner.hist_tree.tree import Tree
from bopl.learner.hist_tree.wave import Answer, TreeTask, Wave
from bopl.learner.pieces import Loader, Part, PiecesLog, place_parts
from bopl.learner.pieces.facts import LoadedPiece, find_layout, without_rows
from bopl.learner.pieces.stored import StoredContext, store_piece
from bopl.log import BanditLog
from bopl.reward.boosted_model import BoostedRewardModel, with_action_column
from bopl.reward.cross_fitting import boost_folds

ReadReward = Callable[[BanditLog], FloatArray]


def pair_context(log: BanditLog) -> Any:
    """Return contexts with the logged action as their last column."""
    return as_context(with_action_column(log.context, log.action_idx))


@dataclass
class RewardState:
    """A piece in the training of reward models."""

    first: int
    stored: StoredContext  # of contexts and actions
    weight: FloatArray  # (n_folds, n_rows): zero for the samples of the fold
    unseen: FloatArray  # (n_folds, n_rows): the rest of the weights
    residual: FloatArray  # (n_folds, n_rows)
    held: HeldRows = field(default_factory=HeldRows)

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        own = (self.weight, self.unseen, self.residual)
        return self.stored.nbytes + self.held.nbytes + sum(array.nbytes for array in own)

    @property
    def binned(self) -> BinnedContext:
        """The contexts as the kernels read them."""
        return self.stored.open()

    def target(self, fold: int, task: TreeTask) -> Target:
        """Return what the tree of a fold is fitted to."""
        gradient = np.ascontiguousarray((self.weight[fold] * self.residual[fold])[None])
        return Target(gradient, self.weight[fold], np.zeros((0, 0), bool), False, False, *task.grids)

    def add(self, fold: int, tree: GrownTree, learning_rate: float, held: NDArray[np.int32] | None = None) -> None:
        """Subtract what a tree predicts; ``held`` is as in `HeldRows.write_values`."""
        step = np.empty((1, self.binned.n_samples))
        if held is None:
            tree.write_values(self.binned, step)
        else:
            self.held.write_values(self.binned, tree, held, step)
        self.residual[fold] -= learning_rate * step[0]


@dataclass(frozen=True)
class MadeRound:
    """A round of one fold that is settled."""

    fold: int
    tree: GrownTree


@dataclass(frozen=True)
class BuildReward:
    """Makes the state of a piece; see `RewardState`."""

    loader: Loader
    read_reward: ReadReward
    layout: Layout
    initial: tuple[float, ...]
    learning_rate: float
    is_sparse: bool

    def __call__(self, part: Part, settled: Iterable[MadeRound], cache: Any) -> RewardState | None:
        """Return the state; an empty piece has none."""
        if part.n_rows == 0:
            return None
        log = self.loader.load(part.piece)
        weight, unseen = fold_weights(part, len(self.initial))
        reward = self.read_reward(log)
        residual = np.stack([reward - initial for initial in self.initial])
        stored = store_piece(
            part, self.loader, self.layout, lambda: pair_context(log), cache, is_sparse=self.is_sparse, what="pairs"
        )
        state = RewardState(part.first, stored, weight, unseen, residual)
        for made in settled:
            state.add(made.fold, made.tree, self.learning_rate)
        return state


def fold_weights(part: Part, n_folds: int) -> tuple[FloatArray, FloatArray]:
    """Return the weights of a piece's samples in the model of each fold, and those of the samples it does not see."""
    assert part.fold is not None
    weight = np.ones(part.n_rows) if part.sample_weight is None else part.sample_weight
    is_own = part.fold == np.arange(n_folds)[:, None]
    return np.where(is_own, 0.0, weight), np.where(is_own, weight, 0.0)


@dataclass(frozen=True)
class FoldFacts:
    """What is known of the weights and rewards of one fold's model; those of several pieces are added."""

    largest: float
    n_positive: int
    weight: Limbs
    rewarded: Limbs

    def __add__(self, other: FoldFacts) -> FoldFacts:
        return FoldFacts(
            max(self.largest, other.largest),
            self.n_positive + other.n_positive,
            self.weight + other.weight,
            self.rewarded + other.rewarded,
        )


@dataclass(frozen=True)
class PiecesFit:
    """Models of all folds, and how well they predict what they have not seen: as in `CrossFit`."""

    models: tuple[BoostedRewardModel, ...]
    error: float
    explained: float


@dataclass(frozen=True)
class FoldedPieces:
    """A log in pieces whose samples were divided into folds."""

    log: PiecesLog
    parts: list[Part]  # with folds
    raw: Placement  # the same pieces, loaded
    cluster: Cluster
    n_folds: int  # as many as were drawn
    is_sparse: bool  # whether the contexts are


def cross_fit_pieces(
    pieces: FoldedPieces, model: BoostedRewardModel, *, seed: int, read_reward: ReadReward, n_jobs: int
) -> PiecesFit:
    """Fit one model per fold of a log in pieces.

    ``read_reward`` returns what is to be estimated, from a log.
    """
    from sklearn.base import clone

    log, raw, n_folds = pieces.log, pieces.raw, pieces.n_folds
    model.check_settings()
    learner = model.learner_for(log)  # type: ignore[arg-type]
    check_tree_settings(learner)
    categorical = categorical_mask(learner.categorical, log.n_features + 1, None)
    layout = find_layout(raw, pair_context, learner.max_bins, categorical, 1)
    facts: list[FoldFacts] = [
        raw.reduce(_fold_facts, k, n_folds, read_reward, add=operator.add) for k in range(n_folds)
    ]
    initial = tuple(value_of(one.rewarded) / value_of(one.weight) for one in facts)
    build = BuildReward(log.spec, read_reward, layout, initial, model.learning_rate, pieces.is_sparse)
    binned = without_rows(layout, is_sparse=pieces.is_sparse)
    total = value_of(facts[0].weight + raw.reduce(_unseen, 0, n_folds, add=operator.add))
    with place_parts(pieces.cluster, pieces.parts, build) as placed:
        runs = []
        for k in range(n_folds):
            rounds = placed_rounds(
                learner, binned, feature_matrix(None, 1), log.n_samples, n_jobs, seed + k, has_mask=False
            )
            rounds.n_always = 1  # the action can always be split, as in a tree over contexts and actions
            runs.append(PlacedRun(placed, k, facts[k], rounds, model.learning_rate))

        def error() -> float:
            return value_of(placed.reduce(_error, add=operator.add)) / total

        best = boost_folds(runs, error, model, lambda: False)
    models = tuple(clone(model).take_trees(runs[k].trees, initial[k], log, best) for k in range(n_folds))
    return _judged(models, raw, read_reward, total)


def _fold_facts(state: LoadedPiece, fold: int, n_folds: int, read_reward: ReadReward) -> FoldFacts:
    if state.log is None:
        return FoldFacts(0.0, 0, no_limbs(), no_limbs())
    weight = fold_weights(state.part, n_folds)[0][fold]
    return FoldFacts(
        float(weight.max()),
        int(np.count_nonzero(weight)),
        limbs_of(weight),
        limbs_of(read_reward(state.log) * weight),
    )


def _unseen(state: LoadedPiece, fold: int, n_folds: int) -> Limbs:
    return no_limbs() if state.log is None else limbs_of(fold_weights(state.part, n_folds)[1][fold])


def _error(state: RewardState | None) -> Limbs:
    return no_limbs() if state is None else limbs_of(state.unseen * state.residual**2)


def _judged(models: tuple[BoostedRewardModel, ...], raw: Placement, read_reward: ReadReward, total: float) -> PiecesFit:
    mean = value_of(raw.reduce(_weighted, read_reward, add=operator.add)) / total
    error, spread = raw.reduce(_squares, models, read_reward, mean, add=operator.add)
    error, spread = value_of(error) / total, value_of(spread) / total
    return PiecesFit(models, error, 1.0 - error / spread if spread > 0.0 else 0.0)


def _weighted(state: LoadedPiece, read_reward: ReadReward) -> Limbs:
    if state.log is None:
        return no_limbs()
    reward, weight = read_reward(state.log), state.part.sample_weight
    return limbs_of(reward if weight is None else reward * weight)


def _squares(
    state: LoadedPiece, models: tuple[BoostedRewardModel, ...], read_reward: ReadReward, mean: float
) -> AnyArray:
    if state.log is None:
        return no_limbs(2)
    log, weight = state.log, state.part.sample_weight
    logged = logged_entries(estimate_rewards(models, state.part, log), log.action_idx)
    reward = read_reward(log)
    error, spread = (reward - logged) ** 2, (reward - mean) ** 2
    return np.stack([limbs_of(one if weight is None else one * weight) for one in (error, spread)])


def estimate_rewards(models: tuple[Any, ...], part: Part, log: BanditLog) -> FloatArray:
    """Return each sample's rewards by the model of its fold, column by column in memory."""
    estimate = np.empty((log.n_samples, log.n_actions), order="F")
    for number, fitted in enumerate(models):
        own = np.flatnonzero(part.fold == number)
        if len(own):
            estimate[own] = fitted.predict(log.context[own], n_jobs=1)
    return estimate


class PlacedRun:
    """Least-squares boosting without one fold, over pieces: the counterpart of `RewardRun`."""

    def __init__(
        self, placed: Placement, fold: int, facts: FoldFacts, rounds: TreeRounds[Any], learning_rate: float
    ) -> None:
        self._placed, self._fold, self._rounds, self._learning_rate = placed, fold, rounds, learning_rate
        self._weights = WeightSummary(facts.largest, facts.n_positive, value_of(facts.weight))
        self._largest: float | None = None
        self.trees: list[Tree] = []

    def add_round(self) -> None:
        """Fit one more tree to what is left."""
        if self._largest is None:
            self._largest = self._placed.reduce(_largest, self._fold, add=max)
        self.trees.append(self._rounds.fit(self, self._largest, self._weights, len(self.trees)).tree)

    def wave(self, wave: Wave, task: TreeTask, is_first: bool) -> Answer:
        """Have the pieces do what a wave asks for."""
        found: Answer = self._placed.update_reduce(
            _wave, wave, task, self._fold, is_first, zero=_no_answer, add=operator.add
        )
        return found

    def apply(self, tree: GrownTree, held: NDArray[np.int32] | None) -> None:
        """Have the pieces subtract what the tree predicts, and settle the round."""
        self._largest = self._placed.update_reduce(_add_tree, self._fold, tree, self._learning_rate, held, add=max)
        self._placed.settle(MadeRound(self._fold, tree))


def _largest(state: RewardState | None, fold: int) -> float:
    return 0.0 if state is None else float(np.abs(state.weight[fold] * state.residual[fold]).max())


def _add_tree(
    state: RewardState | None, fold: int, tree: GrownTree, learning_rate: float, held: NDArray[np.int32] | None
) -> tuple[Any, float]:
    if state is None:
        return None, 0.0
    state.add(fold, tree, learning_rate, held)
    return state, _largest(state, fold)


def _no_answer(asked: Wave, task: TreeTask, fold: int, is_first: bool) -> Answer:
    return Answer.nothing(asked, task)


def _wave(state: RewardState | None, asked: Wave, task: TreeTask, fold: int, is_first: bool, answer_out: Answer) -> Any:
    if state is not None:
        if is_first:
            state.held.begin(task.rows(state.first, state.binned.n_samples))
        run_wave(state.binned, state.target(fold, task), state.held, asked, task, state.first, answer_out)
    return state
