"""The state of a piece in training, a function of the piece and of the rounds so far, and its operations."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bopl._exact import limbs_of, no_limbs
from bopl._typing import BoolArray, FloatArray
from bopl.boosting import ascent_kernel as kernel
from bopl.boosting.ascent import CompiledAscent, Totals
from bopl.learner.hist_tree.apply import GrownTree
from bopl.learner.hist_tree.held_rows import HeldRows, run_wave
from bopl.learner.hist_tree.inputs import as_context
from bopl.learner.hist_tree.layout import Layout
from bopl.learner.hist_tree.problem import Target
from bopl.learner.hist_tree.storage import BinnedContext
from bopl.learner.hist_tree.wave import Answer, TreeTask, Wave
from bopl.learner.pieces import Loader, Part
from bopl.learner.pieces.stored import RowKey, StoredContext, store_piece
from bopl.log import BanditLog
from bopl.objective import RewardTerms, TrainingData
from bopl.objective.protocol import PartObjective


@dataclass(frozen=True)
class MadeRound:
    """A settled round: what is added to the scores."""

    tree: Any  # GrownTree, or the predictor of a round that was made before
    size: float


@dataclass
class PolicyState:
    """A piece in the training of a policy."""

    first: int  # number of its first sample
    stored: StoredContext  # its binned contexts
    ascent: CompiledAscent
    weight: NDArray[np.float64]  # (n_rows,)
    mask: BoolArray  # (n_rows, n_actions), or (0, 0)
    held: HeldRows = field(default_factory=HeldRows)  # rows of the nodes of the tree that is being grown
    # (n_actions, n_rows): values of the tree that was grown last. The memory is kept between rounds: to get it anew
    # costs as much as to write it.
    step: NDArray[np.float64] = field(default_factory=lambda: np.zeros((0, 0)))

    @property
    def n_rows(self) -> int:
        """Number of samples."""
        return self.stored.n_samples

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        own = (self.weight, self.mask, self.step)
        return self.stored.nbytes + self.ascent.nbytes + self.held.nbytes + sum(array.nbytes for array in own)

    @property
    def binned(self) -> BinnedContext:
        """The contexts as the kernels read them."""
        return self.stored.open()

    def target(self, task: TreeTask) -> Target:
        """Return what the tree is fitted to."""
        gradient = np.require(self.ascent.gradient.T, np.float64, ["C", "W"])
        has_mask = self.mask.shape[1] > 0
        return Target(gradient, self.weight, self.mask, has_mask, task.is_classifier, *task.grids)


@dataclass(frozen=True)
class BuildPolicy:
    """Makes the state of a piece from its file and the settled rounds."""

    loader: Loader
    layout: Layout
    objective: PartObjective
    reward_translation: float
    least_propensity: float  # of all samples
    n_actions: int
    is_sparse: bool  # whether the contexts are
    models: Any = None  # estimates rewards and gives the scores at the start: see `StartModels`
    row_key: RowKey | None = None  # what the rows of a piece are sorted by

    def __call__(self, part: Part, settled: Iterable[MadeRound], cache: Any) -> PolicyState | None:
        """Return the state; an empty piece has none."""
        if part.n_rows == 0:
            return None
        log = self.loader.load(part.piece)
        stored = store_piece(
            part,
            self.loader,
            self.layout,
            lambda: as_context(log.context),
            cache,
            is_sparse=self.is_sparse,
            what="contexts",
            row_key=self.row_key,
        )
        if stored.row is not None:  # all that belongs to a row goes with it
            log, part = log.subset(stored.row), part.take(stored.row)
        data, score = self.data(part, log)
        context = as_context(log.context)
        state = self._begin(part, log, data.take(None), score, stored)
        for made in settled:
            score += made.size * _prediction(state, made.tree, context)
        state.ascent.look()
        return state

    def data(self, part: Part, log: BanditLog) -> tuple[TrainingData, FloatArray]:
        """Return a piece as the objective sees it, and its scores at the start."""
        estimate, score = None, np.zeros((log.n_samples, self.n_actions), order="F")
        if self.models is not None:
            estimate, score = self.models.estimate_and_score(part, log)
        translation = self.reward_translation
        if translation != 0.0:
            log = log.translated(translation)
            estimate = None if estimate is None else estimate + translation
        return TrainingData(log, estimate, part.sample_weight), score

    def _begin(
        self, part: Part, log: BanditLog, data: TrainingData, score: FloatArray, stored: StoredContext
    ) -> PolicyState:
        bound: Any = self.objective.bind(data)
        if not isinstance(bound, RewardTerms):
            raise TypeError(
                f"an objective of a log in pieces must be bound as bopl.objective.RewardTerms, not as "
                f"{type(bound).__name__}; pass log.to_log() to boost it in memory."
            )
        ascent = CompiledAscent(bound, data, log.outcomes(), score, 1, least_propensity=self.least_propensity)
        mask = np.zeros((0, 0), bool) if log.action_mask is None else np.require(log.action_mask, bool, ["C", "W"])
        return PolicyState(part.first, stored, ascent, np.require(bound.weight, np.float64, ["C", "W"]), mask)


def _prediction(state: PolicyState, tree: Any, context: Any) -> FloatArray:
    """Return the prediction of a tree on a piece, zero for ineligible actions."""
    if isinstance(tree, GrownTree):
        apply_tree(state, tree, None)
        step = state.step.T
    else:
        step = np.asfortranarray(tree.predict(context))
    return step if state.mask.shape[1] == 0 else np.where(state.mask, step, 0.0)


def apply_tree(state: PolicyState, tree: GrownTree, held: NDArray[np.int32] | None) -> None:
    """Write the values of a tree on a piece to its step; ``held`` is as in `HeldRows.write_values`."""
    if not state.step.size:
        state.step = np.empty(state.ascent.score.shape[::-1])
    if held is None:
        tree.write_values(state.binned, state.step)
    else:
        state.held.write_values(state.binned, tree, held, state.step)


# -- What is done with all pieces --------------------------------------------------------------------------------------


def look(state: PolicyState | None) -> tuple[PolicyState | None, Totals]:
    """Return where a piece stands."""
    if state is None:
        return None, Totals(no_limbs(kernel.N_MOVED), 0.0)
    return state, state.ascent.look()


def no_answer(asked: Wave, task: TreeTask, is_first: bool) -> Answer:
    """Return the answer that the pieces of a worker add theirs to."""
    return Answer.nothing(asked, task)


def wave(state: PolicyState | None, asked: Wave, task: TreeTask, is_first: bool, answer_out: Answer) -> Any:
    """Process a piece in a wave."""
    if state is not None:
        if is_first:
            state.held.begin(task.rows(state.first, state.n_rows, state.stored.row))
        run_wave(state.binned, state.target(task), state.held, asked, task, state.first, answer_out)
    return state


def measure(
    state: PolicyState | None, tree: GrownTree, held: NDArray[np.int32] | None
) -> tuple[PolicyState | None, Totals]:
    """Apply a finished tree, and return what the step size is computed from."""
    if state is None:
        return None, Totals(no_limbs(kernel.N_MEASURED), 0.0)
    apply_tree(state, tree, held)
    return state, state.ascent.measure_totals(state.step.T)


def move(state: PolicyState | None, size: float) -> tuple[PolicyState | None, Totals]:
    """Take the step."""
    if state is None:
        return None, Totals(no_limbs(kernel.N_MOVED), 0.0)
    return state, state.ascent.move_totals(state.step.T, size)


def weight_facts(state: PolicyState | None) -> Any:
    """Return the largest weight, how many are not zero, and their exact sum."""
    if state is None:
        return WeightTotals(0.0, 0, no_limbs())
    return WeightTotals(float(np.abs(state.weight).max()), int(np.count_nonzero(state.weight)), limbs_of(state.weight))


@dataclass(frozen=True)
class WeightTotals:
    """Statistics of all weights; those of several pieces are added."""

    largest: float
    n_positive: int
    limbs: Any

    def __add__(self, other: WeightTotals) -> WeightTotals:
        return WeightTotals(
            max(self.largest, other.largest), self.n_positive + other.n_positive, self.limbs + other.limbs
        )
