"""How often the leak check blames an honest column, and how often it finds one that knows too much.

    python benchmarks/leaks.py                               # 200 clean logs and 200 of each leak, by size
    python benchmarks/leaks.py --logs 20 --sizes 1000,10000
    python benchmarks/leaks.py --leaks order_id,item_price --jobs 2 --seed 7
    python benchmarks/leaks.py --real                        # labelled data as logs, which have no leak

Every log is drawn anew from one of the worlds below: strong but honest columns, certain rewards, rare ones, many
actions, masks, groups, several loggers, columns that look like identifiers. A leaking log is such a log with one more
column. The exit status is 1 if more than 1 of 100 clean logs have a column that is blamed, surely or not.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # the processes share the processors as it is

import argparse
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
import pandas as pd
from revisions import commit

import bopl
from bopl.objective.softmax import softmax
from bopl.policy.policy import draw_actions

GOAL = 0.01
SIZES = (500, 2_000, 10_000, 40_000)
Columns = dict[str, Any]


@dataclass(frozen=True)
class Drawn:
    """A log before it is one."""

    columns: Columns
    action: np.ndarray
    reward: np.ndarray
    propensity: np.ndarray
    n_actions: int
    time: np.ndarray | None = None
    group: np.ndarray | None = None
    mask: np.ndarray | None = None
    knows: dict[str, str] = field(default_factory=dict)

    def to_log(self) -> bopl.BanditLog:
        roles = {"_action": self.action, "_reward": self.reward, "_p": self.propensity}
        roles |= {} if self.time is None else {"_time": self.time}
        roles |= {} if self.group is None else {"_group": self.group}
        return bopl.BanditLog.from_frame(
            pd.DataFrame(self.columns | roles),
            action="_action",
            reward="_reward",
            propensity="_p",
            time=None if self.time is None else "_time",
            group=None if self.group is None else "_group",
            actions=list(range(self.n_actions)),
            action_mask=self.mask,
        )


# -- Worlds -----------------------------------------------------------------------------------------------------------


def numbers(context: np.ndarray) -> Columns:
    return {f"x{place}": context[:, place] for place in range(context.shape[1])}


def sigmoid(score: np.ndarray) -> np.ndarray:
    return 1.0 / (1.0 + np.exp(-score))


def some_missing(rng: np.random.Generator, values: np.ndarray, share: float = 0.3) -> np.ndarray:
    return np.where(rng.random(len(values)) < share, np.nan, values)


def logger(
    rng: np.random.Generator, context: np.ndarray, n_actions: int, floor: float | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return probabilities, actions and propensities of a softmax policy with some exploration."""
    weights = rng.normal(size=(context.shape[1], n_actions))
    floor = float(rng.choice([0.05, 0.2, 1.0])) if floor is None else floor
    prob = (1.0 - floor) * softmax(float(rng.choice([0.5, 1.5])) * context @ weights) + floor / n_actions
    action = draw_actions(prob, rng)
    return prob, action, prob[np.arange(len(action)), action]


def clicks(rng: np.random.Generator, n: int) -> Drawn:
    """Clicks that depend on action and context, some columns missing at random, some categories."""
    n_actions = int(rng.choice([2, 5, 10]))
    context = rng.normal(size=(n, 4))
    _, action, propensity = logger(rng, context, n_actions)
    effect = rng.normal(size=(4, n_actions))
    rate = sigmoid(-2.0 + 0.8 * (context @ effect)[np.arange(n), action] + 0.5 * rng.normal(size=n_actions)[action])
    columns = numbers(context) | {
        "city": np.array(["Rom", "Ulm", "Bonn"])[np.digitize(context[:, 0], [-0.5, 0.5])],
        "age": some_missing(rng, np.round(40 + 15 * context[:, 1])),
        "noise": rng.normal(size=n),
    }
    return Drawn(columns, action, (rng.random(n) < rate).astype(float), propensity, n_actions)


