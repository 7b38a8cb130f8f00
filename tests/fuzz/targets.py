"""What is done with a spoiled file, frame or matrix: it is read, and what was accepted is used as its owner would."""

from __future__ import annotations

import json
import linecache
import shutil
import traceback
import zlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from scipy import sparse

import bopl
from bopl.boosting.checkpoint import read_checkpoint
from bopl.workflow.config import TrainConfig
from bopl.workflow.exporting import report_log
from fuzz.mutate import EXTREMES, FLOATS, mutate_archive, mutate_bytes, mutate_text, pick, unpack
from fuzz.seeds import ROLES, make_frame, plain_log
from fuzz.tables import ARROW_COLUMNS, N_ROWS, NO_FORM, mutate_csv, mutate_json, odd_table, write_odd_table

try:
    import polars as pl
except ImportError:  # its frames are left out then
    pl = None

ACCEPTED, REFUSED, FOREIGN, NOT_FINITE, MEMORY = "accepted", "refused", "foreign exception", "not finite", "memory"
DIFFERS = "differs"  # in pieces from the log in memory
HARNESS = "harness"  # the fuzzer's own fault: the package was not even called
REPORT_SHARE = 0.01  # of the accepted policies a report is made of: it takes a second
PACKAGE = str(Path(bopl.__file__).parent)


class NotFiniteError(Exception):
    """Something was accepted that gives NaN or infinity."""


class DifferentError(Exception):
    """A log in pieces is another one than in memory."""


@dataclass(frozen=True)
class Target:
    """What is attacked: how a case is made, and what is done with it."""

    name: str
    run: Callable[[np.random.Generator, Path, Path], None]  # numbers, folder of the seeds, folder for the case
    share: float  # of a run's files
    sound: Callable[[Path, Path], None]  # uses all seeds as they are: they must be accepted


def outcome_of(target: Target, seed: int, number: int, seeds: Path, work: Path) -> tuple[str, str]:
    """Run one case; return what came of it, and where an exception that is not ours came from."""
    rng = np.random.default_rng([seed, zlib.crc32(target.name.encode()), number])
    try:
        target.run(rng, seeds, work)
    except NotFiniteError as error:
        return NOT_FINITE, str(error)
    except DifferentError as error:
        return DIFFERS, str(error)
    except MemoryError:
        return MEMORY, _where()
    except BaseException as error:  # a panic of polars is none of Exception
        _raise_stops(error)
        if is_ours(error):
            return REFUSED, ""
        return (FOREIGN if is_in_package(error) else HARNESS), _where()
    return ACCEPTED, ""


def _raise_stops(error: BaseException) -> None:
    if isinstance(error, KeyboardInterrupt | SystemExit):
        raise error


