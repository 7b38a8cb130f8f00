"""What the summary says is what the log and the policy say, by plain formulas."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.sparse import csr_array
from sklearn.linear_model import Ridge
from sklearn.tree import DecisionTreeRegressor

import bopl
from bopl._policy_reader import read_policy
from bopl.evaluation import Estimate, Evaluation
from bopl.report import render_page, summarise
from bopl.report.feature import Column, make_bins, read_columns
from bopl.report.movement import follow_policy
from bopl.report.plain import fixed_text, number_text, percent_text, plain, signed_text, within_text
from bopl.report.summary import describe_verdict
from bopl.simulation.shop import CATEGORIES
from helpers import informative_log


@pytest.fixture(scope="module")
def run():
    train, test = informative_log(n_samples=1600).split(0.5, random_state=0)
    policy = bopl.BoostedPolicy(n_rounds=10, start="reward_model", random_state=0).fit(train)
    return policy, test, bopl.evaluate(test, {"new": policy})


@pytest.fixture(scope="module")
def summary(run):
    return summarise(*run)


# -- Movement -------------------------------------------------------------------------------------------------------


def test_shares_are_those_of_the_log_and_of_the_policy(run, summary):
    policy, log, _ = run
    share = dict(zip(summary["actions"]["labels"], summary["actions"]["new"], strict=True))
    logged = dict(zip(summary["actions"]["labels"], summary["actions"]["logging"], strict=True))
    expected = policy.predict_proba(log.context).mean(axis=0)
    for idx in range(3):
        assert share[str(idx)] == pytest.approx(expected[idx], rel=1e-4)
        assert logged[str(idx)] == pytest.approx(np.mean(log.action_idx == idx), rel=1e-4)


def test_segments_divide_the_log(run, summary):
    policy, log, _ = run
    weight = policy.predict_proba(log.context)[np.arange(len(log)), log.action_idx] / log.propensity
    gain = (weight - 1.0) * log.reward
    for segment in summary["segments"]:
        count = np.array([entry["n"] for entry in segment["bins"]])
        assert count.sum() == len(log)
        means = np.array([entry["uplift"][0] for entry in segment["bins"]])
        assert (count * means).sum() / count.sum() == pytest.approx(gain.mean(), rel=1e-3)
        new = np.array([entry["new"] for entry in segment["bins"]])
        np.testing.assert_allclose(count @ new / count.sum(), summary["actions"]["new"], rtol=1e-3)


def test_interval_of_a_segment_is_the_normal_one():
    log = informative_log(n_samples=400)
    policy = bopl.BoostedPolicy(n_rounds=4, reward_translation=-0.3, random_state=0).fit(log)
    segment = summarise(policy, log, bopl.evaluate(log, policy))["segments"][0]
    column, first = int(segment["feature"].split()[1]), segment["bins"][0]
    inside = log.context[:, column] < np.quantile(log.context[:, column], 0.2, method="higher")
    weight = policy.predict_proba(log.context)[np.arange(400), log.action_idx] / log.propensity
    gain = ((weight - 1.0) * log.reward)[inside]
    error = gain.std(ddof=1) / np.sqrt(len(gain))
    assert first["n"] == inside.sum()
    assert first["uplift"] == pytest.approx(
        [gain.mean(), gain.mean() - 1.959964 * error, gain.mean() + 1.959964 * error], rel=1e-4
    )


def test_samples_of_one_group_count_together():
    log = informative_log(n_samples=300)
    policy = bopl.BoostedPolicy(n_rounds=4, reward_translation=-0.3, random_state=0).fit(log)
    doubled = {name: np.repeat(getattr(log, name), 2, axis=0) for name in ("context", "reward", "propensity")}
    group = np.repeat(np.arange(300), 2)
    twice = bopl.BanditLog(action=np.repeat(log.action, 2), **doubled, group=group)
    alone, together = (summarise(policy, part, bopl.evaluate(part, policy)) for part in (log, twice))
    for one, two in zip(alone["segments"][0]["bins"], together["segments"][0]["bins"], strict=True):
        assert two["n"] == 2 * one["n"]
        assert two["uplift"] == pytest.approx(one["uplift"], rel=1e-3)


def test_many_actions_are_pooled_and_shares_still_sum_to_one(nasty_summary):
    actions = nasty_summary["actions"]
    assert len(actions["labels"]) == 41
    assert actions["labels"][-1] == "160 others"
    for name in ("logging", "new"):
        assert sum(actions[name]) == pytest.approx(1.0, abs=1e-3)
    assert len(render_page(nasty_summary)) < 300_000


def test_weights_are_those_of_the_evaluation(run, summary):
    policy, log, evaluation = run
    row, weights = evaluation.row("new", "ips"), summary["weights"]
    assert weights["effective"] == pytest.approx(row["ess"], rel=1e-4)
    assert weights["max"] == pytest.approx(row["max_weight"], rel=1e-4)
    assert weights["mean"] == pytest.approx(row["mean_weight"], rel=1e-4)
    assert sum(weights["decisions"]) == pytest.approx(1.0, abs=1e-3)
    assert sum(weights["mass"]) == pytest.approx(1.0, abs=1e-3)
    weight = follow_policy(read_policy(policy, log), log, []).weight
    below = np.mean(weight < weights["edges"][-2])
    assert sum(weights["decisions"][:-1]) == pytest.approx(below, abs=1e-3)


def test_ineligible_actions_are_never_chosen():
    log = informative_log(n_samples=300)
    mask = np.ones((300, 3), bool)
    mask[:, 2] = log.action_idx == 2
    masked = bopl.BanditLog(log.context, log.action, log.reward, log.propensity, action_mask=mask)
    policy = bopl.BoostedPolicy(n_rounds=4, reward_translation=-0.3, random_state=0).fit(masked)
    movement = follow_policy(read_policy(policy, masked), masked, [])
    assert mask[np.arange(300), movement.best].all()


def test_probabilities_of_logged_actions_alone_are_refused(run):
    _, log, evaluation = run
    with pytest.raises(TypeError, match="predict_proba"):
        summarise(np.full(len(log), 0.5), log, evaluation)


# -- Reasons --------------------------------------------------------------------------------------------------------


def test_the_column_that_decides_comes_first(run, summary):
    assert summary["importance"]["features"][0] == "feature 0"
    gain = run[0].feature_importances_
    ranked = [int(name.split()[1]) for name in summary["importance"]["features"]]
    np.testing.assert_allclose(summary["importance"]["gain"], gain[ranked], rtol=1e-3)


def test_effects_are_relative_to_the_average_action(summary):
    for feature in summary["effects"]["features"]:
        np.testing.assert_allclose(np.sum(feature["values"], axis=0), 0.0, atol=5e-3)
    assert sum(summary["effects"]["general"]) == pytest.approx(0.0, abs=5e-3)


def test_effects_say_which_values_speak_for_which_action(summary):
    values = {feature["feature"]: feature["values"] for feature in summary["effects"]["features"]}["feature 0"]
    by_action = dict(zip(summary["effects"]["actions"], values, strict=True))
    assert by_action["0"][0] > by_action["0"][-1]  # action 0 is best where feature 0 is low, action 2 where it is high
    assert by_action["2"][0] < by_action["2"][-1]


def test_parts_of_an_example_add_up_to_the_difference_of_scores(run, summary):
    policy, log, _ = run
    score = policy.decision_function(log.context)
    for example in summary["examples"]:
        row = example["row"]
        assert str(log.action[row]) == example["from"]
        difference = score[row, int(example["to"])] - score[row, int(example["from"])]
        total = sum(part["effect"] for part in example["parts"]) + example["rest"] + example["general"]
        assert total == pytest.approx(difference, abs=0.02)
        assert difference == pytest.approx(np.log(example["to_prob"] / example["from_prob"]), abs=0.02)


def test_sparse_contexts_give_the_same_summary():
    log = informative_log(n_samples=400)
    context = np.where(log.context > 0.0, log.context, 0.0)
    columns = (log.action, log.reward, log.propensity)
    dense, sparse = bopl.BanditLog(context, *columns), bopl.BanditLog(csr_array(context), *columns)
    policy = bopl.BoostedPolicy(n_rounds=4, reward_translation=-0.3, random_state=0).fit(dense)
    first, second = (summarise(policy, part, bopl.evaluate(part, policy)) for part in (dense, sparse))
    assert {**first, "created": ""} == {**second, "created": ""}


def test_summaries_repeat(run, summary):
    assert {**summarise(*run), "created": ""} == {**summary, "created": ""}


def test_trees_of_scikit_learn_have_reasons_too(run):
    _, log, _ = run
    policy = bopl.BoostedPolicy(learner=DecisionTreeRegressor(max_depth=3), n_rounds=3, random_state=0).fit(log)
    found = summarise(policy, log, bopl.evaluate(log, policy))
    assert found["importance"]["shap"]
    assert found["importance"]["features"]
    assert found["effects"]
    assert "{{" not in render_page(found)


def test_policies_without_trees_have_no_reasons(run, bare_summary):
    _, log, _ = run
    policy = bopl.BoostedPolicy(learner=Ridge(), n_rounds=3, random_state=0).fit(log)
    linear = summarise(policy, log, bopl.evaluate(log, policy))
    assert not {"importance", "effects"} & set(linear)
    assert not {"importance", "effects", "segments", "training", "examples", "audit", "config"} & set(bare_summary)
    for part in (linear, bare_summary):
        assert "{{" not in render_page(part)


# -- The race -------------------------------------------------------------------------------------------------------


def test_the_race_is_the_leaderboard_and_the_verdict(race_policy, race_summary):
    policy, board = race_policy[0], race_policy[0].leaderboard_
    race = race_summary["race"]
    assert [entry["candidate"] for entry in race["entries"]] == [entry.candidate for entry in board]
    assert (race["verdict"], race["is_logging"]) == (board.verdict, policy.is_logging_)
    assert race["entries"][0]["uplift"] == pytest.approx(board[0].uplift, rel=1e-4)
    page = render_page(race_summary)
    assert "{{" not in page
    assert board.verdict.split(":")[0] in page
    assert "race" not in summarise(policy.best_policy_, race_policy[2], bopl.evaluate(race_policy[2], policy))


def test_everything_else_is_that_of_the_winner(race_policy, race_summary):
    policy, _, test = race_policy
    alone = summarise(policy.best_policy_, test, bopl.evaluate(test, policy), encoder=CATEGORIES)
    for part in ("actions", "segments", "importance", "effects", "examples", "weights", "training"):
        assert race_summary.get(part) == alone.get(part), part


def test_of_a_blend_the_first_part_shows_its_training(blend_summary):
    training = blend_summary["training"]
    assert (training["n_parts"], training["objective"], training["n_rounds"]) == (2, "dr", 8)
    assert "This is the first of the 2 policies in the blend." in render_page(blend_summary)
    assert blend_summary["effects"]["is_greedy"] is True
    assert blend_summary["race"]["entries"][-1]["uplift"] is None


def test_reasons_are_as_sharp_as_the_policy(run):
    _, log, _ = run
    policy = bopl.BoostedPolicy("ips", n_rounds=6, reward_translation=-0.3, inverse_temperature=2.5, random_state=0)
    policy.fit(log)
    examples = summarise(policy, log, bopl.evaluate(log, policy))["examples"]
    assert examples
    for example in examples:
        total = sum(part["effect"] for part in example["parts"]) + example["rest"] + example["general"]
        assert total == pytest.approx(np.log(example["to_prob"] / example["from_prob"]), abs=0.05)


def test_a_start_alone_has_reasons_and_no_history(run):
    _, log, _ = run
    policy = bopl.BoostedPolicy("dr", n_rounds=0, random_state=0).fit(log)
    summary = summarise(policy, log, bopl.evaluate(log, policy))
    assert "training" not in summary
    assert summary["importance"]["features"][0] == "feature 0"
    assert "{{" not in render_page(summary)


def test_values_that_are_not_shapley_values_are_said_to_be_none(run, summary):
    _, log, _ = run
    policy = bopl.BoostedPolicy("ips", n_rounds=2, start="logging", reward_translation=-0.3, random_state=0).fit(log)
    known = summarise(policy, log, bopl.evaluate(log, policy))
    assert known["importance"]["knows_logging"] is True
    assert "integrated gradients" in render_page(known)
    assert "integrated gradients" not in render_page(summary)


def test_a_policy_that_kept_no_round_says_so(run):
    _, log, _ = run
    policy = bopl.BoostedPolicy("dr", n_rounds=4, random_state=0).fit(log)
    policy.ensemble_ = policy.ensemble_.truncated(0)
    summary = summarise(policy, log, bopl.evaluate(log, policy))
    assert summary["training"]["chosen_round"] == 0
    assert summary["training"]["columns"]["round"] == [1, 2, 3, 4]
    summary["training"]["is_validated"] = True
    assert "keeps none of them, only what boosting started from" in render_page(summary)


# -- Columns --------------------------------------------------------------------------------------------------------


@given(arrays(np.float32, st.integers(1, 60), elements=st.sampled_from([np.nan, -2.5, 0, 1, 2, 3, 4.5, 7, 9, 12, 1e9])))
def test_every_value_has_a_bin_and_bins_of_numbers_are_in_order(values):
    bins = make_bins(Column(0, "x"), values)
    place = bins.place(values)
    assert ((place >= 0) & (place < len(bins.labels))).all()
    assert len(set(bins.labels)) == len(bins.labels)
    assert (np.isnan(values) <= (place == len(bins.labels) - 1)).all()
    known = np.argsort(values[~np.isnan(values)], kind="stable")
    assert (np.diff(place[~np.isnan(values)][known]) >= 0).all()
    assert set(place.tolist()) == set(range(len(bins.labels)))  # no bin is empty


def test_whole_numbers_and_frequent_zeros_have_readable_bins():
    values = np.concatenate([np.zeros(4000), np.repeat(np.arange(1, 101), 60)]).astype(np.float32)
    assert make_bins(Column(0, "count"), values).labels == ("0", "1–20", "21–40", "41–60", "61–80", "81–100")


def test_categories_are_shown_as_texts_most_frequent_first():
    texts = tuple("abcdefghijkl")
    values = np.repeat(np.arange(12), np.arange(1, 13)).astype(np.float32)
    bins = make_bins(Column(0, "letter", texts), np.append(values, np.float32(np.nan)))
    assert bins.labels == ("l", "k", "j", "i", "h", "g", "f", "other", "missing")
    assert bins.place(np.array([11.0, 0.0, np.nan, 99.0])).tolist() == [0, 7, 8, 7]
    few = make_bins(Column(0, "flag"), np.array([0.0, 1.0]))
    assert few.place(np.array([1.0, 2.0, np.nan])).tolist() == [1, -1, -1]  # neither was there when bins were made


def test_texts_come_from_a_mapping_or_from_an_encoder():
    log = bopl.BanditLog([[0.0, 1.0], [1.0, 0.0]], [0, 1], [0.0, 1.0], [0.5, 0.5], feature_names=["city", "age"])

    class Encoder:
        categories = {"city": ("Graz", "Linz")}  # noqa: RUF012

    for encoder in (Encoder(), Encoder.categories):
        city, age = read_columns(log, encoder)
        assert city.text(1.0) == "Linz"
        assert age.text(1.0) == "1"
        assert city.text(float("nan")) == "missing"


# -- Verdict and numbers --------------------------------------------------------------------------------------------


def made_up(verdict, uplift, lower, upper, *, logging_value=0.2, estimator="snips"):
    row = {"policy": "new", "estimator": estimator, "value": logging_value + uplift, "ci_lower": 0.1, "ci_upper": 0.4}
    row |= {"uplift": uplift, "uplift_ci_lower": lower, "uplift_ci_upper": upper, "n": 100, "ess": 50.0}
    row |= {"verdict": verdict, "reason": "Because.", "is_primary": estimator == "dr", "propensity_source": "logged"}
    unknown = dict.fromkeys(("std_err", "mean_weight", "max_weight", "clipped_share", "unsupported_mass"), np.nan)
    return Evaluation((Estimate(**row, **unknown),), "normal", 0.95, logging_value)


@pytest.mark.parametrize(
    ("evaluation", "headline", "words"),
    [
        (made_up("better", 0.05, 0.01, 0.09), "earns 25% more", "between +5.0% and +45%"),
        (made_up("better", 0.00008, 0.00002, 0.00014), "earns 0.04% more", "between +0.01% and +0.07%"),
        (made_up("worse", -0.05, -0.09, -0.01), "earns 25% less", "between −45% and −5.0%"),
        (made_up("inconclusive", 0.01, -0.01, 0.03), "cannot tell", "between −5.0% and +15%"),
        (made_up("inconclusive", 0.0, 0.0, 0.0), "cannot tell", "exactly zero"),
        (made_up("not trustworthy", 0.01, -1.0, 1.0), "cannot answer", "Because."),
        (made_up("better", 0.05, 0.01, 0.09, logging_value=-0.2), "earns 0.05 more per decision", "+0.01 and +0.09"),
    ],
)
def test_verdict_is_a_sentence_with_a_number_and_an_interval(evaluation, headline, words):
    verdict = describe_verdict(evaluation)
    assert headline in verdict["headline"]
    assert words in verdict["sentence"]


def test_the_estimator_that_speaks_is_fixed_in_advance():
    names = ["dm", "clipped_ips", "ips", "snips", "dr"]
    rows = tuple(made_up("better", 0.05, 0.01, 0.09, estimator=name).rows[0] for name in names)
    evaluation = Evaluation((*rows, replace(rows[0], policy="other", estimator="sndr")), "normal", 0.95, 0.2)
    assert evaluation.primary_row().estimator == "dr"
    assert describe_verdict(evaluation)["agreement"] == "All 5 estimators come to the same verdict."
    mixed = Evaluation((rows[4], replace(rows[2], verdict="inconclusive")), "normal", 0.95, 0.2)
    assert describe_verdict(mixed)["agreement"] == "1 of 2 estimators come to this verdict; ips does not."


def test_another_schema_is_refused(summary):
    with pytest.raises(ValueError, match=r"schema is 'bopl.report/0'"):
        render_page({**summary, "schema": "bopl.report/0"})


@pytest.mark.parametrize(
    ("shown", "text"),
    [
        (number_text(0.0), "0"),
        (number_text(0.123456), "0.1235"),
        (number_text(-12.5), "−12.5"),
        (number_text(1234567.0), "1,234,567"),
        (number_text(-4.44e-7), "−4.44e−7"),
        (signed_text(0.5), "+0.5"),
        (signed_text(-0.5), "−0.5"),
        (percent_text(0.0123), "1.2%"),
        (percent_text(-0.5, signed=True), "−50%"),
        (percent_text(0.0), "0.0%"),
        (percent_text(0.0004, signed=True), "+0.04%"),  # not +0.0%: a million decisions can tell
        (percent_text(0.997), "99.7%"),
        (percent_text(0.9997), "99.97%"),
        (percent_text(1.0), "100%"),
        (within_text(0.094813, 0.078625, 0.11375), "0.095"),
        (within_text(0.11375, 0.078625, 0.11375), "0.114"),
        (within_text(1234.56, 1234.3, 1234.8), "1,234.56"),
        (within_text(-1234.56, -2000.0, -500.0), "−1,235"),
        (within_text(-0.0001, -0.2, 0.2), "0.00"),
        (within_text(0.094813, 0.1, 0.1), "0.09481"),
        (within_text(0.094813, None, 0.1), "0.09481"),
        (fixed_text(0.001, 0.5), "+0.00"),
        (fixed_text(-0.25, 2.0), "−0.25"),
        (fixed_text(0.001, 0.004), "+0.0010"),
    ],
)
def test_numbers_are_written_as_people_write_them(shown, text):
    assert shown == text


def test_plain_values_are_what_json_can_hold():
    value = {"a": np.float32(0.5), 2: (np.int64(3), float("nan")), "c": {1}, "d": np.array([1.0, np.inf]), "e": object}
    assert plain(value) == {"a": 0.5, "2": [3, None], "c": [1], "d": [1.0, None], "e": "<class 'object'>"}
