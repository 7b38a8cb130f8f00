"""Leaking columns: found before anything is learned from them."""

from bopl.log.leak.find import find_leaks
from bopl.log.leak.leak import Leak

__all__ = ["Leak", "find_leaks"]
