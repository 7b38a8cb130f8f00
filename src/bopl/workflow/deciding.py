"""How sharply a policy acts, and its decisions for a file of contexts."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bopl._errors import UsageError, checking_usage, did_you_mean
from bopl._settings import check_number
from bopl._typing import AnyArray, IntArray
from bopl.cluster import map_over
from bopl.log import Piece
from bopl.log.format import LogParts, check_extension, read_parts
from bopl.log.format.files import writing_parts
from bopl.log.pieces.footer import common_types
from bopl.log.pieces.piece import naming_rows
from bopl.log.pieces.scan import pieces_of
from bopl.log.pieces.spec import read_piece
from bopl.log.schema import LogSchema
from bopl.log.written import further_columns
from bopl.policy import load
from bopl.policy.policy import draw_actions
from bopl.race import AutoPolicy
from bopl.workflow.config import TrainConfig
from bopl.workflow.reading import Scale, choose_scale, noting, schema_of
from bopl.workflow.run_folder import check_writable

logger = logging.getLogger(__name__)
BLOCK_ROWS = 1 << 17


def with_sharpness(policy: Any, inverse_temperature: float | None) -> Any:
    """Return the policy as it is, or a copy that acts at another inverse temperature."""
    if inverse_temperature is None:
        return policy
    with checking_usage():
        check_number("inverse_temperature", inverse_temperature, low=0.0)
        return policy.sharpened(inverse_temperature)


def sharpen_trained(policy: Any, config: TrainConfig, *, level: int = logging.WARNING) -> Any:
    """Return a newly trained policy, as sharp as the settings say; the logging policy stays as it is."""
    if config.inverse_temperature is not None and isinstance(policy, AutoPolicy) and policy.is_logging_:
        logger.log(level, "inverse_temperature has no effect: the policy is the logging policy.")
        return policy
    return with_sharpness(policy, config.inverse_temperature)


def is_greedy(policy: Any) -> bool:
    """Return whether the policy always takes its best action."""
    return bool(np.isinf(policy.trained_inverse_temperature))


def describe_acting(policy: Any, name: str = "the policy") -> str:
    """Return a sentence that says whether values are those of the policy as it samples, or of its best actions."""
    if is_greedy(policy):
        return f"Values are those of {name} as it acts: greedily, always taking its best action."
    factor = policy.trained_inverse_temperature
    return f"Values are those of {name} as it samples (inverse temperature {factor:.4g}), not only of its best actions."


@dataclass(frozen=True)
class Decisions:
    """The decisions: their number, their columns, the share of each action, and warnings.

    ``is_certain`` means that every action had probability one, so that nothing can be learned from the decisions.
    """

    n_samples: int
    columns: list[str]
    shares: dict[str, float]
    warnings: list[str]
    is_certain: bool

    def to_dict(self) -> dict[str, Any]:
        """Return what was decided, as plain values."""
        return {name: getattr(self, name) for name in ("n_samples", "columns", "shares", "warnings")}


def decide(
    contexts: str | Path | Sequence[str | Path],
    policy_file: str | Path,
    out: str | Path,
    *,
    is_sampled: bool,
    keep: Sequence[str] = (),
    format: str | None = None,
    random_state: int | None = None,
    inverse_temperature: float | None = None,
    memory: str | None = None,
    cluster: str | None = None,
) -> Decisions:
    """Write an action for every context of a file, or of several.

    Parameters
    ----------
    contexts, policy_file, out : path
    is_sampled : bool
        Draw the actions and write their propensities; otherwise take the most probable ones and write their
        probabilities.
    keep : sequence of str
        Columns of the contexts to copy.
    format : str, optional
        Format of the contexts.
    random_state : int, optional
        Seed of the draws.
    inverse_temperature : float in [0, inf], optional
        How sharply the policy acts; as trained by default.
    memory : str, optional
        Memory that the contexts may take, such as ``"4GB"``; more are read in pieces, with the same decisions.
    cluster : str, optional
        Address of a Dask scheduler whose workers decide.
    """
    check_extension(out)
    given = [contexts] if isinstance(contexts, str | Path) else list(contexts)
    check_writable(out, read=[*given, policy_file])
    scale = choose_scale(contexts, format=format, memory=memory, cluster=cluster)
    decider = Decider(
        with_sharpness(load(policy_file), inverse_temperature),
        tuple(keep),
        np.random.SeedSequence(random_state).entropy if is_sampled else None,
    )
    decider.check_names()
    labels = decider.policy.actions_
    count, is_certain, columns = np.zeros(len(labels), dtype=np.int64), True, []
    with noting() as unseen, writing_parts(out) as write:
        for chosen, table in _decided(decider, contexts, format, scale, cluster):
            count += chosen
            is_certain &= bool((table[decider.columns[1]].to_numpy() == 1.0).all())
            columns = table.column_names
            write(table)
    n_samples = int(count.sum())
    shares = dict(zip(map(str, labels.tolist()), (count / max(n_samples, 1)).tolist(), strict=True))
    return Decisions(n_samples, columns, shares, list(dict.fromkeys(unseen)), is_certain)


def _decided(
    decider: Decider, contexts: Any, format: str | None, scale: Scale, cluster: str | None
) -> Iterator[tuple[IntArray, Any]]:
    """Yield how often each action was chosen, and the decisions as a table, part by part."""
    schema = schema_of(decider.policy)
    if scale.footers is None:
        parts = read_parts(contexts, format=format, text=schema.text_columns)
        yield decider.decide(parts, 0)
        return
    columns = context_columns(scale.footers[0].schema, schema, decider.keep)
    types = common_types(scale.footers, columns)
    pieces = pieces_of(scale.footers)
    rows = [piece.n_rows for piece in pieces]
    yield from map_over(cluster, pieces, _decide_piece, decider, tuple(columns), types, rows=rows)


def _decide_piece(
    piece: Piece, decider: Decider, columns: tuple[str, ...], types: dict[str, Any]
) -> tuple[IntArray, Any]:
    parts = read_piece(piece, columns, types)
    with naming_rows(piece, None):
        return decider.decide(parts, piece.offset)


def context_columns(present: Any, schema: LogSchema, keep: Sequence[str]) -> list[str]:
    """Return the columns of files that a policy with this schema reads, and those to keep."""
    wanted = [*(column.name for column in schema.columns), *keep]
    columns = [name for name in dict.fromkeys(wanted) if name in present.names]
    if not schema.is_sparse and len(columns) < len(set(wanted)):
        columns = list(present.names)  # so that an error about a missing column can name all columns
    return columns + further_columns(present, columns, ())


@dataclass(frozen=True, eq=False)
class Decider:
    """Decides on contexts, in this process or another."""

    policy: Any
    keep: tuple[str, ...]  # columns of the contexts to copy
    seed: Any  # of the draws: int, or sequence of them; None takes the most probable actions

    @property
    def columns(self) -> tuple[str, str]:
        """Names of the columns of the decisions."""
        return "action", "probability" if self.seed is None else "propensity"

    def check_names(self) -> None:
        """Raise if a column to keep has the name of a column of the decisions."""
        taken = [name for name in self.keep if name in self.columns]
        if taken:
            raise UsageError(f"{taken[0]!r} cannot be kept: the decisions have a column of this name; rename it first.")

    def decide(self, parts: LogParts, first_row: int) -> tuple[IntArray, Any]:
        """Return how often each action is chosen on contexts, and the decisions as a table.

        Draws depend on the number of a row among all contexts, so that it does not matter how they are divided.
        """
        import pyarrow

        names = parts.table.column_names
        absent = [name for name in self.keep if name not in names]
        if absent:
            raise UsageError(f"there is no column {absent[0]!r} to keep.{did_you_mean(absent[0], names)}")
        chosen, probability = _choose(self.policy, parts, self._generator(first_row))
        table = pyarrow.table(
            {name: parts.table[name] for name in self.keep}
            | dict(zip(self.columns, (self.policy.actions_[chosen], probability), strict=True))
        )
        return np.bincount(chosen, minlength=len(self.policy.actions_)), table

    def _generator(self, first_row: int) -> np.random.Generator | None:
        """Return a generator at a given row: one number has been drawn for each row before it."""
        if self.seed is None:
            return None
        bits = np.random.PCG64(np.random.SeedSequence(self.seed))
        return np.random.Generator(bits.advance(first_row))


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
