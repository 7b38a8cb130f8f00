"""The audit before training: its findings are reported, and bad data is refused."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar, cast

from bopl._errors import UsageError, did_you_mean
from bopl.cluster import map_over
from bopl.log import BanditLog, PartitionedLog
from bopl.log.finding import NOTE, Audit, AuditError, Finding, count_problems
from bopl.log.leak import Leak
from bopl.log.pieces.pieces_audit import audit_pieces
from bopl.policy import load
from bopl.workflow.config import TrainConfig
from bopl.workflow.judging import align_policy
from bopl.workflow.reading import fill_propensity, read_log_for, read_training_log, scale_of

logger = logging.getLogger(__name__)

# These describe what the log is worth to the uniform policy, which nobody will deploy: they are only reported.
LEFT_OUT = "left_out"
ABOUT_UNIFORM = ("effective_sample_size", "largest_weight", "tail_index", "top_weight_share")


LogT = TypeVar("LogT", bound="BanditLog | PartitionedLog")


class Audited(NamedTuple, Generic[LogT]):
    """A log that is fit for training."""

    log: LogT  # without the columns that surely leak
    audit: Audit  # of that log; its finding ``left_out`` names the columns that were left out
    left_out: tuple[Leak, ...]


def audit_for_training(log: LogT, config: TrainConfig) -> Audited[LogT]:
    """Return the part of a log that is fit for training; raise an error if there is a problem, unless forced."""
    check_keep(log, config.keep)
    fit, audit, left_out = _leave_out(log, config)
    for leak in left_out:
        logger.warning(f"Left out: {leak.sentence}")
    problems = [finding for finding in audit.problems if finding.check not in ABOUT_UNIFORM]
    tolerable = [finding for finding in audit.problems if finding.check in ABOUT_UNIFORM]
    silent = (*ABOUT_UNIFORM, LEFT_OUT)
    notes = [finding for finding in audit.findings if finding.status == NOTE and finding.check not in silent]
    for finding in [*notes, *tolerable]:
        logger.warning(f"Note: {finding.sentence}")
    if problems and not config.force:
        listed = " ".join(finding.sentence for finding in problems)
        raise AuditError(
            f"the audit found {count_problems(problems)}: {listed} Repair the log, or train anyway with force=True."
        )
    for finding in problems:
        logger.warning(f"Problem: {finding.sentence}")
    if not problems:
        logger.info(f"Audit: {len(audit.findings)} checks, no problem{' that forbids training' if tolerable else ''}.")
    return Audited(cast("LogT", fit), audit, left_out)


def _leave_out(
    log: BanditLog | PartitionedLog, config: TrainConfig
) -> tuple[BanditLog | PartitionedLog, Audit, tuple[Leak, ...]]:
    """Return a log without the columns that surely leak, its audit, and these columns."""
    left_out: tuple[Leak, ...] = ()
    while True:
        audit = log.audit(keep=config.keep)
        sure = [leak for leak in audit.leaks if leak.is_sure and leak.column not in config.keep]
        if not sure:
            break
        left_out += tuple(sure)
        log = log.without_columns([leak.column for leak in sure])
        if isinstance(log, BanditLog) and log.propensity_source == "estimated":  # from these columns as well
            log = fill_propensity(log, "estimate", config.random_state)
    if left_out:
        listed = " ".join(leak.sentence for leak in left_out)
        finding = Finding(LEFT_OUT, NOTE, float(len(left_out)), f"Left out of the context: {listed}")
        audit = audit.with_finding(finding)
    return log, audit, left_out


def check_keep(log: BanditLog | PartitionedLog, keep: Sequence[str]) -> None:
    """Raise if a column to keep is not a context column."""
    known = [str(name) for name in (column.name for column in log.schema.columns)] if log.schema else []
    unknown = [name for name in keep if name not in known]
    if unknown:
        raise UsageError(f"keep names {unknown[0]!r}, which is not a context column.{did_you_mean(unknown[0], known)}")


def audit_file(config: TrainConfig, policy_file: str | Path | None = None) -> tuple[BanditLog | PartitionedLog, Audit]:
    """Return a log and its audit, for a policy if there is one; a log in pieces may be audited on a cluster."""
    scale, policy = scale_of(config), None if policy_file is None else load(policy_file)
    log: BanditLog | PartitionedLog
    if scale.is_in_pieces:
        log = scale.scan(config, policy)
    elif policy is None:
        log = read_training_log(config)
    else:
        log = fill_propensity(read_log_for(policy, config.request()), config.assume_propensity, config.random_state)
    if policy is None:
        check_keep(log, config.keep)
    else:
        policy = align_policy(policy, log)
    if isinstance(log, BanditLog):
        return log, log.audit(policy, keep=config.keep)
    return log, audit_pieces(log, policy, None, config.keep, over=partial(map_over, config.cluster))
