"""`bopl reproduce` is a package of its own: found where it is installed, and missed in one sentence elsewhere."""

import json
import os
import subprocess
import sys

import pytest
from typer.main import get_group
from typer.testing import CliRunner

from bopl.cli import app, reproduce
from bopl_paper import command
from product import run_bopl, run_json

SENTENCE = "the paper's experiments are in the repository, not in the package: clone it and run `make setup`."
SHELL = """
import os
from bopl.cli import main, reproduce

if "MISSING" in os.environ:
    reproduce.find_spec = lambda package: None
main()
"""


def loaded_after(*words):
    """Return the packages that are imported when the command has printed its help."""
    code = (
        f"import json, sys; from bopl.cli import app; app({list(words)!r}, standalone_mode=False)\n"
        "print(json.dumps(sorted({name.split('.')[0] for name in sys.modules})))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_the_experiments_are_imported_for_their_command_only():
    assert "bopl_paper" not in loaded_after("--help")
    own = loaded_after("reproduce", "--help")
    assert "bopl_paper" in own
    assert not {"numpy", "scipy", "sklearn", "pyarrow", "numba"} & own


def test_the_list_of_commands_says_what_the_command_says():
    listed, own = get_group(reproduce.app).help, get_group(command.app).help
    assert own.startswith(f"{listed}\n")


def test_flags_and_subcommands_are_those_of_the_experiments():
    output = CliRunner().invoke(app, ["reproduce", "--help"], env={"COLUMNS": "100"}).output
    assert " reproduce [OPTIONS] COMMAND [ARGS]..." in output
    for word in ("--quick", "--device", "list", "noisy", "search"):
        assert f"│ {word} " in output
    assert "--install-completion" not in output


@pytest.mark.parametrize("words", [(), ("--help",), ("--quick",), ("run", "--datasets", "scene"), ("nonsense",)])
def test_without_the_repository_it_says_where_the_experiments_are(words, monkeypatch, capsys):
    monkeypatch.setattr(reproduce, "find_spec", lambda package: None)
    assert run_bopl("reproduce", *words) == 2
    assert capsys.readouterr() == ("", f"bopl: {SENTENCE}\n")


def test_without_the_repository_programs_read_it_too(monkeypatch, capsys):
    monkeypatch.setattr(reproduce, "find_spec", lambda package: None)
    assert run_json(capsys, "reproduce", "list") == (2, {"error": SENTENCE, "exit_code": 2})


def test_the_shell_completes_what_follows():
    def completed(words, **more):
        told = {"_BOPL_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" ")), **more}
        call, env = [sys.executable, "-c", SHELL], {**os.environ, **told}
        done = subprocess.run(call, env=env, capture_output=True, text=True, check=False)
        assert done.stderr == ""
        return done.stdout.split()

    assert completed("bopl reproduce no") == ["noisy"]
    assert completed("bopl reproduce run --da") == ["--datasets"]
    assert completed("bopl reproduce no", MISSING="1") == []
