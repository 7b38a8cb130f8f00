"""Where little may be written: a read-only installation, no home, no room on the disk."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import bopl
from product import run_bopl, write_log

SOURCE = Path(bopl.__file__).parents[1]
WORDS = ("--action", "item", "--reward", "click", "--propensity", "p", "--ignore", "user", "--n-jobs", "1")
SINGLE = ("--objective", "ips", "--n-rounds", "6", "--max-depth", "3", "--reward-translation", "-0.4")
NO_HOME = {"HOME": "/proc/nowhere"}  # cannot be made either
DONE = (0, 3, 4)  # there is a verdict
# Permissions hold for root, too, once it has not the right to pass over them.
POWERLESS = ("setpriv", "--bounding-set=-dac_override,-dac_read_search", "--inh-caps=-dac_override,-dac_read_search")


def run(words, *, env, source=SOURCE, before=()):
    """Run the command with these variables and no others."""
    kept = {name: value for name, value in os.environ.items() if name == "PATH"}
    return subprocess.run(
        [*before, sys.executable, "-m", "bopl", *map(str, words)],
        env={**kept, "PYTHONPATH": str(source), "PYTHONDONTWRITEBYTECODE": "1", **env},
        capture_output=True,
        text=True,
        cwd="/",
    )


@pytest.fixture
def powerless():
    """What to put before a command so that nothing is allowed to it that its user is not."""
    if os.geteuid() != 0:
        return ()
    if shutil.which("setpriv") is None or subprocess.run([*POWERLESS, "true"], capture_output=True).returncode != 0:
        pytest.skip("root passes over all permissions here")
    return POWERLESS


@pytest.fixture
def image(tmp_path):
    """A copy of the installation that cannot be written, as an image has it, beside a log and two folders."""
    shutil.copytree(SOURCE, tmp_path / "src")
    write_log(tmp_path / "log.parquet", n_samples=300)
    for name in ("tmp", "work"):
        (tmp_path / name).mkdir()
    tree = [tmp_path / "src", *(tmp_path / "src").rglob("*")]
    for path in tree:
        path.chmod(0o555 if path.is_dir() else 0o444)
    yield tmp_path
    for path in tree:
        if path.is_dir():
            path.chmod(0o755)
    (tmp_path / "work").chmod(0o755)


@pytest.mark.slow
@pytest.mark.parametrize("is_compiled", [True, False])
def test_a_read_only_installation_without_a_home_trains(image, powerless, is_compiled):
    if not is_compiled:
        for path in (image / "src").rglob("*.nb?"):
            path.unlink()
    words = ["train", image / "log.parquet", *WORDS, *SINGLE, "--out", image / "work" / "policy.bopl"]
    env = {**NO_HOME, "TMPDIR": str(image / "tmp")}
    done = run(words, env=env, source=image / "src", before=powerless)
    assert done.returncode in DONE, done.stderr
    assert "Traceback" not in done.stderr
    bopl.load(image / "work" / "policy.bopl")
    assert is_compiled or f"compiled code is kept in '{image / 'tmp'}" in done.stderr
    assert is_compiled or any((image / "tmp").rglob("*.nbc"))


def test_a_folder_that_cannot_be_written_is_one_sentence_before_anything_is_read(image, powerless):
    (image / "work").chmod(0o555)
    words = ["train", image / "log.parquet", *WORDS, *SINGLE, "--out", image / "work" / "policy.bopl"]
    env = {**NO_HOME, "TMPDIR": str(image / "tmp")}
    done = run(words, env=env, source=image / "src", before=powerless)
    path = str(image / "work" / "policy.run")
    assert (done.returncode, done.stderr) == (2, f"bopl: {path!r} cannot be written: Permission denied.\n")


@pytest.mark.slow
def test_where_no_file_at_all_can_be_written_policies_are_judged_and_training_is_one_sentence(image, powerless):
    words = [image / "log.parquet", *WORDS]
    train = ["train", *words, *SINGLE, "--out", image / "work" / "policy.bopl"]
    nowhere = [*powerless, "bash", "-c", 'ulimit -f 0; exec "$@"', "bash"]
    assert run(train, env=NO_HOME).returncode in DONE
    before = files(image / "work")
    judged = run(
        ["evaluate", words[0], image / "work" / "policy.bopl"], env=NO_HOME, source=image / "src", before=nowhere
    )
    assert judged.returncode in DONE, judged.stderr
    assert "Traceback" not in judged.stderr
    done = run(train, env=NO_HOME, source=image / "src", before=nowhere)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].endswith("cannot be written: File too large. Nothing was changed.")
    assert "Traceback" not in done.stderr
    assert files(image / "work") == before


# -- A disk without room ----------------------------------------------------------------------------------------------


@pytest.fixture
def disk(tmp_path):
    """A disk of 64 KB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    try:
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", folder], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no disk can be mounted here")
    yield folder
    subprocess.run(["umount", folder], check=True)


def files(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("filled", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_disk_of_64_kb_is_one_sentence_and_the_old_policy_is_intact(tmp_path, disk, filled):
    log = write_log(tmp_path / "log.parquet", n_samples=300)
    roles = ["train", log, *WORDS, "--objective", "ips", "--reward-translation", "-0.4", "--out"]
    small, large = ("--n-rounds", "1", "--max-depth", "1"), ("--n-rounds", "150", "--max-depth", "10")
    env = {"HOME": os.environ.get("HOME", "/")}
    assert run_bopl(*roles, tmp_path / "old.bopl", *small) in DONE
    shutil.copy(tmp_path / "old.bopl", disk / "policy.bopl")
    (disk / "policy.run").mkdir()
    for name in ("policy.bopl", "config.toml", "history.csv", "run.json"):
        shutil.copy(tmp_path / "old.run" / name, disk / "policy.run" / name)
    if filled:
        _fill(disk / "rest")
    before = files(disk)
    done = run([*roles, disk / "policy.bopl", *large, "--min-leaf-samples", "1"], env=env)
    assert done.returncode in (1, 2)
    assert len(done.stderr.splitlines()) == 1
    assert "cannot be written: No space left on device." in done.stderr
    assert files(disk) == before
    bopl.load(disk / "policy.bopl")


def _fill(path):
    with path.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(b"x" * 4096)
        except OSError:
            return
