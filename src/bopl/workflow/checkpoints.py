"""Checkpoints of a run: kill it, run the same command again, and get the same policy to the last byte."""

from __future__ import annotations

import hashlib
import json
import logging
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from bopl._machine import versions
from bopl._typing import AnyArray
from bopl.boosting import BoostingState, CallbackAction, Checkpoint
from bopl.boosting.loop import AnyCallback
from bopl.boosting.workbench import Keeper
from bopl.log import BanditLog, PartitionedLog
from bopl.workflow.config import TrainConfig

logger = logging.getLogger(__name__)

SECONDS = 20.0  # between two writes, at least
COSTS = 20.0  # ... and this many times as long as a write takes
MAX_BYTES = 2**29  # of scores: more would take long to write, and several times their memory
INDIFFERENT = ("log", "out", "n_jobs")  # settings that do not affect what is learned; the log has its fingerprint
PATTERN = ".fit-*.checkpoint"
HALF = "..fit-*.checkpoint"  # of a process that was killed while it wrote one

GOING_ON = "Resuming from the checkpoint of an earlier run with the same log and settings."
NO_ROOM = "There is no checkpoint, so a killed run would start from the beginning: {}"

T = TypeVar("T")


class Checkpoints(Keeper):
    """The progress of the fits of a run and of the parts of its race: hidden files in its folder, one for each.

    Their names contain a digest of the settings, the versions and the log: only an identical run finds them. ``origin``
    is what distinguishes the log from others.
    """

    def __init__(self, folder: Path, config: TrainConfig, origin: Sequence[str]) -> None:
        super().__init__()
        settings = {name: value for name, value in config.to_dict().items() if name not in INDIFFERENT}
        facts = json.dumps([settings, versions(), *origin], sort_keys=True, default=str)
        self._folder, self._key = folder, hashlib.sha256(facts.encode()).hexdigest()[:16]
        self._said = set[str]()
        self._n_fits, self._cost = 0, 0.0

    def recall(self, name: str, read: Callable[[Path], T]) -> T | None:
        """Return the progress of a part of a race in an earlier run; None if there is none or it cannot be read."""
        path = self._path(name)
        if not path.is_file():
            return None
        try:
            found = read(path)
        except ValueError:  # of a damaged file
            path.unlink(missing_ok=True)
            return None
        self._say_once(logging.INFO, GOING_ON)
        return found

    def keep(self, name: str, write: Callable[[Path], None], *, seconds: float) -> bool:
        """Write the progress of a part of a race, unless recomputing is as fast; return whether it was written."""
        if seconds < max(SECONDS / 10, COSTS * self._cost):
            return False
        began = time.monotonic()
        try:
            write(self._path(name))
        except OSError as error:
            self._say_once(logging.WARNING, NO_ROOM.format(error))
            return False
        finally:
            self._cost = time.monotonic() - began
        return True

    def _path(self, name: str) -> Path:
        return self._folder / f".fit-{hashlib.sha256(name.encode()).hexdigest()[:16]}-{self._key}.checkpoint"

    def fit(
        self, fit: Callable[..., Any], log: BanditLog | PartitionedLog, callbacks: Sequence[AnyCallback] = ()
    ) -> None:
        """Fit a policy, starting from its checkpoint if an earlier run has left one."""
        self._n_fits += 1
        path = self._folder / f".fit-{self._n_fits}-{self._key}.checkpoint"
        is_large = isinstance(log, BanditLog) and 8 * log.n_samples * log.n_actions > MAX_BYTES  # pieces keep scores
        writer = [] if is_large else [RunCheckpoint(path, self._say_once)]
        fit = partial(fit, log, callbacks=[*callbacks, *writer])
        if path.is_file():
            try:
                fit(resume_from=path)
                return
            except ValueError:  # of a damaged checkpoint; if the fit itself is to blame, it raises again
                path.unlink(missing_ok=True)
        fit()

    def _say_once(self, level: int, sentence: str) -> None:
        if sentence not in self._said:
            self._said.add(sentence)
            logger.log(level, sentence)

    def tell(self) -> None:
        """Say that an interrupted run can be resumed."""
        if any(self._folder.glob(PATTERN)):
            logger.info("Run the same command again to resume from here.")


def digest_of(column: AnyArray | None) -> str:
    """Return what distinguishes a column of a log from others."""
    return "" if column is None else hashlib.sha256(np.ascontiguousarray(column).tobytes()).hexdigest()


def drop_checkpoints(folder: Path) -> None:
    """Remove all checkpoints of a folder when they are no longer needed."""
    for pattern in (PATTERN, HALF):
        for path in folder.glob(pattern):
            path.unlink(missing_ok=True)


class RunCheckpoint(Checkpoint):
    """A checkpoint that is written when enough time has passed to be worth it; without space, the fit continues.

    ``say`` takes a level of `logging` and a sentence.
    """

    def __init__(self, path: Path, say: Callable[[int, str], None]) -> None:
        super().__init__(path, every=1)
        self._say = say
        self._last, self._cost = 0.0, 0.0

    def on_start(self, state: BoostingState) -> None:
        """Start the clock."""
        super().on_start(state)
        self._last = time.monotonic()
        if state.rounds:
            self._say(logging.INFO, GOING_ON)

    def __call__(self, state: BoostingState) -> CallbackAction:
        """Write if it is due."""
        return super().__call__(state) if self._is_due(SECONDS) else CallbackAction.CONTINUE

    def on_end(self, state: BoostingState) -> None:
        """Write the last rounds too, unless recomputing is as fast."""
        if self._is_due(SECONDS / 10):
            super().on_end(state)

    def _is_due(self, seconds: float) -> bool:
        return time.monotonic() - self._last >= max(seconds, COSTS * self._cost)

    def _write(self, state: BoostingState) -> None:
        began = time.monotonic()
        try:
            super()._write(state)
        except OSError as error:
            self._say(logging.WARNING, NO_ROOM.format(error))
        self._last = time.monotonic()
        self._cost = self._last - began
