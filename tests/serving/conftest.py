import pytest

from loops import Server, make_loop, make_policy


@pytest.fixture(scope="session")
def policies(tmp_path_factory):
    """Two policies: their files by their ids."""
    folder = tmp_path_factory.mktemp("policies")
    files = [folder / "first.bopl", folder / "second.bopl"]
    return {make_policy(file, seed=seed, n_rounds=3 + seed).policy_id: file for seed, file in enumerate(files)}


@pytest.fixture(scope="session")
def first(policies):
    """The file of the first policy."""
    return next(iter(policies.values()))


@pytest.fixture(scope="module")
def loop(tmp_path_factory, first):
    """The folder of a loop."""
    return make_loop(tmp_path_factory.mktemp("loop") / "shop", first, random_state=7, reward_window_s=30.0)


@pytest.fixture(scope="module")
def server(loop):
    """A running server."""
    with Server(loop.path) as running:
        yield running


@pytest.fixture
def client(server):
    """A client of it."""
    with server.client() as opened:
        yield opened
