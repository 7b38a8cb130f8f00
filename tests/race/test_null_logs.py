"""A smaller version of benchmarks/null_logs.py: where actions do not matter, races end at the logging policy."""

from pathlib import Path

import numpy as np
import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
N_LOGS = 40  # at one miss in twenty, five or more misses come in one of twenty runs


@pytest.fixture
def null_logs(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    import null_logs

    return null_logs


def test_logs_of_noise_are_decided_by_their_numbers_and_differ(null_logs):
    first, again, other = (null_logs.draw_null(number) for number in (3, 3, 4))
    assert first[0] == again[0] != other[0]
    np.testing.assert_array_equal(first[1].reward, again[1].reward)
    kinds = {null_logs.draw_null(number)[0].kind for number in range(30)}
    assert kinds == set(null_logs.KINDS)


@pytest.mark.slow
def test_races_on_logs_of_noise_end_at_the_logging_policy(null_logs):
    """The full benchmark asks for 95 of 100."""
    found = [null_logs.race(None, number) for number in range(N_LOGS)]
    assert sum(not one["is_logging"] for one in found) <= 4, [one for one in found if not one["is_logging"]]
