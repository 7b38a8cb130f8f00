import os
from pathlib import Path

# Tests run side by side: libraries that take all cores would only fight over them. Set before any of them is imported.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("BOPL_OFFLINE", "1")  # no test reaches beyond this machine

import pytest
from hypothesis import HealthCheck, settings

from chromium import Browser, find_chromium

# No test depends on how busy the machine is. `make test` draws the same examples every time, `make fuzz` new ones.
settings.register_profile("bopl", deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
settings.register_profile("fuzz", settings.get_profile("bopl"), derandomize=False, max_examples=300)
settings.load_profile("bopl")

SHARED_DATA = Path(__file__).parents[2] / "shared" / "data"


@pytest.fixture
def paper_data(monkeypatch):
    """Point BOPL_DATA at the paper's datasets, or skip visibly."""
    if "BOPL_DATA" not in os.environ:
        if not (SHARED_DATA / "scene.npz").is_file():
            pytest.skip("the paper's datasets are not here: set BOPL_DATA to their folder")
        monkeypatch.setenv("BOPL_DATA", str(SHARED_DATA))


@pytest.fixture
def said():
    """Return what the library has said so far."""
    from bopl._progress import listening

    found = []
    with listening(found.append):
        yield found


@pytest.fixture(scope="module")
def short_reward_models():
    """Races with reward models of a quarter of their rounds, which take most of their time on a small log."""
    from bopl.race import candidate

    with pytest.MonkeyPatch.context() as patched:
        patched.setitem(candidate.rewards.__kwdefaults__, "n_rounds", candidate.REWARD_ROUNDS // 4)
        yield


@pytest.fixture(scope="session")
def browser():
    """Headless Chromium, or skip visibly."""
    executable = find_chromium()
    if executable is None:
        pytest.skip("Chromium is not installed: pages are not looked at")
    browser = Browser(executable)
    yield browser
    browser.close()
