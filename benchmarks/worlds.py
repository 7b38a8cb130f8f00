"""The default beside its baselines in worlds drawn at random, by what their policies truly earn.

    python benchmarks/worlds.py                          # 40 worlds, one line each, then a summary by kind
    python benchmarks/worlds.py --worlds 8 --first 100 --jobs 2

Every world is drawn anew: contexts, who earns what where, how noisy rewards are, who wrote the log and how much was
explored. Values are true rewards of greedy policies on fresh contexts, scaled so that 0 is the value of actions drawn
uniformly and 1 is the best that any policy can earn. `best single` is the best of the baselines in each world, which
only the truth knows.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # the processes share the processors as it is

import argparse
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

import numpy as np
from revisions import commit

import bopl
from bopl.objective.softmax import softmax
from bopl.policy.policy import draw_actions

N_NEW = 4000
N_SAMPLES, N_ACTIONS, N_COLUMNS = (1500, 3000, 6000, 16_000), (2, 3, 5, 10, 25, 60), (4, 10, 25)
TRUTHS = ("linear", "clusters", "rules")
NOISES = ("certain", "clicks", "rare clicks", "normal")
LOGGERS = ("uniform", "learned", "rule", "other", "bad")
EXPLORATION = (0.02, 0.05, 0.1, 0.3)
BASELINES = ("regression", "surrogate", "dr", "likelihood")


@dataclass(frozen=True)
class World:
    """What a log was drawn from, the log, and the truth on fresh contexts."""

    n_samples: int
    n_actions: int
    n_columns: int
    truth: str
    noise: str
    logger: str
    exploration: float
    log: bopl.BanditLog
    context: np.ndarray
    reward_mean: np.ndarray
    logging_prob: np.ndarray

    def value(self, action_prob: np.ndarray) -> float:
        """Return what probabilities on the fresh contexts earn, 0 being uniform and 1 the best."""
        low, high = float(self.reward_mean.mean()), float(self.reward_mean.max(axis=1).mean())
        earned = float((action_prob * self.reward_mean).sum(axis=1).mean())
        return (earned - low) / (high - low)

    def greedy_value(self, score: np.ndarray) -> float:
        """Return the value of always taking the action of the highest score."""
        return self.value(np.eye(self.n_actions)[score.argmax(axis=1)])

    def __str__(self) -> str:
        size = f"{self.n_samples} x {self.n_columns} x {self.n_actions}"
        return f"{size}, {self.truth}, {self.noise}, {self.logger} {self.exploration:g}"


def draw_world(number: int) -> World:
    """Return the world of a number."""
    rng = np.random.default_rng([number, 23])
    n_samples, n_actions, n_columns = (int(rng.choice(sizes)) for sizes in (N_SAMPLES, N_ACTIONS, N_COLUMNS))
    truth, noise, logger = (str(rng.choice(names)) for names in (TRUTHS, NOISES, LOGGERS))
    exploration = float(rng.choice(EXPLORATION))
    fitness_of = _draw_truth(truth, n_actions, n_columns, rng)
    context, new = rng.normal(size=(n_samples, n_columns)), rng.normal(size=(N_NEW, n_columns))
    reward_mean_of = _draw_means(noise, rng)
    prob_of = _draw_logger(logger, exploration, fitness_of, n_actions, n_columns, rng)
    prob, mean = prob_of(context), reward_mean_of(fitness_of(context))
    action = draw_actions(prob, rng)
    rows = np.arange(n_samples)
    earned = mean[rows, action]
    reward = earned + rng.normal(size=n_samples) if noise == "normal" else (rng.random(n_samples) < earned) * 1.0
    log = bopl.BanditLog(context, action, reward, prob[rows, action], actions=list(range(n_actions)))
    return World(
        n_samples, n_actions, n_columns, truth, noise, logger, exploration,
        log, new, reward_mean_of(fitness_of(new)), prob_of(new),
    )  # fmt: skip


def _draw_truth(truth: str, n_actions: int, n_columns: int, rng: np.random.Generator):
    """Return the function that says how well each action suits each context."""
    if truth == "linear":
        weight = rng.normal(size=(n_columns, n_actions))
        return lambda context: context @ weight
    if truth == "clusters":
        centre = 1.5 * rng.normal(size=(2 * n_actions, n_columns))
        return lambda context: (
            -((context[:, None, :] - centre[None]) ** 2).sum(axis=2).reshape(len(context), 2, n_actions).min(axis=1)
        )
    column = rng.integers(0, n_columns, size=(3, n_actions))
    sign, size = rng.choice([-1.0, 1.0], size=(3, n_actions)), rng.random((3, n_actions))
    return lambda context: sum(size[k] * ((context[:, column[k]] * sign[k]) > 0.3 * (k - 1)) for k in range(3))


def _draw_means(noise: str, rng: np.random.Generator):
    """Return the function from fitness to mean rewards."""
    base, gain = {"certain": (0.0, 1.0), "clicks": (0.2, 0.4), "rare clicks": (0.01, 0.04), "normal": (0.0, 1.0)}[noise]
    if noise != "certain" and rng.random() < 0.5:  # graded rewards, not only right and wrong
        return lambda fitness: base + gain / (1.0 + np.exp(-2.0 * _standard(fitness)))
    return lambda fitness: base + gain * np.eye(fitness.shape[1])[fitness.argmax(axis=1)]


def _draw_logger(logger: str, exploration: float, fitness_of, n_actions: int, n_columns: int, rng: np.random.Generator):
    """Return the function from contexts to the logging policy's probabilities."""
    weight = rng.normal(size=(n_columns, n_actions)) / np.sqrt(n_columns)
    sharpness = float(rng.choice([0.7, 1.5, 3.0]))
    score_of = {
        "uniform": lambda context: np.zeros((len(context), n_actions)),
        "learned": lambda context: sharpness * (0.7 * _standard(fitness_of(context)) + 0.5 * context @ weight),
        "rule": lambda context: 1e3 * context @ weight,  # one action in each context, but for what is explored
        "other": lambda context: sharpness * context @ weight,
        "bad": lambda context: -sharpness * _standard(fitness_of(context)),
    }[logger]
    return lambda context: (1.0 - exploration) * softmax(score_of(context)) + exploration / n_actions


