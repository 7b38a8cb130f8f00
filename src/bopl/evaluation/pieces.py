"""Evaluation of a log in pieces: each is summed up by itself, here or on a cluster, and the sums are joined in order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from bopl._errors import UsageError
from bopl.cluster import using_cluster
from bopl.evaluation.accumulate import ValueAccumulator
from bopl.evaluation.result import Evaluation
from bopl.log import PartitionedLog, Piece
from bopl.log.pieces.spec import PieceSpec
from bopl.reward.prediction import is_fitted

PIECES_AT_ONCE = 256  # whose sums are fetched from a cluster before they are joined


def evaluate_pieces(log: PartitionedLog, accumulator: ValueAccumulator, cluster: Any = None) -> Evaluation:
    """Return the evaluation of a log in pieces; it is the same whoever sums up the pieces.

    Parameters
    ----------
    log : PartitionedLog
    accumulator : ValueAccumulator
        Without samples.
    cluster : Cluster, distributed.Client or str, optional
        Where pieces are summed up; one after the other in this process by default.
    """
    log.require_propensity()
    given = _arrays(log, accumulator)
    first, *others = log.pieces
    # The first piece chooses units and settings for all.
    accumulator.take_in(_summed(log.spec, accumulator, first, _rows_of(given, first)))
    if cluster is None:
        for piece in others:
            accumulator.take_in(_summed(log.spec, accumulator, piece, _rows_of(given, piece)))
    else:
        for part in _summed_on(cluster, log.spec, accumulator, others, given):
            accumulator.take_in(part)
    return accumulator.result()


def check_suits_pieces(
    propensity: object, logger: object, segment: object, confounding: bool | None, reward_model: object
) -> None:
    """Raise one sentence if something is asked that needs the whole log in memory."""
    if propensity not in (None, "uniform") or logger is not None:
        raise UsageError(
            "a log in pieces takes the propensities of its files, or propensity='uniform': a model of the logging "
            "policy and the mixture of several need the log in memory. Draw a part of it with log.sample(…)."
        )
    if segment is not None:
        raise UsageError(
            "name the segments of a log in pieces where it is scanned: scan_parquet(…, segment='country')."
        )
    if confounding:
        raise UsageError(
            "confounding needs the log in memory: ask for it on a part of the log, drawn with log.sample(…)."
        )
    is_array = isinstance(reward_model, np.ndarray | list)
    if reward_model is not None and (is_array or not is_fitted(reward_model)):
        raise UsageError(
            "a log in pieces is not cross-fitted: give a reward model that was fitted on other samples, such as "
            "train.sample(200_000)."
        )


def _arrays(log: PartitionedLog, accumulator: ValueAccumulator) -> dict[str, Any]:
    """Return the policies that are arrays with a row for each sample of the log, and check that they are."""
    found = {
        name: np.asarray(policy)
        for name, policy in accumulator.policies.items()
        if isinstance(policy, np.ndarray | list)
    }
    for name, values in found.items():
        if len(values) != log.n_samples:
            raise ValueError(f"policy {name!r} has {len(values)} rows, the log {log.n_samples}; each sample needs one.")
        accumulator.policies[name] = None  # every piece brings its own rows
    return found


def _rows_of(given: dict[str, Any], piece: Piece) -> dict[str, Any] | None:
    return {name: values[piece.rows] for name, values in given.items()} or None


def _summed(
    spec: PieceSpec, accumulator: ValueAccumulator, piece: Piece, policies: dict[str, Any] | None
) -> ValueAccumulator:
    """Return the sums of one piece."""
    part = spec.load(piece)
    return accumulator.summed(accumulator.read(part, policies, part.group), first_row=piece.offset)


def _summed_on(
    cluster: Any, spec: PieceSpec, accumulator: ValueAccumulator, pieces: list[Piece], given: dict[str, Any]
) -> Iterator[ValueAccumulator]:
    """Yield the sums of pieces, in their order, computed by the workers of a cluster."""
    template = accumulator.emptied()
    with using_cluster(cluster) as workers:
        for start in range(0, len(pieces), PIECES_AT_ONCE):
            some = pieces[start : start + PIECES_AT_ONCE]
            states = [(piece, _rows_of(given, piece)) for piece in some]
            with workers.place(states, _as_it_is, rows=[piece.n_rows for piece in some]) as placed:
                yield from placed.gather(_summed_state, spec, template)


def _as_it_is(state: Any, settled: Any, cache: Any) -> Any:
    return state


def _summed_state(
    state: tuple[Piece, dict[str, Any] | None], spec: PieceSpec, template: ValueAccumulator
) -> ValueAccumulator:
    return _summed(spec, template, *state)
