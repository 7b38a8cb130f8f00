import pytest

from bopl.race import candidate


@pytest.fixture(scope="module", autouse=True)
def short_reward_models():
    """Reward models of a quarter of their rounds: they take most of the time of a race on a small log."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setitem(candidate.rewards.__kwdefaults__, "n_rounds", 25)
        yield


@pytest.fixture
def full_reward_models(monkeypatch):
    """Reward models of all their rounds, for what hangs on them."""
    monkeypatch.setitem(candidate.rewards.__kwdefaults__, "n_rounds", candidate.REWARD_ROUNDS)
