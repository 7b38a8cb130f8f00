"""Learn, deploy, log and learn again: one log written by two policies.

Run it with `python examples/several_loggers.py`.

In the first week an old policy chooses; in the second a policy does that was learned from the week before. Each row of
both weeks gets the propensity of the mixture of both policies, so that all rows can be used together. The week that the
second policy was learned from is left out: a mixture must not know the rewards of its rows.
"""

import numpy as np
import pandas as pd
from make_clicks import ITEMS, click_rate, logging_prob, make_clicks

import bopl

COLUMNS = ["age", "visits", "hour", "member", "device"]


def learn(log):
    learner = bopl.HistTree(max_depth=6, min_child_weight=20.0)
    return bopl.BoostedPolicy("ips", learner, n_rounds=60, reward_translation=-0.1, random_state=0).fit(log)


def position(item):
    return np.searchsorted(ITEMS, item.to_numpy(dtype=str))


# The week before, to learn from, and week one: the shop's current policy.
before = make_clicks(6000, random_state=0).to_pandas()
policy = learn(bopl.BanditLog.from_frame(before, action="item", reward="click", propensity="p", context=COLUMNS))
first = make_clicks(6000, random_state=1).to_pandas()

# Week two: the learned policy draws the actions, and its propensities are logged.
second = make_clicks(6000, random_state=2).to_pandas()
second["item"], second["p"] = policy.sample(second[COLUMNS], inverse_temperature=2.0, random_state=0)
rate = click_rate(*(second[name].to_numpy() for name in COLUMNS))
chance = rate[np.arange(len(second)), position(second["item"])]
second["click"] = (np.random.default_rng(3).random(len(second)) < chance).astype(int)

# Both weeks: the probability that each policy would have given to the logged action of every row.
both = pd.concat([first, second], ignore_index=True)
rows, shown = np.arange(len(both)), position(both["item"])
old = logging_prob(both["hour"], both["member"])[rows, shown]
new = policy.predict_proba(both[COLUMNS], inverse_temperature=2.0)[rows, shown]

log = bopl.BanditLog.from_frame(both, action="item", reward="click", propensity="p", context=COLUMNS)
week = np.repeat(["first", "second"], [len(first), len(second)])
log = log.balanced(week, {"first": old, "second": new})
print(log, log.propensity_source)

train, test = log.split(0.3, random_state=0)
third = learn(train).predict_proba(test.context, inverse_temperature=2.0)
evaluation = bopl.evaluate(test, {"third week": third}, estimators="snips")
print(f"The first week earned {first['click'].mean():.3f} per visitor, the second {second['click'].mean():.3f}.")
print(evaluation)
