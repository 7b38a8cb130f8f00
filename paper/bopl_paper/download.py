"""Downloading data files: from a mirror, or through scikit-learn from OpenML.

Nothing downloaded is used before its checksum is verified. ``BOPL_DATA_URL`` names a mirror, a web folder with the
data files; without it the data comes from OpenML and is written to the cache folder. ``BOPL_OFFLINE=1``
forbids both.
"""

from __future__ import annotations

import hashlib
import os
import socket
import sys
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bopl._files import replacing, write_bytes
from bopl._typing import AnyArray

CHUNK_BYTES = 1 << 16
TIMEOUT_SECONDS = 30.0  # without an answer


@dataclass(frozen=True)
class OpenML:
    """A dataset on OpenML, and how its columns become the arrays of our data file."""

    arrays: Callable[[AnyArray, AnyArray], dict[str, AnyArray]]  # data and target as fetched -> named arrays
    data_id: int | None = None
    name: str | None = None
    version: int | str = "active"
    has_boolean_labels: bool = False  # scikit-learn's fast parser fails on TRUE and FALSE


def is_offline() -> bool:
    """Return whether ``BOPL_OFFLINE`` forbids downloads."""
    return os.environ.get("BOPL_OFFLINE", "") not in ("", "0")


def download(
    file: str, sha256: str, openml: OpenML | None, folder: Path, *, is_right: Callable[[dict[str, AnyArray]], bool]
) -> Path | None:
    """Download a data file to ``folder``; return its path, or None if there is no source.

    Parameters
    ----------
    file, sha256 : str
        Name of the file and checksum of its bytes on a mirror.
    openml : OpenML, optional
    folder : Path
    is_right : callable of the arrays that OpenML sent
        Whether their contents are as expected.

    Raises
    ------
    ValueError
        The data has another checksum; nothing is kept.
    OSError
        The server could not be reached.
    """
    mirror = os.environ.get("BOPL_DATA_URL")
    if is_offline() or (mirror is None and openml is None):
        return None
    folder.mkdir(parents=True, exist_ok=True)
    if mirror is not None:
        return _from_mirror(f"{mirror.rstrip('/')}/{file}", sha256, folder / file)
    assert openml is not None
    return _from_openml(openml, folder / file, is_right)


def _from_mirror(url: str, sha256: str, target: Path) -> Path:
    content = bytearray()  # tens of megabytes; a network failure says nothing about the file
    with urllib.request.urlopen(url, timeout=TIMEOUT_SECONDS) as response:
        total = int(response.headers.get("Content-Length") or 0) or None
        with _bar(f"downloading {target.name}", total) as advance:
            while chunk := response.read(CHUNK_BYTES):
                content += chunk
                advance(len(chunk))
    found = hashlib.sha256(content).hexdigest()
    if found != sha256:
        raise ValueError(
            f"what {url} sent is damaged or another version: its SHA-256 is {found[:12]}…, expected {sha256[:12]}…. "
            "Nothing was kept."
        )
    write_bytes(target, bytes(content))
    return target


def _from_openml(openml: OpenML, target: Path, is_right: Callable[[dict[str, AnyArray]], bool]) -> Path:
    from importlib.util import find_spec

    from sklearn.datasets import fetch_openml

    is_quick = find_spec("pandas") is not None and not openml.has_boolean_labels
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(TIMEOUT_SECONDS)
    try:
        with _bar(f"downloading {target.name} from OpenML", None):
            data, label = fetch_openml(
                name=openml.name,
                version=openml.version,
                data_id=openml.data_id,
                cache=False,
                as_frame=False,
                return_X_y=True,
                parser="pandas" if is_quick else "liac-arff",
            )
    finally:
        socket.setdefaulttimeout(before)
    arrays: dict[str, Any] = dict(openml.arrays(np.asarray(data), np.asarray(label)))
    if not is_right(arrays):
        raise ValueError(
            f"what OpenML sent as {target.name} is damaged or another version: the SHA-256 of its contents is not the "
            "expected one. Nothing was kept."
        )
    with replacing(target) as file:
        np.savez_compressed(file, **arrays)
    return target


@contextmanager
def _bar(text: str, total: int | None) -> Iterator[Callable[[int], None]]:
    """Yield a function of bytes that updates a progress bar, or prints one line if nobody is watching."""
    if not sys.stderr.isatty():
        print(text, file=sys.stderr)
        yield lambda n_bytes: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn(text), BarColumn(), DownloadColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(file=sys.stderr), transient=True) as bar:
        task = bar.add_task("", total=total)
        yield lambda n_bytes: bar.advance(task, n_bytes)
