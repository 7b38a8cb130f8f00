"""The decisions of a trial, from the joined log."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bopl.serving.canary import TrialRows
from bopl.serving.columns import ROLES
from bopl.serving.events import EventStore
from bopl.serving.folder import LoopFolder
from bopl.serving.joining import joined_files
from bopl.serving.record import MIXTURE, PromotionRow
from bopl.serving.standing import Standing

_COLUMNS = ("_promotion", "_event", "_decider", "_policy_prob", "_baseline_prob", ROLES["propensity"], ROLES["reward"])


def count_joined(log: Path) -> int:
    """Return the number of joined decisions."""
    from pyarrow import parquet

    return sum(parquet.read_metadata(file).num_rows for file in joined_files(log))


def trial_rows(loop: LoopFolder, store: EventStore, standing: Standing) -> TrialRows:
    """Return the joined decisions of the trial in force that were drawn from what was served.

    At a share of 1 the server does not ask what was replaced: that is done here, from the records as they came.
    """
    import pyarrow

    promotions = {row.id: row for row in standing.trial}
    tables = [part for file in joined_files(loop.log) if len(part := _read(file, promotions)) > 0]
    mixture = loop.mixture(standing.now)
    n_actions = max(len(mixture.actions), 1)
    if not tables:
        none = np.zeros(0)
        return TrialRows(np.zeros(0, np.int64), none, none, none, none, n_actions)
    table = pyarrow.concat_tables(tables)
    columns = {name: table[name].to_numpy() for name in _COLUMNS if name not in ("_event", "_decider")}
    baseline = columns["_baseline_prob"].copy()
    unasked = np.flatnonzero(np.isnan(baseline))
    if len(unasked):
        baseline[unasked] = _asked_now(
            loop, store, standing.trial, [table["_event"][int(row)].as_py() for row in unasked]
        )
    return TrialRows(
        columns["_promotion"],
        columns["_policy_prob"],
        baseline,
        columns[ROLES["propensity"]],
        columns[ROLES["reward"]],
        n_actions,
    )


def _read(file: Path, promotions: dict[int, PromotionRow]) -> Any:
    from pyarrow import compute, parquet

    table = parquet.read_table(file, columns=list(_COLUMNS))
    is_part = np.isin(table["_promotion"].to_numpy(), list(promotions))
    is_drawn = compute.equal(table["_decider"], MIXTURE).to_numpy(zero_copy_only=False)
    return table.filter(is_part & is_drawn.astype(bool))


def _asked_now(
    loop: LoopFolder, store: EventStore, trial: Sequence[PromotionRow], events: Sequence[str]
) -> list[float]:
    """Return what the baseline of a trial gives to the actions of decisions that it was not asked for."""
    mixture = loop.mixture(trial[-1])
    place = {label: position for position, label in enumerate(mixture.actions)}
    wanted = set(events)
    found: dict[str, float] = {}
    for row in store.decisions(since=trial[0].time - 1):
        if row.event in wanted:
            prob = mixture.baseline_alone(row.context, mixture.mask(row.eligible))
            found[row.event] = float(prob[place[row.action]])
    return [found[event] for event in events]
