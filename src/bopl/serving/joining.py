"""Joining: decisions whose reward window has closed become samples of a log, once and for all.

First the watermark is moved, in a transaction of its own: from then on a reward for a decision before it is late, and
what is read afterwards does not change any more. Then the file is written, in one step; its name says up to which
decision it goes. A join that is killed in between is repeated with the same files.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bopl._files import only_writer, replacing
from bopl.serving.columns import context_columns, joined_table, kinds_of
from bopl.serving.events import EventStore
from bopl.serving.record import DecisionRow
from bopl.serving.settings import LoopSettings

SLACK_S = 2.0  # for rewards that have come in time and are just being written
MAX_ROWS = 100_000  # decisions of one file
_NAME = re.compile(r"\d{8}T\d{6}\.\d{6}Z\.parquet")
_TIME = "%Y%m%dT%H%M%S.%fZ.parquet"


@dataclass(frozen=True)
class Sample:
    """A decision whose window has closed, with what came of it."""

    decision: DecisionRow
    reward: float


@dataclass(frozen=True)
class JoinResult:
    """What a join has done.

    Attributes
    ----------
    n_joined : int
        Samples written.
    n_rewarded : int
        Those of them for which at least one reward came in time.
    n_inactive, n_fallback : int
        Decisions left out because they were never activated, or because the baseline had to decide.
    n_open : int
        Decisions whose window is still open.
    files : list of str
        Names of the files written.
    watermark : int
        Time of the last decision that is done with, in microseconds since 1970.
    """

    n_joined: int = 0
    n_rewarded: int = 0
    n_inactive: int = 0
    n_fallback: int = 0
    n_open: int = 0
    files: list[str] = field(default_factory=list)
    watermark: int = 0

    @property
    def sentence(self) -> str:
        """What was done, in words."""
        left_out = self.n_inactive + self.n_fallback
        return (
            f"Joined {self.n_joined:,} decisions, {self.n_rewarded:,} of them with a reward; {self.n_open:,} windows "
            f"are open{f', {left_out:,} decisions are left out' if left_out else ''}."
        )

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values."""
        return asdict(self)


def combine_rewards(values: Sequence[float], combination: str, default: float) -> float:
    """Return the reward of a decision from those that came in time, in their order."""
    if not values:
        return default
    if combination == "sum":
        return float(sum(values))
    return float(values[0] if combination == "first" else values[-1])


def close_windows(
    decisions: Iterable[DecisionRow],
    rewards: Mapping[str, Sequence[float]],
    activated: Mapping[str, int],
    settings: LoopSettings,
) -> Iterator[tuple[Sample | None, str]]:
    """Yield the sample of each decision, or None with the reason why it is left out.

    The windows of all ``decisions`` have closed; ``rewards`` are those that came in time, in their order, and
    ``activated`` the times of activations, both by event.
    """
    window = round(settings.reward_window_s * 1e6)
    for row in decisions:
        if row.is_fallback:
            yield None, "fallback"
        elif (settings.needs_activation or not row.is_active) and (
            activated.get(row.event, row.time + window + 1) > row.time + window
        ):
            yield None, "inactive"
        else:
            values = rewards.get(row.event, ())
            yield (
                Sample(row, combine_rewards(values, settings.reward_combination, settings.default_reward)),
                ("rewarded" if values else "default"),
            )


def join(
    folder: str | Path, store: EventStore, settings: LoopSettings, *, now: int | None = None, max_rows: int = MAX_ROWS
) -> JoinResult:
    """Write the decisions whose windows have closed to ``log/``; running it again changes nothing.

    Parameters
    ----------
    folder : path
        Of the loop.
    store : EventStore
        Events of the loop.
    settings : LoopSettings
        What `loop.toml` says.
    now : int, optional
        Microseconds since 1970; by default the store's time.
    max_rows : int
        Decisions of one file.
    """
    target = Path(folder) / "log"
    target.mkdir(exist_ok=True)
    closed = (store.clock.now() if now is None else now) - round((settings.reward_window_s + SLACK_S) * 1e6)
    counts = dict.fromkeys(("rewarded", "default", "inactive", "fallback"), 0)
    files: list[str] = []
    with only_writer(target):
        watermark = max(_joined_until(store), written_until(target))
        while until := _end_of_batch(store, watermark, closed, max_rows):
            store.set_watermark(until)
            batch = _read_batch(store, watermark, until)
            samples = []
            for sample, what in close_windows(batch.decisions, batch.rewards, batch.activated, settings):
                counts[what] += 1
                samples += [] if sample is None else [sample]
            watermark = until
            if samples:
                files.append(write_samples(target, samples, settings, until=until))
            _set_joined(store, until)
    return JoinResult(
        n_joined=counts["rewarded"] + counts["default"],
        n_rewarded=counts["rewarded"],
        n_inactive=counts["inactive"],
        n_fallback=counts["fallback"],
        n_open=_count_after(store, watermark),
        files=files,
        watermark=watermark,
    )


