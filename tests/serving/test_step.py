"""A step of the loop: what it judges, what follows, and that a killed one is finished."""

import json

import numpy as np
import pytest

import bopl
from bopl._errors import UsageError
from bopl.baseline import UniformPolicy
from bopl.serving.book import VerdictBook, level_of_look
from bopl.serving.events import EventStore
from bopl.serving.folder import LoopFolder
from bopl.serving.joining import join
from bopl.serving.learning import propensity_settings
from bopl.serving.promotion import Standing
from bopl.serving.record import CALLER, DecisionRow, PromotionRow
from bopl.serving.settings import LoopSettings
from bopl.serving.step import Stepping, step
from bopl.serving.watching import watch
from small_shop import ACTIONS, TRAIN, click_chance, draw_visits, serve, true_value

LATER = 4 * 10**15  # microseconds: by then all windows are closed
SETTINGS = LoopSettings(
    actions=ACTIONS, exploration=0.2, random_state=7, min_decisions=300, ramp=(0.5, 1.0), train=TRAIN
)


@pytest.fixture
def loop(tmp_path):
    return LoopFolder.create(tmp_path / "shop", SETTINGS)


def promotions(loop):
    with EventStore(loop.events) as store:
        return store.promotions()


def test_the_levels_of_all_looks_spend_the_error_and_no_more():
    spent = sum(1.0 - level_of_look(0.95, look) for look in range(1, 10_000))
    assert 0.0499 < spent < 0.05


def test_a_loop_starts_a_canary_raises_it_and_earns_more(loop):
    visits = draw_visits(600, seed=1)
    waiting = step(loop.path, now=LATER)
    assert waiting.action == "wait"
    serve(loop, visits, "a")
    started = step(loop.path, now=LATER)
    assert (started.action, started.promotion.share) == ("start", 0.5)
    serve(loop, visits, "b", seed=1)
    raised = step(loop.path, now=LATER)
    assert (raised.action, raised.promotion.share) == ("raise", 1.0)
    running = loop.load_policy(raised.promotion.policy)
    assert true_value(running, visits) > true_value(None, visits) + 0.2
    rows = promotions(loop)
    assert [row.reason for row in rows[1:]] == ["verdict 1: better", "verdict 2: better"]
    assert rows[1].log_fingerprint == started.verdict["log_fingerprint"] is not None
    assert rows[1].verdict["look"] == 1
    assert rows[2].verdict["confidence"] == 0.95
    assert bopl.BanditLog.read(loop.log).audit().problems == ()
    again = step(loop.path, now=LATER)
    assert (again.action, len(promotions(loop))) == ("wait", 3)


@pytest.fixture
def started(loop):
    """A loop with a canary."""
    serve(loop, draw_visits(600, seed=1), "a")
    assert step(loop.path, now=LATER).action == "start"
    return loop


def test_a_step_killed_between_verdict_and_promotion_is_finished_by_the_next(loop, monkeypatch):
    serve(loop, draw_visits(600, seed=1), "a")

    def kill(self, row, *, after=None):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(EventStore, "promote", kill)
        with pytest.raises(KeyboardInterrupt):
            step(loop.path, now=LATER)
    assert len(promotions(loop)) == 1
    candidate = VerdictBook(loop.verdicts).last()["candidate"]
    finished = step(loop.path, now=LATER)
    assert (finished.action, finished.promotion.policy) == ("start", candidate)
    assert len(VerdictBook(loop.verdicts).entries()) == 1
    assert step(loop.path, now=LATER).action == "keep"


def test_a_verdict_is_not_followed_once_somebody_has_promoted_something_else(started):
    with EventStore(started.events) as store:
        standing = Standing.of(store.promotions())
        store.promote(standing.rollback_of(SETTINGS, "by hand"))
        stepping = Stepping(started, SETTINGS, store)
        assert stepping._finish() is None
        assert store.promotion().reason == "by hand"


def bad_policy(loop):
    """Put a policy into the folder that takes what nobody likes, and return its id."""
    log = bopl.BanditLog.read(loop.log)
    past, _ = log.split(0.4, by="time")  # what is judged later must not have trained it
    spoiled = past.with_reward(1.0 - past.reward)
    policy = bopl.BoostedPolicy("ips", n_rounds=15, progress=False, random_state=0).fit(spoiled)
    file = loop.path / "bad.bopl"
    policy.sharpened(20.0).save(file)
    return loop.add_policy(file)


