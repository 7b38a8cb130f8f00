"""Backtests: every sample is judged by a policy that has seen nothing of its time or later."""

import datetime as dt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import bopl
from bopl._errors import UsageError
from bopl.evaluation import ValueAccumulator
from bopl.workflow.backtest import backtest, backtest_file
from bopl.workflow.config import TrainConfig
from bopl.workflow.periods import PeriodPlan, read_length
from product import ROLES, SMALL, run_bopl, run_json, write_log


def make_log(n_samples=1200, *, time=None, group=None, signal=True, seed=0):
    rng = np.random.default_rng(seed)
    context, action = rng.normal(size=(n_samples, 2)), rng.integers(0, 2, n_samples)
    is_best = action == (context[:, 0] > 0)
    reward = (rng.random(n_samples) < 0.3 + 0.4 * (is_best & signal)).astype(float)
    time = np.arange(n_samples) if time is None else time
    return bopl.BanditLog(context, action, reward, np.full(n_samples, 0.5), actions=[0, 1], time=time, group=group)


def small_policy():
    return bopl.BoostedPolicy("ips", bopl.HistTree(2, n_jobs=1), 5, progress=False, random_state=0)


class Watching:
    """A policy that remembers what it was fitted on, and is asked about."""

    seen = ()

    def get_params(self, deep=True):
        return {}

    def set_params(self, **params):
        return self

    def fit(self, log):
        self.log = log
        Watching.seen = (*Watching.seen, log)
        return self

    def predict_proba(self, context):
        later = len(Watching.seen)  # another policy in every period
        return np.tile([1.0 / (1 + later), later / (1 + later)], (len(context), 1))


@given(st.lists(st.integers(0, 30), min_size=8, max_size=60), st.integers(1, 5), st.booleans(), st.data())
def test_no_policy_sees_the_time_it_is_judged_on_nor_its_groups(times, n_periods, has_groups, data):
    group = data.draw(st.lists(st.integers(0, 20), min_size=len(times), max_size=len(times))) if has_groups else None
    log = make_log(len(times), time=times, group=group)
    try:
        divisions = PeriodPlan(n_periods).divide(log)
    except ValueError:
        return
    judged = np.concatenate([one.test for one in divisions])
    assert len(np.unique(judged)) == len(judged)
    assert len(divisions) == n_periods
    for one in divisions:
        assert log.time[one.train].max() < log.time[one.test].min()
        if has_groups:
            assert not set(log.group[one.train]) & set(log.group[one.test])
    assert (log.time[np.setdiff1d(np.arange(len(log)), judged)] < log.time[judged].min()).all()


def test_the_verdict_is_that_of_one_policy_made_of_all_and_the_shards_merge_to_it():
    Watching.seen = ()
    log = make_log(600)
    result = backtest(log, Watching(), n_periods=3, estimators=["snips", "ips"])
    assert [period.split.train.n_samples for period in result.periods] == [150, 300, 450]
    assert [len(part) for part in Watching.seen] == [150, 300, 450]
    merged = ValueAccumulator({"policy": None}, estimators=["snips", "ips"])
    for number, rows in enumerate((slice(150, 300), slice(300, 450), slice(450, 600)), 1):
        share = number / (1 + number)
        merged.add(log.subset(rows), policies={"policy": np.tile([1 - share, share], (150, 1))})
    for estimator in ("snips", "ips"):
        found, wanted = (one.row("policy", estimator) for one in (result.evaluation, merged.result()))
        for name in ("value", "uplift", "uplift_ci_lower", "uplift_ci_upper", "n", "verdict"):
            assert (
                found[name] == pytest.approx(wanted[name], rel=1e-9)
                if name != "verdict"
                else found[name] == wanted[name]
            )


def test_a_signal_is_found_and_none_is_not():
    found = backtest(make_log(2000), small_policy(), n_periods=3)
    assert found.row["verdict"] == "better"
    assert found.evaluation.rows[0]["n"] == 1500
    assert str(found).splitlines()[-1].startswith("All: better (dr). It earns")
    assert len(str(found).splitlines()) == 4
    nothing = backtest(make_log(2000, signal=False), small_policy(), n_periods=3, estimators=["snips"])
    assert nothing.row["verdict"] != "better"


