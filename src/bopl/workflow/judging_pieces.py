"""Policy files on logs that are read in pieces: what `judging` does for logs in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from bopl._errors import UsageError
from bopl.cluster import map_over
from bopl.evaluation import Evaluation
from bopl.evaluation.estimator_registry import ESTIMATORS
from bopl.log import PartitionedLog
from bopl.log.finding import Audit
from bopl.log.pieces.pieces_audit import audit_pieces
from bopl.policy import load
from bopl.workflow.auditing import check_keep
from bopl.workflow.config import TrainConfig
from bopl.workflow.judging import (
    align_policy,
    chosen_estimators,
    estimator_needs_model,
    evaluate_as_set,
    policy_names,
    warnings_about,
)
from bopl.workflow.reading import noting_unseen, schema_of
from bopl.workflow.scale import Scale
from bopl.workflow.sharpness import describe_acting, with_sharpness


def audit_pieces_of(
    config: TrainConfig, scale: Scale, policy_file: str | Path | None = None
) -> tuple[PartitionedLog, Audit]:
    """Return a log in pieces and its audit, for a policy if there is one."""
    if policy_file is None:
        log = scale.scan(config)
        check_keep(log, config.keep)
        return log, audit_over(log, config)
    policy = load(policy_file)
    log = scale.scan(config, policy)
    return log, audit_over(log, config, align_policy(policy, log))


def audit_over(log: PartitionedLog, config: TrainConfig, policy: object = None) -> Audit:
    """Return the audit of a log in pieces, computed on the cluster of a run if there is one."""
    return audit_pieces(log, policy, None, config.keep, over=partial(map_over, config.cluster))


def evaluate_pieces_of(
    config: TrainConfig,
    scale: Scale,
    files: Sequence[str | Path],
    running: str | Path | None = None,
    *,
    head_to_head: bool = False,
) -> tuple[Evaluation, list[str]]:
    """Judge policy files on a log in pieces; see `bopl.workflow.judging.evaluate_files`."""
    files = [*files, *([] if running is None else [running])]
    names = policy_names(files)
    policies = {
        name: with_sharpness(load(file), config.inverse_temperature) for name, file in zip(names, files, strict=True)
    }
    first = next(iter(policies.values()))
    other = [name for name, policy in policies.items() if schema_of(policy) != schema_of(first)]
    if other:
        raise UsageError(
            f"{names[0]!r} and {other[0]!r} read the columns of a log differently, but a log in pieces is read only "
            "once: evaluate them one by one, or give the log more memory with memory=…."
        )
    with noting_unseen() as unseen:
        log = scale.scan(config, first)
        warnings = [*log.origin.sentences()]
        for name, policy in policies.items():
            warnings += warnings_about(name, policy, log)
        evaluation = evaluate_as_set(
            config,
            log,
            {name: align_policy(policy, log) for name, policy in policies.items()},
            _estimators(config),
            against=None if running is None else names[-1],
            head_to_head=head_to_head,
            cluster=config.cluster,
        )
    acting = [describe_acting(policy, name) for name, policy in policies.items()]
    evaluation = replace(evaluation, notes=(*acting, *evaluation.notes))
    return evaluation, [*warnings, *dict.fromkeys(unseen)]


def _estimators(config: TrainConfig) -> list[str]:
    """Return the requested estimators, or the usual ones that need no reward model."""
    names = chosen_estimators(config)
    if config.estimators is not None:
        return list(names)
    return [name for name in names if ESTIMATORS[name].is_default and not estimator_needs_model(name)]
