"""``bopl loop``: its words, its JSON and its exit codes."""

import time

import numpy as np
import pytest

import bopl
from bopl.serving import joining
from bopl.serving.events import EventStore
from bopl.serving.folder import LoopFolder
from bopl.serving.rehearsal import rehearse
from bopl.serving.settings import LoopSettings
from product import run_bopl, run_json
from small_shop import ACTIONS, TRAIN, click_chance, draw_visits, serve


@pytest.fixture
def loop(tmp_path):
    settings = LoopSettings(
        actions=ACTIONS, exploration=0.2, random_state=7, min_decisions=300, ramp=(0.5, 1.0), train=TRAIN
    )
    return LoopFolder.create(tmp_path / "shop", settings)


def close_windows(loop):
    """Let an hour and more pass for all decisions: their times lie further back."""
    with EventStore(loop.events) as store:
        for table in ("decision", "reward"):
            store.submit(
                lambda connection, table=table: connection.execute(f"UPDATE {table} SET time = time - 7200000000")
            )
        store.submit(lambda connection: None).result()


def test_a_loop_by_commands(loop, capsys):
    code, waiting = run_json(capsys, "loop", loop.path, "step")
    assert (code, waiting["action"]) == (4, "wait")
    serve(loop, draw_visits(500, seed=1), "a")
    close_windows(loop)
    code, joined = run_json(capsys, "loop", loop.path, "join")
    assert (code, joined["n_joined"], joined["n_open"]) == (0, 500, 0)
    code, started = run_json(capsys, "loop", loop.path, "step")
    assert (code, started["action"], started["promotion"]["share"]) == (0, "start", 0.5)
    canary = started["promotion"]["policy"]
    code, standing = run_json(capsys, "loop", loop.path, "status")
    assert (code, standing["canary"], standing["running"]) == (0, canary, "uniform")
    assert standing["policies"] == [canary]
    code, watched = run_json(capsys, "loop", loop.path, "watch", "--last", 200)
    assert (code, watched["n_replayed"], watched["is_sound"]) == (0, 200, True)
    code, promoted = run_json(capsys, "loop", loop.path, "promote", canary[:6])
    assert (code, promoted["promotion"]["share"], promoted["promotion"]["reason"]) == (0, 1.0, "by hand")
    code, rolled = run_json(capsys, "loop", loop.path, "rollback")
    assert (code, rolled["promotion"]["policy"]) == (0, "uniform")


def test_a_policy_climbs_all_ramps_and_a_bad_one_promoted_by_hand_is_taken_back(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(joining, "SLACK_S", 0.0)  # nobody is writing while it joins
    settings = LoopSettings(
        actions=ACTIONS, exploration=0.2, random_state=7, min_decisions=300, reward_window_s=0.01, train=TRAIN
    )
    assert settings.ramp == (0.01, 0.1, 0.5, 1.0)
    loop = LoopFolder.create(tmp_path / "shop", settings)

    def day(number, n_visits=500):
        rng = np.random.default_rng(number)
        rehearse(  # rewards have come when the short windows of the join have not closed yet
            loop,
            draw_visits(n_visits, seed=number),
            lambda record, action: float(rng.random() < click_chance(record, action)),
            name=f"day{number}",
            window_s=60.0,
        )
        time.sleep(0.02)
        return run_json(capsys, "loop", loop.path, "step")

    seen = []
    for number in range(6):
        code, found = day(number)
        assert code in (0, 4)
        if found["action"] != "keep":
            seen.append((found["action"], found["promotion"]["share"]))
        if found["promotion"]["share"] == 1.0 and number:
            break
    assert seen == [("start", 0.01), ("raise", 0.1), ("raise", 0.5), ("raise", 1.0)]
    good = found["promotion"]["policy"]

    log = bopl.BanditLog.read(loop.log)
    spoiled = bopl.BoostedPolicy("ips", n_rounds=10, progress=False, random_state=0).fit(
        log.with_reward(1.0 - log.reward)
    )
    spoiled.sharpened(20.0).save(tmp_path / "bad.bopl")
    bad = loop.add_policy(tmp_path / "bad.bopl")
    code, promoted = run_json(capsys, "loop", loop.path, "promote", bad, "--share", 1)
    assert (code, promoted["promotion"]["policy"]) == (0, bad)
    code, taken_back = day(100)
    assert (taken_back["action"], taken_back["verdict"]["verdict"]) == ("roll back", "worse")
    assert (taken_back["promotion"]["policy"], taken_back["promotion"]["share"]) == (good, 1.0)
    code, watched = run_json(capsys, "loop", loop.path, "watch", "--last", 600)
    assert (watched["n_replayed"], watched["is_sound"]) == (600, True)


def test_the_words_of_a_loop(loop, capsys):
    assert run_bopl("loop", loop.path, "status") == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "Served since promotion 1 (the loop begins): uniform 100%; 20% of the decisions explore." in said
    assert "0 looks at replacing uniform; the next one has 97.5% confidence." in said
    assert run_bopl("loop", loop.path, "join") == 0
    assert "Joined 0 decisions, 0 of them with a reward; 0 windows are open." in capsys.readouterr().out
    assert run_bopl("loop", loop.path, "watch") == 0
    assert "0 decisions replayed, 0 of them not reproduced." in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("rollback",), "there is nothing to roll back to: the uniform policy has replaced no other policy."),
        (("promote", "ffff"), "there is no policy 'ffff' in"),
        (("promote", "uniform"), "uniform has all traffic already: there is nothing to promote."),
        (("promote", "uniform", "--share", "2"), "share must lie in (0, 1]; got 2"),
    ],
)
def test_what_is_refused_is_told_in_a_sentence(loop, capsys, arguments, sentence):
    assert run_bopl("loop", loop.path, *arguments) == 2
    assert sentence in capsys.readouterr().err


def test_a_folder_that_is_no_loop_is_refused(tmp_path, capsys):
    assert run_bopl("loop", tmp_path, "status") == 2
    assert "there is no 'loop.toml' in" in capsys.readouterr().err
