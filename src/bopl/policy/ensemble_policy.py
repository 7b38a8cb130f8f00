"""`EnsemblePolicy`: scores, importances, explanations and exports of a fitted ensemble of predictors."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from bopl._typing import FloatArray
from bopl.log.action import encode_actions
from bopl.log.check import check_lengths
from bopl.policy.action_prob import EnsembleDeciding
from bopl.policy.scored import PackedPolicy, ShownAsCard
from bopl.reward.logging_model import LoggingTerm

if TYPE_CHECKING:
    from bopl.policy.explanation import Explanation


class EnsemblePolicy(ShownAsCard, EnsembleDeciding, PackedPolicy):
    """A softmax policy over an ensemble, however it was fitted.

    Attributes
    ----------
    ensemble_ : Ensemble
        Its start and its rounds.
    """

    def decision_function(self, context: Any) -> FloatArray:
        """Return the ensemble's scores before the softmax, of shape (n_samples, n_actions)."""
        matrix = self._read(context)
        return self.ensemble_.score(matrix)

    _prob = EnsembleDeciding._prob

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
        """Share of each context column in the gain of the splits on context columns, of shape (n_features,).

        A split's gain times the round's alpha is its part of the guaranteed decrease of the risk.
        """
        gain = self._gain_by_column()[: self.n_features_in_]
        total = gain.sum()
        return gain / total if total > 0.0 else gain

    @property
    def action_importance_(self) -> float:
        """Share of the splits on the action or its features in the gain of all splits."""
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

        These are SHAP values of the trees. The contribution of the logging policy, if boosting starts from it, is
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

    def to_xgboost(self, path: str | Path) -> None:
        """Write the scores as a standard XGBoost JSON model over rows ``[x; onehot(a); features of a]``.

        Any tool that reads XGBoost models can then serve and explain the policy: the model's output for a row is the
        score of that action before the softmax, in float32. It needs trees of `bopl.HistTree` or
        `bopl.HistTreeClassifier`, and a start that is made of trees: not one from the logging policy.
        """
        from bopl.policy.summands import write_xgboost

        check_is_fitted(self)
        write_xgboost(self.ensemble_, path)

    def to_onnx(self, path: str | Path, *, raw: bool = False) -> None:
        """Write the policy as an ONNX model: contexts in; ``score``, ``probability`` and ``action`` out.

        Its metadata contain the schema, the actions and the policy's id. It includes the start, even that from the
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
            `bopl.policy.onnx_raw.raw_inputs` creates them from a frame. Otherwise there is one input, ``context``:
            float32 of shape (n_samples, n_features), encoded as ``policy.schema_.encode`` does.
        """
        from bopl.policy.onnx_export import write_onnx

        check_is_fitted(self)
        write_onnx([(self, 1.0)], path, policy=self, raw=raw)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "ensemble_")
