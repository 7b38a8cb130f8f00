"""Parts of one log as one log in memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from bopl.log.bandit_log import PER_SAMPLE, BanditLog, replaced
from bopl.log.concatenation import joined_context
from bopl.log.read_only import read_only


def join_parts(parts: Sequence[BanditLog]) -> BanditLog:
    """Return the samples of parts of one log, in their order: actions, columns and groups are the same in all."""
    first = parts[0]
    if len(parts) == 1:
        return first
    columns: dict[str, Any] = {
        name: read_only(np.concatenate([getattr(part, name) for part in parts]))
        for name in PER_SAMPLE
        if name != "context" and getattr(first, name) is not None
    }
    others = {
        name: read_only(np.concatenate([part.other_rewards[name] for part in parts])) for name in first.other_rewards
    }
    return replaced(first, context=read_only(joined_context(parts)), other_rewards=others, **columns)
