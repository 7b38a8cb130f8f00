"""Tables where pandas is not installed: what the pages do with a frame works there, too."""

import numpy as np
import polars
import pytest

import bopl
from bopl import _frame
from bopl._table import Table, to_table
from helpers import informative_log

COLUMNS = {"policy": ["old", "new"], "value": [0.12345, 2.0], "n": [10, 2000], "is_new": [False, True]}


@pytest.fixture
def no_pandas(monkeypatch):
    monkeypatch.setattr(_frame, "find_spec", lambda name: None)


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
