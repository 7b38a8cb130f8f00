"""A booster from a file: XGBoost's own reader trusts its input, so it gets only what was checked."""

from __future__ import annotations

import math
import struct
from typing import Any

import numpy as np

from bopl._typing import AnyArray

OBJECTIVE = "reg:squarederror"
NO_PARENT = np.iinfo(np.int32).max
DELETED = np.iinfo(np.int32).max  # column of a node that was pruned
MAX_DEPTH = 64  # the maximum of ``max_depth``
MIN_VERSION = 3

_NODE_ARRAYS = {
    "base_weights": np.float32,
    "default_left": np.uint8,
    "left_children": np.int32,
    "loss_changes": np.float32,
    "parents": np.int32,
    "right_children": np.int32,
    "split_conditions": np.float32,
    "split_indices": np.int32,
    "split_type": np.uint8,
    "sum_hessian": np.float32,
}
_NO_CATEGORIES = ("categories", "categories_nodes", "categories_segments", "categories_sizes")


def checked_booster(content: bytes, n_columns: int) -> tuple[bytes, bool]:
    """Return a booster of regression trees as UBJSON, rewritten from what was checked.

    Parameters
    ----------
    content : bytes
    n_columns : int
        Number of columns of the rows to predict.

    Returns
    -------
    content : bytes
    is_same : bool
        Whether the bytes are those that were given; otherwise something unknown was left out.

    Raises
    ------
    ValueError
        A traversal could leave the trees, or it is not such a booster.
    """
    model = decode(content)
    learner = model["learner"]
    trees = learner["gradient_booster"]["model"]["trees"]
    if not isinstance(trees, list) or not trees:
        raise ValueError("it has no trees")
    version = model["version"]
    if not isinstance(version, list) or len(version) != 3 or not all(type(part) is int for part in version):
        raise ValueError("it does not say which version wrote it")
    if not MIN_VERSION <= version[0] <= 1000 or not all(0 <= part <= 1000 for part in version):
        raise ValueError(f"version {version} of XGBoost is not known")
    safe = {
        "learner": {
            "attributes": {},
            "feature_names": [],
            "feature_types": [],
            "gradient_booster": {
                "model": _forest([_checked_tree(tree, k, n_columns) for k, tree in enumerate(trees)], learner),
                "name": "gbtree",
            },
            "learner_model_param": _model_param(learner["learner_model_param"], n_columns),
            "objective": {"name": OBJECTIVE, "reg_loss_param": {"scale_pos_weight": "1"}},
        },
        "version": version,
    }
    written = encode(safe)
    return written, written == content


def _forest(trees: list[dict[str, Any]], learner: dict[str, Any]) -> dict[str, Any]:
    forest: dict[str, Any] = {
        "gbtree_model_param": {"num_parallel_tree": "1", "num_trees": str(len(trees))},
        "iteration_indptr": list(range(len(trees) + 1)),
        "tree_info": [0] * len(trees),
        "trees": trees,
    }
    if "cats" not in learner["gradient_booster"]["model"]:  # as versions before 3.1 write it
        return forest
    nothing = np.zeros(0, np.int32)
    return {"cats": {"enc": [], "feature_segments": nothing, "sorted_idx": nothing}, **forest}


def _model_param(given: dict[str, Any], n_columns: int) -> dict[str, str]:
    base_score = given["base_score"]
    if not isinstance(base_score, str) or not math.isfinite(float(base_score.removeprefix("[").removesuffix("]"))):
        raise ValueError("its first score is not a finite number")
    if given["num_feature"] != str(n_columns):
        raise ValueError("the booster has another number of columns than the policy")
    if given["boost_from_average"] not in ("0", "1") or given["num_class"] != "0" or given["num_target"] != "1":
        raise ValueError("it does not predict one number")
    names = ("base_score", "boost_from_average", "num_class", "num_feature", "num_target")
    return {name: given[name] for name in names}


def _checked_tree(tree: dict[str, Any], number: int, n_columns: int) -> dict[str, Any]:
    nodes = {name: tree[name] for name in _NODE_ARRAYS}
    n_nodes = len(nodes["parents"])
    for name, dtype in _NODE_ARRAYS.items():
        if not isinstance(nodes[name], np.ndarray) or nodes[name].dtype != dtype or len(nodes[name]) != n_nodes:
            raise ValueError(f"array {name!r} of a tree has the wrong type or length")
        if dtype is np.float32 and not np.isfinite(nodes[name]).all():
            raise ValueError(f"array {name!r} of a tree holds a number that is not finite")
    if (
        any(len(tree[name]) for name in _NO_CATEGORIES)
        or nodes["split_type"].any()
        or (nodes["default_left"] > 1).any()
    ):
        raise ValueError("a tree splits by categories")
    is_reached = _reached(nodes, n_nodes)
    column, is_deleted = nodes["split_indices"], ~is_reached
    if (
        not ((column[is_reached] >= 0) & (column[is_reached] < n_columns)).all()
        or (column[is_deleted] != DELETED).any()
    ):
        raise ValueError("a tree looks at a column that does not exist")
    empty = {name: np.zeros(0, np.int32) for name in _NO_CATEGORIES[:2]}
    empty |= {name: np.zeros(0, np.int64) for name in _NO_CATEGORIES[2:]}
    param = {
        "num_deleted": str(int(np.count_nonzero(is_deleted))),
        "num_feature": str(n_columns),
        "num_nodes": str(n_nodes),
        "size_leaf_vector": "0" if tree["tree_param"].get("size_leaf_vector") == "0" else "1",
    }
    return dict(sorted({**nodes, **empty, "id": number, "tree_param": param}.items()))


