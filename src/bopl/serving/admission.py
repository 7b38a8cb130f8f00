"""What stands before the service: name, token, size, rate and patience; every refusal is one sentence.

A page of somebody else's can give its own name the address of this machine, so that names are checked, too.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hmac
import ipaddress
import json
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Collection, MutableMapping
from typing import Any, TypeAlias

from bopl.serving.settings import LoopSettings

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
App: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

OPEN_PATHS = ("/health",)  # for load balancers, which have no token; it tells nothing but whether it serves
MAX_DRAINED = 64 * 2**20  # bytes of a refused body that are read, so that the refusal can be
_JSON = (b"content-type", b"application/json")
MAX_CLIENTS = 4096  # addresses with a bucket of their own
IPV6_PREFIX = 64  # bits: what one subscriber gets, and can change within
ANY, LOCAL = "*", "localhost"  # names of hosts


class AllowedHosts:
    """The names that may stand in the header ``Host``, besides localhost.

    Addresses are always allowed: an attacker's page has a name, and a browser sends that. ``*`` allows all names,
    ``*.example.org`` all below a domain.
    """

    def __init__(self, names: Collection[str]) -> None:
        lowered = {name.lower().rstrip(".") for name in names}
        self._allows_all = ANY in lowered
        self._names = frozenset({LOCAL, *lowered})
        self._domains = (f".{LOCAL}", *(name[1:] for name in lowered if name.startswith("*.")))

    def allows(self, host: str) -> bool:
        """Return whether a request with this header is answered."""
        name = name_of(host)
        return self._allows_all or name in self._names or name.endswith(self._domains) or _is_address(name)


def name_of(host: str) -> str:
    """Return the name in a header ``Host``, without its port."""
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.partition(":")[0].lower().rstrip(".")


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


class RateLimit:
    """A token bucket that holds one second's worth of requests."""

    def __init__(self, per_second: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_second, self._clock = per_second, clock
        self._room, self._last = max(per_second, 1.0), clock()

    def take(self) -> float:
        """Take one request's worth, and return 0; or return the seconds until there will be one."""
        if not self._per_second:
            return 0.0
        self._fill()
        if self._room < 1.0:
            return (1.0 - self._room) / self._per_second
        self._room -= 1.0
        return 0.0

    @property
    def is_full(self) -> bool:
        """Whether it is as good as a new one."""
        self._fill()
        return self._room >= max(self._per_second, 1.0)

    def _fill(self) -> None:
        now = self._clock()
        self._room = min(self._room + max(now - self._last, 0.0) * self._per_second, max(self._per_second, 1.0))
        self._last = now


class ClientRates:
    """A `RateLimit` for each client address.

    Addresses whose bucket has filled up again make room for others. Where all of them are busy, addresses that come
    later share one bucket: nobody takes room from those who are here already, and the table stays as it is.

    Parameters
    ----------
    per_second : float
        Requests a second of one address; 0 for no limit.
    max_clients : int
        Addresses with a bucket of their own.
    clock : callable returning seconds
    """

    def __init__(
        self, per_second: float, *, max_clients: int = MAX_CLIENTS, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._per_second, self._max_clients, self._clock = per_second, max_clients, clock
        self._buckets: OrderedDict[str, RateLimit] = OrderedDict()  # the one asked longest ago first
        self._shared = RateLimit(per_second, clock)

    def __len__(self) -> int:
        return len(self._buckets)

    def take(self, address: str) -> float:
        """Take one request's worth of an address, and return 0; or return the seconds until there will be one."""
        return self._bucket(client_of(address)).take() if self._per_second else 0.0

    def _bucket(self, client: str) -> RateLimit:
        found = self._buckets.get(client)
        if found is not None:
            self._buckets.move_to_end(client)
            return found
        if len(self._buckets) >= self._max_clients:
            oldest = next(iter(self._buckets))
            if not self._buckets[oldest].is_full:
                return self._shared
            del self._buckets[oldest]
        self._buckets[client] = found = RateLimit(self._per_second, self._clock)
        return found


def client_of(address: str) -> str:
    """Return what a client is known by: its IPv4 address, or the network of its IPv6 address."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv6Address):
        if found.ipv4_mapped is not None:
            return str(found.ipv4_mapped)
        return str(ipaddress.ip_network((found, IPV6_PREFIX), strict=False))
    return str(found)


class Refusal(Exception):  # noqa: N818
    """A request that is not let through."""

    def __init__(self, status: int, sentence: str, **headers: str) -> None:
        super().__init__(sentence)
        self.status, self.headers = status, headers


class Limits:
    """Lets through what carries the token and keeps to the limits, with its whole body.

    Parameters
    ----------
    app : ASGI application
    settings : LoopSettings
    token : str or None
        None lets everybody in.
    count : callable
        Told path and status of every answer.
    """

    def __init__(self, app: App, settings: LoopSettings, token: str | None, count: Callable[[str, int], None]) -> None:
        self._app, self._settings, self._count = app, settings, count
        self._token = None if token is None else token.encode()
        self._rates = ClientRates(settings.max_requests_per_second)
        # A token says more than a name, so that names need not be listed where there is one.
        is_named = token is None or settings.allowed_hosts
        self._hosts = AllowedHosts([settings.host, *settings.allowed_hosts]) if is_named else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            if scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": 1003})
                return
            await self._app(scope, receive, send)
            return

        async def counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._count(scope["path"], message["status"])
            await send(message)

        try:
            body = await self._let_in(scope, receive)
        except Refusal as refusal:
            await refuse(counted, refusal)
            return
        except _GoneError:
            return
        await self._app(scope, _replay(body, receive), counted)

    async def _let_in(self, scope: Scope, receive: Receive) -> bytes:
        headers = dict(scope["headers"])
        self._check_host(headers)
        if self._token is not None and scope["path"] not in OPEN_PATHS and not self._is_known(headers):
            raise Refusal(
                401,
                "the request needs the loop's token, as in 'Authorization: Bearer …'.",
                **{"www-authenticate": 'Bearer, Basic realm="bopl"'},
            )
        address = (scope.get("client") or ("",))[0]
        wait = 0.0 if scope["path"] in OPEN_PATHS else self._rates.take(address)
        if wait:
            raise Refusal(
                429,
                f"more than {self._settings.max_requests_per_second:g} requests a second; try again.",
                **{"retry-after": str(max(1, round(wait)))},
            )
        if scope["method"] in ("GET", "HEAD"):
            return b""
        # Other types could be sent by a page of somebody else's in the browser of somebody who may.
        if scope["method"] == "POST" and not headers.get(b"content-type", b"").startswith(b"application/json"):
            raise Refusal(415, "the body must be JSON, with the header 'Content-Type: application/json'.")
        try:
            async with asyncio.timeout(self._settings.request_timeout_s):
                return await self._read(receive)
        except TimeoutError:
            raise Refusal(
                408, f"the body did not arrive within {self._settings.request_timeout_s:g} seconds.", connection="close"
            ) from None

    def _check_host(self, headers: dict[bytes, bytes]) -> None:
        """Refuse a request that was sent to a name that is not ours; without a name it does not come from a page."""
        host = headers.get(b"host", b"").decode("latin-1")
        if self._hosts is not None and host and not self._hosts.allows(host):
            raise Refusal(
                421,
                f"requests to {host[:100]!r} are not answered; list the name as one of allowed_hosts in loop.toml.",
            )

    def _is_known(self, headers: dict[bytes, bytes]) -> bool:
        assert self._token is not None
        kind, _, given = headers.get(b"authorization", b"").partition(b" ")
        if kind.lower() == b"basic":  # what browsers ask for: any name, and the token for a password
            try:
                given = base64.b64decode(given, validate=True).partition(b":")[2]
            except binascii.Error:
                given = b""
        elif kind.lower() != b"bearer":
            given = b""
        return hmac.compare_digest(given.strip(), self._token)

    async def _read(self, receive: Receive) -> bytes:
        """Return the body; one that is too large is read to its end and thrown away, within reason."""
        pieces: list[bytes] = []
        size, most = 0, self._settings.max_body_bytes
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise _GoneError
            piece = message.get("body", b"")
            size += len(piece)
            if size <= most:
                pieces.append(piece)
            if not message.get("more_body", False) or size > MAX_DRAINED:
                break
        if size > most:
            raise Refusal(413, f"the body is larger than {most} bytes.", connection="close")
        return b"".join(pieces)


class _GoneError(Exception):
    """The client went away before its request was complete."""


async def refuse(send: Send, refusal: Refusal) -> None:
    """Answer with a refusal."""
    body = json.dumps({"error": str(refusal)}).encode()
    headers = [_JSON, (b"content-length", str(len(body)).encode())]
    headers += [(name.encode(), value.encode()) for name, value in refusal.headers.items()]
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _replay(body: bytes, receive: Receive) -> Receive:
    """Return a way to receive a body that was read already."""
    is_told = False

    async def replay() -> Message:
        nonlocal is_told
        if is_told:
            return await receive()
        is_told = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay
