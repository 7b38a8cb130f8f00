"""A blend is the mean of its parts' probabilities: in predictions, files, exports, explanations and cards."""

import numpy as np
import pytest
from sklearn.base import clone

import bopl
from bopl.objective import DR, Clipped
from bopl.objective.softmax import softmax
from helpers import informative_log, masked
from logging_starts import assorted_policies, gappy_log

MODEL = bopl.BoostedRewardModel(bopl.HistTree(3, min_child_weight=5.0), n_rounds=4)


def part(objective="dr", **settings):
    known = {"learner": bopl.HistTree(3), "n_rounds": 3, "reward_model": MODEL, "random_state": 0}
    return bopl.BoostedPolicy(objective, **(known | settings))


def parts_of(log):
    return [
        part(start="logging+reward_model", inverse_temperature=2.0).fit(log),
        part("ips").fit(log),
        part(DR(weight=Clipped(0.1)), start="reward_model", inverse_temperature=np.inf).fit(log),
    ]


@pytest.fixture(scope="module")
def log():
    return informative_log()


@pytest.fixture(scope="module")
def blend(log):
    return bopl.BlendedPolicy.of(parts_of(log), [3.0, 2.0, 1.0], inverse_temperature=1.5)


def test_probabilities_are_the_mean_of_the_parts_sharpened(log, blend):
    mean = np.average([one.predict_proba(log.context) for one in blend.policies_], axis=0, weights=[3, 2, 1])
    np.testing.assert_allclose(blend.predict_proba(log.context, inverse_temperature=1.0), mean, rtol=1e-12)
    np.testing.assert_allclose(blend.predict_proba(log.context), mean**1.5 / (mean**1.5).sum(axis=1, keepdims=True))
    np.testing.assert_allclose(np.exp(blend.decision_function(log.context)), mean, rtol=1e-12)
    np.testing.assert_array_equal(blend.predict(log.context), mean.argmax(axis=1))


def test_masked_actions_have_no_probability(log, blend):
    mask = masked(log).action_mask
    action_prob = blend.predict_proba(log.context, action_mask=mask)
    assert (action_prob[~mask] == 0.0).all()
    np.testing.assert_allclose(action_prob.sum(axis=1), 1.0)
    chosen = blend.predict(log.context, action_mask=mask)
    assert mask[np.arange(len(log)), chosen].all()


def test_a_blend_of_one_policy_twice_is_that_policy(log, blend):
    for one in blend.policies_:
        twice = bopl.BlendedPolicy.of([one, one])
        np.testing.assert_allclose(twice.predict_proba(log.context), one.predict_proba(log.context), rtol=1e-12)


def test_explanations_are_the_mean_of_those_of_the_parts(log, blend):
    explanation = blend.explain(log.context, log.action)
    mean = np.average([one.decision_function(log.context) for one in blend.policies_], axis=0, weights=[3, 2, 1])
    np.testing.assert_allclose(explanation.score, mean[np.arange(len(log)), log.action_idx], atol=1e-9)
    best = blend.explain(log.context)
    chosen = blend.explain(log.context, blend.predict(log.context))
    np.testing.assert_array_equal(best.feature, chosen.feature)


@pytest.mark.parametrize("beta", [1.5, np.inf])
def test_a_loaded_blend_is_the_saved_one(log, blend, beta, tmp_path):
    saved = bopl.BlendedPolicy.of(blend.policies_, [3.0, 2.0, 1.0], beta)
    saved.save(tmp_path / "one")
    loaded = bopl.load(tmp_path / "one")
    assert loaded.inverse_temperature == beta
    assert [one.inverse_temperature for one in loaded.policies_] == [2.0, 1.0, np.inf]
    np.testing.assert_array_equal(loaded.weights_, saved.weights_)
    np.testing.assert_array_equal(loaded.predict_proba(log.context), saved.predict_proba(log.context))
    np.testing.assert_array_equal(loaded.predict(log.context), saved.predict(log.context))
    np.testing.assert_allclose(
        loaded.explain(log.context).feature, saved.explain(log.context).feature, rtol=1e-4, atol=1e-4
    )
    loaded.save(tmp_path / "two")
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_parts_with_gaps_categories_and_logging_models_survive_a_file(tmp_path):
    log = gappy_log()
    saved = bopl.BlendedPolicy.of(list(assorted_policies(log).values()))
    saved.save(tmp_path / "blend.bopl")
    loaded = bopl.load(tmp_path / "blend.bopl")
    np.testing.assert_array_equal(loaded.predict_proba(log.context), saved.predict_proba(log.context))


