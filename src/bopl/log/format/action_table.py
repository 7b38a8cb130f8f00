"""Actions that a file describes by their features, decision by decision: which are the same, and what is known of them.

A policy chooses among actions that have a name. In Vowpal Wabbit's formats an action is its features; so equal features
are one action, which needs them to stay the same from decision to decision.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from bopl._typing import AnyArray, BoolArray

Features: TypeAlias = tuple[tuple[str, str | float], ...]  # names and values, sorted by name

MAX_ACTIONS = 2000  # more are not actions but descriptions of contexts


@dataclass
class ActionTable:
    """Collects the actions of a file."""

    # name or Features to int: actions in the order in which they come
    position: dict[str | Features, int] = field(default_factory=dict)
    # features of each action, as it came first
    described: list[Mapping[str, str | float]] = field(default_factory=list)
    changing: set[str] = field(default_factory=set)  # features that a named action had with another value later
    offered: list[list[int]] = field(default_factory=list)  # actions of each decision

    def add(self, actions: Sequence[Mapping[str, str | float]], names: Sequence[str | None], where: str) -> list[int]:
        """Add the actions of one decision; return which they are."""
        found = [self._number(features, name) for features, name in zip(actions, names, strict=True)]
        if len(set(found)) < len(found):
            raise ValueError(
                f"{where} offers two actions with the same features: they cannot be distinguished. Give each action a "
                "unique feature, such as its name."
            )
        if len(self.position) > MAX_ACTIONS:
            raise ValueError(
                f"the actions have more than {MAX_ACTIONS} different sets of features by {where}: features of actions "
                "that change from decision to decision are not supported; describe an action by constant features."
            )
        self.offered.append(found)
        return found

    def _number(self, features: Mapping[str, str | float], name: str | None) -> int:
        key = tuple(sorted(features.items())) if name is None else name
        number = self.position.setdefault(key, len(self.position))
        if number == len(self.described):
            self.described.append(features)
        elif name is not None and features != self.described[number]:
            before = self.described[number]
            self.changing |= {one for one in {*before, *features} if before.get(one) != features.get(one)}
        return number

    def labels(self) -> list[str]:
        """Return a name for every action: the file's, its only feature, or all its features."""
        has_one = all(len(features) == 1 for features in self.described)
        is_enough = has_one and len({next(iter(features)) for features in self.described}) == 1
        labels = []
        for key, features in zip(self.position, self.described, strict=True):
            if isinstance(key, str):
                labels.append(key)
            elif is_enough:
                labels.append(str(next(iter(features.values()))))
            else:
                labels.append(" ".join(_feature_text(name, value) for name, value in key) or "(no features)")
        return labels

    def mask(self) -> BoolArray | None:
        """Return which actions each decision offered; None if all of them always."""
        mask = np.zeros((len(self.offered), len(self.position)), dtype=np.bool_)
        for row, offered in enumerate(self.offered):
            mask[row, offered] = True
        return None if mask.all() else mask

    def features(self) -> AnyArray | None:
        """Return the features that actions share, of shape (n_actions, n_action_features); None if there are none."""
        rows = [
            {_column(name, value): _number(value) for name, value in features.items() if name not in self.changing}
            for features in self.described
        ]
        count = Counter(name for row in rows for name in row)
        columns = sorted(name for name, n_actions in count.items() if n_actions > 1)
        matrix = np.array([[row.get(name, 0.0) for name in columns] for row in rows], dtype=np.float64)
        matrix = matrix.reshape(len(rows), len(columns))
        differing = matrix[:, (matrix != matrix[:1]).any(axis=0)] if len(rows) else matrix
        return differing if differing.shape[1] else None


def _feature_text(name: str, value: str | float) -> str:
    return name if value == 1.0 else f"{name}={value:g}" if isinstance(value, float) else f"{name}={value}"


def _column(name: str, value: str | float) -> str:
    return f"{name}={value}" if isinstance(value, str) else name


def _number(value: str | float) -> float:
    return 1.0 if isinstance(value, str) else float(value)


def action_parts(table: ActionTable) -> dict[str, Any]:
    """Return what `LogParts` holds of the actions."""
    labels = table.labels()
    if len(set(labels)) < len(labels):
        repeated = next(label for label, n_times in Counter(labels).items() if n_times > 1)
        raise ValueError(f"several actions are called {repeated!r}; give each a unique name.")
    return {"actions": labels, "action_mask": table.mask(), "action_features": table.features()}
