"""`AutoPolicy` as users meet it: what it takes, when it stops, what is kept, and scikit-learn's contract."""

import json
import warnings
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import bopl
from bopl._errors import LeakWarning, UnseenCategoryWarning
from bopl.boosting.loop import INTERRUPTED, Recorder
from bopl.log.leak.find import warn_of_leaks
from bopl.objective.softmax import softmax
from bopl.policy.policy import draw_actions
from bopl.race.auto import RACE_SHARE
from bopl.race.contender import Contender
from bopl.race.final import InMemory
from helpers import informative_log, masked
from product import ITEMS, click_table
from race_logs import certain_world, noise_world

FAST = ["regression", "ips"]


def auto(include=FAST, **settings):
    return bopl.AutoPolicy(include, **({"random_state": 0, "progress": False, "n_jobs": 1} | settings))


def share_right(policy, seed=9):
    """Return how often a policy takes the right action on fresh contexts of `informative_log`."""
    log = informative_log(seed, n_samples=2000)
    best = np.digitize(log.context[:, 0], np.quantile(log.context[:, 0], [1 / 3, 2 / 3]))
    return float((policy.predict(log.context) == best).mean())


def rebuilt(log, **changed):
    columns = {"context": log.context, "action": log.action, "reward": log.reward, "propensity": log.propensity}
    return bopl.BanditLog(**(columns | {"actions": list(log.actions)} | changed))


def names(policy):
    return [entry.candidate for entry in policy.leaderboard_]


def statuses(policy):
    return {entry.candidate: entry.status for entry in policy.leaderboard_}


# -- Who takes part ----------------------------------------------------------------------------------------------------


def test_include_and_exclude_decide_who_takes_part_and_the_logging_policy_always_does():
    log = informative_log()
    assert sorted(set(names(auto(["regression", "ips"], exclude=["ips"]).fit(log)))) == ["logging", "regression"]
    assert names(auto([]).fit(log)) == ["logging"]
    assert "logging" in names(auto(["regression"], exclude=["logging"]).fit(log))


def test_an_unknown_candidate_is_named_with_those_there_are():
    for settings in ({"include": ["regresion"]}, {"exclude": ["regresion"]}):
        with pytest.raises(ValueError, match=r"there is no candidate 'regresion'.*Did you mean 'regression'"):
            auto(**settings).fit(informative_log())


def test_candidates_are_chosen_by_name():
    with pytest.raises(TypeError, match="include and exclude are lists of names; got Candidate"):
        auto([bopl.race.candidates()[0]]).fit(informative_log())


@pytest.mark.parametrize("name", ["include", "exclude"])
def test_a_single_name_is_not_a_list(name):
    with pytest.raises(TypeError, match=rf"{name} must be a list of candidates; got 'dr'. Write {name}=\['dr'\]"):
        auto(**{name: "dr"}).fit(informative_log())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"minutes": 0.0}, "minutes must be"),
        ({"validation_fraction": 1.0}, "validation_fraction must lie in"),
        ({"n_jobs": 0}, "n_jobs must be"),
    ],
)
def test_wrong_settings_are_refused_before_anything_is_trained(settings, message):
    with pytest.raises(ValueError, match=message):
        auto(**settings).fit(informative_log())


def test_more_actions_than_a_reward_model_takes_leave_the_candidates_without_one():
    rng = np.random.default_rng(0)
    context, action = rng.normal(size=(400, 3)), rng.integers(0, 257, size=400)
    reward = (action % 2 == (context[:, 0] > 0)).astype(float)
    log = bopl.BanditLog(context, action, reward, np.full(400, 1 / 257), actions=list(range(257)))
    policy = auto(["dr", "regression", "ips", "likelihood"]).fit(log)
    assert sorted(set(names(policy)) - {"blend"}) == ["ips", "likelihood", "logging"]
    assert policy.predict_proba(context[:5]).shape == (5, 257)


# -- What it takes -----------------------------------------------------------------------------------------------------


