"""Cross-fitting for training: every sample's rewards are estimated by a model that has not seen it.

The folds of a `BoostedRewardModel` are fitted on one binding, side by side: samples of a fold have weight zero in its
model, so that each round also shows how well the model predicts them, and boosting ends when that stops improving.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from bopl._exact import exact_mean, exact_sum, limbs_of, no_limbs, value_of
from bopl._policy_reader import logged_entries
from bopl._progress import note_progress
from bopl._registry import keeps
from bopl._settings import check_number
from bopl._typing import FloatArray, IntArray
from bopl.log import BanditLog
from bopl.log.row_sketch import RowSketch
from bopl.reward.boosted_model import BoostedRewardModel, RewardBinding
from bopl.reward.folds import draw_folds
from bopl.reward.prediction import RewardPredictor, fit_folds, predict_rewards

CHUNK_ROWS = 1 << 17  # contexts that are copied at a time
PATIENCE = 10  # rounds without a smaller error on unseen samples, after which boosting ends


@dataclass(frozen=True, eq=False)
class CrossFit:
    """Models of all folds, and their predictions for the samples they have not seen.

    Attributes
    ----------
    models : tuple of model
        One per fold; new contexts get the mean of their predictions.
    fold : ndarray of shape (n_samples,)
    estimate : ndarray of shape (n_samples, n_actions)
        Estimates for every sample by the model of its fold; column by column in memory.
    error : float
        Mean squared error of the logged rewards' estimates.
    explained : float
        Share of the variance of the logged rewards that is explained; negative if they are worse than the mean.
    """

    models: tuple[Any, ...]
    fold: IntArray
    estimate: FloatArray
    error: float
    explained: float

    def predict(self, context: Any) -> FloatArray:
        """Return the mean of the models' predictions, of shape (n_samples, n_actions)."""
        return np.asarray(sum(model.predict(context) for model in self.models)) / len(self.models)


def cross_fit(
    log: BanditLog,
    model: Any = None,
    *,
    n_folds: int = 5,
    seed: int = 0,
    sample_weight: FloatArray | None = None,
    binding: RewardBinding | None = None,
    is_over: Callable[[], bool] = lambda: False,
) -> CrossFit:
    """Fit one model per fold and estimate every sample's rewards by the one that has not seen it.

    Parameters
    ----------
    log : BanditLog
        Samples to learn from and to predict.
    model : model, optional
        `BoostedRewardModel` by default, whose boosting ends when the error on unseen samples stops falling
        (``n_rounds`` is the maximum). Any other model with ``fit(log)`` and ``predict(context)``, or a scikit-learn
        regressor of rows ``[x; onehot(a)]``, is fitted as it is. One with a method ``predictor()``, which returns the
        `Predictor` that was fitted, can be part of a policy's file, and gets the weights if its ``fit`` takes them; it
        may limit the number of folds by an attribute ``max_folds``.
    n_folds : int, default=5
        Number of folds; each is predicted by a model of the others.
    seed : int, default=0
        Seed of the folds and of the models.
    sample_weight : ndarray of shape (n_samples,), optional
        Weight of each sample.
    binding : RewardBinding, optional
        Pairs of this log that are already binned.
    is_over : callable, optional
        Called after every round of all folds; True ends the boosting.
    """
    check_number("n_folds", n_folds, low=2, integer=True)
    model = BoostedRewardModel(random_state=seed) if model is None else model
    if keeps(model, BoostedRewardModel, "fit", "predict"):
        fold = draw_model_folds(log, model, n_folds, seed)
        return _cross_fit_boosted(log, model, fold, seed, sample_weight, binding, is_over)
    if hasattr(model, "predictor"):
        drawn = draw_model_folds(log, model, n_folds, seed)
        predictor = RewardPredictor(log, fit_folds(model, log, drawn, sample_weight), drawn)
    else:
        predictor = predict_rewards(model, log, n_folds=n_folds, seed=seed)
    fold = np.zeros(log.n_samples, np.intp) if predictor.fold is None else predictor.fold
    estimate = np.asfortranarray(predictor.block(slice(0, log.n_samples)))
    return _judged(predictor.models, fold, estimate, log, sample_weight)


