"""``bopl reproduce``: list, run, noisy, table, figure, search."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from bopl._errors import UsageError
from bopl.cli.options import Json
from bopl.cli.output import Output
from bopl_paper.names import (
    known_methods,
    read_datasets,
    read_device,
    read_methods,
    read_name,
    read_names,
    read_trials,
)

if TYPE_CHECKING:
    from bopl_paper.result_line import Line
    from bopl_paper.runner import Outcome
    from bopl_paper.task import Task

app = typer.Typer(invoke_without_command=True, rich_markup_mode="markdown", add_completion=False)

OUT = typer.Option(None, help="Folder of the result lines; results by default, or runs/quick with --quick.")
DATASETS = typer.Option("all", help="Names separated by commas, or all.")
METHODS = typer.Option("all", help="Names separated by commas, or all.")
TRIALS = typer.Option("0-9", help="Trials to run: 10 for the first ten, a range (0-4), or numbers (2,5).")
JOBS = typer.Option(0, min=0, help="Number of tasks in parallel; 0 for as many as the threads allow.")
THREADS = typer.Option(1, min=1, help="Number of threads of each task.")
DEVICE = typer.Option("auto", help="Device of the networks: auto, cpu or cuda.")
TOGETHER = typer.Option(0, min=0, help="Trials of a network to train in lockstep; 0 for ten on cuda, one elsewhere.")
STUDY = typer.Option(None, help="File that a later call resumes; runs/study-DATASET-METHOD.log by default.")
QUICK = typer.Option(False, "--quick", help="Minutes instead of hours: Scene in full, the rest on subsamples.")
MINUTES = typer.Option(0.0, min=0.0, help="Stop after this many minutes and leave unfinished trials; 0 for no limit.")


@dataclass(frozen=True)
class _Run:
    """The folder of the result lines, the number of parallel tasks, and the output."""

    out: Path | None
    output: Output
    quick: bool = False
    jobs: int = 0
    threads: int = 1
    device: str = "auto"
    minutes: float = 0.0

    @property
    def folder(self) -> Path:
        """The folder of the result lines."""
        return self.out if self.out is not None else Path("runs/quick" if self.quick else "results")

    @property
    def n_jobs(self) -> int:
        """Number of tasks in parallel."""
        return self.jobs or max((os.cpu_count() or 1) // self.threads, 1)

    def trials(self, datasets: str, methods: str, trials: str, together: int) -> Outcome:
        """Run what is missing of the paper's experiments."""
        from bopl_paper.task import quick_plan

        on, by = read_datasets(datasets, self.quick), read_methods(methods, self.output.say)
        if not self.quick:
            return self.full_trials(on, by, trials, together)
        return self._work(quick_plan(on, by, threads=self.threads, device=read_device(by, self.device)))

    def full_trials(self, datasets: list[str], methods: list[str], trials: str, together: int) -> Outcome:
        """Run what is missing of some columns, on all of their samples."""
        from bopl_paper.task import full_plan

        place = read_device(methods, self.device)
        size = together or (10 if place.startswith("cuda") else 1)
        numbers = read_trials(trials)
        return self._work(full_plan(datasets, methods, numbers, threads=self.threads, device=place, together=size))

    def figure_runs(self) -> Outcome:
        """Run what is missing of Figure 1."""
        from bopl_paper.task import figure_plan

        return self._work(figure_plan(threads=self.threads, quick=self.quick))

    def _work(self, tasks: list[Task]) -> Outcome:
        from bopl_paper.runner import run_plan

        minutes = self.minutes or None
        with self.output.heard():
            return run_plan(tasks, self.folder, n_jobs=self.n_jobs, minutes=minutes)

    def lines(self) -> list[Line]:
        """Return the result lines with the current settings, and mention others."""
        from bopl_paper.result_line import read_results
        from bopl_paper.task import current_lines

        found = read_results(self.folder)
        lines = current_lines(found, quick=self.quick)
        if len(lines) < len(found):
            self.output.say(f"{len(found) - len(lines)} lines with other settings or sample sizes are left out.")
        return lines

    def tables(self) -> dict[str, Any]:
        """Write and print the tables and claims; return them as plain values."""
        from bopl_paper.result_page import write_noisy, write_tables

        lines = self.lines()
        if not lines:
            raise ValueError(f"there are no result lines in {self.folder} yet: run `bopl reproduce run` first.")
        with self.output.heard():
            told = write_tables(lines, self.folder, quick=self.quick)
            told["standings"] += write_noisy(lines, self.folder)
        return told

    def figure(self) -> list[str]:
        """Draw Figure 1, and return the files."""
        from bopl_paper.figure import write_figure

        written = [str(path) for path in write_figure(self.lines(), self.folder)]
        self.output.say(f"Written to {' and '.join(written)}.")
        return written


