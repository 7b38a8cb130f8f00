"""Serving: decisions over HTTP, with every event on disk before it is answered."""

from __future__ import annotations

from bopl.serving.events import EventStore
from bopl.serving.settings import LoopSettings, read_settings

__all__ = ["EventStore", "LoopSettings", "read_settings"]