def test_masks_are_kept_in_training_and_predicting():
    log = masked(informative_log(n_samples=600), share=0.7)
    log = rebuilt(log, propensity=1.0 / log.action_mask.sum(axis=1), action_mask=log.action_mask)
    policy = auto().fit(log)
    prob = policy.predict_proba(log.context, action_mask=log.action_mask)
    np.testing.assert_array_equal(prob[~log.action_mask], 0.0)
    np.testing.assert_allclose(prob.sum(axis=1), 1.0)
    rows = np.arange(log.n_samples)
    assert log.action_mask[rows, policy.predict(log.context, action_mask=log.action_mask).astype(int)].all()
    assert share_right(policy) > 0.85


def test_samples_of_one_group_are_never_on_both_sides(monkeypatch):
    log = informative_log(n_samples=500)
    group, seen = np.random.default_rng(0).integers(0, 60, size=500), []
    begin = Contender.begin

    def watched(self):
        seen.extend(self._panel.arenas)
        begin(self)

    monkeypatch.setattr(Contender, "begin", watched)
    policy = auto(["regression"]).fit(rebuilt(log, group=group))
    for arena in seen:
        judged = set(group[arena.rows])
        assert len(arena.rows) + arena.workbench.log.n_samples == 500
        assert all((group[arena.rows] == one).sum() == (group == one).sum() for one in judged)
    assert not policy.is_logging_


def test_samples_of_no_weight_are_not_learned_from():
    """Half of the log, of weight zero, says the contrary of the other half."""
    log = informative_log(n_samples=800)
    is_true = np.arange(800) % 2 == 0
    reward = np.where(is_true, log.reward, 1.0 - log.reward)
    both = log.with_reward(reward)
    policy = auto(["regression"]).fit(both, sample_weight=is_true.astype(float))
    assert share_right(policy) > 0.85


def test_action_features_sparse_contexts_and_plain_columns():
    log = informative_log()
    with_features = auto(["regression"]).fit(rebuilt(log, action_features=np.arange(3.0)[:, None]))
    np.testing.assert_array_equal(with_features.action_features_, np.arange(3.0)[:, None])
    assert share_right(with_features) > 0.85
    dense = np.where(np.abs(log.context) < 0.2, 0.0, log.context)
    policies = [auto(["regression"]).fit(rebuilt(log, context=one)) for one in (csr_array(dense), dense)]
    np.testing.assert_allclose(*(one.predict_proba(dense) for one in policies), atol=1e-6)
    np.testing.assert_array_equal(policies[0].predict(csr_array(dense)), policies[0].predict(dense))
    plain = auto(["regression"]).fit(log.context, log.action, reward=log.reward, propensity=log.propensity)
    np.testing.assert_array_equal(
        plain.predict_proba(log.context), auto(["regression"]).fit(log).predict_proba(log.context)
    )


def test_a_frame_with_categories_flags_times_and_gaps():
    roles = {"action": "item", "reward": "click", "propensity": "p", "group": "user"}
    log = bopl.BanditLog.from_frame(click_table(1500), **roles)
    policy = auto(["regression", "regression-logging"]).fit(log)
    new = click_table(1500, seed=8)
    age, city = (np.array(new[name].to_pylist(), dtype=kind) for name, kind in (("age", float), ("city", str)))
    best = np.where(city == "Rom", 0, np.where(np.nan_to_num(age, nan=50.0) < 40, 1, 2))
    right = policy.predict(new) == np.array(ITEMS)[best]
    assert right.mean() > 0.85
    assert right[np.isnan(age)].mean() > 0.7
    unknown = new.set_column(0, "city", pa.array(["Oslo"] * len(new)))
    with pytest.warns(UnseenCategoryWarning, match="'Oslo'"):
        np.testing.assert_allclose(policy.predict_proba(unknown).sum(axis=1), 1.0)


@pytest.mark.parametrize(("shift", "factor"), [(-5.0, 1.0), (-0.5, 3.0), (0.0, 1e4)])
def test_zero_and_unit_of_the_rewards_do_not_matter(shift, factor):
    log = informative_log()
    moved = log.with_reward(factor * log.reward + shift)
    policy = auto(["regression", "dr"]).fit(moved)
    assert not policy.is_logging_
    assert share_right(policy) > 0.85


