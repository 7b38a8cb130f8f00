"""Logs for the benchmarks: the paper's datasets at the selected BOPL-S-regr settings, and a synthetic one."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import bopl

SHARED_DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
if "BOPL_DATA" not in os.environ and SHARED_DATA.is_dir():
    os.environ["BOPL_DATA"] = str(SHARED_DATA)


@dataclass(frozen=True)
class Settings:
    """The paper's selected hyper-parameters of BOPL-S-regr."""

    n_rounds: int
    max_depth: int
    min_child_weight: float
    reward_translation: float


PAPER_SETTINGS = {
    "covertype": Settings(600, 25, 200.0, -0.4),
    "fashion_mnist": Settings(250, 20, 200.0, -0.4),
    "scene": Settings(100, 10, 60.0, -0.2),
    "tmc2007_500": Settings(300, 20, 200.0, -0.3),
}
SYNTHETIC_SETTINGS = Settings(10, 8, 20.0, -0.3)


def cached_log(name: str, folder: Path) -> Path:
    """Simulate the first trial's training log of a dataset once; return the file that holds its columns."""
    from bopl_paper.dataset import simulate_paper  # not in the code of earlier commits, which read what is written here

    path = folder / f"{name}.npz"
    if not path.exists():
        log = simulate_paper(name, trial=0).train
        np.savez(
            path,
            context=log.context,
            action=log.action_idx,
            reward=log.reward,
            propensity=log.propensity,
            n_actions=log.n_actions,
        )
    return path


def read_log(path: Path) -> bopl.BanditLog:
    """Return the log of a file written by `cached_log`."""
    with np.load(path) as columns:
        return bopl.BanditLog(
            columns["context"],
            columns["action"],
            columns["reward"],
            columns["propensity"],
            actions=list(range(int(columns["n_actions"]))),
        )


def synthetic_log(n_samples: int, n_features: int, n_actions: int, *, seed: int = 0) -> bopl.BanditLog:
    """Return Gaussian contexts with a linear truth and a uniform logging policy."""
    rng = np.random.default_rng(seed)
    context = rng.standard_normal((n_samples, n_features), dtype=np.float32)
    truth = context[:, :10] @ rng.standard_normal((min(n_features, 10), n_actions), dtype=np.float32)
    action = rng.integers(n_actions, size=n_samples)
    reward = (truth[np.arange(n_samples), action] > 0).astype(np.float64)
    del truth
    return bopl.BanditLog(context, action, reward, np.full(n_samples, 1 / n_actions), actions=list(range(n_actions)))
