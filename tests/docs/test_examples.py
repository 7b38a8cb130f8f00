"""The examples run, and what they say about themselves is true."""

import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import bopl
from bopl.objective import TrainingData
from bopl.objective.softmax import log_softmax
from bopl.serving.promotion import status
from bopl.simulation.shop import BANNERS
from helpers import make_log

EXAMPLES = Path(__file__).parents[2] / "examples"
SUITES = ("test_examples.py", "test_extensions.py")
OUTSIDE = ("dr", "clip", "policy", "format")  # extensions of thirty lines


def test_every_example_is_run_by_a_test():
    own = "".join((Path(__file__).parent / name).read_text(encoding="utf8") for name in SUITES)
    tested = set(re.findall(r'run\("(\w+)"', own)) | {"cluster"}
    assert tested == {path.stem for path in EXAMPLES.glob("*.py")}


def test_make_clicks_writes_a_log_without_problems(run, tmp_path):
    make_clicks = run("make_clicks")["make_clicks"]
    log = bopl.BanditLog.from_parquet("clicks.parquet", action="item", reward="click", propensity="p", group="user")
    assert log.n_samples == make_clicks().num_rows
    assert log.audit().problems == ()


def test_own_log_ends_with_a_better_policy_in_a_file(run, tmp_path):
    names = run("own_log")
    assert {row["verdict"] for row in names["evaluation"].rows} == {"better"}
    assert (tmp_path / "policy.bopl").is_file()
    assert ((names["propensity"] > 0.0) & (names["propensity"] <= 1.0)).all()


def test_compare_policies_finds_the_policies_that_are_really_better(run):
    reward = run("compare_policies")["true_reward"]
    assert min(reward["BOPL"], reward["BOPL-S"]) > reward["reward regression"] > reward["uniform"]


def test_no_propensities_are_refused_and_estimates_are_named_in_every_row(run, capsys):
    names = run("no_propensities")
    assert capsys.readouterr().out.startswith("Refused: propensity is missing")
    assert all("estimated propensities" in row["reason"] for row in names["evaluation"].rows)


def test_several_loggers_share_one_log(run):
    names = run("several_loggers")
    assert names["log"].propensity_source == "balanced"
    assert names["evaluation"].row()["verdict"] == "better"


def test_masks_and_features_choose_among_what_is_left(run):
    assert run("masks_and_features")["choice"] in (3, 8, 21)


# -- Extensions are held to what is asked of our own -----------------------------------------------------------------


def test_custom_objective_runs(run, capsys):
    run("custom_objective")
    assert len(re.findall(r"true reward 0\.9", capsys.readouterr().out)) == 2


@pytest.mark.parametrize("seed", range(3))
def test_custom_objective_has_the_gradient_the_smoothness_and_the_optimum_it_declares(run, seed):
    log, rng = make_log(seed, n_samples=8), np.random.default_rng(seed)
    bound = run("custom_objective", "example")["ClippedObjective"](clip=3.0).bind(TrainingData(log))
    score = rng.normal(size=(log.n_samples, log.n_actions))

    def risk(score):
        return log.n_samples * bound.risk(log_softmax(score))

    gradient = bound.gradient(log_softmax(score))
    for cell in np.ndindex(score.shape):
        move = np.zeros_like(score)
        move[cell] = 1e-6
        assert gradient[cell] == pytest.approx((risk(score - move) - risk(score + move)) / 2e-6, abs=1e-6)
    for scale in (0.1, 1.0, 10.0):
        move = scale * rng.normal(size=score.shape)
        limit = -np.sum(gradient * move) + 0.5 * np.sum(bound.curvature * (move**2).sum(axis=1))
        assert risk(score + move) - risk(score) <= limit + 1e-9
        assert risk(score + move) >= log.n_samples * bound.optimal_risk() - 1e-9