def is_ours(error: BaseException) -> bool:
    """Return whether an exception is a sentence of the package: raised by a ``raise`` of its own, of a usual type."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    line = linecache.getline(frame.filename, frame.lineno or 0).strip()
    is_usual = isinstance(error, ValueError | TypeError | AttributeError | OSError)
    return is_usual and frame.filename.startswith(PACKAGE) and line.startswith("raise") and bool(str(error))


def is_in_package(error: BaseException) -> bool:
    """Return whether an exception passed through the package: otherwise the fuzzer itself is at fault."""
    return any(frame.filename.startswith(PACKAGE) for frame in traceback.extract_tb(error.__traceback__))


def _where() -> str:
    return " | ".join(traceback.format_exc().strip().splitlines()[-9:])[-900:]


def check_finite(what: str, *values: Any) -> None:
    """Raise if numbers are not finite."""
    for value in values:
        if not np.isfinite(value).all():
            raise NotFiniteError(what)


# -- Policies and checkpoints -----------------------------------------------------------------------------------------


def _case(rng: np.random.Generator, folder: Path, work: Path, mutate: Any) -> Path:
    source = pick(rng, sorted(folder.iterdir()))
    path = work / f"case{''.join(source.suffixes)}"
    path.write_bytes(mutate(rng, source.read_bytes()))
    return path


def run_policy(rng: np.random.Generator, seeds: Path, work: Path) -> None:
    """Load a spoiled policy and do everything with it that policies are for."""
    use_policy(_case(rng, seeds / "policy", work, mutate_archive), work, has_report=rng.random() < REPORT_SHARE)


def use_policy(path: Path, work: Path, *, has_report: bool) -> None:
    policy = bopl.load(path)
    context = _contexts(policy.n_features_in_)
    _check_acting(policy, context)
    if policy.schema_ is not None and policy.schema_.categorical:
        _check_acting(policy, make_frame(4))
    for part in (_explain, _look_at, _export):
        part(policy, context, work)
    if has_report and policy.schema_ is not None:
        log = work / "report.csv"
        make_frame(60).to_csv(log, index=False)
        report_log(TrainConfig(log=str(log), **ROLES), path, work / "report.html")


def _contexts(n_features: int) -> Any:
    """Return forty rows, more than the engine walks one by one, with gaps; sparse ones if there are many columns."""
    if n_features > 1000:
        return sparse.csr_array((np.ones(3, np.float32), ([0, 1, 2], [0, 1, n_features - 1])), shape=(3, n_features))
    context = np.random.default_rng(5).normal(size=(40, n_features)).astype(np.float32)
    context[::7, 0] = np.nan
    return context


def _check_acting(policy: Any, context: Any) -> None:
    try:
        prob = policy.predict_proba(context)
    except ValueError as error:
        if "scores are not finite" not in str(error):
            raise
        context = np.nan_to_num(context) if isinstance(context, np.ndarray) else context
        prob = policy.predict_proba(context)  # a linear model has no scores for gaps
    check_finite("probabilities", prob)
    if prob.shape[1] != len(policy.actions_) or not np.allclose(prob.sum(axis=1), 1.0) or (prob < 0.0).any():
        raise NotFiniteError("probabilities that do not add up to one")
    _, propensity = policy.sample(context, random_state=0)
    check_finite("logged propensities", propensity)
    policy.predict(context)


def _explain(policy: Any, context: Any, work: Path) -> None:
    if not hasattr(policy, "explain"):
        return
    try:
        found = policy.explain(context[:3])
    except (TypeError, ValueError) as error:
        if not is_ours(error):
            raise
        return
    check_finite("explanations", found.feature, found.action, found.expected)


def _look_at(policy: Any, context: Any, work: Path) -> None:
    repr(policy)
    policy._repr_mimebundle_()
    if hasattr(policy, "feature_importances_"):
        check_finite("importances", policy.feature_importances_, policy.action_importance_)
    if hasattr(policy, "leaderboard_"):
        str(policy.leaderboard_)
    policy.save(work / "again.bopl")
    bopl.load(work / "again.bopl")


def _export(policy: Any, context: Any, work: Path) -> None:
    for name, file in (("to_onnx", "case.onnx"), ("to_xgboost", "case.json")):
        try:
            if hasattr(policy, name):
                getattr(policy, name)(work / file)
        except (TypeError, ValueError) as error:
            if not is_ours(error):
                raise


def run_checkpoint(rng: np.random.Generator, seeds: Path, work: Path) -> None:
    """Resume from a spoiled checkpoint, and score with its rounds."""
    _use_checkpoint(_case(rng, seeds / "checkpoint", work, mutate_archive), _settings(seeds))


def _settings(seeds: Path) -> list[dict[str, Any]]:
    files = sorted((seeds / "checkpoint").iterdir())
    return [json.loads(unpack(file.read_bytes())["document.json"])["content"]["settings"] for file in files]


def _use_checkpoint(path: Path, settings: list[dict[str, Any]]) -> None:
    log = plain_log()
    try:
        state = read_checkpoint(path, log, settings[0], 3)
    except ValueError as error:
        if "was made with learner" not in str(error):
            raise
        state = read_checkpoint(path, log, settings[1], 3)
    check_finite("scores", state.score)
    for entry in state.rounds:
        check_finite("scores", entry.step.size * entry.predictor.predict(log.context))


# -- Logs -------------------------------------------------------------------------------------------------------------


def run_log(rng: np.random.Generator, seeds: Path, work: Path) -> None:
    """Read a spoiled log of any format, and look at it as its owner would."""
    path = _spoiled_log(rng, seeds, work)
    settings = pick(rng, SETTINGS) if rng.random() < 0.5 else {}
    log = bopl.BanditLog.read(path, **settings)
    _check_log(log)
    if path.suffix == ".parquet" and rng.random() < 0.2:
        bopl.evaluate_parquet(path, {"same": "propensity"}, **ROLES)
    _look_at_log(rng, log, work)


SETTINGS: list[dict[str, Any]] = [
    dict(ROLES),
    {"time": "at"},
    {"time": "at", "group": "city"},
    {"drop_invalid": True},
    {"drop_invalid": True, "drop_duplicates": True, "time": "at"},
    {"drop_duplicates": ["x", "city"]},
    {"where": "x > 0 and city in ('Rom', 'Ulm')"},
    {"where": "at >= '2024-05-01' or gap is missing"},
    {"categorical": ["x"]},
    {"action": "city"},
    {"reward": "x", "other_rewards": ["reward"], "segment": "city"},
    {"has_propensity": False, "ignore": ["propensity"]},
    {"context": ["x", "gap"]},
]


def _spoiled_log(rng: np.random.Generator, seeds: Path, work: Path) -> Path:
    path = None
    while path is None and rng.random() < 0.4:
        path = write_odd_table(rng, work)
    if path is not None:
        return path
    source = pick(rng, sorted((seeds / "log").iterdir()))
    path = work / f"case{''.join(source.suffixes)}"
    mutate: Any = mutate_text if source.suffix in (".csv", ".jsonl", ".vw", ".dsjson") else mutate_bytes
    if source.suffix in (".jsonl", ".dsjson") and rng.random() < 0.6:
        mutate = mutate_json
    elif source.suffix == ".csv" and rng.random() < 0.5:
        mutate = mutate_csv
    path.write_bytes(mutate(rng, source.read_bytes()))
    return path


def run_pieces(rng: np.random.Generator, seeds: Path, work: Path) -> None:
    """Scan odd and spoiled Parquet files, and compare what they hold with the log in memory."""
    folder = work / "pieces"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for number in range(int(rng.integers(1, 4))):
        _write_part(rng, folder / f"{number}.parquet")
    settings = pick(rng, [one for one in SETTINGS if "drop_duplicates" not in one])
    _compare_pieces(folder, {**ROLES, **settings} | ({"propensity": None} if "has_propensity" in settings else {}))


def _write_part(rng: np.random.Generator, path: Path) -> None:
    size, is_odd = int(pick(rng, [1, 10, 100])), rng.random() < 0.5
    plain = pa.Table.from_pandas(make_frame(N_ROWS), preserve_index=False)
    try:
        pq.write_table(odd_table(rng) if is_odd else plain, path, row_group_size=size)
    except NO_FORM:
        pq.write_table(plain, path, row_group_size=size)
    if rng.random() < 0.1:
        path.write_bytes(mutate_bytes(rng, path.read_bytes()))


def _compare_pieces(folder: Path, settings: dict[str, Any]) -> None:
    log = bopl.BanditLog.scan_parquet(folder, **settings).to_log()
    _check_log(log)
    whole = bopl.BanditLog.read(folder, **settings)
    if log.fingerprint() != whole.fingerprint() or log.schema != whole.schema:
        raise DifferentError(f"{settings}: {log.fingerprint()} {log.schema}, {whole.fingerprint()} {whole.schema}")


def _look_at_log(rng: np.random.Generator, log: bopl.BanditLog, work: Path) -> None:
    """Do one of the things that a log is for."""
    roll = rng.random()
    repr(log)
    if roll < 0.05:
        str(log.audit())
    elif roll < 0.15:
        log.to_parquet(work / "again.parquet")
        _check_log(bopl.BanditLog.read(work / "again.parquet"))
    elif roll < 0.25:
        log.to_frame("pandas")
    elif roll < 0.35:
        bopl.concat([log, log])
    elif roll < 0.45 and log.time is not None:
        log.split(by="time")
    elif roll < 0.6 and log.has_propensity:
        str(bopl.evaluate(log, {"same": log.propensity}, estimators=["ips", "snips"]))


def _use_log(path: Path) -> None:
    _check_log(bopl.BanditLog.read(path))


def _check_log(log: bopl.BanditLog) -> None:
    check_finite("rewards", log.reward)
    if log.has_propensity:
        check_finite("propensities", log.propensity)
    values = log.context.data if sparse.issparse(log.context) else log.context
    if np.isinf(values).any():
        raise NotFiniteError("contexts")
    log.fingerprint()


# -- Frames and sparse matrices ---------------------------------------------------------------------------------------

ODD_COLUMNS: list[Callable[[int], Any]] = [
    lambda n: list(range(n)),
    lambda n: [None] * n,
    lambda n: [Decimal("1.5")] * n,
    lambda n: [[1, 2]] * n,
    lambda n: [{"a": 1}] * n,
    lambda n: [b"bytes"] * n,
    lambda n: [10**30] * n,
    lambda n: [1e77] * n,
    lambda n: [1e-162] * n,
    lambda n: [float("inf")] * n,
    lambda n: [float("nan")] * n,
    lambda n: [1 + 2j] * n,
    lambda n: ["x", 1, None, 2.5] * (n // 4),
    lambda n: pd.array([1, None] * (n // 2), dtype="Int64"),
    lambda n: pd.array([True, None] * (n // 2), dtype="boolean"),
    lambda n: pd.Categorical(["u", None] * (n // 2)),
    lambda n: pd.to_datetime(["2024-01-01", None] * (n // 2), utc=True),
    lambda n: pd.to_timedelta(np.arange(n), unit="s"),
    lambda n: pd.period_range("2024-01", periods=n, freq="M"),
    lambda n: pd.interval_range(0, n),
    lambda n: np.arange(n, dtype=np.uint64) + 2**63,
    lambda n: np.arange(n).astype(np.float16),
    lambda n: [pd.NA] * n,
    lambda n: [pd.NaT] * n,
    lambda n: [(1, 2)] * n,
    lambda n: [np.zeros(2)] * n,
    lambda n: ["\ud800"] * n,
    lambda n: [""] * n,
    lambda n: ["a" * 1000] * n,
    lambda n: pd.arrays.SparseArray(np.arange(n)),
    lambda n: [1, 1.0, True, "1"] * (n // 4),
    lambda n: [1.0, 2.0] * (n // 2),
    lambda n: [True, False] * (n // 2),
    lambda n: ["é", "e\u0301"] * (n // 2),
    lambda n: pd.Categorical(["u", "v"] * (n // 2), categories=["u", "v", "never"]),
    lambda n: pd.Categorical([1, 2] * (n // 2), ordered=True),
    lambda n: [pd.Timestamp("2024-01-01", tz="UTC"), pd.Timestamp("2024-01-01")] * (n // 2),
    lambda n: [pd.Timestamp("2024-01-01", tz="UTC"), pd.Timestamp("2024-01-01", tz="Asia/Tokyo")] * (n // 2),
    lambda n: [date(1, 1, 1), date(9999, 12, 31)] * (n // 2),
    lambda n: [0.0, 1.0 + 1e-12] * (n // 2),
    lambda n: [-1e300, 1e300] * (n // 2),
    lambda n: [np.ma.masked, 1] * (n // 2),
    lambda n: [frozenset([1])] * n,
    lambda n: [object()] * n,
    lambda n: [np.datetime64("NaT"), np.datetime64("2024-01-01")] * (n // 2),
    lambda n: pd.Series([1.0, None] * (n // 2), dtype="float[pyarrow]"),
    lambda n: pd.Series(["a", None] * (n // 2), dtype="string[pyarrow]"),
    lambda n: pd.Series(["a", None] * (n // 2), dtype="string"),
    lambda n: [[1, 2], [1]] * (n // 2),
    lambda n: [[], None] * (n // 2),
    lambda n: [[np.nan], [np.inf]] * (n // 2),
]
FRAME_ROWS = 40


def run_frame(rng: np.random.Generator, seeds: Path, work: Path) -> None:
    """Build a log from an odd frame, and let a policy act on one."""
    frame = make_frame(FRAME_ROWS)
    for _ in range(int(rng.integers(1, 3))):
        roll, name = rng.random(), pick(rng, list(frame.columns))
        if roll < 0.6:
            with suppress(Exception):  # what pandas does not hold cannot come from it
                frame[name] = pd.Series(pick(rng, ODD_COLUMNS)(FRAME_ROWS), index=frame.index)
        elif roll < 0.75:
            names = [pick(rng, [1, 2.5, None, ("a", 1), "", "x", True]) if n == name else n for n in frame.columns]
            frame.columns = pd.Index(names, dtype=object)
        elif roll < 0.85:
            frame = frame.iloc[: int(pick(rng, [0, 1, 2]))]
        elif roll < 0.9:
            frame = frame.drop(columns=[name])
        else:
            values = frame[name].astype(object).tolist() if frame.columns.tolist().count(name) == 1 else []
            frame[name] = [pick(rng, [None, np.nan]), *values[1:]] if values else None
        if len(frame) < FRAME_ROWS:
            break
    native = _as_native(rng, frame) if rng.random() < 0.7 else _arrow_frame(rng)
    try:
        log = bopl.BanditLog.from_frame(native, **ROLES)
        _check_log(log)
        _look_at_log(rng, log, work)
    except Exception as error:
        if not is_ours(error):
            raise
    _check_acting(_policy(seeds, "frame"), native)


def _arrow_frame(rng: np.random.Generator) -> Any:
    """Return a frame of arrow's or polars' own columns, some of them odd."""
    table = pa.Table.from_pandas(make_frame(N_ROWS), preserve_index=False)
    for _ in range(int(rng.integers(1, 3))):
        at = int(rng.integers(0, table.num_columns))
        table = table.set_column(at, table.column_names[at], pick(rng, ARROW_COLUMNS)())
    if pl is None or rng.random() < 0.4:
        return table
    try:
        return pl.from_arrow(table)
    except BaseException as error:  # polars has no form for it, and panics
        _raise_stops(error)
        return table


def _as_native(rng: np.random.Generator, frame: pd.DataFrame) -> Any:
    """Return the frame in another library's form, if it has one."""
    try:
        roll = rng.random()
        if roll < 0.2 and pl is not None:
            return pl.from_pandas(frame)
        return pa.Table.from_pandas(frame) if roll < 0.4 else frame
    except BaseException as error:
        _raise_stops(error)
        return frame


