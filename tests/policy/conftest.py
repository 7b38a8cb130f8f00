import pytest


@pytest.fixture(scope="module", autouse=True)
def quick(short_reward_models):
    """What happens to the winner of a race, whoever it is."""
