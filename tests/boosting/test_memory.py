"""How many matrices of samples by actions a fit holds at once: on a large log they are most of its memory."""

import tracemalloc

import numpy as np
import pytest

import bopl

N_SAMPLES, N_ACTIONS = 40_000, 40  # enough samples for the learner to store them in an order of its own


@pytest.fixture(scope="module")
def log():
    rng = np.random.default_rng(0)
    context = rng.normal(size=(N_SAMPLES, 3))
    reward = rng.random(N_SAMPLES) < 0.2 + 0.3 * (context[:, 0] > 0.0)
    log = bopl.BanditLog(context, rng.integers(0, N_ACTIONS, N_SAMPLES), reward, np.full(N_SAMPLES, 1.0 / N_ACTIONS))
    fit(log)  # what is imported and compiled is no part of a fit
    return log


def fit(log, callbacks=()):
    policy = bopl.BoostedPolicy(
        "dr",
        bopl.HistTree(3),
        2,
        start="logging+reward_model",
        reward_model=bopl.BoostedRewardModel(n_rounds=2),
        n_folds=2,
        certificate=False,
        progress=False,
        random_state=0,
    )
    return policy.fit(log, callbacks=callbacks)


def matrices_at_the_peak(log, callbacks):
    """Return the most memory that a fit takes from numpy and Python, in matrices of samples by actions."""
    tracemalloc.start()
    try:
        fit(log, callbacks)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    return peak / (8 * N_SAMPLES * N_ACTIONS)


@pytest.mark.parametrize("has_checkpoint", [False, True])
def test_a_fit_holds_no_matrix_beside_the_six_that_it_needs(log, tmp_path, has_checkpoint):
    """Start, estimates and the learner's copy of them, scores, gradients and a tree's values; the rest is vectors."""
    callbacks = [bopl.Checkpoint(tmp_path / "checkpoint", every=1)] if has_checkpoint else []
    assert matrices_at_the_peak(log, callbacks) < 7.25
