"""``bopl reproduce``: list, run, noisy, table, figure, search."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from importlib.util import find_spec
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from bopl._errors import UsageError, did_you_mean

if TYPE_CHECKING:
    from bopl.experiment.result import Line
    from bopl.experiment.runner import Outcome

app = typer.Typer(invoke_without_command=True, no_args_is_help=False)

OUT = typer.Option(None, help="Folder of the result lines; results, or runs/quick with --quick.")
DATASETS = typer.Option("all", help="Names separated by commas, or all.")
METHODS = typer.Option("all", help="Names separated by commas, or all.")
TRIALS = typer.Option("0-9", help="Trials: 10 means the first ten, 0-4 or 2,5 those.")
JOBS = typer.Option(0, min=0, help="Tasks at a time; 0: as many as the threads allow.")
THREADS = typer.Option(1, min=1, help="Threads of each task.")
DEVICE = typer.Option("auto", help="Of the networks: auto, cpu or cuda.")
TOGETHER = typer.Option(0, min=0, help="Trials of a network trained in lockstep; 0: ten on cuda, one elsewhere.")
STUDY = typer.Option(None, help="File that a later call continues; runs/study-DATASET-METHOD.log if none is named.")
QUICK = typer.Option(False, "--quick", help="Minutes instead of hours: Scene in full, the rest on subsamples.")
MINUTES = typer.Option(0.0, min=0.0, help="End after so many minutes, unfinished trials left for later; 0: no limit.")
JSON = typer.Option(False, "--json", help="Print one JSON object, and nothing else.")

Say = Callable[[str], None]

_DEVICE = re.compile(r"auto|cpu|cuda(:\d+)?")


@app.callback()
def reproduce(
    context: typer.Context,
    quick: bool = QUICK,
    jobs: int = JOBS,
    threads: int = THREADS,
    device: str = DEVICE,
    out: Path | None = OUT,
    json: bool = JSON,
) -> None:
    """Reproduce the paper's tables and figure: run what is missing, then print and write them.

    Example: bopl reproduce --quick
    """
    if context.invoked_subcommand is not None:
        _refuse(context, list(context.params), f"write {{}} after {context.invoked_subcommand}.")
        return
    say = _voice(json)
    failures = _run_trials("all", "all", "0-9", jobs, threads, device, 0, quick, out, say).failures
    failures += _run_figure(jobs, threads, quick, out, say)
    found: dict[str, Any] = {}
    try:
        found = _write_tables(out, quick, say) | {"figure": _draw(out, quick, say)}
    except Exception as error:
        if not failures:
            raise
        say(f"Not everything could be written: {error}")
    _raise(failures)
    _finish(found, json)


@app.command("list")
def show(out: Path | None = OUT, quick: bool = QUICK, json: bool = JSON) -> None:
    """List datasets and methods, with the trials that are done.

    Example: bopl reproduce list
    """
    from bopl.experiment import config
    from bopl.experiment.result import collect

    say = _voice(json)
    cells = collect(_lines(out, quick, say))
    done = {
        dataset: {name: cells[name, dataset].n_trials for name in config.NOISY_METHODS if (name, dataset) in cells}
        for dataset in (*config.DATASETS, *sorted({name for _, name in cells} - {*config.DATASETS}))
    }
    for dataset, trials in done.items():
        listed = ", ".join(f"{method} {n_trials}" for method, n_trials in trials.items())
        say(f"{dataset}: {listed or 'nothing done yet'}")
    say(f"methods: {', '.join(config.METHODS)}")
    _finish({"done": done, "methods": list(config.METHODS)}, json)


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
    json: bool = JSON,
) -> None:
    """Train and measure; trials that are done are skipped, and a killed run goes on where it was.

    Example: bopl reproduce run --datasets scene --methods bopl-regr,brr-xgb --trials 3
    """
    if quick:
        _refuse(context, ["trials", "together"], "a quick run has trials of its own: leave {} out.")
    done = _run_trials(datasets, methods, trials, jobs, threads, device, together, quick, out, _voice(json), minutes)
    _raise(done.failures)
    _finish({"folder": str(_folder(out, quick)), "n_left": done.n_left}, json)


@app.command()
def noisy(
    datasets: str = DATASETS,
    methods: str = METHODS,
    trials: str = typer.Option("0-2", help="Trials: 3 means the first three, 0-4 or 2,5 those."),
    jobs: int = JOBS,
    threads: int = THREADS,
    device: str = DEVICE,
    together: int = TOGETHER,
    minutes: float = MINUTES,
    out: Path | None = OUT,
    json: bool = JSON,
) -> None:
    """Train and measure where rewards are noisy: 1 with probability 0.6 if the action is right, 0.2 if it is not.

    Then write noisy.md, beside the lines in noisy.jsonl.

    Example: bopl reproduce noisy --datasets digits,world_50 --methods bopl,drr,logging-greedy
    """
    from bopl.experiment import config
    from bopl.experiment.page import write_noisy

    say = _voice(json)
    known = {name.removeprefix("noisy_"): name for name in config.NOISY}
    wanted = [known[name] for name in _names(datasets, "datasets", list(known)) or known]
    by = _methods(methods, say, list(config.NOISY_METHODS))
    done = _run_full(wanted, by, trials, jobs, threads, device, together, out, say, minutes)
    told = write_noisy(_lines(out, False, say), _folder(out, False), say=say)
    _raise(done.failures)
    _finish({"folder": str(_folder(out, False)), "n_left": done.n_left, "standings": told}, json)


@app.command()
def table(
    quick: bool = QUICK,
    out: Path | None = OUT,
    json: bool = JSON,
) -> None:
    """Print the tables and the paper's claims, and write them as Markdown and LaTeX beside the lines.

    Example: bopl reproduce table --out results
    """
    _finish(_write_tables(out, quick, _voice(json)), json)


def _write_tables(out: Path | None, quick: bool, say: Say) -> dict[str, Any]:
    """Write and say the tables and claims; return them as plain values."""
    from bopl.experiment.page import write_noisy, write_tables

    folder, lines = _folder(out, quick), _lines(out, quick, say)
    if not lines:
        raise ValueError(f"there are no result lines in {folder} yet: run `bopl reproduce run` first.")
    told = write_tables(lines, folder, quick=quick, say=say)
    told["standings"] += write_noisy(lines, folder, say=say)
    return told


@app.command()
def figure(
    jobs: int = JOBS,
    threads: int = THREADS,
    quick: bool = QUICK,
    out: Path | None = OUT,
    json: bool = JSON,
) -> None:
    """Draw Figure 1, after running those of its three runs that are missing.

    Example: bopl reproduce figure --threads 2
    """
    say = _voice(json)
    _raise(_run_figure(jobs, threads, quick, out, say))
    _finish({"figure": _draw(out, quick, say)}, json)


@app.command()
def search(
    dataset: str = typer.Option("scene", help="One dataset."),
    method: str = typer.Option("bopl-s-regr", help="One method."),
    configurations: int = typer.Option(20, min=1, help="Configurations in all, those of earlier calls counted in."),
    minutes: float = typer.Option(0.0, min=0.0, help="Begin none after so long; 0: no limit."),
    trials: str = typer.Option("3", help="Simulated logs of each configuration; the paper uses ten."),
    jobs: int = JOBS,
    threads: int = THREADS,
    device: str = DEVICE,
    study: Path | None = STUDY,
    json: bool = JSON,
) -> None:
    """Search the paper's ranges for a method's settings, chosen by validation reward.

    Example: bopl reproduce search --dataset scene --method bopl-regr --configurations 20
    """
    from bopl.experiment import tuning

    say = _voice(json)
    on, by = _one("dataset", dataset, _known_datasets()), _one("method", method, _known_methods())
    file, numbers, place = study or Path(f"runs/study-{on}-{by}.log"), _trials(trials), _device([by], device)
    tuning.paper_space(on, by)  # raises where there is none, before a folder is made
    file.parent.mkdir(parents=True, exist_ok=True)
    result = tuning.tune(
        on,
        by,
        trials=numbers,
        study=file,
        n_configurations=configurations,
        minutes=minutes or None,
        n_jobs=_n_jobs(jobs, threads),
        threads=threads,
        device=place,
        report=say,
    )
    settings = ", ".join(f"{name}={value:.6g}" for name, value in sorted(result.settings.items()))
    n_configurations = len(result.configurations)
    say(f"best of {n_configurations}: validation reward {result.value:.4f} with {settings}")
    found = {"validation_reward": result.value, "settings": result.settings, "n_configurations": n_configurations}
    _finish({**found, "study": str(file)}, json)


def _voice(is_json: bool) -> Say:
    """Return what sentences are told to: nobody, where one JSON object is all that is to be printed."""
    return (lambda text: None) if is_json else typer.echo


def _finish(found: dict[str, Any], is_json: bool) -> None:
    if is_json:
        typer.echo(dumps({**found, "exit_code": 0}, ensure_ascii=False))


def _run_trials(
    datasets: str,
    methods: str,
    trials: str,
    jobs: int,
    threads: int,
    device: str,
    together: int,
    quick: bool,
    out: Path | None,
    say: Say,
    minutes: float = 0.0,
) -> Outcome:
    """Run what is missing of the paper's experiments."""
    from bopl.experiment.plan import quick_plan
    from bopl.experiment.runner import run_plan

    on, by = _datasets(datasets, quick), _methods(methods, say)
    if not quick:
        return _run_full(on, by, trials, jobs, threads, device, together, out, say, minutes)
    tasks = quick_plan(on, by, threads=threads, device=_device(by, device))
    return run_plan(tasks, _folder(out, True), n_jobs=_n_jobs(jobs, threads), minutes=minutes or None, report=say)


