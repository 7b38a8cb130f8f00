import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar
from sklearn.dummy import DummyRegressor
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

import bopl
from bopl import theory
from bopl.boosting import Problem, StepRule, fit_ensemble
from bopl.boosting.ascent import PlainAscent
from bopl.learner import bind_learner
from bopl.objective import IPS, Surrogate, TrainingData
from bopl.objective.softmax import log_softmax
from helpers import (
    OBJECTIVE_NAMES,
    WEIGHT_NAMES,
    informative_log,
    logs,
    make_log,
    make_objective,
    masked,
    training_data,
)

PAPER_IPS, PAPER_SURROGATE = IPS(smoothness="paper"), Surrogate(smoothness="paper")
by_name = pytest.mark.parametrize("objective", [IPS(), Surrogate(), PAPER_IPS, PAPER_SURROGATE], ids=str)


def boost(log, objective, learner=None, *, n_rounds=5, step_rule=None, seed=0, data=None, **settings):
    learner = learner or DecisionTreeRegressor(max_depth=4)
    bound = bind_learner(learner, log, seed=seed)
    problem = Problem(data or TrainingData(log), objective, **settings)
    return fit_ensemble(problem, bound, step_rule or StepRule(), n_rounds=n_rounds)


def sums_of(log, objective, score, prediction):
    data = TrainingData(log)
    return PlainAscent(objective.bind(data), data, log, score).measure(prediction)


LEARNERS = {
    "tree": DecisionTreeRegressor(max_depth=3),
    "stump": DecisionTreeRegressor(max_depth=1),
    "classifier": DecisionTreeClassifier(max_depth=3),
    "random": DecisionTreeRegressor(max_depth=2, max_features=1, splitter="random"),
}


@pytest.mark.parametrize("name", OBJECTIVE_NAMES)
@given(
    log=logs(),
    settings=st.fixed_dictionaries(
        {
            "smoothness": st.sampled_from(["sharp", "paper"]),
            "weight": st.sampled_from(WEIGHT_NAMES),
        }
    ),
    learner=st.sampled_from(sorted(LEARNERS)),
    translation=st.sampled_from([0.0, -0.4, -2.0, 0.5]),
    rule=st.builds(
        StepRule,
        st.sampled_from([0.0, 0.1, 10.0]),
        st.sampled_from([None, 0.5, 3.0]),
        st.sampled_from([1.0, 0.3]),
    ),
    has_mask=st.booleans(),
    has_weight=st.booleans(),
    start=st.sampled_from([0.0, 1.0, 30.0]),
)
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_no_bound_is_ever_broken(name, log, settings, learner, translation, rule, has_mask, has_weight, start):
    """The recursive bound and Theorem 1, with negative rewards, tiny propensities, penalties, any learner and start."""
    log = masked(log) if has_mask else log
    data = training_data(log, has_weight=has_weight)
    slopes = np.random.default_rng(0).normal(size=(log.n_features, log.n_actions))
    result = boost(
        log,
        make_objective(name, **settings),
        LEARNERS[learner],
        n_rounds=4,
        step_rule=rule,
        data=data,
        reward_translation=translation,
        start_score=lambda: start * (log.context @ slopes),  # of the context alone, as a policy's are
    )
    history = result.history
    heaviest = 1.0 if data.sample_weight is None else data.sample_weight.max()
    rounding = 1e-9 * heaviest * (1.0 + (np.abs(log.reward + translation) + 5.0) / log.propensity).mean()
    assert (history["guaranteed_decrease"] >= 0.0).all()
    assert (history.objective_risk <= history["recursive_bound"] + rounding).all()
    assert (history.objective_risk <= history["theorem_bound"] + rounding).all()
    assert (history.objective_risk >= history["opt_emp_risk"] - rounding).all()
    assert (history["surrogate_risk"] >= history["empirical_risk"] - rounding).all()


@by_name
@pytest.mark.parametrize("seed", range(4))
def test_alpha_of_an_unregularised_least_squares_tree_is_what_the_algebra_says(objective, seed):
    expected = {"paper": {"ips": 2.0, "surrogate": 1.0}, "sharp": {"ips": 9.0 / np.sqrt(3.0), "surrogate": 2.0}}
    expected = expected[objective.smoothness][objective.name]
    alpha = boost(make_log(seed), objective).history["alpha"]
    np.testing.assert_allclose(alpha, expected, rtol=1e-9)
    alpha = boost(make_log(seed), objective, bopl.XGBTree("exact", max_depth=4)).history["alpha"]
    np.testing.assert_allclose(alpha, expected, rtol=1e-4)


