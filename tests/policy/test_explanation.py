import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.linear_model import Ridge

import bopl
from bopl.policy.explanation import explain_scores, explanation_work
from bopl.reward.logging_model import LoggingTerm
from helpers import informative_log
from logging_starts import KINDS, assorted_policies, gappy_log, logging_model, starting_from


@pytest.fixture(scope="module")
def fitted():
    log = informative_log(n_samples=500)
    return bopl.BoostedPolicy("surrogate", bopl.HistTree(), n_rounds=8, reward_translation=-0.3, random_state=0).fit(
        log
    ), log


def test_explanations_add_up_to_the_scores_of_the_actions_asked_for(fitted):
    policy, log = fitted
    explanation = policy.explain(log.context, log.action)
    score = policy.decision_function(log.context)
    np.testing.assert_allclose(explanation.score, score[np.arange(len(log)), log.action_idx], atol=1e-10)
    np.testing.assert_allclose(policy.explain(log.context).score, score.max(axis=1), atol=1e-10)


def test_the_column_that_decides_has_the_largest_values(fitted):
    policy, log = fitted
    assert np.abs(policy.explain(log.context, log.action).feature).mean(axis=0).argmax() == 0


def test_a_saved_policy_explains_alike(fitted, tmp_path):
    policy, log = fitted
    policy.save(tmp_path / "policy.bopl")
    again = bopl.load(tmp_path / "policy.bopl").explain(log.context, log.action)
    np.testing.assert_allclose(again.feature, policy.explain(log.context, log.action).feature, atol=1e-5)


def test_sparse_contexts_are_explained_like_dense_ones():
    log = informative_log(n_samples=300)
    context = np.where(log.context > 0.5, log.context, 0.0)
    policy = bopl.BoostedPolicy("surrogate", bopl.HistTree(), n_rounds=4, reward_translation=-0.3, random_state=0)
    policy.fit(context, log.action, reward=log.reward, propensity=log.propensity)
    dense, sparse = policy.explain(context, log.action), policy.explain(csr_array(context), log.action)
    assert np.array_equal(dense.feature, sparse.feature)


def test_learners_without_covers_say_so(fitted):
    _, log = fitted
    policy = bopl.BoostedPolicy("surrogate", Ridge(), n_rounds=2, random_state=0).fit(log)
    with pytest.raises(TypeError, match="HistTree"):
        policy.explain(log.context)


def test_another_number_of_actions_is_refused(fitted):
    policy, log = fitted
    with pytest.raises(ValueError, match="action"):
        policy.explain(log.context, log.action[:-1])
    with pytest.raises(ValueError, match="not in actions"):
        policy.explain(log.context[:1], [99])


# -- The part of the logging policy -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("has_gaps", "has_category"), [(True, True), (False, False)])
def test_what_is_attributed_to_the_logging_policy_adds_up(kind, has_gaps, has_category):
    log = gappy_log(has_gaps=has_gaps, has_category=has_category)
    policy = assorted_policies(log)[kind]
    explanation, score = policy.explain(log.context, log.action), policy.decision_function(log.context)
    np.testing.assert_allclose(explanation.score, score[np.arange(len(log)), log.action_idx], rtol=0.0, atol=1e-9)
    assert (explanation_work(policy.ensemble_) > 0) == (kind != "nothing")


