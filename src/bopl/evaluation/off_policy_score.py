"""`off_policy_score`: one number for a policy on held-out samples, by which settings and translations are chosen."""

from __future__ import annotations

from bopl._typing import FloatArray
from bopl.evaluation.whole_log import evaluate
from bopl.log import BanditLog


def off_policy_score(
    log: BanditLog, logged_prob: FloatArray, *, estimator: str = "snips", confidence: float | None = None
) -> float:
    """Return the estimated value of a policy, or a lower confidence bound on it (`bopl.evaluate`).

    A policy that never agrees with the log gets the worst reward seen, because no sample supports it.

    Parameters
    ----------
    log : BanditLog
        Held-out samples.
    logged_prob : ndarray of shape (n_samples,)
        The policy's probabilities of the logged actions.
    estimator : {"snips", "ips"}, default="snips"
        Estimator of the value; `snips` is less noisy.
    confidence : float in (0.5, 1), optional
        Confidence level of the lower bound, one-sided; by default the value itself is returned.
    """
    if not logged_prob.any():
        return float(log.reward.min())
    two_sided = 0.95 if confidence is None else 2.0 * confidence - 1.0
    row = evaluate(log, logged_prob, estimators=estimator, confidence=two_sided).row()
    return row.value if confidence is None else row.ci_lower
