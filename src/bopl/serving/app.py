"""A loop over HTTP: paths to the service's methods, and its errors to status codes."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable
from importlib import import_module
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route

from bopl.serving.admission import App, Limits
from bopl.serving.failure import StoreError
from bopl.serving.live import LiveFigures
from bopl.serving.record import DecisionRow
from bopl.serving.requests import BadRequestError, read_activate, read_decide, read_reward
from bopl.serving.service import DecisionService

PATHS = ("/decide", "/reward", "/activate", "/health", "/metrics", "/")
# The page holds everything it needs; nothing may be loaded, sent or framed.
PAGE_HEADERS = {
    "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'none'; "
    "base-uri 'none'; form-action 'none'",
    "cache-control": "no-store",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}
_log = logging.getLogger("bopl.serving")


class LoopApp:
    """The handlers of one loop.

    Parameters
    ----------
    service : DecisionService
        Decides and records.
    live : LiveFigures
        Figures of the page and of the metrics.
    """

    def __init__(self, service: DecisionService, live: LiveFigures) -> None:
        self._service, self._live = service, live

    async def decide(self, request: Request) -> Response:
        """POST /decide."""
        return _answer(_shown(await self._service.decide(read_decide(await request.body()))))

    async def reward(self, request: Request) -> Response:
        """POST /reward."""
        row = await self._service.reward(read_reward(await request.body()))
        return _answer({"event": row.event, "key": row.key, "value": row.value, "status": row.status})

    async def activate(self, request: Request) -> Response:
        """POST /activate."""
        event = read_activate(await request.body())
        if not await self._service.activate(event):
            raise BadRequestError(f"there is no decision for event {event!r}.", 404)
        return _answer({"event": event, "status": "ok"})

    async def health(self, request: Request) -> Response:
        """GET /health."""
        problem = self._service.problem
        return _answer({"status": "ok"} if problem is None else {"status": "degraded", "problem": problem})

    async def metrics(self, request: Request) -> Response:
        """GET /metrics."""
        text = self._service.metrics.render(self._live.gauges())
        return PlainTextResponse(text, media_type="text/plain; version=0.0.4")

    async def page(self, request: Request) -> Response:
        """GET /."""
        page = await asyncio.to_thread(import_module, "bopl.serving.page")  # which decisions need not wait for
        return HTMLResponse(page.render_page(self._live.summary()), headers=PAGE_HEADERS)


def make_app(service: DecisionService, live: LiveFigures, token: str | None) -> App:
    """Return the ASGI application of a loop."""
    app = LoopApp(service, live)
    routes = [
        Route("/decide", _guarded(app.decide), methods=["POST"]),
        Route("/reward", _guarded(app.reward), methods=["POST"]),
        Route("/activate", _guarded(app.activate), methods=["POST"]),
        Route("/health", _guarded(app.health), methods=["GET"]),
        Route("/metrics", _guarded(app.metrics), methods=["GET"]),
        Route("/", _guarded(app.page), methods=["GET"]),
    ]
    inner = Starlette(routes=routes, exception_handlers={HTTPException: _not_found})
    inner.router.redirect_slashes = False  # to an address that a client behind a proxy cannot reach

    def count(path: str, status: int) -> None:
        shown = path if path in PATHS else "other"
        service.metrics.count("bopl_requests_total", path=shown, status=str(status))

    return Limits(inner, service.settings, token, count)


def _guarded(handler: Callable[[Request], Awaitable[Response]]) -> Callable[[Request], Awaitable[Response]]:
    """Return a handler whose errors are status codes and one sentence."""

    async def guarded(request: Request) -> Response:
        try:
            return await handler(request)
        except (BadRequestError, StoreError) as error:
            return _answer({"error": str(error)}, error.status)
        except Exception:
            _log.exception("%s failed", request.url.path)
            return _answer({"error": "the service failed; its log says why."}, 500)

    return guarded


async def _not_found(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    method, path = request.method, request.url.path[:60]
    sentence = (
        f"there is no {method} {path} here; there are POST /decide, /reward and /activate, GET /health and /metrics."
    )
    return _answer({"error": sentence}, error.status_code)


def _answer(content: dict[str, Any], status: int = 200) -> Response:
    # Floats are written so that they read back to the last bit.
    return Response(json.dumps(content, allow_nan=False), status, media_type="application/json")


def _shown(row: DecisionRow) -> dict[str, Any]:
    return {
        "event": row.event,
        "action": row.action,
        "propensity": row.propensity,
        "policy": row.policy,
        "is_fallback": row.is_fallback,
    }
