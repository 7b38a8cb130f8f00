"""Decisions for a file of contexts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bopl._errors import UsageError, did_you_mean
from bopl._typing import AnyArray
from bopl.log.format import LogParts, check_extension, read_parts, write_table
from bopl.policy import load
from bopl.policy.base import draw_actions
from bopl.workflow.reading import noting_unseen, schema_of
from bopl.workflow.run_folder import check_writable
from bopl.workflow.sharpness import with_sharpness

BLOCK_ROWS = 1 << 17


@dataclass(frozen=True)
class Decisions:
    """What was decided: how many, in which columns, the share of each action, and what should be known of it.

    ``is_certain`` says that every action had probability one, so that nothing can be learned from what is drawn.
    """

    n_samples: int
    columns: list[str]
    shares: dict[str, float]
    warnings: list[str]
    is_certain: bool


def decide(
    contexts: str | Path,
    policy_file: str | Path,
    out: str | Path,
    *,
    is_sampled: bool,
    keep: Sequence[str] = (),
    format: str | None = None,
    random_state: int | None = None,
    inverse_temperature: float | None = None,
) -> Decisions:
    """Write an action for every context of a file.

    Parameters
    ----------
    contexts, policy_file, out : path
    is_sampled : bool
        Draw the actions and write their propensities; otherwise take the most probable ones and write how probable
        they are.
    keep : sequence of str
        Columns of the contexts to copy.
    format : str, optional
        Of the contexts.
    random_state : int, optional
        Seed of the draws.
    inverse_temperature : float in [0, inf], optional
        How sharply the policy acts; by default as it was trained.
    """
    check_extension(out)
    check_writable(out, read=[contexts, policy_file])
    policy = with_sharpness(load(policy_file), inverse_temperature)
    parts = read_parts(contexts, format=format, text=schema_of(policy).text_columns)
    absent = [name for name in keep if name not in parts.table.column_names]
    if absent:
        names = parts.table.column_names
        raise UsageError(f"there is no column {absent[0]!r} to keep.{did_you_mean(absent[0], names)}")
    decided = ("action", "propensity" if is_sampled else "probability")
    taken = [name for name in keep if name in decided]
    if taken:
        raise UsageError(f"{taken[0]!r} cannot be kept: a column of the decisions is called so; rename it first.")
    with noting_unseen() as unseen:
        chosen, probability = _choose(policy, parts, np.random.default_rng(random_state) if is_sampled else None)
    columns = {name: parts.table[name] for name in keep}
    columns |= dict(zip(decided, (policy.actions_[chosen], probability), strict=True))
    write_table(columns, out)
    shares = np.bincount(chosen, minlength=len(policy.actions_)) / len(chosen)
    names = map(str, policy.actions_.tolist())
    named = dict(zip(names, shares.tolist(), strict=True))
    return Decisions(len(chosen), list(columns), named, unseen, bool((probability == 1.0).all()))


def _choose(policy: Any, parts: LogParts, rng: np.random.Generator | None) -> tuple[AnyArray, AnyArray]:
    """Return the position of the action of every context and its probability: drawn, or the most probable."""
    mask = parts.mask_for(policy.actions_.tolist())
    context = parts.context_for(schema_of(policy))
    chosen = np.empty(len(parts.table), dtype=np.int64)
    probability = np.empty(len(parts.table))
    for start in range(0, len(parts.table), BLOCK_ROWS):
        rows = slice(start, start + BLOCK_ROWS)
        masked = {} if mask is None else {"action_mask": mask[rows]}
        action_prob = policy.predict_proba(context[rows], **masked)
        chosen[rows] = action_prob.argmax(axis=1) if rng is None else draw_actions(action_prob, rng)
        probability[rows] = np.take_along_axis(action_prob, chosen[rows, None], axis=1)[:, 0]
    return chosen, probability