def affinity(rng: np.random.Generator, n: int) -> Drawn:
    """Columns that tell much of the reward whatever the action: who buys, buys."""
    n_actions = int(rng.choice([2, 4, 8]))
    love = rng.normal(size=n)
    context = np.column_stack([love, love + 0.2 * rng.normal(size=n), rng.normal(size=(n, 2))])
    _, action, propensity = logger(rng, context, n_actions)
    rate = sigmoid(float(rng.choice([2.0, 4.0])) * love - 2.0 + 0.4 * rng.normal(size=n_actions)[action])
    buys = np.where(love > 0.5, np.round(np.exp(3.0 + love)), 0.0)  # zero for most, as what comes later would be
    columns = numbers(context) | {"bought before": buys, "last bought": np.where(love > 1.0, love, np.nan)}
    return Drawn(columns, action, (rng.random(n) < rate).astype(float), propensity, n_actions)


def classes(rng: np.random.Generator, n: int) -> Drawn:
    """Certain rewards: a column says which action is right, and so the reward once the action is known."""
    n_actions = int(rng.choice([2, 3, 7, 10]))
    label = rng.integers(n_actions, size=n)
    context = np.column_stack([label + 0.3 * rng.normal(size=n), rng.normal(size=(n, 2))])
    score = float(rng.choice([0.0, 1.0, 4.0])) * np.eye(n_actions)[label]
    prob = 0.9 * softmax(score) + 0.1 / n_actions
    action = draw_actions(prob, rng)
    columns = numbers(context) | {"label": label, "text": np.char.add("class ", label.astype(str)), "is 0": label == 0}
    propensity = prob[np.arange(n), action]
    return Drawn(columns, action, (action == label).astype(float), propensity, n_actions)


def labels(rng: np.random.Generator, n: int) -> Drawn:
    """Certain rewards of several right actions, words as columns, and none right for some."""
    n_actions, n_words = int(rng.choice([4, 12])), 20
    topic = rng.random((n, n_actions)) < rng.uniform(0.05, 0.6, n_actions)
    word = (topic @ (rng.random((n_actions, n_words)) < 0.25)) & (rng.random((n, n_words)) < 0.9)
    _, action, propensity = logger(rng, word.astype(float), n_actions)
    return Drawn(numbers(word.astype(float)), action, topic[np.arange(n), action].astype(float), propensity, n_actions)


def offers(rng: np.random.Generator, n: int) -> Drawn:
    """Certain rewards: an offer is taken if the price is not above what is paid at most; some take any, some none."""
    n_actions = int(rng.choice([2, 4]))
    price = np.linspace(-0.7, 0.7, n_actions)
    worth = rng.normal(size=n)
    context = np.column_stack([worth, rng.normal(size=(n, 2))])
    _, action, propensity = logger(rng, context, n_actions)
    return Drawn(numbers(context), action, (worth > price[action]).astype(float), propensity, n_actions)


def rare(rng: np.random.Generator, n: int) -> Drawn:
    """Rewards of 0.2% to 2%, some of them large."""
    drawn = clicks(rng, n)
    rate = float(rng.choice([0.002, 0.01, 0.02])) * np.exp(drawn.columns["x0"] - 0.5)
    reward = np.where(rng.random(n) < rate, np.exp(rng.normal(size=n)) if rng.random() < 0.5 else 1.0, 0.0)
    return replace(drawn, reward=reward)


def many_actions(rng: np.random.Generator, n: int) -> Drawn:
    """Fifty to two hundred actions."""
    n_actions = int(rng.choice([50, 200]))
    context = rng.normal(size=(n, 5))
    _, action, propensity = logger(rng, context, n_actions, 0.3)
    rate = sigmoid(-1.0 + rng.normal(size=n_actions)[action] + context[:, 0])
    group = np.array(["a", "b", "c", "d", "e"])[rng.integers(5, size=n)]
    columns = numbers(context) | {"segment": group}
    return Drawn(columns, action, (rng.random(n) < rate).astype(float), propensity, n_actions)


