"""Whether a command reads a log whole or in pieces: depends on the footers of its files, and on the memory limit."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bopl._errors import UsageError
from bopl.cluster.memory import in_words, memory_budget
from bopl.log import PartitionedLog
from bopl.log.format.files import find_files
from bopl.log.format.log_format import format_of
from bopl.log.pieces.footer import Footer, find_footers
from bopl.log.pieces.scan import scan
from bopl.workflow.config import TrainConfig

logger = logging.getLogger(__name__)

COPIES = 3  # of a table's columns while it becomes a log: as it was read, encoded, and checked
FIT_BYTES = 500  # of a sample in a fit, with ten actions: scores, gradients, predictions, codes


@dataclass(frozen=True)
class Scale:
    """How a log is read.

    Attributes
    ----------
    footers : list of Footer or None
        Footers of the files of a log that is read in pieces; None if it is read whole.
    """

    footers: list[Footer] | None = None

    @property
    def is_in_pieces(self) -> bool:
        """Whether the log is read in pieces."""
        return self.footers is not None

    def scan(self, config: TrainConfig, policy: Any = None) -> PartitionedLog:
        """Return the log in pieces, in the columns of a policy if there is one, with the requested propensities."""
        from bopl.workflow.reading import check_policy_reads, schema_of

        assert self.footers is not None
        if config.assume_propensity == "estimate":
            raise UsageError(
                "propensities can only be estimated in memory, but this log is read in pieces: give it more memory "
                "with memory=…, log the propensities, or say that they are uniform with assume_propensity='uniform'."
            )
        request = config.request()
        if policy is None:
            log = scan(request, self.footers)
        else:
            check_policy_reads(request)
            log = scan(request, self.footers, known_actions=policy.actions_.tolist(), schema=schema_of(policy))
        return log.with_propensity("uniform") if config.assume_propensity == "uniform" else log


WHOLE = Scale()


def choose_scale(
    paths: str | Path | Sequence[str | Path],
    *,
    format: str | None = None,
    memory: str | None = None,
    cluster: str | None = None,
    is_training: bool = False,
) -> Scale:
    """Decide how to read the files of a command, and say so if there was something to decide.

    Parameters
    ----------
    paths : path, pattern, or several of them
    format : str, optional
        If the extension does not show it.
    memory : str, optional
        Memory limit, such as ``"4GB"``; half of the free memory by default.
    cluster : str, optional
        Address of a Dask scheduler: its workers read the log in pieces.
    is_training : bool, default=False
        Whether a policy is fitted to the log, which takes more memory.
    """
    is_asked = memory is not None or cluster is not None
    if format_of(find_files(paths), format) != "parquet":
        if is_asked:
            raise UsageError("memory and cluster apply only to Parquet files, which can be read in pieces.")
        return WHOLE
    footers = find_footers(paths)
    n_pieces = sum(n_rows > 0 for footer in footers for n_rows in footer.group_rows)
    if cluster is not None:
        logger.info(f"Read in {_pieces(n_pieces)}, by the workers of {cluster}.")
        return Scale(footers)
    need, budget = memory_needed(footers, is_training=is_training), memory_budget(memory)
    why = f"it takes about {in_words(need)} of memory, and the limit is {in_words(budget)}"
    if need > budget:
        logger.info(f"Read in {_pieces(n_pieces)}: {why}.")
        return Scale(footers)
    if is_asked or len(footers) > 1:
        logger.info(f"Read whole: {why}.")
    return WHOLE


def scale_of(config: TrainConfig, *, is_training: bool = False) -> Scale:
    """Decide how to read the log of a run."""
    return choose_scale(
        config.paths,
        format=config.format,
        memory=config.memory,
        cluster=config.cluster,
        is_training=is_training,
    )


def memory_needed(footers: Sequence[Footer], *, is_training: bool = False) -> int:
    """Return approximately how many bytes a log of Parquet files takes in memory, for reading or for training."""
    n_rows = sum(sum(footer.group_rows) for footer in footers)
    return COPIES * sum(footer.n_bytes for footer in footers) + (FIT_BYTES * n_rows if is_training else 0)


def _pieces(number: int) -> str:
    return f"{number:,} piece{'' if number == 1 else 's'}"
