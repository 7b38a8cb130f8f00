"""`ScoredPolicy`: from scores of all actions to the whole interface of a policy."""

from __future__ import annotations

from abc import abstractmethod
from copy import copy
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn import get_config
from sklearn.base import BaseEstimator
from sklearn.utils import ClassifierTags, Tags
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.validation import check_is_fitted

from bopl._archive import Packed
from bopl._errors import quoted
from bopl._native import is_frame
from bopl._policy_reader import logged_entries
from bopl._settings import check_number
from bopl._typing import BoolArray, ContextMatrix, FloatArray
from bopl._weight import snips_value
from bopl.log import BanditLog, PartitionedLog
from bopl.log.action import label_array, python_labels
from bopl.log.check import check_mask
from bopl.log.context import read_context
from bopl.log.learnable import check_learnable
from bopl.log.outcome import is_outcomes, read_outcomes
from bopl.log.row_sketch import RowSketch
from bopl.objective.softmax import softmax
from bopl.policy.decision import draw_labels
from bopl.policy.policy import read_fitted_context
from bopl.policy.records import RecordPolicy
from bopl.policy.records import check_scores as check_scores


class ScoredPolicy(RecordPolicy, BaseEstimator):
    """A scikit-learn estimator that scores every action; probabilities are the softmax of the scores.

    A subclass defines `decision_function` and, in its ``fit``, calls ``_remember(log)``.

    Attributes
    ----------
    actions_ : ndarray of shape (n_actions,)
    action_features_ : ndarray of shape (n_actions, n_action_features) or None
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features,)
        Only if the log had column names.
    training_rows_ : RowSketch or None
        A few hashes of the training rows, by which an evaluation recognises them.
    schema_ : LogSchema or None
        How the columns of the log's frame or file were encoded; frames to predict on are encoded the same way.
    trained_on_ : str or None
        Fingerprint of the log on whose parts it was trained and chosen, if a run has recorded it.
    """

    training_rows_: RowSketch | None = None
    trained_on_: str | None

    # Reward and propensity travel with the samples through cross-validation automatically.
    __metadata_request__fit = {  # noqa: RUF012
        "context": UNUSED,
        "action": UNUSED,
        "reward": True,
        "propensity": True,
        "actions": True,
        "sample_weight": True,
    }
    __metadata_request__score = {  # noqa: RUF012
        "context": UNUSED,
        "action": UNUSED,
        "reward": True,
        "propensity": True,
        "sample_weight": True,
    }

    def sharpened(self, inverse_temperature: float) -> Self:
        """Return a copy of the fitted policy that acts at another inverse temperature.

        Its probabilities are those of ``predict_proba(context, inverse_temperature=…)``, and it can be saved, exported
        and evaluated. Nothing is trained.

        Parameters
        ----------
        inverse_temperature : float in [0, inf]
            0 is the uniform policy, infinity always takes the highest score.
        """
        check_is_fitted(self)
        check_number("inverse_temperature", inverse_temperature, low=0.0)
        if "inverse_temperature" not in self.get_params(deep=False):
            raise TypeError(
                f"{type(self).__name__} has no setting inverse_temperature: pass it to predict_proba or sample."
            )
        sharp = copy(self)
        sharp.set_params(inverse_temperature=float(inverse_temperature))
        return sharp

    @abstractmethod
    def decision_function(self, context: Any) -> FloatArray:
        """Return the scores before the softmax, of shape (n_samples, n_actions)."""

    def predict_proba(
        self, context: Any, *, inverse_temperature: float | None = None, action_mask: Any = None
    ) -> FloatArray:
        """Return action probabilities.

        Parameters
        ----------
        context : array-like or frame of shape (n_samples, n_features)
            One row per decision, with the columns of the training log.
        inverse_temperature : float in [0, inf], optional
            0 is the uniform policy, infinity always takes the highest score; by default as trained:
            1 for policies trained as a softmax, infinity for those that predict rewards.
        action_mask : boolean array of shape (n_samples, n_actions), optional
            Which actions can be chosen; the others get probability zero.
        """
        factor = self.trained_inverse_temperature if inverse_temperature is None else inverse_temperature
        check_number("inverse_temperature", factor, low=0.0)
        score = check_scores(self.decision_function(context))
        mask = self._read_mask(action_mask, len(score))
        return softmax(score, inverse_temperature=float(factor), action_mask=mask)

    def predict(self, context: Any, *, action_mask: Any = None) -> Any:
        """Return the eligible action with the highest score for each context."""
        score = check_scores(self.decision_function(context))
        mask = self._read_mask(action_mask, len(score))
        best = (score if mask is None else np.where(mask, score, -np.inf)).argmax(axis=1)
        return self.actions_[best]

    def sample(
        self,
        context: Any,
        *,
        inverse_temperature: float | None = None,
        action_mask: Any = None,
        random_state: int | np.random.Generator | None = None,
    ) -> tuple[Any, FloatArray]:
        """Draw an action for each context; return the actions and the propensities to log with them."""
        action_prob = self.predict_proba(context, inverse_temperature=inverse_temperature, action_mask=action_mask)
        return draw_labels(action_prob, self.actions_, random_state)

    def score(
        self,
        context: Any,
        action: Any = None,
        *,
        reward: Any = None,
        propensity: Any = None,
        sample_weight: Any = None,
    ) -> float:
        """Return the self-normalised estimate of the policy's reward on a log (higher is better).

        Parameters are those of `fit`; ``sample_weight`` multiplies the importance weights. Actions that the policy was
        not fitted on, as may happen in cross-validation folds, are never taken. In
        scikit-learn's searches pass ``y=bopl.outcomes(action, reward, propensity)``; by their own names reward and
        propensity reach this method only with ``sklearn.set_config(enable_metadata_routing=True)``.
        """
        check_is_fitted(self)
        if not isinstance(context, BanditLog):
            action, reward, propensity = read_target(action, reward, propensity)
            if reward is None or propensity is None:
                raise ValueError(
                    "score needs reward and propensity. Inside GridSearchCV and the like, pass "
                    "y=bopl.outcomes(action, reward, propensity), or call "
                    "sklearn.set_config(enable_metadata_routing=True) first and pass both to fit."
                )
        log = as_log(context, action, reward, propensity, self._all_actions(action))
        n_known = len(self.actions_)
        mask = None if log.action_mask is None else log.action_mask[:, :n_known]
        action_prob = self.predict_proba(log.context, action_mask=mask)
        is_known = log.action_idx < n_known
        logged = np.where(is_known, logged_entries(action_prob, np.where(is_known, log.action_idx, 0)), 0.0)
        weight = 1.0 if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
        return snips_value(weight * logged / log.propensity, log.reward)

    # -- One record at a time -------------------------------------------------------------------------------------

    def content(self) -> Packed:
        """Return what the policy decides by besides its columns and actions, as JSON facts and arrays.

        `policy_id` is a digest of it. Your own policy returns here what it has learned.
        """
        return {"settings": repr(sorted(self.get_params(deep=False).items()))}, {}

    def _check_fitted(self) -> None:
        check_is_fitted(self)

    def __getstate__(self) -> dict[str, Any]:
        # What deciding needs is recreated when needed.
        return {name: value for name, value in super().__getstate__().items() if name != "_made"}

    def _prob(self, matrix: ContextMatrix, mask: BoolArray | None) -> FloatArray:
        """Return the probabilities of encoded contexts; a subclass may have a faster way."""
        return self._masked_proba(matrix, mask)

    def __init_subclass__(cls, **options: Any) -> None:
        # A faster way does not know of what a subclass adds: decisions would differ from what is evaluated.
        super().__init_subclass__(**options)
        if "_prob" not in vars(cls) and not vars(cls).keys().isdisjoint(("predict_proba", "decision_function")):
            cls._prob = ScoredPolicy._prob  # type: ignore[method-assign]

    @property
    def _redefines_prob(self) -> bool:
        return type(self)._prob is ScoredPolicy._prob

    def _check_as_built(self) -> None:
        """Raise if a subclass has probabilities of its own, which an export would not have."""
        if self._redefines_prob:
            raise TypeError(
                f"{type(self).__name__} redefines how a policy of bopl decides, and its export would decide without it."
            )

    # -- What was fitted ------------------------------------------------------------------------------------------

    def _all_actions(self, action: Any) -> Any:
        """Return the policy's own actions, followed by logged ones that it was not fitted on."""
        if action is None:
            return self.actions_
        own = self.actions_.tolist()
        known, logged = set(own), dict.fromkeys(python_labels(action))
        unknown = [label for label in logged if label not in known]
        if not unknown:
            return self.actions_
        if len(unknown) == len(logged):
            raise ValueError(
                f"the policy knows none of the logged actions: it was fitted on {quoted(own)}, the first logged one is "
                f"{unknown[0]!r}."
            )
        return label_array([*own, *unknown])

    def _remember(self, log: BanditLog, *watched: BanditLog) -> None:
        """Store what later contexts are checked against, and which rows were used for training or early stopping."""
        self._remember_facts(log, RowSketch.of(log, *watched))

    def _remember_facts(self, log: Any, training_rows: RowSketch) -> None:
        self.training_rows_ = training_rows
        self.actions_ = log.actions
        self.action_features_ = log.action_features
        self.n_features_in_ = log.n_features
        if log.feature_names is not None:
            self.feature_names_in_ = np.array(log.feature_names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        self.schema_ = log.schema
        self.trained_on_ = None

    def _read_mask(self, action_mask: Any, n_samples: int) -> BoolArray | None:
        if action_mask is None:
            return None
        mask = check_mask(action_mask, self.actions_, None)
        if len(mask) != n_samples:
            raise ValueError(f"action_mask has {len(mask)} rows, the context {n_samples}; each sample needs one.")
        return mask

    def _read(self, context: Any) -> ContextMatrix:
        check_is_fitted(self)
        if self.schema_ is not None and is_frame(context):
            return read_context(self.schema_.encode(context), self.schema_.feature_names)[0]
        names = getattr(self, "feature_names_in_", None)
        return read_fitted_context(context, self.n_features_in_, names, type(self).__name__)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = True
        tags.target_tags.required = True
        # For predict_proba, whose columns are actions. The estimator type stays none: y is the action that happened to
        # be logged, not the right answer, so a policy is not a classifier.
        tags.classifier_tags = ClassifierTags()
        return tags


class PackedPolicy(ScoredPolicy):
    """A policy that packs itself as JSON facts and arrays, for one file."""

    @abstractmethod
    def pack(self) -> Packed:
        """Return what was learned as JSON facts and arrays."""

    def save(self, path: str | Path) -> None:
        """Write the policy to one file that `bopl.load` reads: JSON and plain arrays in a zip, nothing executable."""
        from bopl.policy.model_file import write_policy

        check_is_fitted(self)
        write_policy(self, path)


class ShownAsCard:
    """A policy that notebooks show as its own card, ``_repr_html_inner``, instead of scikit-learn's diagram."""

    def _repr_html_inner(self) -> str:
        raise AttributeError(f"{type(self).__name__} has no card.")

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        shown = {"text/plain": repr(self)}
        if get_config()["display"] == "diagram":
            shown["text/html"] = self._repr_html_inner()
        return shown


def as_log(context: Any, action: Any, reward: Any, propensity: Any, actions: Any) -> BanditLog:
    """Return the log: the one passed, or one built from columns."""
    if isinstance(context, BanditLog):
        if any(value is not None for value in (action, reward, propensity)):
            raise TypeError("pass either a BanditLog or context, action, reward and propensity, not both.")
        context.require_propensity()
        return _with_actions(context, actions)
    if isinstance(context, PartitionedLog):
        raise TypeError("this fit needs the log in memory: pass log.to_log(), or a part such as log.sample(100_000).")
    action, reward, propensity = read_target(action, reward, propensity)
    if action is None:
        raise ValueError(
            "action is missing: fit requires y to be passed, but the target y is None. Pass a log, or all four columns."
        )
    if reward is None:
        raise ValueError(
            "reward is missing: pass what each logged action earned as reward=…, or action, reward and propensity "
            "together as y=bopl.outcomes(action, reward, propensity)."
        )
    log = BanditLog(context, action, reward, propensity, actions=actions)
    log.require_propensity()
    return log


def read_target(action: Any, reward: Any, propensity: Any) -> tuple[Any, Any, Any]:
    """Return action, reward and propensity, separated if they came as one ``y``."""
    if not is_outcomes(action):
        return action, reward, propensity
    if reward is not None or propensity is not None:
        raise TypeError("y already contains reward and propensity: do not pass them again.")
    return read_outcomes(action)


def as_training_log(context: Any, action: Any, reward: Any, propensity: Any, actions: Any) -> BanditLog:
    """Return the log, after checking that something can be learned from it."""
    log = as_log(context, action, reward, propensity, actions)
    check_learnable(log)
    return log


def _with_actions(log: BanditLog, actions: Any) -> BanditLog:
    """Return the log, after checking that its actions are those of the fitted policy."""
    if actions is not None and log.actions.tolist() != list(actions.tolist()):
        raise ValueError("the log has other actions than the policy was fitted on; pass actions=[…] when building it.")
    return log
