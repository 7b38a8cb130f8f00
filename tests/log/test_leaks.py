"""Columns that know too much are named; honest ones, however strong, are left alone."""

import numpy as np
import pandas as pd
import pytest

import bopl
from bopl.log.leak.reward_test import RewardTest
from bopl.log.leak.rules import Suspicion, judge_reward
from bopl.simulation import simulate_shop

ROLES = {"action": "banner", "reward": "click", "propensity": "p"}


def shop(n_samples=8000, seed=0, **columns):
    frame = simulate_shop(n_samples, random_state=seed).to_frame("pandas")
    return frame.assign(**{name: make(frame, np.random.default_rng(seed)) for name, make in columns.items()})


def order_id(frame, rng):
    return pd.Series([f"o{row}" for row in range(len(frame))]).where(frame["click"] == 1)


def item_price(frame, rng):
    return frame["banner"].map({name: 3.0 + 2.0 * place for place, name in enumerate(sorted(set(frame["banner"])))})


def revenue(frame, rng):
    return np.where((frame["click"] == 1) & (rng.random(len(frame)) < 0.4), np.exp(rng.normal(size=len(frame))), 0.0)


def request(frame, rng):
    return [f"r{row}" for row in rng.permutation(len(frame))]


def leaks_of(frame, **more):
    return {leak.column: leak for leak in bopl.BanditLog.from_frame(frame, **ROLES, **more).leaks()}


def test_a_clean_log_has_no_leaks():
    assert leaks_of(shop()) == {}


@pytest.mark.parametrize("n_samples", [2000, 8000])
@pytest.mark.parametrize(
    ("make", "knows"), [(order_id, "reward"), (item_price, "action"), (revenue, "outcome"), (request, "identifier")]
)
def test_a_column_that_knows_too_much_is_named_and_no_other(n_samples, make, knows):
    found = leaks_of(shop(n_samples, added=make))
    assert set(found) == {"added"}
    assert (found["added"].knows, found["added"].certainty) == (knows, "sure")


def test_a_rank_by_the_reward_is_named_in_a_short_log():
    def place(frame, rng):  # whoever clicked ranks above all others
        return (frame["click"] + 0.5 * rng.random(len(frame))).rank()

    for seed in range(3):
        assert leaks_of(shop(2000, seed, place=place))["place"].knows == "reward"
        assert leaks_of(shop(2000, seed, place=lambda frame, rng: -place(frame, rng)))["place"].certainty == "sure"


@pytest.mark.parametrize("place", range(3))
def test_a_column_that_is_filled_after_rewards_of_a_single_action_is_named(place):
    frame = shop(20_000)
    chosen = sorted(set(frame["banner"]))[place]
    filled = (frame["banner"] == chosen) & (frame["click"] == 1)
    frame["watched"] = np.where(filled, np.random.default_rng(place).exponential(20.0, len(frame)), np.nan)
    assert leaks_of(frame)["watched"].is_problem


def test_a_column_that_goes_against_what_actions_earn_is_as_late_as_one_that_goes_with_it():
    test = RewardTest(explained=0.1, honest_z=-9.0, leak_z=-15.0)
    leak = judge_reward("watched", test, Suspicion(5, 1.0, are_propensities_sound=True), "reward")
    assert leak is not None
    assert leak.certainty == "doubtful"
    assert "goes against what the drawn action earned" in leak.sentence


def counted(frame, rng):
    before = rng.poisson(5.0, len(frame))
    return {"orders before": before, "orders in all": before + frame["click"]}


def spent(frame, rng):
    before = np.exp(rng.normal(3.0, 1.0, len(frame)))
    return {"spent in all": before + 5.0 * frame["click"], "spent before": before}


def changed(frame, rng):
    created = pd.Timestamp("2024-03-01") + pd.to_timedelta(rng.integers(0, 90 * 86_400, len(frame)), unit="s")
    wait = np.where(frame["click"] == 1, rng.integers(30, 4000, len(frame)), 0)
    return {"created at": created, "updated at": created + pd.to_timedelta(wait, unit="s")}


@pytest.mark.parametrize(
    ("make", "later", "earlier"),
    [
        (counted, "orders in all", "orders before"),
        (spent, "spent in all", "spent before"),
        (changed, "updated at", "created at"),
    ],
)
def test_what_the_difference_of_two_columns_reveals_is_named_for_the_later_one(make, later, earlier):
    frame = shop()
    pair = make(frame, np.random.default_rng(0))
    found = leaks_of(frame.assign(**pair))
    assert set(found) == {later}
    assert found[later].certainty == "sure"
    assert f"less {earlier!r}, it marks" in found[later].sentence
    for name in pair:
        assert leaks_of(frame.assign(**{name: pair[name]})) == {}


def test_columns_that_are_alike_are_honest_however_much_their_difference_tells():
    def more(frame, rng):
        before = np.exp(rng.normal(3.0, 1.0, len(frame)))
        return {"balance": before + frame["hour"] / 10.0, "balance before": before}

    frame = shop()
    assert leaks_of(frame.assign(**more(frame, np.random.default_rng(0)))) == {}