def test_a_bad_policy_in_the_folder_is_judged_and_never_promoted(loop):
    serve(loop, draw_visits(900, seed=1), "a")
    with EventStore(loop.events) as store:
        join(loop.path, store, SETTINGS, now=LATER)
    bad = bad_policy(loop)
    result = step(loop.path, now=LATER)
    assert result.verdict["verdicts"][bad] == "worse"
    assert bad not in {row.policy for row in promotions(loop)}


@pytest.mark.parametrize("share", [0.5, 1.0])
def test_a_bad_policy_promoted_by_hand_is_rolled_back(started, share):
    serve(started, draw_visits(300, seed=2), "b")
    step(started.path, now=LATER)
    bad = bad_policy(started)
    with EventStore(started.events) as store:
        standing = Standing.of(store.promotions())
        store.promote(standing.promotion_of(bad, share, SETTINGS, "by hand"))
    serve(started, draw_visits(600, seed=3), "c")
    result = step(started.path, now=LATER)
    assert (result.action, result.verdict["verdict"]) == ("roll back", "worse")
    assert (result.promotion.policy, result.promotion.share) == (standing.running, 1.0)


def test_a_policy_with_all_traffic_that_is_doubted_gets_a_smaller_share_and_is_told_there(started):
    serve(started, draw_visits(300, seed=2), "b")
    step(started.path, now=LATER)
    bad = bad_policy(started)
    with EventStore(started.events) as store:
        standing = Standing.of(store.promotions())
        store.promote(standing.promotion_of(bad, 1.0, SETTINGS, "by hand"))
    for day in range(9):
        serve(started, draw_visits(30, seed=3 + day), f"c{day}")
        result = step(started.path, now=LATER)
        if result.action != "wait":
            break
    assert (result.action, result.verdict["verdict"]) == ("lower", "inconclusive")
    assert (result.promotion.policy, result.promotion.share) == (bad, 0.5)
    assert result.promotion.baseline == standing.running
    assert f"It is in doubt: it gets 50% of the traffic, and {standing.running} the rest." in result.sentence
    serve(started, draw_visits(150, seed=2), "d")
    result = step(started.path, now=LATER)
    assert (result.action, result.verdict["verdict"]) == ("roll back", "worse")
    assert (result.promotion.policy, result.promotion.share) == (standing.running, 1.0)


def test_the_share_that_tells_soonest_is_the_one_nearest_to_a_half():
    standing = Standing((PromotionRow("new", 1.0, "old", 0.1, 0.001, "by hand"),))
    assert standing.telling_share((0.01, 0.4, 0.8, 1.0)) == 0.4
    assert standing.telling_share((1.0,)) is None


def test_a_canary_that_never_tells_is_taken_back(tmp_path):
    settings = LoopSettings(**{**vars(SETTINGS), "max_ramp_decisions": 100})
    loop = LoopFolder.create(tmp_path / "shop", settings)
    serve(loop, draw_visits(600, seed=1), "a")
    assert step(loop.path, now=LATER).action == "start"
    serve(loop, draw_visits(120, seed=2), "b", chance=lambda record, action: 0.5)
    result = step(loop.path, now=LATER)
    assert (result.action, result.verdict["verdict"]) == ("roll back", "inconclusive")
    assert result.promotion.policy == "uniform"


def test_there_is_nothing_to_roll_back_to_in_the_beginning(loop):
    with EventStore(loop.events) as store:
        standing = Standing.of(store.promotions())
    with pytest.raises(UsageError, match="nothing to roll back to: the uniform policy has replaced no other"):
        standing.rollback_of(SETTINGS, "by hand")


def test_a_policy_of_other_columns_is_left_aside_with_the_reason(loop):
    serve(loop, draw_visits(400, seed=1), "a")
    rng = np.random.default_rng(0)
    import pandas as pd

    frame = pd.DataFrame({"height": rng.normal(size=80), "item": [*ACTIONS] * 20, "click": 1.0, "p": 0.25})
    log = bopl.BanditLog.from_frame(frame, action="item", reward="click", propensity="p")
    UniformPolicy().fit(log).save(loop.path / "other.bopl")
    other = loop.add_policy(loop.path / "other.bopl")
    entry = json.loads(json.dumps(step(loop.path, now=LATER).to_dict()))["verdict"]
    assert "height" in entry["left_aside"][other]


