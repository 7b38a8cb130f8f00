"""Actions that are not always available, and features of the actions themselves.

Run it with `python examples/masks_and_features.py`.

A shop has forty items. Each visitor can be shown the ten that are in stock, and every item has a price and a weight.
"""

import numpy as np

import bopl

N_ITEMS, N_SAMPLES = 40, 5000
rng = np.random.default_rng(0)
budget = rng.uniform(0.0, 1.0, size=N_SAMPLES)
is_pedestrian = rng.random(N_SAMPLES) < 0.5
price, weight = rng.uniform(0.0, 1.0, size=(2, N_ITEMS))

# The logging policy takes each of a visitor's ten eligible items with equal probability.
in_stock = rng.random((N_SAMPLES, N_ITEMS)).argsort(axis=1) < 10
action = np.array([rng.choice(np.flatnonzero(row)) for row in in_stock])

# Visitors buy what costs nearly as much as their budget, and what is light if they have to carry it.
fits = np.exp(-8.0 * np.abs(price - budget[:, None])) * np.where(is_pedestrian[:, None] & (weight > 0.5), 0.2, 1.0)
reward = (rng.random(N_SAMPLES) < fits[np.arange(N_SAMPLES), action]).astype(float)

log = bopl.BanditLog(
    np.column_stack([budget, is_pedestrian]),
    action,
    reward,
    np.full(N_SAMPLES, 0.1),
    actions=list(range(N_ITEMS)),
    feature_names=["budget", "is_pedestrian"],
    action_mask=in_stock,
    action_features=np.column_stack([price, weight]),
)
train, test = log.split(0.3, random_state=0)
policy = bopl.BoostedPolicy("surrogate", bopl.HistTree(), n_rounds=60, reward_translation=-0.1, random_state=0)
policy.fit(train)
print(bopl.evaluate(test, {"new": policy}, estimators="snips"))  # the mask travels with the log

# One decision: budget 0.7, on foot; only items 3, 8 and 21 are left.
mask = np.isin(policy.actions_, [3, 8, 21])[None, :]
choice = policy.predict([[0.7, 1.0]], action_mask=mask)[0]
print(f"Item {choice}, price {price[choice]:.2f}, weight {weight[choice]:.2f}.")
