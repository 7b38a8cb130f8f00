"""`LiveFigures`: what the page and the metrics tell of a running loop, kept up to date in the background."""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import sqlite3
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bopl.serving.record import MIXTURE, PromotionRow
from bopl.serving.service import DecisionService
from bopl.serving.writer import StoreError

if TYPE_CHECKING:
    from bopl.evaluation.running import RunningBound

TICK_S = 2.0  # between two looks at the store
BUCKET_S = 300  # of the traffic that is drawn
BUCKET = BUCKET_S * 1_000_000  # microseconds
N_BUCKETS = 48
N_PER_LOOK = 20_000  # rows that one look reads at most
MAX_BEHIND = 200_000  # older decisions than these are not read for the traffic
N_SHOWN = 8  # promotions and verdicts

NEW_DECISIONS = "SELECT time / ?, count(*), count(fallback), max(id) FROM decision WHERE id > ? GROUP BY 1"
NEW_REWARDS = "SELECT status, count(*), max(rowid) FROM reward WHERE rowid > ? GROUP BY status"
# Decisions of one promotion whose window has closed: before that, a missing reward says nothing. The index leads from
# one time to the other, so that those of other promotions and those that are open are not read at every look.
CLOSED = """
SELECT time, id, decider, propensity, policy_prob,
       (SELECT {combined} FROM reward WHERE reward.event = decision.event AND status = 'ok' {order}),
       (is_active AND NOT ?) OR
       EXISTS (SELECT 1 FROM activation AS shown WHERE shown.event = decision.event AND shown.time <= decision.time + ?)
FROM decision INDEXED BY decision_time
WHERE time >= ? AND time <= ? AND (time, id) > (?, ?) AND promotion = ? ORDER BY time, id LIMIT ?
"""
COMBINED = {
    "sum": CLOSED.format(combined="sum(value)", order=""),
    "first": CLOSED.format(combined="value", order="ORDER BY time, rowid LIMIT 1"),
    "last": CLOSED.format(combined="value", order="ORDER BY time DESC, rowid DESC LIMIT 1"),
}


