import pytest


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    """No test writes to the user's cache."""
    monkeypatch.setenv("BOPL_CACHE", str(tmp_path / "cache"))
