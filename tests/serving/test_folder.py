"""One folder is one loop; `bopl serve --init` makes it."""

import os
import subprocess
import sys

import pytest

import bopl
from bopl._errors import UsageError
from bopl.serving.events import EventStore
from bopl.serving.folder import LoopFolder
from bopl.serving.settings import LoopSettings


def run(*words):
    command = [sys.executable, "-m", "bopl", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, env=os.environ)


def test_a_new_folder_serves_its_first_policy(tmp_path, policies, first):
    folder = LoopFolder.create(tmp_path / "loop", policy=first)
    names = {path.name for path in folder.path.iterdir()}
    assert names == {"loop.toml", "policies", "events.db", "log", "verdicts"}
    policy_id = next(iter(policies))
    with EventStore(folder.events) as store:
        row = store.promotion()
    assert (row.id, row.policy, row.baseline, row.share) == (1, policy_id, policy_id, 1.0)
    assert folder.policy_file(policy_id).is_file()
    assert folder.settings() == LoopSettings()
    mixture = folder.mixture(row)
    assert mixture.actions == ("book", "film", "game")
    assert mixture.policy is mixture.baseline


def test_a_folder_is_made_once(tmp_path):
    LoopFolder.create(tmp_path / "loop")
    with pytest.raises(UsageError, match="is the folder of a loop already"):
        LoopFolder.create(tmp_path / "loop")


def test_what_was_cut_short_can_be_made_again(tmp_path, policies, first):
    (LoopFolder.create(tmp_path / "loop").path / "loop.toml").unlink()
    folder = LoopFolder.create(tmp_path / "loop", policy=first)
    with EventStore(folder.events) as store:
        assert [row.policy for row in store.promotions()] == ["uniform", next(iter(policies))]


def test_a_policy_file_must_hold_what_it_is_named_after(tmp_path, policies):
    one, other = policies
    folder = LoopFolder.create(tmp_path / "loop", policy=policies[one])
    assert folder.add_policy(policies[other]) == other
    assert folder.load_policy(other).policy_id == other
    folder.policy_file(other).write_bytes(folder.policy_file(one).read_bytes())
    with pytest.raises(UsageError, match=f"holds policy {one}, not the one that it is named after"):
        folder.load_policy(other)
    with pytest.raises(UsageError, match="there is no policy feed in"):
        folder.load_policy("feed")
    assert folder.load_policy("uniform") is None


@pytest.mark.parametrize("name", ["../loop", "a/b", "", ".hidden", "x" * 200, "a\nb"])
def test_the_id_of_a_policy_is_no_path(tmp_path, name):
    with pytest.raises(UsageError, match="is not the id of a policy"):
        LoopFolder(tmp_path).policy_file(name)


def test_the_command_makes_a_folder_with_a_commented_file(tmp_path):
    done = run("serve", tmp_path / "shop", "--init", "--actions", "book, film", "--port", 0)
    assert done.returncode == 0, done.stderr
    assert "Created the loop folder" in done.stdout
    text = (tmp_path / "shop" / "loop.toml").read_text(encoding="utf8")
    assert "# Share of the decisions that is made uniformly at random.\nexploration = 0.05\n" in text
    assert LoopFolder(tmp_path / "shop").settings().actions == ("book", "film")


def test_serving_without_the_extra_is_one_sentence(tmp_path, monkeypatch):
    from bopl.serving.server import serve

    monkeypatch.setitem(sys.modules, "uvicorn", None)
    with pytest.raises(ImportError, match=r"serving needs uvicorn: install it with `pip install 'bopl\[serve\]'`"):
        serve(tmp_path, LoopSettings())


def test_the_public_names_are_there():
    assert bopl.serving.LoopSettings is LoopSettings