def test_the_race_is_the_default():
    result = backtest(make_log(400), n_periods=1, estimators=["snips"])
    assert result.periods[0].about  # what the leaderboard says


def test_groups_in_a_period_are_dropped_from_its_training_part_and_counted():
    group = np.random.default_rng(1).integers(0, 300, 1200)
    result = backtest(make_log(group=group), small_policy(), n_periods=2, estimators=["snips"])
    assert all(period.split.n_dropped > 0 for period in result.periods)
    assert result.to_dict()["periods"][1]["split"]["n_dropped"] == result.periods[1].split.n_dropped


# -- Periods ----------------------------------------------------------------------------------------------------------

HOURS = np.datetime64("2024-05-01T07:30") + np.arange(0, 28 * 24, 1) * np.timedelta64(1, "h")


@pytest.mark.parametrize("week", ["7d", "1w", "168h", dt.timedelta(days=7), np.timedelta64(7, "D")])
def test_periods_of_a_week_begin_at_midnight_of_the_first_day(week):
    log = make_log(len(HOURS), time=HOURS)
    divisions = PeriodPlan(every=week).divide(log)
    firsts = [log.time[one.test].min() for one in divisions]
    assert [str(one) for one in firsts] == [
        "2024-05-08T00:30",
        "2024-05-15T00:30",
        "2024-05-22T00:30",
        "2024-05-29T00:30",
    ]
    assert [len(one.train) for one in divisions] == [161, 161 + 168, 161 + 2 * 168, 161 + 3 * 168]
    last = PeriodPlan(2, every=week).divide(log)
    assert [one.test.tolist() for one in last] == [one.test.tolist() for one in divisions[2:]]


def test_a_window_bounds_the_past():
    log = make_log(len(HOURS), time=HOURS)
    for one in PeriodPlan(every="7d", window="2d").divide(log)[1:]:
        assert len(one.train) == 48
        assert log.time[one.train].max() < log.time[one.test].min()
    numbers = make_log(1000)
    assert [len(one.train) for one in PeriodPlan(3, window=100).divide(numbers)] == [100] * 3
    assert [len(one.test) for one in PeriodPlan(every=300).divide(numbers)] == [300, 300, 100]


def test_periods_with_next_to_nothing_before_them_only_train():
    log = make_log(len(HOURS), time=HOURS)
    divisions = PeriodPlan(every="1d").divide(log)
    assert len(divisions[0].train) >= 100
    assert len(divisions) == 24


@pytest.mark.parametrize(
    ("plan", "error", "says"),
    [
        (PeriodPlan(every="7"), UsageError, "every must be a length of time such as '7d'"),
        (PeriodPlan(every="0d"), UsageError, "every must be a positive length of time"),
        (PeriodPlan(every="soon"), UsageError, "every must be a positive length of time"),
        (PeriodPlan(window="7y"), UsageError, "window must be a length of time such as '7d'"),
        (PeriodPlan(every="60d"), ValueError, "no period of every=60d has 100 samples before it"),
        (PeriodPlan(0), ValueError, "n_periods"),
        (PeriodPlan(10**30), ValueError, "allow only [0-9]+ periods, not 1000"),
        (PeriodPlan(len(HOURS) + 100), ValueError, "there are too few samples"),
        (PeriodPlan(every="0.0000001s"), UsageError, "every must lie between a microsecond and"),
        (PeriodPlan(window=f"{'9' * 30}d"), UsageError, "window must lie between a microsecond and"),
    ],
)
def test_periods_that_cannot_be_are_refused(plan, error, says):
    with pytest.raises(error, match=says):
        plan.divide(make_log(len(HOURS), time=HOURS))


