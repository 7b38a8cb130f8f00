"""Logs as cards in a notebook."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from bopl._html import bar, card, facts, short, table
from bopl.log.instant import instant_text

if TYPE_CHECKING:
    from bopl.log.bandit_log import BanditLog

MAX_ACTIONS = 8  # that are listed


def log_card(log: BanditLog) -> str:
    """Return a log as HTML: its size, and how often each action was taken."""
    values = {
        "mean reward": f"{log.reward.mean():.4g}",
        "reward range": f"{log.reward.min():.4g} to {log.reward.max():.4g}",
        "propensity": _propensity_text(log),
    }
    if log.group is not None:
        values["groups"] = f"{len(np.unique(log.group)):,}"
    if log.time is not None:
        values["time"] = f"{instant_text(log.time.min())} to {instant_text(log.time.max())}"
    size = f"{log.n_samples:,} samples, {log.n_features:,} features, {log.n_actions:,} actions"
    count = np.bincount(log.action_idx, minlength=log.n_actions)
    shown = np.argsort(-count, kind="stable")[:MAX_ACTIONS]
    earned = np.bincount(log.action_idx, weights=log.reward, minlength=log.n_actions)
    rows: list[Sequence[str]] = [
        (
            short(str(log.actions[idx])),
            f"{count[idx]:,}",
            bar(count[idx] / count.max()),
            f"{earned[idx] / count[idx]:.4g}" if count[idx] else "–",
        )
        for idx in shown
    ]
    if log.n_actions > len(shown):
        rows.append((f"{log.n_actions - len(shown):,} more", f"{count.sum() - count[shown].sum():,}", "", ""))
    return card("BanditLog", size, facts(values), table(("action", "taken", "", "mean reward"), rows, numeric=(1, 3)))


def _propensity_text(log: BanditLog) -> str:
    if not log.has_propensity:
        return "unknown"
    source = "" if log.propensity_source == "logged" else f", {log.propensity_source}"
    return f"{log.propensity.min():.4g} to {log.propensity.max():.4g}{source}"
