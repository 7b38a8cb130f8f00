"""`check_policy`: what evaluation, serving and files rely on."""

from __future__ import annotations

import copy
import pickle
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone

from bopl.evaluation import evaluate
from bopl.log import BanditLog
from bopl.policy import load
from bopl.testing.logs import random_log, require, require_equal, require_settings


def check_policy(policy: Any, *, seed: int = 0, can_be_saved: bool = True) -> None:
    """Raise `AssertionError` unless a policy that learns from a log keeps its promises.

    - It is a scikit-learn estimator: a clone is unfitted and has the same settings; `fit` returns the policy.
    - Probabilities are finite, non-negative and sum to 1, and ineligible actions have none.
    - `predict` takes the most probable action; `sample` and `decide` return the probability of the drawn action.
    - Copies, pickles and files have the same probabilities to the last bit, the same id and the same settings.
    - It can be evaluated.

    Parameters
    ----------
    policy : policy
        An unfitted policy, such as `bopl.BoostedPolicy` or a subclass of `bopl.policy.LearnedPolicy`.
    seed : int, default=0
        Seed of the logs.
    can_be_saved : bool, default=True
        False skips files.
    """
    require(clone(policy).get_params().keys() == policy.get_params().keys(), "A clone must have the same settings.")
    log = random_log(seed, n_samples=300, n_actions=3, min_propensity=0.2)
    fitted = clone(policy)
    require(fitted.fit(log) is fitted, "fit must return the policy.")
    require(list(fitted.actions_) == list(log.actions), "actions_ must be the log's actions, in their order.")
    prob = _check_probabilities(fitted, log)
    _check_draws(fitted, log, prob)
    for name, other in (("copy", copy.deepcopy(fitted)), ("pickle", pickle.loads(pickle.dumps(fitted)))):
        require_equal(other.predict_proba(log.context), prob, f"A {name} must have the same probabilities.")
    again = clone(policy).fit(log)
    require_equal(again.predict_proba(log.context), prob, "The same settings and log must give the same policy.")
    if can_be_saved:
        with tempfile.TemporaryDirectory() as folder:
            fitted.save(Path(folder) / "policy.bopl")
            loaded = load(Path(folder) / "policy.bopl")
        require(type(loaded) is type(fitted), f"A file must be loaded as {type(fitted).__name__}.")
        require_equal(loaded.predict_proba(log.context), prob, "A loaded policy must have the same probabilities.")
        require(loaded.policy_id == fitted.policy_id, "A loaded policy must have the same id.")
        require_settings(loaded, fitted, "policy")
    row = evaluate(log, {"new": fitted}, estimators="ips").row()
    require(np.isfinite(row["value"]), "It must be possible to evaluate the policy.")


def _check_probabilities(fitted: Any, log: BanditLog) -> Any:
    prob = fitted.predict_proba(log.context)
    require(prob.shape == (log.n_samples, log.n_actions), "predict_proba must have a row per context.")
    require(np.isfinite(prob).all() and (prob >= 0.0).all(), "Probabilities must be finite and not negative.")
    require_equal(prob.sum(axis=1), np.ones(log.n_samples), "Probabilities must sum to 1.", atol=1e-9)
    mask = np.ones(prob.shape, dtype=bool)
    mask[:, 0] = False
    masked = fitted.predict_proba(log.context, action_mask=mask)
    require(not masked[:, 0].any(), "An action that is not eligible must have probability zero.")
    require_equal(
        masked.sum(axis=1), np.ones(log.n_samples), "Eligible actions' probabilities must sum to 1.", atol=1e-9
    )
    return prob


def _check_draws(fitted: Any, log: BanditLog, prob: Any) -> None:
    best = fitted.actions_[prob.argmax(axis=1)]
    require((fitted.predict(log.context) == best).all(), "predict must take the most probable action.")
    action, propensity = fitted.sample(log.context, random_state=0)
    place = {label: at for at, label in enumerate(fitted.actions_.tolist())}
    drawn = [place[label] for label in action.tolist()]
    require_equal(
        propensity, prob[np.arange(len(drawn)), drawn], "sample must return the probability of the drawn action."
    )
    for row in range(5):
        decision = fitted.decide(log.context[row], random_state=row)
        own = fitted.predict_proba(log.context[row : row + 1])[0]
        require_equal(
            decision.propensity, own[place[decision.action]], "decide must return the probability of the drawn action."
        )
