"""A log without propensities: what you can do, and what every number then depends on.

Run it with `python examples/no_propensities.py`.
"""

from make_clicks import make_clicks

import bopl

frame = make_clicks().to_pandas().drop(columns="p")
log = bopl.BanditLog.from_frame(frame, action="item", reward="click", propensity=None, group="user", time="day")

try:
    bopl.BoostedPolicy().fit(log)
except ValueError as error:
    print(f"Refused: {error}\n")

# Use a model of the logging policy instead. It knows only the context: if whoever chose the actions saw
# more than these columns, the estimates are wrong, and nothing in the log can show it.
log = bopl.estimate_propensity(log)
train, test = log.split(0.3, by="time")
learner = bopl.HistTree(max_depth=6, min_child_weight=20.0)
policy = bopl.BoostedPolicy("ips", learner, n_rounds=60, random_state=0)
evaluation = bopl.evaluate(test, {"new": policy.fit(train)}, estimators="snips")
print(evaluation)
