"""Odd tables: columns of every kind that arrow and JSON know, written in the formats that logs come in."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import date, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
from pyarrow import csv, ipc

from fuzz.mutate import pick
from fuzz.seeds import make_frame

N_ROWS = 24
NO_FORM = (pa.ArrowException, ValueError, TypeError, NotImplementedError, OverflowError)


def _repeated(values: list[Any], kind: Any = None) -> Callable[[], Any]:
    """Return what makes a column of these values, over and over."""
    return lambda: pa.array((values * N_ROWS)[:N_ROWS], kind)


def _coded(index: list[Any], values: list[Any], kind: Any = None) -> Callable[[], Any]:
    """Return what makes a column of positions in a dictionary."""
    return lambda: pa.DictionaryArray.from_arrays(
        pa.array((index * N_ROWS)[:N_ROWS], pa.int32()), pa.array(values, kind)
    )


def _chunked(make: Callable[[], Any]) -> Callable[[], Any]:
    return lambda: pa.chunked_array([make().slice(0, 5), make().slice(0, 0), make().slice(5, N_ROWS - 5)])


ARROW_COLUMNS: list[Callable[[], Any]] = [
    lambda: pa.nulls(N_ROWS),
    _repeated([1, None, 3]),
    _repeated([True, None, False]),
    _repeated([0.1, None, 0.9], pa.float32()),
    _repeated([0.5, 0.25], pa.float16()),
    _repeated([float("nan"), 1.0]),
    _repeated([float("inf"), -1.0]),
    _repeated([1e308, -1e308]),
    _repeated([5e-324, 1e-310]),
    _repeated([2**63 - 1, -(2**63)]),
    _repeated([2**64 - 1, 0], pa.uint64()),
    _repeated([Decimal("0.5"), None], pa.decimal128(10, 3)),
    _repeated([Decimal(10) ** 60], pa.decimal256(76, 2)),
    _repeated(["a", "b", None]),
    _repeated(["a", "b", "a\x00", "é", "e\u0301", "", " a"]),
    _repeated(["a", None], pa.large_string()),
    _repeated(["a", "b"], pa.string_view()),
    _repeated([b"a", b"\xff\x00", None]),
    _repeated([b"ab", b"cd"], pa.binary(2)),
    _repeated([b"a"], pa.binary_view()),
    _repeated([[1, 2], None, []]),
    _repeated([[1.0, 2.0], [3.0, 4.0]], pa.list_(pa.float32(), 2)),
    _repeated([[1.0, None], [3.0, 4.0]], pa.list_(pa.float64())),
    _repeated([[[1]], [[2], [3]]]),
    _repeated([["a"], ["b", None]], pa.large_list(pa.string())),
    _repeated([{"x": 1, "y": "a"}, None, {"x": None, "y": None}]),
    _repeated([{"x": {"x": {"z": 1}}}]),
    _repeated([[("k", 1.0)], []], pa.map_(pa.string(), pa.float64())),
    _repeated([0, 86_400_000_000, None], pa.timestamp("us")),
    _repeated([2**62, -(2**62)], pa.timestamp("s")),
    _repeated([2**62, 0], pa.timestamp("ns", "Europe/Berlin")),
    _repeated([0, 1], pa.timestamp("ms", "+25:00")),
    _repeated([0, 1], pa.timestamp("ms", "Nowhere/Town")),
    _repeated([date(2024, 5, 1), None, date(9999, 12, 31)], pa.date32()),
    _repeated([2**62 // 86_400_000 * 86_400_000], pa.date64()),
    _repeated([time(1, 2, 3), None], pa.time32("s")),
    _repeated([time(1, 2, 3)], pa.time64("ns")),
    _repeated([timedelta(seconds=5), None], pa.duration("us")),
    _repeated([2**62], pa.duration("s")),
    lambda: pa.array([pa.MonthDayNano([1, 2, 3])] * N_ROWS),
    _coded([0, 1, None], ["a", "b"]),
    _coded([0, 1, 2], ["a", None, "b"]),
    _coded([0, 1, 2], ["a", "a", "b"]),
    _coded([0, 1], ["a", "b", "unused", "unused too"]),
    _coded([0, 1], [1.5, float("nan")]),
    _coded([0, 1], [b"a", b"b"]),
    _coded([0], [None], pa.string()),
    _coded([None], [], pa.string()),
    _coded([0, 1], [date(2024, 1, 1), date(2024, 1, 2)]),
    lambda: pa.RunEndEncodedArray.from_arrays(pa.array([4, N_ROWS], pa.int32()), pa.array(["a", "b"])),
    lambda: pa.UnionArray.from_dense(
        pa.array([0, 1] * (N_ROWS // 2), pa.int8()),
        pa.array(np.repeat(np.arange(N_ROWS // 2), 2), pa.int32()),
        [pa.array(np.arange(N_ROWS)), pa.array(["a"] * N_ROWS)],
    ),
    lambda: pa.ExtensionArray.from_storage(pa.bool8(), pa.array([1, 0] * (N_ROWS // 2), pa.int8())),
    lambda: pa.ExtensionArray.from_storage(pa.uuid(), pa.array([bytes(range(16))] * N_ROWS, pa.binary(16))),
    _chunked(_repeated(["a", None, "b"])),
    _chunked(_coded([0, 1, None], ["a", "b"])),
    _chunked(_repeated([1, 2, None])),
]
JSON_VALUES: list[str] = [
    *("null", "true", "false", "0", "-0.0", "1e999", "-1e999", "NaN", "Infinity", "1e-400", "01", "1.", "+1", ".5"),
    *("9" * 30, "-" + "9" * 30, "1" + "0" * 400, "9007199254740993", '""', '"\\u0000"', '"\\ud800"', '"a"', "'a'"),
    *("[]", "[1]", "[1,null]", "[[1],[2]]", '["a",1]', "{}", '{"x":1}', '{"x":{"y":null}}', '{"x":[{"y":1}]}'),
    *('"2024-05-01T00:00:00Z"', '"2024-05-01T00:00:00+25:00"', '"2024-13-41T99:99"', '"9999999-01-01"', '"1e5"'),
    *('"2024-05-01 00:00:00.123456789"', '"0001-01-01T00:00"', '"\\ufeff"', "\x00", "", "undefined", "1 2", '"a'),
]
JSON_LINES: list[str] = [
    *(
        "null",
        "[]",
        "[1,2]",
        "1",
        "-1.5",
        '"text"',
        "true",
        "{}",
        "{",
        "}",
        "[",
        "",
        " ",
        "\x00",
        "\ufeff",
        "//",
        "nul",
    ),
    *('{"x":1}{"x":2}', '{"x":1},', "{} {}", '{"":1}', '{"x":1,"x":2}', '{"action":"a","action":"b"}', "[" * 2000),
    *(
        '{"a":' * 500,
        '{"x.y":1,"x":{"y":2}}',
        '{"reward":{"a":1}}',
        '{"action":["a"]}',
        '{"at":5}',
        '{"propensity":null}',
    ),
]
HEADERS: list[Callable[[list[str]], list[str]]] = [
    lambda names: [*names[:-1], names[0]],
    lambda names: ["", *names[1:]],
    lambda names: [f"\ufeff{names[0]}", *names[1:]],
    lambda names: [f" {name} " for name in names],
    lambda names: [name.upper() for name in names],
    lambda names: names[:-1],
    lambda names: [*names, "more"],
    lambda names: [*names, "", ""],
    lambda names: [f"{name}\x00" for name in names],
    lambda names: [f'"{name}\n"' for name in names],
    lambda names: [str(place) for place in range(len(names))],
]


def odd_table(rng: np.random.Generator) -> pa.Table:
    """Return a log as a table, with one to three columns of another kind, another name, or twice."""
    table = pa.Table.from_pandas(make_frame(N_ROWS), preserve_index=False)
    names, columns = list(table.column_names), list(table.columns)
    for _ in range(int(rng.integers(1, 4))):
        at, roll = int(rng.integers(0, len(names))), rng.random()
        if roll < 0.75:
            columns[at] = pick(rng, ARROW_COLUMNS)()
        elif roll < 0.85:
            names[at] = pick(rng, ["", "x", "action", "a.b", "\x00", "é", "e\u0301", "a" * 500, "__index_level_0__"])
        elif roll < 0.95:
            columns.append(pick(rng, ARROW_COLUMNS)())
            names.append(pick(rng, ["more", "x", "id", "user.name", "time"]))
        else:
            n_rows = int(pick(rng, [0, 1, 2]))
            columns = [column.slice(0, n_rows) for column in columns]
            return pa.table(columns, names=names)
    return pa.table(columns, names=names)


def write_odd_table(rng: np.random.Generator, folder: Path) -> Path | None:
    """Write an odd table in a format that has a form for it; return None where none has."""
    table = odd_table(rng)
    suffix = pick(rng, [".parquet", ".arrow", ".ipc", ".feather", ".csv", ".jsonl"])
    path = folder / f"case{suffix}"
    try:
        _write(table, path)
    except NO_FORM:
        return None
    return path


def _write(table: pa.Table, path: Path) -> None:
    if path.suffix == ".parquet":
        pq.write_table(table, path, row_group_size=10)
    elif path.suffix == ".feather":
        pa.feather.write_feather(table, path, compression="uncompressed")
    elif path.suffix == ".csv":
        csv.write_csv(table, path)
    elif path.suffix == ".jsonl":
        rows = [json.dumps(row, default=str) for row in table.to_pylist()]
        path.write_text("\n".join(rows) + "\n", encoding="utf8")
    else:
        make = ipc.new_file if path.suffix == ".arrow" else ipc.new_stream
        with make(path, table.schema) as file:
            file.write_table(table, max_chunksize=10)


def mutate_json(rng: np.random.Generator, content: bytes) -> bytes:
    """Change values of JSON lines, one or a whole column of them, or put lines between that are no objects."""
    lines = content.decode("utf8").splitlines()
    for _ in range(int(rng.integers(1, 4))):
        at, roll = int(rng.integers(0, len(lines))), rng.random()
        at = 0 if rng.random() < 0.2 else at
        if roll < 0.35:
            lines[at] = _with_value(rng, lines[at], pick(rng, JSON_VALUES))
        elif roll < 0.55:
            value, key = (
                pick(rng, JSON_VALUES),
                pick(rng, ["x", "city", "at", "action", "reward", "propensity", "c", "p"]),
            )
            lines = [_with_value(rng, line, value, key) for line in lines]
        elif roll < 0.85:
            lines.insert(at, pick(rng, JSON_LINES))
        elif roll < 0.95:
            lines[at] = pick(rng, JSON_LINES)
        else:
            lines = [pick(rng, JSON_LINES)] * int(pick(rng, [1, 2, 40]))
    start = "\ufeff" if rng.random() < 0.05 else ""
    end = pick(rng, ["\n", "\r\n", "\n\n", "\r"]) if rng.random() < 0.2 else "\n"
    return (start + end.join(lines)).encode("utf8", "surrogatepass")


def _with_value(rng: np.random.Generator, line: str, value: str, key: str | None = None) -> str:
    """Return a line in which some key has another value, written as it is; lines that are no objects stay."""
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return line
    if not isinstance(row, dict) or not row:
        return line
    changed = pick(rng, list(row)) if key is None else key
    parts = [f"{json.dumps(name)}: {value if name == changed else json.dumps(one)}" for name, one in row.items()]
    return "{" + ", ".join(parts) + "}"


def mutate_csv(rng: np.random.Generator, content: bytes) -> bytes:
    """Change the header of a CSV file, a whole column, its quotes, its first bytes or its line ends."""
    lines = content.decode("utf8").splitlines()
    rows = [line.split(",") for line in lines]
    for _ in range(int(rng.integers(1, 3))):
        roll, at = rng.random(), int(rng.integers(0, len(rows[0])))
        if roll < 0.35:
            rows[0] = pick(rng, HEADERS)(rows[0]) or [""]
        elif roll < 0.75:
            value = pick(
                rng, ["", "NaN", "inf", "1e400", "9" * 30, "01", "true", '"', '""', "null", "2024-05-01", "\x00"]
            )
            rows = [rows[0], *([*row[:at], value, *row[at + 1 :]] for row in rows[1:])]
        elif roll < 0.85:
            rows = rows[: int(pick(rng, [1, 2]))]
        else:
            rows.insert(int(rng.integers(0, len(rows))), pick(rng, [[""], ["#"], ["\x00"], ['"'], ["a"] * 20, rows[0]]))
    end = pick(rng, ["\n", "\r\n", "\r", "\n\n"])
    mark = pick(rng, [",", ",", ";", "\t", "|"])
    codec = pick(rng, ["utf8"] * 6 + ["utf-8-sig", "utf-16", "latin-1", "utf-32"])
    return end.join(mark.join(row) for row in rows).encode(codec, "replace")
