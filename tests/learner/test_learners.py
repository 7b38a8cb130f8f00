import numpy as np
import pytest
import xgboost
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.linear_model import LinearRegression
from sklearn.neighbors import KNeighborsRegressor
from sklearn.neural_network import MLPRegressor
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

import bopl
from bopl.learner import bind_learner
from bopl.learner.expanded import action_columns, expand
from bopl.learner.expanded_tree import just_above
from bopl.learner.hist_tree.tree import ACTION_SPLIT, LEAF_FEATURE
from bopl.learner.sklearn import EstimatorPredictor, LinearPredictor, classification_problem, regression_problem
from bopl.learner.store import describe_learner, learner_from, pack_predictors, unpack_predictors
from bopl.objective import IPS, StepTarget, Surrogate, TrainingData
from bopl.objective.softmax import log_softmax
from helpers import informative_log, make_log


def sparse_version(log):
    return bopl.BanditLog(csr_array(log.context), log.action, log.reward, log.propensity, actions=log.actions)


def target_of(log, seed=0, objective=None):
    score = np.random.default_rng(seed).normal(size=(log.n_samples, log.n_actions))
    bound = (objective or Surrogate()).bind(TrainingData(log))
    return StepTarget(bound.gradient(log_softmax(score, log.action_mask)), bound.weight)


def naive_expand(context, n_actions):
    rows = []
    for x in context:
        for action in range(n_actions):
            rows.append([*x, *(1.0 if k == action else 0.0 for k in range(n_actions))])  # noqa: PERF401
    return np.array(rows, dtype=np.float32)


