"""What remains to be done: tasks, in the order in which they run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from bopl_paper.catalogue import (
    BOOSTED,
    COLUMNS,
    DATASETS,
    DEFAULT,
    FIGURE_METHODS,
    METHODS,
    NETWORKS,
    NOISY_METHODS,
    OWN_ENGINE,
    read_config,
)

QUICK_TRIALS = 3
QUICK_SAMPLES = 1_000  # training samples of every dataset but Scene
QUICK_SECONDS = {DEFAULT: 30.0}  # of one trial on this few; 5 elsewhere
# Settings that suit this few samples.
QUICK_LIMITS = {
    "n_rounds": 10, "max_depth": 8, "min_child_weight": 20, "n_epochs": 8, "batch_size": 50, "first_layer_width": 128,
}  # fmt: skip


THREAD_EFFICIENCY = 0.6  # what every thread after the first adds to the speed


def _speed(threads: int) -> float:
    return 1.0 + THREAD_EFFICIENCY * (threads - 1)


@dataclass(frozen=True)
class Task:
    """Training and measuring one method on one dataset, for one trial or for several in lockstep.

    Attributes
    ----------
    dataset, method : str
    trials : tuple of int
    settings : dict
        Hyperparameters.
    n_samples : int or None
        Number of training samples, if not all.
    threads : int
    device : {"auto", "cpu", "cuda"}
    is_figure : bool
        Record every round.
    seconds : float
        Approximate duration of one trial on two threads.
    """

    dataset: str
    method: str
    trials: tuple[int, ...]
    settings: dict[str, Any] = field(default_factory=dict)
    n_samples: int | None = None
    threads: int = 1
    device: str = "auto"
    is_figure: bool = False
    seconds: float = 5.0

    @property
    def expected_seconds(self) -> float:
        """Expected duration with these threads; on a GPU, trials in lockstep take about as long as one on a CPU."""
        if self.method in NETWORKS and self.device.startswith("cuda"):
            return self.seconds
        return self.seconds * len(self.trials) * _speed(2) / _speed(self.threads)

    @property
    def label(self) -> str:
        """The task in a few words."""
        numbers = (
            f"trial {self.trials[0]}" if len(self.trials) == 1 else f"trials {self.trials[0]} to {self.trials[-1]}"
        )
        return f"{self.dataset} {self.method} {numbers}"


def full_plan(
    datasets: Sequence[str],
    methods: Sequence[str],
    trials: Iterable[int],
    *,
    threads: int = 1,
    device: str = "auto",
    together: int = 1,
) -> list[Task]:
    """Return the tasks of a run with the paper's settings: cheap trials first, so that all rows appear early.

    Parameters
    ----------
    datasets, methods : sequences of str
    trials : iterable of int
    threads : int
        Number of threads of each task.
    device : str
        Device of the networks.
    together : int
        Number of trials of a network trained in lockstep, on a GPU.
    """
    wanted = list(trials)
    tasks = []
    for dataset in datasets:
        for method in methods:
            config = read_config(dataset, method)
            size = together if method in NETWORKS else 1
            groups = [tuple(wanted[start : start + size]) for start in range(0, len(wanted), size)]
            tasks += [
                Task(dataset, method, group, config.policy, None, threads, device, seconds=config.seconds)
                for group in groups
            ]
    return sorted(tasks, key=lambda task: (task.trials[0], task.expected_seconds))


def quick_plan(
    datasets: Sequence[str], methods: Sequence[str], *, threads: int = 1, device: str = "auto"
) -> list[Task]:
    """Return the tasks of a run that takes minutes: Scene in full with the paper's boosted methods, the rest small.

    XGBoost's trees are grown by histogram, in half the time of its exact ones.
    """
    tasks = []
    for task in full_plan(datasets, methods, range(QUICK_TRIALS), threads=threads, device=device):
        if task.dataset == "scene" and task.method in ("logging", *BOOSTED):
            tasks.append(task)
        elif task.trials == (0,):
            seconds = QUICK_SECONDS.get(task.method, 5.0)
            tasks.append(replace(task, settings=shrink(task.settings), n_samples=QUICK_SAMPLES, seconds=seconds))
    tasks = [
        replace(task, settings=task.settings | {"tree_method": "hist"}) if task.method == "brr-xgb" else task
        for task in tasks
    ]
    tasks.sort(key=lambda task: -task.expected_seconds)  # long ones first: the last to end should be short
    # One of the first two compiles the engine while XGBoost keeps the other busy; otherwise both would compile.
    own = next((place for place, task in enumerate(tasks) if task.method in OWN_ENGINE), None)
    if own is not None and own > 1:
        tasks.insert(1, tasks.pop(own))
    return tasks


def figure_plan(*, threads: int = 1, quick: bool = False) -> list[Task]:
    """Return the three runs of Figure 1."""
    tasks = []
    for method in FIGURE_METHODS:
        config = read_config("figure", method)
        task = Task("covertype", method, (0,), config.policy, None, threads, is_figure=True, seconds=config.seconds)
        if quick:
            task = replace(task, settings=shrink(task.settings), n_samples=QUICK_SAMPLES, seconds=5.0)
        tasks.append(task)
    return tasks


def shrink(settings: dict[str, Any]) -> dict[str, Any]:
    """Return settings that suit a small sample: fewer and smaller trees, fewer epochs."""
    return {name: min(value, QUICK_LIMITS.get(name, value)) for name, value in settings.items()}


def without_done(tasks: Iterable[Task], lines: Iterable[dict[str, Any]]) -> list[Task]:
    """Return the remaining tasks, given existing lines; other settings count as another trial."""
    done = {identity(line) for line in lines}
    remaining = []
    for task in tasks:
        trials = tuple(trial for trial in task.trials if task_identity(task, trial) not in done)
        if trials:
            remaining.append(replace(task, trials=trials))
    return remaining


def identity(line: dict[str, Any]) -> tuple[Any, ...]:
    """Return what makes a result line the answer to a task."""
    settings = tuple(sorted((name, str(value)) for name, value in line["hyper_parameters"].items()))
    return line["dataset"], line["method"], line["trial"], line["n_samples"], "gradient_norm" in line, settings


def task_identity(task: Task, trial: int) -> tuple[Any, ...]:
    """Return `identity` of the line that the task will write for a trial."""
    settings = tuple(sorted((name, str(value)) for name, value in task.settings.items()))
    return task.dataset, task.method, trial, task.n_samples, task.is_figure, settings


def current_lines(lines: Iterable[dict[str, Any]], *, quick: bool = False) -> list[dict[str, Any]]:
    """Return the lines that the current plan would write, without those of other settings or sample sizes."""
    if quick:
        tasks = quick_plan([*DATASETS, "digits"], list(METHODS))
    else:
        tasks = full_plan(list(COLUMNS), list(NOISY_METHODS), (0,))  # every method there is
    wanted = {_without_trial(task_identity(task, 0)) for task in (*tasks, *figure_plan(quick=quick))}
    return [line for line in lines if _without_trial(identity(line)) in wanted]


def _without_trial(whole: tuple[Any, ...]) -> tuple[Any, ...]:
    return whole[:2] + whole[3:]