def draw_model_folds(log: BanditLog, model: Any, n_folds: int, seed: int) -> IntArray:
    """Return the folds on which a model is cross-fitted."""
    return draw_folds(log, min(n_folds, getattr(model, "max_folds", n_folds)), seed)


def estimate_unseen(
    models: tuple[Any, ...], fold: IntArray, log: BanditLog, sample_weight: FloatArray | None
) -> CrossFit:
    """Return fitted models with their predictions for the samples of their folds."""
    estimate = np.empty((log.n_samples, log.n_actions), order="F")
    for number, fitted in enumerate(models):
        own = np.flatnonzero(fold == number)
        # Trees score every row by itself, so that a fold's contexts need not all be copied at once.
        n_rows = CHUNK_ROWS if isinstance(fitted, BoostedRewardModel) else max(len(own), 1)
        for start in range(0, len(own), n_rows):
            rows = own[start : start + n_rows]
            estimate[rows] = fitted.predict(log.context[rows])
    return _judged(models, fold, estimate, log, sample_weight)


def _cross_fit_boosted(
    log: BanditLog,
    model: BoostedRewardModel,
    fold: IntArray,
    seed: int,
    sample_weight: FloatArray | None,
    binding: RewardBinding | None,
    is_over: Callable[[], bool],
) -> CrossFit:
    from sklearn.base import clone

    weight = np.ones(log.n_samples) if sample_weight is None else sample_weight
    learner = model.learner_for(log)
    binding = RewardBinding(log, learner) if binding is None else binding
    numbers = range(int(fold.max()) + 1)
    # All folds share one binding: samples of a fold stay in its run with weight zero, so nothing is binned or copied
    # per fold, and ``residual`` has the errors on unseen samples for nothing.
    runs = [
        binding.boost(model, np.where(fold == number, 0.0, weight), seed=seed + number, learner=learner)
        for number in numbers
    ]
    unseen = [np.where((fold == number)[binding.order], weight[binding.order], 0.0) for number in numbers]

    def error() -> float:
        limbs = sum((limbs_of(own * run.residual**2) for run, own in zip(runs, unseen, strict=True)), no_limbs())
        return value_of(limbs) / total

    total = exact_sum(weight)
    best = boost_folds(runs, error, model, is_over)
    training_rows = RowSketch.of(log)  # the folds have the same: samples of weight zero end the boosting
    models = tuple(clone(model).take(run, log, best, training_rows) for run in runs)
    return estimate_unseen(models, fold, log, sample_weight)


class FoldRun(Protocol):
    """Boosting without one fold."""

    def add_round(self) -> None:
        """Fit one more tree."""
        ...


def boost_folds(
    runs: Sequence[FoldRun], error: Callable[[], float], model: BoostedRewardModel, is_over: Callable[[], bool]
) -> int:
    """Add rounds to all folds until the error on unseen samples stops falling; return the best number of rounds."""
    # Small steps improve more slowly: patience grows as the learning rate falls below a tenth.
    patience = max(PATIENCE, math.ceil(PATIENCE / (10.0 * model.learning_rate)))
    least, best = error(), 0
    for round_idx in range(model.n_rounds):
        note_progress(f"round {round_idx + 1} of at most {model.n_rounds} of the reward model")
        for run in runs:
            run.add_round()
        found = error()
        if found < least:
            least, best = found, round_idx + 1
        if is_over() or round_idx + 1 - best >= patience:
            break
    note_progress("")
    return best


def _judged(
    models: tuple[Any, ...], fold: IntArray, estimate: FloatArray, log: BanditLog, sample_weight: FloatArray | None
) -> CrossFit:
    logged = logged_entries(estimate, log.action_idx)
    mean = exact_mean(log.reward, sample_weight)
    error = exact_mean((log.reward - logged) ** 2, sample_weight)
    spread = exact_mean((log.reward - mean) ** 2, sample_weight)
    return CrossFit(models, fold, estimate, error, 1.0 - error / spread if spread > 0.0 else 0.0)
