"""`EventStore`: decisions, rewards, activations and promotions in one SQLite file, on disk before they are answered."""

from __future__ import annotations

import json
import os
import secrets
import sqlite3
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from bopl._errors import UsageError
from bopl.serving.record import (
    DUPLICATE,
    LATE,
    OK,
    UNKNOWN,
    DecisionRow,
    PromotionRow,
    RewardRow,
    as_label,
    names,
    to_json,
)
from bopl.serving.writer import UNAVAILABLE, Clock, GroupWriter, StoreError, store_error

VERSION = 1
BUSY_MS = 5000  # how long one process waits for another that is just writing
SMALL_FILE = 16 * 2**20  # bytes up to which every page is checked when the file is opened

SCHEMA = """
CREATE TABLE meta (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE decision (
    id INTEGER PRIMARY KEY, event TEXT NOT NULL UNIQUE, time INTEGER NOT NULL, promotion INTEGER NOT NULL,
    policy TEXT NOT NULL, action TEXT NOT NULL, propensity REAL, context TEXT NOT NULL, eligible TEXT,
    draw REAL NOT NULL, decider TEXT NOT NULL, fallback TEXT, policy_prob REAL, baseline_prob REAL,
    is_active INTEGER NOT NULL, shadow TEXT
);
CREATE INDEX decision_time ON decision (time);
CREATE TABLE reward (
    event TEXT NOT NULL, key TEXT NOT NULL, value REAL NOT NULL, time INTEGER NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('ok', 'late', 'unknown')), n_received INTEGER NOT NULL,
    PRIMARY KEY (event, key)
);
CREATE TABLE activation (event TEXT PRIMARY KEY, time INTEGER NOT NULL);
CREATE TABLE promotion (
    id INTEGER PRIMARY KEY, policy TEXT NOT NULL, share REAL NOT NULL, baseline TEXT NOT NULL,
    exploration REAL NOT NULL, min_propensity REAL NOT NULL, reason TEXT NOT NULL, actions TEXT, verdict TEXT,
    log_fingerprint TEXT, time INTEGER NOT NULL
);
"""
_DECISION, _REWARD, _PROMOTION = names(DecisionRow), names(RewardRow), names(PromotionRow)
_JSON = ("action", "context", "eligible", "shadow", "verdict", "actions")


def _insert(table: str, columns: tuple[str, ...], end: str = "") -> str:
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))}) {end}"


ADD_DECISION = _insert("decision", _DECISION, "ON CONFLICT (event) DO NOTHING")
ADD_REWARD = _insert("reward", _REWARD, "ON CONFLICT (event, key) DO UPDATE SET n_received = n_received + 1")
_WITHOUT_ID = tuple(name for name in _PROMOTION if name != "id")
ADD_PROMOTION = _insert("promotion", _WITHOUT_ID)