def naive_walk(tree, x, action):
    node = 0
    while tree.feature[node] != LEAF_FEATURE:
        if tree.feature[node] == ACTION_SPLIT:
            left = not int(tree.right_actions[node, action // 64]) >> (action % 64) & 1
        else:
            value = np.float32(x[tree.feature[node]])
            left = tree.default_left[node] if np.isnan(value) else value < tree.threshold[node]
        node = tree.left[node] if left else tree.right[node]
    return tree.value[node]


def library_prediction(learner, log, target):
    """Return what the library that grows the tree predicts itself, by its own code."""
    rows = expand(log.context, action_columns(log.n_actions, log.action_features))
    if isinstance(learner, bopl.XGBTree):
        bound = bind_learner(learner, log, seed=0)
        bound.boost(target)
        predicted = bound.booster.predict(xgboost.DMatrix(rows))
    else:
        of_class = isinstance(learner, DecisionTreeClassifier)
        label, weight = classification_problem(target) if of_class else regression_problem(target, log.action_mask)
        predicted = clone(learner).fit(rows, label, sample_weight=weight).predict(rows)
    return predicted.reshape(log.n_samples, log.n_actions)


def with_missing(log, seed=0):
    context = np.array(log.context)
    context[np.random.default_rng(seed).random(context.shape) < 0.2] = np.nan
    return bopl.BanditLog(context, log.action, log.reward, log.propensity, actions=log.actions)


def test_expanded_matrix_is_every_context_with_every_action():
    log = make_log(n_samples=7)
    np.testing.assert_array_equal(expand(log.context, action_columns(4)), naive_expand(log.context, 4))
    np.testing.assert_array_equal(
        expand(csr_array(log.context), action_columns(4)).toarray(), naive_expand(log.context, 4)
    )


TREES = [
    DecisionTreeRegressor(max_depth=5, random_state=0),
    DecisionTreeClassifier(max_depth=5, random_state=0),
    bopl.XGBTree("exact", max_depth=5),
    bopl.XGBTree("hist", max_depth=5),
]


@pytest.mark.parametrize("learner", TREES, ids=str)
@pytest.mark.parametrize("missing", [False, True])
def test_tree_walks_like_its_naive_twin_and_like_the_library_that_grew_it(learner, missing):
    log = make_log(1, n_samples=120)
    log = with_missing(log) if missing else log
    fitted = bind_learner(learner, log, seed=0).fit(target_of(log), 0)
    predictor = fitted.predictor
    assert predictor.n_leaves > 4
    naive = [[naive_walk(predictor.tree, x, action) for action in range(log.n_actions)] for x in log.context]
    np.testing.assert_array_equal(predictor.predict(log.context), naive)
    np.testing.assert_array_equal(predictor.predict(log.context), fitted.prediction)
    np.testing.assert_array_equal(fitted.prediction, library_prediction(learner, log, target_of(log)))


@pytest.mark.parametrize("learner", TREES, ids=str)
@pytest.mark.parametrize("is_sparse", [False, True])
def test_what_a_tree_asks_of_the_action_is_settled_as_the_library_would(learner, is_sparse):
    rng = np.random.default_rng(3)
    n_samples, n_actions = 400, 5
    context = rng.integers(0, 3, size=(n_samples, 2)).astype(np.float32)  # little to split on: actions are
    features = rng.integers(-1, 2, size=(n_actions, 2))
    log = bopl.BanditLog(
        csr_array(context) if is_sparse else context,
        rng.integers(0, n_actions, n_samples),
        rng.random(n_samples),
        np.full(n_samples, 1 / n_actions),
        actions=range(n_actions),
        action_features=features,
    )
    target = StepTarget(rng.normal(size=n_actions) + rng.normal(size=(n_samples, n_actions)), np.ones(n_samples))
    fitted = bind_learner(learner, log, seed=0).fit(target, 0)
    tree = fitted.predictor.tree
    by_identity = (tree.feature == ACTION_SPLIT) & (tree.action_feature < 0)
    assert (tree.feature == ACTION_SPLIT).sum() > 2
    assert [bin(int(word)).count("1") for word in tree.right_actions[by_identity, 0]] == [1] * by_identity.sum()
    np.testing.assert_array_equal(tree.left[tree.left >= 0], np.flatnonzero(tree.left >= 0) + 1)  # in preorder
    np.testing.assert_array_equal(fitted.predictor.predict(log.context), fitted.prediction)
    np.testing.assert_array_equal(fitted.prediction, library_prediction(learner, log, target))


@given(
    threshold=st.floats(-1e39, 1e39) | st.floats(-1, 1, width=32),
    near=st.integers(-2, 2),
)
def test_the_least_number_above_a_threshold_tells_float32_values_apart_alike(threshold, near):
    with np.errstate(over="ignore"):
        x = np.float32(threshold)
        for _ in range(abs(near)):
            x = np.nextafter(x, np.float32(np.inf if near > 0 else -np.inf))
    assert (float(x) <= threshold) == bool(x < just_above(np.array([threshold]))[0])


def test_sparse_context_gives_the_same_scikit_learn_tree():
    log = make_log(2, n_samples=80, distinct=3)
    dense, sparse = (
        bind_learner(DecisionTreeRegressor(max_depth=4, random_state=0), source, seed=0).fit(target_of(log), 0)
        for source in (log, sparse_version(log))
    )
    np.testing.assert_allclose(sparse.predictor.predict(sparse_version(log).context), dense.prediction)


@pytest.mark.parametrize("tree_method", ["exact", "hist"])
def test_xgboost_tree_of_a_sparse_context_takes_zero_for_missing_everywhere(tree_method):
    log = make_log(2, n_samples=80, distinct=3)
    fitted = bind_learner(bopl.XGBTree(tree_method, max_depth=4), sparse_version(log), seed=0).fit(target_of(log), 0)
    np.testing.assert_array_equal(fitted.predictor.predict(log.context), fitted.prediction)
    np.testing.assert_array_equal(fitted.predictor.predict(csr_array(log.context)), fitted.prediction)


def test_xgbtree_is_the_weighted_least_squares_tree_of_xgboost():
    """Algorithm 3 by the book: labels G/w, sample weights w, squared error."""
    log = make_log(5, n_samples=200)
    target = target_of(log)
    label, weight = regression_problem(target)
    matrix = xgboost.DMatrix(expand(log.context, action_columns(log.n_actions)), label=label, weight=weight)
    settings = {"tree_method": "exact", "max_depth": 4, "min_child_weight": 3.0, "reg_lambda": 0.5}
    settings |= {"learning_rate": 1.0, "base_score": 0.0, "objective": "reg:squarederror"}
    expected = xgboost.train(settings, matrix, num_boost_round=1).predict(matrix).reshape(-1, log.n_actions)
    learner = bopl.XGBTree("exact", max_depth=4, min_child_weight=3.0, reg_lambda=0.5)
    fitted = bind_learner(learner, log, seed=0).fit(target, 0)
    np.testing.assert_allclose(fitted.prediction, expected, rtol=1e-4, atol=1e-6)


def test_leaves_of_the_regression_tree_are_ratios_of_sums():
    log = make_log(6)
    target = target_of(log)
    prediction = bind_learner(DecisionTreeRegressor(max_depth=3), log, seed=0).fit(target, 0).prediction
    for value in np.unique(prediction):
        inside = prediction == value
        weight_sum = (inside * target.weight[:, None]).sum()
        assert value == pytest.approx((target.gradient * inside).sum() / weight_sum, abs=1e-9)


@pytest.mark.parametrize("objective", [IPS(), Surrogate()], ids=lambda o: o.name)
def test_classification_weights_are_the_absolute_regression_gradient(objective):
    log = make_log(7)
    target = target_of(log, objective=objective)
    regression_label, regression_weight = regression_problem(target)
    label, weight = classification_problem(target)
    np.testing.assert_allclose(weight, np.abs(regression_label * regression_weight))
    np.testing.assert_allclose(weight, np.abs(target.gradient).ravel())
    np.testing.assert_allclose(label * weight, target.gradient.ravel())


def test_pseudo_labels_of_the_classifier_are_the_papers():
    log = make_log(8)
    label, weight = classification_problem(target_of(log, objective=IPS()))
    one_hot = np.eye(log.n_actions)[log.action_idx]
    expected = np.sign(log.reward)[:, None] * (2 * one_hot - 1)
    np.testing.assert_array_equal(label[weight > 0], expected.ravel()[weight > 0])


def test_samples_without_reward_have_no_label_and_no_weight():
    log = make_log(9)
    reward = np.array(log.reward)
    reward[:10] = 0.0
    zeroed = bopl.BanditLog(log.context, log.action, reward, log.propensity, actions=log.actions)
    label, weight = regression_problem(target_of(zeroed))
    assert not label[: 10 * log.n_actions].any()
    assert not weight[: 10 * log.n_actions].any()


def test_linear_regressor_becomes_plain_coefficients():
    log = informative_log()
    fitted = bind_learner(LinearRegression(), log, seed=0).fit(target_of(log), 0)
    assert isinstance(fitted.predictor, LinearPredictor)
    assert fitted.predictor.gain_by_column() is None
    sparse = fitted.predictor.predict(csr_array(log.context))
    np.testing.assert_allclose(sparse, fitted.prediction, rtol=1e-5, atol=1e-6)


def test_other_estimators_predict_but_have_no_plain_form():
    log = make_log(n_samples=30)
    learner = MLPRegressor(hidden_layer_sizes=(4,), max_iter=500, tol=1e-2, solver="lbfgs")
    predictor = bind_learner(learner, log, seed=0).fit(target_of(log), 0).predictor
    assert isinstance(predictor, EstimatorPredictor)
    assert predictor.predict(log.context).shape == (30, 4)
    assert predictor.gain_by_column() is None
    with pytest.raises(TypeError, match="predictors of MLPRegressor have no plain form"):
        pack_predictors([predictor])


def test_learners_that_cannot_be_used_say_why():
    log = make_log()
    with pytest.raises(TypeError, match="KNeighborsRegressor does not accept sample_weight"):
        bind_learner(KNeighborsRegressor(), log, seed=0)
    with pytest.raises(TypeError, match="regressor or classifier; got 'tree'"):
        bind_learner("tree", log, seed=0)


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"tree_method": "approx"}, ValueError, "tree_method must be one of 'exact', 'hist'; got 'approx'"),
        ({"max_depth": 0}, ValueError, r"max_depth must lie in \[1, 64\]; got 0"),
        ({"max_depth": 2.5}, TypeError, "max_depth must be an integer; got 2.5"),
        ({"min_child_weight": -1.0}, ValueError, r"min_child_weight must lie in \[0, 3.40282e\+38\]; got -1.0"),
        ({"reg_lambda": "big"}, TypeError, "reg_lambda must be a number; got 'big'"),
        ({"max_bins": 1}, ValueError, "max_bins must lie in"),
        ({"n_jobs": 0}, ValueError, "n_jobs must be at least 1"),
    ],
)
def test_bad_settings_are_refused_by_name_value_and_range(settings, error, message):
    with pytest.raises(error, match=message):
        bind_learner(bopl.XGBTree(**settings), make_log(), seed=0)