@by_name
def test_alpha_minimises_the_penalised_quadratic_bound(objective):
    log = make_log(2)
    rng = np.random.default_rng(0)
    score, prediction = rng.normal(size=(2, log.n_samples, log.n_actions))
    terms = objective.bind(TrainingData(log))
    gradient = terms.gradient(log_softmax(score))
    sums = sums_of(log, objective, score, prediction)
    for penalty in (0.0, 0.3):

        def bound(alpha, penalty=penalty):
            slope = (gradient * prediction).sum() / log.n_samples
            bend = (terms.curvature * (prediction**2).sum(axis=1)).sum() / log.n_samples
            return -alpha * slope + alpha**2 * bend / 2 + penalty * alpha**2

        assert StepRule(penalty)(sums).alpha == pytest.approx(minimize_scalar(bound).x, rel=1e-6)
        half = StepRule(penalty, learning_rate=0.5)(sums).alpha
        assert half == pytest.approx(StepRule(penalty)(sums).alpha / 2)


def test_alpha_is_the_closed_form_of_algorithm_1():
    log = make_log(3)
    score, prediction = np.random.default_rng(1).normal(size=(2, log.n_samples, log.n_actions))
    gradient = PAPER_IPS.bind(TrainingData(log)).gradient(log_softmax(score))
    weight = np.abs(log.reward) / log.propensity
    expected = 2 * (gradient * prediction).sum() / (weight * (prediction**2).sum(axis=1)).sum()
    assert StepRule()(sums_of(log, PAPER_IPS, score, prediction)).alpha == pytest.approx(expected)


def test_certificate_is_theorem_1_as_the_paper_states_it():
    """With predictors rescaled to C, the sum of guaranteed decreases is C/4 · sum alpha²."""
    log = make_log(4)
    scale = 0.7
    history = boost(log, PAPER_IPS, step_rule=StepRule(scale=scale), n_rounds=6).history
    np.testing.assert_allclose(history["guaranteed_decrease"], scale / 4 * history["alpha"] ** 2)
    for row in range(6):
        alphas = history["alpha"][: row + 1]
        bound = theory.theorem_1_bound(theory.excess_emp_risk_0(log), alphas, scale, smoothness="paper")
        assert history["theorem_bound"][row] == pytest.approx(theory.opt_emp_risk(log) + bound)


@by_name
def test_scale_changes_alpha_but_not_the_policy(objective):
    log = make_log(5)
    plain = boost(log, objective)
    scaled = boost(log, objective, step_rule=StepRule(scale=7.0))
    np.testing.assert_allclose(plain.ensemble.score(log.context), scaled.ensemble.score(log.context), rtol=1e-6)
    assert not np.allclose(plain.history["alpha"], scaled.history["alpha"])


def test_penalty_shortens_the_steps():
    log = make_log(6)
    alphas = [boost(log, IPS(), step_rule=StepRule(penalty), n_rounds=1).history["alpha"][0] for penalty in (0, 1, 9)]
    assert alphas[0] > alphas[1] > alphas[2] > 0


def test_classifier_rounds_have_the_scale_constant_of_the_paper():
    """C = |A| · mean(|r|/p), automatically satisfied by a {-1, +1} predictor."""
    log = make_log(7)
    result = boost(log, PAPER_IPS, DecisionTreeClassifier(max_depth=3), n_rounds=3)
    weight = np.abs(log.reward) / log.propensity
    constant = log.n_actions * weight.mean()
    np.testing.assert_allclose(result.history["guaranteed_decrease"], constant / 4 * result.history["alpha"] ** 2)
    for entry in result.ensemble.rounds:
        assert set(np.unique(entry.predictor.predict(log.context))) <= {-1.0, 1.0}


def test_alpha_of_a_classifier_has_the_sign_of_its_edge_over_guessing():
    log = make_log(8)
    score = np.zeros((log.n_samples, log.n_actions))
    gradient = IPS().bind(TrainingData(log)).gradient(log_softmax(score))
    prediction = np.random.default_rng(3).choice([-1.0, 1.0], size=score.shape)
    for candidate in (prediction, -prediction):
        error = theory.error_rate(gradient, candidate)
        assert np.sign(StepRule()(sums_of(log, IPS(), score, candidate)).alpha) == np.sign(0.5 - error)


