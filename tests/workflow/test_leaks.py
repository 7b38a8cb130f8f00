"""Columns that know too much are left out before anything is learned."""

import numpy as np
import pytest

import bopl
from bopl._errors import UsageError
from bopl.log import AuditError
from bopl.simulation import simulate_shop
from bopl.simulation.shop import BANNERS
from bopl.workflow.auditing import audit_for_training
from bopl.workflow.config import make_config
from bopl.workflow.reading import read_training_log
from bopl.workflow.training import train
from product import run_json

ROLES = {"action": "banner", "reward": "click", "propensity": "p"}
QUICK = {"objective": "ips", "n_rounds": 3, "max_depth": 3, "reward_translation": 0.0, "estimators": ["snips"]}


def with_leaks(shop):
    """Return a shop's log with columns that know too much: an order, the price of what was shown, another reward."""
    frame = shop.to_frame("pandas")
    clicked = frame["click"] == 1
    frame["order_id"] = [f"o{row}" if is_click else None for row, is_click in enumerate(clicked)]
    frame["item_price"] = 3.0 + 2.0 * frame["banner"].astype("category").cat.codes
    frame["revenue"] = np.where(clicked, 5.0 + np.arange(len(frame)) % 7, 0.0)
    return frame


@pytest.fixture
def leaking(tmp_path):
    with_leaks(simulate_shop(4000)).to_parquet(tmp_path / "log.parquet")
    return str(tmp_path / "log.parquet")


def test_train_leaves_leaks_out_says_so_and_writes_it_down(leaking, tmp_path, said):
    config = make_config({"log": leaking, "out": str(tmp_path / "new.bopl"), **ROLES, **QUICK})
    result = train(config)
    names = {"order_id", "item_price", "revenue"}
    assert {entry["column"] for entry in result.summary["left_out"]} == names
    assert not names & set(result.policy.feature_names_in_)
    assert result.audit["left_out"].status == "note"
    for name in names:
        assert any(line.startswith(f"Left out: Column {name!r}") for line in said)
        assert name in result.folder.report.read_text("utf8")
        assert name in result.folder.run.read_text("utf8")


def test_columns_that_are_kept_stay_and_are_told(leaking, said):
    config = make_config({"log": leaking, "keep": ["order_id"], **ROLES})
    audited = audit_for_training(read_training_log(config), config)
    assert "order_id" in audited.log.feature_names
    assert {leak.column for leak in audited.left_out} == {"item_price", "revenue"}
    assert any(line.startswith("Note: Column 'order_id' reveals the reward") for line in said)


def test_a_column_to_keep_must_be_there(leaking):
    config = make_config({"log": leaking, "keep": ["order"], **ROLES})
    with pytest.raises(UsageError, match="keep names 'order', which is not a context column"):
        audit_for_training(read_training_log(config), config)


def test_a_price_in_a_log_without_propensities_stops_the_training(tmp_path):
    with_leaks(simulate_shop(2000)).to_parquet(tmp_path / "log.parquet")
    ignored = {"ignore": ["p", "order_id", "revenue"], "assume_propensity": "estimate"}
    config = make_config({"log": str(tmp_path / "log.parquet"), "action": "banner", "reward": "click", **ignored})
    with pytest.raises(AuditError, match="did not explore"):
        audit_for_training(read_training_log(config), config)


def test_drift_is_said_and_written_where_leaks_are(tmp_path, said):
    frame = simulate_shop(3000).to_frame("pandas").assign(when=np.arange(3000), visits=lambda one: one.index // 600)
    frame.to_parquet(tmp_path / "log.parquet")
    given = {"log": str(tmp_path / "log.parquet"), "out": str(tmp_path / "new.bopl"), "time": "when"}
    result = train(make_config({**given, **ROLES, **QUICK}))
    assert [one["column"] for one in result.summary["drift"]] == ["visits"]
    lines = [line for line in said if line.startswith("Drift: The held-out part differs")]
    assert len(lines) == 1
    assert "'visits' is at most 3" in lines[0]
    assert result.audit["drift"].status == "note"
    assert result.audit["drift"].sentence in [one["sentence"] for one in result.summary["audit"]["findings"]]
    for path in (result.folder.run, result.folder.report):
        assert "is at most 3" in path.read_text("utf8")


@pytest.mark.slow
def test_on_many_rows_the_columns_are_named_and_the_verdict_is_that_of_the_truth(tmp_path, capsys):
    """Before, order_id made the verdict "not trustworthy" at 200,000 rows, and exact propensities were blamed."""
    with_leaks(simulate_shop(200_000)).to_parquet(tmp_path / "log.parquet")
    roles = ("--action", "banner", "--reward", "click", "--propensity", "p")
    given = ("--include", "regression,dr-smooth", "--estimators", "dr,snips", "--out", tmp_path / "new.bopl")
    code, result = run_json(capsys, "train", tmp_path / "log.parquet", *roles, *given)
    assert {entry["column"] for entry in result["left_out"]} == {"order_id", "item_price", "revenue"}
    assert (code, result["verdict"], result["estimator"]) == (0, "better", "dr")
    fresh = simulate_shop(100_000, random_state=9)
    policy = bopl.load(tmp_path / "new.bopl")
    chance = fresh.click_chance[:, [BANNERS.index(label) for label in policy.actions_]]
    gained = (policy.predict_proba(fresh.to_frame("pandas")) * chance).sum(axis=1)
    truth = float((gained - (fresh.logging_prob * fresh.click_chance).sum(axis=1)).mean())
    row = next(row for row in result["evaluation"]["rows"] if row["estimator"] == "dr")
    half = (row["uplift_ci_upper"] - row["uplift_ci_lower"]) / 2.0
    assert truth > 0.005
    assert abs(row["uplift"] - truth) < 1.5 * half  # three standard errors
