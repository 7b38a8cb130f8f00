"""Any scikit-learn regressor or classifier as a base learner, through the paper's two reductions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.tree import BaseDecisionTree
from sklearn.utils.validation import has_fit_parameter

from bopl._typing import AnyArray, BoolArray, ContextMatrix, FloatArray
from bopl.learner.base import BoundLearner, FittedStep, Predictor, pair_weight
from bopl.learner.expanded import LinearPredictor, action_columns, expand, predict_expanded
from bopl.learner.expanded_tree import LEAF_COLUMN, ExpandedTree, just_above, predictor_from
from bopl.log import BanditLog
from bopl.objective import StepTarget


def bind_estimator(estimator: Any, log: BanditLog, *, seed: int) -> BoundLearner:
    """Bind a scikit-learn estimator: regressors by Algorithm 3, classifiers by Algorithm 4."""
    if not (hasattr(estimator, "__sklearn_tags__") and (is_regressor(estimator) or is_classifier(estimator))):
        raise TypeError(f"learner must be a bopl learner or a scikit-learn regressor or classifier; got {estimator!r}.")
    if not has_fit_parameter(estimator, "sample_weight"):
        raise TypeError(
            f"learner {type(estimator).__name__} does not accept sample_weight in fit, which both of the paper's "
            "reductions need; use one that does, such as a decision tree."
        )
    by_action = action_columns(log.n_actions, log.action_features)
    return BoundEstimator(estimator, log, expand(log.context, by_action), by_action, seed)


@dataclass(frozen=True)
class BoundEstimator(BoundLearner):
    """A scikit-learn estimator with the expanded matrix, which is built once."""

    estimator: Any
    log: BanditLog
    matrix: ContextMatrix  # (n_samples · n_actions, n_features + n_action_columns)
    by_action: FloatArray
    seed: int

    def fit(self, target: StepTarget, round_idx: int) -> FittedStep:
        """Fit a fresh copy of the estimator to the round's weighted problem."""
        is_class = is_classifier(self.estimator)
        label, weight = classification_problem(target) if is_class else regression_problem(target, self.log.action_mask)
        fitted = clone(self.estimator)
        if "random_state" in fitted.get_params() and fitted.get_params()["random_state"] is None:
            seeds = np.random.SeedSequence(self.seed, spawn_key=(round_idx,)).generate_state(1)
            fitted.set_params(random_state=int(seeds[0]))
        fitted.fit(self.matrix, label, sample_weight=weight)
        predictor = predictor_of(fitted, self.log.n_features, self.by_action)
        return FittedStep(predictor, predictor.predict(self.log.context))


def regression_problem(target: StepTarget, action_mask: BoolArray | None = None) -> tuple[FloatArray, FloatArray]:
    """Return labels ``G/w`` and weights ``w`` of the expanded rows (Algorithm 3, line 3)."""
    # Eq. "base_learning_regression". A sample of weight zero has gradient zero, too: its label does not matter.
    scale = np.divide(1.0, target.weight, out=np.zeros_like(target.weight), where=target.weight > 0.0)
    return (target.gradient * scale[:, None]).ravel(), pair_weight(target, action_mask).ravel()


def classification_problem(target: StepTarget) -> tuple[FloatArray, FloatArray]:
    """Return labels ``sgn(G)`` in {-1, +1} and weights ``|G|`` of the expanded rows (Algorithm 4, line 3)."""
    # Eq. "weighted_error_rate": correlation with G is 1 - 2·error, so the best classifier is the best ascent direction.
    gradient = target.gradient.ravel()
    return np.where(gradient > 0.0, 1.0, -1.0), np.abs(gradient)


def predictor_of(fitted: Any, n_features: int, by_action: FloatArray) -> Predictor:
    """Return a fitted estimator as a predictor: plain arrays where we know how, else the estimator itself."""
    if isinstance(fitted, BaseDecisionTree):
        return _tree_of(fitted, n_features, by_action)
    if is_regressor(fitted) and hasattr(fitted, "intercept_") and np.ndim(fitted.coef_) == 1:
        return LinearPredictor(np.asarray(fitted.coef_, dtype=np.float64), float(fitted.intercept_), by_action)
    return EstimatorPredictor(fitted, by_action)


def _tree_of(fitted: Any, n_features: int, by_action: FloatArray) -> Predictor:
    nodes = fitted.tree_
    is_leaf = nodes.children_left == -1
    output = nodes.value[:, 0, :]
    # A classifier stores class shares, in the order of classes_; argmax is what its predict does.
    value = fitted.classes_[output.argmax(axis=1)] if is_classifier(fitted) else output[:, 0]
    # Weighted impurity that a split removes: for squared error this is the engine's gain.
    mass = nodes.weighted_n_node_samples * nodes.impurity
    left, right = np.where(is_leaf, 0, nodes.children_left), np.where(is_leaf, 0, nodes.children_right)
    missing_left = getattr(nodes, "missing_go_to_left", np.zeros(len(left)))
    tree = ExpandedTree(
        column=np.where(is_leaf, LEAF_COLUMN, nodes.feature),
        threshold=just_above(np.where(is_leaf, 0.0, nodes.threshold)),
        left=nodes.children_left,
        right=nodes.children_right,
        default_left=missing_left.astype(np.bool_),
        value=np.where(is_leaf, value, 0.0).astype(np.float64),
        gain=mass - mass[left] - mass[right],
        weight=nodes.weighted_n_node_samples,
    )
    return predictor_from(tree, n_features, by_action)


@dataclass(frozen=True, eq=False)
class EstimatorPredictor:
    """A fitted estimator kept as it is. It predicts like any other, but cannot be written to a model file."""

    kind: ClassVar[str] = "estimator"

    estimator: Any
    by_action: FloatArray

    @property
    def n_actions(self) -> int:
        """Number of actions scored."""
        return len(self.by_action)

    def predict(self, context: ContextMatrix) -> FloatArray:
        """Return scores of shape (n_samples, n_actions), expanding some rows at a time."""
        return predict_expanded(self.estimator.predict, context, self.by_action)

    def gain_by_column(self) -> AnyArray | None:
        """Return None: what is inside is not known."""
        return None
