"""The verdict in words that need no statistics: one sentence, the numbers behind it, and who agrees."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bopl.evaluation import Evaluation
from bopl.evaluation.confounding import describe_confounding
from bopl.report.plain import number_text, percent_text, signed_text, within_text


def deciding_row(evaluation: Evaluation) -> Mapping[str, Any]:
    """Return the row of an evaluation that decides about its first policy."""
    policy = evaluation.rows[0]["policy"]
    rows = [row for row in evaluation.rows if row["policy"] == policy]
    return next((row for row in rows if row["is_primary"]), rows[0])


def describe_verdict(evaluation: Evaluation) -> dict[str, Any]:
    """Return headline, sentence and numbers of the verdict."""
    row = deciding_row(evaluation)
    alone = {one.name for one in evaluation.estimators if not one.carries_verdict}
    others = [
        other
        for other in evaluation.rows
        if other["policy"] == row["policy"] and other is not row and other["estimator"] not in alone
    ]
    decision = next((one for one in evaluation.decisions if one["policy"] == row["policy"]), row)
    row = {**row, "verdict": decision["verdict"], "reason": decision["reason"]}
    return {
        "policy": row["policy"],
        "estimator": row["estimator"],
        "verdict": row["verdict"],
        "headline": _headline(row, evaluation),
        "sentence": " ".join([_sentence(row, evaluation), *describe_confounding(_own(row, evaluation.confounding))]),
        "agreement": _agreement(row, others),
        "reason": row["reason"],
        "confidence": evaluation.confidence,
        "logging_value": evaluation.logging_value,
        **{name: row[name] for name in ("value", "ci_lower", "ci_upper")},
        **{name: row[name] for name in ("uplift", "uplift_ci_lower", "uplift_ci_upper")},
        "n_samples": row["n"],
        "effective_samples": row["ess"],
    }


def _own(row: Mapping[str, Any], found: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return what was found of the policy and the estimator of a row."""
    return [one for one in found if (one["policy"], one["estimator"]) == (row["policy"], row["estimator"])]


def _headline(row: Mapping[str, Any], evaluation: Evaluation) -> str:
    if row["verdict"] == "not trustworthy":
        return "This log cannot answer for the new policy."
    if row["verdict"] == "inconclusive":
        return "This log cannot tell whether the new policy is better."
    if row["verdict"] != _row_verdict(evaluation):
        return "The new policy breaks a guard." if row["verdict"] == "worse" else "The new policy is better."
    word = "more" if row["verdict"] == "better" else "less"
    if evaluation.logging_value > 0.0:
        share = percent_text(abs(row["uplift"]) / evaluation.logging_value)
        return f"The new policy earns {share} {word} than the logging policy."
    return f"The new policy earns {number_text(abs(row['uplift']))} {word} per decision than the logging policy."


def _sentence(row: Mapping[str, Any], evaluation: Evaluation) -> str:
    if row["verdict"] == "not trustworthy":
        return str(row["reason"])
    if row["verdict"] != _row_verdict(evaluation):
        return str(row["reason"])  # a guard, or what runs now, decides
    if row["uplift_ci_lower"] == row["uplift_ci_upper"] == 0.0:
        return "On the held-out decisions both policies do the same: the difference is exactly zero."
    certainty = f"With {100.0 * evaluation.confidence:.4g}% confidence"
    both = (row["value"], evaluation.logging_value)
    value, base = (within_text(number, row["ci_lower"], row["ci_upper"]) for number in both)
    return (
        f"{certainty} the difference lies between {_between(row, evaluation)}. Reward per decision: about {value} for "
        f"the new policy, {base} for the logging policy, the one that made the log."
    )


def _row_verdict(evaluation: Evaluation) -> str:
    """Return the verdict of the estimator alone."""
    return str(deciding_row(evaluation)["verdict"])


def _between(row: Mapping[str, Any], evaluation: Evaluation) -> str:
    lower, upper = row["uplift_ci_lower"], row["uplift_ci_upper"]
    if evaluation.logging_value > 0.0:
        base = evaluation.logging_value
        return f"{percent_text(lower / base, signed=True)} and {percent_text(upper / base, signed=True)}"
    return f"{signed_text(lower)} and {signed_text(upper)}"


def _agreement(row: Mapping[str, Any], others: Sequence[Mapping[str, Any]]) -> str:
    if not others:
        return ""
    against = [other["estimator"] for other in others if other["verdict"] != row["verdict"]]
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
