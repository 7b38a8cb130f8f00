"""Settings of wrong types: one sentence that names the setting, whatever was given."""

from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from sklearn.tree import DecisionTreeRegressor

import bopl
from bopl._settings import check_choice, check_flag, check_number, generator_of, seed_of
from bopl.baseline import BoostedRewardPolicy, UniformPolicy, XGBRewardPolicy
from bopl.objective import IPS, Clipped
from bopl.testing.logs import random_log

HUGE = 10**400
ODD = [
    None,
    "x",
    b"x",
    object(),
    len,
    int,
    [1],
    {},
    np.array([1, 2]),
    np.array([True]),
    pd.NA,
    pd.Series([1, 2]),
    1j,
    Fraction(1, 2),
]


@pytest.mark.parametrize("value", ODD, ids=lambda value: type(value).__name__)
def test_odd_values_are_refused_by_name(value):
    for check in (check_number, lambda *given: check_choice(*given, ("a", "b")), check_flag):
        with pytest.raises((TypeError, ValueError), match=r"^setting must be .*; got "):
            check("setting", value)


def test_numbers_beyond_floats_are_out_of_range():
    with pytest.raises(ValueError, match=r"setting must be at least 1; got more than 1e308"):
        check_number("setting", 10**5000, low=1, integer=True)


def test_flags_of_a_grid_are_flags():
    for value in np.array([True, False]):
        check_flag("setting", value)


@pytest.mark.parametrize("value", ["x", -1, 0.5, [None], pd.NA, HUGE], ids=str)
def test_random_states_are_refused_by_name(value):
    for call in (seed_of, generator_of):
        if call is seed_of or value is not HUGE:  # numpy takes seeds of any length
            with pytest.raises((TypeError, ValueError), match=r"^random_state must be None, an integer"):
                call(value)


@pytest.mark.parametrize(
    ("fit", "says"),
    [
        (lambda log: bopl.BoostedPolicy(random_state="x").fit(log), "random_state must be None, an integer from 0"),
        (lambda log: bopl.BoostedPolicy(certificate="no").fit(log), "certificate must be True or False; got 'no'"),
        (lambda log: bopl.AutoPolicy(progress="no").fit(log), "progress must be True or False; got 'no'"),
        (
            lambda log: bopl.BoostedPolicy(learner=bopl.HistTree(categorical=True)).fit(log),
            "categorical must be a list",
        ),
        (lambda log: bopl.BoostedPolicy(learner=bopl.HistTree(n_jobs=10**30)).fit(log), "n_jobs must lie in"),
        (lambda log: XGBRewardPolicy(random_state="x").fit(log), "random_state must be an integer; got 'x'"),
        (lambda log: XGBRewardPolicy(reg_lambda=np.inf).fit(log), r"reg_lambda must lie in .*; got inf"),
        (lambda log: bopl.BoostedPolicy(learner=bopl.XGBTree(reg_lambda=1e308)).fit(log), "reg_lambda must lie in"),
        (lambda log: bopl.BoostedPolicy(scale=1e-320).fit(log), "scale must lie in"),
        (lambda log: bopl.evaluate(log, log.propensity, guards=np.array(0.5)), "guards must be texts"),
        (lambda log: BoostedRewardPolicy(learner="hist").fit(log), "learner must be a HistTree"),
        (lambda log: BoostedRewardPolicy(DecisionTreeRegressor()).fit(log), "learner must be a HistTree"),
        (lambda log: IPS(weight=Clipped), "weight must be a weight such as"),
        (lambda log: log.translated(Fraction(1, 2)), "reward_translation must be a number"),
        (lambda log: bopl.estimate_propensity(log, model="logistic"), "model must be a model with fit"),
        (lambda log: log.split(by=np.array([1, 2])), "by must be 'random', 'time' or 'group'"),
        (lambda log: log.audit(strict="no"), "strict must be True or False"),
        (lambda log: bopl.Checkpoint(None), "a path must be text or a Path; got None"),
        (lambda log: UniformPolicy().fit(log).save(b"x"), "a path must be text or a Path; got b'x'"),
        (lambda log: UniformPolicy().fit(log).sample(log.context, random_state="x"), "random_state must be None"),
        (lambda log: UniformPolicy().fit(log).decide([0.0] * 3, draw="x"), "draw must be a number in"),
        (lambda log: bopl.BoostedPolicy().fit(log, sample_weight=["x"] * 60), "sample_weight must be numeric"),
        (lambda log: log.split(random_state=b"x"), "random_state must be None, an integer"),
        (lambda log: bopl.evaluate(log, log.propensity, min_propensity="x"), "min_propensity must be a number"),
        (lambda log: bopl.evaluate(log, log.propensity, simultaneous="no"), "simultaneous must be True or False"),
        (lambda log: bopl.evaluate(log, log.propensity, confounding="no"), "confounding must be True or False"),
    ],
)
def test_a_wrong_setting_is_named(fit, says):
    with pytest.raises((TypeError, ValueError), match=f"^{says}"):
        fit(random_log())


def test_a_policy_is_not_saved_over_a_folder(tmp_path):
    with pytest.raises(IsADirectoryError, match="is a folder; name a file to write in it"):
        UniformPolicy().fit(random_log()).save(tmp_path)
