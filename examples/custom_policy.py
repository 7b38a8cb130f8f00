"""Your own policy, which is trained, saved, loaded, served and judged like the built-in ones.

Run it with `python examples/custom_policy.py`.
"""

import numpy as np

import bopl
from bopl.policy import LearnedPolicy, register_policy


# --8<-- [start:policy]
@register_policy
class RidgePolicy(LearnedPolicy):
    """A ridge regression of the reward for each action, weighted by ``1/p``; softmax of ``sharpness`` times that."""

    deciding_settings = ("sharpness",)

    def __init__(self, penalty=1.0, sharpness=10.0):
        self.penalty = penalty
        self.sharpness = sharpness

    def learn(self, log):
        self.coef_ = np.zeros((log.n_features + 1, log.n_actions))
        for action in range(log.n_actions):
            rows = log.action_idx == action
            design = np.column_stack([log.context[rows], np.ones(rows.sum())])
            weighted = design.T / log.propensity[rows]
            gram = weighted @ design + self.penalty * np.eye(design.shape[1])
            self.coef_[:, action] = np.linalg.solve(gram, weighted @ log.reward[rows])

    def score_actions(self, context):
        return self.sharpness * (context @ self.coef_[:-1] + self.coef_[-1])

    def pack_learned(self):
        return {}, {"coef": self.coef_}

    def unpack_learned(self, facts, arrays):
        if arrays["coef"].shape != (self.n_features_in_ + 1, len(self.actions_)):
            raise ValueError("the coefficients do not match the columns and the actions")
        self.coef_ = arrays["coef"]


# --8<-- [end:policy]

if __name__ == "__main__":
    problem = bopl.simulation.simulate_digits(random_state=0)
    policy = RidgePolicy(penalty=50.0).fit(problem.train)
    policy.save("ridge.bopl")
    loaded = bopl.load("ridge.bopl")
    print(f"ridge by action: true reward {problem.true_value(loaded):.3f}")
    print(loaded.decide(problem.test.context[0], random_state=0))
