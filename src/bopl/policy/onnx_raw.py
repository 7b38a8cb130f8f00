"""ONNX models that take the columns of a log as they are, by name: numbers, text, times, lists, and what is missing.

ONNX has no missing text and no times. Text that is missing is a text that no category has, the empty one if it can be;
a time is the number of milliseconds since 1970 in UTC, as numpy's ``datetime64[ms]`` holds it, with its NaT.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bopl._typing import AnyArray
from bopl.log.column import MONDAY, SECONDS_A_DAY, Column, category_text, distinct_values
from bopl.log.frame import as_table
from bopl.log.instant import read_instants
from bopl.log.schema import LogSchema
from bopl.policy.onnx_graph import INNER, Graph

OUTPUTS = ("score", "probability", "action")
PREFIX = "context."  # of a column that has the name of an output
NAT = int(np.iinfo(np.int64).min)
_WHOLE_NUMBER = re.compile(r"[+-]?\d+")


def check_raw(schema: LogSchema | None) -> LogSchema:
    """Return the schema of a policy whose columns can be inputs, or raise an error that says why they cannot."""
    if schema is None:
        raise TypeError("the policy was fitted on numbers, not on named columns: export it with raw=False.")
    if schema.is_sparse:
        raise TypeError(
            f"the policy was fitted on sparse contexts with {len(schema.columns):,} columns, which would be as many "
            "inputs: export it with raw=False."
        )
    return schema


def input_names(schema: LogSchema) -> dict[str, str]:
    """Return the input name of each column: that of the column, unless it is taken."""
    names = (column.name for column in schema.columns)
    return {name: PREFIX + name if name in (*OUTPUTS, "") or name.startswith(INNER) else name for name in names}


def missing_text(schema: LogSchema) -> str:
    """Return the text that stands for missing text: the first of some that is not a category."""
    taken = {text for column in schema.columns if column.kind == "category" for text in column.code_of}
    texts = ["", "<missing>", *(f"<missing {k}>" for k in range(len(taken) + 1))]
    return next(text for text in texts if text not in taken)


def add_columns(graph: Graph, schema: LogSchema) -> None:
    """Add an input for every column, and the steps from all of them to the contexts."""
    names, missing = input_names(schema), missing_text(schema)
    parts = []
    for column in schema.columns:
        name = names[column.name]
        if column.kind == "category":
            parts.append(_add_category(graph, column, graph.put_in(name, "string", 1), missing))
        elif column.kind == "time":
            parts += _add_time(graph, column, graph.put_in(name, "int64", 1))
        else:
            parts.append(graph.put_in(name, "float", column.n_features))
    graph.context = graph.add("Concat", *parts, axis=1)


def _add_category(graph: Graph, column: Column, text: str, missing: str) -> str:
    """Add the positions of categories; integers and booleans are also accepted in Python's spelling."""
    code = dict(column.code_of)
    for known in list(code):
        spelling = f"{known}.0" if _WHOLE_NUMBER.fullmatch(known) else {"true": "True", "false": "False"}.get(known)
        if spelling is not None:
            code.setdefault(spelling, code[known])
    code[missing] = float("nan")
    return graph.add(
        "LabelEncoder",
        text,
        domain="ai.onnx.ml",
        keys_strings=list(code),
        values_floats=list(code.values()),
        default_float=column.unknown_code,
    )


def _add_time(graph: Graph, column: Column, milliseconds: str) -> list[str]:
    """Add the parts of times, with the very operations on doubles that encoding a frame does."""

    def number(value: float) -> str:
        return graph.constant(value, is_double=True)

    is_missing = graph.add("Equal", milliseconds, graph.constant(NAT))
    seconds = graph.add("Div", graph.to_double(milliseconds), number(1000.0))
    day = graph.add("Floor", graph.add("Div", seconds, number(SECONDS_A_DAY)))
    shifted = graph.add("Add", day, number(float(MONDAY)))
    weeks = graph.add("Floor", graph.add("Div", shifted, number(7.0)))
    of_day = graph.add("Sub", seconds, graph.add("Mul", day, number(SECONDS_A_DAY)))
    found = {
        "day": day,
        "weekday": graph.add("Sub", shifted, graph.add("Mul", weeks, number(7.0))),
        "hour": graph.add("Div", of_day, number(3600.0)),
    }
    missing = graph.constant(float("nan"))
    return [graph.add("Where", is_missing, missing, graph.to_float(found[part])) for part in column.parts]


def raw_inputs(schema: LogSchema, rows: Any) -> dict[str, AnyArray]:
    """Return the inputs of an ONNX model with raw columns for some rows.

    Parameters
    ----------
    schema : LogSchema
        The schema of the policy, ``policy.schema_``.
    rows : frame, or sequence of mappings
        Other columns are ignored.

    Returns
    -------
    dict of ndarray
        By name of the input: float32 for numbers, flags and lists, text as objects, times as int64.
    """
    table = as_table(rows if hasattr(rows, "columns") else _frame_of(schema, rows))
    schema.check_present(table.columns)
    names, missing = input_names(schema), missing_text(schema)
    inputs: dict[str, AnyArray] = {}
    for column in schema.columns:
        values = table[column.name]
        encoded = column.encode(values)  # which checks the values, too
        if column.kind == "category":
            inputs[names[column.name]] = _texts(column, values, missing)
        elif column.kind == "time":
            inputs[names[column.name]] = _milliseconds(column, values)
        else:
            inputs[names[column.name]] = encoded.astype(np.float32).reshape(len(table), column.n_features)
    return inputs


def _texts(column: Column, values: Any, missing: str) -> AnyArray:
    if values.null_count() == len(values):
        return np.full((len(values), 1), missing, dtype=object)
    (labels, position), known = distinct_values(values), column.code_of
    texts = np.array([*(category_text(label, known) for label in labels), missing], dtype=object)
    return texts[position][:, None]  # position -1, missing, takes the last


def _milliseconds(column: Column, values: Any) -> AnyArray:
    if values.null_count() == len(values):
        return np.full((len(values), 1), NAT)
    return read_instants(values, column.name, column.unit).astype("datetime64[ms]").astype(np.int64)[:, None]


def _frame_of(schema: LogSchema, records: Sequence[Mapping[str, Any]]) -> Any:
    import pyarrow

    return pyarrow.table({column.name: [record.get(column.name) for record in records] for column in schema.columns})
