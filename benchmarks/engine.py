"""Seconds per round and peak memory of HistTree, XGBoost and LightGBM on the same logs, in one run.

    python benchmarks/engine.py                                   # the four datasets, all learners
    python benchmarks/engine.py --workloads covertype --rounds 5
    python benchmarks/engine.py --scaling                         # HistTree as n, A, d and threads grow
    python benchmarks/engine.py --startup                         # first and second start: compilation and its cache
    python benchmarks/engine.py --whole-rounds --rounds 20        # everything between two callbacks of a fit
    python benchmarks/engine.py --whole-rounds --against bcdc595  # the same beside the engine of another commit

Every learner boosts BOPL-S in its own process, so that peak memory is its own too. HistTree and a baseline
take turns, a round each, so that whatever slows the machine down slows both; a row is one such pair. Seconds per round
are the median after the first round and cover the fit of one tree and its prediction on the training contexts; for
XGBoost that is `boost` and `predict`, without the conversion to our arrays. Memory is the process's peak above what it
held once the log was loaded. Rounds with a slow baseline are cut short after --limit seconds, which its row says.

Whole rounds are what a user of `BoostedPolicy.fit` waits for: gradient, tree, step size, scores and the history's row,
from the end of one call of a callback to the next. HistTree and XGBTree("hist") take turns there, too.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
from revisions import commit, environment_of, worktree
from workloads import PAPER_SETTINGS, SYNTHETIC_SETTINGS, cached_log, read_log, synthetic_log

BASELINES = ("xgb_hist", "xgb_exact", "lightgbm")


# -- One measurement, in a process of its own --------------------------------------------------------------------------


def status_mib(field: str) -> float:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) / 1024
    return float("nan")


def reset_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5")


class HistRounds:
    def __init__(self, log, settings, threads):
        import bopl

        learner = bopl.HistTree(settings.max_depth, min_child_weight=settings.min_child_weight, n_jobs=threads)
        self.bound = learner.bind(log, seed=0)

    def fit(self, target, round_idx):
        fitted = self.bound.fit(target, round_idx)
        return fitted.prediction, lambda: fitted.predictor.n_leaves


class XGBRounds:
    def __init__(self, log, settings, threads, method):
        import bopl

        learner = bopl.XGBTree(method, settings.max_depth, settings.min_child_weight, n_jobs=threads)
        self.bound = learner.bind(log, seed=0)

    def fit(self, target, round_idx):
        prediction = self.bound.boost(target)
        return prediction, lambda: self.bound.booster[round_idx : round_idx + 1].get_dump()[0].count("leaf=")


class LightGBMRounds:
    def __init__(self, log, settings, threads):
        import lightgbm

        from bopl.learner.expanded import action_columns, expand

        self.shape = (log.n_samples, log.n_actions)
        matrix = expand(log.context, action_columns(log.n_actions))
        params = {
            "objective": "none",
            "learning_rate": 1.0,
            "max_depth": settings.max_depth,
            # Leaf-wise growth needs a limit; the trees here stay below it. Without a pool size LightGBM keeps a
            # histogram for each of them.
            "num_leaves": min(2**settings.max_depth, 16384),
            "histogram_pool_size": 2048,
            "min_sum_hessian_in_leaf": settings.min_child_weight,
            "min_data_in_leaf": 1,
            "lambda_l2": 0.0,
            "max_bin": 255,
            "num_threads": threads,
            "verbosity": -1,
        }
        data = lightgbm.Dataset(
            matrix, np.zeros(len(matrix), np.float32), params=params, free_raw_data=True
        ).construct()
        del matrix
        self.bound = self.booster = lightgbm.Booster(params, data)
        self.before = np.zeros(self.shape[0] * self.shape[1])

    def fit(self, target, round_idx):
        gradient = -target.gradient.ravel().astype(np.float32)
        hessian = np.repeat(target.weight, self.shape[1]).astype(np.float32)
        self.booster.update(fobj=lambda prediction, data: (gradient, hessian))
        after = np.array(self.booster._Booster__inner_predict(data_idx=0))
        prediction, self.before = after - self.before, after
        return prediction.reshape(self.shape), lambda: self.booster.dump_model(num_iteration=-1)["tree_info"][-1][
            "num_leaves"
        ]


def make_rounds(name, log, settings, threads):
    if name == "hist_tree":
        return HistRounds(log, settings, threads)
    if name == "lightgbm":
        return LightGBMRounds(log, settings, threads)
    return XGBRounds(log, settings, threads, name.removeprefix("xgb_"))


def warm_up(name, threads):
    """Compile or load everything on a log of a few rows, so that neither time nor memory of that is counted."""
    log = synthetic_log(5000, 3, 3)
    rounds = make_rounds(name, log, SYNTHETIC_SETTINGS, threads)
    score = np.zeros((log.n_samples, log.n_actions), order="F")
    ascent, target = start_ascent(log, score, rounds, -0.3, threads)
    prediction, _ = rounds.fit(target, 0)
    ascent.measure(prediction)
    ascent.move(prediction, 1.0)


def start_ascent(log, score, rounds, reward_translation, threads):
    """Return where boosting stands before the first round, and what the first tree is fitted to."""
    from bopl.boosting.ascent import ascend
    from bopl.objective import StepTarget, Surrogate, TrainingData

    order = getattr(getattr(rounds, "bound", None), "row_order", None)
    logged = TrainingData(log).take(order)
    data = TrainingData(logged.log.translated(reward_translation))
    terms = Surrogate(smoothness="paper").bind(data)
    ascent = ascend(terms, data, logged.log, score, threads)
    return ascent, StepTarget(ascent.gradient, terms.weight)


def measure(args) -> dict:
    from bopl.boosting import StepRule

    settings = PAPER_SETTINGS.get(args.workload, SYNTHETIC_SETTINGS)
    start = time.perf_counter()
    warm_up(args.learner, args.threads)
    compile_seconds = time.perf_counter() - start
    if args.workload.startswith("synthetic"):
        log = synthetic_log(*(int(size) for size in args.workload.split(":")[1:]))
    else:
        log = read_log(Path(args.log))
    step_rule = StepRule()
    # As in a real fit: column by column. The others take gradients row by row; turning them is not counted.
    score = np.zeros((log.n_samples, log.n_actions), order="F")
    reset_peak()
    baseline = status_mib("VmRSS")
    start = time.perf_counter()
    rounds = make_rounds(args.learner, log, settings, args.threads)
    bind_seconds = time.perf_counter() - start
    ascent, target = start_ascent(log, score, rounds, settings.reward_translation, args.threads)
    print("ready", flush=True)
    seconds = []
    while sys.stdin.readline().strip() == "round":
        if args.learner != "hist_tree":
            target = replace(target, gradient=np.ascontiguousarray(target.gradient))
        start = time.perf_counter()
        prediction, count_leaves = rounds.fit(target, len(seconds))
        seconds.append(time.perf_counter() - start)
        ascent.move(prediction, step_rule(ascent.measure(prediction)).size)
        target = replace(target, gradient=ascent.gradient)
        print("done", flush=True)
    return {
        "seconds": float(np.median(seconds[1:])),
        "first_round": seconds[0],
        "bind": bind_seconds,
        "warm_up": compile_seconds,
        "rounds": len(seconds),
        "leaves": count_leaves(),
        "reward": ascent.standing.snips_value,
        "mib": status_mib("VmHWM") - baseline,
        "context_mib": log.context.nbytes / 2**20,
    }


def measure_whole(args) -> dict:
    """Boost BOPL-S by `BoostedPolicy.fit`; its callback waits until the next round is asked for."""
    import bopl
    from bopl.objective import Surrogate

    settings = PAPER_SETTINGS.get(args.workload, SYNTHETIC_SETTINGS)
    limits = {"min_child_weight": settings.min_child_weight, "n_jobs": args.threads}
    learner = bopl.HistTree(settings.max_depth, **limits)
    if args.learner != "hist_tree":
        learner = bopl.XGBTree(args.learner.removeprefix("xgb_"), settings.max_depth, **limits)
    policy = bopl.BoostedPolicy(
        Surrogate(smoothness="paper"),
        learner,
        reward_translation=settings.reward_translation,
        progress=False,
        random_state=0,
    )
    policy.set_params(n_rounds=2).fit(synthetic_log(5000, 3, 3))  # compiles or loads everything
    log = read_log(Path(args.log))
    turns = Turns()
    policy.set_params(n_rounds=10**6).fit(
        log.subset(np.arange(args.samples)) if args.samples else log, callbacks=[turns]
    )
    return {
        "seconds": float(np.median(turns.seconds)),
        "fastest": min(turns.seconds),
        "rounds": len(turns.seconds),
        "code": bopl.__file__,
        "reward": float(policy.history_["snips_value"][-1]),
    }


class Turns:
    """A callback that lets a round begin when it is told to, and notes how long it took; the first is not counted."""

    def __init__(self):
        self.seconds = []
        self.began = None

    def __call__(self, state):
        from bopl.boosting import CallbackAction

        if self.began is None:
            print("ready", flush=True)
        else:
            self.seconds.append(time.perf_counter() - self.began)
            print("done", flush=True)
        goes_on = sys.stdin.readline().strip() == "round"
        self.began = time.perf_counter()
        return CallbackAction.CONTINUE if goes_on else CallbackAction.STOP


# -- The tables ------------------------------------------------------------------------------------------------------


class Child:
    """A learner in a process of its own, which makes a round when it is told to."""

    def __init__(self, learner, workload, threads, log="", more=(), code=None):
        command = [sys.executable, __file__, "--child", "--learner", learner, "--workload", workload]
        command += ["--log", str(log), "--threads", str(threads), *more]
        environment = environment_of(code) | {"OMP_NUM_THREADS": str(threads)}
        self.name = f"{learner} on {workload}"
        self.errors = tempfile.TemporaryFile("w+")  # noqa: SIM115, closed with the process
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, text=True, env=environment
        )
        self.read("ready")

    def read(self, expected):
        line = self.process.stdout.readline()
        if not line.startswith(expected):
            self.process.kill()
            self.errors.seek(0)
            raise SystemExit(f"{self.name} failed:\n{self.errors.read()[-2000:]}")
        return line

    def tell(self, what):
        self.process.stdin.write(what + "\n")
        self.process.stdin.flush()

    def make_round(self):
        self.tell("round")
        self.read("done")

    def finish(self) -> dict:
        self.tell("end")
        result = json.loads(self.read("{"))
        self.process.wait()
        return result


def take_turns(children, rounds, limit) -> list[dict]:
    """Let the learners make a round each until there are enough, or ``limit`` seconds are over; two at least."""
    began = time.perf_counter()
    for k in range(rounds):
        if k >= 2 and time.perf_counter() - began >= limit:
            break
        for child in children:
            child.make_round()
            time.sleep(0.05)  # threads that spin after a round come to rest
    return [child.finish() for child in children]


def compare(args, folder: Path) -> None:
    print(f"commit {commit()}, {args.threads} threads, {args.rounds} rounds\n")
    print(
        "| workload | baseline | s/round | HistTree | ratio | bind s | HistTree | peak MiB | HistTree | ratio | "
        "rounds | leaves | HistTree | reward | HistTree |"
    )
    print("|---|---|" + "---:|" * 13)
    for workload in args.workloads.split(","):
        log = cached_log(workload, folder)
        for baseline in args.baselines.split(","):
            children = [Child(name, workload, args.threads, log) for name in ("hist_tree", baseline)]
            ours, theirs = take_turns(children, args.rounds, args.limit)
            print(
                f"| {workload} | {baseline} | {theirs['seconds']:.4f} | {ours['seconds']:.4f} | "
                f"{theirs['seconds'] / ours['seconds']:.1f} | {theirs['bind']:.2f} | {ours['bind']:.2f} | "
                f"{theirs['mib']:.0f} | {ours['mib']:.0f} | {theirs['mib'] / max(ours['mib'], 1e-9):.1f} | "
                f"{ours['rounds']} | {theirs['leaves']} | {ours['leaves']} | {theirs['reward']:.4f} | "
                f"{ours['reward']:.4f} |",
                flush=True,
            )


def compare_whole(args, folder: Path) -> None:
    """Print how long whole rounds take with our trees and with XGBoost's."""
    print(f"commit {commit()}, {args.threads} threads, {args.samples or 'all'} samples\n")
    print('| workload | rounds | XGBTree("hist") s/round | HistTree s/round | ratio | reward | HistTree |')
    print("|---|" + "---:|" * 6)
    for workload in args.whole_rounds.split(","):
        log, more = cached_log(workload, folder), ["--whole-rounds", "--samples", str(args.samples)]
        children = [Child(name, workload, args.threads, log, more) for name in ("hist_tree", "xgb_hist")]
        ours, theirs = take_turns(children, args.rounds, args.limit)
        print(
            f"| {workload} | {ours['rounds']} | {theirs['seconds']:.4f} | {ours['seconds']:.4f} | "
            f"{theirs['seconds'] / ours['seconds']:.1f} | {theirs['reward']:.4f} | {ours['reward']:.4f} |",
            flush=True,
        )


