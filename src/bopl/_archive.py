"""One file for models and checkpoints: a zip of JSON and plain arrays, never a pickle.

Equal contents give equal bytes. The zip's comment holds the SHA-256 of all bytes before it, so that a truncated or
altered file is refused before anything in it is looked at.
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bopl._files import write_bytes
from bopl._typing import AnyArray

DOCUMENT = "document.json"
_DIGEST_LENGTH = 64  # hexadecimal digits of a SHA-256
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest time a zip can hold; the real one would change the bytes


@dataclass(frozen=True)
class Archive:
    """What a file holds: its kind, its format number, a JSON document and named arrays."""

    kind: str
    format_number: int
    document: dict[str, Any]
    arrays: dict[str, AnyArray]


def write_archive(path: str | Path, archive: Archive) -> None:
    """Write the archive in one step: a crash leaves the old file or the new one, never half of one."""
    write_bytes(path, _to_bytes(archive))


def _to_bytes(archive: Archive) -> bytes:
    head = {"kind": archive.kind, "format": archive.format_number, "arrays": sorted(archive.arrays)}
    document = json.dumps({**head, "content": archive.document}, sort_keys=True, indent=1, allow_nan=False)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        _add_member(file, DOCUMENT, document.encode())
        for name in sorted(archive.arrays):
            _add_member(file, f"{name}.npy", _array_bytes(archive.arrays[name]))
        file.comment = b"0" * _DIGEST_LENGTH
    content = buffer.getvalue()[:-_DIGEST_LENGTH]
    return content + hashlib.sha256(content).hexdigest().encode()


def _add_member(file: zipfile.ZipFile, name: str, content: bytes) -> None:
    member = zipfile.ZipInfo(name, date_time=_EPOCH)
    member.compress_type = zipfile.ZIP_DEFLATED
    member.external_attr = 0o644 << 16
    file.writestr(member, content)


def _array_bytes(array: AnyArray) -> bytes:
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, np.ascontiguousarray(array), allow_pickle=False)
    return buffer.getvalue()


def read_archive(path: str | Path, kind: str, newest_format: int) -> Archive:
    """Read and verify an archive of one kind; every way it can be wrong is one sentence.

    Raises
    ------
    FileNotFoundError
    ValueError
        The file is not such an archive, is damaged, or was written by a newer version.
    """
    if not Path(path).is_file():
        raise FileNotFoundError(f"there is no {kind} file {str(path)!r}; check the path.")
    content = Path(path).read_bytes()
    if not content.startswith(b"PK\x03\x04"):
        raise ValueError(f"{str(path)!r} is not a bopl {kind} file.")
    body, digest = content[:-_DIGEST_LENGTH], content[-_DIGEST_LENGTH:]
    if not _is_digest(digest) and not _is_our_zip(content):
        raise ValueError(f"{str(path)!r} is not a bopl {kind} file.")
    if hashlib.sha256(body).hexdigest().encode() != digest:
        raise ValueError(f"{str(path)!r} is damaged: truncated or altered since it was written. Use another copy.")
    return _parse(path, content, kind, newest_format)


def _is_digest(digest: bytes) -> bool:
    return len(digest) == _DIGEST_LENGTH and all(byte in b"0123456789abcdef" for byte in digest)


def _is_our_zip(content: bytes) -> bool:
    """Whether the first member is the one we write first: tells a truncated file of ours from a foreign zip."""
    return content[30 : 30 + len(DOCUMENT)] == DOCUMENT.encode()


def _parse(path: str | Path, content: bytes, kind: str, newest_format: int) -> Archive:
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as file:
            head = json.loads(file.read(DOCUMENT))
            if head["kind"] != kind:
                raise ValueError(f"{str(path)!r} is a bopl {head['kind']} file, not a {kind} file.")
            if not 1 <= head["format"] <= newest_format:
                raise ValueError(
                    f"{str(path)!r} has format {head['format']}; this version of bopl reads formats 1 to "
                    f"{newest_format}. Upgrade bopl to read it."
                )
            arrays = {name: _read_array(file.read(f"{name}.npy")) for name in head["arrays"]}
            return Archive(kind, head["format"], head["content"], arrays)
    except (zipfile.BadZipFile, KeyError, TypeError, json.JSONDecodeError, EOFError, OSError) as error:
        raise ValueError(f"{str(path)!r} is not a bopl {kind} file: {error}.") from None


def _read_array(content: bytes) -> AnyArray:
    array: AnyArray = np.lib.format.read_array(io.BytesIO(content), allow_pickle=False)
    return array


def check_array(arrays: Mapping[str, AnyArray], name: str, shape: tuple[int, ...]) -> AnyArray:
    """Return an array of a model file, after checking that it is finite and has the shape predicting relies on."""
    array = arrays[name]
    if array.shape != shape or array.dtype.kind != "f" or not np.isfinite(array).all():
        raise ValueError(f"array {name!r} must hold finite numbers of shape {shape}; it has shape {array.shape}")
    return array
