"""Rounds as JSON facts and plain arrays; shared by checkpoints and model files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bopl._archive import Packed
from bopl._typing import AnyArray, FloatArray
from bopl.boosting.ensemble import Round
from bopl.boosting.history import COLUMNS
from bopl.boosting.step import Step
from bopl.learner.store import PREDICTORS, pack_predictors, unpack_predictors
from bopl.learner.tree_check import MAX_NUMBER

MAX_ROUNDS = 1 << 53  # integers that a float can count
STEP_FIELDS = ("alpha", "factor", "guaranteed_decrease")
PREDICTORS.put_later("logging", "bopl.reward.logging_model:CODEC")
PREDICTORS.put_later("network", "bopl.reward.network_model:CODEC")


def pack_rounds(rounds: Sequence[Round]) -> Packed:
    """Return rounds as JSON facts and arrays with names ``step/…`` and ``predictor/…``."""
    facts, predictor_arrays = pack_predictors([entry.predictor for entry in rounds])
    arrays: dict[str, AnyArray] = {
        f"step/{name}": np.array([getattr(entry.step, name) for entry in rounds], dtype=np.float64)
        for name in STEP_FIELDS
    }
    return facts, arrays | {f"predictor/{name}": array for name, array in predictor_arrays.items()}


def unpack_rounds(
    facts: dict[str, Any],
    arrays: dict[str, AnyArray],
    *,
    n_features: int,
    n_actions: int,
    action_features: FloatArray | None = None,
) -> tuple[Round, ...]:
    """Return the rounds written by `pack_rounds`."""
    prefix = "predictor/"
    own = {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
    predictors = unpack_predictors(
        facts, own, n_features=n_features, n_actions=n_actions, action_features=action_features
    )
    columns = [arrays[f"step/{name}"] for name in STEP_FIELDS]
    if any(column.shape != (len(predictors),) for column in columns):
        raise ValueError("the steps do not match the predictors")
    if any(column.dtype != np.float64 or not (np.abs(column) <= MAX_NUMBER).all() for column in columns):
        raise ValueError(f"a step is not a finite number, or beyond {MAX_NUMBER:g}")
    steps = [Step(*(float(column[row]) for column in columns)) for row in range(len(predictors))]
    return tuple(Round(predictor, step) for predictor, step in zip(predictors, steps, strict=True))


def read_records(arrays: Mapping[str, AnyArray]) -> list[dict[str, float]]:
    """Return the history in arrays with names ``history/…``, one mapping per round."""
    columns = {name: arrays[f"history/{name}"] for name in COLUMNS}
    if any(column.dtype.kind != "f" or column.ndim != 1 for column in columns.values()):
        raise ValueError("the history's columns do not hold numbers")
    if len({len(column) for column in columns.values()}) != 1:
        raise ValueError("the history's columns differ in length")
    number = columns["round"]
    if not ((number >= 0) & (number < MAX_ROUNDS)).all():
        raise ValueError("the history's rounds are not numbered")
    values = [column.tolist() for column in columns.values()]
    return [dict(zip(columns, row, strict=True)) for row in zip(*values, strict=True)]
