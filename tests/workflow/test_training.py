"""Runs: what they choose, what Ctrl-C leaves, and what they write down."""

import errno
import gc
import io
import json
import signal
import weakref
from collections import Counter
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pyarrow.parquet as pq
import pytest
from rich.console import Console

import bopl
from bopl import _policy_reader
from bopl.boosting.ensemble import Ensemble
from bopl.boosting.loop import INTERRUPTED
from bopl.learner.hist_tree import learner
from bopl.learner.hist_tree.codes import bin_context
from bopl.race.leaderboard import Entry, Leaderboard
from bopl.workflow import training
from bopl.workflow.config import TrainConfig
from bopl.workflow.racing import leaderboard_table
from bopl.workflow.run_folder import StepClock, without_machine
from bopl.workflow.training import train
from bopl.workflow.translation import SHARES, candidates
from bopl.workflow.tuning import apply_settings, search_space
from product import click_table, write_log


def config_for(folder, **settings):
    roles = {"action": "item", "reward": "click", "propensity": "p"}
    small = {"objective": "ips", "n_rounds": 10, "max_depth": 3, "n_jobs": 1, "ignore": ("user",)}
    log = write_log(folder / "log.parquet", n_samples=1500)
    return TrainConfig(**{"log": log, "out": str(folder / "policy.bopl"), **roles, **small, **settings})


@pytest.mark.parametrize("reward", [[0, 0, 0, 1], [-1, 0], [3, 5, 10], [-2.5, 7.0]])
def test_candidates_put_zero_between_the_least_reward_and_beyond_the_mean(reward):
    values = np.array(reward, dtype=float)
    found = candidates(values)
    assert len(found) == len(SHARES)
    low, mean = values.min(), values.mean()
    np.testing.assert_allclose([-low, -mean], [found[0], found[SHARES.index(1.0)]], rtol=1e-3)


def test_equal_rewards_leave_nothing_to_choose_by():
    with pytest.raises(ValueError, match="all 4 rewards are 2: nothing distinguishes"):
        candidates(np.full(4, 2.0))


def test_a_race_bins_every_array_once(tmp_path, monkeypatch):
    binned = Counter()

    def count(context, columns):
        binned[context.shape, context.tobytes()] += 1
        return bin_context(context, columns)

    monkeypatch.setattr(learner, "bin_context", count)
    train(config_for(tmp_path, objective="auto", include=("dr",), n_rounds=100, max_depth=12))
    # The training part as well: for the logging policy, for the winner's reward model and for the verdict's.
    assert set(binned.values()) == {1}, [(shape, n) for (shape, _), n in binned.items()]


def test_all_trees_of_a_race_are_grown_on_the_threads_that_were_asked_for(tmp_path, monkeypatch):
    used, n_threads = [], bopl.HistTree.n_threads.fget

    def note(self):
        used.append(n_threads(self))
        return used[-1]

    monkeypatch.setattr(bopl.HistTree, "n_threads", property(note))
    train(config_for(tmp_path, objective="auto", include=("dr",), n_rounds=100, max_depth=12, n_jobs=1))
    assert set(used) == {1}  # the logging policy's and those of the verdict's reward model, too


@pytest.mark.parametrize("is_kept", [True, False])
def test_held_out_samples_are_scored_once_if_their_probabilities_can_be_kept(tmp_path, monkeypatch, is_kept):
    scored, predicted = Counter(), Counter()

    def counted(function, counts):
        def count(self, context, *given, **named):
            counts[context.tobytes()] += 1
            return function(self, context, *given, **named)

        return count

    monkeypatch.setattr(Ensemble, "score", counted(Ensemble.score, scored))
    monkeypatch.setattr(bopl.BoostedRewardModel, "predict", counted(bopl.BoostedRewardModel.predict, predicted))
    monkeypatch.setattr(_policy_reader, "KEPT_CELLS", 1 << 23 if is_kept else 0)
    result = train(config_for(tmp_path, reward_translation=-0.1))
    assert (max(scored.values()), max(predicted.values())) == ((1, 1) if is_kept else (4, 2))
    monkeypatch.undo()
    again = train(config_for(tmp_path, reward_translation=-0.1))
    assert result.evaluation.to_dict() == again.evaluation.to_dict()
    assert {**result.summary, "steps": 0, "created": 0} == {**again.summary, "steps": 0, "created": 0}