def _reached(nodes: dict[str, AnyArray], n_nodes: int) -> AnyArray:
    """Return which nodes are reachable from the root, after checking that they form a tree with adjacent siblings."""
    left, right, parent = nodes["left_children"], nodes["right_children"], nodes["parents"]
    is_split = left != -1
    if n_nodes == 0 or (right != np.where(is_split, left + 1, -1)).any() or parent[0] != NO_PARENT:
        raise ValueError("the children of a tree are not in pairs")
    if ((left[is_split] < 1) | (left[is_split] >= n_nodes - 1)).any():
        raise ValueError("a tree's children do not exist")
    is_reached, level = np.zeros(n_nodes, bool), np.zeros(1, np.int64)
    for _ in range(MAX_DEPTH + 1):
        is_reached[level] = True
        inner = level[is_split[level]]
        if len(inner) == 0:
            break
        level = np.concatenate([left[inner], right[inner]])
        if is_reached[level].any() or len(np.unique(level)) != len(level):
            raise ValueError("a tree reaches a node twice")
        if (parent[level] != np.concatenate([inner, inner])).any():
            raise ValueError("a tree's parents do not match its children")
    else:
        raise ValueError(f"a tree is deeper than {MAX_DEPTH} splits")
    others = parent[~is_reached]
    if ((others < -1) | ((others >= n_nodes) & (others != NO_PARENT))).any():
        raise ValueError("a tree's parents do not exist")
    return is_reached


# -- UBJSON as XGBoost writes it: lists with their lengths, and arrays of numbers of one type -------------------------

MAX_NESTING = 16
# Marks of numbers: how one of them is packed, and how many are.
_NUMBER = {b"i": ">b", b"U": ">B", b"I": ">h", b"l": ">i", b"L": ">q", b"d": ">f", b"D": ">d"}
_ARRAY = {b"U": ">u1", b"i": ">i1", b"I": ">i2", b"l": ">i4", b"L": ">i8", b"d": ">f4", b"D": ">f8"}
_MARK = {np.dtype(kind).newbyteorder("="): mark for mark, kind in _ARRAY.items()}
_WHOLE = (b"i", b"I", b"l", b"L")  # integers take the first that can hold them


def decode(content: bytes) -> Any:
    """Return the decoded bytes: dicts, lists, text, numbers, and numpy arrays if numbers share a type."""
    reader = _Reader(content)
    value = reader.value(0)
    if reader.position != len(content):
        raise ValueError("there is more than one value")
    return value


class _Reader:
    """Reads bytes once, and refuses to read past their end before it allocates memory."""

    def __init__(self, content: bytes) -> None:
        self.content, self.position = content, 0

    def take(self, n_bytes: int) -> bytes:
        if not 0 <= n_bytes <= len(self.content) - self.position:
            raise ValueError("it ends too early")
        self.position += n_bytes
        return self.content[self.position - n_bytes : self.position]

    def peek(self) -> bytes:
        return self.content[self.position : self.position + 1]

    def value(self, depth: int) -> Any:
        mark = self.take(1)
        if depth > MAX_NESTING:
            raise ValueError("it is nested too deeply")
        if mark == b"{":
            return self.object(depth)
        if mark == b"[":
            return self.array(depth)
        if mark == b"S":
            return self.text()
        return self.number(mark)

    def number(self, mark: bytes) -> Any:
        if mark not in _NUMBER:
            raise ValueError(f"the type {mark!r} is unknown")
        form = _NUMBER[mark]
        return struct.unpack(form, self.take(struct.calcsize(form)))[0]

    def length(self) -> int:
        length = self.number(self.take(1))
        if not isinstance(length, int) or not 0 <= length <= len(self.content):
            raise ValueError("a length is not valid")
        return length

    def text(self) -> str:
        return self.take(self.length()).decode()

    def object(self, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        while self.peek() != b"}":
            name = self.text()
            if name in found:
                raise ValueError(f"it names {name!r} twice")
            found[name] = self.value(depth + 1)
        self.take(1)
        return found

    def array(self, depth: int) -> Any:
        if self.peek() == b"$":
            self.take(1)
            mark = self.take(1)
            if mark not in _ARRAY or self.take(1) != b"#":
                raise ValueError("an array has an unknown type")
            kind = np.dtype(_ARRAY[mark])
            return np.frombuffer(self.take(self.length() * kind.itemsize), kind).astype(kind.newbyteorder("="))
        if self.take(1) != b"#":
            raise ValueError("an array has no length")
        return [self.value(depth + 1) for _ in range(self.length())]


def encode(value: Any) -> bytes:
    """Return the bytes that `decode` reads, as XGBoost writes them."""
    if isinstance(value, dict):
        return b"{" + b"".join(_text(name) + encode(part) for name, part in value.items()) + b"}"
    if isinstance(value, str):
        return b"S" + _text(value)
    if isinstance(value, np.ndarray):
        mark = _MARK[value.dtype]
        return b"[$" + mark + b"#" + _length(value) + value.astype(_ARRAY[mark]).tobytes()
    if isinstance(value, list):
        return b"[#" + _length(value) + b"".join(map(encode, value))
    mark = next(mark for mark in _WHOLE if abs(value) < 1 << 8 * struct.calcsize(_NUMBER[mark]) - 1)
    return mark + struct.pack(_NUMBER[mark], value)


def _text(text: str) -> bytes:
    content = text.encode()
    return _length(content) + content


def _length(value: Any) -> bytes:
    return b"L" + struct.pack(">q", len(value))
