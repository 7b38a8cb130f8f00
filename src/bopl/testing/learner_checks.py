"""`check_learner`: what the boosting loop, files and checkpoints rely on."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone

from bopl.learner import bind_learner
from bopl.learner.store import settings_of
from bopl.log import BanditLog
from bopl.objective import StepTarget, TrainingData, get_objective
from bopl.objective.softmax import log_softmax
from bopl.policy import BoostedPolicy, load
from bopl.testing.logs import random_log, require, require_equal, require_settings


def check_learner(learner: Any, *, seed: int = 0, can_be_saved: bool = True) -> None:
    """Raise `AssertionError` unless a learner keeps its promises on random logs.

    - It can be cloned, and its settings are the arguments of its constructor.
    - A step's prediction on its training samples equals that of its predictor, to the last bit.
    - The same seed and round give the same predictor.
    - A step does not point away from the gradient: ``Σ G·f`` is at least zero.
    - A policy of its trees has the same scores after saving and loading, and the learner has the same settings.

    Parameters
    ----------
    learner : learner
        An object with ``bind``, or a scikit-learn regressor or classifier.
    seed : int, default=0
        Seed of the logs.
    can_be_saved : bool, default=True
        False skips the last promise.
    """
    own, copied = settings_of(learner), settings_of(clone(learner, safe=False))
    kinds = "inherit sklearn.base.BaseEstimator or be a dataclass"
    require(own is not None, f"A learner needs settings that can be compared: its class must {kinds}.")
    require(list(own or ()) == list(copied or ()), "A clone must have the same settings.")
    for has_mask in (False, True):
        log = random_log(seed, n_samples=200, has_mask=has_mask)
        for round_idx in range(2):
            _check_step(learner, log, round_idx, seed)
    if can_be_saved:
        _check_file(learner, random_log(seed + 1, n_samples=200), seed)


def _check_step(learner: Any, log: BanditLog, round_idx: int, seed: int) -> None:
    bound = bind_learner(learner, log, seed=seed)
    order = getattr(bound, "row_order", None)
    data = TrainingData(log).take(order)
    terms = get_objective("surrogate").bind(data)
    score = np.random.default_rng(seed).normal(size=(log.n_samples, log.n_actions))
    target = StepTarget(terms.gradient(log_softmax(score, data.action_mask)), terms.weight)
    step = bound.fit(target, round_idx)
    shape = (log.n_samples, log.n_actions)
    require(step.prediction.shape == shape, f"prediction must have the shape {shape}; it has {step.prediction.shape}.")
    require(np.isfinite(step.prediction).all(), "Predictions must be finite.")
    context = log.context if order is None else log.context[order]
    require_equal(
        step.prediction,
        step.predictor.predict(context),
        "The prediction of a step must equal that of its predictor on the same contexts, to the last bit.",
    )
    again = bind_learner(learner, log, seed=seed).fit(target, round_idx)
    require_equal(step.prediction, again.prediction, "The same seed and round must give the same predictor.")
    slope = float(np.sum(target.gradient * step.prediction))
    require(slope >= 0.0, f"A step must not point away from the gradient; the sum of G·f is {slope:.3g}.")


def _check_file(learner: Any, log: BanditLog, seed: int) -> None:
    policy = BoostedPolicy("surrogate", clone(learner, safe=False), n_rounds=3, random_state=seed).fit(log)
    with tempfile.TemporaryDirectory() as folder:
        policy.save(Path(folder) / "policy.bopl")
        loaded = load(Path(folder) / "policy.bopl")
    require_equal(
        loaded.decision_function(log.context),
        policy.decision_function(log.context),
        "A policy must have the same scores after saving and loading, to the last bit.",
    )
    require(
        type(loaded.learner) is type(learner),
        f"A loaded policy must have its learner: call bopl.learner.register_learner({type(learner).__name__}), "
        "and let its settings be numbers, text, lists or mappings of these.",
    )
    require_settings(loaded.learner, learner, "learner")
