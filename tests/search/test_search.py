"""Searches: what is drawn, how it is scored, and that a killed one goes on where it was."""

import functools
import os
import sys

import numpy as np
import pytest
from sklearn.base import clone

import bopl
from bopl.boosting.loop import INTERRUPTED
from bopl.search import Choice, CrossValidatedScorer, Float, Int, SimulatedScorer, search
from bopl.search.space import draw_settings
from bopl.simulation import simulate_digits
from helpers import informative_log, make_log

pytest.importorskip("optuna", reason="optuna is an optional dependency")

SPACE = {"n_rounds": Int(1, 4), "reward_translation": Float(-0.4, 0.0), "learner__max_depth": Choice(1, 2, 3)}
POLICY = bopl.BoostedPolicy(learner=bopl.HistTree(n_jobs=1), progress=False, random_state=0)


def peak(policy):
    """Score by the settings alone: cheap, and the best is known."""
    return -abs(policy.n_rounds - 3) - abs(policy.reward_translation + 0.2)


def digits(trial):
    return simulate_digits(random_state=trial)


# -- Space ------------------------------------------------------------------------------------------------------------


def test_draws_stay_within_their_ranges_and_reach_both_ends():
    space = {"a": Int(2, 5), "b": Int(1, 1000, log=True), "c": Float(-0.4, -0.3), "d": Float(1e-4, 0.3, log=True)}
    drawn = [draw_settings(space, 0, number) for number in range(2000)]
    for name, limits in space.items():
        values = [settings[name] for settings in drawn]
        assert limits.low <= min(values)
        assert max(values) <= limits.high
    assert {settings["a"] for settings in drawn} == {2, 3, 4, 5}
    assert np.median([settings["b"] for settings in drawn]) == pytest.approx(np.sqrt(0.5 * 1000.5), rel=0.3)


def test_configuration_depends_on_seed_and_number_alone():
    assert draw_settings(SPACE, 1, 7) == draw_settings(dict(reversed(SPACE.items())), 1, 7)
    assert draw_settings(SPACE, 1, 7) != draw_settings(SPACE, 2, 7)


@pytest.mark.parametrize("make", [lambda: Int(3, 2), lambda: Float(0.0, 1.0, log=True), lambda: Choice()])
def test_impossible_ranges_are_refused(make):
    with pytest.raises(ValueError, match=r"must not end below|must start above 0|needs at least one"):
        make()


# -- Values and scorers -----------------------------------------------------------------------------------------------


def test_scores_are_the_estimate_and_the_lower_end_of_an_evaluation():
    log = informative_log(3)
    uniform = bopl.baseline.UniformPolicy()  # learns nothing, so that the folds do not matter
    prob = np.full(log.n_samples, 1 / log.n_actions)
    for estimator in ("snips", "ips", "beta_ips", bopl.evaluation.ClippedIPS(2.0)):
        row = bopl.evaluate(log, prob, estimators=estimator, confidence=0.8).row()
        assert CrossValidatedScorer(log, estimator=estimator)(uniform) == pytest.approx(row["value"])
        score = CrossValidatedScorer(log, estimator=estimator, confidence=0.9)(uniform)
        assert score == pytest.approx(row["ci_lower"])


def test_a_policy_that_never_agrees_with_the_log_scores_the_worst_reward():
    class Contrary(bopl.baseline.UniformPolicy):
        def predict_proba(self, context, **settings):
            return np.tile([0.0, 0.0, 1.0], (len(context), 1))

    log = informative_log(0)
    two = log.subset(log.action_idx < 2)
    assert CrossValidatedScorer(two)(Contrary()) == two.reward.min()


def test_groups_share_a_fold():
    log = informative_log(0, n_samples=90)
    grouped = bopl.BanditLog(
        np.arange(90.0)[:, None] // 3, log.action, log.reward, log.propensity, group=np.arange(90) // 3
    )

    class Memory(bopl.baseline.UniformPolicy):
        def fit(self, log):
            self.seen = set(log.context[:, 0].tolist())
            return super().fit(log)

        def predict_proba(self, context, **settings):
            assert not self.seen & set(context[:, 0].tolist())
            return super().predict_proba(context, **settings)

    CrossValidatedScorer(grouped)(Memory())


def test_cross_validation_judges_every_sample_by_a_policy_that_never_saw_it():
    log = informative_log(0, n_samples=90)
    seen = []

    class Memory(bopl.baseline.UniformPolicy):
        def fit(self, log):
            seen.append({tuple(row) for row in log.context.tolist()})
            return super().fit(log)

        def predict_proba(self, context, **settings):
            assert not {tuple(row) for row in np.asarray(context).tolist()} & seen[-1]
            return super().predict_proba(context, **settings)

    value = CrossValidatedScorer(log, n_folds=4)(Memory())
    assert len(seen) == 4
    assert value == pytest.approx(log.reward.mean())  # the logging policy was uniform, too


