"""`Graph`: an ONNX graph that is built step by step."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from bopl._files import write_bytes
from bopl._typing import AnyArray

INNER = "/"  # prefix of the names of steps
ML_OPSET, OPSET, IR_VERSION = 3, 13, 8  # old enough for the runtimes in use


class Graph:
    """Steps over named tensors; all numbers are float32, unless a step says otherwise.

    Attributes
    ----------
    context : str
        Name of the contexts, of shape (n_samples, n_features): an input, or made of inputs.
    """

    context = "context"

    def __init__(self) -> None:
        self._onnx = _import_onnx()
        self._steps: list[Any] = []
        self._constants: list[Any] = []
        self._inputs: list[Any] = []
        self._outputs: list[Any] = []

    def put_in(self, name: str, kind: str, n_columns: int) -> str:
        """Make an input of shape (n_samples, n_columns); ``kind`` is "float", "int64" or "string". Return its name."""
        proto = self._onnx.TensorProto
        number = {"float": proto.FLOAT, "int64": proto.INT64, "string": proto.STRING}[kind]
        self._inputs.append(self._onnx.helper.make_tensor_value_info(name, number, [None, n_columns]))
        return name

    def add(self, operator: str, *inputs: str, domain: str = "", **attributes: Any) -> str:
        """Add a step; return the name of its result."""
        name = f"{INNER}{operator}_{len(self._steps)}"
        self._steps.append(
            self._onnx.helper.make_node(operator, list(inputs), [name], name=name, domain=domain, **attributes)
        )
        return name

    def constant(self, values: Any, *, is_double: bool = False) -> str:
        """Add a constant: floats become float32 or doubles, integers int64, text stays text; return its name."""
        array = np.asarray(values)
        name = f"{INNER}constant_{len(self._constants)}"
        if array.dtype.kind == "U":
            kind, flat = self._onnx.TensorProto.STRING, [text.encode() for text in array.ravel().tolist()]
            tensor = self._onnx.helper.make_tensor(name, kind, array.shape, flat)
        else:
            wide = np.float64 if is_double else np.float32
            plain = array.astype(np.int64 if array.dtype.kind in "iu" else wide)
            tensor = self._onnx.numpy_helper.from_array(plain, name)
        self._constants.append(tensor)
        return name

    def to_float(self, name: str) -> str:
        """Add the step from truth values to 0 and 1; return its name."""
        return self.add("Cast", name, to=int(self._onnx.TensorProto.FLOAT))

    def to_double(self, name: str) -> str:
        """Add the step to doubles; return its name."""
        return self.add("Cast", name, to=int(self._onnx.TensorProto.DOUBLE))

    def put_out(self, name: str, output: str, values: AnyArray, shape: list[int | None]) -> None:
        """Make a tensor an output, under another name; ``values`` is an array of its type."""
        proto = self._onnx.TensorProto
        kind = {"U": proto.STRING, "i": proto.INT64}.get(values.dtype.kind, proto.FLOAT)
        self._steps.append(self._onnx.helper.make_node("Identity", [name], [output]))
        self._outputs.append(self._onnx.helper.make_tensor_value_info(output, kind, shape))

    def write(self, path: str | Path, metadata: Mapping[str, Any]) -> None:
        """Write the model, with ``metadata`` as JSON."""
        helper = self._onnx.helper
        graph = helper.make_graph(self._steps, "policy", self._inputs, self._outputs, initializer=self._constants)
        opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid("ai.onnx.ml", ML_OPSET)]
        model = helper.make_model(graph, opset_imports=opsets, producer_name="bopl", ir_version=IR_VERSION)
        helper.set_model_props(model, {name: json.dumps(value) for name, value in metadata.items()})
        self._onnx.checker.check_model(model)
        write_bytes(path, model.SerializeToString())


def _import_onnx() -> Any:
    try:
        import onnx
        import onnx.checker
        import onnx.helper
        import onnx.numpy_helper
    except ImportError:
        raise ImportError("the export to ONNX needs onnx: pip install 'bopl[onnx]'.") from None
    return onnx