def compare_revisions(args, folder: Path) -> None:
    """Print how long whole rounds take with another commit's engine and with this one's, and whether they agree."""
    print(f"commit {commit()} beside {args.against}, {args.threads} threads, {args.samples or 'all'} samples\n")
    print(f"| workload | rounds | {args.against} s/round | now | ratio | fastest | now | ratio | reward | now |")
    print("|---|" + "---:|" * 9)
    with worktree(args.against, folder / "code") as checkout:
        for workload in args.whole_rounds.split(","):
            log, more = cached_log(workload, folder), ["--whole-rounds", "--samples", str(args.samples)]
            children = [
                Child("hist_tree", workload, args.threads, log, more, code) for code in (checkout / "src", None)
            ]
            theirs, ours = take_turns(children, args.rounds, args.limit)
            if not Path(theirs["code"]).is_relative_to(checkout):
                raise SystemExit(f"the rounds of {args.against} were made by the code in {theirs['code']}")
            times = (theirs["seconds"], ours["seconds"], theirs["fastest"], ours["fastest"])
            print(
                f"| {workload} | {ours['rounds']} | {times[0]:.4f} | {times[1]:.4f} | {times[1] / times[0]:.3f} | "
                f"{times[2]:.4f} | {times[3]:.4f} | {times[3] / times[2]:.3f} | {theirs['reward']:.4f} | "
                f"{ours['reward']:.4f} |",
                flush=True,
            )