def amounts(rng: np.random.Generator, n: int) -> Drawn:
    """Rewards that are amounts: a column explains nearly all of them, honestly, and actions add a little."""
    n_actions = int(rng.choice([2, 5]))
    distance = np.exp(rng.normal(size=n))
    context = np.column_stack([distance, rng.normal(size=(n, 3))])
    _, action, propensity = logger(rng, context[:, 1:], n_actions)
    noise = float(rng.choice([0.1, 0.5])) * (rng.normal(size=n) if rng.random() < 0.5 else rng.standard_t(3, size=n))
    return Drawn(
        numbers(context), action, -distance + 0.3 * rng.normal(size=n_actions)[action] + noise, propensity, n_actions
    )


def masks(rng: np.random.Generator, n: int) -> Drawn:
    """Actions that are not always there, by a column; at times a single one is left; some never come unmasked."""
    n_actions = int(rng.choice([3, 6]))
    country = rng.integers(4, size=n)
    offered = rng.random((4, n_actions)) < 0.6
    offered[np.arange(4), rng.integers(n_actions, size=4)] = True
    mask = offered[country]
    context = rng.normal(size=(n, 3))
    prob = softmax(context @ rng.normal(size=(3, n_actions))) * mask
    prob /= prob.sum(axis=1, keepdims=True)
    action = draw_actions(prob, rng)
    rate = sigmoid(-1.5 + context[:, 0] + rng.normal(size=n_actions)[action])
    columns = numbers(context) | {"country": np.array(["at", "br", "fr", "ke"])[country]}
    is_told = rng.random() < 0.5  # a log that says nothing of what was offered has sound propensities as well
    return Drawn(
        columns,
        action,
        (rng.random(n) < rate).astype(float),
        prob[np.arange(n), action],
        n_actions,
        mask=mask if is_told else None,
    )


def loggers(rng: np.random.Generator, n: int) -> Drawn:
    """Two logging policies, which a column tells apart; each has propensities of its own."""
    first, second = clicks(rng, n), clicks(rng, n)
    n_actions, context = 5, np.column_stack([first.columns[f"x{place}"] for place in range(4)])
    which = rng.random(n) < 0.5
    prob = np.where(which[:, None], logger(rng, context, n_actions)[0], logger(rng, -context, n_actions)[0])
    action = draw_actions(prob, rng)
    rate = sigmoid(-2.0 + context[:, 0] + 0.5 * rng.normal(size=n_actions)[action])
    columns = first.columns | {"version": np.where(which, "old", "new"), "other": second.columns["noise"]}
    reward = (rng.random(n) < rate).astype(float)
    return Drawn(columns, action, reward, prob[np.arange(n), action], n_actions)