def write_samples(target: Path, samples: Sequence[Sample], settings: LoopSettings, *, until: int) -> str:
    """Write one file of samples in one step and return its name."""
    from pyarrow import parquet

    file = target / file_name(until)
    known = newest_kinds(target)
    contexts = context_columns([one.decision.context for one in samples], known)
    table = joined_table([one.decision for one in samples], [one.reward for one in samples], contexts, settings.actions)
    with replacing(file) as handle:
        parquet.write_table(table, handle)
    return file.name


def file_name(until: int) -> str:
    """Return the name of the file whose last decision is of a time, in microseconds since 1970."""
    seconds, rest = divmod(until, 1_000_000)
    return datetime.fromtimestamp(seconds, UTC).replace(microsecond=rest).strftime(_TIME)


def joined_files(target: Path) -> list[Path]:
    """Return the files that joins have written, the oldest first."""
    return sorted(file for file in target.glob("*.parquet") if _NAME.fullmatch(file.name))


def count_joined(log: Path) -> int:
    """Return the number of joined decisions."""
    from pyarrow import parquet

    return sum(parquet.read_metadata(file).num_rows for file in joined_files(log))


def written_until(target: Path) -> int:
    """Return the time of the last decision that is written, 0 where there is none."""
    files = joined_files(target)
    if not files:
        return 0
    moment = datetime.strptime(files[-1].name, _TIME).replace(tzinfo=UTC)
    return int(moment.replace(microsecond=0).timestamp()) * 1_000_000 + moment.microsecond


def newest_kinds(target: Path) -> dict[str, str]:
    """Return the kind that each context column had when it was last written."""
    from pyarrow import parquet

    known: dict[str, str] = {}
    for file in joined_files(target)[-1:]:
        known |= kinds_of(parquet.read_schema(file))
    return known


@dataclass(frozen=True)
class _Batch:
    """Decisions with closed windows, with what came in time."""

    decisions: list[DecisionRow]
    rewards: dict[str, list[float]]
    activated: dict[str, int]


def _end_of_batch(store: EventStore, since: int, closed: int, max_rows: int) -> int | None:
    """Return the time of the last decision of the next file; None if there is none.

    What a killed join had closed is a file of its own. Decisions of one time stay together.
    """
    watermark = store.watermark()
    until = watermark if watermark > since else closed
    with store.reading() as connection:
        select = "SELECT time FROM decision WHERE time > ? AND time <= ? ORDER BY time LIMIT 1 OFFSET ?"
        found = connection.execute(select, (since, until, max_rows - 1)).fetchone()
        if found is not None:
            return int(found[0])
        last = connection.execute(
            "SELECT max(time) FROM decision WHERE time > ? AND time <= ?", (since, until)
        ).fetchone()[0]
    if last is None and until != closed:  # it had closed nothing
        _set_joined(store, until)
        return _end_of_batch(store, until, closed, max_rows)
    return None if last is None else int(last)


def _joined_until(store: EventStore) -> int:
    """Return the time up to which decisions are done with."""
    with store.reading() as connection:
        found = connection.execute("SELECT value FROM meta WHERE name = 'joined'").fetchone()
    return 0 if found is None else int(found[0])


def _set_joined(store: EventStore, until: int) -> None:
    def write(connection: Any) -> None:
        change = (
            "INSERT INTO meta VALUES ('joined', ?) ON CONFLICT (name) DO UPDATE SET value = max(value, excluded.value)"
        )
        connection.execute(change, (until,))

    store.submit(write).result()


def _read_batch(store: EventStore, since: int, until: int) -> _Batch:
    decisions = list(store.decisions(since, until))
    times = (since, until)
    rewards: dict[str, list[float]] = {}
    with store.reading() as connection:
        select = (
            "SELECT reward.event, value FROM reward JOIN decision USING (event) WHERE decision.time > ? AND "
            "decision.time <= ? AND status = 'ok' ORDER BY reward.time, reward.rowid"
        )
        for event, value in connection.execute(select, times):
            rewards.setdefault(event, []).append(value)
        select = (
            "SELECT activation.event, activation.time FROM activation JOIN decision USING (event) WHERE "
            "decision.time > ? AND decision.time <= ?"
        )
        activated = dict(connection.execute(select, times).fetchall())
    return _Batch(decisions, rewards, activated)


def _count_after(store: EventStore, watermark: int) -> int:
    with store.reading() as connection:
        return int(connection.execute("SELECT count(*) FROM decision WHERE time > ?", (watermark,)).fetchone()[0])
