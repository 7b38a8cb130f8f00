"""Logs in files, and the command as a user runs it."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bopl.cli import main

ITEMS = ("tea", "milk", "water")
ROLES = ("--action", "item", "--reward", "click", "--propensity", "p")
SMALL = ("--objective", "ips", "--n-rounds", "12", "--max-depth", "3", "--n-jobs", "1")
RACE = ("--include", "regression", "--n-jobs", "1")  # a race of two: the logging policy always takes part


def click_table(n_samples=3000, seed=0, *, lift=0.6):
    """Return a log as a table: text, flags, times and numbers with gaps say which item earns a click."""
    rng = np.random.default_rng(seed)
    city = rng.choice(["Rom", "Ulm", "Bonn"], n_samples)
    age = np.where(rng.random(n_samples) < 0.1, np.nan, rng.integers(18, 80, n_samples))
    best = np.where(city == "Rom", 0, np.where(np.nan_to_num(age, nan=50.0) < 40, 1, 2))
    propensity = np.full((n_samples, 3), 0.25)
    propensity[np.arange(n_samples), rng.integers(0, 3, n_samples)] += 0.25
    action = (propensity.cumsum(axis=1) < rng.random((n_samples, 1))).sum(axis=1)
    click = rng.random(n_samples) < 0.2 + lift * (action == best)
    return pa.table(
        {
            "city": city,
            "age": pa.array(age, from_pandas=True),
            "is_member": rng.random(n_samples) < 0.5,
            "when": np.datetime64("2024-03-01T00:00:00") + np.sort(rng.integers(0, 2_000_000, n_samples)),
            "user": rng.integers(0, n_samples // 4, n_samples),
            "item": np.array(ITEMS)[action],
            "click": click.astype(np.int64),
            "p": propensity[np.arange(n_samples), action],
        }
    )


def write_log(path, **settings):
    """Write a log as Parquet and return its path as text."""
    pq.write_table(click_table(**settings), path)
    return str(path)


def run_bopl(*arguments):
    """Run the command in this process and return its exit code."""
    with pytest.raises(SystemExit) as caught:
        main([str(argument) for argument in arguments])
    return caught.value.code


def run_json(capsys, *arguments):
    """Run the command with --json; return its exit code and the one object that it printed."""
    capsys.readouterr()
    code = run_bopl(*arguments, "--json")
    return code, json.loads(capsys.readouterr().out)
