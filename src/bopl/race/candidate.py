"""The candidates of a race: a small set that covers what wins on one log or another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.base import clone

from bopl._errors import did_you_mean
from bopl._machine import has_torch
from bopl.learner import HistTree
from bopl.log import BanditLog
from bopl.log.context import is_sparse
from bopl.objective import DR, IPS, Clipped, ExponentialSmoothing, Surrogate, get_objective
from bopl.policy import BoostedPolicy
from bopl.reward import BoostedRewardModel, NetworkRewardModel
from bopl.reward.logging_model import MAX_BINNED_ACTIONS

MAX_ROUNDS = 200
REWARD_ROUNDS = 100
BOTH = "logging+reward_model"  # where candidates start that know both
MIN_NETWORK_COLUMNS, MIN_NETWORK_SAMPLES = 100, 5_000  # on fewer, trees are as good and faster


@dataclass(frozen=True)
class Candidate:
    """One way to learn a policy.

    Attributes
    ----------
    name : str
    about : str
        Description in one clause.
    settings : dict
        Settings of `bopl.BoostedPolicy`.
    n_rounds : int
        Maximum number of rounds; 0 is the start alone.
    complexity : int
        The simpler candidate wins a tie.
    needs_network : bool
        Whether it trains a network: it races only if PyTorch is installed and the contexts are wide.
    max_columns : float
        Maximum number of context columns: beyond it, very deep trees take long and are no better.
    """

    name: str
    about: str
    settings: dict[str, Any] = field(default_factory=dict)
    n_rounds: int = MAX_ROUNDS
    complexity: int = 1
    needs_network: bool = False
    max_columns: float = np.inf

    @property
    def needs_reward_model(self) -> bool:
        """Whether it needs a reward model."""
        objective = get_objective(self.settings.get("objective", BoostedPolicy().objective))
        return objective.needs_reward_model or "reward_model" in (self.settings.get("start") or "")

    def suits(self, log: BanditLog) -> bool:
        """Return whether it can and should race on this log."""
        if (self.needs_reward_model and log.n_actions > MAX_BINNED_ACTIONS) or log.n_features > self.max_columns:
            return False
        is_wide = log.n_features >= MIN_NETWORK_COLUMNS and log.n_samples >= MIN_NETWORK_SAMPLES
        return not self.needs_network or (is_wide and not is_sparse(log.context) and has_torch())

    def make(self, *, n_jobs: int | None, random_state: int) -> BoostedPolicy:
        """Return the unfitted policy."""
        settings = dict(self.settings)
        learner: HistTree = settings.pop("learner", None) or trees()
        if isinstance(settings.get("reward_model"), BoostedRewardModel):
            settings["reward_model"] = clone(settings["reward_model"]).set_params(learner__n_jobs=n_jobs)
        return BoostedPolicy(
            **settings,
            learner=clone(learner).set_params(n_jobs=n_jobs),
            n_rounds=self.n_rounds,
            certificate=False,
            progress=False,
            random_state=random_state,
        )


def trees(max_depth: int = 12, min_leaf_samples: float = 20.0) -> HistTree:
    """Return the learner of a candidate: trees that consider half of the columns in every node."""
    return HistTree(max_depth, min_child_weight=0.0, min_leaf_samples=min_leaf_samples, colsample=0.5)


def rewards(
    max_depth: int = 10,
    min_child_weight: float = 20.0,
    *,
    n_rounds: int = REWARD_ROUNDS,
    n_jobs: int | None = None,
) -> BoostedRewardModel:
    """Return a reward model; its boosting ends when the error on unseen samples stops falling."""
    learner = HistTree(max_depth, min_child_weight=min_child_weight, colsample=0.5, n_jobs=n_jobs)
    return BoostedRewardModel(learner, n_rounds=n_rounds)


def candidates() -> tuple[Candidate, ...]:
    """Return all candidates, the simpler ones first."""
    smooth = {"reward_model": rewards(6, 100.0), "reward_prior": True, "start": BOTH, "start_sharpness": 12.5}
    likelihood = Surrogate(weight=ExponentialSmoothing(0.0))
    return (
        Candidate(
            "logging", "the logging policy, sharpened", {"objective": likelihood, "start": "logging"}, 0, complexity=0
        ),
        Candidate("regression", "predicted rewards", {"reward_model": rewards(), "start": "reward_model"}, 0),
        Candidate(
            "regression-logging",
            "predicted rewards, starting from what the logging policy implies about them",
            smooth,
            0,
        ),
        *_doubly_robust(smooth),
        Candidate(
            "likelihood",
            "likelihood of the logged actions weighted by their rewards, from the logging policy",
            {"objective": likelihood, "start": "logging", "learner": trees()},
            complexity=2,
        ),
        Candidate("surrogate", "BOPL-S from equal scores", {"objective": "surrogate", "learner": trees(16, 10.0)}),
        Candidate(
            "dr-network",
            "doubly robust from the rewards that a network predicts",
            {"reward_model": NetworkRewardModel(), "start": "reward_model", "learner": trees(10, 50.0)},
            complexity=4,
            needs_network=True,
        ),
        Candidate(
            "ips",
            "BOPL with clipped weights, from the logging policy",
            {"objective": IPS(weight=Clipped(0.1)), "start": "logging", "learner": trees(8, 50.0)},
            complexity=2,
        ),
    )


def _doubly_robust(smooth: dict[str, Any]) -> tuple[Candidate, ...]:
    """Return the candidates that boost the doubly robust estimate, from trees of several sizes."""
    return (
        Candidate(
            "dr",
            "doubly robust from predicted rewards and the logging policy",
            {"reward_model": rewards(), "start": BOTH},
            complexity=3,
        ),
        Candidate(
            "dr-deep",
            "doubly robust from predicted rewards, deep trees with small leaves",
            {"reward_model": rewards(25, 5.0, n_rounds=150), "start": "reward_model", "learner": trees(25, 10.0)},
            complexity=2,
            max_columns=200,
        ),
        Candidate(
            "dr-logging",
            "doubly robust from the logging policy and what it implies about rewards",
            {"reward_model": rewards(), "reward_prior": True, "start": BOTH},
            complexity=3,
        ),
        Candidate(
            "dr-smooth",
            "doubly robust from the logging policy and what it implies about rewards, shallow trees with large leaves",
            {**smooth, "learner": trees(6, 100.0)},
            complexity=3,
        ),
        Candidate(
            "dr-clipped",
            "doubly robust with clipped weights, from predicted rewards and the logging policy",
            {"objective": DR(weight=Clipped(0.1)), "reward_model": rewards(), "start": BOTH},
            complexity=3,
        ),
    )


def choose(include: Sequence[str] | None, exclude: Sequence[str]) -> tuple[Candidate, ...]:
    """Return the candidates that may race; the logging policy always does."""
    known = {one.name: one for one in candidates()}
    for setting, names in (("include", include), ("exclude", exclude)):
        if isinstance(names, str):
            raise TypeError(f"{setting} must be a list of candidates; got {names!r}. Write {setting}=[{names!r}].")
    for name in (*(include or ()), *exclude):
        if not isinstance(name, str):
            raise TypeError(f"include and exclude are lists of names; got {type(name).__name__}.")
        if name not in known:
            raise ValueError(
                f"there is no candidate {name!r}; there are {', '.join(known)}.{did_you_mean(name, list(known))}"
            )
    wanted = [name for name in known if (include is None or name in include) and name not in exclude]
    return tuple(known[name] for name in known if name in wanted or name == "logging")