@app.callback()
def reproduce(
    context: typer.Context,
    quick: bool = QUICK,
    jobs: int = JOBS,
    threads: int = THREADS,
    device: str = DEVICE,
    out: Path | None = OUT,
    json: Json = False,
) -> None:
    """Reproduce the paper's tables and figure: run what is missing, then print and write them.

    Example: bopl reproduce --quick
    """
    if context.invoked_subcommand is not None:
        _refuse(context, list(context.params), f"write {{}} after {context.invoked_subcommand}.")
        return
    asked = _Run(out, Output(json), quick, jobs, threads, device)
    failures = asked.trials("all", "all", "0-9", together=0).failures + asked.figure_runs().failures
    found: dict[str, Any] = {}
    try:
        found = asked.tables() | {"figure": asked.figure()}
    except Exception as error:
        if not failures:
            raise
        asked.output.say(f"Not everything could be written: {error}")
    _raise(failures)
    asked.output.finish(found)


@app.command("list")
def show(out: Path | None = OUT, quick: bool = QUICK, json: Json = False) -> None:
    """List datasets and methods, with the trials that are done.

    Example: bopl reproduce list
    """
    from bopl_paper import catalogue
    from bopl_paper.result_line import collect

    asked = _Run(out, Output(json), quick)
    cells = collect(asked.lines())
    done = {
        dataset: {name: cells[name, dataset].n_trials for name in catalogue.NOISY_METHODS if (name, dataset) in cells}
        for dataset in (*catalogue.DATASETS, *sorted({name for _, name in cells} - {*catalogue.DATASETS}))
    }
    for dataset, trials in done.items():
        listed = ", ".join(f"{method} {n_trials}" for method, n_trials in trials.items())
        asked.output.say(f"{dataset}: {listed or 'nothing done yet'}")
    asked.output.say(f"methods: {', '.join(catalogue.METHODS)}")
    asked.output.finish({"done": done, "methods": list(catalogue.METHODS)})


@app.command()
def run(
    context: typer.Context,
    datasets: str = DATASETS,
    methods: str = METHODS,
    trials: str = TRIALS,
    jobs: int = JOBS,
    threads: int = THREADS,
    device: str = DEVICE,
    together: int = TOGETHER,
    minutes: float = MINUTES,
    quick: bool = QUICK,
    out: Path | None = OUT,
    json: Json = False,
) -> None:
    """Train and measure; finished trials are skipped, and a killed run can be resumed.

    Example: bopl reproduce run --datasets scene --methods bopl-regr,brr-xgb --trials 3
    """
    if quick:
        _refuse(context, ["trials", "together"], "a quick run has its own trials: leave out {}.")
    asked = _Run(out, Output(json), quick, jobs, threads, device, minutes)
    done = asked.trials(datasets, methods, trials, together)
    _raise(done.failures)
    asked.output.finish({"folder": str(asked.folder), "n_left": done.n_left})


