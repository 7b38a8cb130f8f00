import pytest

from bopl.objective import OBJECTIVES, WEIGHTS


@pytest.fixture(autouse=True)
def registered_by_examples_is_forgotten():
    """Examples and pages register objectives and weights of their own, which other tests must not meet."""
    before = [(table, dict(table)) for table in (OBJECTIVES, WEIGHTS)]
    yield
    for table, entries in before:
        table.clear()
        table.update(entries)


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    """No test writes to the user's cache."""
    monkeypatch.setenv("BOPL_CACHE", str(tmp_path / "cache"))
