"""Errors that say whose fault it is: wrong usage, or bad data (every other ``ValueError`` and ``TypeError``)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from typing import Any

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


class UsageError(ValueError):
    """Wrong usage: a name, a path or a setting that does not exist or does not fit."""


class UnseenCategoryWarning(UserWarning):
    """Contexts contain categories that a policy has never seen and treats as missing."""


class DroppedSamplesWarning(UserWarning):
    """A split by time has dropped most of its training samples, because their groups are held out."""


class LoggerDifferenceWarning(UserWarning):
    """The logging policies of a log earned different rewards with the same actions."""


class LeakWarning(UserWarning):
    """A policy is trained on context columns that surely leak what happened after the action was chosen."""


class PartTrainedWarning(UserWarning):
    """A policy of a log in pieces is trained on a random part of it, because its learner needs them in memory."""


@contextmanager
def checking_usage() -> Iterator[None]:
    """Turn errors of a check of settings into a `UsageError`."""
    try:
        yield
    except UsageError:
        raise
    except (TypeError, ValueError) as error:
        raise UsageError(str(error)) from None


def did_you_mean(name: str, known: Sequence[str]) -> str:
    """Return a question with names similar to ``name``, or nothing."""
    lower = {one.lower(): one for one in known if isinstance(one, str)}
    close = [lower[one] for one in get_close_matches(name.lower(), list(lower), n=2, cutoff=0.6)]
    return f" Did you mean {' or '.join(map(repr, close))}?" if close else ""


def quoted(names: Sequence[object], *, limit: int = 8) -> str:
    """Return names as they go into a message: quoted, separated by commas, cut after ``limit``."""
    shown = ", ".join(shortened(name, limit=100) for name in names[:limit])
    return shown if len(names) <= limit else f"{shown} and {len(names) - limit} more"


def visible(text: str) -> str:
    """Return text that a terminal shows as it is: control characters, and those that turn the direction, are escaped.

    Labels and names come from files that anybody may have written.
    """
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)


def shortened(value: Any, *, limit: int = 60) -> str:
    """Return a value as it goes into a message: quoted as Python writes it, also where numpy holds it, and not long."""
    is_single = type(value).__module__ == "numpy" and getattr(value, "ndim", None) == 0
    text = " ".join(repr(value.item() if is_single else value).split())
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
