"""A log in pieces gives the model of the log in memory, to the last byte."""

from __future__ import annotations

import io
import re
import sys
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pandas
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as drawn
from hypothesis import strategies as st
from scipy import sparse

import bopl
from bopl.cluster import ThisMachine
from bopl.learner.hist_tree import levels
from bopl.learner.hist_tree.binning import fit_columns
from bopl.learner.pieces import Part
from bopl.learner.pieces.stored import key_by_gain
from bopl.objective import DR, IPS, OBJECTIVES, Clipped, RowWise
from sliced_log import SlicedLog, Slicer, cuts_of

N = 1200
UNEVEN = [0, 1, 1, 700, 1199, 1200]  # an empty piece at each end and between, two of one row
RNG = np.random.default_rng(0)
MASK = RNG.random((N, 4)) < 0.7


def make_log(**columns):
    """Return a log, with other columns in place of its own."""
    rng = np.random.default_rng(0)
    context = rng.normal(size=(N, 5))
    context[:, 1] = np.round(3.0 * context[:, 1])
    action = rng.integers(0, 4, N)
    reward = (action == (context[:, 0] > 0) + 2 * (context[:, 1] > 0)) + 0.3 * rng.normal(size=N)
    propensity = 0.1 + 0.5 / (1.0 + np.exp(-context[:, 0]))
    made = {"context": context, "action": action, "reward": reward, "propensity": propensity, "actions": [0, 1, 2, 3]}
    return bopl.BanditLog(**(made | columns))


def settings(**changes):
    kept = {
        "objective": "ips",
        "learner": tree(),
        "n_rounds": 3,
        "random_state": 0,
        "reward_model": bopl.BoostedRewardModel(bopl.HistTree(3, min_child_weight=20.0, n_jobs=1), n_rounds=3),
    }
    return kept | changes


def tree(**changes):
    return bopl.HistTree(**({"max_depth": 6, "min_child_weight": 5.0, "n_jobs": 1} | changes))


def saved(policy, tmp_path):
    path = tmp_path / "model.bopl"
    policy.save(path)
    return path.read_bytes()


def assert_same(log, tmp_path, cuts=UNEVEN, fit=None, **changes):
    """The model of the pieces has the bytes of the model of the whole."""
    whole, pieces = (bopl.BoostedPolicy(**settings(**changes)) for _ in range(2))
    expected = saved(whole.fit(log, **(fit or {})), tmp_path)
    assert saved(pieces.fit(SlicedLog(log, cuts), **(fit or {})), tmp_path) == expected


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("BOPL_CACHE", str(tmp_path / "cache"))


@pytest.fixture(autouse=True)
def gather_rows(monkeypatch):
    """Nodes of at most so many rows are gathered: most of a tree is grown by levels."""
    monkeypatch.setattr(levels, "GATHER_ROWS", 60)


@pytest.mark.parametrize("n_rows", [0, 150, 4096])
@pytest.mark.parametrize("cuts", [[], cuts_of(N, 3), cuts_of(N, 7), UNEVEN], ids=["1", "3", "7", "uneven"])
def test_number_and_size_of_pieces_do_not_matter(cuts, n_rows, tmp_path, monkeypatch):
    monkeypatch.setattr(levels, "GATHER_ROWS", n_rows)
    assert_same(make_log(), tmp_path, cuts)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_threads_and_the_order_in_memory_do_not_matter(n_jobs, tmp_path, monkeypatch):
    plain = bopl.BoostedPolicy(**settings()).fit(make_log())
    monkeypatch.setattr("bopl.learner.hist_tree.locality.MIN_CONTEXTS", 1)  # stored by leaf
    monkeypatch.setattr("bopl.learner.hist_tree.rounds.MIN_LARGE", 100)
    monkeypatch.setattr("bopl.boosting.ascent.MIN_PARALLEL", 1)
    stored = bopl.BoostedPolicy(**settings(learner=tree(n_jobs=n_jobs))).fit(make_log())
    in_pieces = bopl.BoostedPolicy(**settings(learner=tree(n_jobs=n_jobs))).fit(SlicedLog(make_log(), UNEVEN))
    assert saved(in_pieces, tmp_path) == saved(stored, tmp_path)
    for mine, theirs in zip(stored.ensemble_.rounds, plain.ensemble_.rounds, strict=True):
        assert mine.predictor.tree.to_bytes() == theirs.predictor.tree.to_bytes()
    for name in plain.history_:
        np.testing.assert_array_equal(stored.history_[name], plain.history_[name])


