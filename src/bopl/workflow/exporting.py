"""What is made after a run: policies for other runtimes, written only if their scores agree, and pages."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from bopl import report
from bopl._errors import UsageError, did_you_mean
from bopl._files import copy_file
from bopl._machine import import_extra
from bopl._typing import AnyArray, FloatArray
from bopl.learner.expanded import action_columns, expand
from bopl.learner.hist_tree.predictor import HistTreePredictor
from bopl.log.context import is_sparse
from bopl.log.format import read_parts
from bopl.policy import load
from bopl.policy.onnx_raw import check_raw, raw_inputs
from bopl.report.training_summary import boosted_parts, winner
from bopl.workflow.config import TrainConfig
from bopl.workflow.deciding import with_sharpness
from bopl.workflow.judging import align_policy, evaluate_on, rows_warnings, warnings_about
from bopl.workflow.reading import fill_propensity, noting, read_log_for, schema_of
from bopl.workflow.run_folder import StepClock, check_writable

N_CONTEXTS = 2000  # on which agreement is checked
MISSING_SHARE = 0.1
UNSEEN = "a category that nobody has seen"
MOMENTS = (-(10**11), 2 * 10**12)  # milliseconds from 1970: 1966 to 2033
TOLERANCE = 1e-4  # both targets add up leaves in float32


@dataclass(frozen=True)
class Target:
    """One export format."""

    extension: str
    write: Callable[[Any, Path], None]  # how to write a policy
    score: Callable[[Any, Path, Any], FloatArray]  # how to score rows with the result
    has_probability: bool  # whether it also returns probabilities
    rows: Callable[[Any], Any]  # the rows on which agreement is checked: made from the policy
    rows_of: Callable[[Any, str | Path], Any]  # the same, read from a file


@dataclass(frozen=True)
class Exported:
    """A file, and how far its scores are from the policy's on some contexts."""

    path: Path
    n_contexts: int
    largest_difference: float


def export(
    policy_file: str | Path,
    to: str,
    out: str | Path | None = None,
    *,
    raw: bool = False,
    rows: str | Path | None = None,
    inverse_temperature: float | None = None,
) -> Exported:
    """Write a policy in another format, after checking that its scores agree with the policy's.

    Parameters
    ----------
    policy_file : path
    to : {"xgboost", "onnx"}
    out : path, optional
        By default the policy's name with the extension of the format.
    raw : bool, default=False
        Whether the model takes the columns of the log by name instead of encoded contexts; only for ONNX.
    rows : path, optional
        A log or a file of contexts, on whose first rows agreement is checked; by default, rows around the policy's
        splits are generated.
    inverse_temperature : float in [0, inf], optional
        How sharply the policy acts; as trained by default. Has no effect on formats that contain only scores.
    """
    if to not in TARGETS:
        raise UsageError(f"to must be one of {', '.join(TARGETS)}; got {to!r}.{did_you_mean(to, list(TARGETS))}")
    if raw and to not in RAW_TARGETS:
        raise UsageError(f"a model for {to} takes only encoded contexts: leave out raw, or export to onnx.")
    target = (RAW_TARGETS if raw else TARGETS)[to]
    if inverse_temperature is not None and not target.has_probability:
        raise UsageError(
            f"inverse_temperature has no effect here: a model for {to} returns scores, not probabilities. Multiply its "
            "scores by it before the softmax."
        )
    path = Path(policy_file).with_suffix(target.extension) if out is None else Path(out)
    check_writable(path, read=[policy_file, *([] if rows is None else [rows])])
    policy = winner(with_sharpness(load(policy_file), inverse_temperature))
    if not boosted_parts(policy):
        raise UsageError(
            f"{type(policy).__name__} cannot be exported, but BoostedPolicy can; bopl predict supports both."
        )
    with noting(), _refusing_as_usage():
        checked = target.rows(policy) if rows is None else target.rows_of(policy, rows)
    with TemporaryDirectory(prefix="bopl-export-") as folder:
        model = Path(folder) / f"model{target.extension}"  # XGBoost tells formats by it
        with _refusing_as_usage():
            target.write(policy, model)
        with noting():
            ours = policy.decision_function(checked)
            difference = _largest_difference(target.score(policy, model, checked), ours)
        if not difference <= TOLERANCE:
            raise ValueError(
                f"scores of the {to} model differ from the policy's by {difference:.2g}, more than {TOLERANCE:g}: "
                "nothing was written."
            )
        copy_file(model, path)
    return Exported(path, len(checked), difference)


@contextmanager
def _refusing_as_usage() -> Iterator[None]:
    """Turn errors about policies that the format cannot represent into a `UsageError`."""
    try:
        yield
    except TypeError as error:
        raise UsageError(str(error)) from None


def _contexts_of(policy: Any, path: str | Path) -> AnyArray:
    """Return the first rows of a file as contexts."""
    parts = read_parts(path, text=schema_of(policy).text_columns)
    context = parts.context_for(schema_of(policy))[:N_CONTEXTS]
    return np.asarray(context.toarray() if is_sparse(context) else context, dtype=np.float32)


