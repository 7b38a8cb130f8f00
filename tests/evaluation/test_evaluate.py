"""What callers may give, what they get, and the one sentence they read when it is wrong."""

import json

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.sparse import csr_array
from sklearn.dummy import DummyRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.tree import DecisionTreeRegressor

import bopl
from bopl.evaluation import ClippedIPS, SwitchDR
from bopl.evaluation.result import COLUMNS
from bopl.reward.folds import draw_folds
from bopl.reward.prediction import predict_rewards
from bopl.simulation import make_world
from helpers import informative_log, make_log

WORLD = make_world("plain")
SAMPLE = WORLD.sample(0, n_samples=400)
LOG = SAMPLE.log
N, A = LOG.n_samples, LOG.n_actions


class TablePolicy:
    """A policy without labels: probabilities by the first context column."""

    def predict_proba(self, context):
        prob = np.full((context.shape[0], A), 0.1)
        prob[np.arange(len(prob)), (context[:, 0] > 0).astype(int)] = 0.6
        return prob


class LabelledPolicy(bopl.Policy):
    def __init__(self, actions):
        self.actions_ = np.asarray(actions)

    def predict_proba(self, context):
        return np.tile(np.arange(1.0, A + 1) / (A * (A + 1) / 2), (context.shape[0], 1))


def logged(prob):
    return prob[np.arange(N), LOG.action_idx]


def test_table_has_the_promised_columns_and_one_row_per_policy_and_estimator():
    evaluation = bopl.evaluate(LOG, {"a": SAMPLE.policy_prob, "b": TablePolicy()}, estimators=["ips", "snips"])
    table = evaluation.table
    assert isinstance(table, pd.DataFrame)
    assert list(table.columns) == list(COLUMNS)
    assert list(zip(table["policy"], table["estimator"], strict=True)) == [
        ("a", "ips"),
        ("a", "snips"),
        ("b", "ips"),
        ("b", "snips"),
    ]
    assert set(table["propensity_source"]) == {"logged"}
    assert isinstance(evaluation.to_frame("polars"), pl.DataFrame)
    assert pl.DataFrame(evaluation).shape == (4, len(COLUMNS))


def test_object_matrix_and_logged_probabilities_agree():
    matrix = TablePolicy().predict_proba(LOG.context)
    rows = [
        bopl.evaluate(LOG, policy, estimators=["ips", "snips", "clipped_ips", "beta_ips"]).table
        for policy in (TablePolicy(), matrix, logged(matrix))
    ]
    for other in rows[1:]:
        pd.testing.assert_frame_equal(rows[0].drop(columns="unsupported_mass"), other.drop(columns="unsupported_mass"))
    assert rows[0]["unsupported_mass"].tolist() == [0.0] * 4
    assert rows[2]["unsupported_mass"].isna().all()


def test_columns_of_a_policy_are_matched_by_label():
    straight, reversed_labels = (
        bopl.evaluate(LOG, LabelledPolicy(labels), estimators="ips").row()["value"]
        for labels in (range(A), range(A)[::-1])
    )
    prob = LabelledPolicy(range(A)).predict_proba(LOG.context)
    assert straight == pytest.approx(np.mean(logged(prob) / LOG.propensity * LOG.reward))
    assert reversed_labels == pytest.approx(np.mean(logged(prob[:, ::-1]) / LOG.propensity * LOG.reward))


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame])
@pytest.mark.parametrize("labels", [["a", "b"], [3, 1]])
def test_columns_of_a_frame_are_matched_by_name(kind, labels):
    action = np.arange(400) % 2
    log = bopl.BanditLog(
        np.zeros((400, 1)), [labels[a] for a in action], (action == 1).astype(float), np.full(400, 0.5), actions=labels
    )
    frame = kind({str(labels[1]): np.full(400, 0.9), str(labels[0]): np.full(400, 0.1)})
    assert bopl.evaluate(log, frame, estimators="snips").row()["value"] == pytest.approx(0.9)
    unnamed = kind({"p_first": np.full(400, 0.1), "p_second": np.full(400, 0.9)})
    assert bopl.evaluate(log, unnamed, estimators="snips").row()["value"] == pytest.approx(0.9)
    half = kind({str(labels[1]): np.full(400, 0.9), "other": np.full(400, 0.1)})
    with pytest.raises(ValueError, match="name the columns after all actions, or pass an array"):
        bopl.evaluate(log, half, estimators="snips")


def test_a_trained_policy_is_evaluated_under_the_mask_of_the_log():
    rng = np.random.default_rng(0)
    log = informative_log(0)
    mask = np.ones((400, 3), dtype=bool)
    mask[np.arange(400), (log.action_idx + 1) % 3] = rng.random(400) < 0.5
    masked = bopl.BanditLog(log.context, log.action, log.reward, log.propensity, action_mask=mask)
    policy = bopl.BoostedPolicy(n_rounds=3, random_state=0).fit(masked)
    row = bopl.evaluate(masked, policy, estimators="ips").row()
    prob = policy.predict_proba(masked.context, action_mask=mask)[np.arange(400), log.action_idx]
    assert row["value"] == pytest.approx(np.mean(prob / log.propensity * log.reward))
    assert row["unsupported_mass"] == 0.0


def test_blocks_do_not_change_the_result(monkeypatch):
    arguments = {"estimators": "all", "interval": "bootstrap", "reward_model": SAMPLE.reward_hat, "n_replicates": 50}
    whole = bopl.evaluate(LOG, SAMPLE.policy_prob, logging_policy=SAMPLE.logging_prob, **arguments).table
    monkeypatch.setattr("bopl._policy_reader.BLOCK_ROWS", 37)
    monkeypatch.setattr("bopl.evaluation.log_sums.PILOT_BLOCKS", 1000)
    blocks = bopl.evaluate(LOG, SAMPLE.policy_prob, logging_policy=SAMPLE.logging_prob, **arguments).table
    pd.testing.assert_frame_equal(whole, blocks, rtol=1e-11)


def test_row_order_does_not_matter():
    order = np.random.default_rng(0).permutation(N)
    arguments = {"estimators": ["ips", "snips", "dr", "sndr", "beta_ips"]}
    whole = bopl.evaluate(LOG, SAMPLE.policy_prob, reward_model=SAMPLE.reward_hat, **arguments).table
    mixed = bopl.evaluate(
        LOG.subset(order), SAMPLE.policy_prob[order], reward_model=SAMPLE.reward_hat[order], **arguments
    ).table
    pd.testing.assert_frame_equal(whole, mixed, rtol=1e-9)


# -- Reward models ------------------------------------------------------------------------------------------------


