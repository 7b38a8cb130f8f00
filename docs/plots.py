"""Draw the figures of the documentation from real runs, each for a light and for a dark page.

Run it with `python docs/plots.py`, or with the names of some figures behind it. All of them take a few minutes.
"""

import sys
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

import bopl

FOLDER = Path(__file__).parent / "images"
EXAMPLES = Path(__file__).parents[1] / "examples"
sys.path.insert(0, str(EXAMPLES))

INK = {"light": "#333a45", "dark": "#c9d1d9"}
COLOURS = {
    "light": ["#1565c0", "#d1600a", "#2e7d32", "#8e24aa", "#757575"],
    "dark": ["#64b5f6", "#ffb066", "#81c784", "#ce93d8", "#9e9e9e"],
}
LINE = {"linewidth": 1.8}
OBJECTIVES = {"ips": "BOPL (ips)", "surrogate": "BOPL-S (surrogate)"}


def main(names):
    figures = {
        "estimators": draw_estimators,
        "sharpness": draw_sharpness,
        "regression": draw_regression,
        "translation": draw_translation,
        "depth": draw_depth,
        "objectives": draw_objectives,
        "weights": draw_weights,
        "certificate": draw_certificate,
        "curvature": draw_curvature,
        "history": draw_history,
        "forest": draw_forest,
    }
    for name in names or figures:
        draw = figures[name]()
        for theme in INK:
            with mpl.rc_context(style(theme)):
                draw().savefig(
                    FOLDER / f"{name}-{theme}.svg", metadata={"Date": None}, transparent=True
                )
        print(f"{name} drawn")


def style(theme):
    """Return matplotlib's settings for a page of that colour."""
    ink = INK[theme]
    return {
        "axes.prop_cycle": mpl.cycler(color=COLOURS[theme]),
        "axes.edgecolor": ink,
        "axes.labelcolor": ink,
        "axes.spines.right": False,
        "axes.spines.top": False,
        "axes.titlesize": 11,
        "font.size": 10,
        "legend.frameon": False,
        "svg.hashsalt": "bopl",
        "text.color": ink,
        "xtick.color": ink,
        "ytick.color": ink,
    }


# -- Estimators ----------------------------------------------------------------------------------------------------


def draw_estimators(n_logs=300):
    """Estimates of one policy's value from many logs of the same world, beside the truth."""
    world = bopl.simulation.make_world(
        "estimators", sharpness=1.2, exploration=0.05, n_samples=2000, seed=3
    )
    labels = {
        "ips": "IPS",
        "clipped_ips": "IPS, clipped\nat 10",
        "snips": "SNIPS",
        "dm": "direct\nmethod",
        "dr": "DR",
    }
    kinds = ["ips", bopl.evaluation.ClippedIPS(10.0), "snips", "dm", "dr"]
    found = {name: [] for name in labels}
    for seed in range(n_logs):
        sample = world.sample(seed)
        policy = {"new": sample.policy_prob}
        for row in bopl.evaluate(
            sample.log, policy, estimators=kinds, reward_model=sample.reward_hat - 0.08
        ).rows:
            found[row["estimator"]].append(row["value"])

    def draw():
        figure = Figure(figsize=(7.2, 3.4), layout="constrained")
        panel = figure.subplots()
        parts = panel.violinplot(list(found.values()), showextrema=False, widths=0.8, points=200)
        for body, colour in zip(
            parts["bodies"], mpl.rcParams["axes.prop_cycle"].by_key()["color"], strict=True
        ):
            body.set(facecolor=colour, alpha=0.55)
        means = [np.mean(values) for values in found.values()]
        panel.plot(
            range(1, 6),
            means,
            "o",
            color=mpl.rcParams["text.color"],
            label="mean of the estimates",
        )
        panel.axhline(
            world.value,
            color=mpl.rcParams["text.color"],
            linestyle="--",
            linewidth=1,
            label="truth",
        )
        panel.set_xticks(range(1, 6), labels.values())
        panel.set_ylabel("estimated value")
        panel.set_ylim(0.4, 0.85)
        panel.legend(loc="upper right")
        return figure

    return draw


# -- How far from the log ------------------------------------------------------------------------------------------


