"""Small logs for tests: generated, seeded, as nasty as asked for."""

import numpy as np
from hypothesis import strategies as st

import bopl
from bopl.objective import OBJECTIVES, WEIGHTS, TrainingData

OBJECTIVE_NAMES, WEIGHT_NAMES = tuple(OBJECTIVES), tuple(WEIGHTS)  # before a test registers one of its own


def make_log(seed=0, *, n_samples=60, n_features=3, n_actions=4, min_propensity=0.05, negative=True, distinct=None):
    """Return a random log; ``distinct`` limits the number of values of a context column, so that contexts repeat."""
    rng = np.random.default_rng(seed)
    context = rng.normal(size=(n_samples, n_features))
    if distinct is not None:
        context = rng.integers(0, distinct, size=(n_samples, n_features))
    reward = rng.normal(size=n_samples) if negative else rng.random(n_samples)
    propensity = np.exp(rng.uniform(np.log(min_propensity), 0.0, size=n_samples))
    action = rng.integers(0, n_actions, size=n_samples)
    return bopl.BanditLog(context, action, reward, propensity, actions=list(range(n_actions)))


def informative_log(seed=0, *, n_samples=400, n_actions=3):
    """Return a log in which the sign pattern of the context says which action is best."""
    rng = np.random.default_rng(seed)
    context = rng.normal(size=(n_samples, 4))
    best = np.digitize(context[:, 0], np.quantile(context[:, 0], np.linspace(0, 1, n_actions + 1)[1:-1]))
    action = rng.integers(0, n_actions, size=n_samples)
    reward = (action == best) + 0.1 * rng.normal(size=n_samples)
    return bopl.BanditLog(context, action, reward, np.full(n_samples, 1 / n_actions), actions=list(range(n_actions)))


def masked(log, seed=0, share=0.6):
    """Return a log with the same samples in which about this share of the actions is eligible."""
    mask = np.random.default_rng(seed).random((log.n_samples, log.n_actions)) < share
    mask[np.arange(log.n_samples), log.action_idx] = True
    return bopl.BanditLog(log.context, log.action, log.reward, log.propensity, actions=log.actions, action_mask=mask)


def training_data(log, seed=0, *, has_weight=False):
    """Return a log's samples with random reward estimates, and with sample weights if asked for."""
    rng = np.random.default_rng([seed, 7])
    weight = rng.exponential(size=log.n_samples) if has_weight else None
    return TrainingData(
        log,
        rng.normal(size=(log.n_samples, log.n_actions)),
        None if weight is None else weight / weight.mean(),
    )


def make_objective(name, weight="plain", **settings):
    """Return the objective of that name with the weight of that name, at its default strength."""
    return OBJECTIVES[name](weight=WEIGHTS[weight](), **settings)


@st.composite
def logs(draw):
    """Logs with negative rewards, zeros, tiny propensities, repeated contexts and actions never taken."""
    n_samples, n_actions = draw(st.integers(2, 40)), draw(st.integers(2, 6))
    log = make_log(
        draw(st.integers(0, 2**20)),
        n_samples=n_samples,
        n_features=draw(st.integers(1, 4)),
        n_actions=n_actions,
        min_propensity=10.0 ** -draw(st.integers(0, 9)),
        negative=draw(st.booleans()),
        distinct=draw(st.sampled_from([None, 1, 2, 3])),
    )
    zeroed = np.random.default_rng(0).random(n_samples) < draw(st.sampled_from([0.0, 0.3]))
    reward = np.where(zeroed, 0.0, log.reward)
    if not reward.any():
        reward = reward + 1.0
    return bopl.BanditLog(log.context, log.action, reward, log.propensity, actions=log.actions)
