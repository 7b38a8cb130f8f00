"""A boosted policy as an ONNX model: contexts in, scores, probabilities and the best action out.

ONNX trees know nothing of actions. But actions that a tree never tells apart share one tree over the context, in which
the splits on the action are already decided, and whose leaves add their value to the scores of all of them. A tree of
the ensemble becomes one such tree for each set of actions that it keeps together.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from bopl._typing import AnyArray, BoolArray
from bopl.boosting import Ensemble
from bopl.learner.hist_tree.storage import TOP_THRESHOLD
from bopl.learner.hist_tree.tree import ACTION_SPLIT, LEAF_FEATURE, WORD_BITS, Tree
from bopl.policy.explanation import engine_trees

ML_OPSET, OPSET, IR_VERSION = 3, 13, 8  # old enough for runtimes that are in use


def write_onnx(
    ensemble: Ensemble,
    path: str | Path,
    *,
    actions: AnyArray,
    metadata: dict[str, Any],
    inverse_temperature: float = 1.0,
) -> None:
    """Write the ensemble as an ONNX model.

    Parameters
    ----------
    ensemble : Ensemble
        Of `bopl.HistTree` or `bopl.HistTreeClassifier`.
    path : path
    actions : ndarray of shape (n_actions,)
        Labels; text and whole numbers come out as they are, others as positions.
    metadata : dict
        What to keep in the model beside the graph, as JSON.
    inverse_temperature : float in [0, inf], default=1
        What the scores are multiplied by before the softmax; infinity puts all probability on the highest score.
    """
    onnx = _import_onnx()
    trees = engine_trees(ensemble)
    if not trees:
        raise ValueError("there are no trees to export: no round was made.")
    nodes = _Nodes()
    for tree, coefficient in zip(trees, ensemble.coefficients, strict=True):
        for members in _classes(tree):
            nodes.add(tree, members, coefficient)
    graph = _graph(onnx, nodes, trees[0].n_features, actions, inverse_temperature)
    opsets = [onnx.helper.make_opsetid("", OPSET), onnx.helper.make_opsetid("ai.onnx.ml", ML_OPSET)]
    model = onnx.helper.make_model(graph, opset_imports=opsets, producer_name="bopl", ir_version=IR_VERSION)
    onnx.helper.set_model_props(model, {name: json.dumps(value) for name, value in metadata.items()})
    onnx.checker.check_model(model)
    Path(path).write_bytes(model.SerializeToString())


def _import_onnx() -> Any:
    try:
        import onnx
        import onnx.checker
        import onnx.helper
    except ImportError:
        raise ImportError("the export to ONNX needs onnx: pip install 'bopl[onnx]'.") from None
    return onnx


def goes_right(tree: Tree, node: int) -> BoolArray:
    """Return which actions a split on the action sends right, of shape (n_actions,)."""
    action = np.arange(tree.n_actions)
    word = tree.right_actions[node, action // WORD_BITS]
    return (word >> (action % WORD_BITS).astype(np.uint64)) & np.uint64(1) == 1


def _classes(tree: Tree) -> list[AnyArray]:
    """Return the sets of actions that no split of the tree tells apart."""
    splits = np.flatnonzero(tree.feature == ACTION_SPLIT)
    sides = np.array([goes_right(tree, int(node)) for node in splits]).reshape(len(splits), tree.n_actions)
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
        """Add the tree as it is for a set of actions that it does not tell apart."""
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
            node = int((tree.right if goes_right(tree, node)[action] else tree.left)[node])
        return node


def _graph(onnx: Any, nodes: _Nodes, n_features: int, actions: AnyArray, inverse_temperature: float) -> Any:
    helper, kinds = onnx.helper, onnx.TensorProto
    tree_of, node_of, action_of, weight_of = (list(column) for column in zip(*nodes.target, strict=True))
    ensemble = helper.make_node(
        "TreeEnsembleRegressor",
        ["context"],
        ["score"],
        domain="ai.onnx.ml",
        n_targets=len(actions),
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
    labels, kind = _label_tensor(onnx, actions)
    probability, constants = _probability(onnx, inverse_temperature, len(actions))
    steps = [
        ensemble,
        helper.make_node("ArgMax", ["score"], ["best"], axis=1, keepdims=0),
        helper.make_node("Gather", ["actions", "best"], ["action"], axis=0),
        *probability,
    ]
    outputs = [
        helper.make_tensor_value_info("score", kinds.FLOAT, [None, len(actions)]),
        helper.make_tensor_value_info("probability", kinds.FLOAT, [None, len(actions)]),
        helper.make_tensor_value_info("action", kind, [None]),
    ]
    inputs = [helper.make_tensor_value_info("context", kinds.FLOAT, [None, n_features])]
    return helper.make_graph(steps, "policy", inputs, outputs, initializer=[labels, *constants])


def _probability(onnx: Any, inverse_temperature: float, n_actions: int) -> tuple[list[Any], list[Any]]:
    """Return the steps from ``score`` and ``best`` to ``probability``, and the constants they need."""
    helper, kinds = onnx.helper, onnx.TensorProto
    if inverse_temperature == 1.0:
        return [helper.make_node("Softmax", ["score"], ["probability"], axis=1)], []
    if inverse_temperature == np.inf:
        depth = helper.make_tensor("n_actions", kinds.INT64, [], [n_actions])
        values = helper.make_tensor("off_on", kinds.FLOAT, [2], [0.0, 1.0])
        return [helper.make_node("OneHot", ["best", "n_actions", "off_on"], ["probability"], axis=1)], [depth, values]
    # Shift before scaling, as our own softmax does: the largest exponent is exactly zero.
    factor = helper.make_tensor("inverse_temperature", kinds.FLOAT, [], [float(inverse_temperature)])
    steps = [
        helper.make_node("ReduceMax", ["score"], ["highest"], axes=[1], keepdims=1),
        helper.make_node("Sub", ["score", "highest"], ["shifted"]),
        helper.make_node("Mul", ["shifted", "inverse_temperature"], ["scaled"]),
        helper.make_node("Softmax", ["scaled"], ["probability"], axis=1),
    ]
    return steps, [factor]


def _label_tensor(onnx: Any, actions: AnyArray) -> tuple[Any, int]:
    """Return the labels that positions are turned into, and the type they come out as."""
    labels: Sequence[Any] = actions.tolist()
    if all(isinstance(label, str) for label in labels):
        text = [label.encode() for label in labels]
        return onnx.helper.make_tensor("actions", onnx.TensorProto.STRING, [len(labels)], text), onnx.TensorProto.STRING
    is_whole = all(isinstance(label, int) and not isinstance(label, bool) for label in labels)
    numbers = labels if is_whole else list(range(len(labels)))
    return onnx.helper.make_tensor("actions", onnx.TensorProto.INT64, [len(labels)], numbers), onnx.TensorProto.INT64
