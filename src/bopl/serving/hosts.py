"""Which names a server answers to: a page of somebody else's can give its own name the address of this machine."""

from __future__ import annotations

import ipaddress
from collections.abc import Collection

ANY = "*"
LOCAL = "localhost"


class AllowedHosts:
    """The names that may stand in the header ``Host``.

    Addresses are always allowed: an attacker's page has a name, and a browser sends that.

    Parameters
    ----------
    names : collection of str
        Names beside localhost; ``*`` allows all, ``*.example.org`` all below a domain.
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
