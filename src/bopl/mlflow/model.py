"""A policy as an MLflow model: its own file, its columns, and the wrapper through which MLflow calls it."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np

import bopl
from bopl._policy_reader import logged_entries
from bopl.log.column import Column
from bopl.log.frame import as_table
from bopl.log.schema import LogSchema
from bopl.policy import load
from bopl.policy.decision import draw_actions

FILE = "policy.bopl"
LOADER = "bopl.mlflow"
ID_TAG = "bopl.policy_id"
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


def log_policy(
    policy: Any,
    name: str = "policy",
    *,
    rows: Any = None,
    registered_model_name: str | None = None,
    pip_requirements: Sequence[str] | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> Any:
    """Write a fitted policy to MLflow as a model, in the active run or a new one.

    The model contains the policy's file, as ``policy.save`` writes it, and is loaded by this package without
    pickle. Its signature comes from the policy's schema. `mlflow.pyfunc.load_model` then takes frames and returns
    one with ``action``, ``propensity`` and ``policy`` for each row: actions are drawn, so that the result can be
    logged and learned from. ``params={"greedy": True}`` takes the most probable ones instead, and
    ``params={"random_state": 7}`` makes the draws reproducible.

    Parameters
    ----------
    policy : policy
        A fitted policy with ``save``.
    name : str, default="policy"
        Name of the model within the run.
    rows : frame, optional
        Typical rows, to see which columns are integers: without them the signature calls all numbers doubles,
        and MLflow refuses to convert 64-bit integers of a frame to those.
    registered_model_name : str, optional
        Also register it under this name.
    pip_requirements : sequence of str, optional
        What the model needs when it is served; this version of bopl by default.
    metadata : mapping, optional
        Stored with the model, together with the policy's id.

    Returns
    -------
    mlflow.models.model.ModelInfo
        Has ``model_uri``, which `load_policy` and MLflow take.
    """
    pyfunc = _import_mlflow().pyfunc
    takes_name = "name" in signature(pyfunc.log_model).parameters  # before MLflow 3 a model was a path in its run
    with tempfile.TemporaryDirectory() as folder:
        policy.save(Path(folder) / FILE)
        return pyfunc.log_model(
            **{"name" if takes_name else "artifact_path": name},
            loader_module=LOADER,
            data_path=str(Path(folder) / FILE),
            signature=signature_of(policy, rows),
            registered_model_name=registered_model_name,
            pip_requirements=list(pip_requirements or [f"bopl[mlflow]=={bopl.__version__}"]),
            metadata={ID_TAG: policy.policy_id, **(metadata or {})},
        )


def load_policy(model_uri: str) -> Any:
    """Return the policy of a model that `log_policy` wrote: the object itself, to decide, explain and save.

    Parameters
    ----------
    model_uri : str
        Such as ``info.model_uri`` or ``"models:/shop/3"``.
    """
    mlflow = _import_mlflow()
    with tempfile.TemporaryDirectory() as folder:
        local = Path(mlflow.artifacts.download_artifacts(artifact_uri=model_uri, dst_path=folder))
        return load(local / "data" / FILE)


def _load_pyfunc(path: str) -> _PolicyModel:
    """Return a model for MLflow, which calls this function."""
    return _PolicyModel(load(path))


class _PolicyModel:
    """The wrapper through which MLflow calls a policy."""

    def __init__(self, policy: Any) -> None:
        self.policy = policy

    def predict(self, model_input: Any, params: Mapping[str, Any] | None = None) -> Any:
        """Return a frame with action, propensity and policy for each row."""
        import pandas

        asked = {**PARAMS, **(params or {})}
        action_prob = self.policy.predict_proba(self._with_optional(model_input))
        if asked["greedy"]:
            chosen = action_prob.argmax(axis=1)
        else:
            seed = int(asked["random_state"])
            chosen = draw_actions(action_prob, np.random.default_rng(None if seed < 0 else seed))
        return pandas.DataFrame(
            {
                "action": self.policy.actions_[chosen],
                "propensity": logged_entries(action_prob, chosen),
                "policy": self.policy.policy_id,
            }
        )

    def _with_optional(self, rows: Any) -> Any:
        """Return rows with the optional columns that were left out."""
        schema = self.policy.schema_
        if schema is None or not hasattr(rows, "assign"):
            return rows
        absent = [one.name for one in schema.columns if one.is_optional and one.name not in rows.columns]
        return rows.assign(**dict.fromkeys(absent)) if absent else rows


def _import_mlflow() -> Any:
    try:
        import mlflow.pyfunc

        import mlflow
    except ImportError:
        raise ImportError("this needs MLflow: pip install 'bopl[mlflow]'.") from None
    return mlflow
