"""Tables where pandas is not installed, and records, which are dataclasses for code and mappings for users."""

from dataclasses import FrozenInstanceError, dataclass, replace
from typing import Annotated

import numpy as np
import pandas as pd
import polars
import pytest

import bopl
from bopl import _table
from bopl._table import Record, Table, column_texts, to_table
from bopl.boosting.history import RoundRow
from bopl.evaluation import planning, row
from bopl.race import leaderboard
from helpers import informative_log

COLUMNS = {"policy": ["old", "new"], "value": [0.12345, 2.0], "n": [10, 2000], "is_new": [False, True]}


@pytest.fixture
def no_pandas(monkeypatch):
    monkeypatch.setattr(_table, "find_spec", lambda name: None)


@pytest.mark.usefixtures("no_pandas")
def test_the_table_of_an_evaluation_is_read_in_the_same_way_without_pandas():
    log = informative_log()
    evaluation = bopl.evaluate(log, {"uniform": np.full(len(log), 1 / 3), "twice": np.full(len(log), 2 / 3)})
    table = evaluation.table
    chosen = table[["policy", "value", "ci_lower", "ci_upper", "verdict"]].round(3)
    assert chosen.columns == ["policy", "value", "ci_lower", "ci_upper", "verdict"]
    assert table["value"].tolist() == [row["value"] for row in evaluation.rows]
    assert len(table) == len(evaluation.rows)
    assert table.to_dicts()[0]["reason"] == evaluation.rows[0]["reason"]
    assert log.audit().table["check"].tolist() == [finding.check for finding in log.audit().findings]


@pytest.mark.parametrize("pick", [lambda t: t, lambda t: t[["policy", "value"]].round(2), lambda t: t.round(1)])
def test_it_prints_what_pandas_prints(pick):
    pandas = to_table(COLUMNS)
    assert type(pandas).__module__.startswith("pandas")
    assert str(pick(Table(COLUMNS))).split() == str(pick(pandas)).split()
    assert pick(Table(COLUMNS)).shape == pick(pandas).shape


def test_numbers_that_are_missing_are_shown_and_kept():
    table = Table({"value": [0.5, float("nan"), float("inf")]})
    assert str(table).split() == ["value", "0", "0.5", "1", "nan", "2", "inf"]
    assert np.isnan(table["value"][1])


def test_a_column_that_is_not_there_is_named():
    with pytest.raises(KeyError, match="there is no column 'valu'; there are policy, value"):
        Table(COLUMNS)[["policy", "valu"]]


def test_what_reads_arrow_takes_it():
    assert polars.DataFrame(Table(COLUMNS)).to_dict(as_series=False) == COLUMNS


def test_it_has_a_card():
    assert "0.12345" in Table(COLUMNS)._repr_html_()


@dataclass(frozen=True, eq=False)
class Fruit(Record):
    name: Annotated[str, "what it is called"]
    weight: Annotated[float, "in grams"]


APPLE = Fruit("apple", 150.0)


def test_fields_are_read_as_attributes_and_by_name():
    assert (APPLE.name, APPLE["weight"]) == ("apple", 150.0)
    assert list(APPLE) == ["name", "weight"]
    assert len(APPLE) == 2
    assert {**APPLE, "weight": 1.0} == {"name": "apple", "weight": 1.0}
    with pytest.raises(KeyError, match="there is no 'colour'; there are name, weight"):
        APPLE["colour"]
    with pytest.raises(FrozenInstanceError):
        APPLE.name = "pear"


def test_records_equal_each_other_and_dicts_by_their_values():
    assert Fruit("apple", 150.0) == APPLE
    assert dict(APPLE) == APPLE
    assert replace(APPLE, weight=151.0) != APPLE


def test_numbers_that_json_cannot_hold_become_none():
    assert Fruit("pear", np.inf).to_dict() == {"name": "pear", "weight": None}


def test_frames_are_made_of_records():
    pd.testing.assert_frame_equal(pd.DataFrame([APPLE]), pd.DataFrame([dict(APPLE)]))


@pytest.mark.parametrize("kind", [Fruit, row.Estimate, RoundRow, planning.PlanRow, leaderboard.Entry])
def test_every_column_is_described(kind):
    texts = column_texts(kind)
    assert list(texts) == list(kind.__dataclass_fields__)
    assert all(texts.values())


def test_all_rows_of_an_evaluation_are_records():
    rng = np.random.default_rng(0)
    action = rng.integers(2, size=400)
    log = bopl.BanditLog(
        rng.normal(size=(400, 1)), action, action + rng.random(400), np.full(400, 0.5), other_rewards={"cost": action}
    )
    found = bopl.evaluate(
        log,
        {"a": np.tile([0.2, 0.8], (400, 1)), "b": np.tile([0.4, 0.6], (400, 1))},
        guards=["cost<=+200%"],
        head_to_head=True,
        segment=np.where(rng.random(400) < 0.5, "north", "south"),
        confounding=True,
        estimators="snips",
    )
    kinds = {
        "rows": row.Estimate,
        "decisions": row.PolicyVerdict,
        "guards": row.GuardResult,
        "segments": row.SegmentEstimate,
        "comparisons": row.Comparison,
        "confounding": row.TippingPoint,
    }
    plain = found.to_dict()
    for part, kind in kinds.items():
        records = getattr(found, part)
        assert records
        assert all(isinstance(one, kind) for one in records)
        assert plain[part] == [one.to_dict() for one in records]


def test_a_table_is_iterated_by_column_as_a_frame_is():
    assert list(Table(COLUMNS)) == list(pd.DataFrame(COLUMNS)) == list(COLUMNS)
