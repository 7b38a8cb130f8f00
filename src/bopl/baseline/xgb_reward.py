"""BRR-xgb: the policy that takes the action with the highest reward predicted by XGBoost."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from bopl._settings import check_choice, check_number
from bopl._typing import AnyArray, ContextMatrix, FloatArray
from bopl.baseline.base import BaselinePolicy, Packed
from bopl.learner.expanded import action_columns, expand
from bopl.log import BanditLog
from bopl.log.context import is_sparse

EXPANDED_ROWS = 1 << 18  # (context, action) rows that are built at a time when predicting


class XGBRewardPolicy(BaselinePolicy):
    """BRR-xgb of the paper: XGBoost's squared-error boosting on rows ``[x; onehot(a)]`` of the logged actions.

    Scores are predicted rewards, so `predict_proba` is greedy unless ``inverse_temperature`` says otherwise.

    Parameters
    ----------
    n_rounds : int, default=100
    max_depth : int, default=6
    min_child_weight : float, default=1.0
        Least number of samples in a leaf.
    reg_lambda : float, default=1.0
        Ridge penalty on the leaves.
    learning_rate : float in (0, 1], default=0.1
    tree_method : {"exact", "hist"}, default="exact"
    n_jobs : int, optional
        Threads; all processors if None.
    random_state : int, optional

    Attributes
    ----------
    booster_ : xgboost.Booster
    zero_is_missing_ : bool
        Whether the log was sparse: XGBoost takes absent entries for missing values, here and when predicting.
    """

    trained_inverse_temperature: ClassVar[float] = np.inf

    def __init__(
        self,
        n_rounds: int = 100,
        max_depth: int = 6,
        min_child_weight: float = 1.0,
        reg_lambda: float = 1.0,
        learning_rate: float = 0.1,
        tree_method: str = "exact",
        n_jobs: int | None = None,
        random_state: int | None = None,
    ) -> None:
        self.n_rounds = n_rounds
        self.max_depth = max_depth
        self.min_child_weight = min_child_weight
        self.reg_lambda = reg_lambda
        self.learning_rate = learning_rate
        self.tree_method = tree_method
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _fit_log(self, log: BanditLog) -> None:
        params = self._booster_params()
        xgboost = _import_xgboost()
        by_action = action_columns(log.n_actions, log.action_features)
        rows = _with_actions(log.context, by_action[log.action_idx])
        matrix = xgboost.DMatrix(rows, np.asarray(log.reward), nthread=params["nthread"])
        self.zero_is_missing_ = is_sparse(log.context)
        self.booster_ = xgboost.train(params, matrix, num_boost_round=self.n_rounds)

    def _booster_params(self) -> dict[str, Any]:
        check_number("n_rounds", self.n_rounds, low=1, integer=True)
        check_number("max_depth", self.max_depth, low=1, high=64, integer=True)
        check_number("min_child_weight", self.min_child_weight, low=0.0)
        check_number("reg_lambda", self.reg_lambda, low=0.0)
        check_number("learning_rate", self.learning_rate, low=0.0, high=1.0, low_open=True)
        check_choice("tree_method", self.tree_method, ("exact", "hist"))
        if self.n_jobs is not None:
            check_number("n_jobs", self.n_jobs, low=1, integer=True)
        return {
            "objective": "reg:squarederror",
            "tree_method": self.tree_method,
            "max_depth": int(self.max_depth),
            "min_child_weight": float(self.min_child_weight),
            "reg_lambda": float(self.reg_lambda),
            "learning_rate": float(self.learning_rate),
            "nthread": -1 if self.n_jobs is None else int(self.n_jobs),
            "seed": 0 if self.random_state is None else int(self.random_state),
        }

    def decision_function(self, context: Any) -> FloatArray:
        """Return the predicted reward of every action, of shape (n_samples, n_actions)."""
        matrix = self._read(context)
        xgboost = _import_xgboost()
        by_action = action_columns(len(self.actions_), self.action_features_)
        n_rows, n_actions = matrix.shape[0], len(by_action)
        step = max(EXPANDED_ROWS // n_actions, 1)
        score = np.empty((n_rows, n_actions))
        for start in range(0, n_rows, step):
            rows = expand(_as_fitted(matrix[start : start + step], self.zero_is_missing_), by_action)
            predicted = self.booster_.predict(xgboost.DMatrix(rows, nthread=-1 if self.n_jobs is None else self.n_jobs))
            score[start : start + step] = predicted.reshape(-1, n_actions)
        return score

    def _pack(self) -> Packed:
        raw = self.booster_.save_raw("ubj")  # a data format: nothing in it is executed
        return {"zero_is_missing": self.zero_is_missing_}, {"booster": np.frombuffer(bytes(raw), dtype=np.uint8)}

    def _unpack(self, facts: dict[str, Any], arrays: dict[str, AnyArray]) -> None:
        xgboost = _import_xgboost()
        self.zero_is_missing_ = bool(facts["zero_is_missing"])
        if arrays["booster"].dtype != np.uint8:
            raise ValueError("the booster is not stored as bytes")
        try:
            self.booster_ = xgboost.Booster(model_file=bytearray(arrays["booster"].tobytes()))
        except xgboost.core.XGBoostError as error:
            raise ValueError(f"the booster cannot be read: {str(error).splitlines()[0]}") from None
        n_action_features = 0 if self.action_features_ is None else self.action_features_.shape[1]
        if self.booster_.num_features() != self.n_features_in_ + len(self.actions_) + n_action_features:
            raise ValueError("the booster has another number of columns than the policy")


def _with_actions(context: ContextMatrix, columns: FloatArray) -> ContextMatrix:
    if is_sparse(context):
        from scipy.sparse import csr_array, hstack

        return csr_array(hstack([context, csr_array(columns)], format="csr"))
    return np.hstack([context, columns])


def _as_fitted(context: ContextMatrix, zero_is_missing: bool) -> ContextMatrix:
    """Return contexts in the form, sparse or dense, in which the booster saw them when it was trained."""
    if is_sparse(context) == zero_is_missing:
        return context
    if not zero_is_missing:
        return context.toarray()
    from scipy.sparse import csr_array

    return csr_array(context)


def _import_xgboost() -> Any:
    try:
        import xgboost
    except ImportError:
        raise ImportError("XGBRewardPolicy needs XGBoost: pip install 'bopl[xgboost]'.") from None
    return xgboost
