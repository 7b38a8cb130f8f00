"""The Open Bandit Dataset's CSV files, and Open Bandit Pipeline's dictionary of logged feedback.

A file has a row per item shown: ``timestamp, item_id, position, click, propensity_score``, features of the user and
their affinity to each item. ``item_context.csv`` beside it describes the items.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bopl._typing import AnyArray
from bopl.log.format.columnar import Wanted, read_csv
from bopl.log.format.log_parts import LogParts

ROLES = {"action": "item_id", "reward": "click", "propensity": "propensity_score", "time": "timestamp"}
POSITION = "position"
ITEM_FILE = "item_context.csv"


def looks_like_open_bandit(header: str) -> bool:
    """Whether the first line of a CSV file is that of the Open Bandit Dataset."""
    return {*ROLES.values(), POSITION} <= {name.strip().strip('"') for name in header.split(",")}


def describe_items(folder: Path) -> tuple[list[int], AnyArray] | None:
    """Return the items of ``item_context.csv`` and their features, categories as indicators; None if it is absent."""
    file = folder / ITEM_FILE
    if not file.is_file():
        return None
    table = read_csv(file, Wanted())
    blocks = [_feature_block(table[name].to_pylist()) for name in table.column_names if name.startswith("item_feature")]
    items = [int(item) for item in table["item_id"].to_pylist()]
    features = np.hstack(blocks) if blocks else np.zeros((len(items), 0))
    shared = features[:, (np.count_nonzero(features, axis=0) > 1)]  # one item's own indicator says no more than its id
    return items, shared


def _feature_block(values: list[Any]) -> AnyArray:
    if all(isinstance(value, int | float) for value in values):
        return np.array(values, dtype=np.float64)[:, None]
    kinds = sorted({str(value) for value in values})
    return np.array([[str(value) == kind for kind in kinds] for value in values], dtype=np.float64)


def open_bandit_parts(table: Any, files: Sequence[Path]) -> LogParts:
    """Return the log of a table in the dataset's layout."""
    described = describe_items(files[0].parent)
    if described is None or described[1].shape[1] == 0 or ROLES["action"] not in table.column_names:
        return LogParts(table, ROLES, (POSITION,))
    logged = set(table[ROLES["action"]].unique().to_pylist())
    rows = [row for row, item in enumerate(described[0]) if item in logged]
    if len(rows) < len(logged):  # an item that is not described
        return LogParts(table, ROLES, (POSITION,))
    actions = [described[0][row] for row in rows]
    return LogParts(table, ROLES, (POSITION,), actions=actions, action_features=described[1][rows])


def feedback_columns(feedback: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of `BanditLog` that a dictionary of Open Bandit Pipeline stands for.

    The position, where there are several, becomes the last context column. ``action_context`` becomes action features
    unless it is the identity, which every learner knows anyway.
    """
    if not isinstance(feedback, Mapping):
        raise TypeError(f"feedback must be a dictionary of Open Bandit Pipeline; got {type(feedback).__name__}.")
    missing = [name for name in ("context", "action", "reward") if feedback.get(name) is None]
    if missing:
        raise ValueError(f"the feedback has no {missing[0]!r}; Open Bandit Pipeline's dictionaries do.")
    context, action = np.asarray(feedback["context"], dtype=np.float64), np.asarray(feedback["action"])
    if context.ndim != 2 or action.ndim != 1 or action.dtype.kind not in "iu":
        raise ValueError(
            "the feedback must have a 'context' of shape (n_rounds, dim_context) and an 'action' of whole numbers, one "
            f"per round; they have the shapes {context.shape} and {action.shape}, and actions are {action.dtype}."
        )
    position = feedback.get("position")
    names = [f"x{column}" for column in range(context.shape[1])]
    if position is not None and len(np.unique(position)) > 1:
        context = np.column_stack([context, position])
        names.append(POSITION)
    n_actions = int(feedback.get("n_actions") or np.max(feedback["action"]) + 1)
    described = feedback.get("action_context")
    is_identity = described is None or np.array_equal(described, np.eye(n_actions))
    return {
        "context": context,
        "action": np.asarray(feedback["action"]),
        "reward": feedback["reward"],
        "propensity": feedback.get("pscore"),
        "actions": list(range(n_actions)),
        "feature_names": names,
        "action_features": None if is_identity else described,
    }
