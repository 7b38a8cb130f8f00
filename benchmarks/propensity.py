"""How near estimated propensities come to the true ones, beside a logistic regression and a boosted classifier.

    python benchmarks/propensity.py                                # 5 kinds of logging policy, 5 logs of 10,000 each
    python benchmarks/propensity.py --samples 2000 --logs 20
    python benchmarks/propensity.py --kinds softmax,rules --ours-only
    python benchmarks/propensity.py --logs 10 --jobs 16

Five kinds of logging policy write logs without propensities:

- softmax: a softmax of linear scores, 6 actions;
- epsilon-greedy: the best action of a small network with probability 0.9, else any, 5 actions;
- rules: a fixed distribution for each of a few segments of the contexts, 4 actions;
- loggers: three softmax policies one after the other, and a share of uniform choice, 5 actions; the log has times;
- masked: a softmax among the 5 to 30 of 60 actions that were eligible.

All get the same columns, the time among them, and predict folds that they were not fitted on. The baselines are
scikit-learn's logistic regression and histogram gradient boosting as they come, renormalised among eligible actions.
`error` is the median of |estimate / truth - 1| over the samples; `excess` the log loss above that of the true
probabilities; the mean weight of the uniform policy, 1 if all is well; `audit` the share of the logs in
which no check of propensities finds a problem. The exit status is 1 if fewer than 19 of 20 audits pass.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import numpy as np

import bopl
from bopl.objective.softmax import softmax
from bopl.policy.policy import draw_actions

GOAL = 0.95
CHECKS = ("mean_weight_uniform", "mean_weight_logging", "sum_inverse_propensity")


def softmax_policy(rng: np.random.Generator, n: int) -> dict[str, Any]:
    """Return contexts and probabilities of a softmax of linear scores."""
    context = rng.normal(size=(n, 8))
    return {"context": context, "prob": softmax(context @ rng.normal(size=(8, 6)) * 0.5)}


def greedy_policy(rng: np.random.Generator, n: int) -> dict[str, Any]:
    """Return contexts and probabilities of epsilon-greedy choice over a network."""
    context = rng.normal(size=(n, 6))
    score = np.tanh(context @ rng.normal(size=(6, 8))) @ rng.normal(size=(8, 5))
    prob = np.full((n, 5), 0.1 / 5)
    prob[np.arange(n), score.argmax(axis=1)] += 0.9
    return {"context": context, "prob": prob}


def rule_policy(rng: np.random.Generator, n: int) -> dict[str, Any]:
    """Return contexts and probabilities that depend on the segment of the context."""
    context = np.column_stack([rng.normal(size=(n, 3)), rng.integers(4, size=n), rng.integers(2, size=n)])
    segment = (context[:, 0] > 0.3).astype(int) + 2 * (context[:, 1] > -0.5) + 4 * context[:, 3].astype(int)
    return {"context": context, "prob": rng.dirichlet(np.ones(4) * 1.5, size=16)[segment] * 0.92 + 0.02}


def changing_policy(rng: np.random.Generator, n: int) -> dict[str, Any]:
    """Return contexts, times and probabilities of three policies one after the other."""
    context, when = rng.normal(size=(n, 6)), np.sort(rng.random(n))
    score = np.einsum("nd,nda->na", context, rng.normal(size=(3, 6, 5))[np.minimum((3 * when).astype(int), 2)])
    return {"context": context, "prob": 0.85 * softmax(0.7 * score) + 0.15 / 5, "time": when}


def masked_policy(rng: np.random.Generator, n: int) -> dict[str, Any]:
    """Return contexts, masks and probabilities of a softmax among few eligible of many actions."""
    context, n_eligible = rng.normal(size=(n, 5)), rng.integers(5, 31, size=(n, 1))
    mask = rng.random((n, 60)).argsort(axis=1).argsort(axis=1) < n_eligible
    score = context @ rng.normal(size=(5, 60)) * 0.4 + rng.normal(size=60) * 0.5
    return {"context": context, "prob": softmax(score, action_mask=mask), "action_mask": mask}


KINDS: dict[str, Callable[[np.random.Generator, int], dict[str, Any]]] = {
    "softmax": softmax_policy,
    "epsilon-greedy": greedy_policy,
    "rules": rule_policy,
    "loggers": changing_policy,
    "masked": masked_policy,
}


def draw(kind: str, number: int, n_samples: int) -> tuple[bopl.BanditLog, np.ndarray]:
    """Return a log without propensities, and the true ones of its logged actions."""
    rng = np.random.default_rng([number, list(KINDS).index(kind)])
    world = KINDS[kind](rng, n_samples)
    prob = world.pop("prob")
    action = draw_actions(prob, rng)
    log = bopl.BanditLog(
        world.pop("context"), action, rng.random(n_samples), None, actions=np.arange(prob.shape[1]), **world
    )
    return log, prob[np.arange(n_samples), action]


def cross_fitted(classifier: Any, log: bopl.BanditLog) -> np.ndarray:
    """Return a classifier's probabilities of the logged actions, each predicted without its fold."""
    from sklearn.base import clone

    columns = [] if log.time is None else [log.time[:, None]]
    columns += [] if log.action_mask is None else [log.action_mask]
    context, fold = np.hstack([log.context, *columns]), np.arange(log.n_samples) % 5
    found = np.empty(log.n_samples)
    for number in range(5):
        held_out = fold == number
        fitted = clone(classifier).fit(context[~held_out], log.action_idx[~held_out])
        prob = np.full((held_out.sum(), log.n_actions), 1e-6)
        prob[:, fitted.classes_] = np.maximum(fitted.predict_proba(context[held_out]), 1e-6)
        if log.action_mask is not None:
            prob *= log.action_mask[held_out]
        prob /= prob.sum(axis=1, keepdims=True)
        found[held_out] = prob[np.arange(len(prob)), log.action_idx[held_out]]
    return found