def test_the_chosen_translation_has_the_best_bound_and_is_said(tmp_path, said):
    result = train(config_for(tmp_path))
    sentence = next(text for text in said if text.startswith("Reward translation"))
    bounds = {
        float(part.split(" gives ")[0]): float(part.split(" gives ")[1].rstrip("."))
        for part in sentence.split(": ")[1].split(", ")
    }
    assert result.policy.reward_translation == max(bounds, key=bounds.get)
    assert len(bounds) == len(SHARES)


def test_what_a_log_is_worth_to_the_uniform_policy_is_told_and_forbids_nothing(tmp_path, said):
    small = write_log(tmp_path / "small.parquet", n_samples=40)
    train(config_for(tmp_path, log=small))
    assert any(text.startswith("Note: To the uniform policy the log is worth") for text in said)
    assert any(text.startswith("Audit: ") and "no problem that forbids training." in text for text in said)


def test_candidates_of_the_translation_bin_the_contexts_once(tmp_path, monkeypatch):
    bound = []
    bind = bopl.HistTree.bind
    monkeypatch.setattr(
        bopl.HistTree, "bind", lambda self, log, *, seed: bound.append(log) or bind(self, log, seed=seed)
    )
    train(config_for(tmp_path, estimators=("snips",)))
    assert len(bound) == 1


def test_a_policy_without_a_round_is_said_to_be_uniform(tmp_path, said):
    train(config_for(tmp_path, min_leaf_samples=1e9))
    assert any(text.startswith("Boosting made no round (the base learner found nothing to predict)") for text in said)


def test_large_logs_choose_on_a_part_and_train_on_all(tmp_path, monkeypatch):
    for module in ("translation", "training"):
        monkeypatch.setattr(f"bopl.workflow.{module}.MAX_SAMPLES", 300)
    monkeypatch.setattr("bopl.workflow.translation.MAX_VALIDATION", 100)
    result = train(config_for(tmp_path))
    assert [step["step"] for step in result.steps][3:5] == ["choose", "train"]


def test_the_latest_samples_are_held_out_where_a_time_is_named(tmp_path):
    seen = {}

    def watch(state):
        seen["train"] = state.log
        return bopl.CallbackAction.CONTINUE

    result = train(config_for(tmp_path, time="when", reward_translation=-0.4), callbacks=[watch])
    table = click_table(1500)
    cut = np.sort(np.array(table["when"]))[round(0.8 * 1500)]
    assert seen["train"].time.max() < cut
    assert result.evaluation.rows[0]["n"] == 300
    assert "when (day)" not in result.policy.feature_names_in_
    assert {"when (weekday)", "when (hour)"} <= set(result.policy.feature_names_in_)


def test_what_was_held_out_is_said_and_in_every_file(tmp_path, said):
    seen = []

    def watch(state):
        seen.append(state.log)
        return bopl.CallbackAction.CONTINUE

    settings = {"time": "when", "group": "user", "ignore": (), "reward_translation": -0.4}
    result = train(config_for(tmp_path, **settings), callbacks=[watch])
    table = click_table(1500)
    when, user = np.array(table["when"]), np.array(table["user"])
    cut = np.sort(when)[1200]
    facts, is_test = result.split, when >= cut
    assert result.evaluation.rows[0]["n"] == facts.test.n_samples == is_test.sum()
    assert (facts.test.first, facts.test.last) == (cut, when.max())
    is_dropped = ~is_test & np.isin(user, user[is_test])
    assert (facts.n_dropped, facts.n_dropped_groups) == (is_dropped.sum(), len(np.unique(user[is_dropped])))
    assert facts.train.n_samples == 1500 - is_test.sum() - is_dropped.sum()
    assert facts.train.last < facts.test.first
    assert seen[0].time.max() < cut  # and the validation part, which is later, lies before the cut as well
    assert facts.sentence in said
    run = json.loads((result.folder.path / "run.json").read_text())
    assert run["split"] == result.summary["split"] == facts.to_dict()
    page = result.folder.report.read_text()
    assert "What was held out" in page
    assert facts.to_dict()["test"]["first"] in page
    assert f"{facts.n_dropped:,} earlier decisions are dropped" in page


