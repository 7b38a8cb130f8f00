import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.tree import DecisionTreeRegressor

import bopl
from bopl.boosting.history import COLUMNS, History
from helpers import informative_log


@pytest.fixture(scope="module")
def history():
    learner = DecisionTreeRegressor(max_depth=3)
    policy = bopl.BoostedPolicy("surrogate", learner, n_rounds=12, reward_translation=-0.1, random_state=0)
    return policy.fit(informative_log(0), validation=informative_log(1)).history_


def test_history_has_one_row_per_round_and_every_documented_column(history):
    assert list(history) == list(COLUMNS)
    assert history["round"].tolist() == list(range(1, 13))
    assert all(np.isfinite(history[name]).all() for name in COLUMNS)
    assert repr(history).startswith("History(n_rounds=12, last risk=")


def test_frames_of_every_kind_hold_the_same_numbers(history):
    default = history.to_frame()
    assert isinstance(default, pd.DataFrame)
    assert isinstance(history.to_frame("polars"), pl.DataFrame)
    assert history.to_frame("pyarrow").num_rows == 12
    np.testing.assert_array_equal(default["alpha"], history["alpha"])
    np.testing.assert_array_equal(pl.DataFrame(history)["alpha"].to_numpy(), history["alpha"])
    with pytest.raises(ValueError, match="backend must be 'pandas', 'polars' or 'pyarrow'; got 'spark'"):
        history.to_frame("spark")


def test_unknown_columns_and_writes_are_refused(history):
    with pytest.raises(KeyError, match="no column 'loss'"):
        _ = history["loss"]
    with pytest.raises(ValueError, match="read-only"):
        history["alpha"][0] = 1.0


def test_records_give_the_history_back(history):
    again = History.from_records(history.to_records(), history.objective)
    assert all(np.array_equal(again[name], history[name]) for name in COLUMNS)


def test_notebook_table_shows_first_and_last_rounds(history):
    html = history._repr_html_()
    assert html.count("<tr>") == 1 + 10
    assert "12 rounds" in html


def test_without_a_certificate_its_columns_are_missing_and_the_rest_is_the_same(history):
    learner = DecisionTreeRegressor(max_depth=3)
    policy = bopl.BoostedPolicy(
        "surrogate", learner, n_rounds=12, reward_translation=-0.1, certificate=False, random_state=0
    )
    without = policy.fit(informative_log(0), validation=informative_log(1)).history_
    missing = {"theorem_bound", "opt_emp_risk", "excess_emp_risk_0"}
    for name in COLUMNS:
        assert np.isnan(without[name]).all() if name in missing else np.array_equal(without[name], history[name])
    assert without.plot().axes[0].get_title() == "risk under its bounds"


def test_plot_draws_the_risk_below_its_bounds(history, tmp_path):
    figure = history.plot()
    assert figure.axes[0].get_title() == "risk under its bounds"
    risk, recursive, theorem = (line.get_ydata() for line in figure.axes[0].lines)
    assert (risk <= recursive + 1e-12).all()
    assert (risk <= theorem + 1e-12).all()
    figure.savefig(tmp_path / "history.png")
    assert (tmp_path / "history.png").stat().st_size > 10_000