@app.command()
def noisy(
    datasets: str = DATASETS,
    methods: str = METHODS,
    trials: str = typer.Option("0-2", help="Trials to run: 3 for the first three, a range (0-4), or numbers (2,5)."),
    jobs: int = JOBS,
    threads: int = THREADS,
    device: str = DEVICE,
    together: int = TOGETHER,
    minutes: float = MINUTES,
    out: Path | None = OUT,
    json: Json = False,
) -> None:
    """Train and measure with noisy rewards: 1 with probability 0.6 if the action is right, 0.2 if it is not.

    Then write noisy.md, beside the lines in noisy.jsonl.

    Example: bopl reproduce noisy --datasets digits,world_50 --methods bopl,drr,logging-greedy
    """
    from bopl_paper import catalogue
    from bopl_paper.result_page import write_noisy

    asked = _Run(out, Output(json), False, jobs, threads, device, minutes)
    known = {name.removeprefix("noisy_"): name for name in catalogue.NOISY}
    wanted = [known[name] for name in read_names(datasets, "datasets", list(known)) or known]
    by = read_methods(methods, asked.output.say, list(catalogue.NOISY_METHODS))
    done = asked.full_trials(wanted, by, trials, together)
    with asked.output.heard():
        told = write_noisy(asked.lines(), asked.folder)
    _raise(done.failures)
    asked.output.finish({"folder": str(asked.folder), "n_left": done.n_left, "standings": told})


@app.command()
def table(
    quick: bool = QUICK,
    out: Path | None = OUT,
    json: Json = False,
) -> None:
    """Print the tables and the paper's claims, and write them as Markdown and LaTeX beside the lines.

    Example: bopl reproduce table --out results
    """
    asked = _Run(out, Output(json), quick)
    asked.output.finish(asked.tables())


@app.command()
def figure(
    jobs: int = JOBS,
    threads: int = THREADS,
    quick: bool = QUICK,
    out: Path | None = OUT,
    json: Json = False,
) -> None:
    """Draw Figure 1, after running those of its three runs that are missing.

    Example: bopl reproduce figure --threads 2
    """
    asked = _Run(out, Output(json), quick, jobs, threads)
    _raise(asked.figure_runs().failures)
    asked.output.finish({"figure": asked.figure()})


@app.command()
def search(
    dataset: str = typer.Option("scene", help="One dataset."),
    method: str = typer.Option("bopl-s-regr", help="One method."),
    configurations: int = typer.Option(20, min=1, help="Number of configurations, including those of earlier calls."),
    minutes: float = typer.Option(0.0, min=0.0, help="Start no configuration after this many minutes; 0 for no limit."),
    trials: str = typer.Option("3", help="Number of simulated logs per configuration; the paper uses ten."),
    jobs: int = JOBS,
    threads: int = THREADS,
    device: str = DEVICE,
    study: Path | None = STUDY,
    json: Json = False,
) -> None:
    """Search the paper's ranges for a method's settings, chosen by validation reward.

    Example: bopl reproduce search --dataset scene --method bopl-regr --configurations 20
    """
    from bopl_paper import catalogue, paper_search

    asked = _Run(None, Output(json), False, jobs, threads, device, minutes)
    on, by = read_name("dataset", dataset, list(catalogue.COLUMNS)), read_name("method", method, known_methods())
    file, numbers, place = study or Path(f"runs/study-{on}-{by}.log"), read_trials(trials), read_device([by], device)
    paper_search.paper_space(on, by)  # raises if there is none, before a folder is created
    file.parent.mkdir(parents=True, exist_ok=True)
    with asked.output.heard():
        result = paper_search.tune(
            on,
            by,
            trials=numbers,
            study=file,
            n_configurations=configurations,
            minutes=minutes or None,
            n_jobs=asked.n_jobs,
            threads=threads,
            device=place,
        )
    settings = ", ".join(f"{name}={value:.6g}" for name, value in sorted(result.settings.items()))
    n_configurations = len(result.configurations)
    asked.output.say(f"best of {n_configurations}: validation reward {result.value:.4f} with {settings}")
    found = {"validation_reward": result.value, "settings": result.settings, "n_configurations": n_configurations}
    asked.output.finish({**found, "study": str(file)})


def _refuse(context: typer.Context, names: list[str], sentence: str) -> None:
    """Raise the sentence, with the options filled in, if any of them was given."""
    sources = {name: context.get_parameter_source(name) for name in names}
    given = [f"--{name}" for name, source in sources.items() if source is not None and source.name == "COMMANDLINE"]
    if given:
        raise UsageError(sentence.format(" and ".join(given)))


def _raise(failures: list[str]) -> None:
    if failures:
        raise RuntimeError(f"{len(failures)} task{'s' * (len(failures) > 1)} failed, the first: {failures[0]}")