def test_cross_validated_estimate_prefers_a_policy_that_learns_and_its_bound_lies_below():
    log = informative_log(1)
    good, bad = POLICY.set_params(n_rounds=8), bopl.baseline.UniformPolicy()
    scorer = CrossValidatedScorer(log)
    assert scorer(good) > scorer(bad) + 0.2
    assert CrossValidatedScorer(log, confidence=0.95)(good) < scorer(good)
    assert CrossValidatedScorer(log, is_greedy=True)(good) > scorer(bad)


def test_simulated_scorer_is_the_mean_validation_reward_over_trials():
    scorer = SimulatedScorer(digits, (0, 1))
    policy = bopl.BoostedPolicy(n_rounds=3, reward_translation=-0.2, progress=False, random_state=0)
    problems = [digits(trial) for trial in (0, 1)]
    expected = [
        problem.validation_value(bopl.BoostedPolicy(**policy.get_params(deep=False)).fit(problem.train))
        for problem in problems
    ]
    assert scorer(policy) == pytest.approx(np.mean(expected))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_folds": 1}, r"n_folds must lie in \[2, 60\]"),
        ({"estimator": "dm"}, "estimator must not need a reward model; got 'dm'"),
        ({"estimator": "snipz"}, "estimators must be one of .*Did you mean 'snips'"),
        ({"confidence": 0.3}, r"confidence must lie in \(0.5, 1\)"),
    ],
)
def test_scorers_refuse_settings_out_of_range(settings, message):
    with pytest.raises(ValueError, match=message):
        CrossValidatedScorer(make_log(), **settings)


# -- Studies ----------------------------------------------------------------------------------------------------------


def test_search_finds_the_best_of_what_it_drew_and_returns_it_unfitted():
    result = search(POLICY, SPACE, peak, n_configurations=30)
    drawn = [draw_settings(SPACE, 0, number) for number in range(30)]
    best = max(drawn, key=lambda settings: -abs(settings["n_rounds"] - 3) - abs(settings["reward_translation"] + 0.2))
    assert result.settings == best
    assert result.policy.n_rounds == best["n_rounds"]
    assert result.policy.learner.max_depth == best["learner__max_depth"]
    assert not hasattr(result.policy, "ensemble_")
    values = [configuration["value"] for configuration in result.configurations]
    assert values == sorted(values, reverse=True)
    assert result.value == values[0]


@pytest.mark.parametrize("engine", ["random", "tpe"])
def test_study_file_goes_on_where_it_was_and_gives_what_one_call_gives(tmp_path, engine, said):
    run = functools.partial(search, POLICY, SPACE, peak, engine=engine)
    in_one = run(n_configurations=14)
    path = tmp_path / "study.log"
    run(study=path, n_configurations=4)
    said.clear()
    in_two = run(study=path, n_configurations=14)
    assert len(said) == 10
    settings = [[{name: each[name] for name in SPACE} for each in one.configurations] for one in (in_one, in_two)]
    assert settings[0] == settings[1]
    assert run(study=path, n_configurations=14).value == in_one.value  # nothing left to do


def test_configuration_that_a_kill_cut_short_is_scored_again(tmp_path):
    path = tmp_path / "study.log"
    calls = []

    def killed(policy):
        calls.append(policy.n_rounds)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return peak(policy)

    with pytest.raises(KeyboardInterrupt):
        search(POLICY, SPACE, killed, study=path, n_configurations=6, identity={"scorer": "peak"})
    result = search(POLICY, SPACE, peak, study=path, n_configurations=6, identity={"scorer": "peak"})
    found = sorted(tuple(sorted((name, each[name]) for name in SPACE)) for each in result.configurations)
    assert found == sorted(tuple(sorted(draw_settings(SPACE, 0, number).items())) for number in range(6))


def test_processes_score_what_one_process_scores(tmp_path):
    log = informative_log(2, n_samples=120)
    scorer = CrossValidatedScorer(log, n_folds=2)
    space = {"n_rounds": Int(1, 3)}
    one = search(POLICY, space, scorer, n_configurations=3)
    two = search(POLICY, space, scorer, n_configurations=3, n_jobs=2, study=tmp_path / "study.log")
    key = functools.partial(sorted, key=lambda each: each["number"])
    assert [each["value"] for each in key(one.configurations)] == [each["value"] for each in key(two.configurations)]


def threads_seen(policy):
    return float(os.environ["OMP_NUM_THREADS"])


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_workers_use_the_threads_they_are_given(n_jobs):
    before = dict(os.environ)
    result = search(POLICY, {"n_rounds": Int(1, 3)}, threads_seen, n_configurations=2, n_jobs=n_jobs, threads=3)
    assert [each["value"] for each in result.configurations] == [3.0, 3.0]
    assert dict(os.environ) == before


def test_minutes_bound_a_search_and_one_that_scored_nothing_says_so():
    with pytest.raises(ValueError, match="no configuration was scored within the budget"):
        search(POLICY, SPACE, peak, minutes=1e-9)
    assert search(POLICY, SPACE, peak, minutes=10.0, n_configurations=2).value <= 0.0


