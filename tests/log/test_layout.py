"""Gaps and categories as inputs of linear models and networks."""

import numpy as np
import pandas
import pytest
from scipy.sparse import csr_array

import bopl
from bopl.baseline import BanditNetPolicy, DeepRewardPolicy, LoggingPolicy, fit_together
from bopl.log.input_layout import fit_layout
from product import click_table

SMALL = {"first_layer_width": 8, "n_epochs": 3, "device": "cpu", "progress": False, "random_state": 0}
ROLES = {"action": "item", "reward": "click", "propensity": "p"}
NAN = float("nan")


def policies():
    return LoggingPolicy(), DeepRewardPolicy(**SMALL), BanditNetPolicy(**SMALL)


def click_log(n_samples=400, seed=0):
    return bopl.BanditLog.from_frame(
        click_table(n_samples, seed),
        action="item",
        reward="click",
        propensity="p",
        context=["city", "age", "is_member"],
    )


def inputs_by_hand(rows, mean, sizes, gaps):
    """The same, value by value."""
    made = []
    for row in rows:
        numbers = [mean[i] if np.isnan(value) else value for i, value in enumerate(row) if i not in sizes]
        marks = [float(np.isnan(row[i])) for i in gaps]
        indicators = [float(row[i] == code) for i in sorted(sizes) for code in range(sizes[i])]
        made.append([*numbers, *marks, *indicators])
    return np.array(made, np.float32)


def test_inputs_are_those_made_by_hand():
    rng = np.random.default_rng(0)
    context = np.column_stack(
        [rng.normal(size=50), rng.integers(0, 3, 50), rng.normal(size=50), rng.integers(0, 2, 50)]
    )
    context = context.astype(np.float32)
    context[:5, 0] = context[3:9, 1] = NAN
    mean = np.nanmean(context.astype(np.float64), axis=0)
    layout = fit_layout(context, {1: 3, 3: 2})
    later = [[NAN, 2, NAN, 1], [0.5, NAN, 1.5, NAN], [0, 7, 0, -1]]  # column 2 had no gap, and two codes are of nothing
    later = np.array(later, np.float32)
    for rows in (context, later):
        inputs = layout(rows).toarray()
        np.testing.assert_allclose(inputs, inputs_by_hand(rows, mean, {1: 3, 3: 2}, [0]), rtol=1e-6)
        assert inputs.shape[1] == layout.n_inputs == 2 + 1 + 5
        assert inputs.dtype == np.float32


@pytest.mark.parametrize("convert", [np.asarray, csr_array], ids=["dense", "sparse"])
def test_contexts_without_gaps_and_categories_are_their_own_inputs(convert):
    context = convert(np.array([[0.0, 2.0], [4.0, 0.0]], np.float32))
    layout = fit_layout(context)
    assert layout(context) is context
    filled = layout(convert(np.array([[NAN, 1.0]], np.float32)))
    np.testing.assert_array_equal(filled.toarray() if convert is csr_array else filled, [[2.0, 1.0]])


def test_sparse_contexts_with_gaps_give_the_inputs_of_dense_ones():
    rng = np.random.default_rng(1)
    context = (rng.normal(size=(40, 6)) * (rng.random((40, 6)) < 0.4)).astype(np.float32)
    context[3:7, 2] = context[0, 4] = NAN
    dense, sparse = fit_layout(context), fit_layout(csr_array(context))
    later = np.where(np.eye(6, dtype=bool), np.float32(NAN), np.float32(0.0))
    for rows in (context, later):
        inputs = sparse(csr_array(rows))
        assert inputs.nnz < inputs.shape[0] * inputs.shape[1]
        np.testing.assert_allclose(inputs.toarray(), dense(rows), rtol=1e-6, atol=1e-7)


def test_a_column_that_is_always_missing_is_zero_and_marked():
    layout = fit_layout(np.full((3, 1), NAN, np.float32))
    np.testing.assert_array_equal(layout(np.array([[NAN], [7.0]], np.float32)), [[0.0, 1.0], [7.0, 0.0]])


