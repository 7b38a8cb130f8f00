"""An evaluation over pieces has the numbers of the one in memory, and holds one piece at a time."""

import gc
import pickle
import weakref

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import bopl
from bopl import BanditLog
from bopl._errors import UsageError
from bopl.log.pieces.spec import PieceSpec
from pieces_logs import EVERYTHING, ROLES, a_frame, write


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    """No test writes to the user's cache."""
    monkeypatch.setenv("BOPL_CACHE", str(tmp_path / "cache"))


class Leaning:
    """Likes the first action the more, the older."""

    def predict_proba(self, context, action_mask=None):
        score = np.column_stack([np.nan_to_num(context[:, 0]), np.zeros(len(context)), np.ones(len(context))])
        return np.exp(score) / np.exp(score).sum(axis=1, keepdims=True)


@pytest.fixture(scope="module")
def logs(tmp_path_factory):
    path = write(tmp_path_factory.mktemp("log"), a_frame(400), (150, 0, 1, 249), 60)
    return BanditLog.read(path, **ROLES, **EVERYTHING), BanditLog.scan_parquet(path, **ROLES, **EVERYTHING)


def assert_same_answers(mine, theirs):
    assert len(mine.rows) == len(theirs.rows)
    for row, other in zip(mine.rows, theirs.rows, strict=True):
        assert row.keys() == other.keys()
        for name, value in row.items():
            if isinstance(value, float):
                np.testing.assert_allclose(value, other[name], rtol=1e-9, atol=1e-12, err_msg=name)
            else:
                assert value == other[name], name


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"interval": "bootstrap", "n_replicates": 50},
        {"estimators": ["ips", "snips"], "guards": ["revenue>=-50%"], "min_uplift": 0.01},
        {"head_to_head": True},
        {"propensity": "uniform"},
    ],
    ids=lambda settings: " ".join(settings) or "plain",
)
def test_pieces_have_the_answers_of_the_log_in_memory(logs, settings):
    whole, pieces = logs
    uniform = np.full((400, 3), 1 / 3)
    policies = {"leaning": Leaning(), "uniform": uniform}
    assert_same_answers(bopl.evaluate(pieces, policies, **settings), bopl.evaluate(whole, policies, **settings))


def table_of(propensity, reward, action):
    rng = np.random.default_rng(0)
    columns = {"x": 5.0 + rng.normal(size=len(reward)), "item": action, "click": reward, "p": propensity}
    return pa.table({**columns, "new": rng.uniform(0.1, 0.9, len(reward))})


@pytest.mark.parametrize("decimals", [2, 17], ids=["rounded", "exact"])
@pytest.mark.parametrize("sizes", [(300, 300), (1, 599), (599, 1), (200, 200, 200)], ids=str)
def test_whether_propensities_are_rounded_is_told_from_the_whole_log(tmp_path, decimals, sizes):
    rng = np.random.default_rng(1)
    propensity = rng.uniform(0.1, 0.9, 600).round(decimals)
    propensity[:300] = 0.7  # alone, these would look rounded, and the others of the first file exact
    table = table_of(propensity, rng.random(600), rng.integers(0, 2, 600))
    for number, start in enumerate(np.cumsum([0, *sizes[:-1]])):
        pq.write_table(table.slice(start, sizes[number]), tmp_path / f"{number}.parquet")
    roles = {"action": "item", "reward": "click", "propensity": "p", "other_rewards": ["x"]}
    whole, pieces = (read(str(tmp_path / "*.parquet"), **roles) for read in (BanditLog.read, BanditLog.scan_parquet))
    policies, settings = {"new": table["new"].to_numpy()}, {"estimators": "ips", "guards": ["x>=-50%"]}
    expected = bopl.evaluate(whole, policies, **settings)
    assert_same_answers(bopl.evaluate(pieces, policies, **settings), expected)
    assert ("look rounded" in expected.rows[0].reason) == (decimals == 2)


def test_replicates_that_equal_the_estimate_but_for_their_last_bits_are_counted_alike(tmp_path):
    rng = np.random.default_rng(2)
    table = table_of(rng.choice([0.1, 0.3, 0.7], 48), rng.integers(0, 2, 48), rng.integers(0, 2, 48))
    pq.write_table(table, tmp_path / "log.parquet", row_group_size=7)
    roles = {"action": "item", "reward": "click", "propensity": "p", "ignore": ["new"], "exact_propensity": True}
    whole, pieces = (read(tmp_path / "log.parquet", **roles) for read in (BanditLog.read, BanditLog.scan_parquet))
    settings = {"interval": "bootstrap", "estimators": ["ips", "clipped_ips", "snips"], "n_replicates": 400}
    policies = {"third": np.full((48, 2), 0.5), "first": np.tile([1.0, 0.0], (48, 1))}
    assert_same_answers(bopl.evaluate(pieces, policies, **settings), bopl.evaluate(whole, policies, **settings))


