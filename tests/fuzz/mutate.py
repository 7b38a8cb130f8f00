"""Spoiling files: archives part by part and signed again, everything else by bytes, numbers and lines."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import struct
import zipfile
from collections.abc import Callable
from typing import Any

import numpy as np

DIGEST_LENGTH = 64
EXTREMES = [0, 1, -1, 2, -2, 3, 7, 63, 64, 65, 127, 128, 255, 256, 1000, 2**15, 2**16, 2**31 - 1, -(2**31), 2**40]
EXTREMES += [2**62, 2**63 - 1, -(2**63)]
FLOATS = [0.0, -0.0, 1.0, -1.0, 0.5, 1e-320, 1e-30, 1e30, 1e77, 1e300, 1.7e308, -1.7e308, np.nan, np.inf, -np.inf]
JUNK = [None, True, False, "", "x", "inf", "nan", "\ud800", "é" * 50, [], {}, [[]], {"a": 1}, [1, 2, 3], "tree"]
JUNK += ["hist_tree", "linear", "mixed", "logging", "network", "BoostedPolicy", "AutoPolicy", "XGBRewardPolicy", 1e300]
TOKENS = [b"", b"NaN", b"inf", b"-1", b"1e400", b"1e77", b"null", b"\x00", b"\xff\xfe", b"a" * 300, b"0", b"2", b"01"]
TOKENS += [b"9" * 30, b"[", b"{", b'"', b",", b"|", b":", b"\r", b"true", b"2024-13-41", b"1_000", b"\xe2\x80\xa8"]


def pick(rng: np.random.Generator, options: Any) -> Any:
    """Return one of some options."""
    return options[int(rng.integers(0, len(options)))]


# -- Archives ---------------------------------------------------------------------------------------------------------


def mutate_archive(rng: np.random.Generator, content: bytes) -> bytes:
    """Return an archive with something else in it, signed as if it were ours; now and then without the signature."""
    roll = rng.random()
    if roll < 0.03:
        return mutate_bytes(rng, content)
    if roll < 0.10:
        return sign(mutate_bytes(rng, content[:-DIGEST_LENGTH]))
    members = unpack(content)
    for _ in range(int(rng.integers(1, 4))):
        pick(rng, MEMBER_CHANGES)(rng, members)
    return pack(rng, members)


def sign(body: bytes) -> bytes:
    """Return bytes with their hash after them."""
    return body + hashlib.sha256(body).hexdigest().encode()


def unpack(content: bytes) -> dict[str, bytes]:
    """Return the members of an archive."""
    with zipfile.ZipFile(io.BytesIO(content)) as file:
        return {name: file.read(name) for name in file.namelist()}


def pack(rng: np.random.Generator, members: dict[str, bytes]) -> bytes:
    """Return members as an archive; now and then with one of them twice, or packed in another way."""
    buffer = io.BytesIO()
    names = list(members)
    is_odd = rng.random() < 0.03
    with zipfile.ZipFile(buffer, "w") as file:
        for name in [*names, *([pick(rng, names)] if names and is_odd and rng.random() < 0.5 else [])]:
            kind = zipfile.ZIP_STORED if is_odd and rng.random() < 0.3 else zipfile.ZIP_DEFLATED
            file.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), members[name], kind)
        file.comment = b"0" * DIGEST_LENGTH
    return sign(buffer.getvalue()[:-DIGEST_LENGTH])


def _an_array(rng: np.random.Generator, members: dict[str, bytes]) -> tuple[str, np.ndarray] | None:
    name = pick(rng, [name for name in members if name.endswith(".npy")] or [""])
    try:
        return name, np.load(io.BytesIO(members[name]), allow_pickle=False)
    except Exception:  # spoiled by an earlier change: headers that are no Python, or ask for exabytes
        return None


def _put_array(members: dict[str, bytes], name: str, array: np.ndarray) -> None:
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, np.ascontiguousarray(array), allow_pickle=False)
    members[name] = buffer.getvalue()


def change_entries(rng: np.random.Generator, members: dict[str, bytes]) -> None:
    """Set some entries of an array to numbers that are special, or to others of the same array."""
    found = _an_array(rng, members)
    if found is None or found[1].size == 0:
        return
    name, array = found[0], found[1].copy()
    flat = array.reshape(-1)
    for _ in range(int(rng.integers(1, 4))):
        place = int(rng.integers(0, len(flat)))
        kind = flat.dtype.kind
        value = pick(rng, FLOATS) if kind == "f" else pick(rng, EXTREMES)
        if rng.random() < 0.3:
            value = flat[int(rng.integers(0, len(flat)))]
        elif rng.random() < 0.3:
            value = flat[place].item() + pick(rng, [-2, -1, 1, 2]) if kind in "iuf" else flat[place]
        with np.errstate(all="ignore"), contextlib.suppress(OverflowError):  # text of one array as a number of another
            flat[place] = np.array(value).astype(flat.dtype)
        if rng.random() < 0.05:
            flat[:] = flat[place]
    _put_array(members, name, array)


def change_shape(rng: np.random.Generator, members: dict[str, bytes]) -> None:
    """Cut, repeat, reshape, retype or empty an array."""
    found = _an_array(rng, members)
    if found is None:
        return
    name, array = found
    changes: list[Callable[[], Any]] = [
        lambda: array[:-1] if array.ndim else array,
        lambda: array[:1] if array.ndim else array,
        lambda: array[:0] if array.ndim else array,
        lambda: np.concatenate([array, array]) if array.ndim else array,
        lambda: array.reshape(-1),
        lambda: array[None],
        lambda: array.T,
        lambda: array[::-1] if array.ndim else array,
        lambda: np.array(array.sum()),
        lambda: array.astype(pick(rng, ["f8", "f4", "f2", "i8", "i4", "u1", "?", "u8", "c16", "U5", ">f8", "S3"])),
        lambda: np.zeros((0, *array.shape)),
        lambda: np.zeros(array.shape, array.dtype),
    ]
    with np.errstate(all="ignore"):
        try:
            _put_array(members, name, pick(rng, changes)())
        except (ValueError, TypeError):
            return


def change_header(rng: np.random.Generator, members: dict[str, bytes]) -> None:
    """Let an array's description promise something else."""
    found = _an_array(rng, members)
    if found is None:
        return
    name, array = found
    shape = pick(rng, ["(10**12,)", "(1000000000000,)", "(2, 3)", "(-1,)", "(0,)", "()", "(4611686018427387904, 4)"])
    kind = pick(rng, ["<f8", "|O", "<i4", "|V8", "<U1000000", "<f8", "|b1", "<f4"])
    head = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}".encode()
    head += b" " * (-(len(head) + 11) % 64) + b"\n"
    members[name] = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head + array.tobytes()