@pytest.mark.parametrize("constant", [0.0, 0.3, -1.0])
def test_a_constant_reward_ends_at_the_logging_policy(constant):
    log, truth = noise_world(n_samples=600)
    policy = auto(["regression", "dr", "likelihood", "surrogate", "ips"]).fit(log.with_reward(np.full(600, constant)))
    assert policy.is_logging_
    assert "No candidate beats the logging policy" in policy.leaderboard_.verdict
    np.testing.assert_allclose(policy.predict_proba(truth.context), truth.logging_prob, atol=0.05)


def test_a_log_with_one_click_ends_at_the_logging_policy():
    """A training part may hold no reward at all: its candidates have nothing to learn, and do not fail."""
    log = noise_world(n_samples=300)[0]
    assert auto(["regression", "likelihood", "surrogate", "ips"]).fit(log.with_reward(np.eye(300)[7])).is_logging_


@pytest.mark.parametrize("n_samples", [3, 5, 10, 30])
@pytest.mark.parametrize("seed", [0, 1])
def test_tiny_logs_end_at_a_policy_that_answers(n_samples, seed):
    log = informative_log(seed, n_samples=30).subset(np.arange(n_samples))
    policy = auto(None).fit(log)
    prob = policy.predict_proba(log.context)
    assert np.isfinite(prob).all()
    np.testing.assert_allclose(prob.sum(axis=1), 1.0)


def test_too_few_samples_or_groups_are_refused_in_one_sentence():
    log = informative_log(n_samples=30)
    with pytest.raises(ValueError, match=r"needs at least 3 samples; the log has 2\. Train one policy instead"):
        auto().fit(log.subset(np.arange(2)))
    for n_groups in (1, 2):
        with pytest.raises(ValueError, match=f"needs at least 3 groups of samples; the log has {n_groups}"):
            auto().fit(rebuilt(log, group=np.arange(30) % n_groups))
    assert len(auto(["regression"]).fit(rebuilt(log, group=np.arange(30) % 3)).leaderboard_) == 2


def test_an_action_that_was_never_logged_is_not_taken():
    """Equal propensities say nothing of rewards, least of all of those of an action without a sample."""
    log = informative_log(n_samples=600)
    policy = auto(["regression-logging", "dr-logging", "dr-smooth"]).fit(rebuilt(log, actions=[0, 1, 2, 3]))
    assert policy.predict_proba(log.context)[:, 3].max() < 0.01


@pytest.mark.parametrize("seed", [0, 1])
def test_an_action_that_was_never_logged_is_not_taken_because_rare_actions_earn_more(seed):
    """The logging policy prefers what earns less; a line through that promises most of what it never did."""
    rng = np.random.default_rng(seed)
    context = rng.normal(size=(1200, 4))
    score = context @ rng.normal(size=(4, 3))
    prob = softmax(0.7 * score)
    action, rows = draw_actions(prob, rng), np.arange(1200)
    reward = (rng.random(1200) < np.where(action == score.argmin(axis=1), 0.6, 0.2)).astype(float)
    log = bopl.BanditLog(context, action, reward, prob[rows, action], actions=[0, 1, 2, 3])
    policy = auto(["regression", "regression-logging", "dr-logging"]).fit(log)
    assert policy.predict_proba(context)[:, 3].mean() < 0.01
    assert all(entry.value < 1.0 for entry in policy.leaderboard_)


# -- Time --------------------------------------------------------------------------------------------------------------


@pytest.fixture
def clock(monkeypatch):
    """A clock that only tests move."""
    made = SimpleNamespace(now=1000.0)
    made.monotonic = lambda: made.now
    for module in ("race.race", "race.auto", "race.final", "race.contender", "race.progress", "boosting.callback"):
        monkeypatch.setattr(f"bopl.{module}.time", made)
    return made


def taking(clock, monkeypatch, method, seconds, owner=Contender):
    """Let every call of a method take so many seconds of the clock; return the list of calls."""
    plain, calls = getattr(owner, method), []

    def slow(self, *args, **kwargs):
        calls.append(self)
        clock.now += seconds
        return plain(self, *args, **kwargs)

    monkeypatch.setattr(owner, method, slow)
    return calls