def draw_sharpness():
    """One policy, ever sharper: what it earns, what the log says, and what the log is worth to it."""
    from make_clicks import click_rate, make_clicks

    frame = make_clicks().to_pandas()
    is_test = frame["user"] % 10 < 3  # a user is in one part only
    roles = {
        "action": "item",
        "reward": "click",
        "propensity": "p",
        "group": "user",
        "time": "day",
    }
    train = bopl.BanditLog.from_frame(frame[~is_test], **roles)
    test = bopl.BanditLog.from_frame(frame[is_test], **roles, schema=train.schema)
    learner = bopl.HistTree(max_depth=4, min_child_weight=20.0)
    policy = bopl.BoostedPolicy(
        "surrogate", learner, n_rounds=150, reward_translation=-0.1, random_state=0
    ).fit(train)
    rate = click_rate_of(frame[is_test], click_rate)
    factors, rows, truth = np.array([0.0, 0.5, 1, 1.5, 2, 3, 4, 6, 8, 12, 16]), [], []
    for factor in factors:
        action_prob = policy.predict_proba(test.context, inverse_temperature=factor)
        rows.append(bopl.evaluate(test, {"policy": action_prob}, estimators="snips").row())
        truth.append(float((action_prob * rate).sum(axis=1).mean()))

    def draw():
        figure = Figure(figsize=(7.2, 3.2), layout="constrained")
        value, worth = figure.subplots(1, 2)
        x = np.arange(len(factors))
        value.fill_between(
            x,
            [r["ci_lower"] for r in rows],
            [r["ci_upper"] for r in rows],
            alpha=0.25,
            label="95% interval",
        )
        value.plot(
            x, [r["value"] for r in rows], "o-", markersize=3, label="SNIPS estimate", **LINE
        )
        value.plot(x, truth, linestyle="--", label="truth", **LINE)
        value.axhline(
            test.reward.mean(), linewidth=1, color=mpl.rcParams["axes.edgecolor"], linestyle=":"
        )
        value.annotate(
            "logging policy",
            (x[-1], test.reward.mean()),
            (0, 4),
            textcoords="offset points",
            ha="right",
        )
        value.set_title("clicks per visitor")
        value.set_ylim(top=0.25)
        value.legend(loc="upper left")
        worth.plot(x, [r["ess"] for r in rows], "o-", markersize=3, **LINE)
        worth.set_ylim(0)
        worth.set_title(f"effective samples, of {test.n_samples:,}")
        for panel in (value, worth):
            panel.set_xticks(x, [f"{factor:g}" for factor in factors])
            panel.set_xlabel("inverse temperature")
        return figure

    return draw


def click_rate_of(frame, click_rate):
    """Return the true click rates; where the age is missing, their mean over the ages that visitors may have."""
    visits, hour, member, device = (
        frame[name].to_numpy() for name in ("visits", "hour", "member", "device")
    )
    known = click_rate(frame["age"].to_numpy(), visits, hour, member, device)
    ages = (np.full(len(frame), age) for age in np.arange(16.0, 77.0, 2.0))
    mean = np.mean([click_rate(age, visits, hour, member, device) for age in ages], axis=0)
    return np.where(frame["age"].isna().to_numpy()[:, None], mean, known)


# -- Why regression is not enough -----------------------------------------------------------------------------------


def draw_regression():
    """Two actions, one feature, linear models: the best predictions are not the best decisions."""
    from custom_learner import RidgeByAction
    from sklearn.linear_model import LinearRegression

    rng = np.random.default_rng(0)
    grid = np.linspace(0.0, 1.0, 401)
    x, action = rng.random(6000), rng.integers(0, 2, size=6000)
    reward = (rng.random(6000) < two_rates(x)[np.arange(6000), action]).astype(float)
    log = bopl.BanditLog(x[:, None], action, reward, np.full(6000, 0.5))
    lines = [
        LinearRegression().fit(x[action == a, None], reward[action == a]).predict(grid[:, None])
        for a in (0, 1)
    ]
    chosen = {"regression": np.argmax(lines, axis=0)}
    for objective in OBJECTIVES:
        policy = bopl.BoostedPolicy(
            objective, RidgeByAction(penalty=1e-3), n_rounds=1000, reward_translation=-0.5
        )
        chosen[objective] = policy.fit(log).predict(grid[:, None])
    turn = {name: grid[np.flatnonzero(choice == 1)[0]] for name, choice in chosen.items()}
    earned = {
        name: two_rates(grid)[np.arange(len(grid)), choice].mean()
        for name, choice in chosen.items()
    }
    print(turn, earned, two_rates(grid).max(axis=1).mean())

    def draw():
        figure = Figure(figsize=(7.2, 3.3), layout="constrained")
        panel = figure.subplots()
        for a, name in enumerate("AB"):
            panel.plot(
                grid, two_rates(grid)[:, a], color=f"C{a}", label=f"{name}: true reward", **LINE
            )
            panel.plot(
                grid,
                lines[a],
                color=f"C{a}",
                linestyle="--",
                label=f"{name}: linear regression",
                **LINE,
            )
        panel.axvspan(turn["ips"], turn["regression"], alpha=0.15, color="C4", linewidth=0)
        for name, colour in (("ips", "C2"), ("regression", "C4")):
            panel.axvline(turn[name], color=colour, linewidth=1.8)
        text = {"textcoords": "offset points", "va": "bottom"}
        panel.annotate(
            "learned policy takes B from here",
            (turn["ips"], 1.0),
            (-4, 0),
            color="C2",
            ha="right",
            **text,
        )
        panel.annotate(
            "regression only from here", (turn["regression"], 1.0), (4, 0), ha="left", **text
        )
        panel.set(xlabel="context", ylabel="reward", ylim=(-0.1, 1.1), xlim=(0.0, 1.0))
        panel.legend(loc="lower right")
        return figure

    return draw