SORTED = {
    "subsample": {"learner": bopl.HistTree(6, min_child_weight=5.0, subsample=0.5, n_jobs=1)},
    "few leaves": {"learner": bopl.HistTree(6, min_child_weight=5.0, max_leaves=9, n_jobs=1)},
    "doubly robust": {"objective": "dr", "start": "reward_model"},
    "surrogate": {"objective": "surrogate", "reward_translation": -0.2},
}


@pytest.mark.parametrize("changes", SORTED.values(), ids=SORTED)
def test_order_of_rows_within_a_piece_does_not_matter(changes, tmp_path, monkeypatch):
    rng = np.random.default_rng(1)
    context = np.hstack([with_gaps(rng), rng.integers(0, 5, (N, 1))])
    mask = MASK | (np.arange(4) == make_log().action_idx[:, None])
    log, fit = make_log(context=context, action_mask=mask), {"sample_weight": rng.random(N)}
    expected = saved(bopl.BoostedPolicy(**settings(**changes)).fit(log, **fit), tmp_path)
    monkeypatch.setattr("bopl.learner.hist_tree.locality.MIN_CONTEXTS", 500)
    monkeypatch.setattr("bopl.learner.pieces.stored.SAMPLE", 400)
    orders, take = [], Part.take
    monkeypatch.setattr(Part, "take", lambda part, row: (orders.append(np.array(row)), take(part, row))[1])
    pieces = bopl.BoostedPolicy(**settings(**changes)).fit(SlicedLog(log, UNEVEN), **fit)
    assert saved(pieces, tmp_path) == expected
    assert any((np.diff(row) < 0).any() for row in orders)  # they were sorted


def test_sorted_rows_are_found_in_the_cache_and_after_a_checkpoint(tmp_path, monkeypatch):
    monkeypatch.setattr("bopl.learner.hist_tree.locality.MIN_CONTEXTS", 500)
    log, path = make_log(), tmp_path / "fit.ckpt"
    for number in range(2):
        pandas.DataFrame(log.context[number::2]).assign(
            action=log.action[number::2], reward=log.reward[number::2], p=log.propensity[number::2]
        ).rename(columns=str).to_parquet(tmp_path / f"{number}.parquet")
    scanned = bopl.BanditLog.scan_parquet(str(tmp_path / "*.parquet"), action="action", reward="reward", propensity="p")
    expected = saved(bopl.BoostedPolicy(**settings()).fit(scanned.to_log()), tmp_path)
    bopl.BoostedPolicy(**settings(n_rounds=1)).fit(scanned, callbacks=[bopl.Checkpoint(path)])
    entries = set((tmp_path / "cache").iterdir())
    assert saved(bopl.BoostedPolicy(**settings()).fit(scanned), tmp_path) == expected
    assert saved(bopl.BoostedPolicy(**settings()).fit(scanned, resume_from=path), tmp_path) == expected
    assert set((tmp_path / "cache").iterdir()) == entries


def test_key_of_rows_has_the_first_bits_of_the_best_columns():
    assert key_by_gain(np.zeros(3)) is None
    assert key_by_gain(np.array([0.0, 9.0, 1.0])).bits[:5] == ((1, 0), (1, 1), (2, 0), (1, 2), (2, 1))
    assert len(key_by_gain(np.ones(7)).bits) == 16
    context = np.array([[3.0], [np.nan], [1.0], [2.0]], np.float32)
    columns = fit_columns(context, 16, np.zeros(1, bool), n_actions=2)
    assert key_by_gain(np.ones(1)).order(context, columns).tolist() == [2, 3, 0, 1]  # missing values come last


TREES = {
    "subsample": tree(subsample=0.5),
    "colsample": tree(colsample=0.5),
    "pairs counted": tree(min_samples_leaf=20),
    "leaves of typical samples": tree(min_child_weight=0.0, min_leaf_samples=10.0),
    "few leaves": tree(max_leaves=9),
    "few bins": tree(max_bins=16),
    "ridge": tree(reg_lambda=2.0),
    "classifier": bopl.HistTreeClassifier(5, min_child_weight=5.0, n_jobs=1),
}