def test_predictions_of_a_sample_come_from_a_model_that_has_not_seen_it():
    log = make_log(n_samples=60)
    memory = DecisionTreeRegressor()  # reproduces every reward it was fitted on
    predictor = predict_rewards(memory, log, n_folds=5, seed=0)
    fold = draw_folds(log, 5, 0)
    np.testing.assert_array_equal(np.bincount(fold), 12)
    reward_hat = predictor.block(slice(0, 60))
    for number in range(5):
        rest = log.subset(fold != number)
        own = np.flatnonzero(fold == number)
        assert not np.isin(log.reward[own], rest.reward).any()
        assert np.isin(reward_hat[own], rest.reward).all()  # leaves hold rewards of the other folds only


def test_folds_keep_groups_together():
    group = np.arange(100) // 7
    log = make_log(n_samples=100)
    grouped = bopl.BanditLog(log.context, log.action, log.reward, log.propensity, group=group)
    fold = draw_folds(grouped, 4, 0)
    assert all(len(set(fold[group == one])) == 1 for one in set(group))
    assert len(set(fold)) == 4


@pytest.mark.parametrize("model", [None, LinearRegression(), bopl.BoostedRewardModel(n_rounds=5)], ids=str)
def test_dr_takes_the_default_model_any_regressor_and_the_boosted_model(model):
    evaluation = bopl.evaluate(LOG, SAMPLE.policy_prob, estimators="dr", reward_model=model)
    assert abs(evaluation.row()["value"] - WORLD.value) < 4.0 * evaluation.row()["std_err"]
    assert "cross-fitted on 5 folds" in evaluation.notes[0]


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_a_regressor_is_given_few_expanded_rows_at_a_time(kind, monkeypatch):
    sizes = []

    class Watched(LinearRegression):
        def predict(self, rows):
            sizes.append(rows.shape[0])
            return super().predict(rows)

    log = bopl.BanditLog(
        csr_array(LOG.context) if kind == "sparse" else LOG.context, LOG.action, LOG.reward, LOG.propensity
    )
    whole = bopl.evaluate(log, SAMPLE.policy_prob, estimators="dr", reward_model=Watched()).row()["value"]
    most = max(sizes)
    monkeypatch.setattr("bopl.reward.prediction.EXPANDED_BYTES", 4 * A * (3 * LOG.n_features + A) * 7)
    sizes.clear()
    parts = bopl.evaluate(log, SAMPLE.policy_prob, estimators="dr", reward_model=Watched()).row()["value"]
    assert parts == pytest.approx(whole, rel=1e-9)
    assert max(sizes) < 20 * A < most


class PlainModel:
    """A reward model that knows nothing of scikit-learn."""

    def __init__(self, change=lambda reward_hat: reward_hat):
        self.change = change

    def fit(self, log):
        self.mean_, self.n_actions_ = log.reward.mean(), log.n_actions
        return self

    def predict(self, context):
        return self.change(np.full((context.shape[0], self.n_actions_), self.mean_))


def test_a_plain_class_with_fit_and_predict_is_a_reward_model():
    evaluation = bopl.evaluate(LOG, SAMPLE.policy_prob, estimators="dm", reward_model=PlainModel())
    assert evaluation.row()["value"] == pytest.approx(LOG.reward.mean(), abs=0.02)
    assert evaluation.notes == ("Reward model: PlainModel, cross-fitted on 5 folds.",)
    fitted = bopl.evaluate(LOG, SAMPLE.policy_prob, estimators="dm", reward_model=PlainModel().fit(LOG))
    assert fitted.row()["value"] == pytest.approx(LOG.reward.mean(), rel=1e-9)
    assert fitted.notes == ()


def test_a_regressor_that_knows_nothing_makes_dr_of_a_constant_baseline():
    evaluation = bopl.evaluate(LOG, SAMPLE.policy_prob, estimators=["dm", "dr"], reward_model=DummyRegressor())
    assert evaluation.row(estimator="dm")["value"] == pytest.approx(LOG.reward.mean(), abs=0.01)


def test_dr_is_the_default_addition_when_a_reward_model_is_given():
    evaluation = bopl.evaluate(LOG, SAMPLE.policy_prob, reward_model=SAMPLE.reward_hat)
    assert [row["estimator"] for row in evaluation.rows] == ["ips", "snips", "dr"]


def test_a_fitted_model_is_used_as_it_is():
    other = WORLD.sample(99, n_samples=300).log
    model = bopl.BoostedRewardModel(n_rounds=10).fit(other)
    given = bopl.evaluate(LOG, SAMPLE.policy_prob, estimators="dr", reward_model=model.predict(LOG.context)).row()
    fitted = bopl.evaluate(LOG, SAMPLE.policy_prob, estimators="dr", reward_model=model).row()
    assert fitted["value"] == given["value"]


@pytest.mark.parametrize("rows", [slice(None), slice(0, 100)], ids=["all", "a part"])
def test_a_model_fitted_on_the_same_rows_is_refused(rows):
    log = make_log(n_samples=200)
    model = bopl.BoostedRewardModel(n_rounds=3).fit(log.subset(rows))
    with pytest.raises(ValueError, match=r"was fitted on (100|50)% of the rows of this evaluation"):
        bopl.evaluate(log, np.full((200, 4), 0.25), estimators="dr", reward_model=model)


def test_rows_that_are_alike_by_chance_are_no_reason_to_refuse():
    logs = [make_log(seed, n_samples=300, distinct=2, negative=False) for seed in (0, 1)]
    coarse = [bopl.BanditLog(log.context, log.action, log.reward.round(), log.propensity) for log in logs]
    model = bopl.BoostedRewardModel(n_rounds=3).fit(coarse[0])
    found = bopl.evaluate(coarse[1], np.full((300, 4), 0.25), estimators="dr", reward_model=model)
    assert np.isfinite(found.row()["value"])


# -- Propensities -------------------------------------------------------------------------------------------------


def unknown(log):
    return bopl.BanditLog(log.context, log.action, log.reward, None, actions=log.actions)


def test_a_log_without_propensities_can_be_held_but_not_used():
    log = unknown(LOG)
    assert not log.has_propensity
    assert "propensity unknown" in repr(log)
    for use in (
        lambda: bopl.evaluate(log, SAMPLE.policy_prob),
        lambda: bopl.BoostedPolicy(n_rounds=1).fit(log),
    ):
        with pytest.raises(ValueError, match="propensity is missing: pass the probability"):
            use()


def test_frames_without_a_propensity_column_say_so_with_none(tmp_path):
    frame = pd.DataFrame({"x": [1.0, 2.0], "item": ["a", "b"], "click": [0, 1]})
    log = bopl.BanditLog.from_frame(frame, action="item", reward="click", propensity=None)
    assert log.feature_names == ("x",)
    assert log.propensity_source == "unknown"
    frame.to_parquet(tmp_path / "log.parquet")
    assert not bopl.BanditLog.from_parquet(
        tmp_path / "log.parquet", action="item", reward="click", propensity=None, context=["x"]
    ).has_propensity


