"""Files and folders are written whole or not at all."""

import errno
import os
import signal
import subprocess
import sys

import pytest

from bopl._files import copy_file, recover_file, recover_folder, replaced_folder, replacing, write_text


def names(folder):
    return sorted(entry.name for entry in folder.iterdir())


def test_a_failure_while_writing_leaves_the_old_file_and_nothing_else(tmp_path):
    file = tmp_path / "policy.bopl"
    write_text(file, "old")

    def fail():
        with replacing(file) as new:
            new.write(b"half of")
            raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(OSError, match="cannot be written: No space left on device"):
        fail()
    assert file.read_text() == "old"
    assert names(tmp_path) == ["policy.bopl"]


def test_permissions_and_links_stay(tmp_path):
    file, link = tmp_path / "file", tmp_path / "link"
    write_text(file, "old")
    os.chmod(file, 0o600)
    link.symlink_to(file)
    write_text(link, "new")
    assert link.is_symlink()
    assert file.read_text() == "new"
    assert file.stat().st_mode & 0o777 == 0o600


def test_a_full_disk_while_copying_leaves_the_old_copy(tmp_path):
    source, target = tmp_path / "source", tmp_path / "target"
    write_text(source, "x" * 100_000)
    write_text(target, "old")
    code = (
        "import resource, signal, sys; from bopl._files import copy_file; "
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN); "
        "resource.setrlimit(resource.RLIMIT_FSIZE, (65536, 65536)); copy_file(sys.argv[1], sys.argv[2])"
    )
    done = subprocess.run([sys.executable, "-c", code, source, target], capture_output=True, text=True)
    assert "cannot be written: File too large" in done.stderr
    assert target.read_text() == "old"
    assert names(tmp_path) == ["source", "target"]
    copy_file(source, target)
    assert len(target.read_text()) == 100_000


def test_a_folder_is_replaced_as_one_and_keeps_the_files_of_others(tmp_path):
    folder = tmp_path / "policy.run"
    folder.mkdir()
    for name in ("policy.bopl", "report.html", "notes.txt"):
        (folder / name).write_text("old")
    with replaced_folder(folder, without=frozenset({"report.html"})) as new:
        (new / "policy.bopl").write_text("new")
        assert (folder / "policy.bopl").read_text() == "old"
    assert names(folder) == ["notes.txt", "policy.bopl"]
    assert (folder / "policy.bopl").read_text() == "new"
    assert names(tmp_path) == ["policy.run"]


def test_a_failure_leaves_the_old_folder(tmp_path):
    folder = tmp_path / "policy.run"
    folder.mkdir()
    (folder / "policy.bopl").write_text("old")

    def fail():
        with replaced_folder(folder) as new:
            (new / "policy.bopl").write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert (folder / "policy.bopl").read_text() == "old"
    assert names(tmp_path) == ["policy.run"]


def test_a_failure_in_a_new_folder_names_the_folder_asked_for(tmp_path):
    kept = tmp_path / "kept"
    with pytest.raises(OSError, match=r"there is no folder '.*kept/deep'") as caught, replaced_folder(kept) as new:
        write_text(new / "deep" / "one.txt", "whole")
    assert ".part" not in str(caught.value)


def test_what_a_killed_process_left_is_cleared_away(tmp_path):
    folder = tmp_path / "policy.run"
    code = (
        "import os, signal, sys; from bopl._files import replaced_folder\n"
        "with replaced_folder(sys.argv[1]) as new:\n    os.kill(os.getpid(), signal.SIGKILL)"
    )
    done = subprocess.run([sys.executable, "-c", code, folder])
    assert done.returncode == -signal.SIGKILL
    assert len(names(tmp_path)) == 1
    recover_folder(folder)
    assert names(tmp_path) == []


def test_what_a_killed_process_left_of_a_file_is_cleared_away_and_nothing_else(tmp_path):
    file = tmp_path / "policy[1].bopl"
    write_text(file, "old")
    code = (
        "import os, signal, sys; from bopl._files import replacing\n"
        "with replacing(sys.argv[1]) as new:\n    os.kill(os.getpid(), signal.SIGKILL)"
    )
    assert subprocess.run([sys.executable, "-c", code, file]).returncode == -signal.SIGKILL
    (tmp_path / ".policy[1].notes.part.bopl").write_text("another's")
    assert len(names(tmp_path)) == 3
    with replacing(file) as new:  # the next writer clears it away, but not what somebody is writing now
        new.write(b"new")
        recover_file(file)
        assert len(names(tmp_path)) == 3
    assert names(tmp_path) == [".policy[1].notes.part.bopl", "policy[1].bopl"]
    assert file.read_text() == "new"