def two_rates(x):
    """Return the true mean rewards: A earns 0.6 everywhere, B nearly nothing up to 0.35 and more than A beyond."""
    return np.column_stack([np.full(len(x), 0.6), np.where(x < 0.35, 0.1, 0.85)])


# -- Translation and depth ------------------------------------------------------------------------------------------


def draw_translation(n_trials=5):
    """True reward and mean importance weight after training with rewards moved up or down."""
    moves = [0.1, 0.0, -0.05, -0.1, -0.2, -0.3, -0.4, -0.6, -0.8]
    problems = [bopl.simulation.simulate_digits(random_state=seed) for seed in range(n_trials)]
    reward, weight = (
        {name: np.empty((len(moves), n_trials)) for name in OBJECTIVES} for _ in range(2)
    )
    for objective in OBJECTIVES:
        for row, move in enumerate(moves):
            for trial, problem in enumerate(problems):
                policy = demo_policy(objective, reward_translation=move).fit(problem.train)
                reward[objective][row, trial] = problem.true_value(policy)
                weight[objective][row, trial] = policy.history_["mean_importance_weight"][-1]

    def draw():
        figure = Figure(figsize=(7.2, 3.2), layout="constrained")
        panels = figure.subplots(1, 2)
        for objective, label in OBJECTIVES.items():
            for panel, values in zip(panels, (reward[objective], weight[objective]), strict=True):
                band(panel, moves, values, label)
        panels[0].set_title("true reward on held-out digits")
        panels[0].legend(loc="lower center")
        panels[1].axhline(1.0, color=mpl.rcParams["axes.edgecolor"], linestyle=":", linewidth=1)
        panels[1].set_title("mean importance weight (1 expected)")
        for panel in panels:
            panel.set_xlabel("reward_translation")
            panel.invert_xaxis()
        return figure

    return draw


def draw_depth(n_trials=5):
    """True reward by depth of the trees, for policies and for a reward regression."""
    depths = [2, 3, 4, 6, 8, 10, 14]
    problems = [bopl.simulation.simulate_digits(random_state=seed) for seed in range(n_trials)]
    reward = {name: np.empty((len(depths), n_trials)) for name in [*OBJECTIVES, "regression"]}
    for row, depth in enumerate(depths):
        for trial, problem in enumerate(problems):
            policies = {name: demo_policy(name, max_depth=depth) for name in OBJECTIVES}
            tree = bopl.HistTree(max_depth=depth, min_samples_leaf=5)
            policies["regression"] = bopl.baseline.BoostedRewardPolicy(tree, n_rounds=300)
            for name, policy in policies.items():
                reward[name][row, trial] = problem.true_value(policy.fit(problem.train))

    def draw():
        figure = Figure(figsize=(6.4, 3.2), layout="constrained")
        panel = figure.subplots()
        for name, label in (OBJECTIVES | {"regression": "reward regression"}).items():
            band(panel, depths, reward[name], label)
        panel.set(xlabel="max_depth", ylabel="true reward", xticks=depths, ylim=(0.0, 1.0))
        panel.legend(loc="lower right")
        return figure

    return draw


def demo_policy(objective, *, max_depth=14, reward_translation=-0.2):
    learner = bopl.HistTree(max_depth=max_depth, min_child_weight=20.0)
    return bopl.BoostedPolicy(
        objective, learner, n_rounds=150, reward_translation=reward_translation, random_state=0
    )