def test_a_training_part_of_one_day_has_a_validation_part_drawn_at_random(tmp_path, said):
    path = tmp_path / "days.parquet"
    table = click_table(1000).drop_columns(["when"])
    pq.write_table(table.append_column("day", [["2024-05-01"] * 800 + ["2024-05-02"] * 200]), path)
    result = train(config_for(tmp_path, log=str(path), time="day", reward_translation=-0.4))
    assert (result.split.train.n_samples, result.split.test.n_samples) == (800, 200)
    assert (
        "Training on 600 samples, choosing on 200 (drawn at random, as all samples have the same time), and holding "
        "out 200 for the verdict."
    ) in said


def test_the_latest_samples_of_the_training_part_choose_and_it_is_said(tmp_path, said):
    train(config_for(tmp_path, time="when", reward_translation=-0.4))
    assert "Training on 900 samples, choosing on the latest 300, and holding out 300 for the verdict." in said
    said.clear()
    train(config_for(tmp_path, time="when", group="user", ignore=(), reward_translation=-0.4))
    assert any("(drawn at random, as most groups have samples in the latest part)" in str(text) for text in said)


class Interrupt(bopl.Callback):
    """Press Ctrl-C in a round of the n-th fit."""

    def __init__(self, fit, at_round):
        self.fit, self.at_round, self.n_fits = fit, at_round, 0

    def on_start(self, state):
        self.n_fits += 1

    def __call__(self, state):
        if self.n_fits == self.fit and len(state.rounds) == self.at_round:
            signal.raise_signal(signal.SIGINT)
        return bopl.CallbackAction.CONTINUE