def test_random_learners_repeat_with_the_seed_and_differ_between_rounds():
    log = make_log(n_samples=100)
    learner = DecisionTreeRegressor(max_depth=3, max_features=2)
    bound = bind_learner(learner, log, seed=1)
    target = target_of(log)
    again = bind_learner(learner, log, seed=1)
    np.testing.assert_array_equal(bound.fit(target, 4).prediction, again.fit(target, 4).prediction)
    different = [bound.fit(target, round_idx).prediction for round_idx in range(6)]
    assert any(not np.array_equal(different[0], other) for other in different[1:])


@pytest.mark.parametrize("learner", [*TREES, LinearRegression()], ids=str)
def test_predictors_survive_packing(learner):
    log = with_missing(make_log(3)) if not isinstance(learner, LinearRegression) else make_log(3)
    bound = bind_learner(learner, log, seed=0)
    predictors = [bound.fit(target_of(log, seed), 0).predictor for seed in range(3)]
    restored = unpack_predictors(*pack_predictors(predictors), n_features=log.n_features, n_actions=log.n_actions)
    for before, after in zip(predictors, restored, strict=True):
        np.testing.assert_array_equal(before.predict(log.context), after.predict(log.context))


@pytest.mark.parametrize(
    ("array", "position", "value", "message"),
    [
        ("column", 0, 99, "column that does not exist"),
        ("left", 0, 0, "children do not follow their parents"),
        ("right", 0, 10_000, "children do not follow their parents"),
        ("n_nodes", 0, 1, "sizes do not match"),
    ],
)
def test_trees_that_would_leave_their_arrays_are_refused(array, position, value, message):
    facts, arrays = stored_tree()
    arrays[array][position] = value
    with pytest.raises(ValueError, match=message):
        unpack_predictors(facts, arrays, n_features=2, n_actions=3)


