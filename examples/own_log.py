"""From a frame of decisions to a policy that you can deploy.

Run it with `python examples/own_log.py`.

Replace ``make_clicks`` by your own frame (pandas, polars or arrow), and the column names below by yours.
"""

from make_clicks import make_clicks

import bopl

frame = make_clicks().to_pandas()

# Columns without a role are the context. Group: rows of one user are not independent. Time: for the split below.
log = bopl.BanditLog.from_frame(frame, action="item", reward="click", propensity="p", group="user", time="day")
print(log)
print(log.audit())

# The last days judge a policy that was trained on the days before, as in deployment.
train, test = log.split(0.3, by="time")
policy = bopl.BoostedPolicy(
    objective="ips",  # clicks are noisy: see docs/choosing.md
    learner=bopl.HistTree(max_depth=6, min_child_weight=20.0),
    n_rounds=500,
    reward_translation=-0.1,
    validation_fraction=0.2,
    early_stopping_rounds=30,
    random_state=0,
).fit(train)
print(f"{policy.n_rounds_} rounds: {policy.stop_reason_}.")

# A softmax policy keeps exploring; a larger inverse temperature explores less. Judge each version you might deploy.
versions = {"as trained": 1.0, "sharper": 2.0, "sharp": 4.0}
probabilities = {
    name: policy.predict_proba(test.context, inverse_temperature=factor) for name, factor in versions.items()
}
evaluation = bopl.evaluate(test, probabilities, estimators="snips")
print(evaluation)

# Deploy: load the file, draw an action, and log it with its propensity, so that the next policy can learn from it.
policy.save("policy.bopl")
deployed = bopl.load("policy.bopl")
new_visitors = frame[["age", "visits", "hour", "member", "device"]].head(3)
action, propensity = deployed.sample(new_visitors, inverse_temperature=1.0, random_state=0)
print(new_visitors.assign(item=action, p=propensity))
