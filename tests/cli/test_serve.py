"""`bopl serve`: wrong use is one sentence and exit code 2."""

import pytest

from product import run_bopl

WRONG_USE = 2


@pytest.fixture
def loop(tmp_path, capsys):
    """The folder of a loop that begins by chance."""
    assert run_bopl("serve", tmp_path / "loop", "--init", "--actions", "a, b") == 0
    assert "Created the loop folder" in capsys.readouterr().out
    return tmp_path / "loop"


def said(capsys, *arguments):
    """Return the exit code, and the one line on standard error."""
    code = run_bopl("serve", *arguments)
    (line,) = capsys.readouterr().err.splitlines()
    return code, line


def test_a_folder_that_is_no_loop(tmp_path, capsys):
    code, line = said(capsys, tmp_path)
    assert code == WRONG_USE
    assert line.endswith("it is not the folder of a loop; make one with `bopl serve FOLDER --init`.")


def test_a_folder_that_is_one_already(loop, capsys):
    code, line = said(capsys, loop, "--init")
    assert code == WRONG_USE
    assert "is the folder of a loop already; edit its loop.toml, or name another." in line


def test_a_policy_for_a_loop_that_runs(loop, capsys):
    code, line = said(capsys, loop, "--policy", "policy.bopl")
    assert code == WRONG_USE
    assert "policy and actions are for a new folder: add --init, or promote with `bopl loop`." in line


def test_a_policy_that_is_not_there(tmp_path, capsys):
    code, line = said(capsys, tmp_path / "new", "--init", "--policy", tmp_path / "nowhere.bopl")
    assert code == WRONG_USE
    assert "there is no policy file" in line
    assert not (tmp_path / "new").exists()


def test_a_setting_that_is_wrong(loop, capsys):
    (loop / "loop.toml").write_text("exploration = 2\n", encoding="utf8")
    code, line = said(capsys, loop)
    assert code == WRONG_USE
    assert "loop.toml': exploration must lie in [0, 1]; got 2." in line


def test_an_open_address_without_a_token(loop, capsys, monkeypatch):
    monkeypatch.delenv("BOPL_TOKEN", raising=False)
    code, line = said(capsys, loop, "--host", "0.0.0.0", "--port", 0)
    assert code == WRONG_USE
    assert "so requests need a token" in line


def test_an_address_of_another_machine(loop, capsys, monkeypatch):
    monkeypatch.setenv("BOPL_TOKEN", "x" * 20)
    code, line = said(capsys, loop, "--host", "192.0.2.1", "--port", 0)
    assert code == WRONG_USE
    assert "of 192.0.2.1 cannot be used" in line


def test_a_store_that_is_damaged(loop, capsys):
    (loop / "events.db").write_bytes(b"no database" * 1000)
    code, line = said(capsys, loop, "--port", 0)
    assert code == 1
    assert "is damaged" in line
