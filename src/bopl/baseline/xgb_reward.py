"""BRR-xgb: the policy that takes the action with the highest reward predicted by XGBoost."""

from __future__ import annotations

from typing import Any

import numpy as np

from bopl._machine import import_extra
from bopl._settings import check_choice, check_jobs, check_number
from bopl._typing import AnyArray, BoolArray, ContextMatrix, FloatArray
from bopl.baseline.booster_check import checked_booster
from bopl.learner.expanded import action_columns, predict_expanded
from bopl.log import BanditLog
from bopl.log.cleaning import MAX_FLOAT32
from bopl.log.context import is_sparse, with_columns
from bopl.policy.learned import LearnedPolicy, Packed

EXPANDED_ROWS = 1 << 18  # (context, action) rows that are built at a time when predicting


class XGBRewardPolicy(LearnedPolicy):
    """BRR-xgb of the paper: XGBoost's squared-error boosting on rows ``[x; onehot(a)]`` of the logged actions.

    Scores are predicted rewards, so `predict_proba` is greedy unless ``inverse_temperature`` is given.

    Parameters
    ----------
    n_rounds : int, default=100
        Number of trees.
    max_depth : int, default=6
        Maximum depth of a tree.
    min_child_weight : float, default=1.0
        Minimum number of samples in a leaf.
    reg_lambda : float, default=1.0
        Ridge penalty on the leaves.
    learning_rate : float in (0, 1], default=0.1
        Factor of each tree.
    tree_method : {"exact", "hist"}, default="exact"
        How XGBoost finds splits: among all values, or among 256 bins.
    n_jobs : int, optional
        Number of threads; all processors if None.
    random_state : int, optional
        Seed of XGBoost.

    Attributes
    ----------
    booster_ : xgboost.Booster
    absent_zero_ : bool ndarray of shape (n_features,)
        Columns whose zeros the booster treats as missing values, in training and in prediction: all columns of a sparse
        log; in a dense one the columns of zeros and ones, if most of its entries are such zeros. A column of zeros
        and ones can be split in only one way, so the trees are the same, and only a fraction of the entries is visited.
    """

    predicts_rewards = True

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

    def learn(self, log: BanditLog) -> None:
        """Learn from the log."""
        params = self._booster_params()
        xgboost = import_extra("xgboost", "XGBRewardPolicy needs XGBoost", "xgboost")
        by_action = action_columns(log.n_actions, log.action_features)
        self.absent_zero_ = _absent_zeros(log)
        rows = with_columns(_as_fitted(log.context, self.absent_zero_), by_action[log.action_idx])
        matrix = xgboost.DMatrix(rows, np.asarray(log.reward), nthread=params["nthread"])
        self.booster_ = xgboost.train(params, matrix, num_boost_round=self.n_rounds)

    def _booster_params(self) -> dict[str, Any]:
        check_number("n_rounds", self.n_rounds, low=1, integer=True)
        check_number("max_depth", self.max_depth, low=1, high=64, integer=True)
        check_number("min_child_weight", self.min_child_weight, low=0.0, high=MAX_FLOAT32)
        check_number("reg_lambda", self.reg_lambda, low=0.0, high=MAX_FLOAT32)
        check_number("learning_rate", self.learning_rate, low=0.0, high=1.0, low_open=True)
        check_choice("tree_method", self.tree_method, ("exact", "hist"))
        check_jobs(self.n_jobs)
        if self.random_state is not None:
            check_number("random_state", self.random_state, low=0, high=2**31 - 1, integer=True)
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

    def score_actions(self, context: ContextMatrix) -> FloatArray:
        """Return the predicted reward of every action."""
        xgboost = import_extra("xgboost", "XGBRewardPolicy needs XGBoost", "xgboost")
        by_action = action_columns(len(self.actions_), self.action_features_)
        n_threads = -1 if self.n_jobs is None else self.n_jobs
        return predict_expanded(
            lambda rows: self.booster_.predict(xgboost.DMatrix(rows, nthread=n_threads)),
            context,
            by_action,
            chunk_rows=max(EXPANDED_ROWS // len(by_action), 1),
            prepare=lambda chunk: _as_fitted(chunk, self.absent_zero_),
        )

    def pack_learned(self) -> Packed:
        """Return what was learned."""
        raw = self.booster_.save_raw("ubj")  # a data format: nothing in it is executed
        return {}, {"absent_zero": self.absent_zero_, "booster": np.frombuffer(bytes(raw), dtype=np.uint8)}

    def unpack_learned(self, facts: dict[str, Any], arrays: dict[str, AnyArray]) -> None:
        """Restore what was learned."""
        xgboost = import_extra("xgboost", "XGBRewardPolicy needs XGBoost", "xgboost")
        self.absent_zero_ = arrays["absent_zero"]
        if self.absent_zero_.dtype != np.bool_ or self.absent_zero_.shape != (self.n_features_in_,):
            raise ValueError("array 'absent_zero' must hold one truth value per column")
        if arrays["booster"].dtype != np.uint8:
            raise ValueError("the booster is not stored as bytes")
        if self.n_jobs is not None:  # which predicting uses
            check_number("n_jobs", self.n_jobs, low=1, integer=True)
        n_action_features = 0 if self.action_features_ is None else self.action_features_.shape[1]
        n_columns = self.n_features_in_ + len(self.actions_) + n_action_features
        content = arrays["booster"].tobytes()
        checked, is_same = checked_booster(content, n_columns)
        try:
            self.booster_ = xgboost.Booster(model_file=bytearray(checked))
        except xgboost.core.XGBoostError as error:
            raise ValueError(f"the booster cannot be read: {str(error).splitlines()[0]}") from None
        if not is_same and bytes(self.booster_.save_raw("ubj")) != content:
            raise ValueError("the booster holds more than trees that predict a reward")


def _absent_zeros(log: BanditLog) -> BoolArray:
    """Return the columns whose zeros are left out (see `XGBRewardPolicy`); none if that would save less than half."""
    context, n_features = log.context, log.n_features
    if is_sparse(context):
        return np.ones(n_features, dtype=bool)
    indicator = np.array([bool(((column == 0.0) | (column == 1.0)).all()) for column in context.T])
    n_left_out = context[:, indicator].size - np.count_nonzero(context[:, indicator])
    is_worth_it = log.action_features is None and 2 * n_left_out > context.size
    return indicator if is_worth_it else np.zeros(n_features, dtype=bool)


def _as_fitted(context: ContextMatrix, absent_zero: BoolArray) -> ContextMatrix:
    """Return contexts in the form, sparse or dense, in which the booster saw them when it was trained."""
    if is_sparse(context) and absent_zero.all():
        return context
    dense = context.toarray() if is_sparse(context) else context
    if not absent_zero.any():
        return dense
    from scipy.sparse import csr_array

    is_kept = (dense != 0.0) | ~absent_zero
    first = np.concatenate([[0], np.cumsum(is_kept.sum(axis=1))])
    return csr_array((dense[is_kept], np.nonzero(is_kept)[1].astype(np.int32), first), shape=dense.shape)
