"""Logs as the commands read them: for training, or in the columns a policy remembers; whole, or in pieces."""

from __future__ import annotations

import logging
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bopl._errors import UnseenCategoryWarning, UsageError, quoted
from bopl.cluster.memory import in_words, memory_budget
from bopl.evaluation import estimate_propensity
from bopl.log import BanditLog, PartitionedLog, PiecesSplit
from bopl.log.column import Column
from bopl.log.format.files import find_files
from bopl.log.format.log_format import format_of
from bopl.log.frame_of import usual_names
from bopl.log.log_split import LogSplit, divide, divide_latest
from bopl.log.pieces.footer import Footer, find_footers
from bopl.log.pieces.scan import scan
from bopl.log.read import read_log
from bopl.log.request import LogRequest
from bopl.log.schema import LogSchema
from bopl.policy.model_file import label_to_json
from bopl.workflow.config import TrainConfig

logger = logging.getLogger(__name__)
COPIES = 3  # of a table's columns while it becomes a log: as it was read, encoded, and checked
FIT_BYTES = 500  # of a sample in a fit, with ten actions: scores, gradients, predictions, codes
_NOUNS = {
    "number": ("number", "numbers"),
    "flag": ("flag", "flags"),
    "category": ("category", "categories"),
    "time": ("time", "times"),
    "vector": ("vector", "vectors"),
}


def read_training_log(config: TrainConfig) -> BanditLog:
    """Return the log of a run, with the propensities it has or is said to have."""
    log = read_log(config.request())
    if log.feature_names is None:  # a log of arrays that was written to a file: there its columns have names
        log = log.without_schema(usual_names(log.n_features))
    check_training_log(log)
    return fill_propensity(log, config.assume_propensity, config.random_state)


def check_training_log(log: BanditLog | PartitionedLog) -> None:
    """Raise if a log has too many actions to learn from, or actions that no policy file can hold."""
    if 2 * log.n_actions > log.n_samples:
        raise ValueError(
            f"there are {log.n_actions:,} different actions in {log.n_samples:,} samples, but an action must be "
            "taken many times to know what it earns. Is this the right column?"
        )
    for label in log.actions.tolist():
        label_to_json(label)  # raises if a policy with such a label could not be saved


def fill_propensity(log: BanditLog, assumption: str | None, seed: int) -> BanditLog:
    """Return a log with propensities: those it has, estimated ones, or uniform ones."""
    if assumption == "uniform":
        return log.with_propensity("uniform")
    return estimate_propensity(log, random_state=seed) if assumption == "estimate" else log


def read_log_for(policy: Any, request: LogRequest) -> BanditLog:
    """Return a log in the columns of a policy, its actions first; names in the request override those it remembers."""
    check_policy_reads(request)
    return read_log(request, known_actions=policy.actions_.tolist(), schema=schema_of(policy))


def check_policy_reads(request: LogRequest) -> None:
    """Raise if a request says what is context where a policy knows it."""
    if request.context is not None or request.ignore or request.categorical:
        raise UsageError("the policy remembers which columns are context: leave out context, ignore and categorical.")


@contextmanager
def noting(kind: type[Warning] = UnseenCategoryWarning) -> Iterator[list[str]]:
    """Collect warnings of one kind as sentences, by default of categories that a policy does not know."""
    noted: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", kind)
        yield noted
    for warning in caught:
        if issubclass(warning.category, kind):
            noted.append(str(warning.message))
        else:
            warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)


def schema_of(policy: Any) -> LogSchema:
    """Return how a policy reads columns: as it remembers, or as numbers where it knows the names alone."""
    if policy.schema_ is not None:
        return policy.schema_
    names = getattr(policy, "feature_names_in_", None)
    if names is None:
        raise UsageError(
            "the policy was fitted on arrays and does not remember the names of its columns: train it from a file or a "
            "frame, or call it from Python."
        )
    return LogSchema(tuple(Column(str(name), "number") for name in names))


def split_pieces(log: PartitionedLog, share: float, seed: int) -> PiecesSplit:
    """Return the larger and the smaller part of a log in pieces, as `split_log` does."""
    return log.split(share, by="time" if log.has_time else "random", random_state=seed)


def split_log(log: BanditLog, share: float, seed: int) -> LogSplit:
    """Return the larger and the smaller part: the latest samples where times are known, else drawn."""
    return divide(log, share, by="random" if log.time is None else "time", random_state=seed).split(log)


def split_validation(log: BanditLog | PartitionedLog, share: float, seed: int) -> LogSplit | PiecesSplit:
    """Return what is trained on and what the choice of rounds looks at: the latest samples, or drawn where none are."""
    if isinstance(log, PartitionedLog):
        return log.split_latest(share, random_state=seed)
    return divide_latest(log, share, random_state=seed).split(log)


def describe_log(log: BanditLog | PartitionedLog, path: str | Sequence[str]) -> str:
    """Return what was read, in a line or more: the size of the log, its columns, and which rows were left out."""
    left_out = [] if log.origin is None else log.origin.sentences()
    return "\n".join([_size_text(log, path), *_column_texts(log), *left_out])


def origin_facts(log: BanditLog | PartitionedLog) -> dict[str, Any]:
    """Return how a log was read, as plain values."""
    return {"origin": None if log.origin is None else log.origin.to_json()}


def mean_reward(log: BanditLog | PartitionedLog) -> float:
    """Return what the logging policy earned per decision."""
    return log.mean_reward() if isinstance(log, PartitionedLog) else float(log.reward.mean())


def _column_texts(log: BanditLog | PartitionedLog) -> list[str]:
    """Return which columns are what, in a line."""
    if log.schema is None:
        return []
    roles = [f"{role} {name!r}" for role, name in log.schema.roles.items()]
    return [f"Columns: {', '.join(roles)}; context {quoted([column.name for column in log.schema.columns])}."]


def _size_text(log: BanditLog | PartitionedLog, path: str | Sequence[str]) -> str:
    kinds = Counter() if log.schema is None else Counter(column.kind for column in log.schema.columns)
    listed = ", ".join(f"{count} {_NOUNS[kind][count > 1]}" for kind, count in kinds.items())
    n_columns = len(log.schema.columns) if log.schema else log.n_features
    read_as = "" if log.origin is None or not log.origin.format else f", read as {log.origin.format}"
    return (
        f"{_name_text(path)}{read_as}: {log.n_samples:,} decisions among {log.n_actions} actions, "
        f"{n_columns} context column{'' if n_columns == 1 else 's'}"
        f"{f' ({listed})' if listed else ''}; the logging policy earns {mean_reward(log):.4g}."
    )


def _name_text(path: str | Sequence[str]) -> str:
    if isinstance(path, str):
        return Path(path).name
    return f"{Path(path[0]).name} and {len(path) - 1} more file{'' if len(path) == 2 else 's'}"


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
    paths: str | Path | Sequence[str | Path],  # patterns, too
    *,
    format: str | None = None,  # if the extension does not show it
    memory: str | None = None,  # memory limit, such as ``"4GB"``; half of the free memory by default
    cluster: str | None = None,  # address of a Dask scheduler: its workers read the log in pieces
    is_training: bool = False,  # whether a policy is fitted to the log, which takes more memory
) -> Scale:
    """Decide how to read the files of a command, and say so if there was something to decide."""
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