def test_the_race_takes_its_share_of_the_minutes_and_no_more_is_begun(clock, monkeypatch):
    assert pytest.approx(0.6) == RACE_SHARE  # of a minute: four candidates of ten seconds
    begun, advanced = (taking(clock, monkeypatch, name, 10.0) for name in ("begin", "advance"))
    policy = auto(["regression", "dr", "likelihood", "surrogate", "ips"], minutes=1.0).fit(informative_log())
    assert [one.candidate.name for one in begun] == ["logging", "regression", "dr", "likelihood"]
    assert not advanced
    found = statuses(policy)
    assert {name for name, status in found.items() if status == "not begun"} == {"surrogate", "ips"}
    assert not policy.is_interrupted_
    assert share_right(policy) > 0.85
    assert policy.best_policy_.training_rows_.n_samples == 400  # there was time to train it on all samples


def test_without_time_to_train_the_winner_the_race_s_own_policy_is_kept(clock, monkeypatch):
    taking(clock, monkeypatch, "advance", 100.0)
    policy = auto(["surrogate"], minutes=1.0).fit(informative_log())
    entry = next(entry for entry in policy.leaderboard_ if entry.candidate == "surrogate")
    assert entry.status == "won"
    assert policy.n_rounds_ == entry.rounds > 1
    assert share_right(policy) > 0.8


def test_a_race_without_time_still_has_the_logging_policy(clock, monkeypatch):
    taking(clock, monkeypatch, "begin", 1000.0)
    policy = auto(minutes=0.001).fit(noise_world(n_samples=300)[0])
    assert policy.is_logging_
    assert set(statuses(policy).values()) == {"won", "not begun"}


def test_minutes_that_are_enough_change_nothing(clock):
    log = informative_log()
    free, bounded = auto().fit(log), auto(minutes=1.0).fit(log)
    np.testing.assert_array_equal(free.predict_proba(log.context), bounded.predict_proba(log.context))
    assert free.leaderboard_ == bounded.leaderboard_  # seconds too: the clock stands still


# -- Ctrl-C ------------------------------------------------------------------------------------------------------------


def interrupting(monkeypatch, owner, method, call):
    """Raise Ctrl-C in the given call of a method."""
    plain, calls = getattr(owner, method), []

    def pressed(self, *args, **kwargs):
        calls.append(None)
        if len(calls) == call:
            raise KeyboardInterrupt
        return plain(self, *args, **kwargs)

    monkeypatch.setattr(owner, method, pressed)


@pytest.mark.usefixtures("full_reward_models")
@pytest.mark.parametrize("call", [1, 2, 3])
def test_ctrl_c_between_rounds_keeps_the_best_so_far(monkeypatch, tmp_path, call):
    interrupting(monkeypatch, Contender, "advance", call)
    policy = auto(["regression", "ips", "surrogate"]).fit(informative_log())
    assert policy.is_interrupted_
    assert not policy.is_logging_
    assert share_right(policy) > 0.85
    policy.save(tmp_path / "policy.bopl")
    assert bopl.load(tmp_path / "policy.bopl").is_interrupted_


def test_ctrl_c_in_the_middle_of_a_round_keeps_the_best_so_far(monkeypatch):
    """The judges have seen 25 rounds when a tree of the next ones is cut short."""
    interrupting(monkeypatch, Recorder, "record", 3 * 25 + 40)
    policy = auto(["surrogate"]).fit(informative_log())
    entry = next(entry for entry in policy.leaderboard_ if entry.candidate == "surrogate")
    assert policy.is_interrupted_
    assert policy.n_rounds_ == entry.rounds <= 25
    assert share_right(policy) > 0.8


def test_ctrl_c_before_anything_was_judged_is_passed_on(monkeypatch):
    interrupting(monkeypatch, Contender, "begin", 1)
    policy = auto()
    with pytest.raises(KeyboardInterrupt):
        policy.fit(informative_log())
    with pytest.raises(NotFittedError):
        policy.predict([[0.0] * 4])


