"""Draws: a function of seed and event, uniform, and never the same for two events."""

import numpy as np
import pytest
from scipy.stats import kstest

from bopl.serving.draws import counter_of, draw_of, key_of, philox


def test_draws_do_not_change_from_version_to_version():
    drawn = [draw_of(7, event) for event in ("a", "order-17", "Ärger")]
    assert drawn == [0.3238158282737238, 0.7170439882625903, 0.6685338587836769]


@pytest.mark.parametrize("seed", [0, 7, 2**63 - 1])
@pytest.mark.parametrize("event", ["a", "order-17", "名前"])
def test_the_generator_is_numpys(seed, event):
    key, counter = key_of(seed), counter_of(event)
    joined = sum(word << 64 * place for place, word in enumerate(counter))
    before = (joined - 1) % 2**256  # numpy's generator counts before it draws
    assert philox(key, counter) == np.random.Philox(key=key[0] | key[1] << 64, counter=before).random_raw()


def test_draws_are_uniform_and_differ():
    drawn = np.array([draw_of(7, f"event-{number}") for number in range(5000)])
    assert len(set(drawn)) == 5000
    assert drawn.min() >= 0.0
    assert drawn.max() < 1.0
    assert kstest(drawn, "uniform").pvalue > 0.01


def test_seeds_give_unrelated_draws():
    one, other = (np.array([draw_of(seed, str(number)) for number in range(2000)]) for seed in (1, 2))
    assert abs(np.corrcoef(one, other)[0, 1]) < 0.06