def test_custom_objective_is_the_built_in_one_with_clipped_weights(run):
    log = make_log(0)
    data, log_prob = TrainingData(log), log_softmax(np.random.default_rng(0).normal(size=(log.n_samples, 4)))
    custom = run("custom_objective", "example")["ClippedObjective"](clip=8.0).bind(data)
    ours = bopl.objective.IPS(weight=bopl.objective.Clipped(1 / 8)).bind(data)
    np.testing.assert_allclose(custom.gradient(log_prob), ours.gradient(log_prob), rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(custom.curvature, ours.curvature)


def test_a_policy_saved_with_a_custom_objective_remembers_its_settings(run, tmp_path):
    objective = run("custom_objective", "example")["ClippedObjective"](clip=3.0)
    bopl.BoostedPolicy(objective, n_rounds=2, random_state=0).fit(make_log(0)).save(tmp_path / "policy.bopl")
    assert bopl.load(tmp_path / "policy.bopl").objective == objective


def test_the_history_bounds_the_risk_of_a_custom_objective(run):
    objective = run("custom_objective", "example")["ClippedObjective"](clip=3.0)
    policy = bopl.BoostedPolicy(objective, n_rounds=8, random_state=0).fit(make_log(0, n_samples=200))
    history = policy.history_
    assert not np.allclose(history.objective_risk, history["empirical_risk"])
    assert (history.objective_risk <= history["recursive_bound"] + 1e-9).all()
    assert (history.objective_risk <= history["theorem_bound"] + 1e-9).all()
    assert history.plot().axes[0].lines[0].get_label() == "clipped risk"


@pytest.mark.parametrize(
    ("part", "least", "most"),
    [*((one, 11, 20) for one in ("objective", "learner", "estimator")), *((one, 4, 30) for one in OUTSIDE)],
)
def test_twenty_or_thirty_lines_are_enough(part, least, most):
    text = (EXAMPLES / f"custom_{part}.py").read_text(encoding="utf8")
    shown = text.split(f"[start:{part}]")[1].split("# --8<-- [end")[0].splitlines()
    assert least <= sum(bool(line.strip()) for line in shown) <= most


def test_custom_learner_is_saved_and_loaded_to_the_same_scores(run, tmp_path):
    names = run("custom_learner")
    policy, loaded, problem = names["policy"], names["loaded"], names["problem"]
    context = problem.test.context
    np.testing.assert_array_equal(loaded.decision_function(context), policy.decision_function(context))
    assert problem.true_value(policy) > problem.logging_value


def test_a_file_with_coefficients_of_the_wrong_shape_is_refused(run):
    unpack = run("custom_learner", "example")["unpack"]
    with pytest.raises(ValueError, match="coefficients do not match"):
        unpack({}, {"coef": np.zeros((1, 3, 2))}, n_features=5, by_action=np.eye(2))


def test_custom_estimator_covers_the_truth_and_says_which_baseline_it_took(run):
    names = run("custom_estimator")
    row, world = names["evaluation"].row(estimator="baseline_ips"), names["world"]
    assert row["ci_lower"] < world.value < row["ci_upper"]
    assert any(note.startswith("baseline_ips of 'new': baseline = 0.4") for note in names["evaluation"].notes)


def test_custom_estimator_gives_the_logging_policy_no_uplift(run):
    estimator = run("custom_estimator", "example")["BaselineIPS"]()
    log = make_log(0)
    row = bopl.evaluate(log, {"same": log.propensity}, estimators=[estimator]).row()
    assert (row["uplift"], row["uplift_ci_lower"], row["uplift_ci_upper"]) == (0.0, 0.0, 0.0)


def small_visits(n_visits, seed):
    """Visits of a shop in which few of them tell who likes what."""
    rng = np.random.default_rng(seed)
    kind, age = rng.integers(0, len(BANNERS), n_visits), rng.normal(40.0, 12.0, n_visits)
    chance = np.where(np.arange(len(BANNERS)) == kind[:, None], 0.9, 0.15)
    return [
        {"kind": f"k{one}", "age": None if years < 30.0 else float(years), "is new": bool(years > 50.0)}
        for one, years in zip(kind, age, strict=True)
    ], chance


def test_the_loop_earns_more_with_every_generation_and_every_decision_is_found_again(run, tmp_path, capsys):
    loop = run("loop", "loop")
    train = {"objective": "dr", "n_rounds": 10, "max_depth": 3, "n_jobs": 1, "estimators": ("ips", "snips")}
    told = {"exploration": 0.2, "ramp": (0.5, 1.0), "random_state": 3, "time_budget_ms": 1e5, "train": train}
    settings = replace(loop["SETTINGS"], min_decisions=300, **told)
    values = loop["run_loop"](
        tmp_path / "shop",
        generations=2,
        n_visits=450,
        max_days=10,
        settings=settings,
        draw=small_visits,
        n_clients=1,  # so that decisions come in one order
    )
    assert len(values) == 3
    assert values == sorted(values)
    assert values[-1] > values[0] + 0.2
    log = bopl.BanditLog.read(tmp_path / "shop" / "log")
    assert log.audit().problems == ()
    found = loop["watch"](tmp_path / "shop")
    assert found.n_mismatches == 0
    assert found.n_replayed == log.n_samples
    standing = status(tmp_path / "shop")
    assert standing.rewards["late"] > 0
    assert log.reward.sum() == standing.rewards["ok"]  # told twice, counted once; told late, never counted


@pytest.mark.slow  # tests/cluster kills workers, too, and tests/boosting compares the bytes
def test_cluster_ends_with_the_same_bytes_after_a_worker_was_killed(tmp_path):
    """In a process of its own: its workers import the script."""
    pytest.importorskip("distributed")
    environment = os.environ | {"BOPL_CACHE": str(tmp_path / "cache")}
    command = [sys.executable, "-W", "error::RuntimeWarning", str(EXAMPLES / "cluster.py")]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("the same bytes") == 4
    assert "DIFFERENT" not in done.stdout
