"""Policies that start from a made-up logging policy, with gaps, categories, trees and exploration as asked for."""

from dataclasses import replace

import numpy as np

import bopl
from bopl.boosting import Start
from bopl.log.input_layout import fit_layout
from bopl.reward.logging_model import LoggingModel, LoggingTerm

N_CATEGORIES = 5


def gappy_log(seed=0, *, n_samples=300, n_actions=4, has_gaps=True, has_category=True):
    """Return a log of three numbers and a column of category codes, with gaps in most of them."""
    rng = np.random.default_rng(seed)
    code = rng.integers(0, N_CATEGORIES, n_samples)
    context = np.column_stack([rng.normal(size=(n_samples, 2)), 1e4 + rng.normal(size=n_samples), code])
    if has_gaps:
        context[:, 1:][rng.random((n_samples, 3)) < 0.15] = np.nan
    context = context.astype(np.float32)[:, : None if has_category else 3]
    action = rng.integers(0, n_actions, n_samples)
    reward = rng.normal(size=n_samples) + (action == code)
    return bopl.BanditLog(context, action, reward, np.full(n_samples, 1 / n_actions), actions=range(n_actions))


def logging_model(log, seed=0, *, epsilon=0.0, has_trees=False, size=1.0):
    """Return a random model of the logging policy; column 3, if there is one, holds categories."""
    rng = np.random.default_rng([seed, 1])
    layout = fit_layout(log.context, {3: N_CATEGORIES} if log.n_features > 3 else None)
    coef, intercept = rng.normal(size=(layout.n_inputs, log.n_actions)), rng.normal(size=log.n_actions)
    intercept -= layout.fill.astype(np.float64) @ coef[: len(layout.fill)]  # the third column is far from zero
    trees = ()
    if has_trees:
        learner = bopl.HistTree(4, min_child_weight=3.0)
        trees = bopl.BoostedRewardModel(learner, n_rounds=4, random_state=seed).fit(log).predictors_
    return LoggingModel(layout, size * coef, size * intercept, epsilon, trees, 0.7, error=0.1, spread=1.0)


def starting_from(log, terms, coefficients=None, *, n_rounds=3, **settings):
    """Return a policy with rounds of trees behind a start of these terms."""
    policy = bopl.BoostedPolicy("surrogate", bopl.HistTree(3), n_rounds=n_rounds, random_state=0, **settings).fit(log)
    factors = (1.0,) * len(terms) if coefficients is None else tuple(coefficients)
    policy.ensemble_ = replace(policy.ensemble_, start=Start("logging", tuple(terms), factors))
    return policy


def assorted_policies(log):
    """Return policies whose starts differ in all that a start from the logging policy can differ in."""
    plain, full = logging_model(log), logging_model(log, 1, epsilon=0.2, has_trees=True)
    steep = logging_model(log, 2, size=30.0)  # probabilities of zero, but for the floor
    return {
        "plain": starting_from(log, [LoggingTerm(plain)]),
        "trees and exploration": starting_from(log, [LoggingTerm(full, 0.8, -1.5)], [2.0]),
        "two terms of one model": starting_from(log, [LoggingTerm(full), LoggingTerm(full, 0.3, 2.0)], [1.0, -0.5]),
        "two models": starting_from(log, [LoggingTerm(plain, 0.0, 3.0), LoggingTerm(full, -1.0)], [1.5, 0.5]),
        "steep": starting_from(log, [LoggingTerm(steep)]),
        "no rounds": starting_from(log, [LoggingTerm(full, 1.0, 1.0)], n_rounds=0),
        "nothing": starting_from(log, [], n_rounds=0),
    }


KINDS = ("plain", "trees and exploration", "two terms of one model", "two models", "steep", "no rounds", "nothing")
