"""`BoostedPolicy`: the paper's algorithms as a scikit-learn estimator."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn import get_config
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from bopl._settings import check_number
from bopl._typing import FloatArray
from bopl.boosting import ProgressBar, StepRule, Validation, fit_ensemble, read_checkpoint
from bopl.boosting.loop import AnyCallback
from bopl.learner import bind_learner, default_learner
from bopl.log import BanditLog
from bopl.log.action import encode_actions
from bopl.log.check import check_lengths
from bopl.objective import get_objective
from bopl.policy.scored import ScoredPolicy, as_log

if TYPE_CHECKING:
    from bopl.policy.explanation import Explanation


class BoostedPolicy(ScoredPolicy):
    """A softmax policy over an ensemble boosted on the estimated reward of the policy itself.

    Parameters
    ----------
    objective : {"surrogate", "ips"} or Objective, default="surrogate"
        ``"ips"`` is BOPL (Algorithm 1); ``"surrogate"`` is BOPL-S (Algorithm 2), easier to optimise.
    learner : learner, optional
        What fits one predictor per round: `bopl.HistTree` (the default), `bopl.HistTreeClassifier`, `bopl.XGBTree`, or
        any scikit-learn regressor (Algorithm 3) or classifier (Algorithm 4) that takes ``sample_weight``.
    n_rounds : int, default=300
        Most rounds to make.
    reward_translation : float, default=0
        Added to every reward before training (-0.4 means r - 0.4). Negative values guard against propensity
        overfitting: a policy cannot win any more by merely avoiding what was logged.
    ensemble_weight_penalty : float, default=0
        ``lambda``: adds ``lambda · alpha²`` to the risk of every round and so shortens the steps.
    scale : float, optional
        C, the scale predictors are brought to before their weight is computed. It changes the policy only together
        with a penalty.
    validation_fraction : float in (0, 1), optional
        Share of the log that is set aside to watch the policy's value; the ensemble is cut back to its best round.
        ``fit`` also takes a log of its own for this.
    early_stopping_rounds : int, optional
        Stop after so many rounds without a better validation value.
    progress : bool, default=True
        Show a progress bar where standard error is a terminal.
    random_state : int, RandomState instance or None, default=None

    Attributes
    ----------
    actions_ : ndarray of shape (n_actions,)
    action_features_ : ndarray of shape (n_actions, n_action_features) or None
    history_ : History
        One row per round: risks, bounds, gradient norm, alpha, values. See `bopl.boosting.history.COLUMNS`.
    ensemble_ : Ensemble
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
    >>> policy = bopl.BoostedPolicy(n_rounds=5, reward_translation=-0.2, random_state=0).fit(log)
    >>> policy.predict([[1.0, 0.0], [-1.0, 0.0]]).tolist()
    [1, 0]
    """

    def __init__(
        self,
        objective: Any = "surrogate",
        learner: Any = None,
        n_rounds: int = 300,
        reward_translation: float = 0.0,
        *,
        ensemble_weight_penalty: float = 0.0,
        scale: float | None = None,
        validation_fraction: float | None = None,
        early_stopping_rounds: int | None = None,
        progress: bool = True,
        random_state: Any = None,
    ) -> None:
        self.objective = objective
        self.learner = learner
        self.n_rounds = n_rounds
        self.reward_translation = reward_translation
        self.ensemble_weight_penalty = ensemble_weight_penalty
        self.scale = scale
        self.validation_fraction = validation_fraction
        self.early_stopping_rounds = early_stopping_rounds
        self.progress = progress
        self.random_state = random_state

    # -- Fitting --------------------------------------------------------------------------------------------------

    def fit(
        self,
        context: Any,
        action: Any = None,
        *,
        reward: Any = None,
        propensity: Any = None,
        actions: Any = None,
        validation: BanditLog | None = None,
        callbacks: Sequence[AnyCallback] = (),
        resume_from: str | Path | None = None,
    ) -> BoostedPolicy:
        """Train on a log.

        Parameters
        ----------
        context : BanditLog, or array-like of shape (n_samples, n_features)
            A log, or contexts with ``action``, ``reward`` and ``propensity`` beside them as for `BanditLog`.
        action, reward, propensity, actions
            As for `BanditLog`; only without a log.
        validation : BanditLog, optional
            Watched after every round; the ensemble is cut back to the round with its best value.
        callbacks : sequence of callables, optional
            Such as `bopl.Checkpoint` and `bopl.TimeLimit`.
        resume_from : str or Path, optional
            A checkpoint of an earlier fit with the same log and settings; the result is the same to the last bit as
            if that fit had not been cut short. ``n_rounds`` may be larger than it was.
        """
        log = as_log(context, action, reward, propensity, actions)
        self._check_settings(log, validation)
        if resume_from is not None and self.validation_fraction is not None and self.random_state is None:
            raise ValueError(
                "resume_from with validation_fraction needs a random_state, or the samples set aside would be others "
                "than before. Set random_state, or pass validation=… to fit."
            )
        seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        if self.validation_fraction is not None and validation is None:
            log, validation = log.split(self.validation_fraction, random_state=seed)
        self._boost(log, validation, list(callbacks), seed, resume_from)
        return self

    def _boost(
        self,
        log: BanditLog,
        validation: BanditLog | None,
        callbacks: list[AnyCallback],
        seed: int,
        resume_from: str | Path | None,
    ) -> None:
        objective = get_objective(self.objective)
        learner = default_learner() if self.learner is None else self.learner
        settings = self._settings_text(objective.name, learner)
        resumed = None if resume_from is None else read_checkpoint(resume_from, log, settings, self.n_rounds)
        watch = None if validation is None else Validation(validation, self.early_stopping_rounds)
        watchers: list[AnyCallback] = ([watch] if watch else []) + ([ProgressBar()] if self.progress else [])
        seed = seed if resumed is None else resumed.seed
        result = fit_ensemble(
            log,
            objective,
            bind_learner(learner, log, seed=seed),
            StepRule(self.ensemble_weight_penalty, self.scale),
            n_rounds=self.n_rounds,
            seed=seed,
            reward_translation=self.reward_translation,
            settings=settings,
            callbacks=[*watchers, *callbacks],
            resumed=resumed,
        )
        best = watch.best_n_rounds if watch and watch.best_n_rounds else len(result.ensemble.rounds)
        self.ensemble_ = result.ensemble.truncated(best)
        self.history_ = result.history
        self.stop_reason_ = result.stop_reason
        self._remember(log, *([] if validation is None else [validation]))

    def _check_settings(self, log: BanditLog, validation: BanditLog | None) -> None:
        check_number("n_rounds", self.n_rounds, low=1, integer=True)
        check_number("reward_translation", self.reward_translation, low_open=True, high_open=True)
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
        if not np.any(log.translated(self.reward_translation).reward):
            raise ValueError(
                f"all {log.n_samples} rewards are zero after adding reward_translation={self.reward_translation:g}: "
                "there is nothing to learn from. Use another translation, or check the reward column."
            )

    def _settings_text(self, objective: str, learner: Any) -> dict[str, str]:
        """Return the settings that decide what a round is, for checkpoints."""
        return {
            "objective": objective,
            "learner": " ".join(repr(learner).split()),
            "reward_translation": repr(float(self.reward_translation)),
            "ensemble_weight_penalty": repr(float(self.ensemble_weight_penalty)),
            "scale": repr(self.scale),
        }

    # -- Predicting -----------------------------------------------------------------------------------------------

    def decision_function(self, context: Any) -> FloatArray:
        """Return the ensemble's scores before the softmax, of shape (n_samples, n_actions)."""
        matrix = self._read(context)
        return self.ensemble_.score(matrix)

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
        for entry in self.ensemble_.rounds:
            gain = entry.predictor.gain_by_column()
            if gain is None:
                raise AttributeError("feature_importances_ needs a learner that fits trees.")
            total += abs(entry.step.size) * gain
        return total

    def explain(self, context: Any, action: Any = None) -> Explanation:
        """Return what each context column and the action add to the score of one action per context: SHAP values.

        Parameters
        ----------
        context : array-like or frame of shape (n_samples, n_features)
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
        from bopl.policy.model_file import save_boosted

        check_is_fitted(self)
        save_boosted(self, path)

    def to_xgboost(self, path: str | Path) -> None:
        """Write the scores as a standard XGBoost JSON model over rows ``[x; onehot(a); features of a]``.

        Whatever reads XGBoost models can then serve and explain the policy: the model's output for a row is the score
        of that action before the softmax, in float32. It needs trees of `bopl.HistTree` or `bopl.HistTreeClassifier`.
        """
        from bopl.policy.xgboost_export import write_xgboost

        check_is_fitted(self)
        write_xgboost(self.ensemble_, path)

    def to_onnx(self, path: str | Path) -> None:
        """Write the policy as an ONNX model: ``context`` (float32) in; ``score``, ``probability`` and ``action`` out.

        Contexts are encoded as in ``policy.schema_``, which the model carries in its metadata together with the
        actions. It needs trees of `bopl.HistTree` or `bopl.HistTreeClassifier`, and ``pip install 'bopl[onnx]'``.
        """
        from bopl.policy.onnx_export import write_onnx

        check_is_fitted(self)
        schema = None if self.schema_ is None else self.schema_.to_json()
        write_onnx(
            self.ensemble_,
            path,
            actions=self.actions_,
            metadata={"actions": [str(label) for label in self.actions_.tolist()], "schema": schema},
        )

    # -- Notebooks ------------------------------------------------------------------------------------------------

    def _repr_html_inner(self) -> str:
        """Return what notebooks show, in place of scikit-learn's diagram."""
        from bopl.policy.notebook import policy_card

        return policy_card(self, repr(self))

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        shown = {"text/plain": repr(self)}
        if get_config()["display"] == "diagram":
            shown["text/html"] = self._repr_html_inner()
        return shown

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "ensemble_")
