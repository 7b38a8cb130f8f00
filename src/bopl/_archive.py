"""One file for models and checkpoints: a zip of JSON and plain arrays, never a pickle.

Equal contents give equal bytes. The zip's comment holds the SHA-256 of all bytes before it, so that a truncated or
altered file is refused before anything in it is used. The hash is not a signature: a file may come from anybody, so
members, sizes and types are checked before memory is allocated for them.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import IO, Any

import numpy as np

from bopl._files import replaced_file
from bopl._typing import AnyArray

DOCUMENT = "document.json"
_N_HEAD = 30 + len(DOCUMENT)  # bytes in front of the contents of the first member
_DIGEST_LENGTH = 64  # hexadecimal digits of a SHA-256
_MIN_UNPACKED, _MAX_RATIO = 1 << 26, 250  # bytes that any file may unpack to, and bytes for each byte of the file
_MAX_HEADER = 1 << 12  # bytes of the description in front of an array
_CHUNK = 1 << 22  # bytes of an array that are packed, or of a file that are hashed, at a time
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest time a zip can hold; the real one would change the bytes

Packed = tuple[dict[str, Any], dict[str, AnyArray]]  # what an object writes of itself: JSON facts and plain arrays


@dataclass(frozen=True)
class Archive:
    """What a file holds: its kind, its format number, a JSON document and named arrays.

    ``row_order`` names arrays whose rows are written in another order: row ``order[i]`` comes i-th.
    """

    kind: str
    format_number: int
    document: dict[str, Any]
    arrays: dict[str, AnyArray]
    row_order: Mapping[str, AnyArray] = field(default_factory=dict)


def write_archive(path: str | Path, archive: Archive) -> None:
    """Write the archive in one step: a crash leaves the old file or the new one, never half of one.

    Arrays are packed chunk by chunk into the file, so that writing takes hardly any memory.
    """
    with replaced_file(path) as target:
        if target.is_file():
            with target.open("w+b") as stream:
                _write(stream, archive)
        else:  # a pipe: nothing in it can be written twice
            content = io.BytesIO()
            _write(content, archive)
            target.write_bytes(content.getbuffer())


def _write(stream: IO[bytes], archive: Archive) -> None:
    head = {"kind": archive.kind, "format": archive.format_number, "arrays": sorted(archive.arrays)}
    document = json.dumps({**head, "content": archive.document}, sort_keys=True, indent=1, allow_nan=False)
    with zipfile.ZipFile(stream, "w") as file:
        with _member(file, DOCUMENT) as member:
            member.write(document.encode())
        for name in sorted(archive.arrays):
            with _member(file, f"{name}.npy", archive.arrays[name].nbytes) as member:
                _write_array(member, archive.arrays[name], archive.row_order.get(name))
        file.comment = b"0" * _DIGEST_LENGTH
    body = stream.seek(-_DIGEST_LENGTH, io.SEEK_END)
    digest = _digest(stream, body)
    stream.seek(body)
    stream.write(digest)


def _member(file: zipfile.ZipFile, name: str, n_bytes: int = 0) -> IO[bytes]:
    """Return a new member to write to; ``n_bytes`` is about how much."""
    member = zipfile.ZipInfo(name, date_time=_EPOCH)
    member.compress_type = zipfile.ZIP_DEFLATED
    member.external_attr = 0o644 << 16
    member.file_size = n_bytes
    return file.open(member, "w")


def _write_array(stream: IO[bytes], array: AnyArray, order: AnyArray | None) -> None:
    """Write an array as `numpy.save` writes it row by row, some rows at a time."""
    array = np.atleast_1d(array)
    header = np.lib.format.header_data_from_array_1_0(array)
    np.lib.format.write_array_header_1_0(stream, {**header, "fortran_order": False})
    n_rows = max(_CHUNK // max(array.nbytes // max(len(array), 1), 1), 1)
    for start in range(0, len(array), n_rows):
        rows = slice(start, start + n_rows) if order is None else order[start : start + n_rows]
        stream.write(np.ascontiguousarray(array[rows]).data)


def _digest(stream: IO[bytes], n_bytes: int) -> bytes:
    """Return the hash of the first bytes of a file."""
    digest = hashlib.sha256()
    stream.seek(0)
    while n_bytes > 0 and (chunk := stream.read(min(_CHUNK, n_bytes))):  # others may cut the file meanwhile
        digest.update(chunk)
        n_bytes -= len(chunk)
    return digest.hexdigest().encode()


def read_archive(path: str | Path, kind: str, newest_format: int, *, expected_bytes: int = 0) -> Archive:
    """Read and verify an archive of one kind; every way it can be wrong is one sentence.

    Parameters
    ----------
    path : str or Path
    kind : str
    newest_format : int
    expected_bytes : int
        What the arrays may take besides the usual: a file that unpacks to far more than its size is refused.

    Raises
    ------
    FileNotFoundError
    ValueError
        The file is not such an archive, is damaged, or was written by a newer version.
    """
    if not isinstance(path, str | PathLike):
        raise TypeError(f"the path of a {kind} file must be text or a Path; got {type(path).__name__}.")
    if not Path(path).is_file():
        raise FileNotFoundError(f"there is no {kind} file {str(path)!r}; check the path.")
    with Path(path).open("rb") as file:
        _check_whole(file, path, kind)
        content = file.read()
    if hashlib.sha256(content[:-_DIGEST_LENGTH]).hexdigest().encode() != content[-_DIGEST_LENGTH:]:
        raise _damaged(path)
    return _parse(path, content, kind, newest_format, max(_MIN_UNPACKED, _MAX_RATIO * len(content)) + expected_bytes)


def _check_whole(file: IO[bytes], path: str | Path, kind: str) -> None:
    """Raise if an open file is not ours, or is large and damaged, before all of it is in memory: it may be huge."""
    head, size = file.read(_N_HEAD), file.seek(0, io.SEEK_END)
    file.seek(max(size - _DIGEST_LENGTH, 0))
    digest = file.read()
    if not head.startswith(b"PK\x03\x04") or (not _is_digest(digest) and not _is_our_zip(head)):
        raise ValueError(f"{str(path)!r} is not a bopl {kind} file.")
    if size > _MIN_UNPACKED and _digest(file, size - _DIGEST_LENGTH) != digest:
        raise _damaged(path)
    file.seek(0)


def _damaged(path: str | Path) -> ValueError:
    return ValueError(f"{str(path)!r} is damaged: truncated or altered since it was written. Use another copy.")


def _is_digest(digest: bytes) -> bool:
    return len(digest) == _DIGEST_LENGTH and all(byte in b"0123456789abcdef" for byte in digest)


def _is_our_zip(content: bytes) -> bool:
    """Whether the first member is the one we write first: tells a truncated file of ours from a foreign zip."""
    return content[30:_N_HEAD] == DOCUMENT.encode()


def _parse(path: str | Path, content: bytes, kind: str, newest_format: int, max_unpacked: int) -> Archive:
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as file:
            members = _checked_members(file.infolist(), len(content), max_unpacked)
            head = _read_document(_read_member(file, members[DOCUMENT]))
            if head["kind"] != kind:
                raise _WrongFileError(f"{str(path)!r} is a bopl {head['kind']} file, not a {kind} file.")
            if not 1 <= head["format"] <= newest_format:
                raise _WrongFileError(
                    f"{str(path)!r} has format {head['format']}; this version of bopl reads formats 1 to "
                    f"{newest_format}. Upgrade bopl to read it."
                )
            if sorted(members) != sorted([DOCUMENT, *(f"{name}.npy" for name in head["arrays"])]):
                raise ValueError("its members are not those that it lists")
            arrays = {name: _read_array(file, members[f"{name}.npy"]) for name in head["arrays"]}
            return Archive(kind, head["format"], head["content"], arrays)
    except _WrongFileError as error:
        raise ValueError(str(error)) from None
    except MemoryError:
        raise
    except Exception as error:  # whatever zip, zlib, JSON and numpy find wrong with a file from anybody
        raise ValueError(f"{str(path)!r} is not a bopl {kind} file: {reason_of(error)}.") from error


class _WrongFileError(Exception):
    """An archive of another kind or format, which does not mean damage."""


@contextmanager
def checking_contents(path: str | Path, fault: str) -> Iterator[None]:
    """Turn whatever is raised about a file with invalid contents, however intact it is, into a one-sentence error."""
    try:
        yield
    except (ImportError, MemoryError):  # which are not faults of the file
        raise
    except Exception as error:
        raise ValueError(f"{str(path)!r} {fault}: {reason_of(error)}.") from error


def reason_of(error: BaseException) -> str:
    """Return the text of an error as the end of a sentence: one line, without a full stop."""
    words = " ".join(str(error.args[0] if isinstance(error, KeyError) and error.args else error).split()).rstrip(".")
    text = f"{words!r} is missing" if isinstance(error, KeyError) else words or type(error).__name__
    return text if len(text) <= 300 else f"{text[:300]}…"


def _checked_members(members: Sequence[zipfile.ZipInfo], n_bytes: int, max_unpacked: int) -> dict[str, zipfile.ZipInfo]:
    """Return the members by name, after checking that they are packed like ours and do not unpack to too much."""
    found = {member.filename: member for member in members}
    if len(found) != len(members):
        raise ValueError("it contains a member twice")
    if any(member.compress_type != zipfile.ZIP_DEFLATED or member.flag_bits & 1 for member in members):
        raise ValueError("it contains members that are not packed as bopl packs them")
    if sum(member.compress_size for member in members) > n_bytes:
        raise ValueError("its members overlap")
    total = sum(member.file_size for member in members)
    if total > max_unpacked:
        raise ValueError(f"it unpacks to {total:,} bytes, more than a file of {n_bytes:,} bytes may")
    if DOCUMENT not in found:
        raise ValueError(f"it holds no {DOCUMENT}")
    return found


def _read_member(file: zipfile.ZipFile, member: zipfile.ZipInfo) -> bytes:
    with file.open(member) as stream:
        content = stream.read(member.file_size)
    if len(content) != member.file_size:
        raise ValueError(f"member {member.filename!r} is shorter than it says")
    return content


def _read_document(content: bytes) -> dict[str, Any]:
    """Return the JSON of an archive: finite numbers, text that can be printed, and the four entries of a head."""
    head = json.loads(content, parse_constant=_refuse_constant, parse_float=_finite)
    json.dumps(head, ensure_ascii=False).encode()  # half a surrogate pair could be stored, but never printed
    is_sound = (
        isinstance(head, dict)
        and isinstance(head["kind"], str)
        and isinstance(head["format"], int)
        and isinstance(head["content"], dict)
        and isinstance(head["arrays"], list)
        and all(isinstance(name, str) for name in head["arrays"])
    )
    if not is_sound:
        raise ValueError("its document is not valid")
    return dict(head)


def _refuse_constant(text: str) -> float:
    raise ValueError(f"its document contains {text}, which is not a number")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"its document contains {text}, which is too large a number")
    return number


def _read_array(file: zipfile.ZipFile, member: zipfile.ZipInfo) -> AnyArray:
    """Return an array of numbers whose description fits the bytes that follow it."""
    content = _read_member(file, member)
    stream = io.BytesIO(content)
    version = np.lib.format.read_magic(stream)
    read_header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = read_header(stream, max_header_size=_MAX_HEADER)
    if dtype.kind not in "biuf" or dtype.itemsize > 8 or not dtype.isnative:
        raise ValueError(f"member {member.filename!r} holds {dtype}, not plain numbers")
    n_described = math.prod(shape) * dtype.itemsize
    if min(shape, default=0) < 0 or n_described != len(content) - stream.tell():
        raise ValueError(f"member {member.filename!r} does not hold the {n_described:,} bytes that it describes")
    stream.seek(0)
    array: AnyArray = np.lib.format.read_array(stream, allow_pickle=False)
    if dtype.kind == "b" and (array.view(np.uint8) > 1).any():
        raise ValueError(f"member {member.filename!r} holds truth values that are neither true nor false")
    return array


def check_array(arrays: Mapping[str, AnyArray], name: str, shape: tuple[int, ...]) -> AnyArray:
    """Return an array of a model file, after checking that it is finite and has the shape predicting relies on."""
    array = arrays[name]
    if array.shape != shape or array.dtype not in (np.float32, np.float64) or not np.isfinite(array).all():
        raise ValueError(f"array {name!r} must hold finite numbers of shape {shape}; it has shape {array.shape}")
    return array


def grouped(arrays: Mapping[str, AnyArray], n_groups: int) -> list[dict[str, AnyArray]]:
    """Return the arrays with names ``0/…``, ``1/…`` and so on, by number and without it, in one pass."""
    groups: list[dict[str, AnyArray]] = [{} for _ in range(min(n_groups, len(arrays)))]
    for name, array in arrays.items():
        number, _, rest = name.partition("/")
        if rest and number.isascii() and number.isdigit() and len(number) < 10 and int(number) < len(groups):
            groups[int(number)][rest] = array
    if len(groups) < n_groups:
        raise ValueError(f"it names {n_groups} parts and holds arrays of fewer")
    return groups
