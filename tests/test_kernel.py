"""Compiled code that cannot be kept, or was kept and is damaged, never stops the program."""

import os
import shutil
import subprocess
import sys

import pytest

from bopl import _kernel

MODULE = """
from bopl._kernel import njit


@njit(cache=True)
def double(x):
    return 2 * x


print(double(21), double.stats.cache_hits and sum(double.stats.cache_hits.values()))
"""


def run(folder, **more):
    env = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"} | more
    done = subprocess.run([sys.executable, folder / "module.py"], capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stderr
    return done.stdout.split(), done.stderr


@pytest.fixture
def folder(tmp_path):
    """A module whose cache is beside it."""
    (tmp_path / "module.py").write_text(MODULE)
    return tmp_path


@pytest.fixture(scope="module")
def warm(tmp_path_factory):
    """A folder with the module and its compiled code."""
    folder = tmp_path_factory.mktemp("warm")
    (folder / "module.py").write_text(MODULE)
    assert run(folder)[0][0] == "42"
    return folder


@pytest.fixture
def compiled(warm, tmp_path):
    """A copy of it, to be damaged; what numba compares of the source is its time and its size."""
    shutil.copytree(warm, tmp_path / "copy")
    return tmp_path / "copy"


@pytest.fixture
def blocked(folder):
    """The same where neither the folder nor the home takes files: files stand where folders would be."""
    (folder / "__pycache__").write_text("")
    (folder / "home").write_text("")
    return folder, {"HOME": str(folder / "home"), "XDG_CACHE_HOME": str(folder / "home" / "cache")}


def test_compiled_code_is_taken_from_the_cache(compiled):
    words, said = run(compiled)
    assert words == ["42", "1"]
    assert said == ""


@pytest.mark.parametrize("pattern", ["*.nbi", "*.nbc"])
@pytest.mark.parametrize("damage", [lambda content: content[:40], lambda content: b"\0" * len(content)])
def test_a_damaged_cache_is_compiled_again_and_then_whole(compiled, pattern, damage):
    (file,) = (compiled / "__pycache__").glob(pattern)
    file.write_bytes(damage(file.read_bytes()))
    words, said = run(compiled)
    assert words[0] == "42"
    assert said.count("is damaged, so it is compiled again") == 1
    assert run(compiled) == (["42", "1"], "")


def test_code_without_bounds_checks_is_not_taken_where_they_are_asked_for(compiled):
    words, said = run(compiled, NUMBA_BOUNDSCHECK="1")
    assert words[0] == "42"
    assert words[1] != "1"
    assert said == ""


def test_an_altered_byte_of_compiled_code_is_never_run(compiled):
    (file,) = (compiled / "__pycache__").glob("*.nbc")
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    assert "is damaged" in run(compiled)[1]


def test_without_installation_and_home_a_temporary_folder_is_used_and_said(blocked):
    folder, env = blocked
    (folder / "tmp").mkdir()
    words, said = run(folder, **env, TMPDIR=str(folder / "tmp"))
    assert words[0] == "42"
    assert said.count("compiled code is kept in") == 1
    assert run(folder, **env, TMPDIR=str(folder / "tmp"))[0] == ["42", "1"]


def test_a_folder_that_others_can_write_is_not_used(tmp_path, monkeypatch):
    monkeypatch.setattr(_kernel.tempfile, "tempdir", str(tmp_path))
    taken = tmp_path / f"bopl-cache-{os.getuid()}"
    taken.mkdir()
    os.chmod(taken, 0o777)
    _kernel.temporary_folder.cache_clear()
    try:
        assert _kernel.temporary_folder() != str(taken)
    finally:
        _kernel.temporary_folder.cache_clear()


def test_ctrl_c_waits_for_code_that_is_being_loaded(compiled):
    """LLVM calls Python while it loads code: what is raised there is lost, and the process dies."""
    script = """
import signal
from bopl import _kernel

load = _kernel._CheckedFile._load_data
seen = []

def stopped(self, name):
    signal.raise_signal(signal.SIGINT)
    found = load(self, name)
    seen.append("loaded")
    return found

signal.signal(signal.SIGINT, signal.default_int_handler)
_kernel._CheckedFile._load_data = stopped
try:
    import module
except KeyboardInterrupt:
    print(*seen, "and stopped")
"""
    (compiled / "script.py").write_text(script)
    done = subprocess.run([sys.executable, "script.py"], capture_output=True, text=True, cwd=compiled, env=os.environ)
    assert (done.returncode, done.stdout) == (0, "loaded and stopped\n"), done.stderr
