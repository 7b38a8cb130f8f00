"""Action masks and action features, from the log to the saved policy."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

import bopl
from bopl import theory
from bopl.objective import IPS, Surrogate
from bopl.objective.softmax import log_softmax, softmax
from helpers import OBJECTIVE_NAMES, make_log, make_objective, training_data

LEARNERS = [
    DecisionTreeRegressor(max_depth=4),
    DecisionTreeClassifier(max_depth=4),
    bopl.XGBTree(max_depth=4, n_jobs=1),
]


def masked_log(seed=0, **settings):
    log = make_log(seed, **settings)
    rng = np.random.default_rng(seed)
    mask = rng.random((log.n_samples, log.n_actions)) < 0.6
    mask[np.arange(log.n_samples), log.action_idx] = True
    return bopl.BanditLog(log.context, log.action, log.reward, log.propensity, actions=log.actions, action_mask=mask)


def featured_log(seed=0, n_samples=600):
    """Six actions in two groups; the group, not the action, decides the reward."""
    rng = np.random.default_rng(seed)
    features = np.array([[0.0], [0.1], [0.2], [1.0], [1.1], [1.2]])
    context = rng.normal(size=(n_samples, 2))
    action = rng.integers(0, 6, size=n_samples)
    reward = ((context[:, 0] > 0) == (features[action, 0] > 0.5)).astype(float)
    return bopl.BanditLog(
        context, action, reward, np.full(n_samples, 1 / 6), actions=range(6), action_features=features
    )


@pytest.mark.parametrize("learner", LEARNERS, ids=str)
@pytest.mark.parametrize("objective", ["ips", "surrogate"])
def test_masked_fit_keeps_its_bounds_and_never_chooses_an_ineligible_action(learner, objective):
    log = masked_log(n_samples=120)
    policy = bopl.BoostedPolicy(objective, learner, n_rounds=6, reward_translation=-0.2, random_state=0).fit(log)
    history = policy.history_
    assert (history.objective_risk <= history["recursive_bound"] + 1e-9).all()
    assert (history.objective_risk <= history["theorem_bound"] + 1e-9).all()
    action_prob = policy.predict_proba(log.context, action_mask=log.action_mask)
    assert not action_prob[~log.action_mask].any()
    np.testing.assert_allclose(action_prob.sum(axis=1), 1.0)
    rows = np.arange(log.n_samples)
    assert log.action_mask[rows, policy.predict(log.context, action_mask=log.action_mask)].all()
    for seed in range(5):
        action, propensity = policy.sample(log.context, action_mask=log.action_mask, random_state=seed)
        assert log.action_mask[rows, action].all()
        assert (propensity > 0).all()
    for beta in (0.0, np.inf):
        extreme = policy.predict_proba(log.context, action_mask=log.action_mask, inverse_temperature=beta)
        assert not extreme[~log.action_mask].any()
        np.testing.assert_allclose(extreme.sum(axis=1), 1.0)


def test_alpha_keeps_its_value_under_a_mask():
    for objective, expected in ((IPS(smoothness="paper"), 2.0), (Surrogate(smoothness="paper"), 1.0)):
        policy = bopl.BoostedPolicy(objective, DecisionTreeRegressor(max_depth=4), n_rounds=4).fit(masked_log())
        np.testing.assert_allclose(policy.history_["alpha"], expected, rtol=1e-9)


@pytest.mark.parametrize("name", OBJECTIVE_NAMES)
def test_ineligible_actions_have_no_gradient(name):
    log = masked_log()
    score = np.random.default_rng(1).normal(size=(log.n_samples, log.n_actions))
    gradient = make_objective(name).bind(training_data(log)).gradient(log_softmax(score, log.action_mask))
    assert not gradient[~log.action_mask].any()
    np.testing.assert_allclose(gradient.sum(axis=1), 0.0, atol=1e-12)
    np.testing.assert_allclose(softmax(score, action_mask=log.action_mask), np.exp(log_softmax(score, log.action_mask)))


@pytest.mark.parametrize("name", OBJECTIVE_NAMES)
@given(seed=st.integers(0, 10_000), distinct=st.sampled_from([None, 1, 2]))
@settings(max_examples=80, deadline=None)
def test_no_policy_beats_the_optimal_risk_under_a_mask(name, seed, distinct):
    log = masked_log(seed, n_samples=20, n_features=1, n_actions=3, distinct=distinct)
    view = np.hstack([log.context, log.action_mask])
    _, group = np.unique(view, axis=0, return_inverse=True)
    table = np.random.default_rng(seed).normal(scale=10.0, size=(20, 3))
    bound = make_objective(name).bind(training_data(log, seed))
    assert bound.risk(log_softmax(table[group.reshape(-1)], log.action_mask)) >= bound.optimal_risk() - 1e-9


def test_a_forced_choice_is_part_of_the_optimal_risk():
    log = bopl.BanditLog([[0.0], [1.0]], [0, 1], [-1.0, 2.0], [1.0, 1.0], action_mask=[[1, 0], [1, 1]])
    assert theory.opt_emp_risk(log) == pytest.approx((1.0 - 2.0) / 2)
    assert theory.opt_surrogate_risk(log) == pytest.approx((1.0 - 2.0) / 2)
    assert theory.emp_risk_uniform(log) == pytest.approx((1.0 - 1.0) / 2)


def test_a_mask_that_allows_everything_changes_nothing():
    log = make_log()
    allowed = np.ones((log.n_samples, log.n_actions), dtype=bool)
    masked = bopl.BanditLog(
        log.context, log.action, log.reward, log.propensity, actions=log.actions, action_mask=allowed
    )
    policies = [
        bopl.BoostedPolicy("surrogate", LEARNERS[0], n_rounds=4, random_state=0).fit(source) for source in (log, masked)
    ]
    np.testing.assert_allclose(*(policy.decision_function(log.context) for policy in policies))
    np.testing.assert_allclose(*(policy.history_["theorem_bound"] for policy in policies))


def test_subsets_splits_and_validation_keep_the_mask():
    log = masked_log(n_samples=100)
    train, test = log.split(0.3, random_state=0)
    assert train.action_mask.shape == (70, 4)
    policy = bopl.BoostedPolicy("surrogate", LEARNERS[0], n_rounds=4, random_state=0).fit(train, validation=test)
    assert policy.score(test) == pytest.approx(np.nanmax(policy.history_["validation_value"]))


@pytest.mark.parametrize("learner", [LEARNERS[0], LEARNERS[2]], ids=str)
def test_action_features_let_actions_share_what_is_learned_and_survive_saving(tmp_path, learner):
    log = featured_log()
    policy = bopl.BoostedPolicy("surrogate", learner, n_rounds=10, reward_translation=-0.2, random_state=0).fit(log)
    gain = policy._gain_by_column()
    assert gain.shape == (2 + 6 + 1,)
    assert gain[-1] > 0.5 * gain[2:].sum()
    chosen = policy.predict(log.context)
    assert ((log.context[:, 0] > 0) == (chosen >= 3)).mean() > 0.97
    policy.save(tmp_path / "policy.bopl")
    loaded = bopl.load(tmp_path / "policy.bopl")
    np.testing.assert_array_equal(loaded.action_features_, log.action_features)
    np.testing.assert_array_equal(loaded.decision_function(log.context), policy.decision_function(log.context))


def test_a_fit_with_features_and_mask_resumes_to_the_same_bits(tmp_path):
    log = featured_log()
    settings = {"objective": "surrogate", "learner": LEARNERS[0], "random_state": 0}
    bopl.BoostedPolicy(n_rounds=3, **settings).fit(log, callbacks=[bopl.Checkpoint(tmp_path / "fit.ckpt")])
    resumed = bopl.BoostedPolicy(n_rounds=6, **settings).fit(log, resume_from=tmp_path / "fit.ckpt")
    whole = bopl.BoostedPolicy(n_rounds=6, **settings).fit(log)
    np.testing.assert_array_equal(resumed.decision_function(log.context), whole.decision_function(log.context))


BASE = {"context": np.eye(3), "action": [0, 1, 0], "reward": [1, 0, 1], "propensity": [0.5] * 3}


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        ({"action_mask": np.ones((3, 5))}, r"one column for each of the 2 actions; it has shape \(3, 5\)"),
        ({"action_mask": np.ones((2, 2))}, "action_mask has 2 rows, the log 3"),
        ({"action_mask": [[1, 1], [0, 0], [1, 1]]}, "no eligible action in 1 of 3 rows, the first at row 1"),
        (
            {"action_mask": [[1, 1], [1, 0], [1, 1]]},
            "forbids the logged action in 1 of 3 rows, the first at row 1 with",
        ),
        ({"action_mask": [[1, 2], [1, 1], [1, 1]]}, "booleans or 0 and 1"),
        ({"action_features": np.ones((3, 1))}, "one row for each of the 2 actions, in their order; it has 3 rows"),
        ({"action_features": [[1.0], [np.nan]]}, "must not be missing; action .*1.* has NaN in column 0"),
    ],
)
def test_bad_masks_and_features_are_refused(extra, message):
    with pytest.raises(ValueError, match=message):
        bopl.BanditLog(**BASE, **extra)


def test_bad_masks_at_prediction_are_refused():
    policy = bopl.BoostedPolicy("surrogate", LEARNERS[0], n_rounds=1).fit(make_log())
    context = make_log().context
    with pytest.raises(ValueError, match="action_mask has 1 rows, the context 60"):
        policy.predict(context, action_mask=np.ones((1, 4)))
    with pytest.raises(ValueError, match="no eligible action in 60 of 60 rows"):
        policy.sample(context, action_mask=np.zeros((60, 4)))
