"""Where kernels written in LLVM's own language cannot be compiled, trees are traversed plainly, to the same scores."""

import subprocess
import sys
from pathlib import Path
from threading import Event
from unittest import mock

import numpy as np
import pytest
from numba.core.errors import LoweringError
from scipy import sparse

import bopl
from bopl.learner.hist_tree import HistTree, batch, predict
from bopl.learner.hist_tree.predictor import stack_trees
from bopl.objective import StepTarget
from hist_tree_naive import make_log, random_target

MODEL = Path(__file__).parents[2] / "policy" / "files" / "format-1-surrogate.bopl"


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(0)
    context = (rng.normal(size=(500, 4)) * (rng.random((500, 4)) < 0.7)).astype(np.float32)
    bound = HistTree(6, min_child_weight=2.0, n_jobs=1).bind(make_log(context, 3), seed=0)
    trees = [bound.fit(StepTarget(*random_target(rng, 500, 3)), k).predictor for k in range(12)]
    return stack_trees(trees, rng.normal(size=12)), context


def uncompiled(*args):
    raise LoweringError("no such vector")


def again(ensemble):
    """Return the same trees, not laid out yet."""
    return predict.FlatEnsemble(ensemble.trees, ensemble.n_actions, ensemble.n_features, ensemble.depth)


@pytest.mark.parametrize("is_sparse", [False, True])
@pytest.mark.parametrize(("n", "n_jobs"), [(5, 1), (500, 1), (500, 2)])
def test_scores_are_the_same_without_any_vector_kernel(fitted, n, n_jobs, is_sparse):
    ensemble, context = fitted
    known = sparse.csr_matrix(context[:n]) if is_sparse else context[:n]
    expected, plain = ensemble.score(known, n_jobs=n_jobs), again(ensemble)
    with (
        mock.patch.object(predict, "_lanes_failed", Event()) as failed,
        mock.patch.multiple(batch, score_dense=uncompiled, score_csr=uncompiled),
        mock.patch.object(predict, "score_compact", uncompiled),
    ):
        if n < predict.MIN_BATCH and is_sparse:  # which has been traversed plainly all along
            assert plain.score(known).tobytes() == expected.tobytes()
            assert not failed.is_set()
            return
        with pytest.warns(RuntimeWarning, match=r"cannot be compiled .* the scores are the same \(LoweringError\)"):
            assert plain.score(known, n_jobs=n_jobs).tobytes() == expected.tobytes()
        for later in (plain, again(ensemble)):  # tries no more, and says no more
            assert later.score(known, n_jobs=n_jobs).tobytes() == expected.tobytes()
        assert plain._batch is None
        assert plain._compact is None


def test_memory_that_ran_out_is_not_taken_for_a_compiler_that_failed(fitted):
    ensemble, context = fitted
    with mock.patch.object(batch, "score_dense", mock.Mock(side_effect=MemoryError)), pytest.raises(MemoryError):
        again(ensemble).score(context)


CODE = """
import sys, numba
from llvmlite import ir

class Gone:
    def __init__(self, *args):
        raise AttributeError("llvmlite has no vectors any more")

ir.VectorType = Gone
import bopl._kernel
bopl._kernel.PatientCache.load_overload = lambda self, *args: None  # what was compiled elsewhere must not be found
import bopl, numpy as np
np.save(sys.argv[3], bopl.load(sys.argv[1]).decision_function(np.load(sys.argv[2])))
"""


def test_a_llvmlite_without_vectors_scores_the_same(tmp_path):
    context = np.random.default_rng(1).normal(size=(100, 3)).astype(np.float32)
    np.save(tmp_path / "context.npy", context)
    command = [sys.executable, "-c", CODE, str(MODEL), str(tmp_path / "context.npy"), str(tmp_path / "score.npy")]
    with mock.patch.dict("os.environ", {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}):
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "cannot be compiled with the installed numba and llvmlite" in done.stderr
    assert np.load(tmp_path / "score.npy").tobytes() == bopl.load(MODEL).decision_function(context).tobytes()