def test_logs_that_cannot_be_divided_are_refused():
    with pytest.raises(ValueError, match="the times of this log allow only 1 periods, not 4"):
        PeriodPlan().divide(make_log(100, time=[1] * 50 + [2] * 50))
    untimed = bopl.BanditLog([[0.0]] * 4, [0, 1] * 2, [1.0] * 4, [0.5] * 4)
    with pytest.raises(UsageError, match="a backtest needs the time of each decision"):
        PeriodPlan().divide(untimed)
    with pytest.raises(ValueError, match="every group with samples before"):
        PeriodPlan(2).divide(make_log(100, group=[0, 1] * 50))
    with pytest.raises(UsageError, match="every must be a number, as the times of this log are numbers"):
        read_length("7d", np.arange(3), "every")


def test_columns_that_drift_are_named_period_by_period(said):
    log = make_log(1200)
    context = log.context.copy()
    context[:, 1] = np.where(np.arange(1200) < 800, context[:, 1], context[:, 1] + 2.0)  # in the second period alone
    moved = bopl.BanditLog(
        context, log.action, log.reward, log.propensity, actions=[0, 1], time=log.time, feature_names=["a", "b"]
    )
    result = backtest(moved, small_policy(), n_periods=2, estimators=["snips"])
    assert [[one.column for one in period.drift] for period in result.periods] == [[], ["b"]]
    lines = [line for line in said if str(line).startswith("Drift: The held-out part differs")]
    assert len(lines) == 1
    assert "'b'" in lines[0]
    assert said.index(lines[0]) > next(place for place, line in enumerate(said) if "Period 2 of 2" in str(line))
    assert [one["column"] for one in result.to_dict()["periods"][1]["drift"]] == ["b"]


# -- The command ------------------------------------------------------------------------------------------------------


def test_the_command_prints_a_line_per_period_and_one_verdict(tmp_path, capsys):
    log = write_log(tmp_path / "log.parquet", n_samples=1500)
    given = ("backtest", log, *ROLES, "--time", "when", *SMALL, "--reward-translation", "-0.4", "--ignore", "user")
    code, result = run_json(capsys, *given, "--periods", "2", "--estimators", "snips")
    assert (code, result["verdict"], result["exit_code"]) == (0, "better", 0)
    assert [period["split"]["test"]["n_samples"] for period in result["periods"]] == [500, 500]
    assert result["evaluation"]["rows"][0]["n"] == 1000
    assert run_bopl(*given, "--every", "7d", "--periods", "1", "--window", "10d", "--estimators", "snips") == 0
    printed = capsys.readouterr().out
    assert "Period 1 of 1. Held out:" in printed
    assert "Verdict: better (snips)." in printed
    assert "trained on" in printed
    assert sorted(path.name for path in tmp_path.iterdir()) == ["log.parquet"]  # nothing is written


def test_the_command_refuses_in_one_sentence(tmp_path, capsys):
    log = write_log(tmp_path / "log.parquet", n_samples=300)
    code, result = run_json(capsys, "backtest", log, *ROLES)
    assert (code, "needs the time of each decision" in result["error"]) == (2, True)
    code, result = run_json(capsys, "backtest", log, *ROLES, "--time", "when", "--every", "3x")
    assert (code, "every must be a length of time" in result["error"]) == (2, True)


def test_ctrl_c_leaves_the_periods_so_far(monkeypatch, tmp_path):
    log = write_log(tmp_path / "log.parquet", n_samples=900)
    config = TrainConfig(log=log, action="item", reward="click", propensity="p", time="when", estimators=("snips",))
    calls = []

    def fake_race(config, part, clock, *, progress, level):
        calls.append(config.minutes)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return small_policy().fit(part), False

    monkeypatch.setattr("bopl.workflow.backtest.race", fake_race)
    result = backtest_file(TrainConfig(**{**vars(config), "minutes": 8.0}), PeriodPlan(4))
    assert (result.is_interrupted, len(result.periods), calls) == (True, 1, [2.0, 2.0])
    assert result.evaluation.rows[0]["n"] == 180