def band(panel, x, values, label):
    """Draw the mean over trials, and the range of the trials around it."""
    line = panel.plot(x, values.mean(axis=1), "o-", markersize=3, label=label, **LINE)[0]
    panel.fill_between(
        x, values.min(axis=1), values.max(axis=1), color=line.get_color(), alpha=0.18, linewidth=0
    )


# -- Objectives and weights -----------------------------------------------------------------------------------------


def draw_objectives(sizes=(1000, 2000, 4000, 8000)):
    """True reward of every objective by the length of the log, with deterministic and with noisy rewards."""
    mixture = bopl.simulation.make_mixture(20, n_features=8)
    found = {"deterministic": {}, "noisy": {}}
    for size in sizes:
        certain = bopl.simulation.simulate_mixture(mixture, n_samples=size)
        noisy = bopl.simulation.with_noisy_rewards(certain)
        for rewards, problem in (("deterministic", certain), ("noisy", noisy)):
            for name, policy in single_policies().items():
                value = problem.true_value(policy.fit(problem.train))
                found[rewards].setdefault(name, []).append(value)
            greedy = problem.true_value(problem.logging_policy)
            found[rewards].setdefault("logging policy, greedy", []).append(greedy)
    for rewards, values in found.items():
        print(rewards, {name: np.round(row, 3).tolist() for name, row in values.items()})

    def draw():
        figure = Figure(figsize=(7.2, 3.9), layout="constrained")
        panels = figure.subplots(1, 2, sharey=True)
        for panel, (rewards, values) in zip(panels, found.items(), strict=True):
            for name, row in values.items():
                panel.plot(sizes, row, label=name, **OBJECTIVE_LINES[name])
            panel.set_xscale("log")
            panel.set_xticks(sizes, [f"{size:,}" for size in sizes])
            panel.minorticks_off()
            panel.set(xlabel="logged samples", title=f"{rewards} rewards", ylim=(0.0, 0.8))
        panels[0].set_ylabel("share of right actions")
        figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
        return figure

    return draw


OBJECTIVE_LINES = {
    "AutoPolicy": {"color": "C1", "linewidth": 3.2, "marker": "o", "markersize": 5, "zorder": 3},
    "logging policy, greedy": {"color": "C4", "linestyle": ":", "linewidth": 1.6},
    "ips": {"color": "C0", "marker": "s", "markersize": 3, **LINE},
    "surrogate": {"color": "C0", "linestyle": "--", "marker": "s", "markersize": 3, **LINE},
    "likelihood": {"color": "C2", "marker": "^", "markersize": 4, **LINE},
    "dr": {"color": "C3", "marker": "D", "markersize": 3, **LINE},
    "start of dr": {
        "color": "C3",
        "linestyle": "--",
        "marker": "D",
        "markersize": 3,
        **LINE,
    },
}


def single_policies():
    """Return the objectives as they come, and the race."""
    likelihood = bopl.objective.Surrogate(weight=bopl.objective.ExponentialSmoothing(0.0))
    objectives = {name: name for name in ("ips", "surrogate", "dr")} | {"likelihood": likelihood}
    policies = {
        name: bopl.BoostedPolicy(objective, certificate=False, random_state=0)
        for name, objective in objectives.items()
    }
    start = bopl.BoostedPolicy(n_rounds=0, certificate=False, random_state=0)
    return policies | {
        "start of dr": start,
        "AutoPolicy": bopl.AutoPolicy(random_state=0),
    }


def draw_weights():
    """What a reward of 1 counts, by the propensity of its action."""
    weights = {
        "plain": bopl.objective.Plain(),
        "clipped, τ = 0.05": bopl.objective.Clipped(0.05),
        "implicit exploration, γ = 0.05": bopl.objective.ImplicitExploration(0.05),
        "exponential smoothing, α = 0.5": bopl.objective.ExponentialSmoothing(0.5),
        "log smoothing, λ = 0.1": bopl.objective.LogSmoothing(0.1),
    }
    propensity = np.geomspace(0.002, 1.0, 200)

    def draw():
        figure = Figure(figsize=(6.4, 3.4), layout="constrained")
        panel = figure.subplots()
        for (label, weight), dash in zip(
            weights.items(), ("-", "--", "-.", ":", "-"), strict=True
        ):
            value = weight(np.ones_like(propensity), propensity)
            panel.loglog(propensity, value, dash, label=label, **LINE)
        panel.set(xlabel="propensity", ylabel="what a reward of 1 counts")
        panel.set_xticks([0.002, 0.01, 0.05, 0.2, 1.0], ["0.002", "0.01", "0.05", "0.2", "1"])
        panel.set_yticks([1, 10, 100, 500], ["1", "10", "100", "500"])
        panel.minorticks_off()
        panel.legend(loc="upper right")
        return figure

    return draw


