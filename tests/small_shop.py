"""A small shop with a known truth: who likes what is plain to see, and few visits tell."""

import numpy as np

from bopl.serving.rehearsal import rehearse

ACTIONS = ("books", "games", "music", "tools")
KINDS = ("reader", "player", "listener", "maker")
RIGHT, WRONG = 0.9, 0.2
# Quick to train, and enough for a shop like this.
TRAIN = {
    "objective": "ips",
    "n_rounds": 15,
    "max_depth": 3,
    "n_jobs": 1,
    "random_state": 0,
    "estimators": ("ips", "snips"),
}


def draw_visits(n_visits, seed):
    """Return records of visits; some of what is known of them is missing."""
    rng = np.random.default_rng(seed)
    kind, age, is_new = rng.integers(0, 4, n_visits), rng.normal(40.0, 12.0, n_visits), rng.random(n_visits) < 0.3
    return [
        {"kind": KINDS[one], "age": None if none else float(years), "is new": bool(none)}
        for one, years, none in zip(kind, age, is_new, strict=True)
    ]


def click_chance(record, action):
    return RIGHT if KINDS.index(record["kind"]) == ACTIONS.index(action) else WRONG


def true_value(policy, records):
    """Return what a policy earns per visit; None is the uniform policy."""
    chance = np.array([[click_chance(record, action) for action in ACTIONS] for record in records])
    if policy is None:
        return float(chance.mean())
    order = [ACTIONS.index(label) for label in policy.actions_.tolist()]
    return float((policy.records_proba(records) * chance[:, order]).sum(axis=1).mean())


def serve(loop, records, name, seed=0, chance=click_chance):
    """Decide for visits and reward clicks, without HTTP."""
    rng = np.random.default_rng(seed)
    rehearse(loop, records, lambda record, action: float(rng.random() < chance(record, action)), name=name)
