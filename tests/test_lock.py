"""One writer at a time, and none for ever."""

import re
import signal
import subprocess
import sys

import pytest

from bopl._errors import UsageError
from bopl._files import only_writer

HOLD = """
import sys
from bopl._files import only_writer
with only_writer(sys.argv[1]):
    print("locked", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def holder(tmp_path):
    """Another process that writes policy.run until its input ends."""
    command = [sys.executable, "-c", HOLD, tmp_path / "policy.run"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "locked\n"
        yield process
        process.kill()


def take(path):
    with only_writer(path):
        return sorted(entry.name for entry in path.parent.iterdir())


def test_a_second_writer_is_refused_and_told_who_the_first_is(tmp_path, holder):
    with pytest.raises(UsageError) as caught:
        take(tmp_path / "policy.run")
    pattern = r"another run, process (\d+) since [-\d]{10} [:\d]{8}, is writing '.*policy.run'; wait .*"
    assert re.fullmatch(pattern, str(caught.value))[1] == str(holder.pid)
    assert take(tmp_path / "other.run")


def test_the_lock_goes_with_its_owner(tmp_path, holder):
    holder.communicate("")
    assert list(tmp_path.iterdir()) == []
    assert take(tmp_path / "policy.run") == [".policy.run.lock"]
    assert list(tmp_path.iterdir()) == []


def test_the_lock_of_a_killed_process_is_taken_over(tmp_path, holder):
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    assert (tmp_path / ".policy.run.lock").is_file()
    assert take(tmp_path / "policy.run") == [".policy.run.lock"]
    assert list(tmp_path.iterdir()) == []


def test_a_link_to_a_folder_is_that_folder(tmp_path, holder):
    (tmp_path / "policy.run").mkdir()
    (tmp_path / "link.run").symlink_to(tmp_path / "policy.run")
    with pytest.raises(UsageError, match="another run"):
        take(tmp_path / "link.run")


def test_within_one_process_the_second_is_refused_as_well(tmp_path):
    with only_writer(tmp_path / "a"), pytest.raises(UsageError, match="another run, process"):
        take(tmp_path / "a")


def test_a_lock_without_a_name_in_it_is_a_lock(tmp_path, holder):
    (tmp_path / ".policy.run.lock").write_text("")
    with pytest.raises(UsageError, match=r"^another run is writing"):
        take(tmp_path / "policy.run")


def test_a_folder_that_does_not_exist_is_one_sentence(tmp_path):
    with pytest.raises(UsageError, match=r"cannot be written: No such file or directory\.$"):
        take(tmp_path / "nowhere" / "policy.run")