@pytest.mark.parametrize("learner", TREES.values(), ids=TREES)
def test_settings_of_the_trees_do_not_matter(learner, tmp_path):
    assert_same(make_log(), tmp_path, learner=learner)


def few_values(rng):
    return np.hstack([rng.normal(size=(N, 2)), np.eye(5)[rng.integers(0, 5, N)], rng.random((N, 4)) < 0.1])


def mostly_zero(rng):
    return (rng.random((N, 20)) < 0.1) * rng.integers(1, 4, (N, 20)).astype(float)


def with_gaps(rng):
    context = rng.normal(size=(N, 5))
    context[rng.random(context.shape) < 0.2] = np.nan
    return context


LOGS = {
    "missing values": lambda rng: make_log(context=with_gaps(rng)),
    "indicators": lambda rng: make_log(context=few_values(rng)),
    "mostly zero": lambda rng: make_log(context=mostly_zero(rng)),
    "sparse": lambda rng: make_log(context=sparse.csr_array(mostly_zero(rng))),
    "nothing varies": lambda rng: make_log(context=np.ones((N, 2))),
    "masks": lambda rng: make_log(action_mask=MASK | (np.arange(4) == make_log().action_idx[:, None])),
    "action features": lambda rng: make_log(action_features=rng.normal(size=(4, 3))),
    "huge weights": lambda rng: make_log(propensity=np.exp(rng.uniform(-14.0, 0.0, N))),
    "shared contexts": lambda rng: make_log(context=rng.integers(0, 3, (N, 2))),
}


@pytest.mark.parametrize("objective", ["ips", "surrogate"])
@pytest.mark.parametrize("make", LOGS.values(), ids=LOGS)
def test_kind_of_log_does_not_matter(make, objective, tmp_path):
    assert_same(make(np.random.default_rng(1)), tmp_path, objective=objective, reward_translation=-0.2)


def test_categories_do_not_matter(tmp_path):
    context = np.hstack([make_log().context[:, :2], np.random.default_rng(1).integers(0, 5, (N, 1))])
    assert_same(make_log(context=context), tmp_path, learner=tree(categorical=[2]))


FITS = {
    "reward model": {"start": "reward_model"},
    "doubly robust": {"objective": DR(weight=Clipped(0.2)), "start": "uniform"},
    "doubly robust, self-normalised": {"objective": DR(self_normalised=True), "start": "reward_model"},
    "weights": {"objective": IPS(weight=Clipped(0.2))},
    "penalty and scale": {"ensemble_weight_penalty": 0.1, "scale": 2.0, "learning_rate": 0.5},
    "no certificate": {"certificate": False},
    "validation samples": {"validation_fraction": 0.3, "n_rounds": 6, "early_stopping_rounds": 2},
}


@pytest.mark.parametrize("changes", FITS.values(), ids=FITS)
def test_objective_and_start_do_not_matter(changes, tmp_path):
    assert_same(make_log(), tmp_path, **changes)


@dataclass(frozen=True)
class Halved(RowWise):
    """An objective of somebody else: half the inverse-propensity estimate."""

    name: ClassVar[str] = "halved"
    title: ClassVar[str] = "half the risk"
    needs_reward_model: ClassVar[bool] = False

    def bind(self, data):
        bound = IPS().bind(data)
        return replace(bound, linear=0.5 * bound.linear, weight=0.5 * bound.weight, curvature=0.5 * bound.curvature)


class Centred:
    """An objective that looks at all samples."""

    name, title, needs_reward_model = "centred", "centred risk", False

    def bind(self, data):
        return IPS().bind(data)


class ScaledDR(DR):
    """An objective of ours with terms of its own, which `DR.for_parts` does not know."""

    name = "scaled"

    def bind(self, data):
        bound = super().bind(data)
        return replace(bound, linear=0.5 * bound.linear)


class ReboundTree(bopl.HistTree):
    """A learner of ours that is bound in another way."""

    def bind(self, log, *, seed):
        return super().bind(log, seed=seed + 1)


