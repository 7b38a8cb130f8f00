"""The verdict in words that need no statistics: one sentence, the numbers behind it, and who agrees."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from bopl.evaluation import Evaluation
from bopl.evaluation.confounding import describe_confounding
from bopl.evaluation.row import Estimate
from bopl.evaluation.verdict import BETTER, INCONCLUSIVE, NOT_TRUSTWORTHY, WORSE
from bopl.report.plain import number_text, percent_text, signed_text, within_text


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