_POLICIES: dict[str, Any] = {}


def _policy(seeds: Path, name: str) -> Any:
    if name not in _POLICIES:
        _POLICIES[name] = bopl.load(seeds / "policy" / f"{name}.bopl")
    return _POLICIES[name]


SPARSE_KINDS = [sparse.csr_array, sparse.csr_matrix, sparse.csc_array, sparse.bsr_array, sparse.coo_array]
SPARSE_KINDS += [sparse.dia_array]
COMPRESSED = ["indices", "indptr", "data"]


def run_sparse(rng: np.random.Generator, seeds: Path, work: Path) -> None:
    """Build a log from a spoiled sparse matrix, and let policies act on it."""
    log = plain_log()
    kind = pick(rng, SPARSE_KINDS)
    matrix = kind(np.where(np.abs(log.context) > 0.5, log.context, 0.0))
    for _ in range(int(rng.integers(1, 3))):
        _spoil(rng, matrix)
    try:
        _check_log(bopl.BanditLog(matrix, log.action, log.reward, log.propensity, actions=log.actions))
    except Exception as error:
        if not is_ours(error):
            raise
    for name in ("plain", "xgb"):
        _check_acting(_policy(seeds, name), matrix)


def _spoil(rng: np.random.Generator, matrix: Any) -> None:
    name = pick(rng, {"dia": ["offsets", "data"], "coo": ["row", "col", "data"]}.get(matrix.format, COMPRESSED))
    array = getattr(matrix, name).copy()
    roll = rng.random()
    if roll < 0.6 and array.size:
        flat = array.reshape(-1)
        value = pick(rng, FLOATS if name == "data" else EXTREMES)
        with np.errstate(all="ignore"):
            flat[int(rng.integers(0, len(flat)))] = np.array(value).astype(array.dtype)
    elif roll < 0.75:
        array = array[: int(rng.integers(0, max(len(array), 1)))]
    elif roll < 0.85:
        array = np.concatenate([array, array])
    elif roll < 0.95:
        array = array.astype(pick(rng, ["i8", "f8", "u4", "i2", "c16"]))
    else:
        array = array[::-1]
    setattr(matrix, name, array)


