"""Watching a loop: decisions replayed through the saved policies, and drift of contexts and weights."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from bopl._trust import is_mean_off
from bopl._typing import FloatArray
from bopl._weight import mean_skewness, mean_std_err, mean_weight_z
from bopl.log import BanditLog
from bopl.log.drift import find_drift
from bopl.log.log_split import divide
from bopl.serving.columns import ROLES
from bopl.serving.draws import draw_of
from bopl.serving.events import EventStore
from bopl.serving.folder import LoopFolder
from bopl.serving.joining import joined_files
from bopl.serving.mixture import ServedMixture
from bopl.serving.record import CALLER, DecisionRow

MAX_NAMED = 5  # mismatches that are told in full
MIN_DRIFT_SAMPLES = 200


@dataclass(frozen=True)
class Mismatch:
    """A decision that cannot be found again."""

    event: str
    what: str
    logged: Any
    recomputed: Any

    @property
    def sentence(self) -> str:
        """The mismatch in words."""
        return f"event {self.event!r}: the {self.what} is {self.logged!r} in the log and {self.recomputed!r} now."


@dataclass(frozen=True)
class WatchResult:
    """What watching has found.

    Attributes
    ----------
    n_replayed : int
        Decisions whose action and propensity were computed again.
    n_skipped : dict of reason to int
        Decisions that cannot be: those of a caller.
    n_mismatches : int
    mismatches : list of Mismatch
        The first of them.
    weights : list of dict
        For each policy that was served, the mean of its importance weights; it is 1 up to chance if propensities are
        right.
    drift : list of dict
        Columns whose distribution in the newest decisions differs from the earlier ones beyond chance.
    """

    n_replayed: int = 0
    n_skipped: dict[str, int] = field(default_factory=dict)
    n_mismatches: int = 0
    mismatches: list[Mismatch] = field(default_factory=list)
    weights: list[dict[str, Any]] = field(default_factory=list)
    drift: list[dict[str, Any]] = field(default_factory=list)

    @property
    def is_sound(self) -> bool:
        """Whether every decision was found again and all mean weights are as they should be."""
        return self.n_mismatches == 0 and all(one["is_fine"] for one in self.weights)

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values."""
        return {**asdict(self), "is_sound": self.is_sound}


def watch(folder: str | Path, *, last: int | None = None) -> WatchResult:
    """Replay decisions and look for drift; nothing is changed.

    Parameters
    ----------
    folder : path
        Of the loop.
    last : int, optional
        How many of the newest decisions are replayed; all by default.
    """
    loop = LoopFolder(folder)
    settings = loop.settings()
    with EventStore(loop.events) as store:
        replayed, skipped, mismatches = _replay(loop, store, last)
    return WatchResult(
        n_replayed=replayed,
        n_skipped=dict(skipped),
        n_mismatches=len(mismatches),
        mismatches=mismatches[:MAX_NAMED],
        weights=mean_weights(loop.log),
        drift=context_drift(loop.log, settings.holdout),
    )


def _replay(loop: LoopFolder, store: EventStore, last: int | None) -> tuple[int, Counter[str], list[Mismatch]]:
    mixtures: dict[int, ServedMixture] = {}
    promotions = {row.id: row for row in store.promotions()}
    n_replayed, skipped = 0, Counter[str]()
    mismatches: list[Mismatch] = []
    for row in store.decisions(since=_since(store, last)):
        if row.decider == CALLER:
            skipped[CALLER] += 1
            continue
        if row.promotion not in mixtures:
            mixtures[row.promotion] = loop.mixture(promotions[row.promotion])
        mismatches += replay_decision(row, mixtures[row.promotion], store.seed)
        n_replayed += 1
    return n_replayed, skipped, mismatches


def replay_decision(row: DecisionRow, mixture: ServedMixture, seed: int) -> list[Mismatch]:
    """Return in what a decision differs from the one that its record, its event and what was served lead to."""
    draw = draw_of(seed, row.event)
    chosen = mixture.decide(row.context, row.eligible, row.draw, row.decider)
    pairs = {
        "draw": (row.draw, draw),
        "action": (row.action, chosen.action),
        "propensity": (row.propensity, chosen.propensity),
        "policy's probability": (row.policy_prob, chosen.policy_prob),
        "baseline's probability": (row.baseline_prob, chosen.baseline_prob),
    }
    return [Mismatch(row.event, what, *pair) for what, pair in pairs.items() if pair[0] != pair[1]]


def mean_weights(log: Path) -> list[dict[str, Any]]:
    """Return the mean importance weight of each policy that was served, on the decisions made under it."""
    from pyarrow import parquet

    weights: dict[str, list[FloatArray]] = {}
    for file in joined_files(log):
        table = parquet.read_table(file, columns=["_policy", "_policy_prob", ROLES["propensity"]])
        policy = np.asarray(table["_policy"].to_pylist())
        weight = table["_policy_prob"].to_numpy() / table[ROLES["propensity"]].to_numpy()
        for name in np.unique(policy).tolist():
            weights.setdefault(name, []).append(weight[(policy == name) & ~np.isnan(weight)])
    found = {name: np.concatenate(parts) for name, parts in weights.items()}
    return [_mean_weight(name, weight) for name, weight in found.items() if len(weight) > 1]


def _mean_weight(policy: str, weight: FloatArray) -> dict[str, Any]:
    mean = float(weight.mean())
    z = mean_weight_z(mean, mean_std_err(weight), mean_skewness(weight))
    return {"policy": policy, "mean": mean, "z": z, "n": len(weight), "is_fine": not is_mean_off(mean, z)}


def context_drift(log: Path, share: float) -> list[dict[str, Any]]:
    """Return the columns that the newest share of the decisions holds otherwise than those before."""
    if not joined_files(log):
        return []
    read = BanditLog.read(log, has_propensity=False)
    if read.n_samples < MIN_DRIFT_SAMPLES:
        return []
    before, newest = divide(read, share, by="time").split(read)
    return [one.to_dict() for one in find_drift(before, newest)]


def _since(store: EventStore, last: int | None) -> int:
    """Return the time before the newest decisions that are asked for."""
    if last is None:
        return 0
    with store.reading() as connection:
        select = "SELECT time FROM decision ORDER BY time DESC, id DESC LIMIT 1 OFFSET ?"
        found = connection.execute(select, (last - 1,)).fetchone()
    return 0 if found is None else int(found[0]) - 1
