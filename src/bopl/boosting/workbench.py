"""`Workbench`: computes what several fits on one log have in common, once; `Keeper`: what parts of long work share."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from bopl._exact import Limbs, exact_mean, limbs_of, values_of
from bopl._policy_reader import logged_entries
from bopl._registry import keeps
from bopl._typing import ContextMatrix, FloatArray
from bopl.boosting.ensemble import Start, mean_of
from bopl.learner import BoundLearner, HistTree, Predictor, bind_learner, with_categories
from bopl.learner.hist_tree.bound import BoundHistTree
from bopl.learner.store import learner_settings, settings_of
from bopl.log import BanditLog
from bopl.reward.boosted_model import BoostedRewardModel, BoundPairs
from bopl.reward.cross_fitting import CrossFit, cross_fit
from bopl.reward.kept_models import can_be_kept, read_cross_fit, write_cross_fit
from bopl.reward.logging_model import LoggingModel, LoggingTerm, fit_logging_model

if TYPE_CHECKING:
    from bopl.boosting.loop import AnyCallback
    from bopl.log import PartitionedLog

T = TypeVar("T")
MIN_SPREAD = 1e-3  # of ln p: a logging policy closer to uniform carries no information, its slope is pure noise
_MIN_PART = 1e-12  # of the largest eigenvalue: anything smaller is indistinguishable from rounding


class Keeper:
    """Keeps binned pairs in memory, and no files; `bopl.workflow.checkpoints` adds files of finished work."""

    def __init__(self) -> None:
        self.pairs = BoundPairs()

    def recall(self, name: str, read: Callable[[Path], T]) -> T | None:
        """Return what was stored under a name; None if there is nothing, or nothing readable.

        ``read`` returns the contents of a file, or raises ValueError.
        """
        return None

    def keep(self, name: str, write: Callable[[Path], None], *, seconds: float) -> bool:
        """Store finished work under a name, if it took longer than writing it does; return whether it was stored.

        ``write`` writes a file atomically; ``seconds`` is how long the work took.
        """
        return False

    def fit(
        self, fit: Callable[..., Any], log: BanditLog | PartitionedLog, callbacks: Sequence[AnyCallback] = ()
    ) -> None:
        """Call a policy's ``fit`` with a log and callbacks, from where an earlier run stopped."""
        fit(log, callbacks=callbacks)


