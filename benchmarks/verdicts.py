"""How often a verdict is wrong: the share of `better` and of undecided logs, and the coverage of the intervals.

    python benchmarks/verdicts.py                     # 1,000 logs of each kind
    python benchmarks/verdicts.py --logs 100 --only equal,guards
    python benchmarks/verdicts.py --only chain,race --jobs 16 --out verdicts.jsonl   # all of `bopl train`, no signal

Every log has 2,000 decisions among four actions with softmax propensities unless its name says otherwise, and the truth
is known: the reward of an action is a fixed rate. A verdict of `better` on a policy that is not better is wrong in at
most 2.5% of the logs. `covered` counts logs whose 95% interval of the difference holds the truth.

`chain` and `race` go through the whole of `bopl train`, with one objective and with the race that is the default. With
`--out` every answer is a line of a file as soon as it is there, and those of the same commit and settings are not asked
for again: give the same command after a crash. A log depends on its world and its number alone, not on the processes.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # the processes share the processors as it is

import argparse
import json
import multiprocessing
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from revisions import commit

import bopl
from bopl.objective.softmax import softmax

N_SAMPLES, N_ACTIONS = 2000, 4
PROMISED = 0.025
FLAT, RISING = np.full(N_ACTIONS, 0.3), np.array([0.26, 0.28, 0.32, 0.34])
Answer = tuple[str, bool]  # the verdict, and whether the interval holds the truth


class Drawn:
    """A log with known rates, and policies whose values follow from them."""

    def __init__(self, rng: np.random.Generator, rate: Any, n_samples: int = N_SAMPLES, noise: str = "clicks") -> None:
        self.rng, self.rate, self.n_samples = rng, np.asarray(rate), n_samples
        self.context = rng.normal(size=(n_samples, 2))
        self.score = 0.5 * self.context @ rng.normal(size=(2, N_ACTIONS))
        self.prob = 0.8 * softmax(self.score) + 0.2 / N_ACTIONS
        self.action = (rng.random((n_samples, 1)) > self.prob.cumsum(axis=1)).sum(axis=1).clip(max=N_ACTIONS - 1)
        self.reward = self.draw(self.rate, noise)

    def draw(self, rate: Any, noise: str = "clicks") -> Any:
        """Return rewards with these means."""
        mean = np.asarray(rate)[self.action]
        if noise == "clicks":
            return (self.rng.random(self.n_samples) < mean).astype(float)
        return mean * self.rng.lognormal(-0.72, 1.2, size=self.n_samples)  # mean 1, heavy tail

    def log(self, group: Any = None, **others: Any) -> bopl.BanditLog:
        """Return the log."""
        propensity = self.prob[np.arange(self.n_samples), self.action]
        named = {"actions": list(range(N_ACTIONS)), "group": group, "other_rewards": others}
        return bopl.BanditLog(self.context, self.action, self.reward, propensity, **named)

    def moved(self, towards: Any, share: float) -> Any:
        """Return the logging policy with a share of its decisions given to some actions."""
        return (1.0 - share) * self.prob + share * np.asarray(towards)

    def shuffled(self) -> Any:
        """Return another policy that looks at the context."""
        return 0.7 * softmax(self.context @ self.rng.normal(size=(2, N_ACTIONS))) + 0.3 / N_ACTIONS

    def value(self, prob: Any) -> float:
        """Return what a policy earns on these contexts."""
        return float((prob @ self.rate).mean())


def single(drawn: Drawn, policy: Any, **settings: Any) -> Answer:
    """Judge one policy."""
    evaluation = bopl.evaluate(drawn.log(), policy, estimators="snips", **settings)
    row, truth = evaluation.row(), drawn.value(policy) - drawn.value(drawn.prob)
    return evaluation.decision()["verdict"], row["uplift_ci_lower"] <= truth <= row["uplift_ci_upper"]


def equal(rng: np.random.Generator) -> Answer:
    """Another policy that earns the same: actions do not matter."""
    drawn = Drawn(rng, FLAT)
    return single(drawn, drawn.shuffled())


def worse(rng: np.random.Generator) -> Answer:
    """Slightly worse."""
    drawn = Drawn(rng, RISING)
    return single(drawn, drawn.moved([1.0, 0.0, 0.0, 0.0], 0.1))


def better(rng: np.random.Generator) -> Answer:
    """Slightly better: here `better` is right."""
    drawn = Drawn(rng, RISING)
    return single(drawn, drawn.moved([0.0, 0.0, 0.0, 1.0], 0.3))


def tails(rng: np.random.Generator) -> Answer:
    """Equal, with log-normal rewards."""
    drawn = Drawn(rng, FLAT, noise="heavy")
    return single(drawn, drawn.shuffled())


def rare(rng: np.random.Generator) -> Answer:
    """Equal, with a reward in a thousand decisions and 50,000 of them."""
    drawn = Drawn(rng, np.full(N_ACTIONS, 0.001), 50_000)
    return single(drawn, drawn.shuffled())


def small(rng: np.random.Generator) -> Answer:
    """Equal, with 200 decisions."""
    drawn = Drawn(rng, FLAT, 200)
    return single(drawn, drawn.shuffled())


def head(rng: np.random.Generator) -> Answer:
    """Two policies head to head that earn the same."""
    drawn = Drawn(rng, FLAT)
    row = bopl.compare(drawn.log(), {"a": drawn.shuffled(), "b": drawn.shuffled()}, estimators="snips").comparisons[0]
    return row["verdict"], row["ci_lower"] <= 0.0 <= row["ci_upper"]


def guards(rng: np.random.Generator) -> Answer:
    """Better on the main reward, but exactly at the margin of one of three guards: `better` is wrong."""
    drawn = Drawn(rng, [0.1, 0.2, 0.4, 0.6])
    policy = drawn.moved([0.0, 0.0, 0.0, 1.0], 0.4)
    falling = np.array([0.6, 0.6, 0.6, 0.4])
    change = float(((policy - drawn.prob) @ falling).mean())
    others = {"one": drawn.draw(falling), "two": drawn.draw(FLAT), "three": drawn.draw(FLAT)}
    asked = [f"one>={change:.17g}", "two>=-0.2", "three<=+0.2"]
    evaluation = bopl.evaluate(drawn.log(**others), policy, estimators="snips", guards=asked)
    row = evaluation.guards[0]
    return evaluation.decision()["verdict"], row["ci_lower"] <= change <= row["ci_upper"]


def twenty(rng: np.random.Generator) -> Answer:
    """Twenty candidates that earn the same: is any of them called better?"""
    drawn = Drawn(rng, FLAT, 1000)
    evaluation = bopl.evaluate(drawn.log(), {str(k): drawn.shuffled() for k in range(20)}, estimators="snips")
    verdicts = [one["verdict"] for one in evaluation.decisions]
    held = all(row["uplift_ci_lower"] <= 0.0 <= row["uplift_ci_upper"] for row in evaluation.rows)
    return "better" if "better" in verdicts else "inconclusive", held


def trained(rng: np.random.Generator, **settings: Any) -> Answer:
    """`bopl train` on a log without signal."""
    import pyarrow
    import pyarrow.parquet

    from bopl.workflow.config import make_config
    from bopl.workflow.training import train

    drawn = Drawn(rng, FLAT, 1000)
    log = drawn.log()
    columns = {"x": drawn.context[:, 0], "z": drawn.context[:, 1], "action": drawn.action, "reward": drawn.reward}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "log.parquet"
        pyarrow.parquet.write_table(pyarrow.table({**columns, "propensity": log.propensity}), file)
        common = {"holdout": 0.4, "force": True, "n_jobs": 1, "random_state": int(rng.integers(2**31))}
        config = make_config({"log": str(file), "out": str(Path(folder) / "policy.bopl"), **common, **settings})
        evaluation = train(config).evaluation
    row = next(one for one in evaluation.rows if one["is_primary"])
    return evaluation.decision()["verdict"], row["uplift_ci_lower"] <= 0.0 <= row["uplift_ci_upper"]


def chain(rng: np.random.Generator) -> Answer:
    """`bopl train` on a log without signal, one boosting objective of few rounds."""
    return trained(rng, objective="dr", n_rounds=5, max_depth=3)


def race(rng: np.random.Generator) -> Answer:
    """`bopl train` as it comes, on a log without signal."""
    return trained(rng)


def groups(rng: np.random.Generator) -> Answer:
    """Equal on average over 80 users with tastes of their own, who visit very unequally often."""
    n_users, n_samples = 80, 1500
    visits = rng.pareto(1.2, n_users) + 0.2
    user = rng.choice(n_users, p=visits / visits.sum(), size=n_samples)
    drawn = Drawn(rng, FLAT, n_samples)
    drawn.context = rng.normal(size=(n_users, 2))[user] + 0.1 * rng.normal(size=(n_samples, 2))
    taste = np.clip(0.4 + 0.15 * rng.normal(size=(n_users, N_ACTIONS)), 0.01, 0.99)
    drawn.reward = (rng.random(n_samples) < taste[user, drawn.action]).astype(float)
    log, policy = drawn.log(group=user), drawn.shuffled()
    evaluation = bopl.evaluate(log, policy, estimators="snips")
    row = evaluation.row()
    return evaluation.decision()["verdict"], row["uplift_ci_lower"] <= 0.0 <= row["uplift_ci_upper"]


def unseen(rng: np.random.Generator) -> Answer:
    """Costs, equal by all actions; 0.9% of the policy's choices are an action that was never taken; by `ips`."""
    n_samples, prob = 4000, np.array([0.4, 0.3, 0.3, 0.0])
    action = rng.choice(N_ACTIONS, p=prob, size=n_samples)
    cost = -1.0 + 0.3 * rng.normal(size=n_samples)
    context, actions = rng.normal(size=(n_samples, 2)), list(range(N_ACTIONS))
    log = bopl.BanditLog(context, action, cost, prob[action], actions=actions)
    policy = np.tile([*(0.991 * np.array([0.2, 0.3, 0.5])), 0.009], (n_samples, 1))
    evaluation = bopl.evaluate(log, policy, estimators="ips")
    row = evaluation.row()
    return evaluation.decision()["verdict"], row["uplift_ci_lower"] <= 0.0 <= row["uplift_ci_upper"]


