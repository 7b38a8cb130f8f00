"""One line of progress for a whole run, on a terminal and without one."""

import io

import pytest

import bopl
from bopl._progress import RunLine, current_line, left_text
from bopl.race.progress import RaceProgress
from helpers import informative_log
from product import RACE, ROLES, SMALL, run_bopl, run_json, write_log


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self):
        return True


@pytest.fixture
def told(monkeypatch):
    """Return what the line of a run is told: its steps, and how far they are."""
    found = []
    stage, say, note = RunLine.stage, RunLine.say, RunLine.note

    def record(name, text):
        found.append(text)
        return name

    monkeypatch.setattr(RunLine, "stage", lambda line, name: stage(line, record(name, f"step {name}")))
    monkeypatch.setattr(RunLine, "say", lambda line, detail: say(line, record(detail, detail)))
    monkeypatch.setattr(RunLine, "note", lambda line, text: note(line, record(text, text)))
    return found


def steps(told):
    return [text.removeprefix("step ") for text in told if text.startswith("step ")]


def test_without_a_terminal_a_line_says_what_the_run_does_and_since_when():
    stream, times = io.StringIO(), iter([0.0, 95.0, 130.0])
    with RunLine(stream=stream, every=1e6, clock=lambda: next(times)) as line:
        line.stage("train")
        with RaceProgress() as race:
            race.report(2, 8, 0.0)
        line.write()
        line.stage("evaluate")
        line.write()
    assert stream.getvalue().splitlines() == [
        "bopl: 3 of 5, training: candidate 2 of 8 (01:35 so far)",
        "bopl: 4 of 5, judging (02:10 so far)",
    ]


def test_a_plain_line_is_written_now_and_then_without_being_asked():
    stream = io.StringIO()
    with RunLine(stream=stream, every=0.001) as line:
        line.stage("read")
        while "1 of 5, reading the log" not in stream.getvalue():
            pass


def test_a_terminal_has_one_line_that_makes_way_for_results():
    stream, said = Terminal(), []
    with RunLine(stream=stream) as line:
        line.stage("train")
        line.say("[round] 1 of 5")
        with line.paused():
            said.append("a result")
        line.stage("report")
    assert said == ["a result"]
    assert "5 of 5, writing the report" in stream.getvalue()
    assert "so far" not in stream.getvalue()


def test_a_closed_stream_does_not_end_a_run():
    stream = io.StringIO()
    with RunLine(stream=stream, every=1e6) as line:
        stream.close()
        line.write()


def test_there_is_a_line_to_report_to_only_while_it_is_shown():
    assert current_line() is None
    with RunLine(is_shown=False, stream=io.StringIO()):
        assert current_line() is None
    with RunLine(stream=io.StringIO()) as line:
        assert current_line() is line
    assert current_line() is None


def test_a_run_tells_its_steps_and_its_rounds(tmp_path, told):
    log = write_log(tmp_path / "log.parquet", n_samples=600)
    settings = (*ROLES, *SMALL, "--reward-translation", "0", "--out", tmp_path / "policy.bopl")
    run_bopl("train", log, *settings)
    assert steps(told) == ["read", "audit", "split", "train", "evaluate", "report"]
    assert any(text.startswith("round 1 of 12, ") and "left, validation 0." in text for text in told)


def test_a_race_tells_its_candidates(tmp_path, told):
    log = write_log(tmp_path / "log.parquet", n_samples=600)
    run_bopl("train", log, *ROLES, *RACE, "--out", tmp_path / "policy.bopl")
    assert any(text.startswith("candidate 1 of 2") for text in told)
    after = told[told.index("training the winner") :]
    assert any(text.startswith("round 1 of at most ") and text.endswith(" of the reward model") for text in after)


def test_the_winner_of_a_race_tells_its_rounds_and_its_file_is_the_same(told):
    log, texts = informative_log(), []
    policies = [bopl.AutoPolicy(["ips"], progress=progress, random_state=0) for progress in (True, False)]
    with RunLine(stream=io.StringIO()):
        for policy in policies:
            policy.fit(log)
            texts.append(told.copy())
            told.clear()
    rounds = texts[0][texts[0].index("training the winner") + 1 :]
    assert rounds[0].startswith("round 1 of ")
    assert "left, reward " in rounds[9]
    assert not any(text.startswith("round ") for text in texts[1])
    assert policies[0].policy_id == policies[1].policy_id
    assert not policies[0].best_policy_.progress


def test_a_race_without_a_run_has_a_line_of_its_own_that_rounds_are_added_to():
    log, stream = bopl.testing.random_log(0), Terminal()
    with RaceProgress(stream=stream) as race:
        line, texts = current_line(), []
        assert line.text == "racing"
        race.report(3, 8, 0.0)
        bopl.BoostedPolicy("ips", n_rounds=2, random_state=0).fit(
            log, callbacks=[lambda state: texts.append(line.text)]
        )
        assert line.text == "racing: candidate 3 of 8"
        race.report(4, 8, 0.0)
        assert line.text == "racing: candidate 4 of 8"
    assert current_line() is None
    assert [text.partition(" left")[0] for text in texts] == [
        f"racing: candidate 3 of 8, round {number} of 2, 00:00" for number in (1, 2)
    ]


@pytest.mark.parametrize(
    ("seconds", "share", "text"), [(9.0, 0.01, ""), (41.0, 0.5, ", 00:41 left"), (9, 1.0, ", 00:00 left")]
)
def test_the_time_left_is_told_once_a_share_of_the_work_is_done(seconds, share, text):
    assert left_text(seconds, share) == text


def test_json_has_no_progress(tmp_path, told, capsys):
    log = write_log(tmp_path / "log.parquet", n_samples=600)
    run_json(capsys, "train", log, *ROLES, *SMALL, "--out", tmp_path / "policy.bopl")
    assert told == []