class Workbench:
    """Bins, row order, reward models and models of the logging policy of one log, shared by all fits on it.

    Parameters
    ----------
    log : BanditLog
        The log to learn from.
    sample_weight : ndarray of shape (n_samples,), optional
        Weight of each sample, with mean 1.
    n_folds : int, default=5
        Number of folds of cross-fitting.
    seed : int, default=0
        Seed of the folds.
    logging_model : LoggingModel, optional
        The logging policy, if it was learned before, for example from more samples: it does not depend on rewards.
    keeper : Keeper, optional
        Keeps binned pairs, and reward models under names that begin with ``name``.
    name : str, default="fit"
        Name of the work in files that store it.
    """

    def __init__(
        self,
        log: BanditLog,
        *,
        sample_weight: FloatArray | None = None,
        n_folds: int = 5,
        seed: int = 0,
        logging_model: LoggingModel | None = None,
        keeper: Keeper | None = None,
        name: str = "fit",
    ) -> None:
        self.log = log
        self.sample_weight = sample_weight
        self.n_folds = n_folds
        self.seed = seed
        self._bound: BoundHistTree | None = None
        self._rewards: dict[str, RewardFit] = {}
        self._logging: LoggingFit | None = None
        self._logging_model = logging_model
        self._keeper, self._name = keeper or Keeper(), name

    def bind(self, learner: Any, *, seed: int) -> BoundLearner:
        """Return a learner bound to the log; trees of the engine share their bins if their settings allow it."""
        if not keeps(learner, HistTree, "bind"):
            return bind_learner(learner, self.log, seed=seed)
        learner = with_categories(learner, self.log)
        # Binning takes as long as some rounds; the row order and the working memory come with the bins.
        if self._bound is not None and self._bound.serves(learner):
            return self._bound.rebound(learner, seed=seed)
        bound = learner.bind(self.log, seed=seed)
        self._bound = self._bound or bound
        return bound

    def rewards(
        self, model: Any = None, *, has_prior: bool = False, is_over: Callable[[], bool] = lambda: False
    ) -> RewardFit:
        """Return cross-fitted estimates of the rewards; each model is fitted only once.

        Parameters
        ----------
        model : model, optional
            `BoostedRewardModel` by default.
        has_prior : bool, default=False
            Start the model from what the logging policy's own probabilities imply about the rewards.
        is_over : callable, optional
            Called after every round; True ends the fit.
        """
        model = BoostedRewardModel() if model is None else model
        key = f"reward {has_prior} {describe_model(model)}"
        if key not in self._rewards:
            prior = self.prior() if has_prior else None
            if prior is None:
                fitted = self._kept_fit(key, model, self.log, is_over)
            else:
                log_prob = self.logging().log_prob
                logged = logged_entries(log_prob, self.log.action_idx)
                fitted = self._kept_fit(key, model, self.log.with_reward(self.log.reward - prior.of(logged)), is_over)
                for action in range(self.log.n_actions):  # in place, a column at a time
                    fitted.estimate[:, action] += prior.of(log_prob[:, action])
            self._rewards[key] = RewardFit(fitted, prior)
        return self._rewards[key]

    def logging(self) -> LoggingFit:
        """Return the logging policy, learned from the logged propensities."""
        if self._logging is None:
            self._logging = self._fit_logging()
        return self._logging

    def prior(self) -> Prior:
        """Return what the logging policy's probabilities imply about the rewards: least squares of r on 1, ln p, p."""
        logging = self.logging()
        logged = logged_entries(logging.log_prob, self.log.action_idx)
        sums = PriorSums(logged, self.log.reward, self.sample_weight).limbs()
        variance = exact_mean((logged - exact_mean(logged)) ** 2)
        return find_prior(logging.model, values_of(sums), has_spread(variance))

    def _fit_logging(self) -> LoggingFit:
        model = self._logging_model or fit_logging_model(self.log, seed=self.seed, pairs=self._keeper.pairs)
        # Not masked, as new contexts are not: which actions are eligible is left to the softmax of the scores.
        return LoggingFit(model, np.asfortranarray(model.log_prob(self.log.context)))

    def _kept_fit(self, key: str, model: Any, log: BanditLog, is_over: Callable[[], bool]) -> CrossFit:
        """Return what an earlier run fitted and stored, or fit and store it."""
        if not can_be_kept(model):
            return self._cross_fit(model, log, is_over)
        name = f"{self._name} {key}"
        reading = partial(
            read_cross_fit,
            model=model,
            log=log,
            n_folds=self.n_folds,
            seed=self.seed,
            sample_weight=self.sample_weight,
        )
        fitted = self._keeper.recall(name, reading)
        if fitted is None:
            began = time.monotonic()
            fitted = self._cross_fit(model, log, is_over)
            if not is_over():  # or it may have been interrupted
                writing = partial(write_cross_fit, fitted=fitted, log=log)
                self._keeper.keep(name, writing, seconds=time.monotonic() - began)
        return fitted

    def _cross_fit(self, model: Any, log: BanditLog, is_over: Callable[[], bool]) -> CrossFit:
        binding = None
        if keeps(model, BoostedRewardModel, "fit", "predict"):
            # The pairs are those of the log, whichever rewards are learned.
            binding = self._keeper.pairs.of(self.log, model.learner_for(log)).with_reward(log.reward)
        return cross_fit(
            log,
            model,
            n_folds=self.n_folds,
            seed=self.seed,
            sample_weight=self.sample_weight,
            binding=binding,
            is_over=is_over,
        )


@dataclass(frozen=True, eq=False)
class LoggingFit:
    """A model of the logging policy, and its log-probabilities on the log, of shape (n_samples, n_actions)."""

    model: LoggingModel
    log_prob: FloatArray

    def start(self) -> Start:
        """Return the log-probabilities as a start."""
        return Start("logging", (LoggingTerm(self.model),), (1.0,))


