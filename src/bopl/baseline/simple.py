"""The policies any other has to beat: uniform choice, and an estimate of whoever wrote the log."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from bopl._settings import check_number
from bopl._typing import AnyArray, FloatArray
from bopl.baseline.base import BaselinePolicy, Packed, check_array
from bopl.log import BanditLog
from bopl.log.context import is_sparse

NEVER_LOGGED = -20.0  # score of an action the log does not contain: exp(-20) is 2e-9


class UniformPolicy(BaselinePolicy):
    """Every eligible action with the same probability.

    Examples
    --------
    >>> import bopl
    >>> log = bopl.BanditLog([[0.0], [1.0]], ["a", "b"], [1, 0], [0.5, 0.5])
    >>> bopl.baseline.UniformPolicy().fit(log).predict_proba([[3.0]]).tolist()
    [[0.5, 0.5]]
    """

    def _fit_log(self, log: BanditLog) -> None:
        pass

    def _remember(self, log: BanditLog, *watched: BanditLog) -> None:
        super()._remember(log, *watched)
        self.training_rows_ = None  # nothing was learned from them

    def decision_function(self, context: Any) -> FloatArray:
        """Return zeros of shape (n_samples, n_actions)."""
        return np.zeros((self._read(context).shape[0], len(self.actions_)))

    def _pack(self) -> Packed:
        return {}, {}

    def _unpack(self, facts: dict[str, Any], arrays: dict[str, AnyArray]) -> None:
        pass


class LoggingPolicy(BaselinePolicy):
    """An estimate of the policy that wrote the log: multinomial logistic regression of the action on the context.

    Where the true logging policy is known, use that; this one answers "what would have happened anyway" for a log of
    which only the propensities of the logged actions are left.

    Parameters
    ----------
    inverse_penalty : float, default=1.0
        C of scikit-learn's `LogisticRegression`; smaller values give a policy nearer to the actions' shares.
    max_iter : int, default=200

    Attributes
    ----------
    coef_ : ndarray of shape (n_features, n_actions)
    intercept_ : ndarray of shape (n_actions,)
    """

    def __init__(self, inverse_penalty: float = 1.0, max_iter: int = 200) -> None:
        self.inverse_penalty = inverse_penalty
        self.max_iter = max_iter

    def _fit_log(self, log: BanditLog) -> None:
        check_number("inverse_penalty", self.inverse_penalty, low=0.0, low_open=True)
        check_number("max_iter", self.max_iter, low=1, integer=True)
        self.coef_ = np.zeros((log.n_features, log.n_actions))
        self.intercept_ = np.full(log.n_actions, NEVER_LOGGED)
        found = np.unique(log.action_idx)
        if len(found) == 1:
            self.intercept_[found] = 0.0
            return
        _refuse_missing(log)
        coef, intercept = _fit_multinomial(log, self.inverse_penalty, self.max_iter)
        self.coef_[:, found], self.intercept_[found] = coef.T, intercept

    def decision_function(self, context: Any) -> FloatArray:
        """Return linear scores of shape (n_samples, n_actions)."""
        matrix = self._read(context)
        return np.asarray(matrix @ self.coef_, dtype=np.float64) + self.intercept_

    def _pack(self) -> Packed:
        return {}, {"coef": self.coef_, "intercept": self.intercept_}

    def _unpack(self, facts: dict[str, Any], arrays: dict[str, AnyArray]) -> None:
        n_actions = len(self.actions_)
        self.coef_ = check_array(arrays, "coef", (self.n_features_in_, n_actions))
        self.intercept_ = check_array(arrays, "intercept", (n_actions,))


def _refuse_missing(log: BanditLog) -> None:
    values = log.context.data if is_sparse(log.context) else log.context
    if np.isnan(values).any():
        raise ValueError("LoggingPolicy cannot use missing values (NaN) in the context; fill them first.")


def _fit_multinomial(log: BanditLog, inverse_penalty: float, max_iter: int) -> tuple[FloatArray, FloatArray]:
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import MaxAbsScaler

    scaler = MaxAbsScaler()
    model = LogisticRegression(C=inverse_penalty, max_iter=max_iter)
    with warnings.catch_warnings():  # a policy that is not quite converged is a policy all the same
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(scaler.fit_transform(log.context), log.action_idx)
    coef, intercept = model.coef_ / scaler.scale_, model.intercept_
    if len(coef) == 1:  # scikit-learn stores one row for two classes
        return np.vstack([np.zeros_like(coef), coef]), np.concatenate([np.zeros_like(intercept), intercept])
    return coef, intercept