class LiveFigures:
    """Figures of a running loop."""

    def __init__(self, service: DecisionService) -> None:
        self._service, self._settings = service, service.settings
        self._last_decision, self._last_reward = -1, 0
        self._traffic: Counter[int] = Counter()
        self._rewards: Counter[str] = Counter()
        self._n_decisions = self._n_fallbacks = 0
        self._promotion = 0
        self._served: RunningBound | None = None
        self._policy: RunningBound | None = None
        self._n_closed = self._n_rewarded = 0
        self._last_closed = (0, 0)  # time and id
        self._task: asyncio.Task[None] | None = None

    def watch(self) -> None:
        """Begin to look."""
        self._task = asyncio.get_running_loop().create_task(self._watch())

    async def stop(self) -> None:
        """End what was begun."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _watch(self) -> None:
        while True:
            with contextlib.suppress(StoreError):  # the service tells of it
                await asyncio.to_thread(self.look)
            await asyncio.sleep(TICK_S)

    # -- Looking ----------------------------------------------------------------------------------------------------

    def look(self) -> None:
        """Take in what was written since the last look."""
        promotion = self._service.promotion
        if promotion.id != self._promotion:
            self._begin(promotion)
        with self._service.store.reading() as connection:
            self._look_at_traffic(connection)
            self._look_at_rewards(connection)
            self._look_at_value(connection)

    def _begin(self, promotion: PromotionRow) -> None:
        """Restart the running value: it belongs to one promotion."""
        from bopl.evaluation.running import RunningBound  # heavy, and nobody waits for it here

        self._promotion, self._last_closed, self._n_closed, self._n_rewarded = promotion.id, (promotion.time, 0), 0, 0
        limits = self._settings.confidence, self._settings.reward_range
        self._served, self._policy = RunningBound(*limits), RunningBound(*limits)

    def _look_at_traffic(self, connection: sqlite3.Connection) -> None:
        newest = connection.execute("SELECT coalesce(max(id), 0) FROM decision").fetchone()[0]
        self._n_decisions = newest
        if self._last_decision < 0:
            self._last_decision = max(newest - MAX_BEHIND, 0)
        for bucket, count, n_fallbacks, last in connection.execute(NEW_DECISIONS, (BUCKET, self._last_decision)):
            self._traffic[bucket] += count
            self._n_fallbacks += n_fallbacks
            self._last_decision = max(self._last_decision, last)
        for bucket in sorted(self._traffic)[:-N_BUCKETS]:
            del self._traffic[bucket]

    def _look_at_rewards(self, connection: sqlite3.Connection) -> None:
        for status, count, last in connection.execute(NEW_REWARDS, (self._last_reward,)).fetchall():
            self._rewards[status] += count
            self._last_reward = max(self._last_reward, last)

    def _look_at_value(self, connection: sqlite3.Connection) -> None:
        window = round(self._settings.reward_window_s * 1e6)
        until = self._service.store.clock.now() - window
        assert self._served is not None
        assert self._policy is not None
        since = (self._last_closed[0], until, *self._last_closed, self._promotion, N_PER_LOOK)
        wanted = (self._settings.needs_activation, window, *since)
        rows = connection.execute(COMBINED[self._settings.reward_combination], wanted).fetchall()
        if not rows:
            return
        self._last_closed = rows[-1][:2]
        counted = [row[2:-1] for row in rows if row[-1]]
        default = self._settings.default_reward
        self._n_closed += len(counted)
        self._n_rewarded += sum(reward is not None for *_, reward in counted)
        rewards = [default if reward is None else reward for *_, reward in counted]
        self._served.add(np.ones(len(counted)), np.array(rewards))
        weighed = [
            (policy_prob / propensity, reward)
            for (decider, propensity, policy_prob, _), reward in zip(counted, rewards, strict=True)
            if decider == MIXTURE and policy_prob is not None
        ]
        self._policy.add(*np.array(weighed, dtype=np.float64).reshape(-1, 2).T)

    # -- Telling ----------------------------------------------------------------------------------------------------

    def gauges(self) -> dict[str, tuple[str, float, Mapping[str, str]]]:
        """Return what the metrics show besides the counters."""
        promotion, store = self._service.promotion, self._service.store
        labels = {"policy": promotion.policy}
        none: dict[str, str] = {}
        found: dict[str, tuple[str, float, Mapping[str, str]]] = {
            "bopl_up_seconds": ("Time since the server started.", time.time() - self._service.started, none),
            "bopl_promotion": ("Number of the promotion that is served.", float(promotion.id), none),
            "bopl_policy_share": ("Share of the promoted policy in what is served.", promotion.share, labels),
            "bopl_events_waiting": ("Writes waiting for the disk.", float(store.n_waiting), none),
            "bopl_clock_ahead_seconds": ("How far event times are ahead of the clock.", store.clock.ahead_s, none),
            "bopl_is_degraded": ("1 if a promotion cannot be served.", float(self._service.problem is not None), none),
            "bopl_closed_decisions": ("Decisions of this promotion whose window closed.", float(self._n_closed), none),
        }
        if self._served is not None and self._policy is not None:
            low, high = self._served.interval
            found |= {
                "bopl_value": ("Mean reward of what is served.", self._served.value, none),
                "bopl_value_low": ("Lower end of its anytime-valid interval.", low, none),
                "bopl_value_high": ("Upper end of its anytime-valid interval.", high, none),
                "bopl_mean_weight": ("Mean importance weight of the policy; near 1.", self._policy.mean_weight, none),
            }
        return {name: gauge for name, gauge in found.items() if math.isfinite(gauge[1])}

    def summary(self) -> dict[str, Any]:
        """Return what the page shows, as plain values."""
        service, promotion, store = self._service, self._service.promotion, self._service.store
        newest = store.clock.now() // BUCKET
        buckets = range(newest - N_BUCKETS + 1, newest + 1)
        try:
            promotions = store.promotions()[-N_SHOWN:][::-1]
        except StoreError:
            promotions = [promotion]
        return {
            "folder": service.folder.path.resolve().name,
            "mode": self._settings.mode,
            "problem": service.problem,
            "time": store.clock.now(),
            "started": int(service.started * 1e6),
            "promotion": promotion,
            "promotions": promotions,
            "verdicts": _verdicts(service.folder.verdicts),
            "n_decisions": self._n_decisions,
            "n_fallbacks": self._n_fallbacks,
            "rewards": dict(self._rewards),
            "n_duplicates": service.metrics.total("bopl_rewards_total", status="duplicate"),
            "traffic": [(bucket * BUCKET_S, self._traffic[bucket]) for bucket in buckets],
            "bucket_s": BUCKET_S,
            "n_closed": self._n_closed,
            "rewarded_share": self._n_rewarded / self._n_closed if self._n_closed else None,
            "served": _running(self._served),
            "policy": _running(self._policy),
            "confidence": self._settings.confidence,
            "reward_range": self._settings.reward_range,
            "reward_window_s": self._settings.reward_window_s,
        }


def _running(bound: RunningBound | None) -> dict[str, Any] | None:
    if bound is None or not bound.n_samples:
        return None
    return {name: getattr(bound, name) for name in ("n_samples", "value", "interval", "mean_weight")}


def _verdicts(folder: Path) -> list[dict[str, Any]]:
    """Return the newest verdicts in a folder; files that are none are passed over."""
    found = []
    try:
        files = sorted(folder.glob("*.json"), key=lambda path: (path.stat().st_mtime, path.name), reverse=True)
    except OSError:
        return []
    for path in files[:N_SHOWN]:
        try:
            content = json.loads(path.read_text(encoding="utf8"))
        except (OSError, ValueError):
            continue
        if isinstance(content, dict) and isinstance(content.get("verdict"), str):
            found.append({"name": path.stem, "reason": "", **content})
    return found