def groups(rng: np.random.Generator, n: int) -> Drawn:
    """Users that come again and are shown one action for good; columns of the user."""
    n_users, n_actions = max(n // 8, 30), 4
    user = rng.integers(n_users, size=n)
    love = rng.normal(size=(n_users, 3))
    prob, action, _ = logger(rng, love, n_actions)
    chosen = action[user]
    rate = sigmoid(
        -2.0 + 1.5 * love[user, 0] + 0.5 * rng.normal(size=n_actions)[chosen] + rng.normal(size=n_users)[user]
    )
    columns = numbers(love[user]) | {"visits": rng.poisson(np.exp(love[user, 1]))}
    reward = (rng.random(n) < rate).astype(float)
    return Drawn(columns, chosen, reward, prob[user, chosen], n_actions, group=user)


def tails(rng: np.random.Generator, n: int) -> Drawn:
    """Tiny propensities and rewards with heavy tails."""
    n_actions = 6
    context = rng.normal(size=(n, 4))
    _, action, propensity = logger(rng, 2.0 * context, n_actions, 0.005)
    reward = rng.standard_t(2.5, size=n) + context[:, 0] + 0.5 * action
    return Drawn(numbers(context), action, reward, propensity, n_actions)


def lookalikes(rng: np.random.Generator, n: int) -> Drawn:
    """Columns that look like identifiers or like what comes later, and are not."""
    drawn = clicks(rng, n)
    moment = np.datetime64("2024-03-01T00:00:00") + np.sort(rng.integers(0, 5_000_000, n)).astype("timedelta64[s]")
    columns = drawn.columns | {
        "income": np.round(np.exp(10.5 + 0.7 * rng.normal(size=n))).astype(np.int64),
        "zip": rng.integers(1000, 99_999, n),
        "age in days": rng.integers(6_000, 30_000, n),
        "revenue last year": np.where(rng.random(n) < 0.8, 0.0, np.exp(rng.normal(3.0, 1.0, n))),
        "campaign": np.char.add("c", rng.zipf(1.6, n).clip(max=5000).astype(str)),
        "signed up": moment - rng.integers(3_600, 50_000_000, n).astype("timedelta64[s]"),
        "last order": pd.Series(moment - rng.integers(60, 9_000_000, n).astype("timedelta64[s]")).where(
            rng.random(n) < 0.2
        ),
    }
    return replace(drawn, columns=columns, time=moment)


def history(rng: np.random.Generator, n: int) -> Drawn:
    """Columns that earlier decisions left behind: what was shown before, whether it was clicked, how often."""
    drawn = clicks(rng, n)
    total = np.concatenate([[0.0], np.cumsum(drawn.reward)[:-1]])
    columns = drawn.columns | {
        "last action": np.concatenate([[0], drawn.action[:-1]]).astype(str),
        "last reward": np.concatenate([[0.0], drawn.reward[:-1]]),
        "rewards so far": total,
    }
    return replace(drawn, columns=columns)


def pairs(rng: np.random.Generator, n: int) -> Drawn:
    """Columns that are alike, and of which the difference tells much of the reward, honestly."""
    drawn = clicks(rng, n)
    visits, balance = rng.poisson(8.0, n), np.round(np.exp(rng.normal(5.0, 1.0, n)), 2)
    created = np.datetime64("2024-03-01T00:00:00") + np.sort(rng.integers(0, 5_000_000, n)).astype("timedelta64[s]")
    change = drawn.columns["x0"]
    columns = drawn.columns | {
        "visits last month": visits,
        "visits in all": visits + rng.poisson(np.exp(change)),
        "balance": balance,
        "balance a week ago": balance * np.exp(0.1 * change),
        "cart opened": created,
        "cart last changed": created + (60.0 * np.exp(change)).astype("timedelta64[s]"),
    }
    return replace(drawn, columns=columns)


WORLDS: tuple[Callable[[np.random.Generator, int], Drawn], ...] = (
    clicks,
    affinity,
    classes,
    labels,
    offers,
    rare,
    many_actions,
    amounts,
    masks,
    loggers,
    groups,
    tails,
    lookalikes,
    history,
    pairs,
)

# -- Leaks ------------------------------------------------------------------------------------------------------------


def is_event(drawn: Drawn) -> np.ndarray:
    value, count = np.unique(drawn.reward, return_counts=True)
    if 2 * count.max() >= len(drawn.reward):
        return drawn.reward != value[count.argmax()]
    return drawn.reward > np.quantile(drawn.reward, 0.8)


def order_id(rng: np.random.Generator, drawn: Drawn) -> Any:
    """Filled after a reward, and only then."""
    return pd.Series(np.char.add("o", rng.permutation(10 * len(drawn.action))[: len(drawn.action)].astype(str))).where(
        is_event(drawn)
    )


def half_filled(rng: np.random.Generator, drawn: Drawn) -> Any:
    """Filled after half of the rewards."""
    return order_id(rng, drawn).where(rng.random(len(drawn.action)) < 0.5)


def revenue(rng: np.random.Generator, drawn: Drawn) -> Any:
    """A second reward: an amount after four rewards of ten, else zero."""
    n = len(drawn.action)
    return np.where(is_event(drawn) & (rng.random(n) < 0.4), np.exp(rng.normal(3.0, 1.0, n)), 0.0)


def dwell(rng: np.random.Generator, drawn: Drawn) -> Any:
    """A noisy trace of the reward: the time on the page after it."""
    return np.exp(rng.normal(size=len(drawn.action)) + 1.5 * is_event(drawn))


def copy(rng: np.random.Generator, drawn: Drawn) -> Any:
    """The reward in another unit."""
    return 100.0 * drawn.reward - 3.0


def ranked(rng: np.random.Generator, drawn: Drawn) -> Any:
    """A place in a list that those with a reward lead."""
    return pd.Series(is_event(drawn) + 0.5 * rng.random(len(drawn.action))).rank().to_numpy()


def item_price(rng: np.random.Generator, drawn: Drawn) -> Any:
    """The price of what was shown."""
    return np.exp(rng.normal(3.0, 1.0, drawn.n_actions))[drawn.action]


def discounted(rng: np.random.Generator, drawn: Drawn) -> Any:
    """The price of what was shown, with discounts that hide it a little."""
    return item_price(rng, drawn) * np.exp(0.2 * rng.normal(size=len(drawn.action)))


def request_id(rng: np.random.Generator, drawn: Drawn) -> Any:
    """A text for every row."""
    return np.char.add("r", rng.permutation(10 * len(drawn.action))[: len(drawn.action)].astype(str))


def by_one(rng: np.random.Generator, drawn: Drawn) -> Any:
    """Filled after a reward, but for one of the actions only: the time watched, where what was shown was a video."""
    n = len(drawn.action)
    is_video = drawn.action == np.bincount(drawn.action).argmax()
    return pd.Series(np.exp(rng.normal(3.0, 1.0, n))).where(is_event(drawn) & is_video)


def total(rng: np.random.Generator, drawn: Drawn) -> Any:
    """What was spent, the reward of this decision included, beside `before`, what had been spent: honest."""
    before = np.round(np.exp(rng.normal(3.0, 1.0, len(drawn.action))), 2)
    drawn.columns["before"] = before
    return before + drawn.reward


def delivered_at(rng: np.random.Generator, drawn: Drawn) -> Any:
    """A time after the decision, where there was a reward."""
    n = len(drawn.action)
    moment = np.datetime64("2024-03-01T00:00:00") + np.arange(n).astype("timedelta64[m]")
    return pd.Series(moment + rng.integers(60, 200_000, n).astype("timedelta64[s]")).where(is_event(drawn))


LEAKS = {
    leak.__name__: leak
    for leak in (
        order_id,
        half_filled,
        revenue,
        dwell,
        copy,
        ranked,
        item_price,
        discounted,
        request_id,
        by_one,
        total,
        delivered_at,
    )
}

# -- Counting ---------------------------------------------------------------------------------------------------------


def one_log(leak: str | None, size: int, seed: int, number: int) -> dict[str, Any]:
    """Return what was said of the columns of one log."""
    rng = np.random.default_rng([number, size, seed])
    world = WORLDS[number % len(WORLDS)]
    drawn = world(rng, size)
    if leak is not None:
        added = LEAKS[leak](rng, drawn)
        drawn = replace(drawn, columns=drawn.columns | {leak: added})
    log = drawn.to_log()
    began = time.perf_counter()
    found = log.leaks()
    seconds = time.perf_counter() - began
    return {
        "leak": leak,
        "size": size,
        "world": world.__name__,
        "number": number,
        "n_rewarded": int(is_event(drawn).sum()),
        "own": next((one for one in found if one.column == leak), None),
        "others": [one for one in found if one.column != leak],
        "seconds": seconds,
    }


def real_logs(seed: int) -> Iterator[tuple[str, bopl.BanditLog]]:
    """Yield the demo's log, a shop's, and labelled data whose actions a uniform or a linear policy has drawn."""
    from bopl.simulation import simulate_digits, simulate_shop
    from bopl_paper.dataset import load_dataset

    yield "digits", simulate_digits(random_state=seed).train
    yield "shop", simulate_shop(8000, random_state=seed).to_log()
    for name in ("scene", "covertype", "tmc2007_500", "fashion_mnist"):
        dataset = load_dataset(name)
        for size in (1000, 4000, 12_000):
            rng = np.random.default_rng([size, seed])
            rows = rng.permutation(len(dataset.context))[:size]
            context, reward = dataset.context[rows], dataset.reward[rows]
            scaled = (context - context.mean(axis=0)) / (context.std(axis=0) + 1e-6) / np.sqrt(context.shape[1])
            for floor in (1.0, 0.1):
                _, action, propensity = logger(rng, scaled, reward.shape[1], floor)
                drawn = reward[np.arange(len(rows)), action]
                yield name, bopl.BanditLog(context, action, drawn, propensity, actions=list(range(reward.shape[1])))


def report_real(seed: int) -> None:
    n_blamed = 0
    for name, log in real_logs(seed):
        found = log.leaks()
        n_blamed += bool(found)
        told = "; ".join(f"{leak.certainty}, {leak.sentence}" for leak in found) or "no column blamed"
        print(f"{name:14}{log.n_samples:>7,} samples {log.n_features:>5,} columns: {told}", flush=True)
    raise SystemExit(n_blamed > 0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--logs", type=int, default=200, help="of each kind and size")
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)))
    parser.add_argument("--leaks", default=",".join(LEAKS), help="kinds, separated by commas; none for clean logs only")
    parser.add_argument("--seed", type=int, default=71, help="another seed draws other logs")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--real", action="store_true", help="labelled data as logs; needs the datasets")
    args = parser.parse_args()
    if args.real:
        report_real(args.seed)
    sizes = [int(size) for size in args.sizes.split(",")]
    kinds = [None, *(kind for kind in args.leaks.split(",") if kind in LEAKS)]
    with ProcessPoolExecutor(args.jobs) as pool:
        runs = {
            (kind, size): pool.map(partial(one_log, kind, size, args.seed), range(args.logs), chunksize=10)
            for kind in kinds
            for size in sizes
        }
        found = {key: list(run) for key, run in runs.items()}
    print(f"commit {commit()}, {args.logs} logs of each kind and size, {len(WORLDS)} worlds, seed {args.seed}")
    print(f"{'':28}" + "".join(f"{size:>10,}" for size in sizes))
    report_clean(found, sizes)
    for kind in kinds[1:]:
        report_leak(found, kind, sizes)
    clean = list(chain.from_iterable(found[None, size] for size in sizes))
    seconds = {size: np.median([one["seconds"] for one in found[None, size]]) for size in sizes}
    print("seconds a log               " + "".join(f"{seconds[size]:>10.3f}" for size in sizes))
    for one in clean:
        for leak in one["others"]:
            print(f"blamed: {one['world']}, {one['size']:,}, log {one['number']}: {leak.certainty}, {leak.sentence}")
    raise SystemExit(sum(bool(one["others"]) for one in clean) > GOAL * len(clean))


def report_clean(found: dict[Any, list[dict[str, Any]]], sizes: list[int]) -> None:
    for title, certainties in (("clean, blamed surely", ("sure",)), ("clean, blamed at all", ("sure", "doubtful"))):
        counts = [
            sum(any(leak.certainty in certainties for leak in one["others"]) for one in found[None, size])
            for size in sizes
        ]
        print(f"{title:28}" + "".join(f"{count:>10}" for count in counts))


def report_leak(found: dict[Any, list[dict[str, Any]]], kind: str, sizes: list[int]) -> None:
    counts = [sum(one["own"] is not None for one in found[kind, size]) for size in sizes]
    print(f"{kind + ', found':28}" + "".join(f"{count:>10}" for count in counts))
    missed = Counter(one["world"] for size in sizes for one in found[kind, size] if one["own"] is None)
    said = Counter(one["own"].knows for size in sizes for one in found[kind, size] if one["own"] is not None)
    others = sum(bool(one["others"]) for size in sizes for one in found[kind, size])
    print(f"    said: {dict(said)}; missed in {dict(missed.most_common(4))}; others blamed in {others}")


if __name__ == "__main__":
    main()
