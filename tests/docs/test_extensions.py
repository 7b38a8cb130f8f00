"""Extensions from outside, each an example of at most thirty lines, are held to what is asked of our own."""

from importlib import import_module

import numpy as np
import pytest

import bopl
from bopl.testing import check_estimator, check_learner, check_objective, check_policy, random_log


def test_the_doubly_robust_variant_runs_and_keeps_the_promises(run, capsys):
    names = run("custom_dr")
    assert capsys.readouterr().out.count("true reward 0.9") == 2
    check_objective(names["SwitchObjective"](0.2), n_logs=4)


def test_the_doubly_robust_variant_is_dr_where_every_action_was_likely_enough(run):
    log = random_log(0)
    switch, dr = (
        bopl.BoostedPolicy(one, n_rounds=3, random_state=0).fit(log)
        for one in (run("custom_dr", "example")["SwitchObjective"](1e-9), "dr")
    )
    np.testing.assert_allclose(switch.history_["objective_risk"], dr.history_["objective_risk"], rtol=0.2)


def test_the_clipped_estimator_gets_the_verdict_of_ours(run):
    rows = run("custom_clip")["evaluation"].rows
    for name in ("value", "uplift", "uplift_ci_lower", "uplift_ci_upper", "verdict", "reason"):
        assert rows[0][name] == rows[1][name]
    assert rows[0]["verdict"] == "not trustworthy"
    assert bopl.evaluation.ESTIMATORS["trimmed_ips"]().name == "trimmed_ips"


def test_the_clipped_and_the_baseline_estimator_keep_the_promises(run):
    check_estimator(run("custom_clip", "example")["TrimmedIPS"]())
    check_estimator(run("custom_estimator", "example")["BaselineIPS"]())


def test_the_interval_is_wider_than_the_normal_one_and_known_by_name(run):
    names = run("custom_interval", "example")
    log = random_log(0, n_samples=200)
    prob = np.full((200, log.n_actions), 1.0 / log.n_actions)
    normal, wide = (
        bopl.evaluate(log, {"new": prob}, estimators="ips", interval=kind).row() for kind in ("normal", "chebyshev")
    )
    assert wide["uplift_ci_upper"] - wide["uplift"] > normal["uplift_ci_upper"] - normal["uplift"]
    assert bopl.evaluation.INTERVALS["chebyshev"] is names["Chebyshev"]
    for kind in ("bootstrap", "chebyshev"):
        pair = bopl.evaluate(log, {"a": prob, "b": log.propensity}, estimators="ips", interval=kind, head_to_head=True)
        assert f"Guards, segments and comparisons have normal intervals, not {kind} ones." in pair.notes


def test_the_learner_and_the_objective_of_twenty_lines_keep_the_promises(run):
    check_learner(run("custom_learner", "example")["RidgeByAction"]())
    check_objective(run("custom_objective", "example")["ClippedObjective"](), n_logs=2)


def test_the_policy_is_saved_loaded_and_decides(run, capsys):
    run("custom_policy")
    assert "true reward 0.8" in capsys.readouterr().out
    check_policy(import_module("custom_policy").RidgePolicy())  # of a module that pickle finds


def test_a_file_whose_coefficients_do_not_fit_is_refused(run, tmp_path):
    policy = run("custom_policy", "example")["RidgePolicy"]().fit(random_log(0))
    policy.coef_ = policy.coef_[:-1]
    policy.save(tmp_path / "bad.bopl")
    with pytest.raises(ValueError, match="coefficients do not match"):
        bopl.load(tmp_path / "bad.bopl")


def test_the_format_is_told_by_its_extension_and_named(run):
    log = run("custom_format")["log"]
    assert log.n_samples == 3
    assert log.origin.format == "Text with bars"
    with pytest.raises(TypeError, match="needs either read_table or read_log"):
        bopl.log.format.register_format(bopl.log.format.LogFormat("none", "None"))
