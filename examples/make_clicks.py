"""Write ``clicks.parquet``: a simulated log of a shop that shows each visitor one of five items.

Run it with `python examples/make_clicks.py`.

The columns are those of a real log: what was known (age, visits, hour, member, device), what was shown (item), the
probability with which it was chosen (p), what it earned (click), the user, and the day.
"""

import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

ITEMS = np.array(["book", "coat", "lamp", "shoes", "tent"])
DEVICES = np.array(["desktop", "phone", "tablet"])


def make_clicks(n_samples=20_000, *, random_state=0):
    """Return the log as an arrow table; every fourth age is missing."""
    rng = np.random.default_rng(random_state)
    user = np.sort(rng.integers(0, n_samples // 2, size=n_samples))
    per_user = rng.random((n_samples, 3))[user]  # a user keeps age, visits and membership from day to day
    age = np.round(16 + 60 * per_user[:, 0])
    visits = np.floor(-8 * np.log1p(-per_user[:, 1]))
    member = per_user[:, 2] < 0.3
    hour = rng.integers(0, 24, size=n_samples)
    device = rng.choice(DEVICES, size=n_samples, p=[0.3, 0.6, 0.1])
    rate = click_rate(age, visits, hour, member, device)
    chance = logging_prob(hour, member)
    chosen = (chance.cumsum(axis=1) < rng.random((n_samples, 1))).sum(axis=1)
    rows = np.arange(n_samples)
    return pa.table(
        {
            "age": np.where(rng.random(n_samples) < 0.25, np.nan, age),
            "visits": visits,
            "hour": hour,
            "member": member,
            "device": device,
            "user": user,
            "day": rng.integers(1, 29, size=n_samples),
            "item": ITEMS[chosen],
            "p": chance[rows, chosen],
            "click": (rng.random(n_samples) < rate[rows, chosen]).astype(np.int8),
        }
    )


def logging_prob(hour, member):
    """Return the shop's current policy: mostly coats by day and lamps at night, and one time in four a random item."""
    score = np.zeros((len(hour), len(ITEMS)))
    score[:, 1] = np.where((hour > 7) & (hour < 19), 1.5, 0.0)
    score[:, 2] = np.where((hour <= 7) | (hour >= 19), 1.5, 0.0)
    score[:, 3] = np.where(member, 1.0, 0.0)
    greedy = np.exp(score) / np.exp(score).sum(axis=1, keepdims=True)
    return 0.75 * greedy + 0.25 / len(ITEMS)


def click_rate(age, visits, hour, member, device):
    """Return the true click rate of every item, which no log shows."""
    young, regular, evening = age < 35, visits > 8, (hour > 16) & (hour < 23)
    return np.column_stack(
        [
            0.05 + 0.25 * (~young & evening),
            0.12 + 0.10 * (~young & ~evening),
            0.08 + 0.16 * (evening & (device == "desktop")),
            0.08 + 0.25 * (young & member),
            0.04 + 0.30 * (young & regular),
        ]
    )


if __name__ == "__main__":
    path = sys.argv[1] if len(sys.argv) > 1 else "clicks.parquet"
    pq.write_table(make_clicks(), path)
    print(f"Written to {path}.")