def test_whatever_lies_among_the_policies_a_step_goes_on_and_tells(loop, caplog):
    serve(loop, draw_visits(900, seed=1), "a")
    with EventStore(loop.events) as store:
        join(loop.path, store, SETTINGS, now=LATER)
    bad = bad_policy(loop)
    (loop.policies / f"{bad}.bopl").rename(loop.policies / "friday.bopl")
    (loop.policies / "junk.bopl").write_bytes(b"no policy")
    (loop.policies / "folder.bopl").mkdir()
    result = step(loop.path, now=LATER)
    assert result.verdict["verdicts"][bad] == "worse"
    assert "is not a bopl policy file" in result.verdict["left_aside"]["junk"]
    assert any(one.startswith("junk.bopl is skipped: ") for one in caplog.messages)


@pytest.mark.parametrize("content", ["{", "[]", '{"verdict": "better"}'])
def test_a_spoiled_verdict_is_one_sentence(loop, content):
    (loop.verdicts / "000001.json").write_text(content, encoding="utf8")
    with pytest.raises(ValueError, match=r"000001.json' is not the verdict of a step: restore it"):
        step(loop.path, now=LATER)


def test_watching_finds_every_decision_again_to_the_last_bit_and_tells_one_that_was_changed(started):
    serve(started, draw_visits(300, seed=2), "b")
    step(started.path, now=LATER)
    found = watch(started.path)
    assert (found.n_replayed, found.n_mismatches, found.is_sound) == (900, 0, True)
    assert {one["policy"] for one in found.weights} == {"uniform", promotions(started)[-1].policy}
    assert watch(started.path, last=100).n_replayed == 100
    with EventStore(started.events) as store:
        store.submit(
            lambda connection: (
                connection.execute("UPDATE decision SET propensity = propensity + 1e-16 WHERE event = 'b-7'").rowcount
            )
        ).result()
        changed = store.decision("b-7").propensity
    told = watch(started.path)
    assert (told.n_mismatches, told.is_sound) == (1, False)
    assert told.mismatches[0].sentence.startswith(f"event 'b-7': the propensity is {changed!r} in the log and ")


def test_drift_of_contexts_is_told(loop):
    serve(loop, draw_visits(400, seed=1), "a")
    serve(loop, [{**record, "age": 90.0} for record in draw_visits(200, seed=2)], "b")
    with EventStore(loop.events) as store:
        join(loop.path, store, SETTINGS, now=LATER)
    assert "age" in {one["column"] for one in watch(loop.path).drift}


def test_an_apprentice_learns_from_its_caller_and_is_judged_against_it(tmp_path):
    settings = LoopSettings(**{**vars(SETTINGS), "mode": "apprentice"})
    loop = LoopFolder.create(tmp_path / "shop", settings)
    rng = np.random.default_rng(0)
    with EventStore(loop.events) as store:
        for number, record in enumerate(draw_visits(600, seed=1)):
            action = ACTIONS[rng.integers(0, 4)]
            row = DecisionRow(f"e{number}", 0, 1, "uniform", action, None, record, None, 0.5, CALLER)
            store.add_decision(row)
            if rng.random() < click_chance(record, action):
                store.add_reward(row.event, 1.0, window_s=60.0)
    result = step(loop.path, now=LATER)
    assert (result.action, result.promotion.share) == ("start", 1.0)
    assert "estimated" in result.verdict["reason"]
    assert step(loop.path, now=LATER).action == "wait"


def test_propensities_that_nobody_told_are_left_out_once_others_are_known(tmp_path, loop):
    serve(loop, draw_visits(5, seed=1), "a")
    with EventStore(loop.events) as store:
        store.add_decision(DecisionRow("c", 0, 1, "uniform", "books", None, {}, None, 0.5, CALLER)).result()
        join(loop.path, store, SETTINGS, now=LATER)
    assert propensity_settings(loop.log, {}) == {"where": "not _propensity is missing"}
    assert propensity_settings(loop.log, {"where": "age > 3"}) == {"where": "(age > 3) and not _propensity is missing"}
    where = propensity_settings(loop.log, {})["where"]
    assert bopl.BanditLog.read(loop.log, where=where).n_samples == 5
