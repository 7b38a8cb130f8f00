"""A learner and an ascent whose samples are in pieces: the loop does not see the difference."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bopl._exact import value_of
from bopl._typing import AnyArray, FloatArray
from bopl.boosting.ascent import Standing, Sums, standing_of, step_sums
from bopl.boosting.ensemble import Round
from bopl.boosting.pieces import state as work
from bopl.boosting.pieces.state import BuildPolicy, MadeRound
from bopl.cluster import Cluster, Placement, Traffic
from bopl.cluster.memory import MIB, WorkingMemory
from bopl.learner.base import FittedStep
from bopl.learner.hist_tree.apply import GrownTree
from bopl.learner.hist_tree.bound import placed_rounds
from bopl.learner.hist_tree.learner import HistTree
from bopl.learner.hist_tree.levels import GATHER_BYTES, GATHER_ROWS, Pieces
from bopl.learner.hist_tree.predictor import HistTreePredictor
from bopl.learner.hist_tree.rounds import TreeRounds, WeightSummary
from bopl.learner.hist_tree.storage import BinnedContext
from bopl.learner.hist_tree.wave import Answer, TreeTask, Wave
from bopl.learner.pieces import Part, place_parts
from bopl.learner.pieces.facts import COLUMNS_AT_ONCE, KEYS_AT_ONCE
from bopl.objective import StepTarget

# Of what a fit takes in memory besides the states of pieces. The numbers were measured, with some room:
# `benchmarks/scale.py --show budgets` shows what is left of it.
CODE = 72 * MIB  # libraries and compiled code that a fit loads
KEY_BYTES = 72  # of a hash that the owner holds, with what it takes to count it
COUNT_BYTES = 5 * MIB  # of a column whose values are being counted
COLUMN_BYTES = 20  # of an entry of the context while its piece is read or changed: copies, codes and the number itself
ACTION_BYTES = 26  # of an action of a sample: scores, gradients, the prediction and a copy
ROW_BYTES = 150  # of everything else of a sample
MAX_SPARSE = 100  # entries of a sparse context: how many there are is not known before they are read


class PlacedLearner:
    """Trees grown over pieces, as a `BoundLearner`: gradients and predictions stay with the pieces."""

    row_order: AnyArray | None = None

    def __init__(self, rounds: TreeRounds[Pieces], weights: WeightSummary, placed: Placement, n_jobs: int) -> None:
        self._rounds, self._weights, self._placed, self._n_jobs = rounds, weights, placed, n_jobs
        self.grown: GrownTree | None = None
        self.held: NDArray[np.int32] | None = None

    def fit(self, target: StepTarget, round_idx: int) -> FittedStep:
        """Grow one tree; its prediction is left to `PlacedAscent.measure`."""
        assert target.largest is not None
        fitted = self._rounds.fit(self, target.largest, self._weights, round_idx)
        return FittedStep(HistTreePredictor(fitted.tree, self._n_jobs), target.gradient)

    def wave(self, wave: Wave, task: TreeTask, is_first: bool) -> Answer:
        """Have the pieces do what a wave asks for."""
        found: Answer = self._placed.update_reduce(
            work.wave, wave, task, is_first, zero=work.no_answer, add=operator.add
        )
        return found

    def apply(self, tree: GrownTree, held: NDArray[np.int32] | None) -> None:
        """Keep the tree for `PlacedAscent.measure`, which has the pieces apply it."""
        self.grown, self.held = tree, held


class PlacedAscent:
    """`Ascent` over pieces.

    Scores and gradients of the samples stay with the pieces: its own are of shape (0, n_actions).
    """

    def __init__(
        self, placed: Placement, learner: PlacedLearner, n_samples: int, n_actions: int, least_propensity: float
    ) -> None:
        self._placed, self._learner = placed, learner
        self._n_samples, self._least = n_samples, least_propensity
        self.score: FloatArray = np.zeros((0, n_actions))
        self.gradient: FloatArray = np.zeros((0, n_actions))
        self.standing: Standing = self._stand(placed.update_reduce(work.look, add=operator.add))

    @property
    def traffic(self) -> Traffic:
        """Statistics of the cluster so far."""
        return self._placed.traffic

    def measure(self, prediction: FloatArray) -> Sums:
        """Return what the step size along the prediction of the tree grown last is computed from."""
        learner = self._learner
        totals = self._placed.update_reduce(work.measure, learner.grown, learner.held, add=operator.add)
        return step_sums(totals, self._n_samples)

    def move(self, prediction: FloatArray, size: float) -> None:
        """Take the step, and settle it: a lost piece is rebuilt from its file and the rounds so far."""
        self.standing = self._stand(self._placed.update_reduce(work.move, size, add=operator.add))
        self._placed.settle(MadeRound(self._learner.grown, size))

    def _stand(self, totals: Any) -> Standing:
        return standing_of(totals, self._n_samples, self._least)


class WaitingShare:
    """Share of each round that workers spent waiting for the slowest one, for progress lines."""

    def __init__(self) -> None:
        self._traffic: Traffic | None = None
        self._before = Traffic()

    def watch(self, traffic: Traffic) -> None:
        """Look at these counts from now on."""
        self._traffic, self._before = traffic, traffic.copy()

    def text(self) -> str:
        """Return the share since the last time, in words; empty before the first round."""
        if self._traffic is None:
            return ""
        now = self._traffic.copy()
        since, self._before = now - self._before, now
        return f"waiting {since.waiting_share:.0%}"


@dataclass(frozen=True)
class PiecesProblem:
    """What is boosted over pieces."""

    parts: list[Part]
    build: BuildPolicy
    learner: HistTree  # its settings
    layout: BinnedContext  # without rows
    action_features: NDArray[np.float64]  # (n_actions, n_action_features)
    n_samples: int
    has_mask: bool


@contextmanager
def run_over_pieces(
    problem: PiecesProblem, cluster: Cluster, *, seed: int, n_jobs: int, rounds: list[Round]
) -> Iterator[tuple[PlacedLearner, PlacedAscent]]:
    """Yield a learner and an ascent whose samples are on a cluster, after the earlier rounds."""
    settled = [MadeRound(made.predictor, made.step.size) for made in rounds]
    with place_parts(cluster, problem.parts, problem.build, settled) as placed:
        found = placed.reduce(work.weight_facts, add=operator.add)
        rounds_of_trees = placed_rounds(
            problem.learner,
            problem.layout,
            problem.action_features,
            problem.n_samples,
            n_jobs,
            seed,
            has_mask=problem.has_mask,
        )
        weights = WeightSummary(found.largest, found.n_positive, value_of(found.limbs))
        learner = PlacedLearner(rounds_of_trees, weights, placed, n_jobs)
        ascent = PlacedAscent(
            placed, learner, problem.n_samples, problem.build.n_actions, problem.build.least_propensity
        )
        yield learner, ascent


def working_memory(log: Any, learner: HistTree) -> WorkingMemory:
    """Return what a fit takes besides states: reading, counting, hashing and growing trees follow each other.

    It is estimated before the fit begins, for its budget, from a `PiecesLog` and the settings of the learner.
    """
    is_sparse = log.schema is not None and log.schema.is_sparse
    n_columns = min(log.n_features, MAX_SPARSE) if is_sparse else log.n_features
    per_row = COLUMN_BYTES * n_columns + ACTION_BYTES * log.n_actions + ROW_BYTES
    largest = max(getattr(piece, "n_available", piece.n_rows) for piece in log.pieces)
    counting = COUNT_BYTES * min(COLUMNS_AT_ONCE, n_columns)
    hashing = KEY_BYTES * min(log.n_samples, KEYS_AT_ONCE)
    n_open = min(1 << min(learner.max_depth, 62), log.n_samples // max(GATHER_ROWS, 1) + 1)
    histograms = 8 * learner.max_bins * log.n_features * n_open // 2  # of the smaller children of a level
    growing = 2 * histograms + min(2 * GATHER_BYTES, per_row * log.n_samples)
    return WorkingMemory(CODE + max(counting, hashing, growing), per_row * largest + max(counting, histograms))