SCALING = {
    "n": ["synthetic:312500:20:10", "synthetic:625000:20:10", "synthetic:1250000:20:10", "synthetic:2500000:20:10",
          "synthetic:5000000:20:10"],
    "A": ["synthetic:200000:20:8", "synthetic:200000:20:16", "synthetic:200000:20:32", "synthetic:200000:20:64"],
    "d": ["synthetic:200000:10:10", "synthetic:200000:20:10", "synthetic:200000:40:10", "synthetic:200000:80:10"],
}  # fmt: skip


def scale(args) -> None:
    """Print how rounds grow; the sizes of one kind take turns, a round each."""
    print(f"commit {commit()}, HistTree, depth {SYNTHETIC_SETTINGS.max_depth}, {args.rounds} rounds\n")
    print("| grows | n | d | A | threads | s/round | of the first row | peak MiB above the contexts |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|")
    growing = {what: [(workload, args.threads) for workload in workloads] for what, workloads in SCALING.items()}
    growing["threads"] = [(SCALING["n"][1], threads) for threads in (1, 2, 4, 8, 16) if threads <= args.threads]
    for what in args.scaling.split(","):
        cases = growing[what]
        rows = take_turns([Child("hist_tree", *case) for case in cases], args.rounds, args.limit)
        for (workload, threads), row in zip(cases, rows, strict=True):
            n, d, n_actions = workload.split(":")[1:]
            print(
                f"| {what} | {n} | {d} | {n_actions} | {threads} | {row['seconds']:.4f} | "
                f"{row['seconds'] / rows[0]['seconds']:.2f} | {row['mib']:.0f} |",
                flush=True,
            )


