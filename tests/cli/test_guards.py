"""Guards on the command line: several of them, in one flag or in many, in every command that gives a verdict."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from product import ROLES, SMALL, click_table, run_bopl, run_json

ONE_FLAG = ("--guard", "revenue>=-50%,returns<=+80%")
TWO_FLAGS = ("--guard", "revenue>=-50%", "--guard", "returns<=+80%")
QUICK = ("--estimators", "snips")
FIT = (*SMALL, "--reward-translation", "-0.4", "--ignore", "user", *QUICK)


def write_log(path, seed):
    table, rng = click_table(1500, seed), np.random.default_rng([seed, 1])
    clicked = np.array(table["click"]) == 1
    table = table.append_column("revenue", pa.array(np.where(clicked, 5.0 + rng.random(1500), 0.0)))
    pq.write_table(table.append_column("returns", pa.array((rng.random(1500) < 0.2).astype(float))), path)
    return path


@pytest.fixture(scope="module")
def chain(tmp_path_factory):
    """A log with two other rewards, a policy that was trained on it, and a later log."""
    folder = tmp_path_factory.mktemp("guards")
    log, later = write_log(folder / "log.parquet", 0), write_log(folder / "later.parquet", 1)
    assert run_bopl("train", log, *ROLES, *FIT, *TWO_FLAGS, "--out", folder / "policy.bopl") == 0
    return folder, later


def guarded(evaluation):
    return [one["guard"] for one in evaluation["guards"]]


def test_every_command_takes_several_guards_in_one_flag_or_in_many(chain, capsys):
    folder, later = chain
    policy = folder / "policy.bopl"
    for given in (ONE_FLAG, TWO_FLAGS):
        _, result = run_json(capsys, "evaluate", later, policy, *QUICK, *given)
        assert guarded(result) == ["revenue>=-50%", "returns<=+80%"]
    _, result = run_json(capsys, "backtest", later, *ROLES, *FIT, *TWO_FLAGS, "--time", "when", "--periods", 1)
    assert guarded(result["evaluation"]) == ["revenue>=-50%", "returns<=+80%"]
    assert run_bopl("report", later, policy, *QUICK, *TWO_FLAGS, "--out", folder / "page.html") == 0
    for page in (folder / "page.html", folder / "policy.run" / "report.html"):
        assert "revenue" in page.read_text("utf8")
        assert "returns" in page.read_text("utf8")


def test_the_configuration_of_a_run_keeps_all_guards_and_flags_replace_them(chain, capsys, tmp_path):
    folder, _ = chain
    config = folder / "policy.run" / "config.toml"
    assert 'guard = ["revenue>=-50%", "returns<=+80%"]' in config.read_text()
    code, result = run_json(
        capsys, "train", "--config", config, "--guard", "revenue>=0", "--out", tmp_path / "policy.bopl"
    )
    assert code == 0
    assert guarded(result["evaluation"]) == ["revenue>=+0"]


def test_other_lists_may_be_repeated_too(chain, capsys):
    folder, later = chain
    _, result = run_json(
        capsys, "evaluate", later, folder / "policy.bopl", "--estimators", "snips", "--estimators", "ips"
    )
    assert {row["estimator"] for row in result["rows"]} == {"snips", "ips"}


@pytest.mark.parametrize(
    ("guard", "says"),
    [
        ("nothing>=0", "there is no column 'nothing' (given as guard)"),
        ("click>=0", "guard='click'"),
        ("age>=0", "guard 'age' must be finite"),
    ],
)
def test_messages_speak_of_the_guard_that_was_given(chain, capsys, guard, says):
    folder, later = chain
    code, result = run_json(capsys, "evaluate", later, folder / "policy.bopl", "--guard", guard)
    assert code in (1, 2)
    assert says in result["error"]


def test_several_policies_are_compared_with_each_other(chain, capsys, tmp_path):
    folder, later = chain
    others = []
    for seed in (1, 2):
        others.append(tmp_path / f"other{seed}.bopl")
        given = (*FIT, "--ignore", "revenue,returns", "--random-state", seed, "--n-rounds", 2)
        assert run_bopl("train", folder / "log.parquet", *ROLES, *given, "--out", others[-1]) in (0, 4)
    given = ("evaluate", later, folder / "policy.bopl", *others, *QUICK)
    _, result = run_json(capsys, *given, "--head-to-head")
    pairs = [(one["policy"], one["other"]) for one in result["comparisons"]]
    assert pairs == [("policy", "other1"), ("policy", "other2"), ("other1", "other2")]
    run_bopl(*given, "--head-to-head")
    assert "compared with" in capsys.readouterr().out
    code, result = run_json(capsys, "evaluate", later, folder / "policy.bopl", "--head-to-head")
    assert (code, result["error"][:40]) == (2, "a comparison needs at least two policies")
    code, result = run_json(capsys, *given[:-3], "--head-to-head", "--against", others[1])
    assert (code, "give only one of the two" in result["error"]) == (2, True)


def test_a_verdict_says_which_smallest_uplift_it_meets(chain, capsys):
    folder, later = chain
    code, result = run_json(capsys, "evaluate", later, folder / "policy.bopl", *QUICK, "--min-uplift", "2%")
    assert code == 0
    least = 0.02 * result["logging_value"]
    assert f"which is more than the {least:.4g} asked for." in result["decisions"][0]["reason"]


def test_a_guard_that_is_given_twice_is_refused(chain, capsys):
    folder, later = chain
    given = ("--guard", "revenue>=-50%", "--guard", "revenue>=0")
    code, result = run_json(capsys, "evaluate", later, folder / "policy.bopl", *given)
    assert code == 2
    assert "'revenue' is guarded more than once" in result["error"]
