"""``bopl loop``: its words, its JSON and its exit codes."""

import pytest

from bopl.serving.events import EventStore
from bopl.serving.folder import LoopFolder
from bopl.serving.settings import LoopSettings
from product import run_bopl, run_json
from small_shop import ACTIONS, TRAIN, draw_visits, serve


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


def test_the_words_of_a_loop(loop, capsys):
    assert run_bopl("loop", loop.path, "status") == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "Served since promotion 1 (the loop begins): uniform 100%; 20% of the decisions explore." in said
    assert "0 looks at the place of uniform; the next one has 97.5% confidence." in said
    assert run_bopl("loop", loop.path, "join") == 0
    assert "Joined 0 decisions, 0 of them with a reward; 0 windows are open." in capsys.readouterr().out
    assert run_bopl("loop", loop.path, "watch") == 0
    assert "0 decisions replayed, 0 of them not found again." in capsys.readouterr().out


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