def startup() -> None:
    """Fit ten samples in two fresh processes: the first compiles, the second takes the cache."""
    code = (
        "import time; start = time.perf_counter(); import numpy as np, bopl; rng = np.random.default_rng(0);"
        "log = bopl.BanditLog(rng.normal(size=(50, 2)), rng.integers(0, 2, 50), rng.random(50), np.full(50, 0.5));"
        "policy = bopl.BoostedPolicy('surrogate', bopl.HistTree(max_depth=2), n_rounds=2);"
        "ready = time.perf_counter();"
        "policy.fit(log).predict(log.context); end = time.perf_counter();"
        "print(f'{ready - start:.2f} s of imports, {end - ready:.2f} s of fit and prediction')"
    )
    with tempfile.TemporaryDirectory() as cache:
        environment = os.environ | {"NUMBA_CACHE_DIR": cache}
        for which in ("first start, compiling", "second start, from the cache"):
            done = subprocess.run(
                [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
            )
            print(f"{which}: {done.stdout.strip()}; said: {done.stderr.strip()!r}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workloads", default="scene,tmc2007_500,fashion_mnist,covertype")
    parser.add_argument("--baselines", default=",".join(BASELINES))
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--limit", type=float, default=120.0, help="seconds of rounds after which a pair is cut short")
    parser.add_argument("--scaling", nargs="?", const="n,A,d,threads", help="what grows: n, A, d, threads; all of them")
    parser.add_argument("--startup", action="store_true")
    parser.add_argument(
        "--whole-rounds", nargs="?", const="covertype", metavar="WORKLOADS", help="of a fit; on Covertype by default"
    )
    parser.add_argument("--against", metavar="REV", help="another commit, for whole rounds: the learners take turns")
    parser.add_argument("--samples", type=int, default=0, help="of a log that whole rounds are made on; all by default")
    parser.add_argument("--cache", default="", help="folder to keep the simulated logs in")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--learner", help=argparse.SUPPRESS)
    parser.add_argument("--workload", help=argparse.SUPPRESS)
    parser.add_argument("--log", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.against:
        args.whole_rounds = args.whole_rounds or "covertype"
    if args.child:
        print(json.dumps(measure_whole(args) if args.whole_rounds else measure(args)))
    elif args.scaling:
        scale(args)
    elif args.startup:
        startup()
    else:
        with tempfile.TemporaryDirectory() as folder:
            table = compare_revisions if args.against else compare_whole if args.whole_rounds else compare
            table(args, Path(args.cache or folder))


if __name__ == "__main__":
    main()