def test_a_price_is_blamed_and_the_propensities_are_not():
    log = bopl.BanditLog.from_frame(shop(item_price=item_price), **ROLES)
    audit = log.audit()
    assert [finding.check for finding in audit.problems] == ["leaks"]
    assert "Column 'item_price' reveals the action" in audit["leaks"].sentence
    assert not log.audit(keep=["item_price"]).problems
    assert not log.without_columns(["item_price"]).audit().problems


@pytest.mark.parametrize("form", [lambda p: 1.0 / p, np.log, lambda p: p.round(3)])
def test_a_propensity_in_another_form_is_named_as_one(form):
    for n_samples in (2000, 8000):
        leak = leaks_of(shop(n_samples, weight=lambda frame, rng: form(frame["p"])))["weight"]
        assert (leak.knows, leak.certainty) == ("action", "sure")
        assert "it is the propensity of the action that was taken" in leak.sentence


def test_wrong_propensities_are_not_blamed_on_columns():
    frame = shop()
    frame["p"] = np.minimum(1.3 * frame["p"], 1.0)
    audit = bopl.BanditLog.from_frame(frame, **ROLES).audit()
    assert audit["mean_weight_uniform"].status == "problem"
    assert audit["leaks"].status == "ok"


@pytest.mark.parametrize("drawn", [0.75, 0.95])
def test_columns_are_not_blamed_where_propensities_are_far_too_small_for_few_actions(drawn):
    """A quarter was logged for each of four arms, of which two were ever drawn, one of them mostly."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(size=2000), "country": rng.choice(["DE", "FR"], 2000)})
    frame = frame.assign(banner=np.where(rng.random(2000) < drawn, "a", "b"), click=rng.random(2000) < 0.1, p=0.25)
    assert not leaks_of(frame)
    told = leaks_of(frame.assign(item_price=item_price(frame, rng)))
    assert [(name, leak.knows, leak.certainty) for name, leak in told.items()] == [("item_price", "action", "sure")]


def test_the_label_of_a_certain_reward_is_honest():
    rng = np.random.default_rng(0)
    label, action = rng.integers(4, size=(2, 5000))
    context = np.column_stack([label, rng.normal(size=5000)])
    log = bopl.BanditLog(context, action, (action == label).astype(float), np.full(5000, 0.25))
    assert log.leaks() == ()


def test_who_takes_any_offer_is_honest():
    rng = np.random.default_rng(0)
    worth, action = rng.normal(size=5000), rng.integers(3, size=5000)
    reward = (worth > np.array([-0.7, 0.0, 0.7])[action]).astype(float)
    assert bopl.BanditLog(worth[:, None], action, reward, np.full(5000, 1 / 3)).leaks() == ()


@pytest.mark.parametrize(("n_marked", "is_blamed"), [(70, False), (400, True)])
def test_who_nearly_always_buys_is_honest_in_a_short_log(n_marked, is_blamed):
    # In a long one nobody is so sure: that a column decides the reward whatever the action was, many must show.
    rng = np.random.default_rng(0)
    n_samples = 7 * n_marked
    action, reward = rng.integers(2, size=n_samples), (rng.random(n_samples) < 0.25).astype(float)
    reward[:n_marked] = np.arange(n_marked) != 3
    bought = np.where(np.arange(n_samples) < n_marked, rng.normal(size=n_samples), np.nan)
    context = np.column_stack([bought, rng.normal(size=n_samples)])
    found = bopl.BanditLog(context, action, reward, np.full(n_samples, 0.5)).leaks()
    assert bool(found) == is_blamed


def test_a_time_that_is_filled_after_a_reward_is_named():
    frame = shop()
    moment = pd.Series(np.datetime64("2024-03-01") + np.arange(len(frame)).astype("timedelta64[m]"))
    frame["delivered_at"] = (moment + pd.Timedelta(hours=3)).where(frame["click"] == 1)
    frame["signed_up"] = moment - pd.Timedelta(days=30)
    found = leaks_of(frame.assign(when=moment), time="when")
    assert {name: leak.knows for name, leak in found.items()} == {"delivered_at": "time"}


def test_the_time_of_the_decision_is_tried_by_its_weekday_and_hour():
    frame = shop(2000)
    hours = 5 * np.arange(len(frame))
    when = np.datetime64("2024-03-01") + hours.astype("timedelta64[h]")
    log = bopl.BanditLog.from_frame(frame.assign(when=when), **ROLES, time="when")
    assert "when (hour)" in log.feature_names
    assert log.leaks() == ()


def test_leaks_of_sparse_contexts_and_of_arrays_are_named_by_position():
    from scipy.sparse import csr_array

    log = simulate_shop(6000).to_log()
    context = np.column_stack([np.nan_to_num(log.context), log.reward])
    for matrix in (context, csr_array(context)):
        found = bopl.BanditLog(matrix, log.action, log.reward, log.propensity).leaks()
        assert [leak.column for leak in found] == [context.shape[1] - 1]


def test_columns_left_out_are_out_of_context_names_and_schema():
    log = bopl.BanditLog.from_frame(shop(500), **ROLES)
    less = log.without_columns(["device", "hour"])
    assert less.n_features == log.n_features - 2
    assert less.feature_names == less.schema.feature_names
    with pytest.raises(ValueError, match="no context column 'colour'"):
        log.without_columns(["colour"])
    with pytest.raises(ValueError, match="no context column is left"):
        log.without_columns([column.name for column in log.schema.columns])


def personal_log(n_samples, seed, **columns):
    """Actions that earn the same on the whole and not in any context; drawn by a policy that knows some of it."""
    rng = np.random.default_rng(seed)
    context, n_actions = rng.normal(size=(n_samples, 3)), 5
    prob = np.exp(0.7 * context @ rng.normal(size=(3, n_actions)))
    prob /= prob.sum(axis=1, keepdims=True)
    action = (prob.cumsum(axis=1) > rng.random((n_samples, 1))).argmax(axis=1)
    own = np.arange(n_samples), action
    rate = 1.0 / (1.0 + np.exp(0.8 - 0.8 * (context @ rng.normal(size=(3, n_actions)))[own]))
    frame = pd.DataFrame(context, columns=["x0", "x1", "x2"])
    frame = frame.assign(banner=action, click=(rng.random(n_samples) < rate).astype(int), p=prob[own])
    return frame.assign(**{name: make(frame, rng) for name, make in columns.items()})


def dwell(frame, rng):
    return rng.exponential(size=len(frame)) * (1.0 + 5.0 * frame["click"])


def liked(frame, rng):
    return np.where(rng.random(len(frame)) < 0.8, frame["click"], rng.random(len(frame)) < 0.3).astype(float)


def test_traces_of_the_reward_are_named_where_actions_differ_only_by_context():
    for seed in range(3):
        found = leaks_of(personal_log(6000, seed, dwell=dwell))
        assert {name: (leak.knows, leak.certainty) for name, leak in found.items()} == {"dwell": ("reward", "sure")}
        assert set(leaks_of(personal_log(6000, seed, dwell=dwell, liked=liked))) == {"dwell", "liked"}
        assert leaks_of(personal_log(6000, seed)) == {}


def test_leaks_of_a_log_of_one_group_are_looked_for():
    frame = shop(2000, added=order_id, user=lambda frame, rng: "one")
    assert set(leaks_of(frame, group="user")) == {"added"}
    assert leaks_of(frame.drop(columns="added"), group="user") == {}


def visits_of_users(n_samples, seed, *, sharpness=0.0):
    """Return visits of users who keep the action that they drew, by their trait the more, the sharper."""
    rng = np.random.default_rng(seed)
    n_users = n_samples // 10
    user, trait = rng.integers(n_users, size=n_samples), rng.normal(size=(n_users, 3))
    action = (rng.random(n_users) < 1.0 / (1.0 + np.exp(-sharpness * trait[:, 0]))).astype(int)[user]
    love = trait[user, 0] + 0.4 * action * trait[user, 1] + rng.normal(size=n_users)[user]
    columns = {f"trait{idx}": trait[user, idx] for idx in range(3)}
    varying = {"hour": rng.integers(24, size=n_samples), "page": rng.choice(["home", "cart", "list"], n_samples)}
    click = rng.random(n_samples) < 1.0 / (1.0 + np.exp(1.0 - love))
    return pd.DataFrame({**columns, **varying, "user": user, "banner": action, "click": click, "p": 0.5})


@pytest.mark.parametrize("n_samples", [2000, 10000])
def test_users_who_keep_their_action_are_a_missing_group_and_their_traits_are_honest(n_samples):
    for seed in range(3):
        frame = visits_of_users(n_samples, seed)
        assert leaks_of(frame, ignore=["user"]) == {}
        assert leaks_of(frame, group="user") == {}
        audit = bopl.BanditLog.from_frame(frame, **ROLES, ignore=["user"]).audit()
        assert [finding.check for finding in audit.problems] == ["duplicated_rows"]
        assert "name their group" in audit["duplicated_rows"].sentence
        assert "trait0" in leaks_of(visits_of_users(n_samples, seed, sharpness=3.0), ignore=["user"])


def rank_of_an_ad(frame, rng):
    """Return the score by which ads were ranked, 0 where none was shown."""
    return np.where(frame["banner"] == sorted(set(frame["banner"]))[0], 0.0, rng.random(len(frame)))


def discount(frame, rng):
    """Return what all banners but one took off a price; many of the amounts come again."""
    amount = rng.integers(1, 400, len(frame)) / 10
    return np.where(frame["banner"] == sorted(set(frame["banner"]))[-1], 0.0, amount)


@pytest.mark.parametrize("make", [rank_of_an_ad, discount])
@pytest.mark.parametrize("n_samples", [2000, 10000])
def test_a_column_that_is_empty_after_some_actions_is_not_taken_for_draws_that_users_kept(n_samples, make):
    frame = shop(n_samples, late=make)
    audit = bopl.BanditLog.from_frame(frame, **ROLES).audit()
    assert [(leak.column, leak.knows) for leak in audit.leaks] == [("late", "action")]
    assert [finding.check for finding in audit.problems] == ["leaks"]
