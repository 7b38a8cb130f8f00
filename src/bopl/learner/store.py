"""Predictors and learner settings as JSON facts and plain arrays, for model files and checkpoints."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import cached_property
from inspect import signature
from itertools import groupby
from typing import Any

import numpy as np

from bopl._archive import Packed as Packed
from bopl._archive import grouped
from bopl._registry import Registry
from bopl._typing import AnyArray, ContextMatrix, FloatArray
from bopl.learner.base import Predictor
from bopl.learner.expanded import LinearPredictor, action_columns, pack_linear, unpack_linear
from bopl.learner.expanded_tree import FILE_KIND, pack_nothing, unpack_trees
from bopl.learner.hist_tree.predictor import (
    HistTreePredictor,
    SparseTreePredictor,
    pack_hist_trees,
    score_of,
    stack_trees,
    unpack_hist_trees,
    unpack_sparse_trees,
)

MIXED = "mixed"  # predictors of several kinds
MAX_COLUMN_BYTES = 1 << 30  # of the columns of the actions, which grow with the square of their number


@dataclass(frozen=True)
class Codec:
    """How one kind of predictor is written and read back: what the entry points of ``bopl.predictors`` name.

    Parameters
    ----------
    pack, unpack : callable
        See `register_predictor`.
    needs_columns : bool, default=True
        See `register_predictor`.
    """

    pack: Callable[[Sequence[Any]], Packed]
    unpack: Callable[..., Sequence[Predictor]]
    needs_columns: bool = True


PREDICTORS: Registry[Codec] = Registry(
    "bopl.predictors",
    {
        FILE_KIND: Codec(pack_nothing, unpack_trees),
        HistTreePredictor.kind: Codec(pack_hist_trees, unpack_hist_trees, needs_columns=False),
        SparseTreePredictor.kind: Codec(pack_hist_trees, unpack_sparse_trees, needs_columns=False),
        LinearPredictor.kind: Codec(pack_linear, unpack_linear),
    },
)


def register_predictor(
    kind: str, pack: Callable[[Sequence[Any]], Packed], unpack: Callable[..., Any], *, needs_columns: bool = True
) -> None:
    """Let predictors of your own be saved with a policy, in checkpoints and model files.

    Call it when your module is imported: a file that holds such predictors can be read wherever it was called before.

    Parameters
    ----------
    kind : str
        What the predictors have as ``kind``.
    pack : callable
        From a sequence of predictors to ``(facts, arrays)``: a dict for JSON, and a dict of plain arrays.
    unpack : callable
        ``unpack(facts, arrays, n_features=…, by_action=…)`` returns the predictors again; ``by_action`` has one row per
        action. The file may come from anybody: check what predicting relies on, and raise ValueError.
    needs_columns : bool, default=True
        Whether ``unpack`` reads the values of ``by_action``; if not, it is given zeros of the same shape, which take no
        memory however many actions there are.
    """
    PREDICTORS[kind] = Codec(pack, unpack, needs_columns)


def pack_predictors(predictors: Sequence[Predictor]) -> Packed:
    """Return the predictors of one ensemble as JSON facts and arrays; neighbours of one kind are written together.

    A predictor that is an estimator of a kind we have no plain form for raises a TypeError.
    """
    # In the order of the ensemble, run by run: sums of floats are taken in that order when the file is read again.
    runs = [(kind, list(run)) for kind, run in groupby(predictors, key=_kind_of)] or [(FILE_KIND, [])]
    if len(runs) == 1:
        return _pack_kind(*runs[0])
    packed = [_pack_kind(kind, run) for kind, run in runs]
    arrays = {f"{number}/{name}": array for number, (_, own) in enumerate(packed) for name, array in own.items()}
    return {"kind": MIXED, "parts": [facts for facts, _ in packed]}, arrays


def _kind_of(predictor: Predictor) -> str:
    return str(getattr(predictor, "kind", type(predictor).__name__))


def _pack_kind(kind: str, predictors: Sequence[Any]) -> Packed:
    if kind not in PREDICTORS:
        name = type(getattr(predictors[0], "estimator", predictors[0])).__name__
        raise TypeError(
            f"predictors of {name} have no plain form and cannot be written to a file; decision trees, linear "
            "regressors and bopl's own learners can, and so can predictors that register_predictor knows."
        )
    facts, arrays = PREDICTORS[kind].pack(predictors)
    return {"kind": kind, **facts}, arrays


def unpack_predictors(
    facts: dict[str, Any],
    arrays: dict[str, AnyArray],
    *,
    n_features: int,
    n_actions: int,
    action_features: FloatArray | None = None,
) -> tuple[Predictor, ...]:
    """Return the predictors written by `pack_predictors`."""
    columns = _ActionColumns(n_actions, action_features)
    if facts.get("kind") != MIXED:
        return tuple(_unpack_kind(facts, arrays, n_features, columns))
    found: list[Predictor] = []
    for part, own in zip(facts["parts"], grouped(arrays, len(facts["parts"])), strict=True):
        found += _unpack_kind(part, own, n_features, columns)
    return tuple(found)


@dataclass(frozen=True)
class _ActionColumns:
    """The columns of the actions, made where they are needed."""

    n_actions: int
    action_features: FloatArray | None

    @cached_property
    def values(self) -> FloatArray:
        n_bytes = self.shape.nbytes
        if n_bytes > MAX_COLUMN_BYTES:
            raise ValueError(
                f"its predictors need a column for each of {self.n_actions:,} actions, {n_bytes:,} bytes in all; only "
                "trees of HistTree and HistTreeClassifier support so many"
            )
        return action_columns(self.n_actions, self.action_features)

    @cached_property
    def shape(self) -> FloatArray:
        """Zeros of the same shape, which take no memory."""
        n_features = 0 if self.action_features is None else self.action_features.shape[1]
        return np.broadcast_to(np.float32(0.0), (self.n_actions, self.n_actions + n_features))


def _unpack_kind(
    facts: dict[str, Any], arrays: dict[str, AnyArray], n_features: int, columns: _ActionColumns
) -> Sequence[Predictor]:
    if facts.get("kind") not in PREDICTORS:
        raise ValueError(f"predictors of kind {facts.get('kind')!r} are not known to this version")
    codec = PREDICTORS[facts["kind"]]
    by_action = columns.values if codec.needs_columns else columns.shape
    return codec.unpack(facts, arrays, n_features=n_features, by_action=by_action)


Scorer = Callable[[ContextMatrix], FloatArray]
MIN_PARALLEL_ROWS = 2048  # fewer contexts are scored sooner than threads are started


def stack_predictors(predictors: Sequence[Predictor], coefficient: Sequence[float]) -> Scorer:
    """Return a function that scores ``Σ coefficient · predictor``; trees of the engine are scored in one pass.

    Where all predictors are such trees the result has the same bits as a loop over them.
    """
    pairs = list(zip(predictors, coefficient, strict=True))
    scorers: list[Scorer] = []
    for _, run in groupby(pairs, key=lambda pair: _kind_of(pair[0])):
        terms = list(run)
        is_engine = isinstance(terms[0][0], HistTreePredictor)
        scorers += [_stacked(terms)] if is_engine else [_scaled(*term) for term in terms]

    def add_up(context: ContextMatrix) -> FloatArray:
        score = scorers[0](context)
        for scorer in scorers[1:]:
            score += scorer(context)
        return score

    return add_up


def _stacked(pairs: Sequence[tuple[Any, float]]) -> Scorer:
    trees = stack_trees([tree for tree, _ in pairs], [factor for _, factor in pairs])
    n_cores, zero_is_missing = os.cpu_count() or 1, pairs[0][0].zero_is_missing

    def score(context: ContextMatrix) -> FloatArray:
        n_jobs = n_cores if context.shape[0] >= MIN_PARALLEL_ROWS else 1
        return score_of(trees, context, zero_is_missing=zero_is_missing, n_jobs=n_jobs)

    return score


def _scaled(predictor: Predictor, factor: float) -> Scorer:
    return lambda context: np.asarray(factor * predictor.predict(context), dtype=np.float64)


# Learners that may be named in a model file. A file must not be able to make us import anything else.
LEARNERS: Registry[type] = Registry(
    "bopl.learners",
    {
        "HistTree": "bopl.learner:HistTree",
        "HistTreeClassifier": "bopl.learner:HistTreeClassifier",
        "XGBTree": "bopl.learner:XGBTree",
        "DecisionTreeRegressor": "sklearn.tree:DecisionTreeRegressor",
        "DecisionTreeClassifier": "sklearn.tree:DecisionTreeClassifier",
        "ExtraTreeRegressor": "sklearn.tree:ExtraTreeRegressor",
        "ExtraTreeClassifier": "sklearn.tree:ExtraTreeClassifier",
        "LinearRegression": "sklearn.linear_model:LinearRegression",
        "Ridge": "sklearn.linear_model:Ridge",
    },
)


def register_learner(kind: type) -> type:
    """Let a saved policy come back with a learner of your own, known by the name of its class and plain settings."""
    LEARNERS[kind.__name__] = kind
    return kind


def describe_learner(learner: Any) -> dict[str, Any] | None:
    """Return class and settings of a learner for a JSON document; None if it could not be restored from them."""
    kind, given = type(learner), settings_of(learner)
    name = kind.__name__
    if given is None or name not in LEARNERS or LEARNERS[name] is not kind:
        return None
    settings = {key: _plain(value) for key, value in given.items()}
    return None if _NOT_PLAIN in settings.values() else {"class": name, "settings": settings}


def learner_settings(learner: Any) -> dict[str, Any]:
    """Return what tells one learner's trees from another's, as plain values: all settings but the threads."""
    given = settings_of(learner, deep=True)
    if given is None:
        return {"class": type(learner).__name__, "settings": repr(learner)}
    settings = {key: _plain(value) for key, value in given.items() if key != "n_jobs"}
    known = {key: repr(value) if value is _NOT_PLAIN else value for key, value in settings.items()}
    return {"class": type(learner).__name__, "settings": dict(sorted(known.items()))}


def settings_of(part: Any, *, deep: bool = False) -> dict[str, Any] | None:
    """Return the settings of a scikit-learn estimator or of a dataclass; None of another object."""
    if hasattr(part, "get_params"):
        return dict(part.get_params(deep=deep))
    return {entry.name: getattr(part, entry.name) for entry in fields(part)} if is_dataclass(part) else None


_NOT_PLAIN = object()


def _plain(value: Any) -> Any:
    """Return a setting as JSON has it, or a mark that it has none."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        entries = {key: _plain(entry) for key, entry in value.items()}
        return _NOT_PLAIN if _NOT_PLAIN in entries.values() else entries
    if isinstance(value, set | frozenset):
        value = sorted(value, key=lambda one: (str(type(one)), one))
    if isinstance(value, list | tuple | range | np.ndarray):
        parts = [_plain(part) for part in value]
        return _NOT_PLAIN if _NOT_PLAIN in parts else parts
    return value if isinstance(value, bool | int | float | str | None) else _NOT_PLAIN


def learner_from(description: dict[str, Any] | None) -> Any:
    """Return an unfitted learner with the described settings, or None."""
    if description is None or description.get("class") not in LEARNERS:
        return None
    learner_class: Any = LEARNERS[description["class"]]
    known = signature(learner_class).parameters
    return learner_class(**{key: value for key, value in description["settings"].items() if key in known})
