"""An ONNX graph that is built step by step, and the engine's trees as one tree ensemble in it.

ONNX trees know nothing about actions. But actions that a tree never separates share one tree over the context, in which
the splits on the action are already decided, and whose leaves add their value to the scores of all of them. A tree of
the ensemble becomes one such tree for each set of actions that it keeps together.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from bopl._files import write_bytes
from bopl._typing import AnyArray, BoolArray
from bopl.learner.hist_tree.storage import TOP_THRESHOLD
from bopl.learner.hist_tree.tree import ACTION_SPLIT, LEAF_FEATURE, WORD_BITS, Tree

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


MAX_NODES = 10_000_000  # of a model, leaves counted once for every action


def add_trees(
    graph: Graph, trees: Sequence[Tree], coefficients: Sequence[float], *, zero_is_missing: bool = False
) -> str:
    """Add ``Σ coefficient · tree`` of the contexts to the graph; return its name.

    With ``zero_is_missing`` the trees take zeros of the context for missing values.
    """
    nodes = _Nodes()
    for tree, coefficient in zip(trees, coefficients, strict=True):
        classes = _classes(tree)
        if len(nodes.node_id) + len(nodes.target) + len(classes) * tree.n_nodes > MAX_NODES:
            raise ValueError(
                f"the policy needs more than {MAX_NODES:,} nodes in ONNX, where a tree is repeated for every set of "
                "actions that it separates; train it with fewer rounds, fewer leaves or fewer actions."
            )
        for members in classes:
            nodes.add(tree, members, coefficient)
    tree_of, node_of, action_of, weight_of = (list(column) for column in zip(*nodes.target, strict=True))
    return graph.add(
        "TreeEnsembleRegressor",
        _without_zeros(graph) if zero_is_missing else graph.context,
        domain="ai.onnx.ml",
        n_targets=trees[0].n_actions,
        aggregate_function="SUM",
        post_transform="NONE",
        nodes_treeids=nodes.tree_id,
        nodes_nodeids=nodes.node_id,
        nodes_featureids=nodes.feature,
        nodes_values=nodes.threshold,
        nodes_modes=nodes.mode,
        nodes_truenodeids=nodes.if_true,
        nodes_falsenodeids=nodes.if_false,
        nodes_missing_value_tracks_true=nodes.missing_is_true,
        target_treeids=tree_of,
        target_nodeids=node_of,
        target_ids=action_of,
        target_weights=weight_of,
    )


def _without_zeros(graph: Graph) -> str:
    is_zero = graph.add("Equal", graph.context, graph.constant(0.0))
    return graph.add("Where", is_zero, graph.constant(np.nan), graph.context)


def _goes_right(tree: Tree, node: int) -> BoolArray:
    """Return which actions a split on the action sends right, of shape (n_actions,)."""
    action = np.arange(tree.n_actions)
    word = tree.right_actions[node, action // WORD_BITS]
    return (word >> (action % WORD_BITS).astype(np.uint64)) & np.uint64(1) == 1


def _classes(tree: Tree) -> list[AnyArray]:
    """Return the sets of actions that no split of the tree separates."""
    # Actions with equal sides at every split on the action take the same way in every context.
    splits = np.flatnonzero(tree.feature == ACTION_SPLIT)
    sides = np.array([_goes_right(tree, int(node)) for node in splits]).reshape(len(splits), tree.n_actions)
    _, number = np.unique(sides, axis=1, return_inverse=True)
    number = np.asarray(number).reshape(-1)
    return [np.flatnonzero(number == one) for one in range(int(number.max()) + 1)]


@dataclass
class _Nodes:
    """The attributes of ONNX's tree ensemble: one entry per node, and one per leaf and action."""

    n_trees: int = 0
    tree_id: list[int] = field(default_factory=list)
    node_id: list[int] = field(default_factory=list)
    feature: list[int] = field(default_factory=list)
    threshold: list[float] = field(default_factory=list)
    mode: list[str] = field(default_factory=list)
    if_true: list[int] = field(default_factory=list)
    if_false: list[int] = field(default_factory=list)
    missing_is_true: list[int] = field(default_factory=list)
    target: list[tuple[int, int, int, float]] = field(default_factory=list)  # tree, node, action, weight

    def add(self, tree: Tree, members: AnyArray, coefficient: float) -> None:
        """Add the tree for a set of actions that it does not separate."""
        # Leaf values are float32 in ONNX: rounded here, so that what is compared after the export is what is stored.
        start = len(self.node_id)
        todo = [(self._resolve(tree, 0, int(members[0])), -1, True)]
        while todo:
            node, parent, is_true = todo.pop()
            own = len(self.node_id) - start
            if parent >= 0:
                (self.if_true if is_true else self.if_false)[parent] = own
            if tree.feature[node] == LEAF_FEATURE:
                self._put(own, 0, 0.0, "LEAF", missing_is_true=False)
                weight = float(np.float32(coefficient * tree.value[node]))
                self.target += [(self.n_trees, own, int(action), weight) for action in members]
                continue
            true_child, false_child = self._put_split(tree, node, own)
            at = start + own
            todo.append((self._resolve(tree, false_child, int(members[0])), at, False))
            todo.append((self._resolve(tree, true_child, int(members[0])), at, True))
        self.n_trees += 1

    def _put_split(self, tree: Tree, node: int, own: int) -> tuple[int, int]:
        """Write a split on the context; return the children for true and false."""
        left, right = int(tree.left[node]), int(tree.right[node])
        threshold, feature = float(tree.threshold[node]), int(tree.feature[node])
        if not tree.is_equal[node]:
            self._put(own, feature, threshold, "BRANCH_LT", missing_is_true=bool(tree.default_left[node]))
            return left, right
        if np.isnan(threshold):  # missing against the rest: every present value is below the largest number
            self._put(own, feature, float(TOP_THRESHOLD), "BRANCH_LEQ", missing_is_true=False)
            return left, right
        self._put(own, feature, threshold, "BRANCH_EQ", missing_is_true=False)
        return right, left

    def _put(self, own: int, feature: int, threshold: float, mode: str, *, missing_is_true: bool) -> None:
        self.tree_id.append(self.n_trees)
        self.node_id.append(own)
        self.feature.append(feature)
        self.threshold.append(threshold)
        self.mode.append(mode)
        self.if_true.append(0)
        self.if_false.append(0)
        self.missing_is_true.append(int(missing_is_true))

    @staticmethod
    def _resolve(tree: Tree, node: int, action: int) -> int:
        """Follow splits on the action down to a leaf or a split on the context."""
        while tree.feature[node] == ACTION_SPLIT:
            word = int(tree.right_actions[node, action // WORD_BITS])
            node = int((tree.right if word >> (action % WORD_BITS) & 1 else tree.left)[node])
        return node