def stored_tree():
    """Return a tree as files of version 0.1 have it: x1 <= 0.5, then the action 2 and x0 <= -1."""
    columns = {
        "column": np.array([1, 4, 0, -1, -1, -1, -1], np.int32),
        "threshold": np.array([0.5, 0.5, -1.0, 0.0, 0.0, 0.0, 0.0]),
        "left": np.array([1, 3, 5, -1, -1, -1, -1], np.int32),
        "right": np.array([2, 4, 6, -1, -1, -1, -1], np.int32),
        "missing_left": np.array([True, False, False, False, False, False, False]),
        "value": np.array([0.0, 0.0, 0.0, 3.0, 4.0, 5.0, 6.0]),
        "gain": np.array([3.0, 2.0, 1.0, 0.0, 0.0, 0.0, 0.0]),
        "n_nodes": np.array([7]),
    }
    return {"kind": "tree", "zero_is_missing": False}, columns


def test_a_tree_of_an_older_file_predicts_as_it_did_and_is_stored_like_the_engines():
    facts, arrays = stored_tree()
    (tree,) = unpack_predictors(facts, arrays, n_features=2, n_actions=3)
    context = np.array([[0.0, 0.5], [-1.0, 0.6], [-0.9, 1.0], [np.nan, np.nan], [np.nan, 1.0], [0.0, 0.0]], np.float32)
    expected = [[3, 3, 4], [5, 5, 5], [6, 6, 6], [3, 3, 4], [6, 6, 6], [3, 3, 4]]
    np.testing.assert_array_equal(tree.predict(context), expected)
    np.testing.assert_array_equal(tree.gain_by_column(), [1, 3, 0, 0, 2])
    (sparse,) = unpack_predictors(facts | {"zero_is_missing": True}, arrays, n_features=2, n_actions=3)
    np.testing.assert_array_equal(sparse.predict(csr_array(context)), sparse.predict(context))
    np.testing.assert_array_equal(sparse.predict(context)[[0, 5]], [[4, 4, 4], [4, 4, 4]])  # no action has a value
    for one in (tree, sparse):
        packed, stored = pack_predictors([one])
        assert packed["kind"] == one.kind != "tree"
        (again,) = unpack_predictors(packed, stored, n_features=2, n_actions=3)
        np.testing.assert_array_equal(again.predict(context), one.predict(context))


def test_learner_descriptions_name_known_classes_only():
    learner = bopl.XGBTree("exact", max_depth=7)
    assert learner_from(describe_learner(learner)).get_params() == learner.get_params()
    assert describe_learner(KNeighborsRegressor()) is None
    assert learner_from({"class": "os.system", "settings": {}}) is None
