"""`bopl plan`: how many decisions are needed, and whether more data would help."""

from itertools import pairwise

import numpy as np
import pytest

import bopl
from bopl.workflow.file_plan import nested_parts
from helpers import informative_log
from product import ROLES, SMALL, click_table, run_bopl, run_json, write_log

CURVE = ("--curve", "--n-rounds", "5", "--n-jobs", "1", "--ignore", "user,when")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("plan")
    log = write_log(folder / "log.parquet", n_samples=2000)
    write_log(folder / "later.parquet", n_samples=1500, seed=1)
    assert run_bopl("train", log, *ROLES, *SMALL, "--ignore", "user,when", "--out", folder / "policy.bopl") == 0
    return folder


def test_the_plan_of_a_policy_file_is_that_of_the_library(folder, capsys):
    code, answer = run_json(capsys, "plan", folder / "later.parquet", folder / "policy.bopl", "--min-uplift", 0.01)
    log = bopl.BanditLog.from_frame(
        click_table(1500, 1),
        action="item",
        reward="click",
        propensity="p",
        schema=bopl.load(folder / "policy.bopl").schema_,
    )
    (row,) = bopl.evaluation.plan(log, {"policy": bopl.load(folder / "policy.bopl")}, min_uplift=0.01).rows
    (found,) = answer["plan"]
    assert found["n_for_min_uplift"] == pytest.approx(row["n_for_min_uplift"])
    assert found["uplift"] == pytest.approx(row["uplift"])
    assert (code, answer["is_enough"]) == (4, False)  # 1,500 decisions do not tell 0.01


def test_an_uplift_that_the_log_tells_is_exit_code_0(folder, capsys):
    assert run_bopl("plan", folder / "later.parquet", folder / "policy.bopl", "--min-uplift", "60%") == 0
    assert "and there are enough" in capsys.readouterr().out
    assert run_bopl("plan", folder / "later.parquet", folder / "policy.bopl") == 0
    assert "policy: if the estimate is right, an uplift of +" in capsys.readouterr().out


def test_a_share_is_of_what_is_earned_now(folder, capsys):
    _, answer = run_json(capsys, "plan", folder / "later.parquet", *ROLES, "--min-uplift", "10%")
    assert answer["min_uplift"] == pytest.approx(0.1 * answer["logging_value"])


def test_before_there_is_a_policy_every_action_is_planned_for(folder, capsys):
    code, answer = run_json(capsys, "plan", folder / "log.parquet", *ROLES)
    assert (code, answer["curve"]) == (0, None)
    assert [row["policy"] for row in answer["plan"]] == ["always milk", "always tea", "always water"]
    run_bopl("plan", folder / "log.parquet", *ROLES)
    assert "plan again once you have a policy file" in capsys.readouterr().out


def test_more_power_takes_more_decisions(folder, capsys):
    call = ("plan", folder / "later.parquet", folder / "policy.bopl", "--min-uplift", 0.01)
    needed = [run_json(capsys, *call, "--power", power)[1]["plan"][0]["n_for_min_uplift"] for power in (0.5, 0.8, 0.95)]
    assert needed == sorted(needed)


def test_the_curve_trains_on_growing_parts_and_judges_on_the_same_samples(folder, capsys):
    code, answer = run_json(capsys, "plan", folder / "log.parquet", *ROLES, *CURVE)
    assert code == 0
    assert [point["n_trained"] for point in answer["curve"]["points"]] == [200, 400, 800, 1600]
    assert {row["n"] for row in answer["plan"]} == {answer["curve"]["n_held_out"]} == {400}
    assert answer["curve"]["gain_ci_lower"] < answer["curve"]["gain"] < answer["curve"]["gain_ci_upper"]


def test_the_curve_can_race_and_says_what_to_make_of_it(tmp_path, capsys):
    more = ("--curve", "--include", "regression", "--n-jobs", 1, "--ignore", "user,when")
    assert run_bopl("plan", write_log(tmp_path / "log.parquet", n_samples=900), *ROLES, *more) == 0
    assert "ore data would" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--min-uplift", "much"), "min_uplift must be a positive number, or a share such as '1%'; got 'much'."),
        (("--min-uplift", "0"), "min_uplift must be a positive number"),
        (("--power", "1"), "power must"),
        (("--n-rounds", "5"), "--n-rounds has no effect here: only a learning curve trains."),
        (("--inverse-temperature", "2"), "--inverse-temperature has no effect here: there is no policy."),
        (("--curve", "--max-depth", "3", "--minutes", "1"), "max_depth has no effect here: the race chooses"),
    ],
)
def test_wrong_use_is_one_sentence(folder, capsys, arguments, sentence):
    assert run_bopl("plan", folder / "log.parquet", *ROLES, *arguments) == 2
    assert sentence in capsys.readouterr().err


def test_a_curve_takes_no_policy_files(folder, capsys):
    assert run_bopl("plan", folder / "log.parquet", folder / "policy.bopl", "--curve") == 2
    assert "--curve trains its own policies" in capsys.readouterr().err


def test_a_log_that_is_too_small_for_a_curve_is_told_so(tmp_path, capsys):
    log = write_log(tmp_path / "small.parquet", n_samples=120)
    assert run_bopl("plan", log, *ROLES, *CURVE) == 1
    assert "too small for a learning curve" in capsys.readouterr().err


def test_parts_are_nested_and_keep_groups_whole():
    log = informative_log(n_samples=400)
    group = np.arange(400) // 7
    grouped = bopl.BanditLog(log.context, log.action, log.reward, log.propensity, group=group)
    parts = [set(map(tuple, part.context)) for part in nested_parts(grouped, 0)]
    assert all(small < large for small, large in pairwise(parts))
    assert len(parts[-1]) == 400
    whole = {number: set(map(tuple, log.context[group == number])) for number in range(58)}
    assert all(rows <= parts[0] or not rows & parts[0] for rows in whole.values())