def path_twin(term, context, action_idx, n_steps=20_000):
    """Integrate the term along the path by small steps, each shared among the columns by finite differences."""
    model, layout = term.model, term.model.layout
    inputs = layout(context[None])
    inputs = np.asarray(inputs.toarray() if hasattr(inputs, "toarray") else inputs, dtype=np.float64)[0]
    reference = np.concatenate([layout.fill, np.zeros(len(inputs) - len(layout.fill))])
    column = np.concatenate([layout.number, layout.gap, np.repeat(layout.category, layout.n_categories)])
    by_column = np.zeros((len(context), model.n_actions))
    np.add.at(by_column, column, (inputs - reference)[:, None] * model.coef)
    start = reference @ model.coef + model.intercept

    def value(score):
        prob = np.exp(score - score.max())
        prob = (1 - model.epsilon) * prob / prob.sum() + model.epsilon / len(prob)
        return term.log_factor * np.log(prob[action_idx]) + term.prob_factor * prob[action_idx]

    feature, step = np.zeros(len(context)), by_column / n_steps
    for k in range(n_steps // 100):  # every hundredth point, in the middle of its interval
        here = start + by_column.sum(axis=0) * (k + 0.5) * 100 / n_steps
        feature += [100 * (value(here + one) - value(here - one)) / 2 for one in step]
    return feature


@pytest.mark.parametrize("seed", range(4))
def test_columns_get_the_integral_of_the_gradient_along_the_path(seed):
    log = gappy_log(seed)
    term = LoggingTerm(logging_model(log, seed, epsilon=0.1 * seed), 1.0, float(seed) - 1.0)
    policy = starting_from(log, [term], n_rounds=0)
    explanation = policy.explain(log.context[:5], log.action[:5])
    for row in range(5):
        twin = path_twin(term, log.context[row], log.action_idx[row])
        np.testing.assert_allclose(explanation.feature[row], twin, atol=1e-4)


def test_a_typical_context_leaves_everything_to_the_action():
    log = gappy_log(has_gaps=False, has_category=False)
    term = LoggingTerm(logging_model(log))
    policy = starting_from(log, [term], n_rounds=0)
    typical = np.repeat(log.context.mean(axis=0, dtype=np.float64)[None].astype(np.float32), 4, axis=0)
    explanation = policy.explain(typical, np.arange(4))
    np.testing.assert_allclose(explanation.feature, 0.0, atol=1e-2)  # the mean in float32
    np.testing.assert_allclose(explanation.action.mean(), 0.0, atol=1e-2)
    assert explanation.expected == pytest.approx(term.predict(typical[:1]).mean(), abs=1e-2)


def test_columns_that_the_logging_policy_does_not_look_at_get_nothing():
    log = gappy_log()
    model = logging_model(log)
    model.coef[[0, *range(5, 10)]] = 0.0  # the first number, and the categories
    explanation = starting_from(log, [LoggingTerm(model)], n_rounds=0).explain(log.context, log.action)
    assert (explanation.feature[:, [0, 3]] == 0.0).all()
    assert (explanation.feature[:, [1, 2]] != 0.0).any(axis=0).all()


def test_trees_of_the_logging_model_count_in_their_columns():
    """Where nothing is linear, a log-probability's values are those of its trees less their mean under the policy."""
    log = gappy_log()
    model = logging_model(log, has_trees=True, size=0.0)
    explanation = starting_from(log, [LoggingTerm(model)], n_rounds=0).explain(log.context, log.action)
    gain = sum(one.gain_by_column() for one in model.trees)[:4]
    assert ((explanation.feature != 0.0).any(axis=0) == (gain > 0.0)).all()


def test_pairs_of_the_same_context_are_explained_like_pairs_alone(monkeypatch):
    log = gappy_log(n_samples=40)
    policy = assorted_policies(log)["trees and exploration"]
    row, action_idx = np.repeat(np.arange(40), 4), np.tile(np.arange(4), 40)
    together = explain_scores(policy.ensemble_, log.context, row, action_idx)
    monkeypatch.setattr("bopl.policy.explanation.MAX_CELLS", 1)
    alone = explain_scores(policy.ensemble_, log.context, row, action_idx)
    np.testing.assert_allclose(together.feature, alone.feature, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(together.action, alone.action, rtol=1e-12, atol=1e-12)
    assert together.expected == alone.expected


def test_sparse_contexts_with_a_logging_start_are_explained_like_dense_ones():
    log = gappy_log(has_gaps=False, has_category=False)
    context = np.where(log.context > 0.5, log.context, 0.0).astype(np.float32)
    policy = assorted_policies(log)["trees and exploration"]
    dense, sparse = policy.explain(context, log.action), policy.explain(csr_array(context), log.action)
    np.testing.assert_allclose(dense.feature, sparse.feature, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(dense.score, sparse.score, rtol=1e-9, atol=1e-9)
