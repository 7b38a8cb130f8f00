"""BRR-gb: the policy that takes the action with the highest reward predicted by boosted least-squares trees."""

from __future__ import annotations

from typing import Any

from sklearn.base import clone

from bopl._settings import check_jobs, check_number
from bopl._typing import AnyArray, ContextMatrix, FloatArray
from bopl.learner import HistTree
from bopl.learner.hist_tree.predictor import HistTreePredictor, stack_trees
from bopl.learner.store import describe_learner, learner_from, pack_predictors, unpack_predictors
from bopl.log import BanditLog
from bopl.policy.learned import LearnedPolicy, Packed
from bopl.reward import BoostedRewardModel
from bopl.reward.boosted_model import default_reward_learner


class BoostedRewardPolicy(LearnedPolicy):
    """BRR-gb of the paper: gradient boosting of regression trees on the logged rewards, then the best action.

    It minimises ``mean (F(x_i, a_i) - r_i)²`` (Eq. "reward_regression_objective"); propensities are not used. Scores
    are predicted rewards, so `predict_proba` is greedy unless ``inverse_temperature`` is given. Features of the
    actions are not used.

    Parameters
    ----------
    learner : HistTree, optional
        By default trees of depth 6 with at least 20 samples in a leaf.
    n_rounds : int, default=100
        Number of trees.
    learning_rate : float in (0, 2], default=0.1
        Share of each tree that is added.
    n_jobs : int, optional
        Number of threads; all processors if None. The result does not depend on it.
    random_state : int, optional
        Seed of the learner, if it draws random numbers.

    Attributes
    ----------
    model_ : BoostedRewardModel

    Examples
    --------
    >>> import numpy as np, bopl
    >>> rng = np.random.default_rng(0)
    >>> context, action = rng.normal(size=(400, 2)), rng.integers(0, 2, size=400)
    >>> log = bopl.BanditLog(context, action, action == (context[:, 0] > 0), np.full(400, 0.5))
    >>> bopl.baseline.BoostedRewardPolicy(n_rounds=20).fit(log).predict([[1.0, 0.0], [-1.0, 0.0]]).tolist()
    [1, 0]
    """

    deciding_settings = ("learning_rate",)

    predicts_rewards = True

    def __init__(
        self,
        learner: HistTree | None = None,
        n_rounds: int = 100,
        learning_rate: float = 0.1,
        n_jobs: int | None = None,
        random_state: int | None = None,
    ) -> None:
        self.learner = learner
        self.n_rounds = n_rounds
        self.learning_rate = learning_rate
        self.n_jobs = n_jobs
        self.random_state = random_state

    def learn(self, log: BanditLog) -> None:
        """Learn from the log."""
        check_jobs(self.n_jobs)
        BoostedRewardModel(self.learner, self.n_rounds, self.learning_rate).check_settings()
        learner = default_reward_learner() if self.learner is None else clone(self.learner)
        if self.n_jobs is not None:
            learner.set_params(n_jobs=self.n_jobs)
        model = BoostedRewardModel(learner, self.n_rounds, self.learning_rate, self.random_state)
        self.model_ = model.fit(log)

    def score_actions(self, context: ContextMatrix) -> FloatArray:
        """Return the predicted reward of every action."""
        return self.model_.predict(context, n_jobs=self.n_jobs)

    def pack_learned(self) -> Packed:
        """Return what was learned."""
        facts, arrays = pack_predictors(self.model_.predictors_)
        return {"trees": facts, "initial": self.model_.initial_, "learner": describe_learner(self.learner)}, arrays

    def unpack_learned(self, facts: dict[str, Any], arrays: dict[str, AnyArray]) -> None:
        """Restore what was learned."""
        self.learner = learner_from(facts["learner"])
        found = unpack_predictors(facts["trees"], arrays, n_features=self.n_features_in_, n_actions=len(self.actions_))
        trees = [predictor for predictor in found if isinstance(predictor, HistTreePredictor)]
        if not trees or len(trees) != len(found):
            raise ValueError("the trees are not those of a boosted reward model")
        model = BoostedRewardModel(self.learner, self.n_rounds, self.learning_rate, self.random_state)
        check_number("learning_rate", self.learning_rate, low=0.0, high=2.0, low_open=True)
        check_number("initial", facts["initial"])
        check_jobs(self.n_jobs)
        model.actions_, model.n_features_in_, model.initial_ = self.actions_, self.n_features_in_, facts["initial"]
        model.predictors_ = tuple(trees)
        model.trees_ = stack_trees(trees, [self.learning_rate] * len(trees))
        self.model_ = model
