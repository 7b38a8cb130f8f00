"""A boosted policy as a card in a notebook: settings, how training went, what it looks at."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from bopl._html import Markup, bar, card, element, facts, table
from bopl._typing import AnyArray
from bopl.boosting import History

if TYPE_CHECKING:
    from bopl.policy.boosted import BoostedPolicy

MAX_FEATURES = 5  # that are listed
WIDTH, HEIGHT = 260.0, 46.0  # of the curve, in pixels
MAX_POINTS = 130


def policy_card(policy: BoostedPolicy, settings: str) -> str:
    """Return a policy as HTML; ``settings`` is its representation as text."""
    if not policy.__sklearn_is_fitted__():
        return card("BoostedPolicy", "not fitted", element("p", element("code", settings)))
    history = policy.history_
    values = {
        "actions": f"{len(policy.actions_):,}",
        "features": f"{policy.n_features_in_:,}",
        "objective": history.objective,
        "reward translation": f"{policy.reward_translation:g}",
        "ended because": policy.stop_reason_,
    }
    rounds = f"{policy.n_rounds_:,} rounds" + (
        f" of {history.n_rounds:,} made" if history.n_rounds > policy.n_rounds_ else ""
    )
    return card(
        "BoostedPolicy",
        rounds,
        facts(values),
        _curve(history, policy.n_rounds_),
        _features(policy),
        element("details", element("summary", "settings", class_="soft"), element("p", element("code", settings))),
    )


def _curve(history: History, chosen: int) -> Markup | None:
    """Return the value by round as a small curve: on the validation log if there was one, else on the training log."""
    is_validated = bool(np.isfinite(history["validation_value"]).any())
    values = history["validation_value" if is_validated else "snips_value"]
    if len(values) < 2 or not np.isfinite(values).all():
        return None
    rounds = np.unique(np.linspace(0, len(values) - 1, min(len(values), MAX_POINTS)).round().astype(int))
    x = 4.0 + (WIDTH - 8.0) * np.arange(len(values)) / (len(values) - 1)
    y = HEIGHT - 4.0 - (HEIGHT - 8.0) * (values - values.min()) / ((values.max() - values.min()) or 1.0)
    points = " ".join(f"{x[k]:.1f},{y[k]:.1f}" for k in rounds)
    at = min(chosen, len(values)) - 1
    text = (
        f"{'validation' if is_validated else 'training'} value by round: {_number(values, 0)} to {_number(values, at)}"
    )
    drawing = element(
        "svg",
        element("polyline", points=points, fill="none", stroke="#2f86d6", stroke_width="2", stroke_linejoin="round"),
        element("circle", cx=f"{x[at]:.1f}", cy=f"{y[at]:.1f}", r="3.5", fill="#2f86d6"),
        width=f"{WIDTH:g}",
        height=f"{HEIGHT:g}",
        role="img",
        aria_label=text,
    )
    return element("p", drawing, element("span", text, class_="soft"))


def _number(values: AnyArray, at: int) -> str:
    return f"{values[at]:.4g}"


def _features(policy: Any) -> Markup | None:
    """Return the columns that gained most."""
    try:
        gain = policy.feature_importances_
    except AttributeError:
        return None
    names = getattr(policy, "feature_names_in_", None)
    order = [int(idx) for idx in np.argsort(-gain, kind="stable")[:MAX_FEATURES] if gain[idx] > 0.0]
    rows = [
        (f"feature {idx}" if names is None else str(names[idx]), f"{gain[idx]:.0%}", bar(gain[idx] / gain[order[0]]))
        for idx in order
    ]
    return table(("looks at", "gain", ""), rows, numeric=(1,)) if rows else None
