"""A loop over HTTP: paths to the service's methods, its errors to status codes, and a limit for slow headers."""

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
from uvicorn.protocols.http.h11_impl import H11Protocol

from bopl.serving.admission import App, Limits
from bopl.serving.live import LiveFigures
from bopl.serving.record import DecisionRow
from bopl.serving.requests import BadRequestError, read_activate, read_decide, read_reward
from bopl.serving.service import DecisionService
from bopl.serving.writer import StoreError

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
    """The handlers of one loop: the service decides and records, and ``live`` has the figures of page and metrics."""

    def __init__(self, service: DecisionService, live: LiveFigures) -> None:
        self._service, self._live = service, live

    async def decide(self, request: Request) -> Response:
        """POST /decide."""
        return _answer(_shown(await self._service.decide(read_decide(await request.body()))))

    async def reward(self, request: Request) -> Response:
        """POST /reward."""
        row = await self._service.reward(read_reward(await request.body()))
        return _answer({name: getattr(row, name) for name in ("event", "key", "value", "status")})

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
    return {name: getattr(row, name) for name in ("event", "action", "propensity", "policy", "is_fallback")}


# -- Connections that do not finish their headers in time, or send none -----------------------------------------------


def _refusal(status: str, sentence: str) -> bytes:
    body = f'{{"error": "{sentence}"}}'
    head = f"HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\nconnection: close"
    return f"{head}\r\n\r\n{body}".encode("ascii")


TOO_SLOW = _refusal("408 Request Timeout", "the request headers did not arrive in time.")
NOT_HTTP = _refusal("400 Bad Request", "the request is not valid HTTP/1.1.")


def protocol_with_timeout(seconds: float) -> type[asyncio.Protocol]:
    """Return uvicorn's protocol with a limit on how long the headers of a request may take.

    Uvicorn itself limits how long a connection may be idle between requests, and not how long a request may take to
    arrive: clients that send a letter now and then would hold their connections for ever.
    """

    class ImpatientProtocol(H11Protocol):
        _timer: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._arm()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            if self._is_between_requests():
                self._arm()
            else:
                self._disarm()

        def connection_lost(self, exc: Exception | None) -> None:
            self._disarm()
            super().connection_lost(exc)

        def send_400_response(self, msg: str) -> None:
            if self.cycle is None or self.cycle.response_complete or not self.cycle.response_started:
                self.transport.write(NOT_HTTP)
            self.transport.close()

        def _is_between_requests(self) -> bool:
            return self.cycle is None or self.cycle.response_complete

        def _arm(self) -> None:
            if self._timer is None:
                self._timer = self.loop.call_later(seconds, self._end)

        def _disarm(self) -> None:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

        def _end(self) -> None:
            self._timer = None
            if self._is_between_requests() and not self.transport.is_closing():
                self.transport.write(TOO_SLOW)
                self.transport.close()

    return ImpatientProtocol
