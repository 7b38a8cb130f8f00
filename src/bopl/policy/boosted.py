"""`BoostedPolicy`: boosting the policy's estimated reward, as a scikit-learn estimator."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np

from bopl._archive import Archive, Packed
from bopl._settings import seed_of
from bopl.boosting import (
    BoostingResult,
    BoostingState,
    Problem,
    ProgressBar,
    Validation,
    fit_ensemble,
    read_checkpoint,
)
from bopl.boosting.callback import check_callbacks
from bopl.boosting.loop import AnyCallback, BoostingRun
from bopl.boosting.workbench import Workbench
from bopl.log import BanditLog
from bopl.log.log_split import divide_latest
from bopl.objective.training_data import check_sample_weight
from bopl.policy.boosting_plan import BoostingPlan
from bopl.policy.ensemble_policy import EnsemblePolicy
from bopl.policy.over_pieces import is_in_pieces
from bopl.policy.scored import as_training_log


class BoostedPolicy(EnsemblePolicy):
    """A softmax policy over an ensemble boosted on the estimated reward of the policy itself.

    By default it starts from the logging policy and a cross-fitted reward model, and boosts the doubly robust estimate
    of its own reward.

    Parameters
    ----------
    objective : {"dr", "ips", "surrogate"} or Objective, default="dr"
        ``"dr"`` is doubly robust; ``"ips"`` is BOPL (Algorithm 1); ``"surrogate"`` is BOPL-S (Algorithm 2), easier to
        optimise. Objects such as ``bopl.objective.IPS(weight=bopl.objective.Clipped(0.05))`` have settings.
    learner : learner, optional
        What fits one predictor per round: `bopl.HistTree`, `bopl.HistTreeClassifier`, `bopl.XGBTree`, or any
        scikit-learn regressor (Algorithm 3) or classifier (Algorithm 4) that takes ``sample_weight``. By default
        `bopl.learner.default_learner`: trees of depth 12, leaves of 20 typical samples, half of the columns per node.
    n_rounds : int, default=100
        Maximum number of rounds. 0 keeps the start as it is.
    reward_translation : float, default=0
        Added to every reward before training (-0.4 means r - 0.4). Negative values guard against propensity
        overfitting: a policy can no longer win just by avoiding what was logged. It has no effect on ``"dr"``.
    start : {"uniform", "reward_model", "logging", "logging+reward_model"}, optional
        Where boosting starts: at equal scores (the paper), at ``beta · q̂`` of a cross-fitted reward model, at the
        logarithm of the logging policy, or at their sum. By default at their sum if the objective needs a reward
        model, otherwise at equal scores.
    start_sharpness : float, default=5
        ``beta`` in units of the reward's spread: ``beta = start_sharpness / std(reward)``.
    reward_model : model, optional
        Model for the doubly robust objective and the start: `bopl.BoostedRewardModel` by default, or any model with
        ``fit(log)`` and ``predict(context)``, or a scikit-learn regressor. It is cross-fitted within `fit`.
    reward_prior : bool, default=False
        Start the reward model from what the logging policy's own probabilities imply about the rewards: if rewards are
        noisy and that policy is good, this is most of what can be known.
    n_folds : int, default=5
        Number of folds of cross-fitting.
    learning_rate : float in (0, 1], default=1
        Share of the certified step to take in every round.
    inverse_temperature : float in [0, inf], default=1
        Factor of the scores when the policy acts: 1 is the policy that was boosted, infinity always takes
        the action with the highest score.
    ensemble_weight_penalty : float, default=0
        ``lambda``: adds ``lambda · alpha²`` to the risk of every round and so shortens the steps.
    scale : float, optional
        C, the scale of predictors before their weight is computed. It affects the policy only together
        with a penalty.
    validation_fraction : float in (0, 1), optional
        Share of the log that is set aside to monitor the policy's value; the ensemble is truncated to its best round.
        In a log with times these are the latest samples, if that is possible; groups stay whole. ``fit`` also takes
        a separate log for this.
    early_stopping_rounds : int, optional
        Stop after this many rounds without a better validation value.
    certificate : bool, default=True
        Compute the minimum risk of any policy on the log, for the bound of Theorem 1 in the history. It takes
        a few seconds per million samples.
    progress : bool, default=True
        Show a progress bar if standard error is a terminal.
    random_state : int, RandomState instance or None, default=None
        Seed of folds, sampled columns and rows, and the validation split.

    Attributes
    ----------
    actions_ : ndarray of shape (n_actions,)
    action_features_ : ndarray of shape (n_actions, n_action_features) or None
    history_ : History
        One row per round: risks, bounds, gradient norm, alpha, values. See `bopl.boosting.history.COLUMNS`.
    ensemble_ : Ensemble
        Its start and its rounds.
    n_rounds_ : int
        Rounds in the ensemble, after truncation to the best round.
    stop_reason_ : str
        Why boosting ended.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)
        Only if the log had column names.

    Examples
    --------
    >>> import numpy as np, bopl
    >>> rng = np.random.default_rng(0)
    >>> context = rng.normal(size=(500, 2))
    >>> action = rng.integers(0, 2, size=500)
    >>> reward = (action == (context[:, 0] > 0)).astype(float)
    >>> log = bopl.BanditLog(context, action, reward, np.full(500, 0.5))
    >>> policy = bopl.BoostedPolicy(n_rounds=5, random_state=0).fit(log)
    >>> policy.predict([[1.0, 0.0], [-1.0, 0.0]]).tolist()
    [1, 0]
    """

    def __init__(
        self,
        objective: Any = "dr",
        learner: Any = None,
        n_rounds: int = 100,
        reward_translation: float = 0.0,
        *,
        start: str | None = None,
        start_sharpness: float = 5.0,
        reward_model: Any = None,
        reward_prior: bool = False,
        n_folds: int = 5,
        learning_rate: float = 1.0,
        inverse_temperature: float = 1.0,
        ensemble_weight_penalty: float = 0.0,
        scale: float | None = None,
        validation_fraction: float | None = None,
        early_stopping_rounds: int | None = None,
        certificate: bool = True,
        progress: bool = True,
        random_state: Any = None,
    ) -> None:
        self.objective = objective
        self.learner = learner
        self.n_rounds = n_rounds
        self.reward_translation = reward_translation
        self.start = start
        self.start_sharpness = start_sharpness
        self.reward_model = reward_model
        self.reward_prior = reward_prior
        self.n_folds = n_folds
        self.learning_rate = learning_rate
        self.inverse_temperature = inverse_temperature
        self.ensemble_weight_penalty = ensemble_weight_penalty
        self.scale = scale
        self.validation_fraction = validation_fraction
        self.early_stopping_rounds = early_stopping_rounds
        self.certificate = certificate
        self.progress = progress
        self.random_state = random_state

    @property
    def trained_inverse_temperature(self) -> float:
        """Factor of the scores, unless the caller gives one."""
        return self.inverse_temperature

    # -- Fitting --------------------------------------------------------------------------------------------------

    def fit(
        self,
        context: Any,
        action: Any = None,
        *,
        reward: Any = None,
        propensity: Any = None,
        actions: Any = None,
        sample_weight: Any = None,
        validation: Any = None,
        callbacks: Sequence[AnyCallback] = (),
        resume_from: str | Path | None = None,
        workbench: Workbench | None = None,
        cluster: Any = None,
        memory: int | str | None = None,
    ) -> BoostedPolicy:
        """Train on a log.

        Parameters
        ----------
        context : BanditLog, PartitionedLog, or array-like of shape (n_samples, n_features)
            A log, in memory or in pieces, or contexts together with ``action``, ``reward`` and ``propensity``, as for
            `BanditLog`.
        action, reward, propensity, actions
            As for `BanditLog`; only without a log. ``action`` may hold all three, as `bopl.outcomes` makes them.
        sample_weight : array-like of shape (n_samples,), optional
            Weight of each sample, relative to the others.
        validation : BanditLog, optional
            Monitored after every round; the ensemble is truncated to the round with its best value. It may be in pieces
            if the log is.
        callbacks : sequence of callables, optional
            Such as `bopl.Checkpoint` and `bopl.TimeLimit`.
        resume_from : str or Path, optional
            A checkpoint of an earlier fit with the same log and settings; the result is the same to the last bit as
            if that fit had not been interrupted. ``n_rounds`` may be larger than before.
        workbench : Workbench, optional
            Bins and reward models shared with other fits on the same log.
        cluster : Cluster, distributed.Client or str, optional
            Where the pieces of a log in pieces are processed: a Dask client or its address. This machine by default.
        memory : int or str, optional
            Memory that a fit of a log in pieces may take on this machine, such as ``"4GB"``; half of the free memory by
            default. The model depends neither on it nor on the cluster: it equals that of the log in memory, to the
            last byte.
        """
        watchers = check_callbacks(callbacks)
        if is_in_pieces(context):
            return self._fit_pieces(
                context, cluster, memory, sample_weight, validation, watchers, resume_from, workbench
            )
        if cluster is not None or memory is not None:
            raise ValueError(
                "cluster= and memory= are for logs in pieces, such as from BanditLog.scan_parquet; this log is in "
                "memory already."
            )
        if is_in_pieces(validation):
            raise ValueError("validation is in pieces, but the log is in memory: pass validation.to_log().")
        log = as_training_log(context, action, reward, propensity, actions)
        plan = BoostingPlan.of(self, validation)
        plan.check_rewards(log)
        plan.check_resume(resume_from)
        seed = seed_of(self.random_state)
        weight = check_sample_weight(sample_weight, log.n_samples)
        if self.validation_fraction is not None and validation is None:
            division = divide_latest(log, self.validation_fraction, random_state=seed)
            weight = None if weight is None else check_sample_weight(weight[division.train], len(division.train))
            log, validation = division.split(log)
        if workbench is None:
            workbench = Workbench(log, sample_weight=weight, n_folds=self.n_folds, seed=seed)
        elif workbench.log is not log:
            raise ValueError("the workbench belongs to another log; create one for this log.")
        elif weight is not None and weight is not workbench.sample_weight:
            raise ValueError("the workbench has the sample weights; pass them to it, not to fit.")
        self._boost(plan, workbench, validation, watchers, seed, resume_from)
        return self

    def _fit_pieces(
        self,
        log: Any,
        cluster: Any,
        memory: int | str | None,
        sample_weight: Any,
        validation: Any,
        callbacks: list[AnyCallback],
        resume_from: str | Path | None,
        workbench: Workbench | None,
    ) -> BoostedPolicy:
        """Train on a log in pieces."""
        from bopl.cluster import using_cluster
        from bopl.policy.over_pieces import fit_over_pieces

        if workbench is not None:
            raise ValueError("a workbench is for a log in memory; this log is in pieces.")
        plan = BoostingPlan.of(self, validation)
        plan.check_resume(resume_from)
        seed = seed_of(self.random_state)
        with using_cluster(cluster, memory=memory, n_threads=plan.n_threads) as engine:
            fitted = fit_over_pieces(
                plan,
                log,
                engine,
                sample_weight=sample_weight,
                validation=validation,
                callbacks=callbacks,
                seed=seed,
                resume_from=resume_from,
            )
        self.ensemble_ = fitted.result.ensemble.truncated(fitted.n_kept)
        self.history_, self.stop_reason_ = fitted.result.history, fitted.result.stop_reason
        self._remember_facts(log, fitted.training_rows)
        return self

    def _boost(
        self,
        plan: BoostingPlan,
        workbench: Workbench,
        validation: BanditLog | None,
        callbacks: list[AnyCallback],
        seed: int,
        resume_from: str | Path | None,
    ) -> None:
        watch = None if validation is None else Validation(validation, self.early_stopping_rounds)
        watchers: list[AnyCallback] = ([watch] if watch else []) + ([ProgressBar()] if self.progress else [])
        problem, state = self._opened(plan, workbench, seed, resume_from)
        result = fit_ensemble(
            problem,
            workbench.bind(plan.learner, seed=state.seed),
            plan.step_rule,
            n_rounds=self.n_rounds,
            n_jobs=plan.n_threads,
            callbacks=[*watchers, *callbacks],
            resumed=state,
        )
        n_kept = len(result.ensemble.rounds) if watch is None or watch.best_value == -np.inf else watch.best_n_rounds
        self.adopt(result, workbench.log, n_kept, *([] if validation is None else [validation]))

    def begin(
        self, workbench: Workbench, *, seed: int, resume_from: str | Path | None = None
    ) -> tuple[Problem, BoostingRun]:
        """Return a run of this policy, for the caller to continue; see `adopt`.

        It has made no round yet, or those of a checkpoint of the same run.
        """
        plan = BoostingPlan.of(self)
        problem, state = self._opened(plan, workbench, seed, resume_from)
        bound = workbench.bind(plan.learner, seed=state.seed)
        return problem, BoostingRun.begin(problem, bound, plan.step_rule, state, n_jobs=plan.n_threads)

    def _opened(
        self, plan: BoostingPlan, workbench: Workbench, seed: int, resume_from: str | Path | None
    ) -> tuple[Problem, BoostingState]:
        """Return the problem, and the state before the first round or that of a checkpoint."""
        settings = plan.round_settings(workbench.sample_weight, workbench.n_folds, workbench.seed)
        if resume_from is None:
            state = BoostingState(workbench.log, self.n_rounds, seed, settings=settings)
        else:
            state = read_checkpoint(resume_from, workbench.log, settings, self.n_rounds)
        problem = plan.problem(workbench)
        state.start = problem.start
        return problem, state

    def adopt(self, result: BoostingResult, log: BanditLog, n_rounds: int, *watched: BanditLog) -> BoostedPolicy:
        """Use the first rounds of a result.

        Parameters
        ----------
        result : BoostingResult
            Result of the loop.
        log : BanditLog
            Training log.
        n_rounds : int
            Rounds to keep.
        watched : BanditLog
            Logs on which the number of rounds was chosen.
        """
        self.ensemble_ = result.ensemble.truncated(n_rounds)
        self.history_ = result.history
        self.stop_reason_ = result.stop_reason
        self._remember(log, *watched)
        return self

    # -- Files ----------------------------------------------------------------------------------------------------

    def content(self) -> Packed:
        """Return the trees with their coefficients; for predictors without a plain form, what they were fitted with."""
        from bopl.policy.boosted_file import own_settings

        own = {name: repr(getattr(self, name)) for name in own_settings(self)}
        try:
            facts, arrays = super().content()
            return facts | own, arrays
        except TypeError:
            rows = None if self.training_rows_ is None else self.training_rows_.digest
            return {"rows": rows, "learner": repr(self.learner), "n_rounds": self.n_rounds_, **own}, {}

    def pack(self) -> Packed:
        """Return what was learned as JSON facts and arrays."""
        from bopl.policy.boosted_file import pack_boosted

        return pack_boosted(self)

    @classmethod
    def from_archive(cls, archive: Archive) -> Self:
        """Return the policy of a model file; `bopl.load` calls this."""
        from bopl.policy.boosted_file import boosted_from

        return boosted_from(archive, cls)

    # -- Notebooks ------------------------------------------------------------------------------------------------

    def _repr_html_inner(self) -> str:
        """Return the HTML for notebooks, instead of scikit-learn's diagram."""
        from bopl.policy.policy_card import policy_card

        return policy_card(self, repr(self))
