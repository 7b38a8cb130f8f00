"""Cross-fitted reward models and models of the logging policy in files, for work that resumes after a crash.

Only what was fitted is written. Estimates are recomputed by the same code, and are the same to the last bit.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone

from bopl._archive import Archive, checking_contents, read_archive, write_archive
from bopl._registry import keeps
from bopl._typing import FloatArray
from bopl.learner.store import pack_predictors, unpack_predictors
from bopl.log import BanditLog
from bopl.reward.boosted_model import BoostedRewardModel
from bopl.reward.cross_fitting import CrossFit, draw_model_folds, estimate_unseen
from bopl.reward.logging_model import LoggingModel, LoggingTerm
from bopl.reward.network_model import NetworkRewardModel

KIND = "reward models"
FORMAT_NUMBER = 1


def can_be_kept(model: Any) -> bool:
    """Return whether a fitted model can be stored."""
    return any(keeps(model, kind, "fit", "predict") for kind in (BoostedRewardModel, NetworkRewardModel))


def write_cross_fit(path: Path, fitted: CrossFit, log: BanditLog) -> None:
    """Write the models of all folds."""
    packed = [pack_predictors(_predictors_of(model)) for model in fitted.models]
    document = {
        "fingerprint": log.fingerprint(),
        "models": [facts for facts, _ in packed],
        "n_predictors": [len(_predictors_of(model)) for model in fitted.models],
        "initial": [float(getattr(model, "initial_", 0.0)) for model in fitted.models],
    }
    arrays = {f"{number}/{name}": array for number, (_, own) in enumerate(packed) for name, array in own.items()}
    write_archive(path, Archive(KIND, FORMAT_NUMBER, document, arrays))


def read_cross_fit(
    path: Path, model: Any, log: BanditLog, *, n_folds: int, seed: int, sample_weight: FloatArray | None
) -> CrossFit:
    """Return what `write_cross_fit` wrote, as `cross_fit` returns it for the same model, log and settings."""
    archive = _read(path, log)
    document, fold = archive.document, draw_model_folds(log, model, n_folds, seed)
    with checking_contents(path, "does not hold valid reward models"):
        # Folds are drawn again, from the same seed: the file need not be trusted with who has seen which sample.
        n_models = int(fold.max()) + 1
        if not all(len(document[name]) == n_models for name in ("models", "n_predictors", "initial")):
            raise ValueError(f"it must have {n_models} models")
        models = tuple(_model_from(archive, number, model, log) for number in range(n_models))
        return estimate_unseen(models, fold, log, sample_weight)


def write_logging_model(path: Path, model: LoggingModel, log: BanditLog) -> None:
    """Write a model of the logging policy."""
    facts, arrays = pack_predictors([LoggingTerm(model)])
    write_archive(path, Archive(KIND, FORMAT_NUMBER, {"fingerprint": log.fingerprint(), "model": facts}, {**arrays}))


def read_logging_model(path: Path, log: BanditLog) -> LoggingModel:
    """Return what `write_logging_model` wrote."""
    archive = _read(path, log)
    with checking_contents(path, "holds no valid model of the logging policy"):
        (term,) = unpack_predictors(
            archive.document["model"], archive.arrays, n_features=log.n_features, n_actions=log.n_actions
        )
    assert isinstance(term, LoggingTerm)
    return term.model


def _read(path: Path, log: BanditLog) -> Archive:
    archive = read_archive(path, KIND, FORMAT_NUMBER)
    if archive.document.get("fingerprint") != log.fingerprint():
        raise ValueError(f"{str(path)!r} belongs to another log.")
    return archive


def _predictors_of(model: Any) -> list[Any]:
    return list(model.predictors_) if isinstance(model, BoostedRewardModel) else [model.predictor()]


def _model_from(archive: Archive, number: int, model: Any, log: BanditLog) -> Any:
    prefix, document = f"{number}/", archive.document
    own = {name.removeprefix(prefix): array for name, array in archive.arrays.items() if name.startswith(prefix)}
    predictors: tuple[Any, ...] = ()
    if document["n_predictors"][number]:
        predictors = unpack_predictors(
            document["models"][number],
            own,
            n_features=log.n_features,
            n_actions=log.n_actions,
            action_features=log.action_features,
        )
    if len(predictors) != document["n_predictors"][number]:
        raise ValueError("a model has lost some of its predictors")
    if isinstance(model, BoostedRewardModel):
        initial = float(document["initial"][number])
        if not np.isfinite(initial):
            raise ValueError("a model does not begin at a finite number")
        return clone(model).adopt(log, initial, predictors)
    (layers,) = predictors
    return clone(model).adopt(log, layers)