def change_members(rng: np.random.Generator, members: dict[str, bytes]) -> None:
    """Swap, drop, add, spoil or blow up members."""
    names = [name for name in members if name.endswith(".npy")]
    if not names:
        return
    one, other, roll = pick(rng, names), pick(rng, names), rng.random()
    if roll < 0.4:
        members[one], members[other] = members[other], members[one]
    elif roll < 0.6:
        del members[one]
    elif roll < 0.75:
        members[one] = mutate_bytes(rng, members[one])
    elif roll < 0.85:
        members[pick(rng, ["extra.npy", "../up.npy", "/root.npy", "hello.txt"])] = members[other]
    elif roll < 0.9:
        members[one] = members[one] + b"\x00" * int(pick(rng, [1, 1000, 1 << 20]))
    else:
        members[one] = members[other]


def change_document(rng: np.random.Generator, members: dict[str, bytes]) -> None:
    """Change one entry of the JSON."""
    try:
        document = json.loads(members["document.json"])
    except (KeyError, ValueError, RecursionError):
        return
    places = list(_places(document))
    parent, key = pick(rng, places)
    roll = rng.random()
    if roll < 0.15 and isinstance(parent, dict):
        del parent[key]
    elif roll < 0.25 and isinstance(parent, list):
        parent.extend(parent[: int(pick(rng, [1, 2, 50]))])
    elif roll < 0.35:
        other, its = pick(rng, places)
        parent[key], other[its] = other[its], parent[key]
    elif roll < 0.4:
        parent[key] = [parent[key]]
    else:
        value = pick(rng, [*JUNK, *EXTREMES, *FLOATS, 10**40, -0.5, 1e-9])
        parent[key] = value
    try:
        text = json.dumps(document)
    except (ValueError, RecursionError):  # a cycle
        return
    if rng.random() < 0.01:
        text = text.replace(": 1", ": " + pick(rng, ["NaN", "1e999", "-Infinity", "[" * 5000, '{"a":' * 3000]), 1)
    members["document.json"] = text.encode("utf8", "surrogatepass")


