"""UBJSON as XGBoost writes it: lists with their lengths, and arrays of numbers of one type."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

MAX_DEPTH = 16
# Marks of numbers: how one of them is packed, and how many are.
_NUMBER = {b"i": ">b", b"U": ">B", b"I": ">h", b"l": ">i", b"L": ">q", b"d": ">f", b"D": ">d"}
_ARRAY = {b"U": ">u1", b"i": ">i1", b"I": ">i2", b"l": ">i4", b"L": ">i8", b"d": ">f4", b"D": ">f8"}
_MARK = {np.dtype(kind).newbyteorder("="): mark for mark, kind in _ARRAY.items()}
_WHOLE = (b"i", b"I", b"l", b"L")  # integers take the first that can hold them


def decode(content: bytes) -> Any:
    """Return the decoded bytes: dicts, lists, text, numbers, and numpy arrays if numbers share a type."""
    reader = _Reader(content)
    value = reader.value(0)
    if reader.position != len(content):
        raise ValueError("there is more than one value")
    return value


class _Reader:
    """Reads bytes once, and refuses to read past their end before it allocates memory."""

    def __init__(self, content: bytes) -> None:
        self.content, self.position = content, 0

    def take(self, n_bytes: int) -> bytes:
        if not 0 <= n_bytes <= len(self.content) - self.position:
            raise ValueError("it ends too early")
        self.position += n_bytes
        return self.content[self.position - n_bytes : self.position]

    def peek(self) -> bytes:
        return self.content[self.position : self.position + 1]

    def value(self, depth: int) -> Any:
        mark = self.take(1)
        if depth > MAX_DEPTH:
            raise ValueError("it is nested too deeply")
        if mark == b"{":
            return self.object(depth)
        if mark == b"[":
            return self.array(depth)
        if mark == b"S":
            return self.text()
        return self.number(mark)

    def number(self, mark: bytes) -> Any:
        if mark not in _NUMBER:
            raise ValueError(f"{mark!r} marks nothing that is known")
        form = _NUMBER[mark]
        return struct.unpack(form, self.take(struct.calcsize(form)))[0]

    def length(self) -> int:
        length = self.number(self.take(1))
        if not isinstance(length, int) or not 0 <= length <= len(self.content):
            raise ValueError("a length is not valid")
        return length

    def text(self) -> str:
        return self.take(self.length()).decode()

    def object(self, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        while self.peek() != b"}":
            name = self.text()
            if name in found:
                raise ValueError(f"it names {name!r} twice")
            found[name] = self.value(depth + 1)
        self.take(1)
        return found

    def array(self, depth: int) -> Any:
        if self.peek() == b"$":
            self.take(1)
            mark = self.take(1)
            if mark not in _ARRAY or self.take(1) != b"#":
                raise ValueError("an array is of no type that is known")
            kind = np.dtype(_ARRAY[mark])
            return np.frombuffer(self.take(self.length() * kind.itemsize), kind).astype(kind.newbyteorder("="))
        if self.take(1) != b"#":
            raise ValueError("an array does not say how long it is")
        return [self.value(depth + 1) for _ in range(self.length())]


def encode(value: Any) -> bytes:
    """Return the bytes that `decode` reads, as XGBoost writes them."""
    if isinstance(value, dict):
        return b"{" + b"".join(_text(name) + encode(part) for name, part in value.items()) + b"}"
    if isinstance(value, str):
        return b"S" + _text(value)
    if isinstance(value, np.ndarray):
        mark = _MARK[value.dtype]
        return b"[$" + mark + b"#" + _length(value) + value.astype(_ARRAY[mark]).tobytes()
    if isinstance(value, list):
        return b"[#" + _length(value) + b"".join(map(encode, value))
    mark = next(mark for mark in _WHOLE if abs(value) < 1 << 8 * struct.calcsize(_NUMBER[mark]) - 1)
    return mark + struct.pack(_NUMBER[mark], value)


def _text(text: str) -> bytes:
    content = text.encode()
    return _length(content) + content


def _length(value: Any) -> bytes:
    return b"L" + struct.pack(">q", len(value))
