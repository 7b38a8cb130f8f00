import pytest

from bopl.race import candidate


@pytest.fixture(scope="module", autouse=True)
def quick(short_reward_models):
    """Races on small logs."""


@pytest.fixture
def full_reward_models(monkeypatch):
    """Reward models of all their rounds, for what hangs on them."""
    monkeypatch.setitem(candidate.rewards.__kwdefaults__, "n_rounds", candidate.REWARD_ROUNDS)
