"""Policies for other runtimes, written only if they score alike."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bopl._errors import UsageError
from bopl._typing import AnyArray, FloatArray
from bopl.learner.expanded import action_columns, expand
from bopl.learner.hist_tree.predictor import HistTreePredictor
from bopl.policy import load
from bopl.report.parts import boosted_parts, winner
from bopl.workflow.run_folder import check_writable
from bopl.workflow.sharpness import with_sharpness

N_CONTEXTS = 2000  # that agreement is checked on
MISSING_SHARE = 0.1
TOLERANCE = 1e-4  # both targets add up leaves in float32


@dataclass(frozen=True)
class Target:
    """One export format: its extension, how it is written, how it scores, and whether it gives probabilities, too."""

    extension: str
    write: Callable[[Any, Path], None]
    score: Callable[[Any, Path, AnyArray], FloatArray]
    has_probability: bool


@dataclass(frozen=True)
class Exported:
    """A file, and how far its scores are from the policy's on contexts that visit the policy's splits."""

    path: Path
    n_contexts: int
    largest_difference: float


def export(
    policy_file: str | Path, to: str, out: str | Path | None = None, *, inverse_temperature: float | None = None
) -> Exported:
    """Write a policy in another format, after checking that the file scores as the policy does.

    Parameters
    ----------
    policy_file : path
    to : {"xgboost", "onnx"}
    out : path, optional
        By default the policy's name with the extension of the format.
    inverse_temperature : float in [0, inf], optional
        How sharply the policy acts; by default as it was trained. A format of scores alone knows no such thing.
    """
    if to not in TARGETS:
        raise UsageError(f"--to must be one of {', '.join(TARGETS)}; got {to!r}.")
    target = TARGETS[to]
    if inverse_temperature is not None and not target.has_probability:
        raise UsageError(
            f"inverse_temperature has no effect here: a model for {to} gives scores and no probabilities. Multiply its "
            "scores by it before the softmax."
        )
    path = Path(policy_file).with_suffix(target.extension) if out is None else Path(out)
    check_writable(path, read=[policy_file])
    policy = winner(with_sharpness(load(policy_file), inverse_temperature))
    if not boosted_parts(policy):
        raise UsageError(
            f"a {type(policy).__name__} cannot be exported, a BoostedPolicy can; bopl.load and bopl predict serve all."
        )
    context = contexts_at_splits(policy)
    temporary = path.with_name(f".{path.stem}.part{target.extension}")
    try:
        try:
            target.write(policy, temporary)
        except TypeError as error:  # a policy that the format has no form for
            raise UsageError(str(error)) from None
        difference = _largest_difference(target.score(policy, temporary, context), policy.decision_function(context))
        if not difference <= TOLERANCE:
            raise ValueError(
                f"the {to} model scores {difference:.2g} off the policy where {TOLERANCE:g} is the most: it is not "
                "written."
            )
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    return Exported(path, len(context), difference)


def contexts_at_splits(policy: Any, *, seed: int = 0) -> AnyArray:
    """Return contexts whose values lie at, just below and beyond the policy's thresholds, or are missing."""
    rng = np.random.default_rng(seed)
    context = np.zeros((N_CONTEXTS, policy.n_features_in_), dtype=np.float32)
    thresholds = _thresholds(policy)
    for feature in range(policy.n_features_in_):
        at = np.unique(np.array(thresholds.get(feature, [0.0]), dtype=np.float32))
        values = np.concatenate([at, np.nextafter(at, np.float32(-np.inf)), at[:1] - 1, at[-1:] + 1])
        if feature in _categorical(policy):
            values = np.unique(np.clip(np.round(values), 0, None))
        context[:, feature] = rng.choice(values, N_CONTEXTS)
    context[rng.random(context.shape) < MISSING_SHARE] = np.nan
    return context


def _thresholds(policy: Any) -> dict[int, list[float]]:
    found: dict[int, list[float]] = {}
    for predictor in (one for part in boosted_parts(policy) for one in part.ensemble_.predictors):
        if isinstance(predictor, HistTreePredictor):
            tree = predictor.tree
            for node in np.flatnonzero((tree.feature >= 0) & np.isfinite(tree.threshold)):
                found.setdefault(int(tree.feature[node]), []).append(float(tree.threshold[node]))
    return found


def _categorical(policy: Any) -> set[int]:
    if policy.schema_ is None:
        return set()
    names = policy.schema_.feature_names
    return {names.index(name) for name in policy.schema_.categorical}


def _largest_difference(theirs: FloatArray, ours: FloatArray) -> float:
    return float((np.abs(theirs - ours) / np.maximum(np.abs(ours), 1.0)).max())


def _score_xgboost(policy: Any, path: Path, context: AnyArray) -> FloatArray:
    try:
        import xgboost
    except ImportError:
        raise ImportError("checking the XGBoost model needs xgboost: pip install 'bopl[xgboost]'.") from None
    rows = expand(context, action_columns(len(policy.actions_), policy.action_features_))
    booster = xgboost.Booster(model_file=str(path))
    score = booster.predict(xgboost.DMatrix(rows), output_margin=True)
    return np.asarray(score).reshape(len(context), -1)


def _score_onnx(policy: Any, path: Path, context: AnyArray) -> FloatArray:
    try:
        import onnxruntime
    except ImportError:
        raise ImportError("checking the ONNX model needs onnxruntime: pip install 'bopl[onnx]'.") from None
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return np.asarray(session.run(["score"], {"context": context})[0])


TARGETS = {
    "xgboost": Target(".json", lambda policy, path: policy.to_xgboost(path), _score_xgboost, False),
    "onnx": Target(".onnx", lambda policy, path: policy.to_onnx(path), _score_onnx, True),
}
