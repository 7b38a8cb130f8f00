"""`summarise`: everything a report shows, as one dictionary that JSON can hold; the verdict in plain words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import numpy as np

from bopl._machine import versions
from bopl._policy_reader import read_policy
from bopl.evaluation import Evaluation
from bopl.evaluation.confounding import describe_confounding
from bopl.evaluation.row import Estimate
from bopl.evaluation.verdict import BETTER, INCONCLUSIVE, NOT_TRUSTWORTHY, WORSE
from bopl.log import BanditLog
from bopl.log.finding import Audit
from bopl.report.feature import find_bins, read_columns
from bopl.report.movement import describe_actions, describe_segments, describe_weights, follow_policy, shown_actions
from bopl.report.plain import number_text, percent_text, plain, signed_text, within_text
from bopl.report.reasons import (
    describe_effects,
    describe_examples,
    describe_importance,
    find_reasons,
    important_columns,
)
from bopl.report.training_summary import describe_race, describe_training

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
        "versions": {name: versions()[name] for name in ("bopl", "python", "numpy", "scikit-learn")},
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


def describe_verdict(evaluation: Evaluation) -> dict[str, Any]:
    """Return headline, sentence and numbers of the verdict on the first policy."""
    alone = evaluation.primary_row()
    opinions = {one.name for one in evaluation.estimators if not one.can_decide}
    others = [
        other
        for other in evaluation.rows
        if other.policy == alone.policy and other is not alone and other.estimator not in opinions
    ]
    decision = next((one for one in evaluation.decisions if one.policy == alone.policy), alone)
    row = replace(alone, verdict=decision.verdict, reason=decision.reason)
    own = [one for one in evaluation.confounding if (one.policy, one.estimator) == (row.policy, row.estimator)]
    is_alone = row.verdict == alone.verdict  # else a guard, or what runs now, decides
    return {
        "policy": row.policy,
        "estimator": row.estimator,
        "verdict": row.verdict,
        "headline": _headline(row, evaluation.logging_value, is_alone=is_alone),
        "sentence": " ".join([_sentence(row, evaluation, is_alone=is_alone), *describe_confounding(own)]),
        "agreement": _agreement(row, others),
        "reason": row.reason,
        "confidence": evaluation.confidence,
        "logging_value": evaluation.logging_value,
        "value": row.value,
        "ci_lower": row.ci_lower,
        "ci_upper": row.ci_upper,
        "uplift": row.uplift,
        "uplift_ci_lower": row.uplift_ci_lower,
        "uplift_ci_upper": row.uplift_ci_upper,
        "n_samples": row.n,
        "effective_samples": row.ess,
    }


def _headline(row: Estimate, logging_value: float, *, is_alone: bool) -> str:
    if row.verdict == NOT_TRUSTWORTHY:
        return "This log cannot answer for the new policy."
    if row.verdict == INCONCLUSIVE:
        return "This log cannot tell whether the new policy is better."
    if not is_alone:
        return "The new policy breaks a guard." if row.verdict == WORSE else "The new policy is better."
    word = "more" if row.verdict == BETTER else "less"
    if logging_value > 0.0:
        share = percent_text(abs(row.uplift) / logging_value)
        return f"The new policy earns {share} {word} than the logging policy."
    return f"The new policy earns {number_text(abs(row.uplift))} {word} per decision than the logging policy."


def _sentence(row: Estimate, evaluation: Evaluation, *, is_alone: bool) -> str:
    if row.verdict == NOT_TRUSTWORTHY or not is_alone:
        return row.reason
    if row.uplift_ci_lower == row.uplift_ci_upper == 0.0:
        return "On the held-out decisions both policies do the same: the difference is exactly zero."
    certainty = f"With {100.0 * evaluation.confidence:.4g}% confidence"
    both = (row.value, evaluation.logging_value)
    value, base = (within_text(number, row.ci_lower, row.ci_upper) for number in both)
    return (
        f"{certainty} the difference lies between {_between(row, evaluation.logging_value)}. Reward per decision: "
        f"about {value} for the new policy, {base} for the logging policy, the one that made the log."
    )


def _between(row: Estimate, base: float) -> str:
    ends = (row.uplift_ci_lower, row.uplift_ci_upper)
    lower, upper = (percent_text(end / base, signed=True) if base > 0.0 else signed_text(end) for end in ends)
    return f"{lower} and {upper}"


def _agreement(row: Estimate, others: Sequence[Estimate]) -> str:
    if not others:
        return ""
    against = [other.estimator for other in others if other.verdict != row.verdict]
    if not against:
        return f"All {len(others) + 1} estimators come to the same verdict."
    return (
        f"{len(others) + 1 - len(against)} of {len(others) + 1} estimators come to this verdict; "
        f"{', '.join(against)} {'does' if len(against) == 1 else 'do'} not."
    )


def describe_estimates(evaluation: Evaluation) -> dict[str, Any]:
    """Return all rows of the evaluation, each with a title and what its estimator does."""
    estimates = evaluation.to_dict()
    traits = {one.name: one for one in evaluation.estimators}
    for row in estimates["rows"]:
        known = traits.get(row["estimator"])
        row["title"] = (known.title if known is not None else "") or row["estimator"]
        row["about"] = "" if known is None else known.about
    return estimates