@dataclass(frozen=True, eq=False)
class RewardFit:
    """Cross-fitted rewards, with the prior that the models started from."""

    fitted: CrossFit
    prior: Prior | None = None

    @property
    def estimate(self) -> FloatArray:
        """Estimates of the log's samples, of shape (n_samples, n_actions); column by column in memory."""
        return self.fitted.estimate

    def predict(self, context: ContextMatrix) -> FloatArray:
        """Return the expected rewards of new contexts, of shape (n_samples, n_actions)."""
        own = self.fitted.predict(context)
        return own if self.prior is None else own + self.prior.constant + self.prior.term.predict(context)

    def start(self, factor: float) -> Start:
        """Return ``factor · q̂`` as a start: the folds' mean."""
        return reward_start(self.fitted.models, self.prior, factor)


@dataclass(frozen=True)
class _ModelTerm(Predictor):
    """A reward model as a term of an ensemble; it has no form in which it could be saved."""

    estimator: Any

    def predict(self, context: ContextMatrix) -> FloatArray:
        """Return what the model predicts."""
        return np.asarray(self.estimator.predict(context))


def reward_start(models: Sequence[Any], prior: Prior | None, factor: float) -> Start:
    """Return ``factor`` times the mean of several reward models, and of their prior, as a start."""
    if all(keeps(model, BoostedRewardModel, "fit", "predict") for model in models):
        # The models' constants are left out: a constant in all scores of a context changes no probability.
        predictors = [list(model.predictors_) for model in models]
        rates = [[factor * model.learning_rate] * len(model.predictors_) for model in models]
    else:
        predictors = [[model.predictor() if hasattr(model, "predictor") else _ModelTerm(model)] for model in models]
        rates = [[factor]] * len(models)
    start = mean_of("reward_model", predictors, rates)
    if prior is not None:
        start = Start("reward_model", (prior.term, *start.predictors), (factor, *start.coefficients))
    return start


def describe_model(model: Any) -> str:
    """Return what tells a reward model from others: its class and all settings but the threads."""
    given = settings_of(model)
    if given is None:
        return f"{type(model).__name__} {id(model)}"
    settings = {
        name: learner_settings(value) if hasattr(value, "get_params") else value
        for name, value in given.items()
        if name != "n_jobs"
    }
    return json.dumps({"class": type(model).__name__, **settings}, default=repr, sort_keys=True)


@dataclass(frozen=True, eq=False)
class Prior:
    """Rewards as predicted by the logging policy's probabilities: a constant and one term for each of these."""

    constant: float
    term: LoggingTerm

    def of(self, log_prob: FloatArray) -> FloatArray:
        """Return the predicted rewards of actions with these log-probabilities."""
        return self.constant + self.term.of(log_prob)


@dataclass(frozen=True, eq=False)
class PriorSums:
    """The sums for least squares over some samples: ``Σ w·c·c'`` and ``Σ w·c·r`` of the columns 1, ln p, p."""

    logged: FloatArray  # (n_samples,): log-probabilities of the logged actions
    reward: FloatArray  # (n_samples,)
    weight: FloatArray | None  # (n_samples,)

    def limbs(self) -> Limbs:
        """Return them as exact sums, which can be added over several parts: six products of columns, three with r."""
        columns = [np.ones_like(self.logged), self.logged, np.exp(self.logged)]
        products = [columns[i] * columns[j] for i in range(3) for j in range(i, 3)]
        products += [column * self.reward for column in columns]
        return np.stack([limbs_of(one if self.weight is None else one * self.weight) for one in products])


def has_spread(variance: float) -> bool:
    """Return whether log-probabilities of this variance carry information."""
    return float(np.sqrt(variance)) >= MIN_SPREAD


def find_prior(model: LoggingModel, sums: FloatArray, is_spread: bool) -> Prior:
    """Return the prior from the values of `PriorSums.limbs`; without a spread it is the mean reward."""
    if not is_spread:
        return Prior(float(sums[6] / sums[0]), LoggingTerm(model, 0.0))
    # ln p and p are nearly collinear where propensities are nearly constant: directions that rounding cannot tell from
    # zero are left out, which gives the least-norm solution, the same on every machine.
    gram = np.array([[sums[0], sums[1], sums[2]], [sums[1], sums[3], sums[4]], [sums[2], sums[4], sums[5]]])
    size, direction = np.linalg.eigh(gram)
    kept = size > _MIN_PART * size[-1]
    moved = direction[:, kept].T @ sums[6:]
    constant, log_factor, prob_factor = (direction[:, kept] @ (moved / size[kept])).tolist()
    return Prior(constant, LoggingTerm(model, log_factor, prob_factor))
