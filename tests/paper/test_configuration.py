"""Settings files, policies built from them, plans."""

import tomllib
from dataclasses import replace
from importlib.resources import files

import pytest

import bopl
from bopl_paper.catalogue import (
    BOOSTED,
    COLUMNS,
    DATASETS,
    DEFAULT,
    FIGURE_METHODS,
    LOGGING,
    METHODS,
    NETWORKS,
    NOISY,
    NOISY_METHODS,
    PAPER_METHODS,
    SPLITS,
    read_config,
)
from bopl_paper.method import build_policy
from bopl_paper.task import Task, figure_plan, full_plan, identity, quick_plan, task_identity, without_done

TRAINED = [method for method in METHODS if method != "logging"]


@pytest.mark.parametrize("dataset", COLUMNS)
@pytest.mark.parametrize("method", TRAINED)
def test_every_dataset_and_method_has_settings_that_make_a_policy(dataset, method):
    config = read_config(dataset, method)
    policy = build_policy(method, config.policy, n_jobs=1, seed=3)
    assert policy.random_state == 3
    assert config.seconds > 0
    for name, (low, high) in config.search.items():
        assert low < high
        assert low <= config.policy[name] <= high, f"the paper selected {name} outside of its own range"


def test_the_papers_selected_values_are_those_of_its_table():
    assert read_config("covertype", "bopl-s-regr").policy == {
        "n_rounds": 600, "max_depth": 25, "min_child_weight": 200, "reg_lambda": 0.0, "reward_translation": -0.4,
    }  # fmt: skip
    assert read_config("fashion_mnist", "banditnet").policy["reward_translation"] == -0.42
    assert read_config("tmc2007_500_v1", "drr") == read_config("tmc2007_500", "drr")


def test_the_default_has_nothing_to_set():
    for dataset in COLUMNS:
        assert read_config(dataset, DEFAULT).policy == {}
    policy = build_policy(DEFAULT, {}, n_jobs=2, seed=5)
    assert isinstance(policy, bopl.AutoPolicy)
    assert policy.get_params() == bopl.AutoPolicy(n_jobs=2, progress=False, random_state=5).get_params()


def test_splits_and_noisy_rewards_keep_the_settings_of_their_data_with_xgboost_by_histogram():
    for method in METHODS:
        settings = read_config("scene", method).policy
        assert read_config(SPLITS, method).policy == settings
        changed = {"tree_method": "hist"} if method == "brr-xgb" else {}
        assert read_config("noisy_scene", method).policy == settings | changed
    for method in PAPER_METHODS:  # worlds have what the digits have, but for the scale of the contexts
        world, digits = (read_config(name, method).policy for name in ("noisy_world_50", "noisy_digits"))
        assert {name for name in world if world[name] != digits[name]} <= {"scaling"}


def test_noisy_columns_are_those_of_the_study_in_one_file():
    assert {COLUMNS[name].file for name in NOISY} == {"noisy"}
    assert [COLUMNS[name].title for name in NOISY] == [
        "Covertype", "Fashion-MNIST", "Scene", "TMC2007-500", "Digits", "50 actions", "200 actions",
    ]  # fmt: skip
    assert set(NOISY_METHODS) == {*METHODS, *LOGGING}


def test_class_variants_count_rows_and_regression_variants_weigh_them():
    settings = read_config("scene", "bopl-s-class").policy
    learner = build_policy("bopl-s-class", settings).learner
    assert isinstance(learner, bopl.HistTreeClassifier)
    assert (learner.min_samples_leaf, learner.min_child_weight) == (120, 0.0)
    learner = build_policy("bopl-s-regr", read_config("scene", "bopl-s-regr").policy).learner
    assert (learner.min_samples_leaf, learner.min_child_weight) == (1, 60)


