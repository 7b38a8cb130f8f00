"""Checkpoints: kill the process at any moment, resume, and get the same model to the last bit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from bopl._archive import Archive, check_array, checking_contents, read_archive, write_archive
from bopl._files import as_path
from bopl._settings import check_number
from bopl._typing import AnyArray
from bopl.boosting.callback import BoostingState, Callback, CallbackAction
from bopl.boosting.ensemble import pack_rounds, read_records, unpack_rounds
from bopl.boosting.history import COLUMNS
from bopl.log import BanditLog
from bopl.log.identical import content_digest, sample_keys

FORMAT_NUMBER = 3  # 1 identified an objective by its name alone, 2 added up in the order of the rows
KIND = "checkpoint"


class Checkpoint(Callback):
    """Write the state of the fit every few rounds, and once more at the end.

    Parameters
    ----------
    path : str or Path
        The file; replaced atomically each time. Resume with ``policy.fit(log, resume_from=path)``.
    every : int, default=10
        Number of rounds between two writes.
    """

    def __init__(self, path: str | Path, every: int = 10) -> None:
        check_number("every", every, low=1, integer=True)
        self.path = as_path(path)
        self.every = every
        self._fingerprint = ""
        self._written = 0

    def on_start(self, state: BoostingState) -> None:
        """Check that the folder exists before spending hours on something that cannot be written."""
        if not self.path.parent.is_dir():
            raise FileNotFoundError(f"there is no folder {str(self.path.parent)!r} for the checkpoint; create it.")
        self._fingerprint = state.log_digest()
        self._written = len(state.rounds)

    def __call__(self, state: BoostingState) -> CallbackAction:
        """Write if it is due."""
        if len(state.rounds) % self.every == 0:
            self._write(state)
        return CallbackAction.CONTINUE

    def on_end(self, state: BoostingState) -> None:
        """Write the last rounds too, unless the fit was interrupted within one."""
        is_whole = len(state.rounds) == len(state.records)
        if is_whole and len(state.rounds) > self._written:
            self._write(state)

    def _write(self, state: BoostingState) -> None:
        write_checkpoint(self.path, state, self._fingerprint)
        self._written = len(state.rounds)


def write_checkpoint(path: str | Path, state: BoostingState, fingerprint: str | None = None) -> None:
    """Write the state of a fit; ``fingerprint`` is the digest of its log, if it is known."""
    facts, arrays = pack_rounds(state.rounds)
    document = {
        "fingerprint": state.log_digest() if fingerprint is None else fingerprint,
        "settings": state.settings,
        "seed": state.seed,
        "rounds": facts,
    }
    row_order: dict[str, AnyArray] = {}
    # Scores in memory are stored, not recomputed: resuming then costs nothing. Pieces recompute theirs.
    if state.score is not None:
        arrays["score"] = state.score
        if state.row_order is not None:  # the file has the order of the log
            row_order["score"] = _places(state.row_order)
    for name in COLUMNS:
        arrays[f"history/{name}"] = np.array([record[name] for record in state.records], dtype=np.float64)
    write_archive(path, Archive(KIND, FORMAT_NUMBER, document, arrays, row_order))


def _places(order: AnyArray) -> AnyArray:
    """Return the place of each of the log's rows, given the row at each place."""
    place = np.empty_like(order)
    place[order] = np.arange(len(order), dtype=order.dtype)
    return place


def read_checkpoint(
    path: str | Path, log: BanditLog, settings: dict[str, Any], n_rounds: int, *, digest: str | None = None
) -> BoostingState:
    """Return the state in a checkpoint, after checking that it belongs to this log and these settings.

    ``digest`` is that of `bopl.log.identical.content_digest`, if it is known. Scores are in the order of the log.
    """
    digest = content_digest([sample_keys(log)], log) if digest is None else digest
    expected_bytes = 8 * log.n_samples * log.n_actions  # scores with few distinct values are compressed a thousandfold
    archive = read_archive(path, KIND, FORMAT_NUMBER, expected_bytes=expected_bytes)
    document = archive.document
    if archive.format_number < FORMAT_NUMBER:
        raise ValueError(
            f"the checkpoint {str(path)!r} is from an earlier version, which added up in another order: it cannot be "
            "resumed to the same bits. Start the fit again."
        )
    if document.get("fingerprint") != digest:
        raise ValueError(f"the checkpoint {str(path)!r} belongs to another log; resume with the log it was made from.")
    if not isinstance(document.get("settings"), dict):
        raise ValueError(f"{str(path)!r} is not a valid bopl checkpoint file: it has no settings.")
    for name, value in settings.items():
        if document["settings"].get(name) != value:
            raise ValueError(
                f"the checkpoint {str(path)!r} was made with {name}={document['settings'].get(name)!r}, not {value!r}; "
                "resume with the same settings (n_rounds may differ)."
            )
    with checking_contents(path, "is not a valid bopl checkpoint file"):
        return _state_from(archive, log, settings, n_rounds, digest)


def _state_from(
    archive: Archive, log: BanditLog, settings: dict[str, Any], n_rounds: int, digest: str
) -> BoostingState:
    document, arrays = archive.document, archive.arrays
    rounds = unpack_rounds(
        document["rounds"],
        arrays,
        n_features=log.n_features,
        n_actions=log.n_actions,
        action_features=log.action_features,
    )
    records = read_records(arrays)
    if len(records) != len(rounds):
        raise ValueError(f"it has {len(rounds)} rounds and a history of {len(records)}")
    check_number("seed", document["seed"], low=0, high=np.iinfo(np.int64).max, integer=True)
    # Column by column as in a new fit: sums over actions in another order would differ in the last bit.
    score = None  # of a fit in pieces: recomputed from the rounds
    if "score" in arrays:
        score = np.asfortranarray(check_array(arrays, "score", (log.n_samples, log.n_actions)), dtype=np.float64)
    return BoostingState(
        log,
        n_rounds,
        document["seed"],
        settings=settings,
        score=score,
        rounds=list(rounds),
        records=records,
        digest=digest,
    )
