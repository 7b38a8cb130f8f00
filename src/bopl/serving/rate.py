"""How many requests a client may send: one bucket for each address, in a table that cannot grow."""

from __future__ import annotations

import ipaddress
import time
from collections import OrderedDict
from collections.abc import Callable

MAX_CLIENTS = 4096  # addresses with a bucket of their own
IPV6_PREFIX = 64  # bits: what one subscriber gets, and can change within


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
