"""`BoostedPolicy`: boosting the policy's estimated reward, as a scikit-learn estimator."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from bopl._archive import Archive
from bopl._exact import exact_mean
from bopl._settings import check_number
from bopl._typing import BoolArray, ContextMatrix, FloatArray
from bopl.boosting import (
    BoostingResult,
    BoostingState,
    Problem,
    ProgressBar,
    Start,
    StepRule,
    Validation,
    fit_ensemble,
    read_checkpoint,
)
from bopl.boosting.loop import AnyCallback, BoostingRun
from bopl.boosting.start import check_start
from bopl.boosting.workbench import Workbench, describe_model
from bopl.learner import default_learner
from bopl.learner.store import Packed, learner_settings
from bopl.log import BanditLog
from bopl.log.action import encode_actions
from bopl.log.check import check_lengths
from bopl.log.split import divide_latest
from bopl.objective import TrainingData, get_objective
from bopl.objective.registry import check_objective, describe
from bopl.objective.training_data import check_sample_weight
from bopl.policy.identity import ensemble_content
from bopl.policy.over_pieces import is_in_pieces
from bopl.policy.scored import ScoredPolicy, ShownAsCard, as_training_log
from bopl.reward.logging_model import LoggingTerm

if TYPE_CHECKING:
    from bopl.policy.explanation import Explanation


class BoostedPolicy(ShownAsCard, ScoredPolicy):
    """A softmax policy over an ensemble boosted on the estimated reward of the policy itself.

    By default it starts from the logging policy and a cross-fitted reward model, and boosts the doubly robust estimate
    of its own reward.

    Parameters
    ----------
    objective : {"dr", "ips", "surrogate"} or Objective, default="dr"
        ``"dr"`` is doubly robust; ``"ips"`` is BOPL (Algorithm 1); ``"surrogate"`` is BOPL-S (Algorithm 2), easier to
        optimise. Objects such as ``bopl.objective.IPS(weight=bopl.objective.Clipped(0.05))`` say more.
    learner : learner, optional
        What fits one predictor per round: `bopl.HistTree`, `bopl.HistTreeClassifier`, `bopl.XGBTree`, or any
        scikit-learn regressor (Algorithm 3) or classifier (Algorithm 4) that takes ``sample_weight``. By default
        `bopl.learner.default_learner`: trees of depth 12, leaves of 20 typical samples, half of the columns per node.
    n_rounds : int, default=100
        Maximum number of rounds. 0 keeps the start as it is.
    reward_translation : float, default=0
        Added to every reward before training (-0.4 means r - 0.4). Negative values guard against propensity
        overfitting: a policy cannot win any more by merely avoiding what was logged. It changes nothing for ``"dr"``.
    start : {"uniform", "reward_model", "logging", "logging+reward_model"}, optional
        Where boosting starts: at equal scores (the paper), at ``beta · q̂`` of a cross-fitted reward model, at the
        logarithm of the logging policy, or at their sum. By default at their sum where the objective needs a reward
        model, else at equal scores.
    start_sharpness : float, default=5
        ``beta`` in units of the reward's spread: ``beta = start_sharpness / std(reward)``.
    reward_model : model, optional
        Of the doubly robust objective and of the start: `bopl.BoostedRewardModel` by default, or any model with
        ``fit(log)`` and ``predict(context)``, or a scikit-learn regressor. It is cross-fitted within `fit`.
    reward_prior : bool, default=False
        Begin the reward model with what the logging policy's own probabilities say of the rewards: where rewards are
        noisy and that policy is good, this is most of what can be known.
    n_folds : int, default=5
        Of cross-fitting.
    learning_rate : float in (0, 1], default=1
        Share of the certified step that is taken in every round.
    inverse_temperature : float in [0, inf], default=1
        What the scores are multiplied by when the policy acts: 1 is the policy that was boosted, infinity always takes
        the action with the highest score.
    ensemble_weight_penalty : float, default=0
        ``lambda``: adds ``lambda · alpha²`` to the risk of every round and so shortens the steps.
    scale : float, optional
        C, the scale predictors are brought to before their weight is computed. It changes the policy only together
        with a penalty.
    validation_fraction : float in (0, 1), optional
        Share of the log that is set aside to watch the policy's value; the ensemble is cut back to its best round.
        Of a log with times these are the latest samples, where that is possible; groups stay whole. ``fit`` also takes
        a log of its own for this.
    early_stopping_rounds : int, optional
        Stop after so many rounds without a better validation value.
    certificate : bool, default=True
        Compute the least risk that any policy can have on the log, for the bound of Theorem 1 in the history. It takes
        a few seconds per million samples.
    progress : bool, default=True
        Show a progress bar where standard error is a terminal.
    random_state : int, RandomState instance or None, default=None
        Seed of folds, of drawn columns and samples, and of the validation split.

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
        """What the scores are multiplied by unless the caller says otherwise."""
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
            A log, in memory or in pieces, or contexts with ``action``, ``reward`` and ``propensity`` beside them as for
            `BanditLog`.
        action, reward, propensity, actions
            As for `BanditLog`; only without a log. ``action`` may hold all three, as `bopl.outcomes` makes them.
        sample_weight : array-like of shape (n_samples,), optional
            How much each sample counts, relative to the others.
        validation : BanditLog, optional
            Watched after every round; the ensemble is cut back to the round with its best value. It may be in pieces
            where the log is.
        callbacks : sequence of callables, optional
            Such as `bopl.Checkpoint` and `bopl.TimeLimit`.
        resume_from : str or Path, optional
            A checkpoint of an earlier fit with the same log and settings; the result is the same to the last bit as
            if that fit had not been cut short. ``n_rounds`` may be larger than it was.
        workbench : Workbench, optional
            Bins and reward models that other fits on the same log have made.
        cluster : Cluster, distributed.Client or str, optional
            Where the pieces of a log in pieces are worked on: a Dask client or its address. This machine by default.
        memory : int or str, optional
            What a fit of a log in pieces may take of this machine's memory, as ``"4GB"``; half of what is free by
            default. The model does not depend on it, nor on the cluster: it is that of the log in memory, to the last
            byte.
        """
        if is_in_pieces(context):
            return self._fit_pieces(
                context, cluster, memory, sample_weight, validation, list(callbacks), resume_from, workbench
            )
        if cluster is not None or memory is not None:
            raise ValueError(
                "cluster= and memory= are for logs in pieces, as BanditLog.scan_parquet makes them; this log is in "
                "memory already."
            )
        log = as_training_log(context, action, reward, propensity, actions)
        self._check_settings(validation)
        self._check_rewards(log)
        self._check_resume(resume_from)
        seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        weight = check_sample_weight(sample_weight, log.n_samples)
        if self.validation_fraction is not None and validation is None:
            division = divide_latest(log, self.validation_fraction, random_state=seed)
            weight = None if weight is None else check_sample_weight(weight[division.train], len(division.train))
            log, validation = division.split(log)
        if workbench is None:
            workbench = Workbench(log, sample_weight=weight, n_folds=self.n_folds, seed=seed)
        elif workbench.log is not log:
            raise ValueError("the workbench belongs to another log; make one for this log.")
        elif weight is not None and weight is not workbench.sample_weight:
            raise ValueError("the workbench has the sample weights; pass them to it, not to fit.")
        self._boost(workbench, validation, list(callbacks), seed, resume_from)
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
            raise ValueError("a workbench holds what was made of a log in memory; this log is in pieces.")
        self._check_settings(validation)
        self._check_resume(resume_from)
        seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        n_jobs = _threads_of(self._learner())
        with using_cluster(cluster, memory=memory, n_threads=n_jobs) as engine:
            fitted = fit_over_pieces(
                self,
                log,
                engine,
                sample_weight=sample_weight,
                validation=validation,
                callbacks=callbacks,
                seed=seed,
                resume_from=resume_from,
                n_jobs=n_jobs,
            )
        self.ensemble_ = fitted.result.ensemble.truncated(fitted.n_kept)
        self.history_, self.stop_reason_ = fitted.result.history, fitted.result.stop_reason
        self._remember_facts(log, fitted.training_rows)
        return self

    def _boost(
        self,
        workbench: Workbench,
        validation: BanditLog | None,
        callbacks: list[AnyCallback],
        seed: int,
        resume_from: str | Path | None,
    ) -> None:
        log, learner = workbench.log, self._learner()
        settings = self._round_settings(learner, workbench.sample_weight, workbench.n_folds, workbench.seed)
        resumed = None if resume_from is None else read_checkpoint(resume_from, log, settings, self.n_rounds)
        watch = None if validation is None else Validation(validation, self.early_stopping_rounds)
        watchers: list[AnyCallback] = ([watch] if watch else []) + ([ProgressBar()] if self.progress else [])
        seed = seed if resumed is None else resumed.seed
        problem = self._problem(workbench)
        if resumed is not None:
            resumed.start = problem.start
        result = fit_ensemble(
            problem,
            workbench.bind(learner, seed=seed),
            self._step_rule(),
            n_rounds=self.n_rounds,
            n_jobs=_threads_of(learner),
            seed=seed,
            settings=settings,
            callbacks=[*watchers, *callbacks],
            resumed=resumed,
        )
        n_kept = len(result.ensemble.rounds) if watch is None or watch.best_value == -np.inf else watch.best_n_rounds
        self.adopt(result, workbench.log, n_kept, *([] if validation is None else [validation]))

    def begin(
        self, workbench: Workbench, *, seed: int, resume_from: str | Path | None = None
    ) -> tuple[Problem, BoostingRun]:
        """Return a run of this policy, to be continued by whoever asked; see `adopt`.

        It has made no round yet, or those of a checkpoint of the same run.
        """
        self._check_settings(None)
        learner = self._learner()
        settings = self._round_settings(learner, workbench.sample_weight, workbench.n_folds, workbench.seed)
        if resume_from is None:
            state = BoostingState(workbench.log, self.n_rounds, seed, settings=settings)
        else:
            state = read_checkpoint(resume_from, workbench.log, settings, self.n_rounds)
        problem = self._problem(workbench)
        state.start = problem.start
        bound = workbench.bind(learner, seed=seed)
        return problem, BoostingRun.begin(problem, bound, self._step_rule(), state, n_jobs=_threads_of(learner))

    def adopt(self, result: BoostingResult, log: BanditLog, n_rounds: int, *watched: BanditLog) -> BoostedPolicy:
        """Take over the first rounds of a result.

        Parameters
        ----------
        result : BoostingResult
            What the loop returned.
        log : BanditLog
            What it was trained on.
        n_rounds : int
            Rounds to keep.
        watched : BanditLog
            Logs that the choice of rounds looked at.
        """
        self.ensemble_ = result.ensemble.truncated(n_rounds)
        self.history_ = result.history
        self.stop_reason_ = result.stop_reason
        self._remember(log, *watched)
        return self

    def _learner(self) -> Any:
        return default_learner() if self.learner is None else self.learner

    def _step_rule(self) -> StepRule:
        return StepRule(self.ensemble_weight_penalty, self.scale, self.learning_rate)

    def _problem(self, workbench: Workbench) -> Problem:
        """Return what is boosted: data, objective and start."""
        objective, parts = get_objective(self.objective), self._start_parts()
        needs_model = objective.needs_reward_model or "reward_model" in parts
        rewards = workbench.rewards(self.reward_model, has_prior=self.reward_prior) if needs_model else None
        start, logging = Start(), workbench.logging() if "logging" in parts else None
        factor = self.start_sharpness / (_spread_of(workbench.log.reward, workbench.sample_weight) or 1.0)
        if logging is not None:
            start = start + logging.start()
        if "reward_model" in parts:
            assert rewards is not None
            start = start + rewards.start(factor)

        def cross_fitted_score() -> FloatArray:
            score = np.zeros((workbench.log.n_samples, workbench.log.n_actions), order="F")
            if logging is not None:
                score += logging.log_prob
            if "reward_model" in parts and rewards is not None:
                score += factor * rewards.estimate
            return score

        estimate = rewards.estimate if rewards is not None and objective.needs_reward_model else None
        data = TrainingData(workbench.log, estimate, workbench.sample_weight)
        score = cross_fitted_score if parts else None
        return Problem(data, objective, self.reward_translation, start, score, self.certificate)

    def _start_parts(self) -> list[str]:
        """Return the parts of the start: none if it is uniform."""
        if self.start is None:
            return ["logging", "reward_model"] if get_objective(self.objective).needs_reward_model else []
        return [] if self.start == "uniform" else self.start.split("+")

    def _uses_models(self) -> bool:
        return bool(self._start_parts()) or get_objective(self.objective).needs_reward_model

    def _check_settings(self, validation: BanditLog | None) -> None:
        check_objective(get_objective(self.objective))
        check_number("n_rounds", self.n_rounds, low=0, integer=True)
        check_number("reward_translation", self.reward_translation, low_open=True, high_open=True)
        if self.start is not None:
            check_start(self.start)
        check_number("start_sharpness", self.start_sharpness, low=0.0, high=np.inf, high_open=True)
        check_number("n_folds", self.n_folds, low=2, integer=True)
        check_number("learning_rate", self.learning_rate, low=0.0, high=1.0, low_open=True)
        check_number("inverse_temperature", self.inverse_temperature, low=0.0)
        check_number("ensemble_weight_penalty", self.ensemble_weight_penalty, low=0.0)
        if self.scale is not None:
            check_number("scale", self.scale, low=0.0, low_open=True)
        if self.validation_fraction is not None:
            check_number(
                "validation_fraction", self.validation_fraction, low=0.0, high=1.0, low_open=True, high_open=True
            )
        if self.early_stopping_rounds is not None:
            check_number("early_stopping_rounds", self.early_stopping_rounds, low=1, integer=True)
            if validation is None and self.validation_fraction is None:
                raise ValueError(
                    f"early_stopping_rounds={self.early_stopping_rounds} needs a validation log: pass validation=… "
                    "to fit, or set validation_fraction."
                )

    def _check_resume(self, resume_from: str | Path | None) -> None:
        if (
            resume_from is not None
            and self.random_state is None
            and (self.validation_fraction is not None or self._uses_models())
        ):
            raise ValueError(
                "resume_from needs a random_state here, or the samples set aside and the folds would be others than "
                "before. Set random_state."
            )

    def _check_rewards(self, log: BanditLog) -> None:
        """Say what is wrong where rounds are wanted and all rewards are zero; a race begins candidates without this."""
        self._check_has_reward(bool(np.any(log.translated(self.reward_translation).reward)), log.n_samples)

    def _check_has_reward(self, has_reward: bool, n_samples: int) -> None:
        needs_model = get_objective(self.objective).needs_reward_model
        if self.n_rounds > 0 and not needs_model and not has_reward:
            raise ValueError(
                f"all {n_samples} rewards are zero after adding reward_translation={self.reward_translation:g}: "
                "there is nothing to learn from. Use another translation, or check the reward column."
            )

    def _round_settings(self, learner: Any, weight: FloatArray | None, n_folds: int, seed: int) -> dict[str, Any]:
        """Return the settings that decide what a round is, as plain values: what a checkpoint is resumed under."""
        model = self.reward_model
        return {
            "objective": describe(get_objective(self.objective)),
            "learner": learner_settings(learner),
            "reward_translation": float(self.reward_translation),
            "start": "+".join(self._start_parts()) or "uniform",
            "start_sharpness": float(self.start_sharpness),
            "reward_model": None if model is None else describe_model(model),
            "reward_prior": bool(self.reward_prior),
            "n_folds": int(n_folds),
            # Other folds would mean other estimates; without models the checkpoint's own seed is all that counts.
            "random_state": int(seed) if self._uses_models() else None,
            "sample_weight": None if weight is None else hashlib.sha256(weight.tobytes()).hexdigest(),
            "learning_rate": float(self.learning_rate),
            "ensemble_weight_penalty": float(self.ensemble_weight_penalty),
            "scale": None if self.scale is None else float(self.scale),
            "certificate": bool(self.certificate),
        }

    # -- Predicting -----------------------------------------------------------------------------------------------

    def decision_function(self, context: Any) -> FloatArray:
        """Return the ensemble's scores before the softmax, of shape (n_samples, n_actions)."""
        matrix = self._read(context)
        return self.ensemble_.score(matrix)

    @property
    def has_exact_rows(self) -> bool:
        """Whether the digits of a row's probabilities do not depend on the rows that it comes with."""
        return self.ensemble_.has_exact_rows

    def _prob(self, matrix: ContextMatrix, mask: BoolArray | None) -> FloatArray:
        return self._softmax(self.ensemble_.score(matrix), mask)

    def content(self) -> Packed:
        """Return the trees with their coefficients; of predictors without a plain form, what they were fitted with."""
        try:
            return ensemble_content(self.ensemble_)
        except TypeError:
            rows = None if self.training_rows_ is None else self.training_rows_.digest
            return {"rows": rows, "learner": repr(self.learner), "n_rounds": self.n_rounds_}, {}

    def staged_decision_function(self, context: Any) -> Iterator[FloatArray]:
        """Yield the scores after every round, each of shape (n_samples, n_actions)."""
        matrix = self._read(context)
        return self.ensemble_.staged_score(matrix)

    # -- What was learned -------------------------------------------------------------------------------------------

    @property
    def n_rounds_(self) -> int:
        """Rounds in the ensemble."""
        check_is_fitted(self)
        return len(self.ensemble_.rounds)

    @property
    def feature_importances_(self) -> FloatArray:
        """Share of each context column in what the splits on context columns gained, of shape (n_features,).

        A split's gain times the round's alpha is its part of the guaranteed decrease of the risk.
        """
        gain = self._gain_by_column()[: self.n_features_in_]
        total = gain.sum()
        return gain / total if total > 0.0 else gain

    @property
    def action_importance_(self) -> float:
        """Share of the splits on the action or its features in what all splits gained."""
        gain = self._gain_by_column()
        total = gain.sum()
        return float(gain[self.n_features_in_ :].sum() / total) if total > 0.0 else 0.0

    def _gain_by_column(self) -> FloatArray:
        check_is_fitted(self)
        n_action_features = 0 if self.action_features_ is None else self.action_features_.shape[1]
        total = np.zeros(self.n_features_in_ + len(self.actions_) + n_action_features)
        for predictor, factor in zip(self.ensemble_.predictors, self.ensemble_.coefficients, strict=True):
            gain = predictor.gain_by_column()
            if gain is not None:
                total += abs(factor) * gain
            elif not isinstance(predictor, LoggingTerm):  # the logging policy's share is not one of splits
                raise AttributeError("feature_importances_ needs a learner that fits trees.")
        return total

    def explain(self, context: Any, action: Any = None) -> Explanation:
        """Return what each context column and the action add to the score of one action per context.

        These are SHAP values of the trees. What comes from the logging policy, if boosting starts from it, is
        attributed along a path from a typical context: see `bopl.policy.explanation.Explanation`.

        Parameters
        ----------
        context : array-like or frame of shape (n_samples, n_features)
            Contexts to explain.
        action : sequence of labels of shape (n_samples,), optional
            The actions to explain; by default the one with the highest score. It needs trees of `bopl.HistTree` or
            `bopl.HistTreeClassifier`.

        Examples
        --------
        >>> import numpy as np, bopl
        >>> rng = np.random.default_rng(0)
        >>> context, action = rng.normal(size=(500, 2)), rng.integers(0, 2, size=500)
        >>> reward = (action == (context[:, 0] > 0)).astype(float)
        >>> log = bopl.BanditLog(context, action, reward, np.full(500, 0.5))
        >>> policy = bopl.BoostedPolicy(n_rounds=5, reward_translation=-0.2, random_state=0).fit(log)
        >>> np.abs(policy.explain(context).feature).mean(axis=0).argmax()
        np.int64(0)
        """
        from bopl.policy.explanation import explain_scores

        matrix = self._read(context)
        chosen = self.predict(context) if action is None else action
        action_idx, _ = encode_actions(chosen, self.actions_)
        check_lengths({"context": matrix.shape[0], "action": len(action_idx)})
        return explain_scores(self.ensemble_, matrix, np.arange(len(action_idx)), action_idx)

    # -- Files ----------------------------------------------------------------------------------------------------

    def save(self, path: str | Path) -> None:
        """Write the policy to one file that `bopl.load` reads: JSON and plain arrays in a zip, nothing executable."""
        from bopl.policy.model_file import save_packed

        check_is_fitted(self)
        save_packed(self, path)

    def pack(self) -> Packed:
        """Return what was learned as JSON facts and arrays."""
        from bopl.policy.boosted_file import pack_boosted

        return pack_boosted(self)

    @classmethod
    def from_archive(cls, archive: Archive) -> BoostedPolicy:
        """Return the policy of a model file; `bopl.load` calls this."""
        from bopl.policy.boosted_file import boosted_from

        return boosted_from(archive)

    def to_xgboost(self, path: str | Path) -> None:
        """Write the scores as a standard XGBoost JSON model over rows ``[x; onehot(a); features of a]``.

        Whatever reads XGBoost models can then serve and explain the policy: the model's output for a row is the score
        of that action before the softmax, in float32. It needs trees of `bopl.HistTree` or `bopl.HistTreeClassifier`,
        and a start that is made of trees: not one from the logging policy.
        """
        from bopl.policy.xgboost_export import write_xgboost

        check_is_fitted(self)
        write_xgboost(self.ensemble_, path)

    def to_onnx(self, path: str | Path, *, raw: bool = False) -> None:
        """Write the policy as an ONNX model: contexts in; ``score``, ``probability`` and ``action`` out.

        Its metadata hold the schema, the actions and the policy's id. The start is part of it, also that from the
        logging policy. It needs trees of `bopl.HistTree` or `bopl.HistTreeClassifier`, and
        ``pip install 'bopl[onnx]'``.

        Parameters
        ----------
        path : path
            File to write.
        raw : bool, default=False
            Whether the inputs are the columns of the log, by name and of shape (n_samples, 1): numbers and flags as
            float32 (NaN is missing), text as strings (the empty one is missing), times as int64 milliseconds since
            1970 (the lowest number, numpy's NaT, is missing), lists as float32 of shape (n_samples, length).
            `bopl.policy.onnx_raw.raw_inputs` makes them from a frame. Otherwise there is one input, ``context``:
            float32 of shape (n_samples, n_features), encoded as ``policy.schema_.encode`` does.
        """
        from bopl.policy.onnx_export import write_onnx

        check_is_fitted(self)
        write_onnx([(self, 1.0)], path, policy=self, raw=raw)

    # -- Notebooks ------------------------------------------------------------------------------------------------

    def _repr_html_inner(self) -> str:
        """Return what notebooks show, in place of scikit-learn's diagram."""
        from bopl.policy.notebook import policy_card

        return policy_card(self, repr(self))

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "ensemble_")


def _spread_of(reward: FloatArray, sample_weight: FloatArray | None) -> float:
    """Return the standard deviation of weighted rewards."""
    mean = exact_mean(reward, sample_weight)
    return float(np.sqrt(exact_mean((reward - mean) ** 2, sample_weight)))


def _threads_of(learner: Any) -> int:
    """Return the threads that a learner was given, or all processors."""
    given = learner.get_params(deep=False).get("n_jobs") if hasattr(learner, "get_params") else None
    return int(given) if given is not None and given > 0 else os.cpu_count() or 1
