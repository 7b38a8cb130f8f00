"""The audit of a log in pieces: outcomes of all samples without their contexts, contexts of a drawn part."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from bopl._policy_reader import read_policy, row_blocks
from bopl._typing import FloatArray
from bopl.log.bandit_log import BanditLog
from bopl.log.concatenation import join_parts
from bopl.log.finding import NOTE, Audit, Finding
from bopl.log.log_audit import audit_log
from bopl.log.weight_audit import support_finding

if TYPE_CHECKING:
    from bopl.log.pieces.partitioned import PartitionedLog
    from bopl.log.pieces.piece import Piece
    from bopl.log.pieces.spec import PieceSpec

MAX_CONTEXTS = 200_000  # samples whose contexts are looked at
MAX_OUTCOMES = 10_000_000  # samples whose actions, rewards and propensities are; some 50 bytes each
_SEED = 0  # of the draw: two audits of one log agree

Over = Callable[..., Iterable[Any]]


def one_by_one(pieces: Iterable[Piece], function: Callable[..., Any], *shared: Any) -> Iterator[Any]:
    """Go through pieces in this process."""
    return (function(piece, *shared) for piece in pieces)


def audit_pieces(
    log: PartitionedLog,
    policy: object | None,
    logging_policy: object | None,
    keep: Sequence[str | int] = (),
    *,
    max_contexts: int = MAX_CONTEXTS,
    max_outcomes: int = MAX_OUTCOMES,
    over: Over = one_by_one,
) -> Audit:
    """Run all checks of `BanditLog.audit` on a log in pieces; see `PartitionedLog.audit`.

    ``over(pieces, function, *shared)`` yields ``function(piece, *shared)`` of every piece, in their order.
    """
    part = log if log.n_samples <= max_outcomes else log.drawn(max_outcomes, _SEED)
    found = list(over(part.pieces, _outcomes_of, part.spec, policy, logging_policy))
    outcomes = join_parts([one.outcomes for one in found]).with_origin(log.origin)
    audit = audit_log(
        outcomes,
        _joined([one.policy_prob for one in found]),
        _joined([one.logging_prob for one in found]),
        keep,
        seen=log.sample(max_contexts, _SEED),
    )
    findings = list(audit.findings)
    if (unsupported := _unsupported(outcomes, found)) is not None:
        place = next(idx for idx, finding in enumerate(findings) if finding.check == "mean_weight_policy")
        findings.insert(place, support_finding(unsupported))
    findings += _drawn_findings(log.n_samples, part.n_samples, max_contexts)
    return Audit(tuple(findings), log.n_samples, audit.leaks)


@dataclass(frozen=True)
class _Outcomes:
    """What an audit keeps of a piece."""

    outcomes: BanditLog  # its samples without contexts
    policy_prob: FloatArray | None = None  # (n_rows,): probabilities of the logged actions
    logging_prob: FloatArray | None = None  # (n_rows,): the same under the logging policy
    # (n_actions,): sum of the policy's probabilities of each action where it could be chosen
    mass: FloatArray | None = None
    mass_outside: float = 0.0  # sum of those where it could not


def _outcomes_of(piece: Piece, spec: PieceSpec, policy: Any, logging_policy: Any) -> _Outcomes:
    part = spec.load(piece)
    logging_prob = None if logging_policy is None else _logged_prob(part, logging_policy, "logging_policy")[0]
    if policy is None:
        return _Outcomes(part.outcomes(), None, logging_prob)
    policy_prob, mass, outside = _logged_prob(part, policy, "policy")
    return _Outcomes(part.outcomes(), policy_prob, logging_prob, mass, outside)


def _logged_prob(log: BanditLog, policy: Any, name: str) -> tuple[FloatArray, FloatArray, float]:
    """Return a policy's probabilities of the logged actions, and the sums of those of all actions."""
    reader = read_policy(policy, log, name)
    prob, mass, outside = np.empty(log.n_samples), np.zeros(log.n_actions), 0.0
    for rows in row_blocks(log.n_samples, log.n_actions):
        block = reader.block(rows)
        prob[rows] = block.logged_prob
        assert block.action_prob is not None
        eligible = True if log.action_mask is None else log.action_mask[rows]
        mass += np.where(eligible, block.action_prob, 0.0).sum(axis=0)
        outside += float(np.where(eligible, 0.0, block.action_prob).sum())
    return prob, mass, outside


def _unsupported(log: BanditLog, found: Sequence[_Outcomes]) -> float | None:
    """Return the share of a policy's probability on actions that were never taken or possible."""
    masses = [one.mass for one in found if one.mass is not None]
    if not masses:
        return None
    never = np.bincount(log.action_idx, minlength=log.n_actions) == 0
    outside = sum(one.mass_outside for one in found)
    return float((np.sum(masses, axis=0)[never].sum() + outside) / log.n_samples)


def _joined(parts: Sequence[FloatArray | None]) -> FloatArray | None:
    there = [part for part in parts if part is not None]
    return np.concatenate(there) if there else None


def _drawn_findings(n_samples: int, n_outcomes: int, max_contexts: int) -> list[Finding]:
    """Return what was looked at in a part of the log only."""
    if n_samples <= max_contexts:
        return []
    said = f"Leaks, copies and columns were searched for in {max_contexts:,} of {n_samples:,} samples, drawn at random"
    if n_outcomes < n_samples:
        said += f", and propensities, actions and weights checked in {n_outcomes:,} of them"
    return [
        Finding(
            "drawn_part",
            NOTE,
            max_contexts / n_samples,
            f"{said}; such a part contains only a few of the copies.",
        )
    ]