def _places(node: Any) -> Any:
    pairs = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, value in list(pairs):
        yield node, key
        yield from _places(value)


MEMBER_CHANGES = [change_entries] * 8 + [change_document] * 7 + [change_shape] * 3 + [change_members] * 2
MEMBER_CHANGES += [change_header]


# -- Bytes and lines --------------------------------------------------------------------------------------------------


def mutate_bytes(rng: np.random.Generator, content: bytes) -> bytes:
    """Flip, set, cut, repeat or drop bytes."""
    data = bytearray(content)
    for _ in range(int(rng.integers(1, 6))):
        if not data:
            return b""
        at, roll = int(rng.integers(0, len(data))), rng.random()
        if rng.random() < 0.3:  # what describes the rest stands at the ends
            at = min(at % 512, len(data) - 1) if rng.random() < 0.5 else max(len(data) - 1 - at % 2048, 0)
        if roll < 0.35:
            data[at] ^= 1 << int(rng.integers(0, 8))
        elif roll < 0.5:
            data[at] = int(pick(rng, [0, 1, 127, 128, 255]))
        elif roll < 0.75:
            size = int(pick(rng, [2, 4, 8]))
            value = int(pick(rng, EXTREMES)) % (1 << 8 * size)
            data[at : at + size] = value.to_bytes(size, "little")
        elif roll < 0.83:
            del data[at : at + int(rng.integers(1, 64))]
        elif roll < 0.9:
            start = int(rng.integers(0, len(data)))
            data[at:at] = data[start : start + int(rng.integers(1, 64))]
        elif roll < 0.93:
            data = data[:at]
        else:
            start, size = int(rng.integers(0, len(data))), int(rng.integers(1, 64))
            data[at : at + size] = data[start : start + size]
    return bytes(data)


def mutate_text(rng: np.random.Generator, content: bytes) -> bytes:
    """Change lines and fields of a text file, or its bytes."""
    if rng.random() < 0.3:
        return mutate_bytes(rng, content)
    lines = content.split(b"\n")
    for _ in range(int(rng.integers(1, 4))):
        at, roll = int(rng.integers(0, len(lines))), rng.random()
        at = 0 if rng.random() < 0.15 else at
        if roll < 0.6:
            mark = pick(rng, [b",", b" ", b":", b'"'])
            fields = lines[at].split(mark)
            fields[int(rng.integers(0, len(fields)))] = pick(rng, TOKENS)
            lines[at] = mark.join(fields)
        elif roll < 0.7:
            lines.insert(at, pick(rng, lines))
        elif roll < 0.8:
            del lines[at]
            lines = lines or [b""]
        elif roll < 0.9:
            lines[at] = lines[at] + pick(rng, TOKENS)
        else:
            mark = pick(rng, TOKENS[:-1])
            lines = [line.replace(b"0.3", mark) for line in lines]
    return b"\n".join(lines)
