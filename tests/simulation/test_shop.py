import numpy as np
import pytest

from bopl.simulation import simulate_shop
from bopl.simulation.shop import BANNERS, CATEGORIES


@pytest.fixture(scope="module")
def shop():
    return simulate_shop(20_000, random_state=1)


def test_clicks_are_drawn_with_their_chance(shop):
    chosen = np.array([BANNERS.index(name) for name in shop.action])
    chance = shop.click_chance[np.arange(len(chosen)), chosen]
    error = np.sqrt((chance * (1.0 - chance)).sum()) / len(chance)
    assert abs(shop.reward.mean() - chance.mean()) < 4.0 * error
    assert abs(chance.mean() - shop.logging_value) < 4.0 * chance.std() / np.sqrt(len(chance))


def test_propensities_are_those_of_the_rule_of_thumb(shop):
    chosen = np.array([BANNERS.index(name) for name in shop.action])
    assert np.array_equal(shop.propensity, shop.logging_prob[np.arange(len(chosen)), chosen])
    np.testing.assert_allclose(shop.logging_prob.sum(axis=1), 1.0)
    assert [finding.check for finding in shop.to_log().audit().problems] == []


def test_log_and_frame_say_the_same(shop):
    log, frame = shop.to_log(), shop.to_frame("pandas")
    assert list(frame.columns) == [*log.feature_names, "banner", "click", "p"]
    for idx, name in enumerate(log.feature_names):
        if name in CATEGORIES:
            texts = np.array(CATEGORIES[name])[log.context[:, idx].astype(int)]
            assert np.array_equal(texts, frame[name])
    assert frame["days since last visit"].isna().mean() == pytest.approx(0.35, abs=0.02)
    assert np.array_equal(log.action, frame["banner"])


def test_there_is_something_to_learn(shop):
    assert shop.click_chance.max(axis=1).mean() > 1.5 * shop.logging_value
