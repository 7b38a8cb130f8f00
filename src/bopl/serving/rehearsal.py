"""Rehearsals: a loop without HTTP, in a simulated world; decisions, draws and files are those of the server."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any

from bopl.serving.draws import draw_of
from bopl.serving.events import EventStore
from bopl.serving.folder import LoopFolder
from bopl.serving.record import Action

Reward = Callable[[Mapping[str, Any], Action], float | None]


def rehearse(
    loop: LoopFolder, records: Sequence[Mapping[str, Any]], reward: Reward, *, name: str, window_s: float | None = None
) -> float:
    """Decide for records under the promotion in force, keep decisions and rewards, and return the mean reward.

    Parameters
    ----------
    loop : LoopFolder
        The loop.
    records : sequence of mappings
        Contexts that were logged.
    reward : callable of record and action
        Reward of an action; None if none is sent.
    name : str
        Begins the ids of the events, which must be new.
    window_s : float, optional
        The reward window; by default that of ``loop.toml``.
    """
    window_s = loop.settings().reward_window_s if window_s is None else window_s
    total = 0.0
    with EventStore(loop.events) as store:
        promotion = store.promotion()
        assert promotion is not None
        mixture = loop.mixture(promotion)
        waiting: list[Future[Any]] = []
        for number, record in enumerate(records):
            event = f"{name}-{number}"
            draw = draw_of(store.seed, event)
            chosen = mixture.decide(record, None, draw)
            waiting.append(store.add_decision(mixture.row(event, record, None, draw, chosen)))
            earned = reward(record, chosen.action)
            if earned is not None:
                waiting.append(store.add_reward(event, earned, window_s=window_s))
                total += earned
        for future in waiting:
            future.result()
    return total / max(len(records), 1)
