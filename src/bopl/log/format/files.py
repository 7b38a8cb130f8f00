"""The files of a path: one file, a folder, or a pattern; and tables to files, in the format of the extension."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from glob import glob, has_magic
from os import PathLike
from pathlib import Path
from typing import Any

from bopl._errors import UsageError, did_you_mean, shortened
from bopl._files import replaced_file

PACKED = (".gz", ".bz2", ".zst", ".lz4")
EXTENSIONS = (".parquet", ".csv", ".arrow", ".feather", ".jsonl")


@dataclass(frozen=True)
class LogFile:
    """One file of a log, and the columns that its folders stand for: ``day=2024-05-01`` is a column ``day``."""

    path: Path
    partition: dict[str, str] = field(default_factory=dict)


def find_files(path: str | Path | Sequence[str | Path]) -> list[LogFile]:
    """Return the files that a path means, sorted; in folders those whose names do not begin with ``.`` or ``_``.

    Of several paths, the files of the first come first.
    """
    if isinstance(path, list | tuple):
        files = [file for one in path for file in find_files(one)]
        _check_distinct(files)
        return files
    if not isinstance(path, str | PathLike):
        raise TypeError(f"path must be text or a Path that names files; got {type(path).__name__}.")
    given = Path(path)
    if str(path) == "":
        raise UsageError("path is empty; name a file, a folder or a pattern.")
    _check_kind(given)
    if "://" in str(path) and not given.exists():
        raise UsageError(
            f"{str(path)!r} is an address, and only files of this machine are read: download or mount what it names."
        )
    if given.is_file():
        return [LogFile(given)]
    if given.is_dir():
        found = [one for file in sorted(given.rglob("*")) if (one := _in_folder(given, file)) is not None]
        if not found:
            raise UsageError(f"the folder {str(path)!r} holds no file to read.")
        return found
    if has_magic(str(path)):
        return _matching(str(path))
    beside = [one.name for one in given.parent.iterdir()] if given.parent.is_dir() else []
    raise FileNotFoundError(f"there is no file {str(path)!r}; check the path.{did_you_mean(given.name, beside)}")


def _matching(pattern: str) -> list[LogFile]:
    """Return the files that a pattern matches, or those in the folders that it matches."""
    matches = [Path(name) for name in sorted(glob(pattern, recursive=True))]
    files = [LogFile(one) for one in matches if one.is_file()]
    folders = [one for one in matches if one.is_dir() and not one.name.startswith("_")]
    inner = {one: [file for inside in sorted(one.rglob("*")) if (file := _in_folder(one, inside))] for one in folders}
    matched = {file.path for file in files}
    left = [one for one, held in inner.items() if any(file.path not in matched for file in held)]
    if files and left:
        raise UsageError(
            f"{pattern!r} matches files and also folders, such as {str(left[0])!r}, which hold other files: name the "
            "files or the folders alone, or list the paths."
        )
    if not files and not left:
        raise UsageError(f"no file matches {pattern!r}; check the pattern.")
    return files or [file for one in left for file in inner[one]]


def _check_kind(path: Path) -> None:
    """Raise if something has that name that cannot be read as a file."""
    try:
        is_there, is_link = path.exists(), path.is_symlink()
    except (OSError, ValueError) as error:  # a loop of links, a name that is too long
        reason = (getattr(error, "strerror", None) or str(error)).lower()
        raise FileNotFoundError(f"there is no file {shortened(str(path))}: {reason}.") from None
    if is_link and not is_there:
        raise FileNotFoundError(f"{str(path)!r} is a link to a file that is not there.")
    if is_there and not (path.is_file() or path.is_dir()):
        raise UsageError(f"{str(path)!r} is a device or a pipe; write the log to a file and read that.")


def _check_distinct(files: Sequence[LogFile]) -> None:
    """Raise if a file is listed twice: each of its decisions would count twice."""
    seen: set[Path] = set()
    for file in files:
        path = file.path.resolve()
        if path in seen:
            raise UsageError(f"path names {str(file.path)!r} more than once; name each file once.")
        seen.add(path)


def check_same_columns(found: Mapping[str, Sequence[str]], columns: Collection[str] | None = None) -> None:
    """Raise if a file has a column that another lacks; only ``columns`` count, or all if it is None."""
    owners = {name: path for path, names in reversed([*found.items()]) for name in names}
    for path, names in found.items():
        absent = [name for name in owners if name not in names and (columns is None or name in columns)]
        if absent:
            raise ValueError(
                f"{owners[absent[0]]!r} has a column {absent[0]!r} but {path!r} does not: files of one log must have "
                "the same columns. Exclude it with ignore, or rewrite the file."
            )


def suffix_of(file: Path) -> str:
    """Return the extension that tells the format, without that of the compression."""
    packed = file.suffix.lower() in PACKED
    return Path(file.stem).suffix.lower() if packed else file.suffix.lower()


def _in_folder(folder: Path, file: Path) -> LogFile | None:
    """Return a file of a folder with its columns by name; None if it is hidden."""
    parts = file.relative_to(folder).parts
    if not file.is_file() or any(part.startswith((".", "_")) for part in parts):
        return None
    return LogFile(file, dict(part.split("=", 1) for part in parts[:-1] if part.count("=") == 1))


def check_extension(path: str | Path) -> None:
    """Raise if no format belongs to the extension."""
    if Path(path).suffix.lower() not in EXTENSIONS:
        raise UsageError(f"{str(path)!r} has an unknown extension; use {', '.join(EXTENSIONS)}.")


def write_table(columns: Mapping[str, Any], path: str | Path) -> None:
    """Write columns of equal length to a file."""
    import pyarrow

    check_extension(path)
    table = pyarrow.table(dict(columns))
    with replaced_file(path) as temporary:
        _write(table, temporary, Path(path).suffix.lower())


@contextmanager
def writing_parts(path: str | Path) -> Iterator[Callable[[Any], None]]:
    """Yield a function that takes the tables of one file, in order; the file is there, whole, only at the end.

    A Parquet file is written as tables come; other formats wait for the last of them.
    """
    import pyarrow
    from pyarrow import parquet

    check_extension(path)
    extension = Path(path).suffix.lower()
    with replaced_file(path) as temporary:
        if extension != ".parquet":
            tables: list[Any] = []
            yield tables.append
            _write(pyarrow.concat_tables(tables, promote_options="permissive"), temporary, extension)
            return
        with ExitStack() as stack:
            writers: list[Any] = []

            def write(table: Any) -> None:
                if not writers:
                    writers.append(stack.enter_context(parquet.ParquetWriter(temporary, table.schema)))
                writers[0].write_table(table.cast(writers[0].schema))

            yield write


def _write(table: Any, path: Path, extension: str) -> None:
    from pyarrow import csv, feather, parquet

    if extension == ".parquet":
        parquet.write_table(table, path)
    elif extension == ".csv":
        csv.write_csv(table, path)
    elif extension == ".jsonl":
        with path.open("w", encoding="utf8") as file:
            for batch in table.to_batches(max_chunksize=65_536):
                file.writelines(json.dumps(row, default=str, ensure_ascii=False) + "\n" for row in batch.to_pylist())
    else:
        feather.write_feather(table, str(path), compression="uncompressed")
