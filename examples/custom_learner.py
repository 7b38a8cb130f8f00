"""Your own learner: one weighted ridge regression per action and round, so that the policy is a linear softmax.

Run it with `python examples/custom_learner.py`.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from sklearn.base import BaseEstimator

import bopl
from bopl.learner import BoundLearner, FittedStep, Predictor, register_learner, register_predictor


# --8<-- [start:learner]
@dataclass(frozen=True)
class LinearByAction(Predictor):
    coef: np.ndarray  # of shape (n_features + 1, n_actions), the intercepts in the last row
    kind: ClassVar[str] = "linear_by_action"

    def predict(self, context):
        return context @ self.coef[:-1] + self.coef[-1]


@dataclass(frozen=True)
class BoundRidge(BoundLearner):
    context: np.ndarray
    penalty: float

    def fit(self, target, round_idx):
        design = np.column_stack([self.context, np.ones(len(self.context))])
        gram = design.T @ (design * target.weight[:, None]) + self.penalty * np.eye(design.shape[1])
        predictor = LinearByAction(np.linalg.solve(gram, design.T @ target.gradient))
        return FittedStep(predictor, predictor.predict(self.context))


class RidgeByAction(BaseEstimator):
    def __init__(self, penalty=10.0):
        self.penalty = penalty

    def bind(self, log, *, seed):
        return BoundRidge(log.context, self.penalty)


# --8<-- [end:learner]


# --8<-- [start:saving]
def pack(predictors):
    return {}, {"coef": np.array([predictor.coef for predictor in predictors])}


def unpack(facts, arrays, *, n_features, by_action):
    if arrays["coef"].shape[1:] != (n_features + 1, len(by_action)):
        raise ValueError("the coefficients do not match the context and the actions")
    return [LinearByAction(coef) for coef in arrays["coef"]]


register_predictor(LinearByAction.kind, pack, unpack)
register_learner(RidgeByAction)  # so that a loaded policy has its learner, with the same settings
# --8<-- [end:saving]

if __name__ == "__main__":
    problem = bopl.simulation.simulate_digits(random_state=0)
    policy = bopl.BoostedPolicy("surrogate", RidgeByAction(), n_rounds=100, reward_translation=-0.2, random_state=0)
    policy.fit(problem.train)
    policy.save("linear.bopl")
    loaded = bopl.load("linear.bopl")
    print(f"linear softmax: true reward {problem.true_value(loaded):.3f}")
