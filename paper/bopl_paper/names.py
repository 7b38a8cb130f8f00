"""What the words after the flags of ``bopl reproduce`` mean: datasets, methods, trials, a device."""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib.util import find_spec

from bopl._errors import UsageError, did_you_mean

_DEVICE = re.compile(r"auto|cpu|cuda(:\d+)?")


def read_datasets(text: str, quick: bool) -> list[str]:
    """Return the datasets asked for; of all datasets, those that a run of this size has."""
    from bopl_paper import catalogue

    everything = [name for name in catalogue.DATASETS if not quick or "_v1" not in name]
    return read_names(text, "datasets", list(catalogue.COLUMNS)) or everything


def read_methods(text: str, say: Callable[[str], None], everything: list[str] | None = None) -> list[str]:
    """Return the methods asked for; of all methods those that can run here, with a word about the others."""
    from bopl_paper import catalogue

    runnable = everything or list(catalogue.METHODS)
    for package, extra, methods in (("torch", "deep", catalogue.NETWORKS), ("xgboost", "xgboost", ("brr-xgb",))):
        if text == "all" and find_spec(package) is None:
            say(f"{' and '.join(methods)} are left out: they need {package}, pip install 'bopl[{extra}]'.")
            runnable = [name for name in runnable if name not in methods]
    return read_names(text, "methods", known_methods()) or runnable


def known_methods() -> list[str]:
    """Return all methods that can be named."""
    from bopl_paper import catalogue

    return [*catalogue.METHODS, catalogue.GREEDY_LOGGING]


def read_names(text: str, option: str, known: list[str]) -> list[str]:
    """Return the names in a text, none for all of them."""
    return [] if text == "all" else [read_name(option, name.strip(), known, " and all") for name in text.split(",")]


def read_name(option: str, name: str, known: list[str], more: str = "") -> str:
    """Return a name, or raise if there is none like it."""
    if name not in known:
        raise UsageError(f"--{option} knows {', '.join(known)}{more}; got {name}.{did_you_mean(name, known)}")
    return name


def read_trials(text: str) -> list[int]:
    """Return the numbers of trials that a count, a range or a list of them means."""
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


def read_device(methods: list[str], device: str) -> str:
    """Return where networks will run: what ``auto`` means here, if there are networks to run at all."""
    from bopl_paper.catalogue import NETWORKS
    from bopl_paper.method import resolve_device

    if not _DEVICE.fullmatch(device):
        raise UsageError(f"--device takes auto, cpu or cuda; got {device!r}.")
    networks = [method for method in methods if method in NETWORKS]
    if device != "auto" or not networks or find_spec("torch") is None:
        return device
    return resolve_device(networks[0], device)