def test_configurations_that_cannot_be_trained_are_counted_and_left_out():
    def fussy(policy):
        if policy.n_rounds < 3:
            raise ValueError("too few rounds.")
        return 1.0

    result = search(POLICY, SPACE, fussy, n_configurations=12)
    assert result.n_failed > 0
    assert len(result.configurations) + result.n_failed == 12
    with pytest.raises(ValueError, match=r"the first failed with ValueError: too few rounds\."):
        search(POLICY, {"n_rounds": Int(1, 2)}, fussy, n_configurations=2)


def test_tpe_learns_from_what_was_scored():
    space = {"reward_translation": Float(-10.0, 10.0)}

    def hill(policy):
        return -((policy.reward_translation - 3.0) ** 2)

    result = search(POLICY, space, hill, n_configurations=40, engine="tpe")
    assert len({each["reward_translation"] for each in result.configurations}) == 40
    late = [each["reward_translation"] for each in result.configurations if each["number"] >= 25]
    assert np.median(np.abs(np.array(late) - 3.0)) < 3.0


def test_a_policy_may_be_built_by_a_function():
    result = search(
        lambda settings: bopl.BoostedPolicy(**settings),
        {"n_rounds": Int(1, 9)},
        lambda p: p.n_rounds,
        n_configurations=5,
    )
    assert isinstance(result.policy, bopl.BoostedPolicy)
    assert result.policy.n_rounds == result.value


def test_a_study_file_of_another_search_is_refused(tmp_path):
    search(POLICY, SPACE, peak, study=tmp_path / "study.log", n_configurations=1)
    with pytest.raises(ValueError, match="holds a search with another space and policy; use another file"):
        search(POLICY, {"n_rounds": Int(1, 9)}, peak, study=tmp_path / "study.log", n_configurations=1)
    with pytest.raises(ValueError, match="another seed"):
        search(POLICY, SPACE, peak, study=tmp_path / "study.log", n_configurations=1, random_state=1)
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        search(POLICY, SPACE, peak, study=tmp_path / "none" / "study.log", n_configurations=1)


def test_a_study_is_of_one_scorer_and_one_policy_whatever_runs_them(tmp_path):
    path, log = tmp_path / "study.log", informative_log(2, n_samples=60)
    space = {"n_rounds": Int(1, 2)}
    run = functools.partial(search, study=path, n_configurations=1)
    value = run(POLICY, space, CrossValidatedScorer(log, n_folds=2)).value
    busier = clone(POLICY).set_params(learner__n_jobs=2, progress=True)
    assert run(busier, space, CrossValidatedScorer(informative_log(2, n_samples=60), n_folds=2)).value == value
    for scorer in (CrossValidatedScorer(log, n_folds=3), CrossValidatedScorer(informative_log(3, n_samples=60)), peak):
        with pytest.raises(ValueError, match="another scorer; use another file"):
            run(POLICY, space, scorer)
    with pytest.raises(ValueError, match="another policy; use another file"):
        run(clone(POLICY).set_params(learner__max_depth=1), space, CrossValidatedScorer(log, n_folds=2))


def test_a_study_is_told_apart_by_what_the_caller_names(tmp_path):
    run = functools.partial(search, POLICY, SPACE, peak, study=tmp_path / "study.log", n_configurations=1)
    value = run(identity={"dataset": "scene", "trials": [0, 1]}).value
    assert run(identity={"dataset": "scene", "trials": [0, 1]}).value == value
    with pytest.raises(ValueError, match="another dataset and trials; use another file"):
        run(identity={"dataset": "digits", "trials": [0]})
    with pytest.raises(ValueError, match="another trials; use another file"):
        run(identity={"dataset": "scene"})


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "a search needs a budget"),
        ({"n_configurations": 0}, "n_configurations must be at least 1"),
        ({"minutes": -1.0}, "minutes must be greater than 0"),
        ({"n_configurations": 1, "engine": "grid"}, "engine must be one of 'random', 'tpe'"),
    ],
)
def test_budgets_and_engines_out_of_range_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        search(POLICY, SPACE, peak, **settings)


def test_missing_optuna_is_one_sentence_that_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(ImportError, match=r"search needs Optuna: pip install 'bopl\[search\]'\."):
        search(POLICY, SPACE, peak, n_configurations=1)


def test_a_fit_that_ctrl_c_cut_short_is_not_scored(tmp_path):
    class Interrupted(bopl.baseline.UniformPolicy):
        def fit(self, log):
            self.stop_reason_ = INTERRUPTED
            return super().fit(log)

    with pytest.raises(KeyboardInterrupt):
        CrossValidatedScorer(informative_log(0))(Interrupted())
    with pytest.raises(KeyboardInterrupt):
        SimulatedScorer(digits, (0,))(Interrupted())


def test_a_race_that_ctrl_c_cut_short_ends_the_search(monkeypatch):
    def interrupted(self, n_rounds):
        raise KeyboardInterrupt

    monkeypatch.setattr("bopl.race.contender.Contender.advance", interrupted)
    policy = bopl.AutoPolicy(include=["dr"], progress=False, random_state=0)
    with pytest.raises(KeyboardInterrupt):
        CrossValidatedScorer(informative_log())(policy)