def segments(rng: np.random.Generator) -> Answer:
    """Costs, equal; twelve segments of 250 decisions: is the policy called better, or else worse, in any of them?"""
    drawn = Drawn(rng, FLAT, 3000)
    drawn.reward = -drawn.reward
    found = bopl.evaluate(
        drawn.log(), drawn.shuffled(), estimators="snips", segment=rng.integers(0, 12, drawn.n_samples)
    ).segments
    verdicts = {one.verdict for one in found}
    held = all(one.uplift_ci_lower <= 0.0 <= one.uplift_ci_upper for one in found)
    return next((one for one in ("better", "worse") if one in verdicts), "inconclusive"), held


def buyers(rng: np.random.Generator) -> Answer:
    """Costs, equal by all actions: each of 1,000 users keeps an action for ten decisions, and 1% of them always pay."""
    drawn, user = Drawn(rng, FLAT, 1000), np.repeat(np.arange(1000), 10)
    policy = drawn.shuffled()[user]
    for name in ("context", "prob", "action"):
        setattr(drawn, name, getattr(drawn, name)[user])
    drawn.n_samples, drawn.reward = len(user), -(rng.random(1000) < 0.01).astype(float)[user]
    evaluation = bopl.evaluate(drawn.log(group=user), policy, estimators="snips")
    row = evaluation.row()
    return evaluation.decision()["verdict"], row["uplift_ci_lower"] <= 0.0 <= row["uplift_ci_upper"]


