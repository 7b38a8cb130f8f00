"""What holds for every engine: the same tree, and values on the rows that the finished tree predicts."""

from itertools import pairwise

import numpy as np
import pytest

from bopl.learner.hist_tree import levels
from bopl.learner.hist_tree.action_split import ActionTable
from bopl.learner.hist_tree.apply import GrownTree
from bopl.learner.hist_tree.assembly import make_tree
from bopl.learner.hist_tree.binning import fit_columns
from bopl.learner.hist_tree.codes import bin_context
from bopl.learner.hist_tree.engine import EngineRows, GrowthTask, Limits
from bopl.learner.hist_tree.grid import largest_of
from bopl.learner.hist_tree.held_rows import HeldRows, run_wave
from bopl.learner.hist_tree.levels import PiecesEngine
from bopl.learner.hist_tree.memory_engine import MemoryEngine, MemorySource
from bopl.learner.hist_tree.problem import Target, make_grids
from bopl.learner.hist_tree.rows import take_rows
from bopl.learner.hist_tree.wave import Answer

N, N_ACTIONS = 600, 3


class LocalPieces:
    """Pieces of the rows in this process, each with its share of the gradients."""

    def __init__(self, binned, gradient, weight, bounds, is_drawn):
        self.step, self.is_drawn = np.empty_like(gradient), is_drawn
        self._parts = []
        for start, end in pairwise(bounds):
            rows = slice(start, end)
            own = take_rows(binned, np.arange(start, end, dtype=np.int32))
            self._parts.append((start, own, np.ascontiguousarray(gradient[:, rows]), weight[rows].copy(), HeldRows()))

    def wave(self, wave, task, is_first):
        total = None
        for first, binned, gradient, weight, held in self._parts:
            if is_first:
                held.begin(task.rows(first, binned.n_samples))
            target = Target(gradient, weight, np.zeros((0, 0), bool), False, task.is_classifier, *task.grids)
            answer = Answer.nothing(wave, task)  # one for each, so that they are added up, too
            run_wave(binned, target, held, wave, task, first, answer)
            total = answer if total is None else total + answer
        return total

    def apply(self, tree, held_as):
        assert (held_as is None) == self.is_drawn
        for first, binned, gradient, _, held in self._parts:
            step = np.empty_like(gradient)
            if held_as is None:
                tree.write_values(binned, step)
            else:
                held.write_values(binned, tree, held_as, step)
            self.step[:, first : first + binned.n_samples] = step


@pytest.mark.parametrize("n_drawn", [None, 400])
@pytest.mark.parametrize("has_count", [False, True])
def test_engines_grow_the_same_nodes_and_apply_what_the_tree_predicts(n_drawn, has_count, monkeypatch):
    monkeypatch.setattr(levels, "GATHER_ROWS", 50)
    rng = np.random.default_rng(0)
    context = rng.integers(0, 30, size=(N, 4)).astype(np.float32)
    context[rng.random(context.shape) < 0.1] = np.nan
    binned = bin_context(context, fit_columns(context, 256, np.zeros(4, bool)))
    gradient, weight = rng.normal(size=(N_ACTIONS, N)), rng.uniform(0.5, 2.0, N)
    limits = Limits(6, 2.0, 5 if has_count else 1, large=N + 1, reg_lambda=0.5, colsample=0.7, seed=7)
    features = np.zeros((N_ACTIONS, 0))
    task = GrowthTask(
        limits,
        ActionTable(np.zeros((0, N_ACTIONS), np.int32), features.T),
        make_grids(largest_of(gradient), 2.0, N, N_ACTIONS),
        drawn=None if n_drawn is None else rng.permutation(N)[:n_drawn],
    )
    rows = EngineRows(binned, N, N_ACTIONS)
    sources = [
        MemorySource(gradient, weight, np.empty_like(gradient)),
        LocalPieces(binned, gradient, weight, [0, 100, 101, 450, N], n_drawn is not None),
    ]
    grown = []
    for engine, source in zip((MemoryEngine(2), PiecesEngine(1)), sources, strict=True):
        bound = engine.bind(rows, has_count=has_count)
        nodes = bound.grow(source, task)
        tree = make_tree(nodes, binned.splits, features, 4)
        bound.apply(source, GrownTree(nodes, tree.right_actions), is_as_grown=n_drawn is None)
        np.testing.assert_array_equal(source.step.T, engine.predict([tree], [1.0], context))
        grown.append(tree)
    assert grown[0].n_leaves > 15
    assert grown[0].to_bytes() == grown[1].to_bytes()