def baselines() -> dict[str, Any]:
    """Return scikit-learn's classifiers."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return {
        "logistic regression": make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)),
        "boosted classifier": HistGradientBoostingClassifier(random_state=0),
    }


def describe(log: bopl.BanditLog, found: np.ndarray, truth: np.ndarray) -> tuple[float, float, float, bool]:
    """Return error, excess log loss, mean uniform weight, and whether the audit passes."""
    audit = log.with_propensity(found, source="estimated").audit()
    n_eligible = log.n_actions if log.action_mask is None else log.action_mask.sum(axis=1)
    return (
        float(np.median(np.abs(found / truth - 1.0))),
        float(np.mean(np.log(truth / found))),
        float(np.mean(1.0 / (n_eligible * found))),
        not any(finding.check in CHECKS for finding in audit.problems),
    )


def run_case(case: tuple[str, str, int, int]) -> tuple[float, ...]:
    """Return what `describe` says of one model on one log, and the seconds it took."""
    kind, name, number, n_samples = case
    log, truth = draw(kind, number, n_samples)
    start = time.perf_counter()
    found = bopl.estimate_propensity(log).propensity if name == "bopl" else cross_fitted(baselines()[name], log)
    seconds = time.perf_counter() - start
    return (*describe(log, found, truth), seconds)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=int, default=10_000)
    parser.add_argument("--logs", type=int, default=5)
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--ours-only", action="store_true")
    parser.add_argument("--jobs", type=int, default=1, help="processes; each fits with one thread")
    given = parser.parse_args()
    names = ("bopl",) if given.ours_only else ("bopl", *baselines())
    print(f"{given.samples:,} samples, {given.logs} logs of each kind\n")
    print("| logging policy | model | error | excess log loss | mean uniform weight | audit | s |")
    print("|---|---|---:|---:|---:|---:|---:|")
    passed: list[bool] = []
    pairs = [(kind, name) for kind in given.kinds.split(",") for name in names]
    cases = [(kind, name, number, given.samples) for kind, name in pairs for number in range(given.logs)]
    if given.jobs > 1:
        os.environ["NUMBA_NUM_THREADS"] = "1"  # the processes share the processors as it is
    with ProcessPoolExecutor(given.jobs, mp_context=get_context("spawn")) as pool:
        found = pool.map(run_case, cases)
        for kind, name in pairs:
            rows = [next(found) for _ in range(given.logs)]
            error, excess, mean, audit, seconds = np.mean(np.array(rows, dtype=float), axis=0)
            passed += [bool(row[3]) for row in rows] if name == "bopl" else []
            print(
                f"| {kind} | {name} | {error:.1%} | {excess:.4f} | {mean:.3f} | {audit:.0%} | {seconds:.1f} |",
                flush=True,
            )
    print(f"\n{sum(passed)} of {len(passed)} audits of our estimates pass; {GOAL:.0%} are asked for.")
    return 0 if np.mean(passed) >= GOAL else 1


if __name__ == "__main__":
    raise SystemExit(main())