WORLDS: dict[str, Callable[[np.random.Generator], Answer]] = {
    one.__name__: one
    for one in (
        equal,
        worse,
        better,
        tails,
        rare,
        small,
        head,
        guards,
        twenty,
        chain,
        race,
        groups,
        unseen,
        segments,
        buyers,
    )
}
WHOLE = ("chain", "race")  # minutes, not seconds
VERDICTS = ("better", "worse", "inconclusive", "not trustworthy")


def ask(name: str, number: int) -> dict[str, Any]:
    """Return the answer on one log of a world."""
    began = time.perf_counter()
    verdict, is_covered = WORLDS[name](np.random.default_rng([list(WORLDS).index(name), number]))
    seconds = round(time.perf_counter() - began, 3)
    return {"world": name, "log": number, "verdict": verdict, "covered": bool(is_covered), "seconds": seconds}


def read_answers(path: Path | None, commit: str) -> dict[tuple[str, int], dict[str, Any]]:
    """Return the answers that an earlier run of this commit has left, by world and number of the log."""
    found = {}
    for line in path.read_text("utf8").splitlines() if path is not None and path.is_file() else []:
        try:
            answer = json.loads(line)
            if answer["commit"] == commit:
                found[answer["world"], answer["log"]] = answer
        except (ValueError, KeyError):  # a line that a crash has cut short
            continue
    return found


