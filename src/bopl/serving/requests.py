"""Requests: JSON from anybody, checked here and trusted from here on."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from bopl._errors import did_you_mean
from bopl.serving.record import Action, as_label

MAX_ID = 200  # characters of an event or a key
MAX_ELIGIBLE = 100_000
MAX_DEPTH = 64  # of nested objects and lists: whoever reads them later may have less stack than this server
MAX_REWARD = 1e100  # rewards of one event are added up


TOO_DEEP = "the body is nested too deeply."


class BadRequestError(ValueError):
    """A request that cannot be understood, in one sentence.

    Attributes
    ----------
    status : int
        400 where it is malformed, 422 where it is well-formed and does not suit the loop.
    """

    def __init__(self, sentence: str, status: int = 400) -> None:
        super().__init__(sentence)
        self.status = status


@dataclass(frozen=True)
class DecideRequest:
    """What is asked of ``POST /decide``; ``action`` and ``propensity`` are the caller's, for an apprentice."""

    event: str | None
    context: Mapping[str, Any]
    eligible: list[Action] | None = None
    is_active: bool = True
    action: Action | None = None
    propensity: float | None = None


@dataclass(frozen=True)
class RewardRequest:
    """What is told by ``POST /reward``."""

    event: str
    value: float
    key: str = ""


def read_decide(body: bytes) -> DecideRequest:
    """Return what a body asks for."""
    fields = _read(body, ("context",), ("event", "eligible", "active", "action", "propensity"))
    context, eligible = fields["context"], fields.get("eligible")
    if not isinstance(context, dict):
        raise BadRequestError(f"context must be an object of names and values; got {_shown(context)}.")
    if eligible is not None and (not isinstance(eligible, list) or len(eligible) > MAX_ELIGIBLE):
        raise BadRequestError(f"eligible must be a list of actions; got {_shown(eligible)}.")
    is_active = fields.get("active", True)
    if not isinstance(is_active, bool):
        raise BadRequestError(f"active must be true or false; got {_shown(is_active)}.")
    return DecideRequest(
        _id("event", fields["event"]) if fields.get("event") is not None else None,
        context,
        None if eligible is None else [_label("eligible", one) for one in eligible],
        is_active,
        None if fields.get("action") is None else _label("action", fields["action"]),
        None if fields.get("propensity") is None else _propensity(fields["propensity"]),
    )


def read_reward(body: bytes) -> RewardRequest:
    """Return what a body tells."""
    fields = _read(body, ("event", "value"), ("key",))
    key = fields.get("key")
    return RewardRequest(
        _id("event", fields["event"]), _reward(fields["value"]), "" if key is None else _id("key", key)
    )


def read_activate(body: bytes) -> str:
    """Return the event that a body names."""
    return _id("event", _read(body, ("event",), ())["event"])


# -- Checks -----------------------------------------------------------------------------------------------------------


def _read(body: bytes, needed: tuple[str, ...], optional: tuple[str, ...]) -> dict[str, Any]:
    try:
        fields = json.loads(body.decode("utf8"), parse_constant=_refuse_constant)
        # Written back, so that numbers beyond the range of doubles and halves of characters are found here.
        json.dumps(fields, allow_nan=False, ensure_ascii=False).encode()
    except UnicodeError:
        raise BadRequestError("the body must be JSON in UTF-8.") from None
    except RecursionError:
        raise BadRequestError(TOO_DEEP) from None
    except json.JSONDecodeError as error:
        raise BadRequestError(f"the body is not valid JSON: {error}.") from None
    except BadRequestError:
        raise
    except ValueError:
        raise BadRequestError("the body is not valid JSON: it has a number that is too large.") from None
    if body.count(b"[") + body.count(b"{") > MAX_DEPTH and _is_deeper(fields, MAX_DEPTH):
        raise BadRequestError(TOO_DEEP)
    if not isinstance(fields, dict):
        raise BadRequestError(f"the body must be an object; got {_shown(fields)}.")
    for name in needed:
        if name not in fields:
            raise BadRequestError(f"{name} is missing from the body.")
    for name in fields:
        if name not in needed and name not in optional:
            hint = did_you_mean(name[:MAX_ID], (*needed, *optional))
            raise BadRequestError(f"the body has an unknown field {_shown(name)}.{hint}")
    return fields


def _is_deeper(value: object, depth: int) -> bool:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return any(depth == 0 or _is_deeper(one, depth - 1) for one in inner)


def _refuse_constant(text: str) -> NoReturn:
    raise BadRequestError(f"{text} is not JSON; send null for what is missing.")


def _id(name: str, value: object) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= MAX_ID or not value.isprintable():
        raise BadRequestError(f"{name} must be 1 to {MAX_ID} printable characters; got {_shown(value)}.")
    return value


def _number(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise BadRequestError(f"{name} must be a number; got {_shown(value)}.")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise BadRequestError(f"{name} must be finite; got {_shown(value)}.")
    return number


def _reward(value: object) -> float:
    number = _number("value", value)
    if abs(number) > MAX_REWARD:
        raise BadRequestError(f"value must lie between -{MAX_REWARD:g} and {MAX_REWARD:g}; got {_shown(value)}.")
    return number


def _propensity(value: object) -> float:
    number = _number("propensity", value)
    if not 0.0 < number <= 1.0:
        raise BadRequestError(f"propensity must lie in (0, 1]; got {_shown(value)}.")
    return number


def _label(name: str, value: object) -> Action:
    parts = value if isinstance(value, list) else [value]
    if not parts or not all(_is_label(one) for one in parts):
        raise BadRequestError(f"{name} must name actions, as text or number; got {_shown(value)}.")
    label: Action = as_label(value)
    return label


def _is_label(value: object) -> bool:
    if isinstance(value, str):
        return len(value) <= MAX_ID
    return isinstance(value, float) or (isinstance(value, int) and -(2**63) <= value < 2**63)


def _shown(value: object) -> str:
    """Return the beginning of a value, on one line."""
    text = json.dumps(value, ensure_ascii=True)
    return text if len(text) <= 60 else f"{text[:60]}…"
