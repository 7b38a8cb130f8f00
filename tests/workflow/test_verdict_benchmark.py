"""`benchmarks/verdicts.py` goes on from its file of answers, and its table is that of all of them."""

import json
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def verdicts(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    import verdicts

    return verdicts


def test_answers_are_kept_and_not_asked_for_again(verdicts, tmp_path, monkeypatch):
    out, asked = tmp_path / "answers.jsonl", []
    ask = verdicts.ask

    def counted(name, number):
        asked.append((name, number))
        return ask(name, number)

    monkeypatch.setattr(verdicts, "ask", counted)
    whole = list(verdicts.run(["small", "head"], 3, 1, None))
    assert whole[0].startswith("| small | 3 | ")
    asked.clear()
    list(verdicts.run(["small"], 2, 1, out))
    with out.open("a") as file:
        file.write('{"world": "small", "log": 2, "verd')  # as a crash leaves it
        file.write('\n{"world": "head", "log": 0, "verdict": "better", "covered": false, "commit": "another"}\n')
    assert list(verdicts.run(["small", "head"], 3, 1, out)) == whole
    assert asked == [("small", 0), ("small", 1), ("small", 2), ("head", 0), ("head", 1), ("head", 2)]
    whole_lines = [line for line in out.read_text().splitlines() if line.endswith("}")]
    assert {json.loads(line)["world"] for line in whole_lines} == {"small", "head"}
