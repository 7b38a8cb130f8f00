"""Simple baselines: the uniform policy, and an estimate of the logging policy."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from bopl._archive import check_array
from bopl._settings import check_number
from bopl._typing import AnyArray, ContextMatrix, FloatArray, IntArray
from bopl.log import BanditLog
from bopl.log.input_layout import category_sizes, fit_layout, unpack_layout
from bopl.objective.softmax import both_classes
from bopl.policy.learned import LearnedPolicy, Packed
from bopl.reward.linear_score import linear_score

NEVER_LOGGED = -20.0  # score of an action the log does not contain: exp(-20) is 2e-9


class UniformPolicy(LearnedPolicy):
    """The uniform policy: every eligible action has the same probability.

    Examples
    --------
    >>> import bopl
    >>> log = bopl.BanditLog([[0.0], [1.0]], ["a", "b"], [1, 0], [0.5, 0.5])
    >>> bopl.baseline.UniformPolicy().fit(log).predict_proba([[3.0]]).tolist()
    [[0.5, 0.5]]
    """

    def learn(self, log: BanditLog) -> None:
        """Learn nothing."""

    def _remember(self, log: BanditLog, *watched: BanditLog) -> None:
        super()._remember(log, *watched)
        self.training_rows_ = None  # nothing was learned from the columns

    def score_actions(self, context: ContextMatrix) -> FloatArray:
        """Return zeros."""
        return np.zeros((context.shape[0], len(self.actions_)))

    def pack_learned(self) -> Packed:
        """Return what was learned."""
        return {}, {}

    def unpack_learned(self, facts: dict[str, Any], arrays: dict[str, AnyArray]) -> None:
        """Restore nothing."""


class LoggingPolicy(LearnedPolicy):
    """An estimate of the policy that wrote the log: multinomial logistic regression of the action on the context.

    If the true logging policy is known, use that instead. This one answers "what would have happened anyway" for a log
    that has only the propensities of the logged actions. Categories become indicators, and a missing number is replaced
    by the mean of its column, with an indicator.

    Parameters
    ----------
    C : float, default=1.0
        Inverse of the ridge penalty, as in scikit-learn's `LogisticRegression`; smaller values give a policy closer to
        the actions' shares.
    max_iter : int, default=200
        Maximum number of iterations of the regression.
    inverse_penalty : float, optional
        Deprecated name of ``C``; to be removed in 0.3.

    Attributes
    ----------
    coef_ : ndarray of shape (n_inputs, n_actions)
    intercept_ : ndarray of shape (n_actions,)
    layout_ : InputLayout
        From contexts to inputs.
    """

    def __init__(self, C: float = 1.0, max_iter: int = 200, inverse_penalty: float | None = None) -> None:
        self.C = C
        self.max_iter = max_iter
        self.inverse_penalty = inverse_penalty

    def learn(self, log: BanditLog) -> None:
        """Learn from the log."""
        C = self.C if self.inverse_penalty is None else self.inverse_penalty
        if self.inverse_penalty is not None:
            warnings.warn("inverse_penalty is now called C; it will be removed in 0.3.", FutureWarning, stacklevel=3)
        check_number("C", C, low=0.0, low_open=True)
        check_number("max_iter", self.max_iter, low=1, integer=True)
        self.layout_ = fit_layout(log.context, category_sizes(log))
        self.coef_ = np.zeros((self.layout_.n_inputs, log.n_actions))
        self.intercept_ = np.full(log.n_actions, NEVER_LOGGED)
        found = np.unique(log.action_idx)
        if len(found) == 1:
            self.intercept_[found] = 0.0
            return
        inputs = self.layout_(log.context)
        coef, intercept = _fit_multinomial(inputs, log.action_idx, C, self.max_iter)
        self.coef_[:, found], self.intercept_[found] = coef.T, intercept

    def score_actions(self, context: ContextMatrix) -> FloatArray:
        """Return linear scores."""
        return linear_score(context, self.layout_, self.coef_, self.intercept_)

    def pack_learned(self) -> Packed:
        """Return what was learned."""
        return {}, {"coef": self.coef_, "intercept": self.intercept_, **self.layout_.pack()}

    def unpack_learned(self, facts: dict[str, Any], arrays: dict[str, AnyArray]) -> None:
        """Restore what was learned."""
        if self.inverse_penalty is not None:
            self.C, self.inverse_penalty = self.inverse_penalty, None
        check_number("C", self.C, low=0.0, low_open=True)
        n_actions = len(self.actions_)
        self.layout_ = unpack_layout(arrays, self.n_features_in_)
        self.coef_ = check_array(arrays, "coef", (self.layout_.n_inputs, n_actions))
        self.intercept_ = check_array(arrays, "intercept", (n_actions,))

    def _plain_settings(self) -> dict[str, Any]:
        settings = super()._plain_settings()  # model files of format 2 have C under its former name
        former = settings.pop("C")
        return settings if settings["inverse_penalty"] is not None else settings | {"inverse_penalty": former}


def _fit_multinomial(
    inputs: ContextMatrix, action_idx: IntArray, C: float, max_iter: int
) -> tuple[FloatArray, FloatArray]:
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import MaxAbsScaler

    scaler = MaxAbsScaler()
    model = LogisticRegression(C=C, max_iter=max_iter)
    with warnings.catch_warnings():  # an estimate that has not quite converged is still a policy
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(scaler.fit_transform(inputs), action_idx)
    return both_classes(model.coef_ / scaler.scale_, model.intercept_)
