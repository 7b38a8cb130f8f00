"""Train several kinds of policy on one log and compare them, with the truth beside the estimate.

Run it with `python examples/compare_policies.py`.

The log is simulated from scikit-learn's handwritten digits, so the true reward of every policy is known.
"""

import bopl
from bopl.baseline import BoostedRewardPolicy, LoggingPolicy, UniformPolicy, XGBRewardPolicy

problem = bopl.simulation.simulate_digits(random_state=0)
tree = bopl.HistTree(max_depth=14, min_child_weight=20.0)

policies = {
    "uniform": UniformPolicy(),
    "logging, estimated": LoggingPolicy(),
    "reward regression": BoostedRewardPolicy(),
    "reward regression, XGBoost": XGBRewardPolicy(),
    "BOPL": bopl.BoostedPolicy("ips", tree, n_rounds=100, reward_translation=-0.2, random_state=0),
    "BOPL-S": bopl.BoostedPolicy("surrogate", tree, n_rounds=100, reward_translation=-0.2, random_state=0),
    # bopl.baseline.BanditNetPolicy() joins the loop like the others; it needs torch: pip install 'bopl[deep]'.
}

print(f"The logging policy earns {problem.logging_value:.3f}.")
true_reward = {}
for name, policy in policies.items():
    policy.fit(problem.train)
    greedy = policy.predict_proba(problem.test.context, inverse_temperature=float("inf"))
    true_reward[name] = problem.true_value(policy)
    row = bopl.evaluate(problem.test, {name: greedy}, estimators="snips").row()
    interval = f"[{row['ci_lower']:.3f}, {row['ci_upper']:.3f}]"
    print(f"{name:28s} true {true_reward[name]:.3f}   from the log {row['value']:.3f} {interval}  {row['verdict']}")