# -- All of them ------------------------------------------------------------------------------------------------------


def sound_policies(seeds: Path, work: Path) -> None:
    for number, path in enumerate(sorted((seeds / "policy").iterdir())):
        use_policy(path, work, has_report=number == 0)


def sound_checkpoints(seeds: Path, work: Path) -> None:
    for path in sorted((seeds / "checkpoint").iterdir()):
        _use_checkpoint(path, _settings(seeds))


def sound_logs(seeds: Path, work: Path) -> None:
    for path in sorted((seeds / "log").iterdir()):
        _use_log(path)


def sound_pieces(seeds: Path, work: Path) -> None:
    (work / "sound").mkdir()
    make_frame().to_parquet(work / "sound" / "0.parquet", row_group_size=7)
    _compare_pieces(work / "sound", ROLES)


def sound_frames(seeds: Path, work: Path) -> None:
    _check_log(bopl.BanditLog.from_frame(make_frame(), **ROLES))
    _check_acting(_policy(seeds, "frame"), make_frame())


def sound_matrices(seeds: Path, work: Path) -> None:
    for name in ("plain", "xgb"):
        _check_acting(_policy(seeds, name), sparse.csr_array(plain_log().context))


TARGETS = {
    target.name: target
    for target in (
        Target("policy", run_policy, 0.60, sound_policies),
        Target("checkpoint", run_checkpoint, 0.10, sound_checkpoints),
        Target("log", run_log, 0.15, sound_logs),
        Target("pieces", run_pieces, 0.05, sound_pieces),
        Target("frame", run_frame, 0.05, sound_frames),
        Target("sparse", run_sparse, 0.05, sound_matrices),
    )
}
