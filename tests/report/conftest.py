from copy import copy
from dataclasses import replace

import numpy as np
import pytest

import bopl
from bopl.report import summarise, write_page
from bopl.simulation import simulate_shop
from bopl.simulation.shop import CATEGORIES

STEPS = [{"step": "read", "seconds": 0.04, "peak_mib": 210.5}, {"step": "train", "seconds": 83.0, "peak_mib": 3100.0}]
CONFIG = {"log": "shop.parquet", "policy": {"n_rounds": 12, "learner": {"max_depth": 4}}, "validation": None}
SCRIPT = "<script>document.title='owned'</script>"
LONG = "a name that goes on and on, as names in warehouses do, " * 3


@pytest.fixture(scope="session")
def shop_summary():
    """The summary of a run with everything in it."""
    train, test = simulate_shop(4000).to_log().split(0.4, random_state=0)
    learner = bopl.HistTree(max_depth=4, min_child_weight=20.0, categorical=list(CATEGORIES))
    policy = bopl.BoostedPolicy(learner=learner, n_rounds=12, reward_translation=-0.15, validation_fraction=0.2)
    policy.set_params(random_state=0).fit(train)
    model = bopl.BoostedRewardModel(n_rounds=5)
    evaluation = bopl.evaluate(test, {"new": policy}, estimators=["dr", "snips", "ips", "dm"], reward_model=model)
    audit = test.audit(policy)
    return summarise(policy, test, evaluation, audit=audit, config=CONFIG, steps=STEPS, encoder=CATEGORIES)


def nasty_log(n_samples=1500, n_actions=200):
    """Return a log whose names are as bad as they get: markup, long, other scripts, empty."""
    rng = np.random.default_rng(0)
    names = [SCRIPT, LONG, "名前と値 и ещё кое-что", '"quoted" & <b>bold</b>', " ", "x̄² / √n", "</script>", "a\u2028b"]
    context = rng.normal(size=(n_samples, len(names)))
    context[:, 3] = rng.integers(0, 3, n_samples)
    context[:, 1] = 1e12 * context[:, 1]
    context[rng.random(context.shape) < 0.1] = np.nan
    actions = [f"{SCRIPT} {idx}" if idx % 3 else f"{idx} {LONG}" for idx in range(n_actions)]
    chosen = rng.integers(0, n_actions, n_samples)
    reward = -1e-3 * (1.0 + (chosen % 7 == np.nan_to_num(context[:, 3])))
    return bopl.BanditLog(
        context,
        [actions[idx] for idx in chosen],
        reward,
        np.full(n_samples, 1.0 / n_actions),
        actions=actions,
        feature_names=names,
    )


@pytest.fixture(scope="session")
def nasty_summary():
    """The summary of a run with 200 actions, names that are markup, negative rewards and a log that cannot answer."""
    log = nasty_log()
    learner = bopl.HistTree(3)
    policy = bopl.BoostedPolicy("surrogate", learner, n_rounds=3, reward_translation=0.002, random_state=0).fit(log)
    evaluation = bopl.evaluate(log, {SCRIPT: policy, LONG: np.full(len(log), 1 / 200)}, estimators=["snips", "ips"])
    encoder = {'"quoted" & <b>bold</b>': [SCRIPT, LONG, "三"]}
    config = {SCRIPT: LONG, "a": {"b": SCRIPT}}
    return summarise(policy, log, evaluation, audit=log.audit(policy), config=config, encoder=encoder)


@pytest.fixture(scope="session")
def bare_summary():
    """The summary of a policy that has neither trees nor a history, without anything optional."""
    log = simulate_shop(800).to_log()
    policy = bopl.baseline.UniformPolicy().fit(log)
    return summarise(policy, log, bopl.evaluate(log, policy))


@pytest.fixture(scope="session")
def race_policy():
    """A policy that won a race, the log it was trained on and held-out samples."""
    train, test = simulate_shop(2500).to_log().split(0.4, random_state=0)
    include = ["regression", "dr", "surrogate"]
    return bopl.AutoPolicy(include, progress=False, random_state=0).fit(train), train, test


@pytest.fixture(scope="session")
def race_summary(race_policy):
    """The summary of a policy that won a race."""
    policy, _, test = race_policy
    return summarise(policy, test, bopl.evaluate(test, policy), encoder=CATEGORIES)


@pytest.fixture(scope="session")
def blend_summary(race_policy):
    """The summary of a greedy blend, with a leaderboard as bad as they get: long names, wide intervals, one unbegun."""
    policy, train, test = race_policy
    parts = [
        bopl.BoostedPolicy(name, n_rounds=8, inverse_temperature=3.0, progress=False, random_state=0).fit(train)
        for name in ("dr", "ips")
    ]
    blended = copy(policy)
    blended.best_policy_ = bopl.BlendedPolicy.of(parts, inverse_temperature=np.inf)
    entry, nan = policy.leaderboard_[0], float("nan")
    odd = [
        replace(entry, candidate="blend", about=LONG, status="won"),
        replace(entry, candidate=SCRIPT, about=SCRIPT, status="in the blend", lower=-3.0, upper=5.0),
        replace(entry, candidate=LONG, about=LONG, status=f"dropped after {10**6} rounds", uplift=-1.0, upper=-0.5),
        replace(entry, value=nan, uplift=nan, lower=nan, upper=nan, seconds=nan, status="not begun"),
    ]
    blended.leaderboard_ = replace(policy.leaderboard_, entries=tuple(odd))
    return summarise(blended, test, bopl.evaluate(test, blended), encoder=CATEGORIES)


@pytest.fixture(scope="session")
def pages(tmp_path_factory, shop_summary, nasty_summary, bare_summary, race_summary, blend_summary):
    folder = tmp_path_factory.mktemp("pages")
    summaries = {"shop": shop_summary, "nasty": nasty_summary, "bare": bare_summary}
    summaries |= {"race": race_summary, "blend": blend_summary}
    for name, summary in summaries.items():
        write_page(summary, folder / f"{name}.html")
    return {name: folder / f"{name}.html" for name in summaries}