# -- The certificate ------------------------------------------------------------------------------------------------


def draw_certificate():
    """The risk under its bounds, for BOPL on the digits."""
    problem = bopl.simulation.simulate_digits(random_state=0)
    history = demo_policy("ips").fit(problem.train).history_

    def draw():
        figure = Figure(figsize=(7.2, 3.4), layout="constrained")
        whole, first = figure.subplots(1, 2, width_ratios=(3, 2))
        for panel, last in ((whole, None), (first, 8)):
            rounds = history["round"][:last]
            panel.plot(
                rounds,
                history["theorem_bound"][:last],
                linestyle="--",
                color="C2",
                label="Theorem 1",
                **LINE,
            )
            panel.plot(
                rounds,
                history["recursive_bound"][:last],
                color="C1",
                label="recursive bound",
                **LINE,
            )
            panel.plot(
                rounds, history.objective_risk[:last], color="C0", label="empirical risk", **LINE
            )
            panel.set_xlabel("round")
        whole.axhline(
            history["opt_emp_risk"][0], linestyle=":", color="C4", label="OptEmpRisk", **LINE
        )
        whole.legend(loc="upper right")
        whole.set_title("all rounds")
        first.set_title("the first eight")
        for line in first.lines:
            line.set(marker="o", markersize=3)
        return figure

    return draw


def draw_curvature():
    """The second derivative of a softmax probability, between the sharp constants and the paper's."""
    p = np.linspace(0.0, 1.0, 401)
    two_actions = 2.0 * p * (1.0 - p) * (1.0 - 2.0 * p)
    upper = np.maximum(two_actions, 0.0)
    lower = np.minimum(two_actions, -p * (1.0 - p) / 2.0)
    extremes = (3.0 + np.sqrt(3.0) * np.array([-1.0, 1.0])) / 6.0

    def draw():
        figure = Figure(figsize=(6.4, 3.4), layout="constrained")
        panel = figure.subplots()
        panel.fill_between(p, lower, upper, alpha=0.2, linewidth=0, label="any number of actions")
        panel.plot(p, two_actions, label="two actions", **LINE)
        for smoothness, text, colour in (("sharp", "√3/9", "C2"), ("paper", "1/2", "C1")):
            for sign, symbol in ((1.0, ""), (-1.0, "−")):
                height = sign * bopl.theory.softmax_smoothness(smoothness=smoothness)
                panel.axhline(height, color=colour, linestyle="--", linewidth=1.4)
                panel.annotate(
                    f"{symbol}{text} ({smoothness})",
                    (1.0, height),
                    (0, 3 * sign),
                    color=colour,
                    ha="right",
                    textcoords="offset points",
                    va="bottom" if sign > 0.0 else "top",
                )
        heights = bopl.theory.softmax_smoothness() * np.array([1.0, -1.0])
        panel.plot(extremes, heights, "o", color="C2", markersize=5)
        panel.axhline(0.0, color=mpl.rcParams["axes.edgecolor"], linewidth=0.8)
        panel.set(xlabel="probability", ylabel="second derivative", xlim=(0.0, 1.0))
        panel.set(ylim=(-0.62, 0.62), xticks=[0.0, *extremes, 0.5, 1.0])
        panel.set_xticklabels(["0", "(3−√3)/6", "(3+√3)/6", "1/2", "1"])
        panel.legend(loc="upper left", bbox_to_anchor=(0.0, 0.9))
        return figure

    return draw


def draw_history():
    """`policy.history_.plot()` of a fit with validation."""
    problem = bopl.simulation.simulate_digits(random_state=0)
    history = demo_policy("surrogate").fit(problem.train, validation=problem.validation).history_
    return history.plot


def draw_forest():
    """`evaluation.plot()` of two policies on one log."""
    problem = bopl.simulation.simulate_digits(random_state=0)
    policies = {"BOPL-S": demo_policy("surrogate"), "uniform": bopl.baseline.UniformPolicy()}
    for policy in policies.values():
        policy.fit(problem.train)
    evaluation = bopl.evaluate(problem.test, policies, estimators=["ips", "snips", "dr"])

    def draw():
        figure = evaluation.plot()
        for line in figure.axes[0].lines:
            if line.get_color() in ("black", "k"):
                line.set_color(mpl.rcParams["text.color"])
        return figure

    return draw


if __name__ == "__main__":
    main(sys.argv[1:])