def test_fit_trains_a_copy_of_every_part(log):
    blend = bopl.BlendedPolicy([part("ips"), part("surrogate")], [1.0, 3.0])
    assert not hasattr(clone(blend), "policies_")
    blend.fit(log)
    assert not hasattr(blend.policies[0], "ensemble_")
    alone = [clone(one).fit(log).predict_proba(log.context) for one in blend.policies]
    np.testing.assert_allclose(blend.predict_proba(log.context), 0.25 * alone[0] + 0.75 * alone[1], rtol=1e-12)


def test_what_cannot_be_blended_is_refused(log, blend):
    with pytest.raises(ValueError, match="a blend needs at least one policy"):
        bopl.BlendedPolicy().fit(log)
    with pytest.raises(ValueError, match="weights must hold one positive number per policy"):
        bopl.BlendedPolicy.of(blend.policies_, [1.0, 0.0, 1.0])
    other = part("ips").fit(informative_log(n_actions=4))
    with pytest.raises(ValueError, match="fitted on the same columns and actions"):
        bopl.BlendedPolicy.of([blend.policies_[0], other])


def test_a_blend_has_no_xgboost_form(blend, tmp_path):
    with pytest.raises(TypeError, match="a blend of 3 policies"):
        blend.to_xgboost(tmp_path / "policy.json")


def test_cards_show_objective_start_and_sharpness_of_every_part(blend):
    shown = blend._repr_html_()
    for text in (
        "the mean of 3 policies",
        "50%",
        "33%",
        "17%",
        "dr, weight clipped 0.1",
        "the logging policy and the reward model, sharpness 5",
        "equal scores",
        "∞ (always the best action)",
    ):
        assert text in shown
    single = blend.policies_[2]._repr_html_()
    for text in ("dr, weight clipped 0.1", "the reward model, sharpness 5", "∞ (always the best action)", "3 rounds"):
        assert text in single
    assert "not fitted" in bopl.BlendedPolicy()._repr_html_()


def test_a_policy_without_rounds_has_a_card(log):
    assert "0 rounds" in part(n_rounds=0).fit(log)._repr_html_()
    worse = log.with_reward(-log.reward)
    kept = part("ips", n_rounds=4, start="reward_model", start_sharpness=0.0).fit(log, validation=worse)
    assert "0 rounds of 4 made" in kept._repr_html_()


# -- The winner of a race ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=[["regression"], ["regression-logging", "dr-logging"]], ids=" ".join)
def raced(request, log):
    return bopl.AutoPolicy(include=request.param, progress=False, n_jobs=1, random_state=0).fit(log)


def test_the_winner_of_a_race_survives_a_file(raced, log, tmp_path):
    raced.save(tmp_path / "policy.bopl")
    loaded = bopl.load(tmp_path / "policy.bopl")
    np.testing.assert_array_equal(loaded.predict_proba(log.context), raced.predict_proba(log.context))
    np.testing.assert_array_equal(loaded.predict(log.context), raced.predict(log.context))
    assert type(loaded.best_policy_) is type(raced.best_policy_)
    assert loaded.leaderboard_.to_dict() == raced.leaderboard_.to_dict()
    assert loaded.is_logging_ == raced.is_logging_


def test_the_winner_of_a_race_is_explained_and_exported(raced, log, tmp_path):
    import onnxruntime

    explanation = raced.explain(log.context, log.action)
    best = raced.best_policy_
    parts = best.policies_ if isinstance(best, bopl.BlendedPolicy) else [best]
    weights = best.weights_ if isinstance(best, bopl.BlendedPolicy) else None
    mean = np.average([one.decision_function(log.context) for one in parts], axis=0, weights=weights)
    np.testing.assert_allclose(explanation.score, mean[np.arange(len(log)), log.action_idx], atol=1e-9)
    raced.to_onnx(tmp_path / "policy.onnx")
    session = onnxruntime.InferenceSession(str(tmp_path / "policy.onnx"), providers=["CPUExecutionProvider"])
    score, probability, action = session.run(["score", "probability", "action"], {"context": log.context})
    np.testing.assert_allclose(score, raced.decision_function(log.context), rtol=1e-4, atol=1e-3)
    np.testing.assert_allclose(probability, raced.predict_proba(log.context), atol=1e-3)
    assert (action == raced.predict(log.context)).mean() > 0.99  # ties in float32


def test_scores_of_a_single_winner_make_its_probabilities(raced, log):
    best = raced.best_policy_
    expected = softmax(raced.decision_function(log.context), inverse_temperature=best.inverse_temperature)
    np.testing.assert_allclose(raced.predict_proba(log.context), expected, rtol=1e-9)