class Plainly:
    """Formulas alone."""


class OnlyFormulas(RowWise):
    """An objective without terms."""

    name, title, needs_reward_model = "formulas", "risk", False

    def bind(self, data):
        return Plainly()


def test_objective_of_somebody_else_does_not_matter(tmp_path, monkeypatch):
    monkeypatch.setitem(OBJECTIVES, "halved", Halved)
    assert_same(make_log(), tmp_path, objective=Halved())


def test_samples_that_are_set_aside_are_the_latest_ones_as_in_memory(tmp_path):
    log = make_log(time=np.random.default_rng(2).permutation(N))
    assert_same(log, tmp_path, validation_fraction=0.3, n_rounds=4, early_stopping_rounds=2)


def test_normalisers_of_masked_actions_do_not_matter(tmp_path):
    log = make_log(action_mask=MASK | (np.arange(4) == make_log().action_idx[:, None]))
    fit = {"sample_weight": np.random.default_rng(1).random(N)}
    assert_same(log, tmp_path, fit=fit, objective=DR(self_normalised=True), start="uniform")


def test_start_from_the_logging_policy_does_not_matter(tmp_path):
    assert_same(make_log(propensity=np.full(N, 0.25)), tmp_path, start="logging")


@pytest.mark.parametrize("validates", [False, True])
def test_rows_are_hashed_in_ranges_where_a_log_has_more_than_the_owner_may_hold(validates, tmp_path, monkeypatch):
    monkeypatch.setattr("bopl.learner.pieces.facts.KEYS_AT_ONCE", 100)
    monkeypatch.setattr("bopl.cluster.placement.STREAMED", 2)
    context = np.round(make_log().context)  # many samples share a context
    log = make_log(context=context)
    watched = {"validation": SlicedLog(log.subset(np.arange(300)), [0, 100, 300])} if validates else {}
    whole, pieces = (bopl.BoostedPolicy(**settings()) for _ in range(2))
    in_memory = {"validation": log.subset(np.arange(300))} if validates else {}
    expected = saved(whole.fit(log, **in_memory), tmp_path)
    assert saved(pieces.fit(SlicedLog(log, UNEVEN), **watched), tmp_path) == expected
    assert 0.0 < pieces.training_rows_.alike < 1.0


@pytest.mark.slow
@pytest.mark.parametrize("has_prior", [False, True])
def test_default_policy_is_the_same(has_prior, tmp_path):
    changes = {"objective": "dr", "learner": None, "reward_model": None, "reward_prior": has_prior}
    assert_same(make_log(), tmp_path, cuts_of(N, 3), **changes)


