"""Parts of one log as one log in memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from bopl.log.bandit_log import BanditLog, replaced
from bopl.log.concatenation import joined_context


def join_parts(parts: Sequence[BanditLog]) -> BanditLog:
    """Return the samples of parts of one log, in their order: actions, columns and groups are the same in all."""
    first = parts[0]
    if len(parts) == 1:
        return first
    names = ("action_idx", "reward", "propensity", "time", "action_mask", "group", "segment")
    columns: dict[str, Any] = {
        name: _read_only(np.concatenate([getattr(part, name) for part in parts]))
        for name in names
        if getattr(first, name) is not None
    }
    others = {
        name: _read_only(np.concatenate([part.other_rewards[name] for part in parts])) for name in first.other_rewards
    }
    return replaced(first, context=_read_only(joined_context(parts)), other_rewards=others, **columns)


def _read_only(array: Any) -> Any:
    for one in (array.data, array.indices, array.indptr) if hasattr(array, "indptr") else (array,):
        one.flags.writeable = False
    return array