def test_objectives_are_those_the_names_promise():
    found = {name: build_policy(name, read_config("figure", name).policy).objective for name in FIGURE_METHODS}
    kinds = {name: (type(objective), objective.smoothness) for name, objective in found.items()}
    surrogate = (bopl.objective.Surrogate, "paper")
    assert kinds == {"bopl-regr": (bopl.objective.IPS, "paper"), "bopl-s-regr": surrogate, "bopl-cs-regr": surrogate}
    assert read_config("figure", "bopl-cs-regr").policy["reward_translation"] == 0.0


def test_unknown_names_are_refused_with_those_that_are_known():
    with pytest.raises(ValueError, match="dataset must be one of 'covertype'"):
        read_config("mnist", "drr")
    with pytest.raises(ValueError, match="method must be one of 'logging'"):
        read_config("scene", "dqn")
    with pytest.raises(ValueError, match="method must be one of 'brr-gb'"):
        build_policy("logging", {})


def test_every_settings_file_is_read_by_somebody():
    found = {path.name for path in (files("bopl_paper") / "settings").iterdir()}
    assert found == {*(set(DATASETS) - {"tmc2007_500_v1"}), "digits", "world", "figure"}
    for folder in (files("bopl_paper") / "settings").iterdir():
        for path in folder.iterdir():
            assert {"seconds", "policy"} <= set(tomllib.loads(path.read_text()))


def test_full_plan_has_every_trial_once_and_groups_networks_only():
    plan = full_plan(list(DATASETS), list(METHODS), range(10), together=10, device="cuda")
    trials = [(task.dataset, task.method, trial) for task in plan for trial in task.trials]
    assert len(trials) == len(set(trials)) == 5 * 10 * 10
    assert {len(task.trials) for task in plan if task.method in NETWORKS} == {10}
    assert {len(task.trials) for task in plan if task.method not in NETWORKS} == {1}


def test_quick_plan_runs_scene_in_full_and_the_rest_small():
    plan = quick_plan(list(DATASETS), list(METHODS))
    full = [task for task in plan if task.n_samples is None]
    assert {(task.dataset, task.method, task.trials) for task in full} == {
        ("scene", method, (trial,)) for method in ("logging", *BOOSTED) for trial in range(3)
    }
    for task in full:
        changed = {"tree_method": "hist"} if task.method == "brr-xgb" else {}
        assert task.settings == read_config("scene", task.method).policy | changed
    assert all(task.settings.get("n_rounds", 0) <= 20 for task in plan if task.n_samples is not None)


def test_lines_that_are_there_are_not_computed_again_unless_the_settings_changed():
    task = Task("scene", "drr", (0, 1, 2), {"dropout": 0.1})
    line = {"dataset": "scene", "method": "drr", "trial": 1, "hyper_parameters": {"dropout": 0.1}, "n_samples": None}
    assert identity(line) == task_identity(task, 1)
    assert without_done([task], [line])[0].trials == (0, 2)
    assert without_done([task], [line | {"trial": trial} for trial in range(3)]) == []
    assert without_done([task], [line | {"hyper_parameters": {"dropout": 0.2}}])[0].trials == (0, 1, 2)
    assert without_done([task], [line | {"n_samples": 500}])[0].trials == (0, 1, 2)
    figure = figure_plan()[0]
    assert identity(line | {"gradient_norm": []})[4] is task_identity(figure, 0)[4] is True


def test_expected_time_follows_threads_trials_and_device():
    task = Task("scene", "drr", tuple(range(10)), threads=2, device="cpu", seconds=8.0)
    assert task.expected_seconds == 80.0
    assert replace(task, trials=(0,)).expected_seconds == 8.0
    assert replace(task, threads=1).expected_seconds == pytest.approx(128.0)
    assert 8.0 < replace(task, threads=8).expected_seconds < 40.0
    assert replace(task, device="cuda").expected_seconds == 8.0
    line = {"dataset": "scene", "method": "drr", "hyper_parameters": {}, "n_samples": None}
    (rest,) = without_done([task], [line | {"trial": trial} for trial in range(7)])
    assert rest.expected_seconds == pytest.approx(24.0)