def _run_full(
    datasets: list[str],
    methods: list[str],
    trials: str,
    jobs: int,
    threads: int,
    device: str,
    together: int,
    out: Path | None,
    say: Say,
    minutes: float,
) -> Outcome:
    """Run what is missing of some columns, on all of their samples."""
    from bopl.experiment.plan import full_plan
    from bopl.experiment.runner import run_plan

    place = _device(methods, device)
    size = together or (10 if place.startswith("cuda") else 1)
    tasks = full_plan(datasets, methods, _trials(trials), threads=threads, device=place, together=size)
    return run_plan(tasks, _folder(out, False), n_jobs=_n_jobs(jobs, threads), minutes=minutes or None, report=say)


def _device(methods: list[str], device: str) -> str:
    """Return where networks will run: what ``auto`` means here, if there are networks to run at all."""
    from bopl.experiment.config import NETWORKS
    from bopl.experiment.method import resolve_device

    if not _DEVICE.fullmatch(device):
        raise UsageError(f"--device takes auto, cpu or cuda; got {device!r}.")
    networks = [method for method in methods if method in NETWORKS]
    if device != "auto" or not networks or find_spec("torch") is None:
        return device
    return resolve_device(networks[0], device)


def _run_figure(jobs: int, threads: int, quick: bool, out: Path | None, say: Say) -> list[str]:
    from bopl.experiment.plan import figure_plan
    from bopl.experiment.runner import run_plan

    tasks = figure_plan(threads=threads, quick=quick)
    return run_plan(tasks, _folder(out, quick), n_jobs=_n_jobs(jobs, threads), report=say).failures