def answers_of(name: str, n_logs: int, known: dict[tuple[str, int], Any], pool: Any) -> Iterator[dict[str, Any]]:
    """Yield the answers on the logs of a world that are not known."""
    numbers = [number for number in range(n_logs) if (name, number) not in known]
    yield from (map if pool is None else pool.map)(partial(ask, name), numbers)


def row_of(name: str, answers: list[dict[str, Any]]) -> str:
    """Return the line of the table for a world."""
    shares = [np.mean([answer["verdict"] == verdict for answer in answers]) for verdict in VERDICTS]
    covered = np.mean([answer["covered"] for answer in answers])
    return f"| {name} | {len(answers)} | {' | '.join(f'{one:.1%}' for one in (*shares, covered))} |"


def run(worlds: list[str], n_logs: int, n_jobs: int, out: Path | None) -> Iterator[str]:
    """Yield the lines of the table."""
    known = read_answers(out, commit())
    context = multiprocessing.get_context("spawn")  # a fork would inherit compiled code's threads
    pool = ProcessPoolExecutor(n_jobs, mp_context=context) if n_jobs > 1 else None
    try:
        for name in worlds:
            for answer in answers_of(name, n_logs, known, pool):
                known[name, answer["log"]] = answer
                if out is not None:
                    with out.open("a", encoding="utf8") as file:
                        file.write(json.dumps({**answer, "commit": commit()}) + "\n")
            yield row_of(name, [known[name, number] for number in range(n_logs)])
    finally:
        if pool is not None:
            pool.shutdown(cancel_futures=True)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--logs", type=int, default=1000)
    parser.add_argument("--only", default=",".join(name for name in WORLDS if name not in WHOLE))
    parser.add_argument("--jobs", type=int, default=1, help="processes, each of one thread")
    parser.add_argument("--out", type=Path, help="file of answers, one per line, to go on from")
    chosen = parser.parse_args()
    worlds = chosen.only.split(",")
    unknown = [name for name in worlds if name not in WORLDS]
    if unknown:
        parser.error(f"there is no world {unknown[0]!r}; there are {', '.join(WORLDS)}")
    print("| world | logs | better | worse | undecided | not trustworthy | covered |")
    print("|---|---:|---:|---:|---:|---:|---:|", flush=True)
    for line in run(worlds, chosen.logs, chosen.jobs, chosen.out):
        print(line, flush=True)


if __name__ == "__main__":
    main()
