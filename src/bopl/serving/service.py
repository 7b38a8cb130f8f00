"""`DecisionService`: decides, keeps and counts; `Metrics`, its counts; knows nothing of HTTP."""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import islice
from typing import Any, TypeVar

import numpy as np

from bopl._errors import UsageError, quoted
from bopl.serving.draws import draw_of
from bopl.serving.events import EventStore
from bopl.serving.folder import LoopFolder
from bopl.serving.mixture import Chosen, ServedMixture
from bopl.serving.record import BASELINE, CALLER, MIXTURE, UNIFORM, DecisionRow, PromotionRow, RewardRow
from bopl.serving.requests import BadRequestError, DecideRequest, RewardRequest
from bopl.serving.settings import APPRENTICE, LoopSettings
from bopl.serving.writer import StoreError

POLL_S = 0.2  # between two looks for a new promotion
BAD_RECORD, EXCEPTION, TIME = "bad_record", "exception", "time"
T = TypeVar("T")
_log = logging.getLogger("bopl.serving")


class DecisionService:
    """What a server does, apart from HTTP; all methods are for one event loop.

    Parameters
    ----------
    folder : LoopFolder
        The loop.
    settings : LoopSettings
        What `loop.toml` says.
    store : EventStore
        Closed by whoever opened it.

    Attributes
    ----------
    metrics : Metrics
    problem : str or None
        Why the newest promotion is not served, where it is not.
    """

    def __init__(self, folder: LoopFolder, settings: LoopSettings, store: EventStore) -> None:
        self.folder, self.settings, self.store = folder, settings, store
        self.metrics = Metrics()
        self.problem: str | None = None
        self.started = time.time()
        self._budget_s = settings.time_budget_ms / 1000.0
        # One lane for what is served and one for the baseline, so that a policy that hangs does not block both.
        self._lanes = {name: ThreadPoolExecutor(1, f"bopl-{name}") for name in (MIXTURE, BASELINE)}
        self._mixture = self._ready(self._settled())
        self._watching: asyncio.Task[None] | None = None
        self._failed_id = 0
        self._kind_of_action: type | None = None  # of an apprentice's callers

    @property
    def promotion(self) -> PromotionRow:
        """The promotion that is served."""
        return self._mixture.promotion

    def watch(self) -> None:
        """Begin to look for new promotions."""
        self._watching = asyncio.get_running_loop().create_task(self._watch())

    async def stop(self) -> None:
        """End what was begun."""
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.gather(self._watching, return_exceptions=True)
        for lane in self._lanes.values():
            lane.shutdown(wait=False, cancel_futures=True)

    # -- Deciding ---------------------------------------------------------------------------------------------------

    async def decide(self, request: DecideRequest) -> DecisionRow:
        """Return the decision of an event once it is on disk: a new one, or the one that it has already."""
        began = time.perf_counter()
        mixture, event = self._mixture, request.event or uuid.uuid4().hex
        draw = draw_of(self.store.seed, event)
        if self.settings.mode == APPRENTICE:
            row = await self._watched(mixture, request, event, draw)
        else:
            row = await self._decided(mixture, request, event, draw)
        kept, is_new = await asyncio.wrap_future(self.store.add_decision(row))
        if is_new:
            self.metrics.count("bopl_decisions_total", policy=kept.policy, decider=kept.decider)
            if kept.fallback is not None:
                self.metrics.count("bopl_fallbacks_total", reason=kept.fallback)
        else:
            self.metrics.count("bopl_repeated_decisions_total")
        self.metrics.observe(time.perf_counter() - began)
        return kept

    async def _decided(self, mixture: ServedMixture, request: DecideRequest, event: str, draw: float) -> DecisionRow:
        if request.action is not None or request.propensity is not None:
            raise BadRequestError("action and propensity are for apprentice mode; here the loop decides.", 422)
        self._check_eligible(mixture, request)
        decider, fallback = MIXTURE, None
        try:
            chosen = await self._ask(MIXTURE, mixture.decide, request.context, request.eligible, draw)
        except Exception as error:
            fallback = _reason(error)
            _log.log(logging.DEBUG, "fallback (%s): %s", fallback, error)
            chosen, decider = await self._fall_back(mixture, request, draw)
        row = mixture.row(event, request.context, request.eligible, draw, chosen)
        return replace(row, decider=decider, fallback=fallback, is_active=request.is_active)

    async def _fall_back(self, mixture: ServedMixture, request: DecideRequest, draw: float) -> tuple[Chosen, str]:
        """Return what the baseline takes, or a uniform draw where it cannot decide either."""
        if mixture.baseline is not None and mixture.baseline is not mixture.policy:
            try:
                return await self._ask(
                    BASELINE, mixture.decide, request.context, request.eligible, draw, BASELINE
                ), BASELINE
            except Exception as error:
                _log.log(logging.DEBUG, "the baseline failed, too: %s", error)
        return mixture.decide(request.context, request.eligible, draw, UNIFORM), UNIFORM

    async def _ask(self, lane: str, work: Callable[..., T], *arguments: Any) -> T:
        """Return what a thread finds within the time budget, which begins to run before the thread is free."""
        future = asyncio.get_running_loop().run_in_executor(self._lanes[lane], work, *arguments)
        return await asyncio.wait_for(future, self._budget_s)

    async def _watched(self, mixture: ServedMixture, request: DecideRequest, event: str, draw: float) -> DecisionRow:
        """Return the caller's decision, with what the loop would have done."""
        self._check_action(mixture, request)
        assert request.action is not None
        shadow = None
        if mixture.actions:
            try:
                shadow = await self._ask(MIXTURE, _shadow, mixture, request, draw)
            except Exception as error:
                self.metrics.count("bopl_fallbacks_total", reason=_reason(error))
        chosen = Chosen(request.action, request.propensity, None, None)
        row = mixture.row(event, request.context, request.eligible, draw, chosen)
        return replace(row, decider=CALLER, is_active=request.is_active, shadow=shadow)

    def _check_action(self, mixture: ServedMixture, request: DecideRequest) -> None:
        """Refuse an action of a caller that would make the log unreadable."""
        action, eligible = request.action, request.eligible
        if action is None:
            raise BadRequestError("action is missing: in apprentice mode the caller decides and says what.", 422)
        if mixture.actions:
            self._check_eligible(mixture, request)
        if eligible is not None and action not in eligible:
            raise BadRequestError(f"action {action!r} is not one of eligible.", 422)
        if mixture.knows(action):
            return
        kind, kinds = self._kind_of_action, {type(one) for one in (action, *(eligible or ()))}
        if kind is None:
            before = mixture.actions or [row.action for row in islice(self.store.decisions(), 1)]
            kind = type(before[0]) if before else None
        if len(kinds) > 1 or kinds.isdisjoint((str, int) if kind is None else (kind,)):
            among = "" if eligible is None else f" among {quoted(eligible)}"
            raise BadRequestError(
                f"actions must be all texts or all integers, as those before; got {action!r}{among}.", 422
            )
        self._kind_of_action = kinds.pop()

    def _check_eligible(self, mixture: ServedMixture, request: DecideRequest) -> None:
        try:
            mixture.mask(request.eligible)
        except UsageError as error:
            raise BadRequestError(str(error), 422) from None

    # -- What came of it --------------------------------------------------------------------------------------------

    async def reward(self, request: RewardRequest) -> RewardRow:
        """Return the row of a reward once it is on disk."""
        window_s = self.settings.reward_window_s
        future = self.store.add_reward(request.event, request.value, key=request.key, window_s=window_s)
        row = await asyncio.wrap_future(future)
        self.metrics.count("bopl_rewards_total", status=row.status)
        return row

    async def activate(self, event: str) -> bool:
        """Note that a decision was carried out, and return whether there is one."""
        is_known = await asyncio.wrap_future(self.store.activate(event))
        self.metrics.count("bopl_activations_total", status="ok" if is_known else "unknown")
        return is_known

    # -- What is served ---------------------------------------------------------------------------------------------

    def _settled(self) -> PromotionRow:
        """Return the promotion in force, after a new one where loop.toml says something else about exploration."""
        settings, found = self.settings, self.store.promotion()
        if found is None:
            return self.store.promote(self.folder.first_promotion(settings), after=0)
        wanted = replace(
            found,
            exploration=settings.exploration,
            min_propensity=settings.min_propensity,
            actions=list(settings.actions) or None,
        )
        if wanted == found:
            return found
        return self.store.promote(
            replace(wanted, reason="loop.toml changed", verdict=None, log_fingerprint=None), after=found.id
        )

    def _ready(self, promotion: PromotionRow) -> ServedMixture:
        """Return what a promotion serves, warmed up: compiled code is loaded before the first request needs it."""
        mixture = self.folder.mixture(promotion)
        for policy in {id(one): one for one in (mixture.policy, mixture.baseline) if one is not None}.values():
            try:
                policy.record_proba(np.zeros(policy.n_features_in_), eligible=policy.actions_.tolist()[:1])
            except Exception as error:
                _log.log(logging.DEBUG, "warming up failed: %s", error)  # real records may do better
        return mixture

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(POLL_S)
            try:
                newest = await asyncio.to_thread(self.store.promotion)
            except StoreError as error:
                self.problem = str(error)
                continue
            if newest is not None and newest.id not in (self.promotion.id, self._failed_id):
                await self._swap(newest)
            elif newest is not None and newest.id == self.promotion.id:
                self.problem = None

    async def _swap(self, promotion: PromotionRow) -> None:
        """Serve a new promotion from the next request on; requests under way end with the one they began with."""
        try:
            self._mixture = await asyncio.to_thread(self._ready, promotion)
        except Exception as error:
            self._failed_id = promotion.id
            self.problem = f"promotion {promotion.id} cannot be served: {error}"
            self.metrics.count("bopl_failed_swaps_total")
            _log.error(self.problem)
            return
        self.problem = None
        self.metrics.count("bopl_swaps_total")
        _log.info("serving policy %s at a share of %g", promotion.policy, promotion.share)


