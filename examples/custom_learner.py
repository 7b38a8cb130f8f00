"""A learner of your own: one weighted ridge regression per action and round, so that the policy is a linear softmax.

Run it with `python examples/custom_learner.py`.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from sklearn.base import BaseEstimator

import bopl
from bopl.learner import FittedStep, register_predictor


# --8<-- [start:learner]
@dataclass(frozen=True)
class LinearByAction:
    """A fitted ``f(x, a)``: one column of coefficients per action, the intercepts in the last row."""

    coef: np.ndarray  # (n_features + 1, n_actions)
    kind: ClassVar[str] = "linear_by_action"

    @property
    def n_actions(self):
        return self.coef.shape[1]

    def predict(self, context):
        return context @ self.coef[:-1] + self.coef[-1]

    def gain_by_column(self):
        return None  # no splits


class RidgeByAction(BaseEstimator):
    """Settings; binding prepares what all rounds share."""

    def __init__(self, penalty=10.0):
        self.penalty = penalty

    def bind(self, log, *, seed):
        design = np.column_stack([log.context, np.ones(log.n_samples)])
        return BoundRidge(log.context, design, self.penalty * np.eye(design.shape[1]))


@dataclass(frozen=True)
class BoundRidge:
    context: np.ndarray
    design: np.ndarray
    ridge: np.ndarray

    def fit(self, target, round_idx):
        """Regress the labels ``G/w`` with weights ``w`` on the context, for all actions at once."""
        gram = self.design.T @ (self.design * target.weight[:, None]) + self.ridge
        predictor = LinearByAction(np.linalg.solve(gram, self.design.T @ target.gradient))
        return FittedStep(predictor, predictor.predict(self.context))


# --8<-- [end:learner]


# --8<-- [start:saving]
def pack(predictors):
    return {}, {"coef": np.array([predictor.coef for predictor in predictors])}


def unpack(facts, arrays, *, n_features, by_action):
    if arrays["coef"].shape[1:] != (n_features + 1, len(by_action)):
        raise ValueError("the coefficients do not match the context and the actions")
    return [LinearByAction(coef) for coef in arrays["coef"]]


register_predictor(LinearByAction.kind, pack, unpack)
# --8<-- [end:saving]

if __name__ == "__main__":
    problem = bopl.simulation.simulate_digits(random_state=0)
    policy = bopl.BoostedPolicy(learner=RidgeByAction(), n_rounds=100, reward_translation=-0.2, random_state=0)
    policy.fit(problem.train)
    policy.save("linear.bopl")
    loaded = bopl.load("linear.bopl")
    print(f"linear softmax: true reward {problem.true_value(loaded):.3f}")
