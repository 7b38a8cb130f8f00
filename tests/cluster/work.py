"""Pieces of numbers, and functions on them, for the tests of clusters."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np


@dataclass(frozen=True)
class Numbers:
    """A piece: numbers that are drawn from a seed."""

    seed: int
    n_rows: int


def numbers(n_pieces=5, n_rows=40):
    return [Numbers(seed, n_rows + 7 * seed) for seed in range(n_pieces)]


def build(piece, settled, cache):
    """Return the numbers after all factors."""
    values = np.random.default_rng(piece.seed).integers(0, 1000, piece.n_rows)
    for factor in settled:
        values = values * factor % 1009
    return {"values": values}


def multiply(state, factor):
    state["values"] = state["values"] * factor % 1009
    return state


def count(state, n_bins):
    return np.bincount(state["values"] % n_bins, minlength=n_bins)


def count_into(state, n_bins, total):
    total += count(state, n_bins)


def no_counts(n_bins):
    return np.zeros(n_bins, dtype=np.int64)


def multiply_and_count(state, factor, n_bins):
    state = multiply(state, factor)
    return state, count(state, n_bins)


def multiply_and_count_into(state, factor, n_bins, total):
    state = multiply(state, factor)
    count_into(state, n_bins, total)
    return state


def no_counts_after(factor, n_bins):
    return no_counts(n_bins)


def first_value(state):
    return int(state["values"][0])


def fail_halfway(state, factor):
    state["values"] *= 0
    raise OSError("the third file is gone.")


def story(placement, n_rounds=3):
    """Return what comes of a few rounds of all verbs."""
    told = []
    for factor in range(3, 3 + n_rounds):
        told.append(placement.reduce(count, 8).tolist())
        told.append(placement.update_reduce(multiply_and_count, factor, 8).tolist())
        placement.update(multiply, 2)
        told.append(placement.update_reduce(multiply_and_count_into, 5, 8, zero=no_counts_after).tolist())
        told.append(placement.reduce(count_into, 8, zero=no_counts).tolist())
        placement.settle(factor, 2, 5)
    told.append(placement.gather(first_value))
    return told


def plain_story(n_rounds=3, pieces=None):
    """The same in a plain loop."""
    values = [np.random.default_rng(one.seed).integers(0, 1000, one.n_rows) for one in pieces or numbers()]
    told = []

    def counts():
        told.append(np.bincount(np.concatenate(values) % 8, minlength=8).tolist())

    def times(factor):
        values[:] = [one * factor % 1009 for one in values]

    for factor in range(3, 3 + n_rounds):
        counts()
        times(factor)
        counts()
        times(2)
        times(5)
        counts()
        counts()
    return [*told, [int(one[0]) for one in values]]


def slowly_multiply(state, factor, seconds):
    time.sleep(seconds)
    return multiply(state, factor)


def slowly_multiply_and_count(state, factor, seconds):
    state = slowly_multiply(state, factor, seconds)
    return state, count(state, 8)


@dataclass(frozen=True)
class InFile:
    """A piece: numbers of a text file."""

    path: str


def build_from_file(piece, settled, cache):
    if not Path(piece.path).exists():
        raise FileNotFoundError(f"{piece.path!r} was there when the log was scanned, and is gone now.")
    return {"values": np.loadtxt(piece.path, dtype=np.int64)}
