"""The outcome of a race as a card in a notebook: the winner, the results, and what they mean."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bopl._html import card, element, facts, marked, table
from bopl.policy.blend import BlendedPolicy

if TYPE_CHECKING:
    from bopl.race.auto import AutoPolicy
    from bopl.race.leaderboard import Entry

HEADS = ("candidate", "uplift over logging", "95% interval", "rounds", "")
CHOSEN = ("won", "in the blend")


def race_card(policy: AutoPolicy, settings: str) -> str:
    """Return the policy as HTML; ``settings`` is its representation as text."""
    shown = element("p", element("code", settings))
    if not policy.__sklearn_is_fitted__():
        return card("AutoPolicy", "not fitted", shown)
    board = policy.leaderboard_
    values = {
        "actions": f"{len(policy.actions_):,}",
        "features": f"{policy.n_features_in_:,}",
        "candidates": f"{sum(entry.candidate != 'blend' for entry in board):,}",
        "judged by": f"{board.n_judged:,} samples" + (f", {board.n_parts}-fold" if board.n_parts > 1 else ""),
        "rounds": f"{policy.n_rounds_:,}",
    }
    return card(
        "AutoPolicy",
        _winner(policy),
        element("p", board.verdict),
        element("p", "The race was interrupted; this is the best so far.") if policy.is_interrupted_ else None,
        facts(values),
        table(HEADS, [_row(entry) for entry in board], numeric=(1, 2, 3)),
        element("details", element("summary", "settings", class_="soft"), shown),
    )


def _winner(policy: AutoPolicy) -> str:
    if policy.is_logging_:
        return "the logging policy: nothing beat it"
    if isinstance(policy.best_policy_, BlendedPolicy):
        return f"a blend of {len(policy.best_policy_.policies_)} candidates"
    return next((entry.candidate for entry in policy.leaderboard_ if entry.status == "won"), "")


def _row(entry: Entry) -> tuple[str, ...]:
    look = "hollow" if np.isnan(entry.uplift) or entry.lower <= 0.0 <= entry.upper else "good"
    look = "bad" if entry.upper < 0.0 else look
    status = element("strong", entry.status) if entry.status in CHOSEN else entry.status
    if np.isnan(entry.uplift):
        return (marked(entry.candidate, look), "", "", "", status)
    interval = f"{entry.lower:+.4g} to {entry.upper:+.4g}"
    return (marked(entry.candidate, look), f"{entry.uplift:+.4g}", interval, f"{entry.rounds:,}", status)