def test_ctrl_c_after_the_logging_policy_was_judged_keeps_it(monkeypatch):
    interrupting(monkeypatch, Contender, "begin", 2)
    policy = auto().fit(noise_world(n_samples=300)[0])
    assert policy.is_interrupted_
    assert statuses(policy) == {"logging": "won", "regression": "not begun", "ips": "not begun"}


@pytest.mark.usefixtures("full_reward_models")
@pytest.mark.parametrize("call", [1, 2])
def test_ctrl_c_while_the_winners_are_trained_keeps_the_race_s_own(monkeypatch, call):
    interrupting(monkeypatch, InMemory, "fit", call)
    policy = auto(["regression", "surrogate", "ips"]).fit(certain_world(0, n_samples=500)[0])
    assert policy.is_interrupted_
    assert isinstance(policy.best_policy_, bopl.BlendedPolicy)
    digests = [part.training_rows_.digest for part in policy.best_policy_.policies_]
    assert len(digests) >= 2
    on_all = [digest == policy.training_rows_.digest for digest in digests]
    assert on_all == [True] * (call - 1) + [False] * (len(digests) - call + 1)
    rounds = {entry.candidate: entry.rounds for entry in policy.leaderboard_}
    won = [entry.candidate for entry in policy.leaderboard_ if entry.status == "in the blend"]
    for name, part in list(zip(won, policy.best_policy_.policies_, strict=True))[call - 1 :]:
        assert part.n_rounds_ == rounds[name]


@pytest.mark.usefixtures("full_reward_models")
def test_a_winner_whose_training_was_interrupted_ends_the_training_of_the_others(monkeypatch):
    plain, calls = InMemory.fit, []

    def interrupted(self, winner):
        calls.append(winner)
        policy = plain(self, winner)
        policy.stop_reason_ = INTERRUPTED
        return policy

    monkeypatch.setattr(InMemory, "fit", interrupted)
    policy = auto(["regression", "surrogate", "ips"]).fit(certain_world(0, n_samples=500)[0])
    assert len(calls) == 1
    assert policy.is_interrupted_
    assert len(policy.best_policy_.policies_) >= 2


# -- scikit-learn and files --------------------------------------------------------------------------------------------


def test_it_is_an_estimator():
    policy = auto(exclude=["dr"], minutes=3.0, validation_fraction=0.3, blend=False)
    copy = clone(policy)
    assert copy.get_params() == policy.get_params()
    assert set(policy.get_params()) == {
        "include", "exclude", "minutes", "validation_fraction", "blend", "n_jobs", "progress", "random_state",
    }  # fmt: skip
    with pytest.raises(NotFittedError):
        policy.predict([[0.0]])
    with pytest.raises(NotFittedError):
        policy.save("nowhere.bopl")
    given = ["regression"]
    assert bopl.AutoPolicy(given).include is given  # stored as it came
    assert copy.set_params(minutes=None).minutes is None


def test_fitting_returns_the_policy_and_changes_no_setting():
    policy, log = auto(), informative_log()
    before = json.dumps(policy.get_params())
    assert policy.fit(log) is policy
    assert json.dumps(policy.get_params()) == before
    first = policy.predict_proba(log.context)
    np.testing.assert_array_equal(policy.fit(log).predict_proba(log.context), first)
    np.testing.assert_array_equal(clone(policy).fit(log).predict_proba(log.context), first)
    assert policy.n_features_in_ == 4
    np.testing.assert_array_equal(policy.actions_, log.actions)
    np.testing.assert_array_equal(policy.predict(log.context), log.actions[first.argmax(axis=1)])
    np.testing.assert_allclose(policy.decision_function(log.context).shape, (400, 3))
    assert policy.feature_importances_.argmax() == 0


