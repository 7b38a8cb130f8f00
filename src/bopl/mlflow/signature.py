"""The columns of a policy as MLflow describes inputs and outputs."""

from __future__ import annotations

from typing import Any

import numpy as np

from bopl.log.column import Column
from bopl.log.frame import as_table
from bopl.log.schema import LogSchema

PARAMS = {"greedy": False, "random_state": -1}  # of a prediction, with their defaults; -1 is a fresh draw


def signature_of(policy: Any, rows: Any = None) -> Any:
    """Return the signature of a policy: its columns in; action, propensity and the policy's id out.

    Parameters
    ----------
    policy : policy
        Columns with missing values in its log may be left out. If columns have no names, the input is a float32 matrix.
    rows : frame, optional
        Typical rows: integer columns are integers in the signature, which otherwise calls all
        numbers doubles. MLflow refuses to convert 64-bit integers to doubles.
    """
    from mlflow.models import ModelSignature
    from mlflow.types import ColSpec, ParamSchema, ParamSpec, Schema, TensorSpec

    schema, names = policy.schema_, getattr(policy, "feature_names_in_", None)
    if schema is None and names is not None:
        schema = LogSchema(tuple(Column(str(name), "number") for name in names))
    if schema is None or schema.is_sparse:
        inputs = Schema([TensorSpec(np.dtype(np.float32), (-1, int(policy.n_features_in_)))])
    else:
        whole = [] if rows is None else whole_columns(rows)
        types = ["long" if column.name in whole else _type_of(column) for column in schema.columns]
        inputs = Schema(
            [
                ColSpec(kind, column.name, required=not column.is_optional)
                for kind, column in zip(types, schema.columns, strict=True)
            ]
        )
    outputs = Schema(
        [
            ColSpec(_type_of_labels(policy.actions_.tolist()), "action"),
            ColSpec("double", "propensity"),
            ColSpec("string", "policy"),
        ]
    )
    params = ParamSchema(
        [
            ParamSpec("greedy", "boolean", PARAMS["greedy"]),
            ParamSpec("random_state", "long", PARAMS["random_state"]),
        ]
    )
    return ModelSignature(inputs=inputs, outputs=outputs, params=params)


def whole_columns(rows: Any) -> list[str]:
    """Return the columns of a frame that contain integers."""
    return [name for name, kind in as_table(rows).schema.items() if kind.is_integer()]


def _type_of(column: Column) -> Any:
    from mlflow.types.schema import Array

    if column.kind == "vector":
        return Array("double")
    if column.kind == "flag":
        return "double" if column.is_optional else "boolean"
    if column.kind == "time":
        return "datetime" if column.unit is None else "double"
    if column.kind == "category" and not _are_numbers(column.categories):
        return "string"
    return "double"


def _are_numbers(values: tuple[Any, ...]) -> bool:
    return bool(values) and all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)


def _type_of_labels(labels: list[Any]) -> str:
    for kind, name in ((bool, "boolean"), (int, "long"), (float, "double")):
        if all(type(label) is kind for label in labels):
            return name
    return "string"
