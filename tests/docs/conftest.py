import runpy
import sys
from pathlib import Path

import pytest

from registries import forgotten

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(autouse=True)
def registered_by_examples_is_forgotten():
    """Examples and pages register what is theirs, which other tests must not meet."""
    with forgotten():
        yield


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Run an example in an empty folder; return its names."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(EXAMPLES)
    monkeypatch.setattr(sys, "argv", ["example"])
    return lambda name, run_name="__main__": runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name=run_name)


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    """No test writes to the user's cache."""
    monkeypatch.setenv("BOPL_CACHE", str(tmp_path / "cache"))
