"""`DelegatedPolicy`: a policy that forwards to the one it chose."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from sklearn.utils.validation import check_is_fitted

from bopl._archive import Packed
from bopl._typing import BoolArray, ContextMatrix, FloatArray
from bopl.policy.blend import BlendedPolicy
from bopl.policy.boosted import BoostedPolicy
from bopl.policy.scored import PackedPolicy, ShownAsCard

if TYPE_CHECKING:
    from bopl.boosting import History
    from bopl.policy.explanation import Explanation


class DelegatedPolicy(ShownAsCard, PackedPolicy):
    """A policy whose predictions, importances and exports are those of ``best_policy_``."""

    best_policy_: BoostedPolicy | BlendedPolicy

    @property
    def trained_inverse_temperature(self) -> float:
        """Factor of the best policy's scores, unless the caller gives one."""
        check_is_fitted(self)
        return self.best_policy_.trained_inverse_temperature

    def decision_function(self, context: Any) -> FloatArray:
        """Return the scores of the best policy before the softmax, of shape (n_samples, n_actions)."""
        check_is_fitted(self)
        return self.best_policy_.decision_function(context)

    def predict_proba(
        self, context: Any, *, inverse_temperature: float | None = None, action_mask: Any = None
    ) -> FloatArray:
        """Return action probabilities; see `bopl.BoostedPolicy.predict_proba`."""
        check_is_fitted(self)
        matrix = self._read(context)
        return self.best_policy_.predict_proba(matrix, inverse_temperature=inverse_temperature, action_mask=action_mask)

    @property
    def has_exact_rows(self) -> bool:
        """Whether the digits of a row's probabilities do not depend on the other rows."""
        return self.best_policy_.has_exact_rows

    def _prob(self, matrix: ContextMatrix, mask: BoolArray | None) -> FloatArray:
        return self.best_policy_._prob(matrix, mask)

    @property
    def policy_id(self) -> str:
        """Digest of everything the best policy decides by."""
        return self._identity()[0]

    def _identity(self) -> tuple[str, list[Any]]:
        if not hasattr(self, "best_policy_"):
            check_is_fitted(self)
        return super()._identity() if self._redefines_prob else self.best_policy_._identity()

    def content(self) -> Packed:
        """Return the id of the best policy: a subclass with other probabilities has another."""
        return {"best": self.best_policy_.policy_id}, {}

    def predict(self, context: Any, *, action_mask: Any = None) -> Any:
        """Return the most probable eligible action for each context."""
        check_is_fitted(self)
        return self.best_policy_.predict(self._read(context), action_mask=action_mask)

    # -- What was learned -------------------------------------------------------------------------------------------

    @property
    def history_(self) -> History:
        """Training history of the winner."""
        return self.best_policy_.history_

    @property
    def stop_reason_(self) -> str:
        """Why the winner's training ended."""
        return self.best_policy_.stop_reason_

    @property
    def n_rounds_(self) -> int:
        """Rounds of the winner."""
        return self.best_policy_.n_rounds_

    @property
    def feature_importances_(self) -> FloatArray:
        """Share of each context column in the gain of the winner's splits, of shape (n_features,)."""
        return self.best_policy_.feature_importances_

    @property
    def action_importance_(self) -> float:
        """Share of the splits on the action."""
        return self.best_policy_.action_importance_

    def explain(self, context: Any, action: Any = None) -> Explanation:
        """Return SHAP values of the best policy's scores; see `bopl.BoostedPolicy.explain`."""
        return self.best_policy_.explain(self._read(context), action)

    # -- Files ----------------------------------------------------------------------------------------------------

    def to_onnx(self, path: str | Path, *, raw: bool = False) -> None:
        """Write the best policy as an ONNX model; see `bopl.BoostedPolicy.to_onnx`."""
        check_is_fitted(self)
        self._check_as_built()
        self.best_policy_.to_onnx(path, raw=raw)

    def to_xgboost(self, path: str | Path) -> None:
        """Write the best policy as an XGBoost model, if it is a sum of trees."""
        check_is_fitted(self)
        self.best_policy_.to_xgboost(path)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "best_policy_")
