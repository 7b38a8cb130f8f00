"""`Validation` of a log in pieces."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from bopl._exact import no_limbs, value_of
from bopl._typing import AnyArray, FloatArray
from bopl.boosting.callback import BoostingState, Validation, watched_totals
from bopl.boosting.ensemble import Round, Start
from bopl.cluster import Cluster, Placement
from bopl.learner.pieces import Loader, Part, PiecesLog, parts_of, place_parts
from bopl.log import BanditLog


@dataclass
class WatchedState:
    """A piece of the validation log with its scores."""

    log: BanditLog
    score: FloatArray


@dataclass(frozen=True)
class BuildWatched:
    """Makes the state of a piece of the validation log."""

    loader: Loader
    start: Start

    def __call__(self, part: Part, settled: Iterable[Round], cache: Any) -> WatchedState | None:
        """Return the state; an empty piece has none."""
        if part.n_rows == 0:
            return None
        log = self.loader.load(part.piece)
        state = WatchedState(log, self.start.score(log.context, log.n_actions))
        for made in settled:
            _move(state, made)
        return state


class PiecesValidation(Validation):
    """Like `Validation`, for a log in pieces; must be closed."""

    def __init__(self, log: PiecesLog, cluster: Cluster, patience: int | None = None) -> None:
        super().__init__(log, patience)  # type: ignore[arg-type]
        self._cluster, self._pieces = cluster, log
        self._placed: Placement | None = None

    def _begin(self, state: BoostingState) -> None:
        self.close()
        self._placed = place_parts(self._cluster, parts_of(self._pieces), BuildWatched(self._pieces.spec, state.start))
        self._least = float(self._placed.reduce(_least, add=min))

    def _move(self, made: Round) -> None:
        assert self._placed is not None
        self._placed.update(_move, made)
        self._placed.settle(made)

    def _watch(self, n_rounds: int) -> float:
        assert self._placed is not None
        weight, rewarded = self._placed.reduce(_totals, self._least, add=operator.add)
        return self._judge(n_rounds, value_of(weight), value_of(rewarded))

    def close(self) -> None:
        """Release the pieces."""
        if self._placed is not None:
            self._placed.close()
            self._placed = None


def _move(state: WatchedState | None, made: Round) -> WatchedState | None:
    if state is not None:
        state.score += made.step.size * made.predictor.predict(state.log.context)
    return state


def _least(state: WatchedState | None) -> float:
    return np.inf if state is None else float(state.log.propensity.min())


def _totals(state: WatchedState | None, least: float) -> AnyArray:
    return no_limbs(2) if state is None else np.stack(watched_totals(state.score, state.log, least))
