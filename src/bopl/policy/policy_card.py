"""Policies as cards in a notebook: settings, training, importances, the parts of a blend."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from bopl._html import Markup, bar, card, element, facts, table
from bopl._typing import AnyArray
from bopl.boosting import History
from bopl.objective import OBJECTIVES
from bopl.objective.registry import default_objective, describe

if TYPE_CHECKING:
    from bopl.policy.blend import BlendedPolicy
    from bopl.policy.boosted import BoostedPolicy

MAX_FEATURES = 5  # that are listed
WIDTH, HEIGHT = 260.0, 46.0  # of the curve, in pixels
MAX_POINTS = 130


_START_WORDS = {"uniform": "equal scores", "logging": "the logging policy", "reward_model": "the reward model"}


def policy_card(policy: BoostedPolicy, settings: str) -> str:
    """Return a policy as HTML; ``settings`` is its representation as text."""
    if not policy.__sklearn_is_fitted__():
        return card("BoostedPolicy", "not fitted", element("p", element("code", settings)))
    history = policy.history_
    values = {
        "actions": f"{len(policy.actions_):,}",
        "features": f"{policy.n_features_in_:,}",
        "objective": _objective(policy),
        "reward translation": f"{policy.reward_translation:g}",
        "starts from": _start(policy),
        "inverse temperature": _sharpness(policy.inverse_temperature),
        "ended because": policy.stop_reason_,
    }
    return card(
        "BoostedPolicy",
        _rounds(policy),
        facts(values),
        _curve(history, policy.n_rounds_),
        _features(policy),
        _settings(settings),
    )


def blend_card(blend: BlendedPolicy, settings: str) -> str:
    """Return a blend as HTML: its parts and their shares; ``settings`` is its representation as text."""
    if not blend.__sklearn_is_fitted__():
        return card("BlendedPolicy", "not fitted", element("p", element("code", settings)))
    values = {
        "actions": f"{len(blend.actions_):,}",
        "features": f"{blend.n_features_in_:,}",
        "inverse temperature": _sharpness(blend.inverse_temperature),
    }
    rows = [
        (f"{share:.0%}", _objective(part), _start(part), _rounds(part), _sharpness(part.inverse_temperature))
        for part, share in zip(blend.policies_, blend.weights_, strict=True)
    ]
    heads = ("share", "objective", "starts from", "rounds", "inverse temperature")
    return card(
        "BlendedPolicy",
        f"the mean of {len(rows):,} policies",
        facts(values),
        table(heads, rows, numeric=(0, 4)),
        _features(blend),
        _settings(settings),
    )


def _settings(text: str) -> Markup:
    return element("details", element("summary", "settings", class_="soft"), element("p", element("code", text)))


def _rounds(policy: BoostedPolicy) -> str:
    n_made = policy.history_.n_rounds
    return f"{policy.n_rounds_:,} rounds" + (f" of {n_made:,} made" if n_made > policy.n_rounds_ else "")


def _objective(policy: BoostedPolicy) -> str:
    """Return the objective's name, with those of its settings that differ from the defaults."""
    name = policy.history_.objective
    if isinstance(policy.objective, str) or name not in OBJECTIVES:
        return name
    default = default_objective(name)
    usual = {"name": name} if default is None else describe(default)
    changed = {key: value for key, value in describe(policy.objective).items() if value != usual.get(key)}
    return ", ".join([name, *(f"{key.replace('_', ' ')} {_setting(value)}" for key, value in changed.items())])


def _setting(value: Any) -> str:
    """Return a setting as text; a record as its name and its numbers."""
    if not isinstance(value, dict):
        return f"{value:g}" if isinstance(value, float) else str(value)
    numbers = " ".join(_setting(one) for key, one in value.items() if key != "name")
    return f"{str(value.get('name', '')).replace('_', ' ')} {numbers}".strip()


def _start(policy: BoostedPolicy) -> str:
    """Return where boosting started, in words."""
    kinds = policy.ensemble_.start.kind.split("+")
    words = " and ".join(_START_WORDS.get(kind, kind) for kind in kinds)
    return f"{words}, sharpness {policy.start_sharpness:g}" if "reward_model" in kinds else words


def _sharpness(inverse_temperature: float) -> str:
    return "∞ (always the best action)" if inverse_temperature == np.inf else f"{inverse_temperature:.4g}"


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
    at = max(min(chosen, len(values)) - 1, 0)
    text = (
        f"{'validation' if is_validated else 'training'} value by round: {_number(values, 0)} to {_number(values, at)}"
    )
    drawing = element(
        "svg",
        element("polyline", points=points, fill="none", stroke="#2f86d6", stroke_width="2", stroke_linejoin="round"),
        element("circle", cx=f"{x[at]:.1f}", cy=f"{y[at]:.1f}", r="3.5", fill="#2f86d6") if chosen else None,
        width=f"{WIDTH:g}",
        height=f"{HEIGHT:g}",
        role="img",
        aria_label=text,
    )
    return element("p", drawing, element("span", text, class_="soft"))


def _number(values: AnyArray, at: int) -> str:
    return f"{values[at]:.4g}"


def _features(policy: Any) -> Markup | None:
    """Return the columns with the largest gain."""
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