def _raw_rows_of(policy: Any, path: str | Path) -> Any:
    """Return the first rows of a file as they are."""
    return read_parts(path, text=check_raw(policy.schema_).text_columns).table.slice(0, N_CONTEXTS)


def raw_rows_at_splits(policy: Any, *, seed: int = 0) -> Any:
    """Return a table of rows like those of a log, with numbers at the policy's splits; anything may be missing."""
    import pyarrow

    schema, rng = check_raw(policy.schema_), np.random.default_rng([seed, 1])
    context, columns, start = contexts_at_splits(policy, seed=seed), {}, 0
    for column in schema.columns:
        numbers = context[:, start : start + column.n_features]
        start += column.n_features
        is_missing = np.isnan(numbers).any(axis=1)
        if column.kind == "category":
            texts = np.array([*column.code_of, UNSEEN], dtype=object)
            columns[column.name] = pyarrow.array(rng.choice(texts, len(context)), mask=is_missing)
        elif column.kind == "time":
            moments = rng.integers(*MOMENTS, len(context)).astype("datetime64[ms]")
            columns[column.name] = pyarrow.array(moments, mask=is_missing)
        elif column.kind == "vector":
            columns[column.name] = pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(numbers.ravel()), column.size)
        else:
            columns[column.name] = pyarrow.array(numbers[:, 0], mask=is_missing)
    return pyarrow.table(columns)


def contexts_at_splits(policy: Any, *, seed: int = 0) -> AnyArray:
    """Return contexts with values at, just below and beyond the policy's thresholds, or missing."""
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
    xgboost = import_extra("xgboost", "checking the XGBoost model needs xgboost", "xgboost")
    rows = expand(context, action_columns(len(policy.actions_), policy.action_features_))
    booster = xgboost.Booster(model_file=str(path))
    score = booster.predict(xgboost.DMatrix(rows), output_margin=True)
    return np.asarray(score).reshape(len(context), -1)


def _score_onnx(policy: Any, path: Path, rows: Any, *, raw: bool = False) -> FloatArray:
    onnxruntime = import_extra("onnxruntime", "checking the ONNX model needs onnxruntime", "onnx")
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    inputs = raw_inputs(policy.schema_, rows) if raw else {"context": rows}
    return np.asarray(session.run(["score"], inputs)[0])


TARGETS = {
    "xgboost": Target(
        ".json", lambda one, to: one.to_xgboost(to), _score_xgboost, False, contexts_at_splits, _contexts_of
    ),
    "onnx": Target(".onnx", lambda one, to: one.to_onnx(to), _score_onnx, True, contexts_at_splits, _contexts_of),
}
RAW_TARGETS = {
    "onnx": Target(
        ".onnx",
        lambda one, to: one.to_onnx(to, raw=True),
        partial(_score_onnx, raw=True),
        True,
        raw_rows_at_splits,
        _raw_rows_of,
    )
}


def report_run(source: str | Path, out: Path | None) -> tuple[Path, dict[str, Any]]:
    """Write the page of a run folder, or of a summary file, again; return its path and the summary."""
    given = Path(source)
    file = given / "summary.json" if given.is_dir() else given
    if not file.is_file():
        raise FileNotFoundError(f"there is no summary {str(file)!r}: name a run folder, or a log and a policy file.")
    if file.suffix != ".json":
        raise UsageError(f"{str(source)!r} is not a run folder; {_what_to_name(given)}.")
    try:
        summary = json.loads(file.read_text(encoding="utf8"))
        page = out or file.parent / "report.html"
        _check_page(page, read=[file])
        report.write_page(summary, page)
    except (json.JSONDecodeError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{str(file)!r} is not the summary of a run: {error}.") from None
    return page, summary


def _check_page(page: Path, read: list[Any]) -> None:
    check_writable(page, read=read)
    if page.suffix.lower() not in (".html", ".htm"):
        raise UsageError(f"the name of a report must end in .html; got {str(page)!r}.")


def _what_to_name(given: Path) -> str:
    beside = given.with_suffix(".run")
    if beside.is_dir():
        return f"the run that made it is in {str(beside)!r}"
    return "to judge a policy on a log, name the policy file as well"


def report_log(config: TrainConfig, policy_file: str | Path, out: Path) -> tuple[Path, dict[str, Any], list[str]]:
    """Judge a policy on a log and write the page; return its path, the summary and what should be known of it."""
    _check_page(out, read=[config.log, policy_file])
    clock = StepClock()
    policy = with_sharpness(load(policy_file), config.inverse_temperature)
    with clock.step("read"), noting() as unseen:
        log = fill_propensity(read_log_for(policy, config.request()), config.assume_propensity, config.random_state)
    judged = align_policy(policy, log)
    with clock.step("audit"):
        audit = log.audit(judged)
    with clock.step("evaluate"):
        name = Path(policy_file).stem
        evaluation = evaluate_on(log, {name: judged}, config)
    with clock.step("report"):
        summary = report.summarise(judged, log, evaluation, audit=audit, config=config.to_dict(), encoder=log.schema)
    summary |= {"steps": clock.steps}
    report.write_page(summary, out)
    return out, summary, [*rows_warnings(log), *warnings_about(name, policy, log), *unseen]