class EventStore:
    """The events of a loop.

    What a method that writes returns, or the future it returns, is there once the change is on disk: the file is in
    WAL mode with full synchronisation. Several threads may use one store, and several processes one file.

    Parameters
    ----------
    path : path
        The file; `create` makes one.
    max_mb : int
        Maximum size of the file; 0 for no limit.
    clock : Clock, optional
        The time of events; by default the machine's, made so that it never goes back.

    Attributes
    ----------
    seed : int
        Seed of the draws of this loop.
    """

    def __init__(self, path: str | Path, *, max_mb: int = 0, clock: Clock | None = None) -> None:
        self.path = Path(path)
        if not self.path.is_file():
            raise FileNotFoundError(f"there is no event store {str(path)!r}; make one with `bopl serve FOLDER --init`.")
        self._max_mb = max_mb
        self.clock = Clock() if clock is None else clock
        self._check()
        self._writer = GroupWriter(self._connect, self.path)

    @classmethod
    def create(cls, path: str | Path, *, seed: int | None = None) -> None:
        """Create an empty store atomically; an existing one is left as it is."""
        file = Path(path)
        if file.exists():
            return
        part = file.with_name(f".{file.name}.{secrets.token_hex(4)}.part")
        try:
            connection = sqlite3.connect(part)
            try:
                # Secret, because callers may choose the ids of their events and must not choose their draws with them.
                drawn = secrets.randbits(63) if seed is None else seed
                connection.executescript("PRAGMA journal_mode = WAL;" + SCHEMA)
                facts = [("version", VERSION), ("seed", drawn), ("watermark", 0)]
                connection.executemany("INSERT INTO meta VALUES (?, ?)", facts)
                connection.commit()
            finally:
                connection.close()
            os.link(part, file)  # unlike a renaming, this replaces nothing
        except FileExistsError:
            return
        except (sqlite3.Error, OSError) as error:
            raise store_error(error, path) from error
        finally:
            for left in file.parent.glob(f"{part.name}*"):
                left.unlink()

    def close(self) -> None:
        """Write what is waiting, and close the file."""
        self._writer.close()

    def __enter__(self) -> EventStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- Writing ----------------------------------------------------------------------------------------------------

    def submit(self, job: Callable[[sqlite3.Connection], Any]) -> Future[Any]:
        """Return the future of what a job returns; it runs within a transaction and is on disk when it is done."""
        return self._writer.submit(job)

    def add_decision(self, row: DecisionRow) -> Future[tuple[DecisionRow, bool]]:
        """Keep a decision; the future holds the row that is on disk, and whether it is new.

        The row gets its time when it is written. If its event is there already, the old row stays and is returned.
        """
        cells = _cells(row, _DECISION)
        position = _DECISION.index("time")

        def write(connection: sqlite3.Connection) -> tuple[DecisionRow, bool]:
            time = cells[position] = self.clock.now()
            if connection.execute(ADD_DECISION, cells).rowcount:
                return replace(row, time=time), True
            found = _find(connection, row.event)
            assert found is not None
            return found, False

        return self.submit(write)

    def add_reward(self, event: str, value: float, *, key: str = "", window_s: float) -> Future[RewardRow]:
        """Keep a reward; the future holds its row.

        The first reward of an event and key stays. One that comes again is counted, and returned with the status
        ``duplicate``; one that comes after the window, or after its decision was joined, has the status ``late``, and
        one without a decision ``unknown``.
        """

        def write(connection: sqlite3.Connection) -> RewardRow:
            time = self.clock.now()
            status = _reward_status(connection, event, time, window_s)
            connection.execute(ADD_REWARD, (event, key, value, time, status, 1))
            select = f"SELECT {', '.join(_REWARD)} FROM reward WHERE event = ? AND key = ?"
            row = RewardRow(*connection.execute(select, (event, key)).fetchone())
            return row if row.n_received == 1 else replace(row, status=DUPLICATE)

        return self.submit(write)

    def activate(self, event: str) -> Future[bool]:
        """Note that a decision was carried out; the future holds whether there is one."""

        def write(connection: sqlite3.Connection) -> bool:
            if connection.execute("SELECT 1 FROM decision WHERE event = ?", (event,)).fetchone() is None:
                return False
            row = (event, self.clock.now())
            connection.execute("INSERT INTO activation VALUES (?, ?) ON CONFLICT (event) DO NOTHING", row)
            return True

        return self.submit(write)

    def promote(self, row: PromotionRow, *, after: int | None = None) -> PromotionRow:
        """Write what is served from now on, and return the row with its time and id.

        Parameters
        ----------
        row : PromotionRow
            What is promoted, by whom and why.
        after : int, optional
            Id of the row that must be in force, or 0 for none: what was decided knowing it must not overrule what came
            since.
        """

        def write(connection: sqlite3.Connection) -> PromotionRow:
            newest = connection.execute("SELECT coalesce(max(id), 0) FROM promotion").fetchone()[0]
            if after is not None and newest != after:
                raise UsageError(
                    f"promotion {newest} was made in the meantime, after promotion {after}: review it and decide again."
                )
            timed = replace(row, time=self.clock.now(), id=newest + 1)
            connection.execute(ADD_PROMOTION, _cells(timed, _WITHOUT_ID))
            return timed

        return self.submit(write).result()

    def set_watermark(self, time: int) -> None:
        """Say that all decisions up to a time are joined: rewards that still come for them are late."""

        def write(connection: sqlite3.Connection) -> None:
            connection.execute("UPDATE meta SET value = max(value, ?) WHERE name = 'watermark'", (time,))

        self.submit(write).result()

    # -- Reading ----------------------------------------------------------------------------------------------------

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Yield a connection of its own that sees one state of the store and cannot write."""
        try:
            connection = sqlite3.connect(f"{self.path.absolute().as_uri()}?mode=ro", uri=True, isolation_level=None)
            try:
                connection.execute(f"PRAGMA busy_timeout = {BUSY_MS}")
                connection.execute("BEGIN")
                yield connection
            finally:
                connection.close()
        except sqlite3.Error as error:
            raise store_error(error, self.path) from error

    def decision(self, event: str) -> DecisionRow | None:
        """Return the decision of an event, or None."""
        with self.reading() as connection:
            return _find(connection, event)

    def decisions(self, since: int = 0, until: int = 2**63 - 1) -> Iterator[DecisionRow]:
        """Yield the decisions with ``since < time <= until``, in the order of their times."""
        select = f"SELECT {', '.join(_DECISION)} FROM decision WHERE time > ? AND time <= ? ORDER BY time, id"
        with self.reading() as connection:
            for cells in connection.execute(select, (since, until)):
                yield _decision(cells)

    def rewards(self, event: str) -> list[RewardRow]:
        """Return the rewards of an event, in the order they came."""
        select = f"SELECT {', '.join(_REWARD)} FROM reward WHERE event = ? ORDER BY time, rowid"
        with self.reading() as connection:
            return [RewardRow(*cells) for cells in connection.execute(select, (event,))]

    def promotions(self) -> list[PromotionRow]:
        """Return all promotions, the oldest first."""
        with self.reading() as connection:
            select = f"SELECT {', '.join(_PROMOTION)} FROM promotion ORDER BY id"
            return [_promotion(cells) for cells in connection.execute(select)]

    def promotion(self) -> PromotionRow | None:
        """Return the promotion in force, or None before the first."""
        with self.reading() as connection:
            select = f"SELECT {', '.join(_PROMOTION)} FROM promotion ORDER BY id DESC LIMIT 1"
            cells = connection.execute(select).fetchone()
            return None if cells is None else _promotion(cells)

    def watermark(self) -> int:
        """Return the time up to which decisions are joined."""
        with self.reading() as connection:
            return _meta(connection)["watermark"]

    @property
    def n_waiting(self) -> int:
        """Writes waiting for the disk."""
        return self._writer.n_waiting

    # -- Connections ------------------------------------------------------------------------------------------------

    def _check(self) -> None:
        """Read what must be known of the file, or raise one sentence about it."""
        with self.reading() as connection:
            if self.path.stat().st_size <= SMALL_FILE:
                said = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
                if said != "ok":
                    raise store_error(sqlite3.DatabaseError(said), self.path)
            facts = _meta(connection)
            if facts["version"] != VERSION:
                raise UsageError(
                    f"{str(self.path)!r} has format {facts['version']}; this version of bopl reads format {VERSION}."
                )
            last = connection.execute("SELECT coalesce(max(time), 0) FROM decision").fetchone()[0]
        self.seed = facts["seed"]
        self.clock.not_before(max(last, facts["watermark"]))

    def _connect(self) -> sqlite3.Connection:
        """Return a connection that writes; one to a file that has gone is refused rather than recreated."""
        if not self.path.is_file():
            raise StoreError(f"{str(self.path)!r} is gone: put it back, or restart the server.", UNAVAILABLE)
        connection = sqlite3.connect(
            f"{self.path.absolute().as_uri()}?mode=rw", uri=True, isolation_level=None, check_same_thread=False
        )
        connection.execute(f"PRAGMA busy_timeout = {BUSY_MS}")
        connection.execute("PRAGMA synchronous = FULL")
        if self._max_mb:
            page_size = connection.execute("PRAGMA page_size").fetchone()[0]
            connection.execute(f"PRAGMA max_page_count = {self._max_mb * 2**20 // page_size}")
        return connection


def _reward_status(connection: sqlite3.Connection, event: str, time: int, window_s: float) -> str:
    found = connection.execute("SELECT time FROM decision WHERE event = ?", (event,)).fetchone()
    if found is None:
        return UNKNOWN
    watermark = connection.execute("SELECT value FROM meta WHERE name = 'watermark'").fetchone()[0]
    return LATE if time - found[0] > window_s * 1e6 or found[0] <= watermark else OK


def _meta(connection: sqlite3.Connection) -> dict[str, int]:
    try:
        return dict(connection.execute("SELECT name, value FROM meta").fetchall())
    except sqlite3.OperationalError as error:
        if "no such table" in str(error):
            raise sqlite3.DatabaseError("it is not the event store of a loop") from None
        raise


def _cells(row: DecisionRow | PromotionRow, columns: tuple[str, ...]) -> list[Any]:
    """Return the cells of a record's row."""
    cells = [getattr(row, name) for name in columns]
    return [
        to_json(cell) if name in _JSON and cell is not None else cell for name, cell in zip(columns, cells, strict=True)
    ]


def _find(connection: sqlite3.Connection, event: str) -> DecisionRow | None:
    cells = connection.execute(f"SELECT {', '.join(_DECISION)} FROM decision WHERE event = ?", (event,)).fetchone()
    return None if cells is None else _decision(cells)


def _decision(cells: tuple[Any, ...]) -> DecisionRow:
    values = _values(_DECISION, cells)
    return DecisionRow(**values | {"action": as_label(values["action"]), "is_active": bool(values["is_active"])})


def _promotion(cells: tuple[Any, ...]) -> PromotionRow:
    return PromotionRow(**_values(_PROMOTION, cells))


def _values(columns: tuple[str, ...], cells: tuple[Any, ...]) -> dict[str, Any]:
    pairs = zip(columns, cells, strict=True)
    values = {name: json.loads(cell) if name in _JSON and cell is not None else cell for name, cell in pairs}
    listed = {name: [as_label(one) for one in values[name]] for name in ("eligible", "actions") if values.get(name)}
    return values | listed