def _draw(out: Path | None, quick: bool, say: Say) -> list[str]:
    from bopl.experiment.figure import write_figure

    written = [str(path) for path in write_figure(_lines(out, quick, say), _folder(out, quick))]
    say(f"Written to {' and '.join(written)}.")
    return written


def _refuse(context: typer.Context, names: list[str], sentence: str) -> None:
    """Raise the sentence, with the options filled in, if any of them was given."""
    sources = {name: context.get_parameter_source(name) for name in names}
    given = [f"--{name}" for name, source in sources.items() if source is not None and source.name == "COMMANDLINE"]
    if given:
        raise UsageError(sentence.format(" and ".join(given)))


def _raise(failures: list[str]) -> None:
    if failures:
        raise RuntimeError(f"{len(failures)} task{'s' * (len(failures) > 1)} failed, the first: {failures[0]}")


def _lines(out: Path | None, quick: bool, say: Say) -> list[Line]:
    """Return the result lines of today's settings, with a word about others."""
    from bopl.experiment.plan import current_lines
    from bopl.experiment.result import read_results

    found = read_results(_folder(out, quick))
    lines = current_lines(found, quick=quick)
    if len(lines) < len(found):
        say(f"{len(found) - len(lines)} lines of other settings or sample sizes are left out.")
    return lines


def _folder(out: Path | None, quick: bool) -> Path:
    return out if out is not None else Path("runs/quick" if quick else "results")


def _n_jobs(jobs: int, threads: int) -> int:
    return jobs or max((os.cpu_count() or 1) // threads, 1)


def _known_datasets() -> list[str]:
    from bopl.experiment import config

    return list(config.COLUMNS)


def _known_methods() -> list[str]:
    from bopl.experiment import config

    return [*config.METHODS, config.GREEDY_LOGGING]


def _datasets(text: str, quick: bool) -> list[str]:
    from bopl.experiment import config

    everything = [name for name in config.DATASETS if not quick or "_v1" not in name]
    return _names(text, "datasets", _known_datasets()) or everything


def _methods(text: str, say: Say, everything: list[str] | None = None) -> list[str]:
    """Return the methods asked for; of all methods those that can run here, with a word about the others."""
    from bopl.experiment import config

    runnable = everything or list(config.METHODS)
    for package, extra, methods in (("torch", "deep", config.NETWORKS), ("xgboost", "xgboost", ("brr-xgb",))):
        if text == "all" and find_spec(package) is None:
            say(f"{' and '.join(methods)} are left out: they need {package}, pip install 'bopl[{extra}]'.")
            runnable = [name for name in runnable if name not in methods]
    return _names(text, "methods", _known_methods()) or runnable


def _names(text: str, option: str, known: list[str]) -> list[str]:
    """Return the names in a text, none for all of them."""
    return [] if text == "all" else [_one(option, name.strip(), known, " and all") for name in text.split(",")]


def _one(option: str, name: str, known: list[str], more: str = "") -> str:
    if name not in known:
        raise UsageError(f"--{option} knows {', '.join(known)}{more}; got {name}.{did_you_mean(name, known)}")
    return name


def _trials(text: str) -> list[int]:
    try:
        if "-" in text:
            first, last = text.split("-")
            return list(range(int(first), int(last) + 1))
        if "," in text:
            return [int(number) for number in text.split(",")]
        return list(range(int(text)))
    except ValueError:
        raise UsageError(
            f"--trials takes a number of trials, a range like 0-9 or numbers like 2,5; got {text!r}."
        ) from None
