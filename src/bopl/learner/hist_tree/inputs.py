"""What a tree learner is given, checked and converted: settings, contexts, categories, features of the actions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from bopl._errors import quoted, shortened
from bopl._settings import check_jobs, check_number
from bopl.learner.hist_tree.binning import MAX_BINS
from bopl.learner.hist_tree.tree import MAX_DEPTH

if TYPE_CHECKING:
    from bopl.learner.hist_tree.learner import HistTree


def check_tree_settings(settings: HistTree) -> None:
    """Refuse settings outside their range, by name and value."""
    check_number("max_depth", settings.max_depth, low=1, high=MAX_DEPTH, integer=True)
    check_number("min_samples_leaf", settings.min_samples_leaf, low=1, integer=True)
    check_number("max_bins", settings.max_bins, low=2, high=MAX_BINS, integer=True)
    check_jobs(settings.n_jobs)
    for name, low in (("max_leaves", 2), ("random_state", 0)):
        if getattr(settings, name) is not None:
            check_number(name, getattr(settings, name), low=low, integer=True)
    for name in ("min_child_weight", "min_leaf_samples", "reg_lambda"):
        check_number(name, getattr(settings, name), low=0.0)
    for name in ("colsample", "subsample"):
        check_number(name, getattr(settings, name), low=0.0, high=1.0, low_open=True)


def as_context(context: Any) -> Any:
    """Return contexts as the engine bins them."""
    if sparse.issparse(context):
        return context.tocsr().astype(np.float32)
    return np.asarray(context, np.float32)


def categorical_mask(categorical: Any, n_features: int, names: Sequence[str] | None) -> NDArray[np.bool_]:
    """Return which columns hold categories, after checking that they are there."""
    mask = np.zeros(n_features, bool)
    if isinstance(categorical, str) or not isinstance(categorical, Iterable | None):
        raise TypeError(f"categorical must be a list of columns; got {shortened(categorical)}.")
    for column in () if categorical is None else categorical:
        if isinstance(column, str):
            if names is None or column not in names:
                known = "the contexts have no column names" if names is None else f"the columns are {quoted(names)}"
                raise ValueError(f"categorical names column {column!r}; {known}.")
            mask[list(names).index(column)] = True
        elif isinstance(column, Integral) and 0 <= int(column) < n_features:
            mask[int(column)] = True
        else:
            raise ValueError(f"categorical names column {column!r}; the contexts have columns 0 to {n_features - 1}.")
    return mask


def feature_matrix(features: Any, n_actions: int) -> NDArray[np.float64]:
    """Return action features rounded to float32 like thresholds, so that a saved model orders actions the same."""
    if features is None:
        return np.zeros((n_actions, 0))
    return np.ascontiguousarray(np.asarray(features, np.float32), np.float64)
