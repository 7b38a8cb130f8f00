"""`summarise`: everything a report shows, as one dictionary that JSON can hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np

from bopl._machine import versions
from bopl._policy_reader import read_policy
from bopl.evaluation import Evaluation
from bopl.log import BanditLog
from bopl.log.finding import Audit
from bopl.report.feature import find_bins, read_columns
from bopl.report.movement import describe_actions, describe_segments, describe_weights, follow_policy, shown_actions
from bopl.report.plain import plain
from bopl.report.reasons import (
    describe_effects,
    describe_examples,
    describe_importance,
    find_reasons,
    important_columns,
)
from bopl.report.training_summary import describe_race, describe_training
from bopl.report.verdict_summary import describe_estimates, describe_verdict

SCHEMA = "bopl.report/1"
SEED = 0  # of the samples that stand for the log where all of it would take too long
MAX_SAMPLED = 50_000  # rows that bins are found from
MAX_DIVISIONS = 8  # columns by whose values the log is divided


def summarise(
    policy: Any,
    log: BanditLog,
    evaluation: Evaluation,
    *,
    audit: Audit | None = None,
    config: Mapping[str, Any] | None = None,
    steps: Sequence[Mapping[str, Any]] = (),
    encoder: Any = None,
) -> dict[str, Any]:
    """Return what a report says about a policy, as plain values.

    Parameters
    ----------
    policy : Policy, or PolicyOnRows
        Fitted; with its probabilities on the log, the log is not scored again. What a policy does not have (a
        history, trees) is left out of the report.
    log : BanditLog
        Held-out samples, the ones of ``evaluation``.
    evaluation : Evaluation
        Its first policy is ``policy``.
    audit : Audit, optional
        What the audit of the log found.
    config : mapping, optional
        Settings of the run, shown as they are.
    steps : sequence of mappings with ``step``, ``seconds`` and ``peak_mib``, optional
        What each step of the run took.
    encoder : mapping of column name to category texts, or object with such ``categories``, optional
        What the numbers of categorical columns stand for: text k for value k.
    """
    columns = read_columns(log, encoder)
    rows = np.random.default_rng(SEED).permutation(log.n_samples)[:MAX_SAMPLED]
    reader = read_policy(policy, log).kept()
    policy, _ = reader.fitted
    reasons = find_reasons(reader, log, rows)
    divisions = find_bins(log, important_columns(policy, columns, reasons, MAX_DIVISIONS), np.sort(rows))
    movement = follow_policy(reader, log, divisions)
    shown = shown_actions(log, movement)
    summary = {
        "schema": SCHEMA,
        "created": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "versions": _versions(),
        "log": _describe_log(log),
        "verdict": plain(describe_verdict(evaluation)),
        "evaluation": plain(describe_estimates(evaluation)),
        "actions": describe_actions(log, movement, shown),
        "segments": describe_segments(log, movement, divisions, shown, evaluation.confidence) or None,
        "importance": describe_importance(policy, columns, reasons),
        "effects": None if reasons is None else describe_effects(log, divisions, reasons),
        "examples": describe_examples(policy, log, columns, movement, reasons) or None,
        "weights": describe_weights(log, movement),
        "audit": None if audit is None else _describe_audit(audit),
        "race": describe_race(policy),
        "training": describe_training(policy),
        "config": None if config is None else plain(config, digits=None),
        "steps": [plain(step) for step in steps] or None,
    }
    return {name: part for name, part in summary.items() if part is not None}


def _versions() -> dict[str, str]:
    return {name: versions()[name] for name in ("bopl", "python", "numpy", "scikit-learn")}


def _describe_log(log: BanditLog) -> dict[str, Any]:
    return {
        "n_samples": log.n_samples,
        "n_features": log.n_features,
        "n_actions": log.n_actions,
        "mean_reward": plain(float(log.reward.mean())),
        "propensity_source": log.propensity_source,
    }


def _describe_audit(audit: Audit) -> dict[str, Any]:
    findings = [
        {"check": f.check, "status": f.status, "value": plain(float(f.value)), "sentence": f.sentence}
        for f in audit.findings
    ]
    return {"n_samples": audit.n_samples, "n_problems": len(audit.problems), "findings": findings}
