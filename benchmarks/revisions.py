"""Code of another commit, for benchmarks that compare it with this one in the same run."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def commit() -> str:
    """Return the short name of the commit that is checked out."""
    command = ["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip() or "unknown"


@contextmanager
def worktree(revision: str, folder: Path) -> Iterator[Path]:
    """Check a commit out into a folder, and remove it at the end."""
    git = ["git", "-C", str(ROOT), "worktree"]
    subprocess.run([*git, "add", "--quiet", "--detach", str(folder), revision], check=True)
    try:
        yield folder
    finally:
        subprocess.run([*git, "remove", "--force", str(folder)], check=True)


def environment_of(code: Path | None) -> dict[str, str]:
    """Return the environment of a process that imports bopl from a folder, or from where this process has it."""
    return dict(os.environ) if code is None else os.environ | {"PYTHONPATH": str(code)}