@pytest.mark.parametrize("include", [["regression"], ["regression", "surrogate", "ips"]])
def test_a_saved_race_comes_back_with_its_leaderboard(tmp_path, include):
    log = certain_world(0, n_samples=500)[0]
    policy = auto(include, exclude=["dr"], random_state=4).fit(log)
    policy.save(tmp_path / "policy.bopl")
    loaded = bopl.load(tmp_path / "policy.bopl")
    assert isinstance(loaded, bopl.AutoPolicy)
    for name in ("decision_function", "predict_proba", "predict"):
        np.testing.assert_array_equal(getattr(loaded, name)(log.context), getattr(policy, name)(log.context))
    assert loaded.leaderboard_ == policy.leaderboard_
    assert str(loaded.leaderboard_) == str(policy.leaderboard_)
    assert (loaded.is_logging_, loaded.is_interrupted_) == (False, False)
    assert loaded.get_params() | {"n_jobs": 1} == policy.get_params()
    loaded.save(tmp_path / "again.bopl")
    assert (tmp_path / "again.bopl").read_bytes() == (tmp_path / "policy.bopl").read_bytes()


def test_a_leaderboard_becomes_plain_values_and_comes_back():
    board = auto(["regression"]).fit(informative_log()).leaderboard_
    nan = float("nan")
    unbegun = replace(board[1], value=nan, uplift=nan, lower=nan, upper=nan, status="not begun")
    board = replace(board, entries=(replace(board[0], sharpness=np.inf), unbegun))
    plain = json.loads(json.dumps(board.to_dict(), allow_nan=False))
    assert plain["entries"][0]["sharpness"] == "greedy"
    assert plain["entries"][1]["uplift"] is None
    again = type(board).from_dict(plain)
    assert again[0] == board[0]
    assert str(again) == str(board)
    assert "nan" not in str(board)
    assert board.to_frame("pandas")["candidate"].tolist() == [entry.candidate for entry in board]
    assert len(board[:1]) == 1
    plain["entries"][0]["seconds"] = 10**40  # a damaged file
    with pytest.raises(ValueError, match="not valid"):
        type(board).from_dict(plain)


def test_leaderboards_are_ordered_and_their_intervals_hold_their_estimates():
    policy = auto(["regression", "dr", "ips", "surrogate"]).fit(informative_log())
    for entry in policy.leaderboard_:
        assert entry.lower <= entry.uplift <= entry.upper
        assert entry.value - entry.uplift == pytest.approx(policy.leaderboard_[0].value - policy.leaderboard_[0].uplift)
        assert entry.seconds >= 0.0
    assert policy.leaderboard_.n_judged == 400
    assert policy.leaderboard_.n_parts == 3


def test_progress_is_one_line_that_counts_down(monkeypatch):
    from bopl.race.progress import RaceProgress

    clock = SimpleNamespace(now=0.0)
    clock.monotonic = lambda: clock.now
    monkeypatch.setattr("bopl.race.progress.time", clock)
    said = []
    progress = RaceProgress(is_shown=False)
    monkeypatch.setattr(progress, "say", said.append)
    progress.report(1, 8, 0.0)
    clock.now = 41.0
    progress.report(3, 8, 0.5)
    clock.now = 90.0
    progress.report(8, 8, 0.25)
    assert said == ["candidate 1 of 8", "candidate 3 of 8, 00:41 left", "candidate 8 of 8, 04:30 left"]


# -- Columns that know too much ----------------------------------------------------------------------------------------


def test_leaks_are_not_looked_for_where_the_warning_is_ignored(monkeypatch):
    def fail(log):
        raise AssertionError("leaks were looked for")

    monkeypatch.setattr("bopl.log.leak.find.find_leaks", fail)
    log = informative_log()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LeakWarning)
        warn_of_leaks(log)
        warnings.filterwarnings("error", "Column", LeakWarning)  # which may match
        with pytest.raises(AssertionError, match="leaks were looked for"):
            warn_of_leaks(log)


def test_a_column_that_knows_the_reward_is_warned_of_and_its_name_is_what_to_leave_out():
    log = informative_log()
    leaking = rebuilt(log, context=np.column_stack([log.context, log.reward]))
    place = log.n_features
    with pytest.warns(LeakWarning, match=rf"^Column {place} .+ log\.without_columns\(\[{place}\]\)") as caught:
        auto(["regression"]).fit(leaking)
    assert caught[0].filename == __file__
    auto(["regression"]).fit(leaking.without_columns([place]))  # warnings are errors here