@pytest.fixture
def ctrl_c():
    """Let SIGINT interrupt, also where the tests were started in the background, which ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_a_second_run_into_the_same_folder_is_refused_and_changes_nothing(tmp_path):
    config, found = config_for(tmp_path, reward_translation=-0.4), []

    def run_again(state):
        if not found:
            left = tmp_path / ".policy.run.0123.part"
            left.mkdir()
            with pytest.raises(ValueError, match=r"another run, process \d+ since .* is writing '.*policy.run'"):
                train(config)
            found.append(left.is_dir())
        return bopl.CallbackAction.CONTINUE

    train(config, callbacks=[run_again])
    assert found == [True]  # what another run is writing is not taken for what a killed one has left
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["log.parquet", "policy.bopl", "policy.run"]


@pytest.mark.usefixtures("ctrl_c")
@pytest.mark.parametrize(("settings", "fit"), [({"reward_translation": -0.4}, 1), ({}, 1), ({}, 3)])
def test_ctrl_c_leaves_a_usable_policy_with_a_verdict(tmp_path, settings, fit):
    result = train(config_for(tmp_path, **settings), callbacks=[Interrupt(fit, 4)])
    policy = bopl.load(tmp_path / "policy.bopl")
    assert policy.predict(click_table(20)).shape == (20,)
    assert result.evaluation.rows
    assert (tmp_path / "policy.run" / "report.html").is_file()
    assert result.is_interrupted
    if fit == 1:
        assert (policy.stop_reason_, policy.history_.n_rounds) == (INTERRUPTED, 4)


@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_before_the_first_round_leaves_no_policy(tmp_path):
    class AtStart(bopl.Callback):
        def on_start(self, state):
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        train(config_for(tmp_path), callbacks=[AtStart()])
    assert not (tmp_path / "policy.bopl").exists()


def test_a_disk_without_room_for_the_copy_of_a_policy_keeps_the_earlier_run(tmp_path, monkeypatch):
    config = config_for(tmp_path)
    train(config)
    paths = [path for path in tmp_path.rglob("*") if path.is_file() and not path.name.startswith(".")]
    before = {path: path.read_bytes() for path in paths}

    def fill(source, target):
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr("shutil.copyfileobj", fill)
    with pytest.raises(OSError, match=r"No space left on device\. Nothing was changed\."):
        train(replace(config, max_depth=1))
    assert {path: path.read_bytes() for path in paths} == before
    assert [path.name for path in tmp_path.rglob("*.part*")] == []


def test_a_run_that_fails_after_the_training_leaves_no_verdict_on_another_policy(tmp_path, monkeypatch, said):
    config = config_for(tmp_path)
    train(config)
    monkeypatch.setattr("bopl.workflow.training.judge", lambda *given, **named: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        train(replace(config, max_depth=1))
    assert said[-1] == f"There is no verdict, but the policy is trained and saved: {tmp_path / 'policy.bopl'}"
    left = {file.name for file in (tmp_path / "policy.run").iterdir()}
    assert left == {"config.toml", "history.csv", "policy.bopl", "run.json"}
    assert "max_depth = 1\n" in (tmp_path / "policy.run" / "config.toml").read_text()


def test_the_run_folder_tells_versions_fingerprint_steps_and_history(tmp_path):
    result = train(config_for(tmp_path))
    facts = json.loads((tmp_path / "policy.run" / "run.json").read_text())
    log = bopl.BanditLog.read(tmp_path / "log.parquet", action="item", reward="click", propensity="p", ignore=["user"])
    assert facts["log"]["fingerprint"] == log.fingerprint() == result.policy.trained_on_
    assert {"python", "numpy", "numba"} <= set(facts["versions"])
    assert [step["step"] for step in facts["steps"]] == [step["step"] for step in result.steps]
    assert facts["peak_mib"] == max(step["peak_mib"] for step in facts["steps"])
    lines = (tmp_path / "policy.run" / "history.csv").read_text().splitlines()
    assert len(lines) == 1 + result.policy.history_.n_rounds
    summary = json.loads((tmp_path / "policy.run" / "summary.json").read_text())
    assert summary["steps"] == facts["steps"]
    assert summary["config"]["n_rounds"] == 10


@pytest.mark.parametrize(
    "settings",
    [{"reward_translation": -0.4}, {"objective": "auto", "include": ("regression",), "n_rounds": 100, "max_depth": 12}],
)
def test_the_whole_log_is_let_go_once_it_is_split(tmp_path, monkeypatch, settings):
    """At a million rows of fifty columns it is 200 MiB, beside parts that are copies."""
    split, alive, found = training.split_log, [], []

    def splitting(log, *settings):
        alive.extend([weakref.ref(log), weakref.ref(log.context if log.context.base is None else log.context.base)])
        return split(log, *settings)

    def watched(function):
        def call(*args, **kwargs):
            gc.collect()
            found.append([one() is not None for one in alive])
            return function(*args, **kwargs)

        return call

    monkeypatch.setattr(training, "split_log", splitting)
    for name in ("race", "boost", "judge"):
        monkeypatch.setattr(training, name, watched(getattr(training, name)))
    train(config_for(tmp_path, **settings))
    assert found == [[False, False]] * 2


def test_a_clock_knows_the_memory_of_each_step():
    clock = StepClock()
    with clock.step("small"):
        pass
    with clock.step("large"):
        np.ones(20_000_000).sum()
    with clock.step("after"):
        pass
    small, large, after = (step["peak_mib"] for step in clock.steps)
    assert large > small + 100
    assert clock.peak_mib == large
    assert after <= large


@pytest.mark.parametrize("assumption", ["estimate", "uniform"])
def test_logs_without_propensities_are_learned_from_only_if_told_how(tmp_path, assumption):
    table = click_table(600).drop_columns(["p"])
    pq.write_table(table, tmp_path / "bare.parquet")
    config = config_for(tmp_path, log=str(tmp_path / "bare.parquet"), propensity=None, assume_propensity=assumption)
    result = train(config)
    source = {"estimate": "estimated", "uniform": "uniform"}[assumption]
    assert {row["propensity_source"] for row in result.evaluation.rows} == {source}
    assert source in result.evaluation.rows[0]["reason"]


def test_a_time_limit_ends_the_boosting_after_the_round_in_which_it_passes(tmp_path):
    result = train(config_for(tmp_path, minutes=1e-9))
    assert result.policy.stop_reason_ == "the time limit was reached"
    assert result.policy.history_.n_rounds == 1


def test_a_single_objective_gets_its_settings(tmp_path):
    settings = {"weight": "clipped:0.3", "smoothness": "paper", "start": "logging", "learning_rate": 0.5}
    settings |= {"colsample": 1.0, "reg_lambda": 2.0, "min_leaf_samples": 5.0, "objective": "dr"}
    policy = train(config_for(tmp_path, **settings)).policy
    assert policy.objective == bopl.objective.DR(weight=bopl.objective.Clipped(0.3), smoothness="paper")
    assert (policy.start, policy.learning_rate, policy.certificate) == ("logging", 0.5, False)
    assert (policy.learner.colsample, policy.learner.reg_lambda, policy.learner.min_leaf_samples) == (1.0, 2.0, 5.0)
    assert policy.reward_translation == 0.0  # it would change nothing
    assert policy.ensemble_.start.kind == "logging"


def test_rounds_that_are_no_better_than_the_start_are_said_to_be_none(tmp_path, said):
    config = config_for(tmp_path, objective="dr", min_leaf_samples=1e9)
    result = train(config)
    assert any(text.endswith("the policy is the start of boosting.") for text in said)
    assert result.policy.ensemble_.start.predictors
    assert [row["verdict"] for row in result.evaluation.rows if row["estimator"] == "dr"] == ["better"]


# -- The race -------------------------------------------------------------------------------------------------------


def race_config(folder, **settings):
    nothing = {"objective": "auto", "n_rounds": TrainConfig.n_rounds, "max_depth": TrainConfig.max_depth}
    return config_for(folder, **{**nothing, "include": ("regression",), **settings})


def printed(said):
    """Return what was said as a terminal of eighty columns shows it."""
    output = io.StringIO()
    for text in said:
        Console(file=output, width=80, soft_wrap=isinstance(text, str)).print(text)
    return output.getvalue()


def test_a_race_is_told_in_a_table_and_a_sentence(tmp_path, said):
    result = train(race_config(tmp_path))
    board, text = result.policy.leaderboard_, printed(said)
    assert isinstance(result.policy, bopl.AutoPolicy)
    assert board.verdict in said
    assert "Racing on 1,200 samples, and holding out 300 for the verdict." in said
    assert [entry.candidate for entry in board] == ["regression", "logging"]
    assert "regression" in text
    assert "won" in text
    assert result.summary["race"]["verdict"] == board.verdict
    assert result.policy.trained_on_ == bopl.load(tmp_path / "policy.bopl").trained_on_


def test_the_table_of_a_race_fits_eighty_columns_whatever_happened():
    entry = Entry(
        "regression-logging", "x", 0.5, -0.01234, -0.0345, 0.0123, 1000, 3.0, 1234.5, "dropped after 100 rounds"
    )
    nan = float("nan")
    odd = replace(entry, value=nan, uplift=nan, lower=nan, upper=nan, seconds=nan, status="not begun")
    text = printed([leaderboard_table(Leaderboard((entry, odd), "", 123_456, 3))])
    rows = [line for line in text.splitlines() if "regression-logging" in line]
    assert len(rows) == 2
    assert "dropped after 100" in rows[0]
    assert "not begun" in rows[1]
    assert "nan" not in text
    assert max(map(len, text.splitlines())) <= 80


def test_where_nothing_beats_the_logging_policy_the_policy_is_the_logging_policy(tmp_path, said):
    noise = write_log(tmp_path / "noise.parquet", n_samples=1200, lift=0.0)
    result = train(race_config(tmp_path, log=noise))
    assert result.policy.is_logging_
    assert any("The policy is the logging policy." in text for text in said if isinstance(text, str))
    assert bopl.load(tmp_path / "policy.bopl").is_logging_
    assert result.summary["race"]["is_logging"] is True
    log = bopl.BanditLog.read(noise, action="item", reward="click", propensity="p", ignore=["user"])
    action_prob = result.policy.predict_proba(log.context)
    drawn = action_prob[np.arange(log.n_samples), log.action_idx] / log.propensity
    assert drawn.mean() == pytest.approx(1.0, abs=0.1)
    assert action_prob.max() < 0.6  # nothing is sharpened: the largest propensity is a half


def test_minutes_bound_the_race(tmp_path):
    result = train(race_config(tmp_path, include=None, minutes=1e-6))
    statuses = {entry.candidate: entry.status for entry in result.policy.leaderboard_}
    assert "not begun" in statuses.values()
    assert result.evaluation.rows


def test_callbacks_are_not_taken_by_a_race(tmp_path):
    with pytest.raises(ValueError, match="callbacks apply to boosting a single objective"):
        train(race_config(tmp_path), callbacks=[Interrupt(1, 1)])


def test_ctrl_c_in_a_race_keeps_the_best_so_far_and_judges_it(tmp_path, monkeypatch, said):
    def interrupted(self, n_rounds):
        raise KeyboardInterrupt

    monkeypatch.setattr("bopl.race.contender.Contender.advance", interrupted)
    result = train(race_config(tmp_path, include=("regression", "dr")))
    assert result.is_interrupted
    assert result.policy.is_interrupted_
    assert "Interrupted: the policy is the best of those trained so far." in said
    assert result.evaluation.rows
    assert (tmp_path / "policy.run" / "report.html").is_file()
    assert bopl.load(tmp_path / "policy.bopl").predict(click_table(20)).shape == (20,)


def test_ctrl_c_before_anything_has_raced_leaves_nothing(tmp_path, monkeypatch):
    def interrupted(*given, **more):
        raise KeyboardInterrupt

    monkeypatch.setattr("bopl.race.auto.make_panel", interrupted)
    with pytest.raises(KeyboardInterrupt):
        train(race_config(tmp_path))
    assert not (tmp_path / "policy.bopl").exists()
    assert not (tmp_path / "policy.run").exists()


def test_a_saved_policy_forgets_the_machine_and_the_fitted_one_does_not(tmp_path):
    policy = train(race_config(tmp_path)).policy
    seconds = [entry.seconds for entry in policy.leaderboard_]
    assert policy.n_jobs == 1
    assert policy.best_policy_.learner.n_jobs == 1
    assert all(one >= 0.0 for one in seconds)
    loaded = bopl.load(tmp_path / "policy.bopl")
    assert loaded.n_jobs is None
    assert loaded.progress is True
    assert loaded.best_policy_.learner.n_jobs is None
    assert all(np.isnan(entry.seconds) for entry in loaded.leaderboard_)
    assert [entry.uplift for entry in loaded.leaderboard_] == [entry.uplift for entry in policy.leaderboard_]


def test_the_file_of_a_blend_does_not_depend_on_the_threads(tmp_path):
    log = bopl.BanditLog.from_frame(click_table(400), action="item", reward="click", propensity="p", ignore=["user"])
    for n_jobs in (1, 2):
        parts = [
            bopl.BoostedPolicy(
                name,
                bopl.HistTree(3, n_jobs=n_jobs),
                n_rounds=3,
                reward_model=bopl.BoostedRewardModel(bopl.HistTree(3, n_jobs=n_jobs), n_rounds=3),
                progress=False,
                random_state=0,
            ).fit(log)
            for name in ("dr", "ips")
        ]
        without_machine(bopl.BlendedPolicy.of(parts)).save(tmp_path / f"{n_jobs}.bopl")
        assert parts[0].learner.n_jobs == n_jobs
    assert (tmp_path / "1.bopl").read_bytes() == (tmp_path / "2.bopl").read_bytes()


# -- Tuning -----------------------------------------------------------------------------------------------------------


def test_what_a_search_found_is_a_configuration_of_a_single_objective():
    config = TrainConfig("log.parquet", include=("dr",), exclude=("ips",), minutes=3.0)
    reward = np.array([0.0, 1.0, 1.0])
    found = {"n_rounds": 30, "max_depth": 4, "min_leaf_samples": 5.0, "learning_rate": 0.5, "translation_share": 1.0}
    assert set(search_space(config)) == {"objective", *found}
    for objective, translation in (("dr", 0.0), ("ips", -0.6667), ("surrogate", -0.6667)):
        made = apply_settings(config, {"objective": objective, **found}, reward)
        made.check().check_objective()
        assert (made.objective, made.reward_translation, made.learning_rate) == (objective, translation, 0.5)


@pytest.mark.parametrize(
    ("made", "kept", "sentence"),
    [
        (5, 5, "Boosting made all 5 rounds."),
        (4, 4, "Boosting made 4 rounds (the time limit was reached)."),
        (4, 2, "Boosting made 4 rounds (the time limit was reached); the first 2, the best, are kept."),
        (5, 0, "Boosting made all 5 rounds; none of them improved on the start."),
    ],
)
def test_how_boosting_ended_is_one_sentence(made, kept, sentence):
    fitted = SimpleNamespace(
        n_rounds=5,
        n_rounds_=kept,
        history_=SimpleNamespace(n_rounds=made),
        stop_reason_="the time limit was reached",
        ensemble_=SimpleNamespace(start=SimpleNamespace(predictors=())),
    )
    assert training._describe_training(fitted) == sentence
