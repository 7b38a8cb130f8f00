"""The outcome of a race as a card in a notebook."""

from copy import copy
from dataclasses import replace

import bopl
from bopl.race.leaderboard import race_card
from helpers import informative_log


def test_the_card_names_winner_verdict_and_every_candidate():
    policy = bopl.AutoPolicy(include=["regression"], progress=False, random_state=0).fit(informative_log())
    shown = race_card(policy, repr(policy))
    for text in (policy.leaderboard_.verdict, "regression", "logging", "400 samples, 3-fold"):
        assert text in shown
    assert '<span class="soft">regression</span>' in shown
    interrupted, blended, logging = copy(policy), copy(policy), copy(policy)
    interrupted.is_interrupted_, logging.is_logging_ = True, True
    blended.best_policy_ = bopl.BlendedPolicy.of([policy.best_policy_] * 2)
    assert "The race was interrupted" in race_card(interrupted, "")
    assert "a blend of 2 candidates" in race_card(blended, "")
    assert "the logging policy: nothing beat it" in race_card(logging, "")


def test_a_candidate_that_was_not_begun_has_no_numbers():
    policy = bopl.AutoPolicy(include=["regression"], progress=False, random_state=0).fit(informative_log())
    nan = float("nan")
    unbegun = replace(policy.leaderboard_[1], uplift=nan, lower=nan, upper=nan, status="not begun")
    policy.leaderboard_ = replace(policy.leaderboard_, entries=(policy.leaderboard_[0], unbegun))
    shown = race_card(policy, "<b>")
    assert "nan" not in shown
    assert "not begun" in shown
    assert "<b>" not in shown


def test_an_unfitted_policy_says_so():
    assert "not fitted" in race_card(bopl.AutoPolicy(), "AutoPolicy()")
