"""Settings searched on the training samples; the held-out samples stay unseen until the verdict."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from bopl._errors import checking_usage
from bopl._files import write_text
from bopl._typing import FloatArray
from bopl.objective.registry import get_objective
from bopl.policy import BoostedPolicy
from bopl.search import Choice, CrossValidatedScorer, Float, Int, SearchResult, search
from bopl.search.study import check_budget, import_optuna
from bopl.workflow.auditing import audit_for_training
from bopl.workflow.config import TrainConfig
from bopl.workflow.reading import describe_log, read_training_log, split_log
from bopl.workflow.run_folder import check_writable
from bopl.workflow.training import make_policy
from bopl.workflow.translation import CONFIDENCE, MAX_SAMPLES, SHARES, drawn_part, translation_at

logger = logging.getLogger(__name__)

MIN_ROUNDS = 20
FIXED = ("colsample", "reg_lambda", "weight", "smoothness", "start")  # other settings that scores depend on


@dataclass(frozen=True)
class Builder:
    """From settings to an unfitted policy; a class, because it is sent to other processes."""

    config: TrainConfig
    reward: FloatArray

    def __call__(self, settings: dict[str, Any]) -> BoostedPolicy:
        """Return the policy."""
        config = apply_settings(self.config, settings, self.reward)
        return make_policy(config, float(config.reward_translation))


@dataclass(frozen=True)
class Tuned:
    """Result of a search: the settings, as a configuration, all configurations, and whether Ctrl-C ended it."""

    config: TrainConfig
    result: SearchResult
    path: Path
    is_interrupted: bool


def search_space(config: TrainConfig) -> dict[str, Int | Float | Choice]:
    """Return the search space: objective, rounds, trees, steps and reward translation."""
    return {
        "objective": Choice("dr", "ips", "surrogate"),
        "n_rounds": Int(min(MIN_ROUNDS, config.n_rounds), config.n_rounds, log=True),
        "max_depth": Int(3, 16),
        "min_leaf_samples": Float(2.0, 200.0, log=True),
        "learning_rate": Float(0.1, 1.0, log=True),
        "translation_share": Float(min(SHARES), max(SHARES)),
    }


def apply_settings(config: TrainConfig, settings: dict[str, Any], reward: FloatArray) -> TrainConfig:
    """Return the configuration with the settings of a search; the translation is given relative to the rewards."""
    changes = {name: value for name, value in settings.items() if name != "translation_share"}
    needs_model = get_objective(settings["objective"]).needs_reward_model  # a translation has no effect then
    translation = 0.0 if needs_model else translation_at(reward, settings["translation_share"])
    return replace(config, **changes, reward_translation=translation, include=None, exclude=())


def tune(
    config: TrainConfig,
    out: str | Path,
    *,
    n_configurations: int | None,
    minutes: float | None,
    n_folds: int = 3,
    n_jobs: int = 1,
    engine: str = "tpe",
) -> Tuned:
    """Search for settings by cross-validation and write them as a configuration for ``bopl train --config``.

    Configurations are ranked by a lower bound of their estimate, one standard error down: by the estimate alone, a
    policy supported by a few samples with large weights wins easily. The study file beside ``out`` lets a later call
    resume; Ctrl-C ends the search and keeps its results.

    Parameters
    ----------
    config : TrainConfig
        ``n_rounds`` is the largest number to try.
    out : path
        The configuration file.
    n_configurations, minutes
        The budget, either or both.
    n_folds, n_jobs : int
    engine : {"tpe", "random"}
    """
    path = Path(out)
    check_writable(path, read=[config.log])
    with checking_usage():
        check_budget(n_configurations, minutes, engine, n_jobs)
    import_optuna()  # missing, it must not cost the time of an audit
    log = read_training_log(config)
    logger.info(describe_log(log, config.paths))
    log = audit_for_training(log, config).log
    rest, held_out = parts = split_log(log, config.holdout, config.random_state)
    if log.time is not None or log.group is not None:
        logger.info(parts.facts.sentence)
    logger.info(
        f"Searching on {rest.n_samples:,} samples; the {held_out.n_samples:,} that train will hold out stay unseen."
    )
    if rest.n_samples > MAX_SAMPLES:
        rest = drawn_part(rest, MAX_SAMPLES, [config.random_state, 4])
        logger.info(f"{MAX_SAMPLES:,} of them, drawn at random, are enough to compare settings.")
    threads = config.n_jobs or max((os.cpu_count() or 1) // n_jobs, 1)
    run = partial(
        search,
        Builder(replace(config, n_jobs=threads), rest.reward),
        search_space(config),
        CrossValidatedScorer(rest, n_folds, confidence=CONFIDENCE, random_state=config.random_state),
        study=path.with_name(f"{path.stem}-{rest.fingerprint()[:8]}.study"),  # a study of another log is another study
        engine=engine,
        n_jobs=n_jobs,
        random_state=config.random_state,
        identity={"number of folds": n_folds} | {name: getattr(config, name) for name in FIXED},
    )
    was_interrupted = False
    try:
        result = run(n_configurations=n_configurations, minutes=minutes)
    except KeyboardInterrupt:
        was_interrupted = True
        result = _found_so_far(run)
    best = apply_settings(config, result.settings, rest.reward)
    write_text(path, best.absolute().to_toml())
    return Tuned(best, result, path, was_interrupted)


def _found_so_far(run: Callable[..., SearchResult]) -> SearchResult:
    """Return the results in the study of an interrupted search; if there are none, there is nothing to write."""
    try:
        return run(minutes=1e-9)  # starts nothing
    except ValueError:
        raise KeyboardInterrupt from None