@pytest.mark.parametrize("policy", policies(), ids=lambda policy: type(policy).__name__)
def test_logs_with_gaps_and_categories_can_be_learned_from_and_saved(policy, tmp_path):
    train = click_log()
    later = click_table(60, seed=1).to_pandas()
    later.loc[:9, "age"] = NAN
    later.loc[5:14, "city"] = None
    probability = policy.fit(train).predict_proba(later)
    assert np.isfinite(probability).all()
    np.testing.assert_allclose(probability.sum(axis=1), 1.0)
    policy.save(tmp_path / "policy.bopl")
    np.testing.assert_array_equal(bopl.load(tmp_path / "policy.bopl").predict_proba(later), probability)


@pytest.mark.parametrize("policy", policies(), ids=lambda policy: type(policy).__name__)
def test_a_text_column_that_is_always_missing_is_no_input(policy, tmp_path):
    frame = click_table(200).to_pandas().assign(note=pandas.array([None] * 200, dtype="string"))
    log = bopl.BanditLog.from_frame(frame, **ROLES, context=["age", "note"])
    assert log.schema.categorical == ("note",)
    probability = policy.fit(log).predict_proba(frame)
    layout = policy.layout_ if isinstance(policy, LoggingPolicy) else policy.network_.scaling.layout
    assert (layout.category.tolist(), layout.n_categories.tolist()) == ([1], [0])
    policy.save(tmp_path / "policy.bopl")
    np.testing.assert_array_equal(bopl.load(tmp_path / "policy.bopl").predict_proba(frame), probability)


@pytest.mark.parametrize("policy", policies(), ids=lambda policy: type(policy).__name__)
def test_the_numbers_of_categories_do_not_matter(policy):
    frame = click_table(400).to_pandas()
    renamed = frame.assign(city=frame["city"].map({"Rom": "a", "Ulm": "b", "Bonn": "c"}))  # another order of the codes
    score = policy.fit(bopl.BanditLog.from_frame(frame, **ROLES, context=["city"])).decision_function(frame)
    assert len(np.unique(score.round(6), axis=0)) == 3  # one for each city
    layout = policy.layout_ if isinstance(policy, LoggingPolicy) else policy.network_.scaling.layout
    assert (layout.n_inputs, layout.category.tolist()) == (3, [0])
    if isinstance(policy, LoggingPolicy):  # which starts from no random weights
        again = policy.fit(bopl.BanditLog.from_frame(renamed, **ROLES, context=["city"])).decision_function(renamed)
        np.testing.assert_allclose(again, score, atol=1e-3)


def test_a_layout_that_does_not_fit_is_refused(tmp_path):
    policy = LoggingPolicy().fit(click_log())
    policy.layout_.number[0] = 7
    policy.save(tmp_path / "policy.bopl")
    with pytest.raises(ValueError, match="the layout of the inputs does not fit 3 columns"):
        bopl.load(tmp_path / "policy.bopl")


def test_a_file_from_before_says_that_it_is_old(tmp_path, monkeypatch):
    policy = LoggingPolicy().fit(click_log())
    monkeypatch.setattr("bopl.log.input_layout.InputLayout.pack", lambda layout: {})
    policy.save(tmp_path / "policy.bopl")
    with pytest.raises(
        ValueError, match="written before missing values and categories were supported; fit the policy again"
    ):
        bopl.load(tmp_path / "policy.bopl")


def test_logs_with_gaps_in_other_columns_cannot_train_together():
    logs = []
    for column in range(2):
        context = np.random.default_rng(column).normal(size=(40, 2 + column))[:, :2]
        context[:3, :column] = NAN
        logs.append(bopl.BanditLog(context, [0, 1] * 20, np.ones(40), np.full(40, 0.5)))
    with pytest.raises(ValueError, match="missing values in the same columns"):
        fit_together([DeepRewardPolicy(**SMALL), DeepRewardPolicy(**SMALL)], logs)


def test_one_loop_compares_all_policies_on_a_log_of_mixed_columns():
    train, test = click_log(600).split(0.3, random_state=0)
    assert np.isnan(train.context).any()
    cheap = (bopl.BoostedPolicy(n_rounds=3), bopl.baseline.BoostedRewardPolicy(n_rounds=3), *policies())
    for policy in (*cheap, bopl.baseline.XGBRewardPolicy(n_rounds=3), bopl.baseline.UniformPolicy()):
        assert np.isfinite(policy.fit(train).score(test))
