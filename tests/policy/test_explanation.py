import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.tree import DecisionTreeRegressor

import bopl
from helpers import informative_log


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
    policy = bopl.BoostedPolicy("surrogate", DecisionTreeRegressor(max_depth=3), n_rounds=2, random_state=0).fit(log)
    with pytest.raises(TypeError, match="HistTree"):
        policy.explain(log.context)


def test_another_number_of_actions_is_refused(fitted):
    policy, log = fitted
    with pytest.raises(ValueError, match="action"):
        policy.explain(log.context, log.action[:-1])
    with pytest.raises(ValueError, match="not in actions"):
        policy.explain(log.context[:1], [99])
