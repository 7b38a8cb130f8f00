"""Footers of Parquet files: how many rows each row group has, which columns, and whether a file is still the same."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bopl._errors import UsageError, did_you_mean
from bopl.log.format.columnar import checked, open_parquet
from bopl.log.format.files import LogFile, find_files
from bopl.log.frame import usual_kind

_TAIL_BYTES = 8  # of a Parquet file: the length of the footer and four letters


@dataclass(frozen=True)
class Footer:
    """What a Parquet file says of itself."""

    path: str
    partition: tuple[tuple[str, str], ...]  # of (name, value): columns that the file's folders stand for
    stamp: str  # fingerprint of the file: its size, the time of its last change, and its footer
    schema: Any  # with the columns of ``partition``, as text
    group_rows: tuple[int, ...]  # rows of each row group
    n_bytes: int  # bytes of its columns once they are no longer compressed, as the footer has it


def find_footers(path: str | Path | Sequence[str | Path]) -> list[Footer]:
    """Return the footers of the files that a path, a pattern, a folder or a list of them means, in order."""
    files = find_files(path)
    if not files:
        raise UsageError("there is no file to scan: the list of paths is empty.")
    return [_read_footer(file) for file in files]


def file_stamp(path: str | Path) -> str:
    """Return the fingerprint of a Parquet file: its size, the time of its last change, and its footer."""
    return str(checked(path, "Parquet", _stamp))


def check_unchanged(path: str, stamp: str) -> None:
    """Raise one sentence if a file is gone or is no longer the one that was scanned."""
    if not Path(path).exists():
        raise FileNotFoundError(
            f"{path!r} existed when the log was scanned but is gone: restore it, or scan the log again."
        )
    if file_stamp(path) != stamp:
        raise ValueError(
            f"{path!r} has changed since the log was scanned: scan it again, and leave its files alone while they are "
            "used."
        )


def common_types(footers: Sequence[Footer], columns: Sequence[str]) -> dict[str, Any]:
    """Return the Arrow type that each column has in all files; numbers of several widths become the widest.

    Text is text, whether a file stores it as positions in a dictionary or not, and times with a zone are in UTC.
    """
    return {name: _common_type(footers, name) for name in columns}


def plain_type(kind: Any) -> Any:
    """Return the type that values have once they are read; that of the values for positions in a dictionary."""
    from pyarrow import types

    kind = usual_kind(kind)
    return usual_kind(kind.value_type) if types.is_dictionary(kind) else kind


def _common_type(footers: Sequence[Footer], name: str) -> Any:
    import pyarrow

    owner = next((one for one in footers if name in one.schema.names), None)
    if owner is None:
        raise UsageError(
            f"there is no column {name!r} in {footers[0].path!r}.{did_you_mean(name, footers[0].schema.names)}"
        )
    found = pyarrow.field(name, plain_type(owner.schema.field(name).type))
    for footer in footers:
        kind = plain_type(footer.schema.field(name).type)
        try:
            merged = pyarrow.unify_schemas(
                [pyarrow.schema([found]), pyarrow.schema([pyarrow.field(name, kind)])], promote_options="permissive"
            )
            if (_is_text(found.type) or _is_text(kind)) and not _is_text(merged.field(name).type):
                raise pyarrow.ArrowTypeError("text would become bytes")
        except (pyarrow.ArrowInvalid, pyarrow.ArrowTypeError):
            raise ValueError(
                f"column {name!r} holds {found.type} in {owner.path!r} and {kind} in {footer.path!r}: files of one "
                "log have the same columns. Exclude it with ignore, or rewrite one of the files."
            ) from None
        found = merged.field(name)
    return found.type


def _is_text(kind: Any) -> bool:
    from pyarrow import types

    return bool(types.is_string(kind) or types.is_large_string(kind))


def _read_footer(file: LogFile) -> Footer:
    import pyarrow

    with open_parquet(file.path) as opened:
        metadata, schema = opened.metadata, opened.schema_arrow
        groups = [metadata.row_group(place) for place in range(metadata.num_row_groups)]
        for name in file.partition:
            schema = schema.append(pyarrow.field(name, pyarrow.string()))
        return Footer(
            str(file.path),
            tuple(file.partition.items()),
            file_stamp(file.path),
            schema,
            tuple(group.num_rows for group in groups),
            sum(group.total_byte_size for group in groups),
        )


def _stamp(path: Path) -> str:
    with path.open("rb") as stream:
        state = os.fstat(stream.fileno())
        stream.seek(-min(_TAIL_BYTES, state.st_size), os.SEEK_END)
        length = int.from_bytes(stream.read(_TAIL_BYTES)[:4], "little")
        stream.seek(-min(_TAIL_BYTES + length, state.st_size), os.SEEK_END)
        said = f"{state.st_size}:{state.st_mtime_ns}:".encode()
        return hashlib.sha256(said + stream.read()).hexdigest()
