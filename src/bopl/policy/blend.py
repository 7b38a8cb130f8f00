"""`BlendedPolicy`: a mixture of policies that acts, saves and explains itself like one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from bopl._archive import Archive, Packed
from bopl._settings import check_number
from bopl._typing import FloatArray
from bopl.log import BanditLog
from bopl.policy.action_prob import MIN_PROB, BlendDeciding, shares_of
from bopl.policy.boosted import BoostedPolicy
from bopl.policy.scored import PackedPolicy, ShownAsCard

if TYPE_CHECKING:
    from bopl.boosting import History
    from bopl.policy.explanation import Explanation


class BlendedPolicy(ShownAsCard, BlendDeciding, PackedPolicy):
    """The mean of several policies' probabilities.

    Parameters
    ----------
    policies : sequence of BoostedPolicy
        The parts; `fit` trains them on one log, `of` uses fitted ones as they are.
    weights : sequence of float, optional
        Share of each; equal by default.
    inverse_temperature : float in [0, inf], default=1
        Sharpness of the blend: infinity always takes the action with the highest mean probability.

    Attributes
    ----------
    policies_ : tuple of BoostedPolicy
    weights_ : ndarray of shape (n_policies,)
        They sum to one.

    Examples
    --------
    >>> import numpy as np, bopl
    >>> rng = np.random.default_rng(0)
    >>> context, action = rng.normal(size=(500, 2)), rng.integers(0, 2, size=500)
    >>> reward = (action == (context[:, 0] > 0)).astype(float)
    >>> log = bopl.BanditLog(context, action, reward, np.full(500, 0.5))
    >>> parts = [bopl.BoostedPolicy(name, n_rounds=5, random_state=0).fit(log) for name in ("dr", "ips")]
    >>> bopl.BlendedPolicy.of(parts).predict([[1.0, 0.0], [-1.0, 0.0]]).tolist()
    [1, 0]
    """

    policies_: tuple[BoostedPolicy, ...]

    def __init__(
        self,
        policies: Sequence[BoostedPolicy] = (),
        weights: Sequence[float] | None = None,
        inverse_temperature: float = 1.0,
    ) -> None:
        self.policies = policies
        self.weights = weights
        self.inverse_temperature = inverse_temperature

    @property
    def trained_inverse_temperature(self) -> float:
        """Factor of the logarithm of the mean, unless the caller gives one."""
        return self.inverse_temperature

    @classmethod
    def of(
        cls,
        policies: Sequence[BoostedPolicy],
        weights: Sequence[float] | None = None,
        inverse_temperature: float = 1.0,
    ) -> BlendedPolicy:
        """Return the blend of policies that are already fitted, on the same columns and actions."""
        blend = cls(list(policies), weights, inverse_temperature)
        blend._mix(blend.policies)
        return blend

    def _mix(self, policies: Sequence[BoostedPolicy]) -> None:
        if not policies:
            raise ValueError("a blend needs at least one policy.")
        shares = shares_of(self.weights, len(policies))
        first = policies[0]
        for policy in policies:
            check_is_fitted(policy)
            if policy.actions_.tolist() != first.actions_.tolist() or policy.n_features_in_ != first.n_features_in_:
                raise ValueError("the policies of a blend must be fitted on the same columns and actions.")
        # What all parts have in common is read from the first; that they agree has just been checked.
        self.policies_, self.weights_ = tuple(policies), shares
        for name in ("actions_", "action_features_", "n_features_in_", "training_rows_", "schema_", "trained_on_"):
            setattr(self, name, getattr(first, name))
        if hasattr(first, "feature_names_in_"):
            self.feature_names_in_ = first.feature_names_in_

    def fit(self, log: BanditLog, *, sample_weight: Any = None) -> BlendedPolicy:
        """Train a copy of every part on a log."""
        self._mix([clone(policy).fit(log, sample_weight=sample_weight) for policy in self.policies])
        return self

    # -- Predicting -----------------------------------------------------------------------------------------------

    _prob = BlendDeciding._prob

    def predict_proba(
        self, context: Any, *, inverse_temperature: float | None = None, action_mask: Any = None
    ) -> FloatArray:
        """Return the mean of the parts' probabilities; see `bopl.BoostedPolicy.predict_proba`."""
        factor = self.trained_inverse_temperature if inverse_temperature is None else inverse_temperature
        check_number("inverse_temperature", factor, low=0.0)
        matrix = self._read(context)
        return self._sharp_mean(matrix, self._read_mask(action_mask, matrix.shape[0]), float(factor))

    def decision_function(self, context: Any) -> FloatArray:
        """Return the logarithm of the mean probabilities, of shape (n_samples, n_actions)."""
        return np.log(np.maximum(self._mean(self._read(context), None), MIN_PROB))

    def predict(self, context: Any, *, action_mask: Any = None) -> Any:
        """Return the most probable eligible action for each context."""
        matrix = self._read(context)
        return self.actions_[self._mean(matrix, self._read_mask(action_mask, matrix.shape[0])).argmax(axis=1)]

    def _state(self) -> list[Any]:
        parts = getattr(self, "policies_", ())
        return super()._state() + [value for policy in parts for value in policy._state()]

    # -- What was learned -------------------------------------------------------------------------------------------

    @property
    def history_(self) -> History:
        """Training history of the first part."""
        return self.policies_[0].history_

    @property
    def stop_reason_(self) -> str:
        """Why boosting of the first part ended."""
        return self.policies_[0].stop_reason_

    @property
    def n_rounds_(self) -> int:
        """Rounds of all parts together."""
        return sum(policy.n_rounds_ for policy in self.policies_)

    @property
    def feature_importances_(self) -> FloatArray:
        """Mean of the parts' importances, of shape (n_features,)."""
        parts = [share * policy.feature_importances_ for policy, share in self._parts()]
        return np.asarray(np.sum(parts, axis=0))

    @property
    def action_importance_(self) -> float:
        """Mean of the parts' shares of splits on the action."""
        return float(sum(share * policy.action_importance_ for policy, share in self._parts()))

    def _parts(self) -> list[tuple[BoostedPolicy, float]]:
        check_is_fitted(self)
        return list(zip(self.policies_, self.weights_.tolist(), strict=True))

    def explain(self, context: Any, action: Any = None) -> Explanation:
        """Return the mean of the parts' explanations of the same actions, by their shares of the blend.

        The values add up to the mean of the parts' scores.
        """
        from bopl.policy.explanation import mean_explanation

        chosen = self.predict(context) if action is None else action
        return mean_explanation([(policy.explain(context, chosen), share) for policy, share in self._parts()])

    # -- Files ----------------------------------------------------------------------------------------------------

    def pack(self) -> Packed:
        """Return the parts and their shares as JSON facts and arrays."""
        from bopl.policy.model_file import nest, to_plain

        facts, arrays = nest(self.policies_)
        settings = {"weights": self.weights_.tolist(), "inverse_temperature": to_plain(self.inverse_temperature)}
        return {**facts, **settings}, arrays

    @classmethod
    def from_archive(cls, archive: Archive) -> BlendedPolicy:
        """Return the policy of a model file; `bopl.load` calls this."""
        from bopl.policy.model_file import from_plain, restore_common, unnest

        document, whole = archive.document, cls()
        restore_common(whole, archive)
        factor = from_plain(document["inverse_temperature"])
        check_number("inverse_temperature", factor, low=0.0)
        blend = cls.of(unnest(archive, whole, [BoostedPolicy.__name__]), document["weights"], factor)
        restore_common(blend, archive)
        return blend

    def to_onnx(self, path: str | Path, *, raw: bool = False) -> None:
        """Write the policy as an ONNX model, as `bopl.BoostedPolicy.to_onnx` does; ``score`` is the logarithm."""
        from bopl.policy.onnx_export import write_onnx

        check_is_fitted(self)
        write_onnx(self._parts(), path, policy=self, raw=raw)

    def to_xgboost(self, path: str | Path) -> None:
        """Raise an error: a mixture of policies is not a sum of trees."""
        raise TypeError(
            f"a blend of {len(self.policies_)} policies is not a sum of trees, so XGBoost cannot represent it; export "
            "its parts, policy.policies_[0].to_xgboost(…), or the blend to ONNX."
        )

    # -- Notebooks ------------------------------------------------------------------------------------------------

    def _repr_html_inner(self) -> str:
        """Return the HTML for notebooks, instead of scikit-learn's diagram."""
        from bopl.policy.policy_card import blend_card

        return blend_card(self, repr(self))

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "policies_")