def _standard(fitness: np.ndarray) -> np.ndarray:
    return (fitness - fitness.mean(axis=1, keepdims=True)) / np.maximum(fitness.std(axis=1, keepdims=True), 1e-12)


def compete(number: int) -> dict:
    """Return the true values of the default and its baselines in one world."""
    world = draw_world(number)
    found = {"logging": world.greedy_value(world.logging_prob), "as logged": world.value(world.logging_prob)}
    for name in (None, *BASELINES):
        start = time.perf_counter()
        policy = bopl.AutoPolicy(None, random_state=number, progress=False, n_jobs=1)
        if name is not None:
            policy = next(one for one in bopl.race.candidates() if one.name == name).make(n_jobs=1, random_state=number)
            policy.set_params(n_rounds=min(policy.n_rounds, 100))
        policy.fit(world.log)
        stays = name is None and policy.is_logging_
        found[name or "bopl"] = (
            world.value(world.logging_prob)
            if stays
            else world.greedy_value(policy.predict_proba(world.context, inverse_temperature=1.0))
        )
        if name is None:
            found["seconds"], found["verdict"] = time.perf_counter() - start, policy.leaderboard_.verdict
    return {"number": number, "world": str(world), "noise": world.noise, "logger": world.logger, **found}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worlds", type=int, default=40)
    parser.add_argument("--first", type=int, default=0, help="number of the first world")
    parser.add_argument("--jobs", type=int, default=1, help="processes, each of one thread")
    args = parser.parse_args()
    names = ("bopl", "logging", *BASELINES)
    found = []
    print(f"commit {commit()}, {args.jobs} processes")
    print("  ".join(f"{name:>10}" for name in names), " world", flush=True)
    with ProcessPoolExecutor(args.jobs) as pool:
        for one in pool.map(compete, range(args.first, args.first + args.worlds)):
            found.append(one)
            print("  ".join(f"{one[name]:10.3f}" for name in names), f" {one['number']}: {one['world']}", flush=True)
    for kind in ("all", *NOISES, *LOGGERS):
        rows = [one for one in found if kind in ("all", one["noise"], one["logger"])]
        if rows:
            best = np.mean([max(one[name] for name in names[1:]) for one in rows])
            print("  ".join(f"{np.mean([one[name] for one in rows]):10.3f}" for name in names), f" {kind}", end="")
            print(f" ({len(rows)} worlds; best single {best:.3f})")
    print(f"{np.median([one['seconds'] for one in found]):.1f} s a race (median)")


if __name__ == "__main__":
    main()
