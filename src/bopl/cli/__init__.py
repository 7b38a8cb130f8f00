"""The ``bopl`` command: one file per command, and nothing heavy is imported before a command needs it."""

from bopl.cli.main import app, main

__all__ = ["app", "main"]
