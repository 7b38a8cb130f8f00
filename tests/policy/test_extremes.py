"""Logs at the edge of what numbers and memory hold: they work, or end in one sentence."""

import numpy as np
import pyarrow.parquet as pq
import pytest
from scipy.sparse import csr_array

import bopl
from bopl.log import learnable
from bopl.log.column import Column
from bopl.log.schema import LogSchema
from product import click_table, run_bopl

OBJECTIVES = ("dr", "ips", "surrogate")


def small_log(factor=1.0, n_samples=400, **settings):
    rng = np.random.default_rng(0)
    context = rng.normal(size=(n_samples, 3)).astype(np.float32)
    action = rng.integers(0, 3, n_samples)
    reward = rng.random(n_samples) < 0.2 + 0.5 * (action == (context[:, 0] > 0))
    return bopl.BanditLog(context, action, factor * reward, np.full(n_samples, 1 / 3), **settings)


def small_policy(objective, **settings):
    return bopl.BoostedPolicy(objective, n_rounds=3, progress=False, random_state=0, **settings)


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("factor", [1e77, 1e100, 1e-4])
def test_policies_learn_from_rewards_of_unusual_size(objective, factor):
    log = small_log(factor)
    prob = small_policy(objective).fit(log).predict_proba(log.context)
    assert np.isfinite(prob).all()
    assert prob.std() > 0.01


LEARNERS = [small_policy("ips"), bopl.AutoPolicy(progress=False), bopl.baseline.UniformPolicy()]


@pytest.mark.parametrize("policy", LEARNERS, ids=lambda policy: type(policy).__name__)
@pytest.mark.parametrize(
    ("factor", "sentence"),
    [(1e160, "must not exceed 1e.100"), (1e300, "row .* holds 1e.300"), (1e-162, "too small to learn from")],
)
def test_rewards_that_nothing_can_be_learned_from_are_refused(policy, factor, sentence):
    with pytest.raises(ValueError, match=sentence):
        policy.fit(small_log(factor))


def test_rewards_that_are_all_zero_are_no_small_rewards():
    with pytest.raises(ValueError, match="all 400 rewards are zero"):
        small_policy("ips").fit(small_log(0.0))


@pytest.mark.parametrize("factor", [1e77, 1e-162])
def test_the_command_audits_rewards_of_any_size(tmp_path, capsys, factor):
    table = click_table(400)
    place = table.column_names.index("click")
    pq.write_table(table.set_column(place, "click", [factor * table["click"].to_numpy()]), tmp_path / "log.parquet")
    assert (
        run_bopl("audit", tmp_path / "log.parquet", "--action", "item", "--reward", "click", "--propensity", "p") == 0
    )
    assert "unexpected" not in capsys.readouterr().err


def many_actions(n_samples=40, n_actions=40_000):
    rng = np.random.default_rng(0)
    action = rng.integers(0, n_actions, n_samples)
    prob = np.full(n_samples, 1 / n_actions)
    return bopl.BanditLog(rng.normal(size=(n_samples, 2)), action, action % 2, prob, actions=range(n_actions))


def test_forty_thousand_actions_work_or_are_refused_in_one_sentence(monkeypatch):
    log = many_actions()
    assert log.audit().table is not None
    assert small_policy("surrogate").fit(log).predict(log.context[:2]).shape == (2,)
    with pytest.raises(ValueError, match=r"40000 actions need max_bins.*Use objective 'ips' or 'surrogate'"):
        small_policy("dr").fit(log)
    monkeypatch.setattr(learnable, "available_memory", lambda: 1 << 20)
    with pytest.raises(ValueError, match=r"40 samples and 40,000 actions takes 0.0 GiB, more than"):
        small_policy("surrogate").fit(log)
    monkeypatch.setattr(learnable, "available_memory", lambda: None)
    small_policy("surrogate").fit(log)


def sparse_log(*, has_schema):
    rng = np.random.default_rng(0)
    context = np.column_stack([rng.integers(0, 5, 200), rng.normal(size=(200, 2))])
    action = rng.integers(0, 3, 200)
    log = bopl.BanditLog(
        csr_array(context), action, action == context[:, 0], np.full(200, 1 / 3), feature_names=["a", "b", "c"]
    )
    category = Column("a", "category", tuple(range(5)))
    return log.with_schema(LogSchema((category, Column("b", "number"), Column("c", "number")))) if has_schema else log


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("has_schema", [False, True])
def test_sparse_contexts_may_have_categories(objective, has_schema):
    log = sparse_log(has_schema=has_schema)
    learner = None if has_schema else bopl.HistTree(3, categorical=["a"])
    policy = small_policy(objective, learner=learner).fit(log)
    assert np.isfinite(policy.predict_proba(log.context)).all()


def test_propensities_of_sparse_contexts_with_categories_are_estimated():
    estimated = bopl.estimate_propensity(sparse_log(has_schema=True))
    assert (estimated.propensity > 0).all()


def test_categories_of_sparse_contexts_that_cannot_be_are_refused():
    log = sparse_log(has_schema=False)
    with pytest.raises(ValueError, match="columns 0 to 2"):
        small_policy("ips", learner=bopl.HistTree(categorical=[7])).fit(log)


def test_categories_in_vowpal_wabbits_text_are_refused(tmp_path, capsys):
    (tmp_path / "log.vw").write_text("1:-1:0.5 | a b:2\n2:0:0.25 | b c:0.5\n1:0:0.5 |\n")
    assert run_bopl("audit", tmp_path / "log.vw", "--categorical", "b") == 2
    assert "all features in Vowpal Wabbit's text are numbers" in capsys.readouterr().err