def _shadow(mixture: ServedMixture, request: DecideRequest, draw: float) -> dict[str, Any]:
    """Return what would have been done in the place of a caller, and its probability of what the caller did."""
    assert request.action is not None
    chosen = mixture.decide(request.context, request.eligible, draw)
    prob = mixture.prob_of(request.context, request.eligible, request.action)
    return {"action": chosen.action, "propensity": chosen.propensity, "caller_propensity": prob}


def _reason(error: BaseException) -> str:
    if isinstance(error, TimeoutError):
        return TIME
    return BAD_RECORD if isinstance(error, ValueError | TypeError | KeyError) else EXCEPTION


# -- Counts, in the text format of Prometheus -------------------------------------------------------------------------

BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
HELP = {
    "bopl_requests_total": "Requests answered, by path and status.",
    "bopl_decisions_total": "New decisions, by policy and by what the action was drawn from.",
    "bopl_repeated_decisions_total": "Requests for an event that had been decided before.",
    "bopl_fallbacks_total": "Decisions that the served mixture could not make, by reason.",
    "bopl_rewards_total": "Rewards received, by status.",
    "bopl_activations_total": "Activations received.",
    "bopl_swaps_total": "Promotions picked up while serving.",
    "bopl_failed_swaps_total": "Promotions that could not be served; the previous one stays.",
}


