"""One line of progress for a whole run, on a terminal and without one."""

import io

import pytest

from bopl._progress import RunLine, current_line
from bopl.race.progress import RaceProgress
from product import RACE, ROLES, SMALL, run_bopl, run_json, write_log


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self):
        return True


@pytest.fixture
def told(monkeypatch):
    """Return what the line of a run is told: its steps, and how far they are."""
    found = []
    stage, say = RunLine.stage, RunLine.say

    def record(name, text):
        found.append(text)
        return name

    monkeypatch.setattr(RunLine, "stage", lambda line, name: stage(line, record(name, f"step {name}")))
    monkeypatch.setattr(RunLine, "say", lambda line, detail: say(line, record(detail, detail)))
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
    assert any(text.startswith("round 1 of 12, validation ") for text in told)


def test_a_race_tells_its_candidates(tmp_path, told):
    log = write_log(tmp_path / "log.parquet", n_samples=600)
    run_bopl("train", log, *ROLES, *RACE, "--out", tmp_path / "policy.bopl")
    assert any(text.startswith("candidate 1 of 2") for text in told)
    assert "training the winner" in told


def test_json_has_no_progress(tmp_path, told, capsys):
    log = write_log(tmp_path / "log.parquet", n_samples=600)
    run_json(capsys, "train", log, *ROLES, *SMALL, "--out", tmp_path / "policy.bopl")
    assert told == []
