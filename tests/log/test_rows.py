"""Which rows become a log: conditions, invalid rows, copies; and what is said of those left out."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import bopl
from bopl._errors import UsageError
from bopl.log.instant import unreadable_times
from product import run_json

ROLES = {"action": "item", "reward": "click", "propensity": "p"}


def clicks(n_samples=400, seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "country": rng.choice(["DE", "FR", "IT"], n_samples),
            "day": rng.integers(0, 7, n_samples),
            "age": np.where(rng.random(n_samples) < 0.2, np.nan, rng.normal(40, 10, n_samples)),
            "is_new": rng.random(n_samples) < 0.5,
            "when": pd.date_range("2024-05-01", periods=n_samples, freq="h"),
            "user id": rng.integers(0, 50, n_samples),
            "item": rng.choice(list("abc"), n_samples),
            "click": rng.random(n_samples),
            "p": 1 / 3,
        }
    )


FRAME = clicks()
CONDITIONS = {
    "country == 'DE' and day >= 3": (FRAME.country == "DE") & (FRAME.day >= 3),
    "country in ('DE', 'FR')": FRAME.country.isin(["DE", "FR"]),
    "country not in ['DE']": FRAME.country != "DE",
    "age is missing or not (age < 40)": FRAME.age.isna() | (FRAME.age >= 40),
    "age is not missing": FRAME.age.notna(),
    "not age < 40": FRAME.age >= 40,
    "not is_new and 3 < day": ~FRAME.is_new & (FRAME.day > 3),
    "when >= '2024-05-03'": FRAME.when >= "2024-05-03",
    "`user id` = 7": FRAME["user id"] == 7,
    "age != 40": FRAME.age.notna(),
}


@pytest.mark.parametrize("where", CONDITIONS)
@pytest.mark.parametrize("convert", [lambda frame: frame, pl.from_pandas, pa.Table.from_pandas])
def test_a_condition_takes_the_rows_that_meet_it(where, convert):
    log = bopl.BanditLog.from_frame(convert(FRAME), **ROLES, where=where)
    np.testing.assert_array_equal(log.reward, FRAME.click[CONDITIONS[where]])
    assert log.origin.where == where
    assert log.origin.n_filtered == (~CONDITIONS[where]).sum()
    assert log.audit()["where"].status == "note"


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("county == 'DE'", "where names 'county', which is not a column; the columns are .* Did you mean 'country'"),
        ("country == 3", "'country', which holds text, with 3. Put text in quotes"),
        ("__import__('os')", "cannot be read at"),
        ("day + 1 > 2", "cannot be read at"),
        ("day >", "at its end: expected a column or a value"),
        ("1 == 1", "expected a column"),
        ("", "where is empty"),
        ("(" * 60 + "day > 1" + ")" * 60, "more than 50 nested parentheses"),
        ("when > 'soon'", "holds times, with 'soon'"),
        ("day == 99999999999999999999999", "cannot be applied"),
    ],
)
def test_a_condition_that_cannot_be_read_is_one_sentence(where, message):
    with pytest.raises(UsageError, match=message):
        bopl.BanditLog.from_frame(FRAME, **ROLES, where=where)


def test_a_condition_that_no_row_meets_is_refused():
    with pytest.raises(ValueError, match="none of the 400 rows satisfies day > 10"):
        bopl.BanditLog.from_frame(FRAME, **ROLES, where="day > 10")


def broken():
    frame = clicks().astype({"click": object})
    frame.loc[[3, 7], "click"] = [None, "error"]
    frame.loc[[5], "p"] = 50.0
    frame.loc[[9], "item"] = None
    frame.loc[[11], "age"] = np.inf
    return frame


@pytest.mark.parametrize("extension", ["parquet", "csv", "frame"])
def test_invalid_rows_are_left_out_counted_and_listed(tmp_path, extension):
    frame = broken().astype({"click": str}).replace({"click": {"None": None, "nan": None}})
    if extension == "frame":
        log = bopl.BanditLog.from_frame(frame, **ROLES, drop_invalid=True)
    else:
        getattr(frame, f"to_{extension}")(tmp_path / f"log.{extension}", index=False)
        log = bopl.BanditLog.read(tmp_path / f"log.{extension}", **ROLES, drop_invalid=True)
    clean = clicks().drop([3, 5, 7, 9, 11]).reset_index(drop=True)
    np.testing.assert_allclose(log.reward, clean.click)
    dropped = {one.reason: one.first for one in log.origin.dropped}
    assert dropped == {
        "reward is missing": (3,),
        "reward is not a number": (7,),
        "propensity is above 1": (5,),
        "action is missing": (9,),
        "context is infinite": (11,),
    }
    finding = log.audit()["dropped_rows"]
    assert finding.status == "note"
    assert "5 of 400 rows were dropped (1.2%)" in finding.sentence


@pytest.mark.parametrize("as_column", [list, pd.Series, lambda values: pd.Series(values, dtype=object).to_numpy()])
def test_what_is_not_a_number_is_not_called_missing(as_column):
    frame = clicks()
    reward = frame["click"].astype(float).astype(str).tolist()
    reward[2:7] = ["€ 5.00", "1,234.50", "nan", "", None]
    columns = [frame["item"].tolist(), as_column(reward), frame["p"].tolist()]
    log = bopl.BanditLog(np.zeros((400, 1)), *columns, drop_invalid=True)
    found = {one.reason: one.first for one in log.origin.dropped}
    assert found == {"reward is not a number": (2, 3), "reward is missing": (4, 5, 6)}


def test_whatever_would_be_refused_is_left_out():
    frame = clicks().assign(revenue=1.0, day="2024-05-01")
    frame.loc[2, "revenue"], frame.loc[3, "revenue"] = np.nan, np.inf
    frame.loc[4, "day"] = "never"
    frame.loc[[5, 6], "p"] = 1e-320, 1.0 + 1e-7  # sums of probabilities in 32 bits may be the latter
    log = bopl.BanditLog.from_frame(frame, **ROLES, other_rewards=["revenue"], time="day", drop_invalid=True)
    expected = {"'revenue' is missing": (2,), "'revenue' is infinite": (3,), "time cannot be read": (4,)}
    assert {one.reason: one.first for one in log.origin.dropped} == expected | {"propensity is below 1e-100": (5,)}
    columns = {name: frame[name].tolist() for name in ("item", "click", "p")}
    arrays = bopl.BanditLog(
        np.zeros((400, 1)), *columns.values(), other_rewards={"revenue": frame.revenue.tolist()}, drop_invalid=True
    )
    assert [one.first for one in arrays.origin.dropped] == [(2,), (3,), (5,)]


@pytest.mark.parametrize("times", [[None, "2024-05-01", "x"], [np.nan, 1.0, np.inf], np.array([0, 1, 2], "M8[D]")])
def test_times_that_cannot_be_read_are_told_from_missing_ones(times):
    is_bad = [False, False, not isinstance(times, np.ndarray)]
    assert unreadable_times(times).tolist() == is_bad
    assert unreadable_times(pd.Series(times)).tolist() == is_bad
    assert unreadable_times(pd.Series(times, dtype=object)).tolist() == is_bad


def test_decisions_without_a_number_are_not_taken_for_copies():
    frame = clicks().assign(decision=[None] * 200 + [*range(150), *range(50)])
    log = bopl.BanditLog.from_frame(frame, **ROLES, ignore=["decision"], drop_duplicates="decision")
    assert log.origin.n_dropped == 50


def test_copies_that_were_dropped_are_not_called_missing_values():
    frame = clicks().assign(decision=range(400))
    roles = {**ROLES, "ignore": ["decision"], "drop_duplicates": "decision"}
    thrice = bopl.BanditLog.from_frame(pd.concat([frame] * 3), **roles).audit()["dropped_rows"]
    assert (thrice.status, thrice.value) == ("note", pytest.approx(2 / 3))
    assert thrice.sentence.endswith("do the columns that are compared tell every decision from the others?")
    frame.loc[:219, "click"] = np.nan
    mostly = bopl.BanditLog.from_frame(pd.concat([frame] * 3), **roles, drop_invalid=True).audit()["dropped_rows"]
    assert mostly.status == "problem"
    assert "if missing values are related" in mostly.sentence


def test_rows_left_out_after_one_action_only_are_doubtful():
    frame = clicks(4000)
    frame.loc[frame.index[frame.item == "a"][:400], "click"] = np.nan
    sentence = bopl.BanditLog.from_frame(frame, **ROLES, drop_invalid=True).audit()["dropped_rows"].sentence
    assert "more often after some actions" in sentence
    assert "after 'a'" in sentence


def test_a_log_without_a_valid_row_is_refused():
    with pytest.raises(ValueError, match=r"no valid row is left\. 400 of 400 rows were dropped \(100%\)"):
        bopl.BanditLog.from_frame(FRAME.assign(click=np.nan), **ROLES, drop_invalid=True)


def test_percentages_in_some_rows_are_looked_at():
    frame = clicks(2000).assign(source="app", version=1)
    frame.loc[:59, ["source", "p"]] = ["batch", 100 / 3]
    with pytest.raises(ValueError, match=r"Only some rows .* rows 0, 1, 2, 3, 4, ….*'source' is 'batch'"):
        bopl.BanditLog.from_frame(frame, **ROLES)
    with pytest.raises(ValueError, match=r"divide by 100\.$"):
        bopl.BanditLog.from_frame(frame.assign(p=100 / 3), **ROLES)


def rich_log(n_samples, seed):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(rng.normal(size=(n_samples, 3)), columns=["x", "y", "z"])
    item = rng.integers(0, 4, n_samples)
    return frame.assign(item=item, click=rng.integers(0, 2, n_samples), p=0.25)


@pytest.mark.parametrize("share", [1.0, 0.1])
@pytest.mark.parametrize("column", [None, "ingested", "attempt"])
def test_decisions_delivered_twice_are_a_problem_and_can_be_left_out(share, column):
    rng = np.random.default_rng(1)
    first = rich_log(1000, 0)
    second = first.sample(frac=share, random_state=0)
    if column is not None:
        numbered = column == "attempt"
        first[column] = 0 if numbered else rng.normal(size=len(first))
        second = second.assign(**{column: 1 if numbered else rng.normal(size=len(second))})
    frame = pd.concat([first, second]).sample(frac=1, random_state=0).reset_index(drop=True)
    finding = bopl.BanditLog.from_frame(frame, **ROLES).audit()["duplicated_rows"]
    assert finding.status == "problem"
    assert f"{len(second):,} of {len(frame):,} samples are copies" in finding.sentence
    assert column is None or f"but for {column!r}" in finding.sentence
    ignore = [] if column is None else [column]
    log = bopl.BanditLog.from_frame(frame, **ROLES, ignore=ignore, drop_duplicates=True)
    assert log.n_samples == 1000
    assert log.audit()["duplicated_rows"].status == "ok"


@pytest.mark.parametrize("seed", range(10))
def test_contexts_that_repeat_by_themselves_are_not_taken_for_copies(seed):
    rng = np.random.default_rng(seed)
    frame = rich_log(3000, seed).assign(x=rng.integers(0, 5, 3000), y=rng.integers(0, 4, 3000), z=0)
    finding = bopl.BanditLog.from_frame(frame, **ROLES).audit()["duplicated_rows"]
    assert finding.status == "note"
    assert "chance" in finding.sentence


def test_copies_within_a_group_are_kept_together_and_no_problem():
    frame = rich_log(1000, 0).assign(visit=range(1000))
    log = bopl.BanditLog.from_frame(pd.concat([frame, frame]), **ROLES, group="visit")
    assert log.audit()["duplicated_rows"].status == "note"


def test_the_command_refuses_copies_and_says_what_it_left_out(tmp_path, capsys):
    frame = rich_log(1000, 0)
    pd.concat([frame, frame.assign(z=0.0)]).to_parquet(tmp_path / "log.parquet", index=False)
    roles = ["--action", "item", "--reward", "click", "--propensity", "p"]
    out = ["--out", tmp_path / "policy.bopl"]
    code, refused = run_json(capsys, "train", tmp_path / "log.parquet", *roles, *out)
    assert code == 1
    assert "are copies" in refused["error"]
    assert "--drop-duplicates" in refused["error"]
    chosen = ["--ignore", "z", "--drop-duplicates", "all", "--where", "x > 0"]
    _, audited = run_json(capsys, "audit", tmp_path / "log.parquet", *roles, *chosen)
    origin = audited["origin"]
    assert origin["format"] == "Parquet"
    assert origin["where"] == "x > 0"
    assert origin["n_dropped"] == audited["n_samples"] == (frame.x > 0).sum()


def test_wrong_propensities_are_not_blamed_on_copies():
    rng = np.random.default_rng(0)
    frame = rich_log(20_000, 0).assign(x=rng.integers(0, 50, 20_000), y=rng.integers(0, 40, 20_000), z=0, p=0.2)
    assert "chance" in bopl.BanditLog.from_frame(frame, **ROLES).audit()["duplicated_rows"].sentence


def test_percentages_beside_actions_that_cannot_be_counted_are_one_sentence():
    table = pa.table({"x": [1.0, 2.0], "a": pa.array([[[1]], [[2]]]), "r": [0.0, 1.0], "p": [50.0, 0.5]})
    with pytest.raises(ValueError, match="propensity must lie in"):
        bopl.BanditLog.from_frame(table, action="a", reward="r", propensity="p")


def test_a_column_is_a_condition_only_if_it_is_true_or_false():
    table = pd.DataFrame({"x": [0.5, 1.0, 2.0, 0.0], "item": ["a", "b"] * 2, "click": [1, 0, 1, 0], "p": 0.5})
    table = table.assign(flag=[1.0, None, 0.0, 1.0], truth=[True, False, True, True])
    for where, n_samples in (("flag", 2), ("not flag", 1), ("truth", 3), ("truth and flag", 2)):
        assert bopl.BanditLog.from_frame(table, **ROLES, where=where, actions=["a", "b"]).n_samples == n_samples
    for name in ("x", "item"):
        with pytest.raises(UsageError, match=f"where uses '{name}' as a condition, but it is not true or false"):
            bopl.BanditLog.from_frame(table, **ROLES, where=name)


def test_rows_selected_by_what_the_decision_brought_about_are_noted():
    rng = np.random.default_rng(0)
    n = 400
    table = pd.DataFrame({"x": rng.normal(size=n), "item": rng.integers(3, size=n), "click": rng.random(n), "p": 1 / 3})

    def said(where):
        audit = bopl.BanditLog.from_frame(table, **ROLES, where=where).audit()
        return next((finding.sentence for finding in audit.findings if finding.check == "selection"), "")

    assert said("x > 0") == said("click < 5") == ""
    assert "by the reward 'click', which the decision itself brought about" in said("x > -1 and click < 0.9")
    assert "by the action 'item'" in said("item in (0, 1)")


def test_infinite_propensities_are_not_taken_for_another_unit():
    with pytest.raises(ValueError, match="Infinite values usually come from a division by zero"):
        bopl.BanditLog(np.ones((4, 1)), ["a", "b"] * 2, [1, 0] * 2, [0.5, np.inf, 0.5, 0.5])