class Metrics:
    """Counters and the histogram of response times; used from one thread."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, tuple[tuple[str, str], ...]], int] = defaultdict(int)
        self._buckets = [0] * (len(BUCKETS) + 1)
        self._seconds = 0.0

    def count(self, name: str, **labels: str) -> None:
        """Add one to a counter."""
        self._counts[name, tuple(labels.items())] += 1

    def total(self, name: str, **labels: str) -> int:
        """Return the sum of a counter over all labels but those given."""
        wanted = set(labels.items())
        return sum(count for (one, found), count in self._counts.items() if one == name and wanted <= set(found))

    def observe(self, seconds: float) -> None:
        """Note how long a decision took, from the request to its answer."""
        self._buckets[bisect_left(BUCKETS, seconds)] += 1
        self._seconds += seconds

    def render(self, gauges: Mapping[str, tuple[str, float, Mapping[str, str]]]) -> str:
        """Return everything as text; ``gauges`` maps names to help, value and labels."""
        lines: list[str] = []
        for name, text in HELP.items():
            lines += [f"# HELP {name} {text}", f"# TYPE {name} counter"]
            found = [(labels, count) for (one, labels), count in sorted(self._counts.items()) if one == name]
            lines += [f"{name}{_labels(labels)} {count}" for labels, count in found or [((), 0)]]
        lines += self._histogram()
        for name, (text, value, labels) in gauges.items():
            lines += [f"# HELP {name} {text}", f"# TYPE {name} gauge", f"{name}{_labels(labels.items())} {value!r}"]
        return "\n".join(lines) + "\n"

    def _histogram(self) -> list[str]:
        name = "bopl_decide_seconds"
        lines = [f"# HELP {name} Time from a request for a decision to its answer.", f"# TYPE {name} histogram"]
        total = 0
        for edge, count in zip((*map(repr, BUCKETS), "+Inf"), self._buckets, strict=True):
            total += count
            lines.append(f'{name}_bucket{{le="{edge}"}} {total}')
        return [*lines, f"{name}_sum {self._seconds!r}", f"{name}_count {total}"]


def _labels(labels: Iterable[tuple[str, str]]) -> str:
    inner = ",".join(f'{name}="{_escaped(value)}"' for name, value in labels)
    return f"{{{inner}}}" if inner else ""


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
