"""HTTP/1.1 for impatient servers: connections that do not finish their headers in time, or send none, are closed."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol


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