def test_sample_weights_groups_and_a_validation_log_do_not_matter(tmp_path):
    log = make_log(group=np.arange(N) // 3)
    fit = {"sample_weight": np.random.default_rng(1).random(N), "validation": make_log()}
    assert_same(log, tmp_path, fit=fit, start="reward_model")


@pytest.mark.parametrize("begins_in_pieces", [True, False])
def test_checkpoint_of_one_kind_is_resumed_by_the_other(begins_in_pieces, tmp_path):
    log, path = make_log(action_mask=MASK | (np.arange(4) == make_log().action_idx[:, None])), tmp_path / "fit.ckpt"
    expected = saved(bopl.BoostedPolicy(**settings(n_rounds=5)).fit(log), tmp_path)
    first, then = (SlicedLog(log, cuts_of(N, 3)), log) if begins_in_pieces else (log, SlicedLog(log, UNEVEN))
    bopl.BoostedPolicy(**settings(n_rounds=2)).fit(first, callbacks=[bopl.Checkpoint(path, every=1)])
    for resumed_on in (then, SlicedLog(log, cuts_of(N, 7))):
        resumed = bopl.BoostedPolicy(**settings(n_rounds=5)).fit(resumed_on, resume_from=path)
        assert saved(resumed, tmp_path) == expected


def test_checkpoint_of_another_log_is_refused(tmp_path):
    log, path = make_log(), tmp_path / "fit.ckpt"
    bopl.BoostedPolicy(**settings()).fit(log, callbacks=[bopl.Checkpoint(path)])
    other = SlicedLog(log.with_reward(log.reward + 1.0), UNEVEN)
    with pytest.raises(ValueError, match="belongs to another log"):
        bopl.BoostedPolicy(**settings()).fit(other, resume_from=path)


@drawn(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cuts=st.lists(st.integers(0, 90), max_size=8), n_rows=st.sampled_from([0, 20]), seed=st.integers(0, 5))
def test_any_partition_of_a_small_log_gives_the_same_bytes(cuts, n_rows, seed, tmp_path, monkeypatch):
    monkeypatch.setattr(levels, "GATHER_ROWS", n_rows)
    rng = np.random.default_rng(seed)
    log = bopl.BanditLog(rng.normal(size=(90, 2)), rng.integers(0, 3, 90), rng.normal(size=90), np.full(90, 0.3))
    assert_same(log, tmp_path, cuts, n_rounds=2, learner=tree(max_depth=4, min_child_weight=1.0, subsample=0.7))


def test_learner_that_needs_all_samples_is_refused_with_a_reason():
    pieces = SlicedLog(make_log(), UNEVEN)
    with pytest.raises(TypeError, match="needs it in memory"):
        bopl.BoostedPolicy("ips", bopl.XGBTree()).fit(pieces)
    with pytest.raises(TypeError, match=r"inherit bopl\.objective\.RowWise"):
        bopl.BoostedPolicy(Centred(), tree()).fit(pieces)
    with pytest.raises(TypeError, match=r"bound as bopl\.objective\.RewardTerms, not as Plainly"):
        bopl.BoostedPolicy(OnlyFormulas(), tree(), certificate=False).fit(pieces)
    with pytest.raises(TypeError, match="define for_parts beside bind"):
        bopl.BoostedPolicy(ScaledDR(), tree()).fit(pieces)
    with pytest.raises(TypeError, match="ReboundTree needs it in memory"):
        bopl.BoostedPolicy("ips", ReboundTree(2)).fit(pieces)


def test_network_is_refused_with_a_reason():
    pytest.importorskip("torch")
    from bopl.reward import NetworkRewardModel

    with pytest.raises(TypeError, match="NetworkRewardModel needs it in memory"):
        bopl.BoostedPolicy("dr", tree(), reward_model=NetworkRewardModel()).fit(SlicedLog(make_log(), UNEVEN))


def test_cluster_and_memory_are_for_pieces_only():
    with pytest.raises(ValueError, match="for logs in pieces"):
        bopl.BoostedPolicy("ips").fit(make_log(), memory="1GB")


def test_progress_tells_what_share_of_a_round_was_spent_waiting(monkeypatch):
    said = []

    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setattr("rich.progress.Progress.update", lambda self, task, **fields: said.append(fields["value"]))
    bopl.BoostedPolicy(**settings(progress=True)).fit(SlicedLog(make_log(), cuts_of(N, 3)))
    assert len(said) == 3
    assert all(re.fullmatch(r"reward -?[0-9.]+, waiting \d+%", one) for one in said)


def test_bytes_of_a_wave_are_counted_with_all_its_histograms(monkeypatch):
    placements = []

    class Recording(ThisMachine):
        def place(self, *given, **named):
            placements.append(super().place(*given, **named))
            return placements[-1]

    with Recording(n_threads=1) as cluster:
        fitted = bopl.BoostedPolicy(**settings(n_rounds=1)).fit(SlicedLog(make_log(), cuts_of(N, 3)), cluster=cluster)
    n_splits = len(fitted.ensemble_.rounds[0].predictor.tree.value) // 2
    n_bins = 4 * 100  # far fewer than the columns have
    assert placements[-1].traffic.n_bytes > 8 * n_bins * min(n_splits, 3)


def test_a_piece_is_read_once_before_the_first_round_and_once_for_it(monkeypatch):
    loads, load = [], Slicer.load
    monkeypatch.setattr(Slicer, "load", lambda self, piece: (loads.append(piece), load(self, piece))[1])
    with ThisMachine(n_threads=1) as cluster:
        bopl.BoostedPolicy(**settings()).fit(SlicedLog(make_log(), cuts_of(N, 3)), cluster=cluster)
    assert len(loads) == 2 * 3
