"""The search: draws configurations, scores them in parallel, and keeps them in a study file that can be resumed."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from multiprocessing import active_children, get_context
from pathlib import Path
from typing import Any

from sklearn.base import clone

from bopl._errors import UsageError
from bopl._machine import import_extra, thread_variables
from bopl._progress import deprecated_listener
from bopl._settings import check_choice, check_number
from bopl.search.scorer import Scorer
from bopl.search.space import Space, draw_seed, draw_settings

logger = logging.getLogger(__name__)

STUDY_NAME = "bopl"
ENGINES = ("random", "tpe")

_INDIFFERENT = ("n_jobs", "progress", "verbose")  # parameters that affect no score

PolicyBuilder = Callable[[dict[str, Any]], Any]


@dataclass(frozen=True)
class SearchResult:
    """Result of a search.

    Attributes
    ----------
    policy : unfitted policy
        Policy with the best settings: fit it on all the data.
    settings : dict
        The best configuration.
    value : float
        Its score. It is the largest of many noisy numbers, and so optimistic: judge the policy on separate data.
    configurations : list of dict
        All scored configurations: ``number``, ``value``, ``seconds`` and the settings, best first.
    n_failed : int
        Number of configurations that could not be trained.
    """

    policy: Any
    settings: dict[str, Any]
    value: float
    configurations: list[dict[str, Any]]
    n_failed: int


def search(
    policy: Any,
    space: Space,
    scorer: Scorer,
    *,
    study: str | Path | None = None,
    n_configurations: int | None = None,
    minutes: float | None = None,
    engine: str = "random",
    n_jobs: int = 1,
    threads: int | None = None,
    random_state: int = 0,
    identity: Mapping[str, Any] | None = None,
    report: Callable[[Any], None] | None = None,
) -> SearchResult:
    """Search for good settings.

    Parameters
    ----------
    policy : estimator, or callable of a dict of settings
        An unfitted policy whose settings are changed with ``set_params`` (nested names such as ``learner__max_depth``
        are fine), or a function that builds one.
    space : mapping of str to Int, Float or Choice
        Ranges to search, by the name of the setting.
    scorer : Scorer
        `CrossValidatedScorer` for a real log, `SimulatedScorer` if the truth is known.
    study : path, optional
        File that stores the scores. The same call resumes from it, even after a kill; a larger budget extends the
        search. A study of another space, seed or ``identity`` is refused.
    n_configurations : int, optional
        Maximum number of configurations, including those of earlier calls.
    minutes : float, optional
        Start no new configuration after this many minutes.
    engine : {"random", "tpe"}, default="random"
        ``"random"`` is the paper's: configuration k depends only on ``random_state`` and k. ``"tpe"`` is Optuna's
        tree-structured Parzen estimator, which learns from earlier scores: configuration k depends on them too.
    n_jobs : int, default=1
        Number of configurations to score in parallel, each in its own process.
    threads : int, optional
        Number of threads of the numerical libraries in each process, including those of networks. If given, even a
        single job gets its own process.
    random_state : int, default=0
        Seed of the configurations.
    identity : mapping of str to anything with a text of its own, optional
        What else the scores depend on, by name, such as the data and the fixed settings. By default the
        scorer and the policy's parameters, as text.
    report : callable, optional
        Deprecated: a sentence for every scored configuration goes to `logging`.

    Examples
    --------
    >>> import numpy as np, bopl
    >>> from bopl.search import CrossValidatedScorer, Int, search
    >>> rng = np.random.default_rng(0)
    >>> context, action = rng.normal(size=(300, 2)), rng.integers(0, 2, size=300)
    >>> log = bopl.BanditLog(context, action, action == (context[:, 0] > 0), np.full(300, 0.5))
    >>> policy = bopl.BoostedPolicy(n_rounds=5, reward_translation=-0.2, random_state=0)
    >>> result = search(policy, {"n_rounds": Int(2, 6)}, CrossValidatedScorer(log), n_configurations=2)
    >>> result.value > 0.8
    True
    """
    optuna = import_optuna()
    check_budget(n_configurations, minutes, engine, n_jobs)
    with deprecated_listener("report", report), _quiet(optuna):
        known = _default_identity(policy, space, scorer) if identity is None else identity
        wanted: dict[str, Any] = {"space": str(dict(sorted(space.items()))), "engine": engine, "seed": random_state}
        wanted |= {name: str(value) for name, value in known.items()}
        opened = _open_study(optuna, study, wanted)
        stop_at = time.monotonic() + (float("inf") if minutes is None else 60.0 * minutes)
        asker = _Asker(optuna, opened, space, engine, random_state, n_configurations, stop_at)
        builder: PolicyBuilder = _SetParams(policy) if hasattr(policy, "set_params") else policy
        if n_jobs == 1 and threads is None:
            _score_here(asker, builder, scorer)
        else:
            with thread_variables(threads):
                _score_in_processes(asker, builder, scorer, n_jobs)
        return _result(optuna, opened, builder)


def check_budget(n_configurations: int | None, minutes: float | None, engine: str, n_jobs: int) -> None:
    """Raise an error if a search has no end, or cannot be run this way."""
    check_choice("engine", engine, ENGINES)
    check_number("n_jobs", n_jobs, low=1, integer=True)
    if n_configurations is None and minutes is None:
        raise ValueError("a search needs a budget: pass n_configurations, minutes or both.")
    if n_configurations is not None:
        check_number("n_configurations", n_configurations, low=1, integer=True)
    if minutes is not None:
        check_number("minutes", minutes, low=0.0, low_open=True)


@dataclass(frozen=True)
class _SetParams:
    """Builds a policy by changing the settings of a copy; a class, because it is sent to worker processes."""

    policy: Any

    def __call__(self, settings: dict[str, Any]) -> Any:
        return clone(self.policy).set_params(**settings)


def _default_identity(policy: Any, space: Space, scorer: Scorer) -> dict[str, str]:
    """Return the scorer and the fixed parameters as text that is the same in every process."""
    if not hasattr(policy, "get_params"):
        return {"scorer": _text(scorer), "policy": _text(policy)}
    fixed = {
        name: type(value).__name__ if hasattr(value, "get_params") else _text(value)
        for name, value in sorted(policy.get_params().items())
        if name not in space and name.rpartition("__")[2] not in _INDIFFERENT
    }
    return {"scorer": _text(scorer), "policy": f"{type(policy).__name__} {fixed}"}


def _text(value: Any) -> str:
    """Return an object as text, without memory addresses, which differ between processes."""
    if isinstance(value, partial):
        return f"{_text(value.func)} {value.args} {value.keywords}"
    return re.sub(r" at 0x[0-9a-f]+", "", getattr(value, "__qualname__", None) or repr(value))


# -- The study file ---------------------------------------------------------------------------------------------------


def import_optuna() -> Any:
    """Return Optuna, or raise an error that says how to install it."""
    return import_extra("optuna", "search needs Optuna", "search")


@contextmanager
def _quiet(optuna: Any) -> Iterator[None]:
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        yield
    finally:
        optuna.logging.set_verbosity(before)


def _open_study(optuna: Any, path: str | Path | None, wanted: dict[str, Any]) -> Any:
    storage = None
    if path is not None:
        if not Path(path).parent.is_dir():
            raise FileNotFoundError(f"there is no folder {str(Path(path).parent)!r} for the study file; create it.")
        journal = optuna.storages.journal.JournalFileBackend(str(path))
        storage = optuna.storages.JournalStorage(journal)
    opened = optuna.create_study(study_name=STUDY_NAME, storage=storage, direction="maximize", load_if_exists=True)
    if not opened.user_attrs:
        for name, value in wanted.items():
            opened.set_user_attr(name, value)
    names = dict.fromkeys([*wanted, *opened.user_attrs])
    different = [name for name in names if opened.user_attrs.get(name) != wanted.get(name)]
    if different:
        raise UsageError(
            f"the study file {str(path)!r} holds a search with another {' and '.join(different)}; use another file."
        )
    return opened


class _Asker:
    """Hands out configurations until the budget is spent, starting with those that a killed call left unfinished."""

    def __init__(
        self, optuna: Any, study: Any, space: Space, engine: str, seed: int, limit: int | None, stop_at: float
    ) -> None:
        self.state, self.sampler = optuna.trial.TrialState, optuna.samplers.TPESampler
        self.study, self.space, self.engine, self.seed, self.stop_at = study, space, engine, seed, stop_at
        self.distributions = {name: space[name].distribution(optuna) for name in sorted(space)}
        trials = study.get_trials(deepcopy=False)
        n_finished = sum(trial.state == self.state.COMPLETE or "error" in trial.user_attrs for trial in trials)
        self.n_left = float("inf") if limit is None else limit - n_finished
        self.n_drawn = 1 + max((trial.user_attrs.get("draw", -1) for trial in trials), default=-1)
        self.n_queued = sum(trial.state == self.state.WAITING for trial in trials)
        for trial in trials:
            if trial.state == self.state.RUNNING:
                self._ask_again(trial)

    def _ask_again(self, trial: Any) -> None:
        """Put back a configuration that a killed call had begun."""
        self.study.enqueue_trial(trial.params, user_attrs=trial.user_attrs)
        self.study.tell(trial.number, state=self.state.FAIL)
        self.n_queued += 1

    def ask(self) -> Any | None:
        """Return the next trial, or None when the budget is spent."""
        if self.n_left <= 0 or time.monotonic() >= self.stop_at:
            return None
        self.n_left -= 1
        if self.n_queued > 0:
            self.n_queued -= 1
        elif self.engine == "random":
            settings = draw_settings(self.space, self.seed, self.n_drawn)
            self.study.enqueue_trial(settings, user_attrs={"draw": self.n_drawn})
            self.n_drawn += 1
        else:
            # Seeded individually: otherwise a later call would draw what the first one drew.
            number = len(self.study.get_trials(deepcopy=False))
            self.study.sampler = self.sampler(seed=draw_seed(self.seed, number))
        return self.study.ask(self.distributions)

    def tell(self, trial: Any, answer: float | str) -> None:
        """Store a score, or the sentence that says why there is none."""
        if isinstance(answer, str):
            trial.set_user_attr("error", answer)
            self.study.tell(trial, state=self.state.FAIL)
        else:
            self.study.tell(trial, answer)


# -- Scoring ----------------------------------------------------------------------------------------------------------

_WORKER: dict[str, Any] = {}  # builder and scorer of this worker process; sent once, not with every configuration


def _prepare_worker(builder: PolicyBuilder, scorer: Scorer) -> None:
    _WORKER.update(builder=builder, scorer=scorer)


def _score_in_worker(settings: dict[str, Any]) -> float | str:
    return _score(_WORKER["builder"], _WORKER["scorer"], settings)


def _score(builder: PolicyBuilder, scorer: Scorer, settings: dict[str, Any]) -> float | str:
    """Return the score of a configuration, or the error: one that cannot be trained must not end a search."""
    try:
        return float(scorer(builder(settings)))
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def _score_here(asker: _Asker, builder: PolicyBuilder, scorer: Scorer) -> None:
    while (trial := asker.ask()) is not None:
        answer = _score(builder, scorer, trial.params)
        asker.tell(trial, answer)
        logger.info(_sentence(trial, answer))


@contextmanager
def _ending_workers() -> Iterator[None]:
    """End the workers of an interrupted search: their work is lost anyway, and they may not have got the signal."""
    before = active_children()
    try:
        yield
    except KeyboardInterrupt:
        for worker in active_children():
            if worker not in before:
                worker.terminate()
        raise


def _score_in_processes(asker: _Asker, builder: PolicyBuilder, scorer: Scorer, n_jobs: int) -> None:
    with (
        ProcessPoolExecutor(
            n_jobs, mp_context=get_context("spawn"), initializer=_prepare_worker, initargs=(builder, scorer)
        ) as pool,
        _ending_workers(),
    ):
        running: dict[Future[float | str], Any] = {}
        while True:
            while len(running) < n_jobs and (trial := asker.ask()) is not None:
                running[pool.submit(_score_in_worker, trial.params)] = trial
            if not running:
                return
            for done in wait(running, return_when=FIRST_COMPLETED).done:
                trial, answer = running.pop(done), done.result()
                asker.tell(trial, answer)
                logger.info(_sentence(trial, answer))


def _sentence(trial: Any, answer: float | str) -> str:
    settings = ", ".join(
        f"{name}={value:.4g}" if isinstance(value, float) else f"{name}={value}" for name, value in trial.params.items()
    )
    score = answer if isinstance(answer, str) else f"{answer:.4f}"
    return f"configuration {trial.number}: {score} with {settings}"


def _result(optuna: Any, study: Any, builder: PolicyBuilder) -> SearchResult:
    trials = study.get_trials(deepcopy=False)
    scored = [trial for trial in trials if trial.state == optuna.trial.TrialState.COMPLETE]
    failed = [trial for trial in trials if "error" in trial.user_attrs]
    if not scored:
        reason = f"; the first failed with {failed[0].user_attrs['error'].rstrip('.')}" if failed else ""
        raise ValueError(f"no configuration was scored within the budget{reason}.")
    scored.sort(key=lambda trial: (-trial.value, trial.number))
    configurations = [
        {"number": trial.number, "value": trial.value, "seconds": trial.duration.total_seconds(), **trial.params}
        for trial in scored
    ]
    best = scored[0]
    return SearchResult(builder(best.params), dict(best.params), float(best.value), configurations, len(failed))