@by_name
def test_scores_of_the_ensemble_are_those_of_the_training_loop(objective):
    log = make_log(9)
    result = boost(log, objective, n_rounds=7)
    score = result.ensemble.score(log.context)
    stages = list(result.ensemble.staged_score(log.context))
    assert len(stages) == 7
    np.testing.assert_array_equal(stages[-1], score)
    risk = objective.bind(TrainingData(log)).risk(log_softmax(score))
    assert risk == pytest.approx(result.history.objective_risk[-1], rel=1e-12)  # sums in another order


@by_name
@pytest.mark.parametrize("seed", range(3))
def test_relabelling_actions_relabels_the_policy(objective, seed):
    log = make_log(seed, n_samples=80)
    permutation = np.random.default_rng(seed).permutation(log.n_actions)
    relabelled = bopl.BanditLog(log.context, permutation[log.action_idx], log.reward, log.propensity, actions=range(4))
    learner = DecisionTreeRegressor(max_depth=4, random_state=0)
    score = boost(log, objective, learner).ensemble.score(log.context)
    other = boost(relabelled, objective, learner).ensemble.score(log.context)
    np.testing.assert_allclose(other[:, permutation], score, rtol=1e-6, atol=1e-9)


@by_name
@pytest.mark.parametrize("seed", range(3))
def test_a_row_doubled_equals_a_weight_doubled(objective, seed):
    """Halving a propensity doubles the sample's weight; for that the policy must not see which of the two was done."""
    log = make_log(seed, n_samples=50)
    propensity = np.array(log.propensity)
    propensity[7] /= 2
    heavier = bopl.BanditLog(log.context, log.action, log.reward, propensity, actions=log.actions)
    doubled = log.subset([*range(50), 7])
    learner = DecisionTreeRegressor(max_depth=4, random_state=0)
    scores = [boost(source, objective, learner).ensemble.score(log.context) for source in (heavier, doubled)]
    np.testing.assert_allclose(scores[0], scores[1], rtol=1e-6, atol=1e-9)


@by_name
def test_row_order_is_irrelevant(objective):
    log = make_log(11, n_samples=60)
    shuffled = log.subset(np.random.default_rng(0).permutation(60))
    learner = DecisionTreeRegressor(max_depth=4, random_state=0)
    scores = [boost(source, objective, learner).ensemble.score(log.context) for source in (log, shuffled)]
    np.testing.assert_allclose(scores[0], scores[1], rtol=1e-6, atol=1e-9)


def test_convex_surrogate_is_bopl_s_without_negative_rewards():
    log = make_log(12, negative=False)
    result = boost(log, Surrogate(), n_rounds=30)
    assert (np.diff(result.history["surrogate_risk"]) <= 1e-12).all()


def test_history_watches_the_untranslated_reward():
    log = informative_log()
    history = boost(log, Surrogate(), reward_translation=-0.3).history
    log_prob = log_softmax(boost(log, Surrogate(), reward_translation=-0.3).ensemble.score(log.context))
    weight = np.exp(log_prob[np.arange(log.n_samples), log.action_idx]) / log.propensity
    assert history["snips_value"][-1] == pytest.approx((weight * log.reward).sum() / weight.sum())
    assert history["mean_importance_weight"][-1] == pytest.approx(weight.mean())
    assert history["effective_sample_size"][-1] == pytest.approx(weight.sum() ** 2 / (weight**2).sum())
    assert history["empirical_risk"][-1] == pytest.approx(-(weight * (log.reward - 0.3)).mean())


def test_boosting_stops_when_the_learner_predicts_nothing():
    log = make_log(13)
    result = boost(log, IPS(), DummyRegressor(strategy="constant", constant=0.0))
    assert result.stop_reason == "the base learner found nothing to predict"
    assert len(result.ensemble.rounds) == 0


def test_boosting_stops_when_alpha_vanishes():
    log = make_log(14)
    result = boost(log, IPS(), DummyRegressor(strategy="constant", constant=1.0))  # rows of G sum to zero
    assert result.stop_reason == "the ensemble weight vanished"


def test_boosting_stops_when_the_gradient_vanishes():
    log = bopl.BanditLog([[0.0], [1.0]], [0, 1], [1e-11, 1e-11], [1.0, 1.0])
    assert boost(log, IPS()).stop_reason == "the gradient vanished"