def test_a_fitted_reward_model_serves_pieces_too(logs):
    whole, pieces = logs
    model = _Means().fit(whole)
    mine, theirs = (bopl.evaluate(log, Leaning(), reward_model=model, estimators="dr") for log in (pieces, whole))
    assert_same_answers(mine, theirs)


class _Means:
    def fit(self, log):
        self.mean_ = np.bincount(log.action_idx, log.reward) / np.bincount(log.action_idx)
        return self

    def predict(self, context):
        return np.tile(self.mean_, (context.shape[0], 1))


def test_no_more_than_one_piece_is_alive(logs, monkeypatch):
    seen, alive = [], []
    load = PieceSpec.load

    def counted(self, piece):
        log = load(self, piece)
        seen.append(weakref.ref(log))
        alive.append(sum(one() is not None for one in seen))
        return log

    monkeypatch.setattr(PieceSpec, "load", counted)
    gc.collect()
    bopl.evaluate(logs[1], Leaning())
    assert len(alive) == len(logs[1].pieces) > 5
    assert max(alive) <= 2  # one is read while the last goes


def test_what_needs_the_whole_log_is_refused(logs):
    _, pieces = logs
    for settings, said in [
        ({"propensity": "estimate"}, "need the log in memory"),
        ({"confounding": True}, "confounding needs the log in memory"),
        ({"segment": np.zeros(400)}, "where it is scanned"),
        ({"reward_model": bopl.BoostedRewardModel()}, "not cross-fitted"),
    ]:
        with pytest.raises(UsageError, match=said):
            bopl.evaluate(pieces, Leaning(), **settings)
    with pytest.raises(UsageError, match="pieces of a log in pieces"):
        bopl.evaluate(logs[0], Leaning(), cluster="tcp://nowhere:1")
    with pytest.raises(ValueError, match="has 3 rows, the log 400"):
        bopl.evaluate(pieces, np.ones((3, 3)) / 3)


def test_a_cluster_gives_the_same_bits(logs):
    from bopl.cluster import ThisMachine

    _, pieces = logs
    settings = {"interval": "bootstrap", "n_replicates": 40, "estimators": ["ips", "clipped_ips"]}
    policies = {"leaning": Leaning(), "uniform": np.full((400, 3), 1 / 3)}
    alone = bopl.evaluate(pieces, policies, **settings)
    with ThisMachine() as machine:
        together = bopl.evaluate(pieces, policies, **settings, cluster=machine)
    assert pickle.dumps(alone.to_dict()) == pickle.dumps(together.to_dict())


def test_the_workers_of_a_dask_cluster_give_the_same_bits(logs):
    distributed = pytest.importorskip("distributed")
    whole, pieces = logs
    policy = bopl.BoostedPolicy("ips", n_rounds=2, progress=False, random_state=0).fit(whole)
    alone = bopl.evaluate(pieces, policy)
    with (
        distributed.LocalCluster(
            processes=True, n_workers=1, threads_per_worker=1, host="127.0.0.1", dashboard_address=":0", silence_logs=50
        ) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        together = bopl.evaluate(pieces, policy, cluster=client)
    assert pickle.dumps(alone.to_dict()) == pickle.dumps(together.to_dict())


@pytest.mark.parametrize("offset", [0.0, 1e4, 1e8])
def test_rewards_far_from_zero_cost_no_digits_over_pieces(tmp_path, offset):
    rng = np.random.default_rng(5)
    reward = np.round(rng.normal(size=600), 6)
    table = table_of(rng.uniform(0.1, 0.9, 600), offset + reward, rng.integers(0, 2, 600))
    pq.write_table(table, tmp_path / "log.parquet", row_group_size=100)
    asked = {"action": "item", "reward": "click", "propensity": "p", "estimators": ["snips", "beta_ips"]}
    found = bopl.evaluate_parquet(tmp_path / "log.parquet", {"new": "new"}, **asked)
    log = BanditLog.from_frame(table.drop_columns(["new"]), **ROLES)
    near = bopl.evaluate(
        BanditLog(log.context, log.action, reward, log.propensity),
        {"new": table["new"].to_numpy()},
        estimators=["snips", "beta_ips"],
    )
    for row, other in zip(found.rows, near.rows, strict=True):
        for name in ("uplift", "uplift_ci_lower", "uplift_ci_upper"):
            np.testing.assert_allclose(row[name], other[name], rtol=1e-6, atol=1e-6, err_msg=name)