def test_uniform_propensities_only_when_the_caller_writes_so():
    evaluation = bopl.evaluate(unknown(LOG), SAMPLE.policy_prob, propensity="uniform", estimators="ips")
    row = evaluation.row()
    assert row["propensity_source"] == "uniform"
    assert "uniform because the caller said so" in row["reason"]
    assert row["value"] == pytest.approx(np.mean(logged(SAMPLE.policy_prob) * A * LOG.reward))


def test_uniform_means_among_the_eligible_actions():
    mask = np.array([[True, True, False], [True, True, True]])
    log = bopl.BanditLog(np.eye(2), [0, 1], [1, 0], None, actions=[0, 1, 2], action_mask=mask)
    np.testing.assert_allclose(log.with_propensity("uniform").propensity, [1 / 2, 1 / 3])


def test_estimated_propensities_are_near_the_truth_and_every_result_says_so():
    sample = WORLD.sample(5, n_samples=6000)
    estimated = bopl.estimate_propensity(unknown(sample.log))
    assert estimated.propensity_source == "estimated"
    error = np.abs(np.log(estimated.propensity / sample.log.propensity))
    assert np.median(error) < 0.25
    evaluation = bopl.evaluate(
        unknown(sample.log), sample.policy_prob, propensity="estimate", estimators=["snips", "dr"]
    )
    for row in evaluation.rows:
        assert row["propensity_source"] == "estimated"
        assert "estimated propensities" in row["reason"]
        assert abs(row["value"] - WORLD.value) < 5.0 * row["std_err"]


def test_calibration_undoes_overconfidence():
    sample = WORLD.sample(6, n_samples=3000)
    sharp = DecisionTreeClassifierWithLeaves()
    estimated = bopl.estimate_propensity(unknown(sample.log), model=sharp)
    # Raw probabilities of a deep tree are 0 or 1: half of them would be at the floor.
    assert estimated.propensity.min() > 1e-3
    weight = (1.0 / A) / estimated.propensity
    assert 0.5 < weight.mean() < 2.0


def DecisionTreeClassifierWithLeaves():  # noqa: N802
    from sklearn.tree import DecisionTreeClassifier

    return DecisionTreeClassifier(min_samples_leaf=2, random_state=0)


def test_any_classifier_estimates_propensities_and_masks_are_kept():
    log = informative_log(0)
    mask = np.ones((400, 3), dtype=bool)
    mask[np.arange(400), (log.action_idx + np.random.default_rng(0).integers(1, 3, size=400)) % 3] = False
    masked = bopl.BanditLog(log.context, log.action, log.reward, None, action_mask=mask)
    estimated = bopl.estimate_propensity(masked, model=LogisticRegression(), n_folds=3)
    assert estimated.propensity.min() > 0.2  # one of two eligible actions, chosen at random
    assert estimated.propensity.mean() == pytest.approx(0.5, abs=0.05)


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_estimated_propensities_know_which_actions_were_offered(kind):
    """Probabilities that are renormalised within the mask are no logits of one model without it."""
    rng = np.random.default_rng(1)
    mask = np.ones((3000, 3), dtype=bool)
    mask[np.arange(3000), rng.integers(3, size=3000)] = rng.random(3000) < 0.3
    prob = np.where(mask, [0.6, 0.3, 0.1], 0.0)
    prob /= prob.sum(axis=1, keepdims=True)
    action = (rng.random((3000, 1)) > prob.cumsum(axis=1)).sum(axis=1)
    context = rng.normal(size=(3000, 1))
    log = bopl.BanditLog(
        csr_array(context) if kind == "sparse" else context,
        action,
        (action == 2).astype(float),
        None,
        actions=[0, 1, 2],
        action_mask=mask,
    )
    estimated = bopl.estimate_propensity(log, model=LogisticRegression())
    ratio = estimated.propensity / prob[np.arange(3000), action]
    for a in range(3):
        assert ratio[action == a].mean() == pytest.approx(1.0, abs=0.1)
    policy = mask / mask.sum(axis=1, keepdims=True)
    row = bopl.evaluate(estimated, policy, estimators="ips").row()
    assert row["ci_lower"] < policy[:, 2].mean() < row["ci_upper"]


# -- Several loggers ----------------------------------------------------------------------------------------------


