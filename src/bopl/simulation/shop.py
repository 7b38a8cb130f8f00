"""A made-up web shop: which banner to show to whom, with readable names and a known truth."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from bopl._table import to_frame
from bopl._typing import AnyArray, FloatArray
from bopl.log import BanditLog
from bopl.objective.softmax import softmax
from bopl.policy.policy import draw_actions

CATEGORIES: dict[str, tuple[str, ...]] = {
    "device": ("phone", "desktop", "tablet"),
    "country": ("Austria", "Brazil", "France", "Germany", "Japan", "Kenya", "Spain", "Sweden"),
    "source": ("ad", "direct", "mail", "search"),
}
BANNERS = ("App download", "Free shipping", "Gift cards", "New arrivals", "Newsletter", "Summer sale")
EXPLORATION = 0.3  # share of the visits in which the shop drew a random banner


@dataclass(frozen=True)
class Shop:
    """Visits of a web shop, the banner shown in each, and the chance of a click on every banner.

    Attributes
    ----------
    columns : dict of str to ndarray of shape (n_samples,)
        What was known about each visit; text for categories, NaN for missing numbers.
    action, reward, propensity : ndarray of shape (n_samples,)
        The banner shown, whether it was clicked, and the probability with which it was shown.
    click_chance, logging_prob : ndarray of shape (n_samples, n_actions)
        The truth, which a real log hides.
    """

    columns: dict[str, AnyArray]
    action: AnyArray
    reward: FloatArray
    propensity: FloatArray
    click_chance: FloatArray
    logging_prob: FloatArray

    @property
    def logging_value(self) -> float:
        """Clicks per visit that the shop's own rule earns."""
        return float((self.logging_prob * self.click_chance).sum(axis=1).mean())

    def to_frame(self, backend: str | None = None) -> Any:
        """Return the log as a frame, as in a file: columns ``banner``, ``click`` and ``p``."""
        roles = {"banner": self.action, "click": self.reward, "p": self.propensity}
        return to_frame(self.columns | roles, backend)

    def to_log(self) -> BanditLog:
        """Return the log with categories as numbers: the position of the text in ``CATEGORIES``."""
        context = np.column_stack([_numbers(name, column) for name, column in self.columns.items()])
        return BanditLog(
            context, self.action, self.reward, self.propensity, actions=BANNERS, feature_names=list(self.columns)
        )


def simulate_shop(n_samples: int = 40_000, *, random_state: int = 0) -> Shop:
    """Simulate visits of a web shop whose rule of thumb for banners can be improved upon.

    Parameters
    ----------
    n_samples : int, default=40000
        Number of decisions.
    random_state : int, default=0
        Seed of the shop and the log.

    Examples
    --------
    >>> shop = simulate_shop(1000)
    >>> shop.to_log()
    BanditLog(n_samples=1000, n_features=9, n_actions=6, mean_reward=0.111, min_propensity=0.115)
    """
    rng = np.random.default_rng(random_state)
    columns = _draw_visits(n_samples, rng)
    logging_prob = _rule_of_thumb(columns)
    chosen = draw_actions(logging_prob, rng)
    click_chance = _click_chance(columns)
    rows = np.arange(n_samples)
    return Shop(
        columns=columns,
        action=np.array(BANNERS)[chosen],
        reward=(rng.random(n_samples) < click_chance[rows, chosen]).astype(np.float64),
        propensity=logging_prob[rows, chosen],
        click_chance=click_chance,
        logging_prob=logging_prob,
    )


def _draw_visits(n_samples: int, rng: np.random.Generator) -> dict[str, AnyArray]:
    is_new = rng.random(n_samples) < 0.35
    visits = np.where(is_new, 0, 1 + rng.geometric(0.15, n_samples)).astype(np.float64)
    basket = np.round(np.exp(rng.normal(3.4, 0.9, n_samples)), 2)
    return {
        "device": _draw(rng, "device", (0.55, 0.35, 0.10), n_samples),
        "country": _draw(rng, "country", (0.08, 0.14, 0.16, 0.24, 0.10, 0.06, 0.13, 0.09), n_samples),
        "source": _draw(rng, "source", (0.3, 0.25, 0.15, 0.3), n_samples),
        "hour": np.floor(24.0 * rng.beta(2.4, 1.7, n_samples)),
        "weekday": rng.integers(0, 7, n_samples).astype(np.float64),
        "visits before": visits,
        "days since last visit": np.where(is_new, np.nan, np.floor(rng.exponential(12.0, n_samples))),
        "basket in €": np.where(rng.random(n_samples) < 0.4, 0.0, basket),
        "is member": (rng.random(n_samples) < np.where(is_new, 0.05, 0.4)).astype(np.float64),
    }


def _draw(rng: np.random.Generator, name: str, chance: tuple[float, ...], n_samples: int) -> AnyArray:
    return np.array(CATEGORIES[name])[rng.choice(len(chance), n_samples, p=chance)]


def _rule_of_thumb(columns: dict[str, AnyArray]) -> FloatArray:
    """Sales for everyone, the app on phones, mail for newcomers; and some random exploration."""
    score = np.zeros((len(columns["hour"]), len(BANNERS)))
    score[:, BANNERS.index("Summer sale")] += 1.2
    score[:, BANNERS.index("App download")] += 0.8 * (columns["device"] == "phone")
    score[:, BANNERS.index("Newsletter")] += 0.8 * (columns["visits before"] == 0)
    return (1.0 - EXPLORATION) * softmax(score) + EXPLORATION / len(BANNERS)


def _click_chance(columns: dict[str, AnyArray]) -> FloatArray:
    """What visitors really like: the truth that the log only hints at."""
    is_phone, is_evening = columns["device"] == "phone", columns["hour"] >= 17
    basket, visits = columns["basket in €"], columns["visits before"]
    liking = {
        "App download": -2.6 + 1.1 * (is_phone & (visits >= 4)) - 1.0 * ~is_phone,
        "Free shipping": -2.5 + 1.5 * ((basket > 0.0) & (basket < 45.0)) + 0.3 * (columns["source"] == "search"),
        "Gift cards": -3.0 + 0.9 * (columns["weekday"] >= 5) + 0.6 * (columns["country"] == "Japan"),
        "New arrivals": -2.6 + 1.4 * (columns["is member"] == 1.0) + 0.5 * is_evening,
        "Newsletter": -2.9 + 0.8 * (visits == 0),
        "Summer sale": -2.2 + 0.7 * is_evening - 0.9 * (basket > 60.0) + 0.3 * (columns["source"] == "ad"),
    }
    score = np.column_stack([liking[name] for name in BANNERS])
    return 1.0 / (1.0 + np.exp(-score))


def _numbers(name: str, column: AnyArray) -> FloatArray:
    if name not in CATEGORIES:
        return column
    return (column[:, None] == np.array(CATEGORIES[name])).argmax(axis=1).astype(np.float64)