def two_loggers(n=3000):
    """Two policies over two actions without context; the second all but never takes action 1."""
    rng = np.random.default_rng(0)
    prob = {"old": np.array([0.5, 0.5]), "new": np.array([0.98, 0.02])}
    logger = np.where(np.arange(n) < n // 2, "old", "new")
    first = np.where(logger == "old", 0.5, 0.98)
    action = (rng.random(n) > first).astype(int)
    reward = np.where(action == 1, 1.0, 0.2) + 0.1 * rng.normal(size=n)
    own = np.array([prob[name][a] for name, a in zip(logger, action, strict=True)])
    log = bopl.BanditLog(np.ones((n, 1)), action, reward, own)
    return log, logger, {name: one[action] for name, one in prob.items()}


def test_balanced_weights_are_the_formula_and_less_wild_than_those_of_each_logger():
    log, logger, by_logger = two_loggers()
    policy = np.tile([0.1, 0.9], (log.n_samples, 1))
    balanced = bopl.evaluate(log, policy, logger=logger, logger_propensity=by_logger, estimators="ips").row()
    naive = bopl.evaluate(log, policy, estimators="ips").row()
    weight = policy[np.arange(len(log)), log.action_idx] / (0.5 * by_logger["old"] + 0.5 * by_logger["new"])
    assert balanced["value"] == pytest.approx(np.mean(weight * log.reward), rel=1e-12)
    assert balanced["propensity_source"] == "balanced"
    assert abs(balanced["value"] - (0.1 * 0.2 + 0.9)) < 4.0 * balanced["std_err"]
    assert balanced["max_weight"] < 4.0 < naive["max_weight"]
    assert balanced["std_err"] < 0.5 * naive["std_err"]


def test_loggers_may_be_columns_in_sorted_order():
    log, logger, by_logger = two_loggers(100)
    matrix = np.column_stack([by_logger["new"], by_logger["old"]])
    np.testing.assert_array_equal(log.balanced(logger, matrix).propensity, log.balanced(logger, by_logger).propensity)


def test_loggers_whose_shares_round_to_more_than_one_are_no_reason_to_refuse():
    counts = next(
        (one, two, three)
        for one in range(1, 40)
        for two in range(1, 40)
        for three in range(1, 40)
        if np.ones(3) @ (np.array([one, two, three]) / (one + two + three)) > 1.0
    )
    n = sum(counts)
    log = bopl.BanditLog(np.ones((n, 1)), np.arange(n) % 2, np.ones(n), np.ones(n))
    balanced = log.balanced(np.repeat([0, 1, 2], counts), np.ones((n, 3)))
    assert balanced.propensity.max() <= 1.0


def test_betting_is_refused_where_only_the_mixture_of_the_loggers_is_right():
    """Of loggers that came one after another no single sample has the value for a mean: the bounds once crossed."""
    rng = np.random.default_rng(0)
    logger = np.repeat(["a", "b"], 1000)
    action = (rng.random(2000) < np.where(logger == "a", 0.9, 0.1)).astype(int)
    by_logger = {"a": np.where(action == 1, 0.9, 0.1), "b": np.where(action == 1, 0.1, 0.9)}
    own = np.where(logger == "a", by_logger["a"], by_logger["b"])
    log = bopl.BanditLog(np.ones((2000, 1)), action, action.astype(float), own).balanced(logger, by_logger)
    policy = np.tile([0.4, 0.6], (2000, 1))
    with pytest.raises(ValueError, match="several loggers are right only on average: use 'log_smoothing'"):
        bopl.evaluate(log, policy, estimators="ips", interval="betting")
    for interval in ("log_smoothing", "empirical_bernstein"):
        row = bopl.evaluate(log, policy, estimators="ips", interval=interval).row()
        assert row["ci_lower"] <= 0.6 <= row["ci_upper"]
    row = bopl.evaluate(log.with_propensity(log.propensity), policy, estimators="ips", interval="betting").row()
    assert row["ci_lower"] > row["ci_upper"]
    assert row["verdict"] == "not trustworthy"
    assert "The lower bound, 1, is above the upper one, 0.6" in row["reason"]


# -- Bad input ----------------------------------------------------------------------------------------------------

UNIFORM = np.full((N, A), 1 / A)
OFF = np.where(np.arange(N)[:, None] == 3, 0.3, UNIFORM)
NEGATIVE = UNIFORM + np.where(np.arange(A) == 0, -0.5, 0.5 / (A - 1))
BAD_CALLS = {
    "sum": (lambda: bopl.evaluate(LOG, {"x": OFF}), "policy 'x' has probabilities that do not sum to one .* row 3"),
    "negative": (lambda: bopl.evaluate(LOG, NEGATIVE), "negative or not a number, the first at row 0, column 0"),
    "nan": (lambda: bopl.evaluate(LOG, UNIFORM * np.nan), "negative or not a number"),
    "shape": (lambda: bopl.evaluate(LOG, UNIFORM[:, :3]), r"shape \(400, 5\), .* it has shape \(400, 3\)"),
    "rows": (lambda: bopl.evaluate(LOG, UNIFORM[:10]), r"it has shape \(10, 5\)"),
    "length": (
        lambda: bopl.evaluate(LOG, np.ones(7)),
        "7 probabilities of logged actions, but the log has 400 samples",
    ),
    "logged range": (lambda: bopl.evaluate(LOG, np.full(N, 1.5)), r"probabilities in \[0, 1\]; 400 of 400"),
    "actions": (
        lambda: bopl.evaluate(LOG, LabelledPolicy([7, *range(1, A)])),
        "other actions than the log: 7, 0 are known to only one of the two",
    ),
    "text": (lambda: bopl.evaluate(LOG, "policy"), "must be a policy with predict_proba, an array of .*; got str"),
    "none": (lambda: bopl.evaluate(LOG, {}), "there is no policy to evaluate"),
    "no log": (lambda: bopl.evaluate(UNIFORM, UNIFORM), "evaluate takes a BanditLog or a PartitionedLog; got ndarray"),
    "estimator": (
        lambda: bopl.evaluate(LOG, UNIFORM, estimators="ipw"),
        "estimators must be one of 'ips', .*; got 'ipw'",
    ),
    "twice": (lambda: bopl.evaluate(LOG, UNIFORM, estimators=["ips", "ips"]), "none of them twice"),
    "interval": (lambda: bopl.evaluate(LOG, UNIFORM, interval="t"), "interval must be one of 'normal'.*; got 't'"),
    "confidence": (lambda: bopl.evaluate(LOG, UNIFORM, confidence=95), r"confidence must lie in \(0, 1\); got 95"),
    "dr of logged": (
        lambda: bopl.evaluate(LOG, logged(UNIFORM), estimators="dr"),
        "'dr' needs the probabilities of all actions, .* was given by those of the logged actions only",
    ),
    "bound of snips": (
        lambda: bopl.evaluate(LOG, UNIFORM, estimators="snips", interval="betting"),
        "works for 'ips' only; for 'snips' use 'normal' or 'bootstrap'",
    ),
    "reward range": (
        lambda: bopl.evaluate(LOG, UNIFORM, interval="betting", reward_range=(0.0, 0.5)),
        r"does not hold the rewards of the log, which lie in \[0, 1\]",
    ),
    "no range": (
        lambda: bopl.evaluate(LOG, UNIFORM, interval="betting", reward_range=(1.0, 0.0)),
        r"reward_range must be two finite numbers, the smaller one first; got \(1.0, 0.0\)",
    ),
    "seed": (lambda: bopl.evaluate(LOG, UNIFORM, random_state=-1), "random_state must be at least 0; got -1"),
    "min propensity": (
        lambda: bopl.evaluate(LOG, UNIFORM, interval="empirical_bernstein", min_propensity=0.9),
        "min_propensity=0.9 must be positive and at most the smallest",
    ),
    "reward shape": (
        lambda: bopl.evaluate(LOG, UNIFORM, estimators="dm", reward_model=UNIFORM[:, :2]),
        r"reward_model must have shape \(400, 5\)",
    ),
    "reward nan": (
        lambda: bopl.evaluate(LOG, UNIFORM, estimators="dm", reward_model=UNIFORM * np.nan),
        "finite predictions; the first that is not is at row 0",
    ),
    "classifier": (
        lambda: bopl.evaluate(LOG, UNIFORM, estimators="dm", reward_model=LogisticRegression()),
        "reward_model must be a regressor; LogisticRegression predicts classes",
    ),
    "model nan": (
        lambda: bopl.evaluate(LOG, UNIFORM, estimators="dm", reward_model=PlainModel(lambda hat: hat * np.nan)),
        "the reward model must predict finite rewards; 400 of 400 are not",
    ),
    "model shape": (
        lambda: bopl.evaluate(LOG, UNIFORM, estimators="dm", reward_model=PlainModel(lambda hat: hat[:, 0])),
        r"must predict an array of shape \(80, 5\), .*; it predicted one of shape \(80,\)",
    ),
    "logging policy of logged actions": (
        lambda: bopl.evaluate(
            LOG, UNIFORM, estimators="switch_dr", reward_model=UNIFORM, logging_policy=LOG.propensity
        ),
        r"logging_policy must give the probabilities of all actions, of shape \(n_samples, n_actions\)",
    ),
    "misspelt": (
        lambda: bopl.ValueAccumulator({"first": None}).add(LOG, policies={"frist": UNIFORM, "first": UNIFORM}),
        "the part has unknown policies: 'frist'; the policies are 'first'",
    ),
    "not fitted": (
        lambda: bopl.ValueAccumulator(TablePolicy(), estimators="dr", reward_model=LinearRegression()).add(LOG),
        "the reward model is not fitted, and parts of a log are not cross-fitted: fit it on other samples first",
    ),
    "no model": (lambda: bopl.evaluate(LOG, UNIFORM, estimators="dm", reward_model=3), "got int"),
    "logging policy": (
        lambda: bopl.evaluate(LOG, UNIFORM, logging_policy=UNIFORM),
        "logging_policy gives .* another probability than the log, the first at row",
    ),
    "propensity": (
        lambda: bopl.evaluate(LOG, UNIFORM, propensity="guess"),
        "one of 'estimate', 'uniform'; got 'guess'",
    ),
    "both": (
        lambda: bopl.evaluate(LOG, UNIFORM, propensity="uniform", logging_policy=UNIFORM),
        "stands in for a logging policy that is not known",
    ),
    "one fold": (lambda: bopl.estimate_propensity(LOG, n_folds=1), "n_folds must be at least 2; got 1"),
    "half a logger": (lambda: bopl.evaluate(LOG, UNIFORM, logger=np.zeros(N)), "belong together"),
    "logger shape": (lambda: LOG.balanced(np.zeros(3), UNIFORM), r"logger must have shape \(400,\)"),
    "logger columns": (lambda: LOG.balanced(np.zeros(N), UNIFORM), r"shape \(400, 1\), one column for each"),
    "logger absent": (lambda: LOG.balanced(np.zeros(N), {1.0: LOG.propensity}), "lacks logger 0.0"),
    "logger range": (lambda: LOG.balanced(np.zeros(N), np.full((N, 1), 2.0)), r"must lie in \[0, 1\]; row 0 holds 2"),
    "impossible": (lambda: LOG.balanced(np.zeros(N), np.zeros((N, 1))), "400 of 400 logged actions were impossible"),
    "source": (lambda: LOG.with_propensity(LOG.propensity, source="dreamt"), "source must be one of"),
    "with text": (lambda: LOG.with_propensity("gauss"), "must be an array or 'uniform'; got 'gauss'"),
    "with none": (lambda: LOG.with_propensity(None), "must be an array or 'uniform'; got None"),
    "groups": (
        lambda: bopl.evaluate(
            bopl.BanditLog(LOG.context, LOG.action, LOG.reward, LOG.propensity, group=np.arange(N)),
            UNIFORM,
            interval="betting",
        ),
        "needs independent samples, but the log has groups",
    ),
}


@pytest.mark.parametrize(("call", "message"), BAD_CALLS.values(), ids=BAD_CALLS.keys())
def test_bad_input_is_refused_with_one_clear_sentence(call, message):
    with pytest.raises((ValueError, TypeError), match=message) as caught:
        call()
    assert "\n" not in str(caught.value)
    assert str(caught.value).endswith((".", "?"))


# -- Verdicts -----------------------------------------------------------------------------------------------------


def verdict_log(n=4000, n_actions=4):
    rng = np.random.default_rng(0)
    action = rng.integers(n_actions, size=n)
    return bopl.BanditLog(
        np.ones((n, 1)), action, (action == 0) * 1.0, np.full(n, 1 / n_actions), actions=range(n_actions)
    )


def constant_policy(log, prob):
    return np.tile(prob, (log.n_samples, 1))


@pytest.mark.parametrize(
    ("prob", "verdict", "words"),
    [
        ([0.7, 0.1, 0.1, 0.1], "better", "more than the logging policy, at least"),
        ([0.1, 0.3, 0.3, 0.3], "worse", "less than the logging policy, at least"),
        ([0.25, 0.25, 0.2, 0.3], "inconclusive", "it could be better or worse"),
    ],
)
def test_verdict_follows_the_interval_of_the_uplift(prob, verdict, words):
    log = verdict_log()
    noise = np.random.default_rng(1).normal(size=log.n_samples)
    noisy = bopl.BanditLog(log.context, log.action, log.reward + noise, log.propensity)
    row = bopl.evaluate(noisy, constant_policy(log, prob), estimators="snips").row()
    assert row["verdict"] == verdict
    assert words in row["reason"]


def trained(log):
    return bopl.BoostedPolicy(n_rounds=3, reward_translation=-0.2, random_state=0).fit(log)


def test_a_policy_is_not_judged_on_the_rows_it_was_trained_on(tmp_path):
    log = informative_log(0)
    train, test = log.split(0.5, random_state=0)
    policy = trained(train)
    policy.save(tmp_path / "policy.bopl")
    for one in (policy, bopl.load(tmp_path / "policy.bopl")):
        assert bopl.evaluate(test, one).row(estimator="snips")["verdict"] == "better"
        for seen, share in ((train, "100%"), (train.translated(-0.5), "100%"), (log, "50%")):
            row = bopl.evaluate(seen, one).row(estimator="snips")
            assert row["verdict"] == "not trustworthy"
            assert f"was trained on {share} of these samples" in row["reason"]
    # Whoever wants the verdict all the same passes the probabilities.
    assert bopl.evaluate(train, policy.predict_proba(train.context)).row(estimator="snips")["verdict"] == "better"


def test_rows_that_decided_when_to_stop_count_as_training_rows():
    train, validation = informative_log(0).split(0.3, random_state=0)
    policy = bopl.BoostedPolicy(n_rounds=3, random_state=0).fit(train, validation=validation)
    assert "was trained on 100%" in bopl.evaluate(validation, policy).rows[0]["reason"]


def test_the_order_of_actions_does_not_hide_training_rows():
    log = informative_log(0)
    other = bopl.BanditLog(log.context, log.action, log.reward, log.propensity, actions=log.actions[::-1])
    assert "was trained on 100%" in bopl.evaluate(other, trained(log)).rows[0]["reason"]


def test_training_rows_are_found_part_by_part():
    log = informative_log(0)
    total = bopl.ValueAccumulator(trained(log.subset(slice(0, 200))))
    shard = bopl.ValueAccumulator(total.policies)
    total.add(log.subset(slice(0, 100)))
    shard.add(log.subset(slice(100, 400)), first_row=100)
    total.merge(shard)
    assert "was trained on 50%" in total.result().rows[0]["reason"]


def test_policies_that_learn_nothing_have_no_training_rows():
    policy = bopl.baseline.UniformPolicy().fit(LOG)
    assert "trained" not in bopl.evaluate(LOG, policy).rows[0]["reason"]


def test_unsupported_actions_make_every_verdict_untrustworthy():
    log = verdict_log()
    wider = bopl.BanditLog(log.context, log.action, log.reward, log.propensity, actions=[0, 1, 2, 3, "never"])
    policy = constant_policy(wider, [0.5, 0.1, 0.1, 0.1, 0.2])
    for row in bopl.evaluate(wider, policy, estimators=["ips", "dm"], reward_model=policy).rows:
        assert row["verdict"] == "not trustworthy"
        assert row["unsupported_mass"] == pytest.approx(0.2)
        assert "20.0% of the policy's choices are actions that were never taken" in row["reason"]


def test_wrong_propensities_are_seen_in_the_mean_weight():
    log = verdict_log()
    wrong = log.with_propensity(np.full(4000, 0.2))
    row = bopl.evaluate(wrong, constant_policy(log, [0.7, 0.1, 0.1, 0.1]), estimators="snips").row()
    assert row["verdict"] == "not trustworthy"
    assert "mean weight is 1.2" in row["reason"]


def test_the_direct_method_alone_never_carries_a_verdict():
    log = verdict_log()
    model, policy = constant_policy(log, [0.8, 0.2, 0.2, 0.2]), constant_policy(log, [0.7, 0.1, 0.1, 0.1])
    for known in (None, np.full((4000, 4), 0.25)):
        evaluation = bopl.evaluate(log, policy, estimators="dm", reward_model=model, logging_policy=known)
        assert evaluation.row()["verdict"] == evaluation.decision()["verdict"] == "not trustworthy"
        assert "opinion of a reward model" in evaluation.row()["reason"]
        assert "Add 'dr'" in evaluation.row()["reason"]
    both = bopl.evaluate(log, policy, estimators=["dm", "ips"], reward_model=model)
    assert both.decision()["estimator"] == "ips"
    assert both.decision()["verdict"] == "better"


def test_few_effective_samples_decide_nothing_but_bounds_still_hold():
    log = verdict_log(n=60)
    policy = constant_policy(log, [0.97, 0.01, 0.01, 0.01])
    assert "effective samples" in bopl.evaluate(log, policy, estimators="ips").row()["reason"]
    assert bopl.evaluate(log, policy, interval="betting").row()["verdict"] in ("better", "inconclusive")


def test_one_heavy_weight_is_not_trusted():
    log = verdict_log(n=2000)
    propensity = np.where(np.arange(2000) == 0, 1e-4, 0.25)
    heavy = log.with_propensity(propensity)
    weight = heavy.propensity * np.where(np.arange(2000) == 0, 60.0, 1.0)
    row = bopl.evaluate(heavy, weight, estimators="ips").row()
    assert row["verdict"] == "not trustworthy"
    assert "One sample has" in row["reason"]


def test_a_heavy_weight_that_is_not_cut_is_not_trusted_under_any_name():
    rng = np.random.default_rng(0)
    first = np.where(np.arange(4000) == 0, 1 / 90, 0.5)
    action = (rng.random(4000) < first).astype(int)
    action[0] = 1
    log = bopl.BanditLog(
        rng.normal(size=(4000, 1)),
        action,
        (rng.random(4000) < 0.2 + 0.5 * action).astype(float),
        np.where(action == 1, first, 1.0 - first),
    )
    always, model = np.tile([0.0, 1.0], (4000, 1)), np.full((4000, 2), 0.45)
    names = ["dr", "switch_dr", "dr_shrinkage", ClippedIPS(200.0)]
    for row in bopl.evaluate(log, always, estimators=names, reward_model=model).rows:
        assert row["verdict"] == "not trustworthy", row["estimator"]
        assert "One sample has" in row["reason"]
    assert bopl.evaluate(log, always, estimators=SwitchDR(50.0), reward_model=model).row()["verdict"] == "better"


def test_too_few_rewards_are_not_trusted_whatever_their_sign():
    log = verdict_log(n=4000)
    policy = constant_policy(log, [0.4, 0.2, 0.2, 0.2])
    for reward in (np.arange(4000) % 160 == 0, np.arange(4000) % 160 != 0):  # 25 clicks, or 25 failures
        rare = bopl.BanditLog(log.context, log.action, reward, log.propensity)
        row = bopl.evaluate(rare, policy, estimators="snips").row()
        assert row["verdict"] == "not trustworthy"
        assert "very unequal, and those that decide come from about 19 effective samples" in row["reason"]
        assert bopl.evaluate(rare, policy, interval="betting").row()["verdict"] == "inconclusive"
    often = bopl.BanditLog(log.context, log.action, np.arange(4000) % 40 == 0, log.propensity)
    assert bopl.evaluate(often, policy, estimators="snips").row()["verdict"] == "inconclusive"


def test_few_groups_are_not_trusted_however_many_their_samples():
    log = verdict_log()
    reward = np.random.default_rng(0).normal(size=4000)
    for n_groups, verdict in ((8, "not trustworthy"), (200, "inconclusive")):
        grouped = bopl.BanditLog(log.context, log.action, reward, log.propensity, group=np.arange(4000) % n_groups)
        row = bopl.evaluate(grouped, constant_policy(log, [0.4, 0.2, 0.2, 0.2]), estimators="snips").row()
        assert row["verdict"] == verdict
        assert ("has 8 groups, fewer than 30" in row["reason"]) == (n_groups == 8)


@pytest.mark.parametrize("labels", [[0, 1], [1, 0, 2], ["keep", "drop"], [False, True]])
def test_actions_do_not_pass_for_probabilities_of_logged_actions(labels):
    rng = np.random.default_rng(0)
    context, action = rng.normal(size=(3000, 1)), rng.integers(0, 2, 3000)
    reward = rng.random(3000) < 0.3 + 0.2 * (action == (context[:, 0] > 0))
    log = bopl.BanditLog(context, np.array(labels)[action], reward, np.full(3000, 0.5), actions=labels)
    chosen = np.array(labels)[(context[:, 0] > 0).astype(int)]
    for given in (chosen, chosen.tolist(), pd.Series(chosen)):
        with pytest.raises(ValueError, match="holds actions such as"):
            bopl.evaluate(log, given)
    logged, of_all = (chosen == log.action).astype(float), (chosen[:, None] == log.actions).astype(float)
    assert bopl.evaluate(log, logged).decision()["verdict"] == "better"
    assert bopl.evaluate(log, of_all).decision()["verdict"] == "better"


def test_policies_have_names_that_differ_as_text():
    log = verdict_log()
    even, odd = constant_policy(log, [0.25] * 4), constant_policy(log, [0.4, 0.2, 0.2, 0.2])
    with pytest.raises(ValueError, match="several policies have the name '1'"):
        bopl.evaluate(log, {1: even, "1": odd})
    evaluation = bopl.evaluate(log, {1: even, 2: odd}, estimators="snips")
    assert evaluation.row(2) is evaluation.row("2") is evaluation.primary_row(2)
    assert evaluation.decision(2) is evaluation.decision("2")


@pytest.mark.parametrize("reward_range", [1, "01", (0, 1, 2), ("a", 1), (None, 1)])
def test_a_range_that_is_no_pair_of_numbers_is_refused(reward_range):
    log = verdict_log()
    with pytest.raises(ValueError, match="reward_range must be two finite numbers"):
        bopl.evaluate(log, constant_policy(log, [0.25] * 4), reward_range=reward_range)


def test_a_class_or_a_list_of_policies_is_refused_with_the_way_out():
    log = verdict_log()
    with pytest.raises(TypeError, match="is the class BoostedPolicy; pass a fitted policy"):
        bopl.evaluate(log, bopl.BoostedPolicy)
    with pytest.raises(TypeError, match="several policies need names: pass a mapping"):
        bopl.evaluate(log, [bopl.baseline.UniformPolicy().fit(log)] * 2)


def log_without_an_action(reward, n=16_000):
    """A log of three actions that each earn the same, of four; and a policy that also takes the fourth, seldom."""
    action = np.repeat([0, 1, 2], [4 * n // 10, 3 * n // 10, 3 * n // 10])
    propensity = np.array([0.4, 0.3, 0.3])[action]
    log = bopl.BanditLog(np.zeros((n, 1)), action, reward, propensity, actions=[0, 1, 2, 3])
    return log, np.tile([*(0.991 * np.array([0.2, 0.3, 0.5])), 0.009], (n, 1))


def test_actions_that_were_never_taken_do_not_make_costs_look_lower():
    cost = -1.0 + 0.3 * np.random.default_rng(0).normal(size=16_000)
    log, policy = log_without_an_action(cost)
    evaluation = bopl.evaluate(log, policy, estimators="ips")
    assert evaluation.row()["uplift_ci_lower"] > 0.0  # as if the fourth action cost nothing
    assert evaluation.decision()["verdict"] == "inconclusive"
    found = "0.9% of the policy's choices are actions that were never taken; the verdict allows 0.012 for it."
    assert found in evaluation.decision()["reason"]


@pytest.mark.parametrize("shares", [[0.4, 0.3, 0.3], [0.39, 0.3, 0.31], [0.2, 0.3, 0.5]])
def test_weights_that_actions_never_taken_leave_out_are_not_blamed_on_the_propensities(shares):
    n = 60_000
    log, _ = log_without_an_action((np.arange(n) % 10 < 3).astype(float), n)
    policy = np.tile([*(0.991 * np.array(shares)), 0.009], (n, 1))
    found = bopl.evaluate(log, policy, estimators="snips").decision()
    assert found["verdict"] == "inconclusive"
    assert "0.9% of the policy's choices are actions that were never taken; the verdict allows" in found["reason"]
    assert log.audit(policy)["mean_weight_policy"].status == "ok"
    # What they do not explain is still told, beside what was to be expected.
    wrong = bopl.evaluate(log.with_propensity(log.propensity / 0.8), policy, estimators="snips").decision()
    assert wrong["reason"].startswith("The mean weight is 0.793 where 0.991 is expected (z ")


def test_what_is_allowed_for_actions_that_were_never_taken_does_not_depend_on_a_shift_of_the_rewards():
    click = (np.arange(16_000) % 10 < 3).astype(float)
    allowed = []
    for shift in (0.0, 1000.0):
        log, policy = log_without_an_action(click + shift)
        for name in ("snips", "beta_ips"):
            reason = bopl.evaluate(log, policy, estimators=name).decision()["reason"]
            allowed.append(reason.split("allows ")[1])
    assert set(allowed) == {"0.0041 for it."}  # 0.009 times the standard deviation


def test_groups_of_which_a_few_are_most_of_the_log_are_not_trusted():
    log, reward = verdict_log(), np.random.default_rng(0).normal(size=4000)
    group = np.arange(4000) % 80
    new, running = (constant_policy(log, [one, *[(1.0 - one) / 3.0] * 3]) for one in (0.4, 0.2))
    for largest, n_large in ((0, 0), (2000, 1), (3000, 5)):
        group[:largest] = np.arange(largest) % max(n_large, 1)
        uneven = bopl.BanditLog(log.context, log.action, reward, log.propensity, group=group)
        evaluation = bopl.evaluate(uneven, {"new": new}, against=running, estimators="snips")
        assert evaluation.row("new")["n"] == 4000
        verdicts = {evaluation.row("new")["verdict"], evaluation.decision("new")["verdict"]}
        assert verdicts == {"inconclusive" if largest == 0 else "not trustworthy"}
        assert ("A few large groups decide" in evaluation.row("new")["reason"]) == (largest > 0)
        assert ("A few large groups decide" in evaluation.decision("new")["reason"]) == (largest > 0)


def test_a_policy_that_differs_in_a_few_groups_is_not_trusted():
    log, reward = verdict_log(), np.random.default_rng(0).normal(size=4000)
    group = np.arange(4000) % 80
    grouped = bopl.BanditLog(log.context, log.action, reward, log.propensity, group=group)
    for n_other, verdict in ((5, "not trustworthy"), (80, "inconclusive")):
        other = constant_policy(log, [0.4, 0.2, 0.2, 0.2])
        other[group >= n_other] = 0.25
        row = bopl.evaluate(grouped, {"new": other}, estimators="snips").row()
        assert row["verdict"] == verdict


def test_one_huge_reward_is_not_trusted():
    log = verdict_log(n=4000)
    reward = np.random.default_rng(0).normal(size=4000)
    policy = constant_policy(log, [0.4, 0.2, 0.2, 0.2])
    for size, verdict in ((0.0, "inconclusive"), (1e4, "not trustworthy")):
        reward[0] = size
        changed = bopl.BanditLog(log.context, log.action, reward, log.propensity)
        assert bopl.evaluate(changed, policy, estimators="ips").row()["verdict"] == verdict


@pytest.mark.parametrize("interval", ["normal", "bootstrap"])
def test_a_log_of_equal_rewards_cannot_tell_policies_apart(interval):
    log = verdict_log()
    equal = bopl.BanditLog(log.context, log.action, np.full(4000, 0.3), log.propensity)
    row = bopl.evaluate(equal, constant_policy(log, [0.4, 0.2, 0.2, 0.2]), estimators="snips", interval=interval).row()
    assert (row["uplift_ci_lower"], row["uplift_ci_upper"]) == (0.0, 0.0)
    assert row["verdict"] == "not trustworthy"
    assert "All rewards of the log are the same" in row["reason"]


def test_a_policy_that_differs_in_few_samples_is_not_judged_by_them():
    log = verdict_log()
    noisy = bopl.BanditLog(log.context, log.action, np.random.default_rng(1).normal(size=4000), log.propensity)
    prob = noisy.propensity.copy()
    prob[:20] = np.repeat([0.4, 0.1], 10)
    row = bopl.evaluate(noisy, prob, estimators="ips").row()
    assert row["verdict"] == "not trustworthy"
    assert "differs from the logging policy in few samples (worth 20)" in row["reason"]


def test_the_logging_policy_is_known_although_its_propensities_were_rounded():
    rounded = LOG.with_propensity(LOG.propensity.astype(np.float32).round(5))
    row = bopl.evaluate(rounded, logged(SAMPLE.logging_prob), estimators="snips").row()
    assert row["uplift"] != 0.0
    assert row["verdict"] == "inconclusive"
    assert "is the logging policy on this log, but for rounding" in row["reason"]


def test_a_policy_that_never_agrees_with_the_log_is_refused():
    log = verdict_log()
    rows = bopl.evaluate(log, np.zeros(4000), estimators=["ips", "snips"], interval="bootstrap").rows
    assert {row["verdict"] for row in rows} == {"not trustworthy"}
    assert np.isnan(rows[1]["value"])


def test_cutting_much_weight_away_is_named():
    log = verdict_log()
    policy = constant_policy(log, [0.97, 0.01, 0.01, 0.01])
    row = bopl.evaluate(log, policy, estimators=ClippedIPS(2.0)).row()
    assert row["clipped_share"] == pytest.approx((log.action_idx == 0).mean())
    assert "Clipping the weights drops 4" in row["reason"]
    switched = bopl.evaluate(log, policy, estimators=SwitchDR(2.0), reward_model=policy).row()
    assert "left to the reward model" in switched["reason"]
    assert switched["clipped_share"] == row["clipped_share"]


# -- Results ------------------------------------------------------------------------------------------------------


def full_result():
    return bopl.evaluate(LOG, {"a <b>": SAMPLE.policy_prob, "b": logged(UNIFORM)}, estimators=["ips", "clipped_ips"])


def test_json_holds_everything_and_nothing_that_json_cannot():
    result = full_result()
    parsed = json.loads(result.to_json())
    assert parsed == result.to_dict()
    assert parsed["rows"][2]["unsupported_mass"] is None
    assert [set(row) for row in parsed["rows"]] == [set(COLUMNS)] * 4
    assert parsed["logging_value"] == pytest.approx(LOG.reward.mean())


def test_text_and_html_show_verdicts_and_reasons():
    result = full_result()
    text, markup = str(result), result._repr_html_()
    for words in ("the logging policy earns", "verdict", "max_importance_weight = 20"):
        assert words in text
        assert words in markup
    assert "a &lt;b&gt;" in markup
    assert "<b>" not in markup


def test_forest_plot_shows_every_row(tmp_path):
    figure = full_result().plot()
    labels = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert labels == ["b · clipped_ips", "b · ips", "a <b> · clipped_ips", "a <b> · ips"]
    figure.savefig(tmp_path / "forest.png")
    assert (tmp_path / "forest.png").stat().st_size > 5000
    assert "reward per decision" in full_result().plot(show_uplift=False).axes[0].get_xlabel()


def test_a_row_is_found_by_name_or_the_choice_is_named():
    with pytest.raises(KeyError, match=r"several rows match policy='b' .*; name one of a <b>/ips"):
        full_result().row("b")


MONTH = pd.DataFrame({"age": np.arange(60) % 7, "visits": np.arange(60) % 5, "city": ["Rom", "Ulm", "Bonn"] * 20})
MONTH = MONTH.assign(item=np.arange(60) % 2, click=np.arange(60) % 3 == 0, p=0.5)
ROLES = {"action": "item", "reward": "click", "propensity": "p"}


@pytest.mark.parametrize(
    ("later", "said"),
    [
        (MONTH[["visits", "age", *MONTH.columns[2:]]], r"columns in another order, 'age', 'visits', 'city'"),
        (MONTH.assign(city=["Rom", "Ulm", "Wien"] * 20), r"other categories of 'city', which stand for other numbers"),
        (MONTH.drop(columns="visits"), r"other columns: only one of the two has 'visits'"),
    ],
)
def test_a_policy_is_not_judged_on_contexts_that_mean_something_else_to_it(later, said):
    policy = bopl.BoostedPolicy("ips", n_rounds=2, random_state=0).fit(bopl.BanditLog.from_frame(MONTH, **ROLES))
    with pytest.raises(ValueError, match=rf"it was fitted on {said}.* Read the log with schema=policy.schema_"):
        bopl.evaluate(bopl.BanditLog.from_frame(later, **ROLES), {"new": policy}, estimators="ips")
    model = bopl.reward.BoostedRewardModel(random_state=0).fit(bopl.BanditLog.from_frame(MONTH, **ROLES))
    with pytest.raises(ValueError, match=rf"the reward model .* it was fitted on {said}.*schema=model.schema_"):
        bopl.evaluate(bopl.BanditLog.from_frame(later, **ROLES), np.full((60, 2), 0.5), reward_model=model)
    if "visits" in later:
        log = bopl.BanditLog.from_frame(later.replace("Wien", "Bonn"), **ROLES, schema=policy.schema_)
        found = bopl.evaluate(log, {"new": policy, "same": policy.predict_proba(later.replace("Wien", "Bonn"))})
        assert len({row["value"] for row in found.rows if row["estimator"] == "ips"}) == 1


def test_a_classifier_of_a_frame_with_other_columns_is_not_judged_by_their_positions():
    log = bopl.BanditLog.from_frame(MONTH.drop(columns="city"), **ROLES)
    model = LogisticRegression().fit(MONTH[["visits", "age"]], MONTH["item"])
    with pytest.raises(ValueError, match=r"in another order, 'visits', 'age'\. Pass its probabilities"):
        bopl.evaluate(log, model, estimators="ips")
    assert bopl.evaluate(log, model.predict_proba(MONTH[["visits", "age"]]), estimators="ips").row()["value"] > 0.0
