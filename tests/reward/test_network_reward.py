"""A network as reward model: it learns, forgets nothing in a file, and needs torch for training only."""

import builtins

import numpy as np
import pytest

import bopl
from bopl._machine import has_torch
from bopl.race.candidate import MIN_NETWORK_COLUMNS, MIN_NETWORK_SAMPLES, candidates
from bopl.reward import NetworkRewardModel, cross_fit
from helpers import informative_log

NETWORK = next(one for one in candidates() if one.needs_network)


def small(**settings):
    return NetworkRewardModel(
        **({"hidden": (32,), "learning_rate": 0.01, "n_epochs": 25, "batch_size": 64, "random_state": 0} | settings)
    )


@pytest.fixture
def torch(monkeypatch):
    monkeypatch.setattr("bopl.reward.network_model.N_THREADS", 1)  # tests run side by side
    return pytest.importorskip("torch")


def truth_of(log):
    """Return the expected rewards of `informative_log`."""
    edges = np.quantile(log.context[:, 0], [1 / 3, 2 / 3])
    return np.eye(3)[np.digitize(log.context[:, 0], edges)]


def test_it_learns_the_rewards_of_all_actions(torch):
    log, new = informative_log(n_samples=1500), informative_log(5, n_samples=1500)
    model = small().fit(log)
    found, truth = model.predict(new.context), truth_of(new)
    assert found.shape == (1500, 3)
    assert np.mean((found - truth) ** 2) < 0.5 * truth.var()
    assert (found.argmax(axis=1) == truth.argmax(axis=1)).mean() > 0.9


def test_the_seed_decides_and_torch_s_own_generator_is_left_alone(torch):
    log = informative_log()
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    predictions = [small(n_epochs=3, random_state=seed).fit(log).predict(log.context) for seed in (1, 1, 2)]
    assert torch.equal(torch.rand(3), expected)
    assert predictions[0].tobytes() == predictions[1].tobytes()
    assert not np.array_equal(predictions[0], predictions[2])


def test_samples_of_weight_zero_are_not_learned_from(torch):
    log = informative_log(n_samples=1500)
    is_true = np.arange(1500) % 2 == 0
    both = log.with_reward(np.where(is_true, log.reward, 1.0 - log.reward))
    found = small().fit(both, sample_weight=2.0 * is_true).predict(log.context)
    assert (found.argmax(axis=1) == truth_of(log).argmax(axis=1)).mean() > 0.85


def test_units_of_rewards_and_contexts_do_not_matter(torch):
    log = informative_log(n_samples=800)
    moved = bopl.BanditLog(
        1e3 + 50.0 * log.context, log.action, 100.0 * log.reward - 30.0, log.propensity, actions=log.actions
    )
    found, other = (small(n_epochs=5).fit(one).predict(one.context) for one in (log, moved))
    np.testing.assert_allclose(other, 100.0 * found - 30.0, atol=3.0)


def test_estimates_of_a_sample_come_from_a_network_that_has_not_seen_it(torch):
    log = informative_log()
    reward = np.array(log.reward)
    reward[11] += 5.0
    before, after = (cross_fit(one, small(n_epochs=2), seed=3) for one in (log, log.with_reward(reward)))
    assert len(before.models) == NetworkRewardModel.max_folds
    same_fold = before.fold == before.fold[11]
    np.testing.assert_array_equal(after.estimate[same_fold], before.estimate[same_fold])
    assert not np.array_equal(after.estimate[~same_fold], before.estimate[~same_fold])


def test_a_policy_that_starts_from_networks_is_saved_and_loaded_to_the_same_bits(torch, tmp_path):
    log = informative_log()
    settings = {"learner": bopl.HistTree(3, n_jobs=1), "n_rounds": 3, "random_state": 0}
    policy = bopl.BoostedPolicy("dr", reward_model=small(n_epochs=3), **settings).fit(log)
    policy.save(tmp_path / "policy.bopl")
    loaded = bopl.load(tmp_path / "policy.bopl")
    new = informative_log(3).context
    assert loaded.decision_function(new).tobytes() == policy.decision_function(new).tobytes()
    loaded.save(tmp_path / "again.bopl")
    assert (tmp_path / "again.bopl").read_bytes() == (tmp_path / "policy.bopl").read_bytes()


def test_gaps_and_many_rows_are_predicted_row_by_row(torch):
    log = informative_log()
    context = np.array(log.context)
    context[::7, 1] = np.nan
    model = small(n_epochs=2).fit(bopl.BanditLog(context, log.action, log.reward, log.propensity, actions=log.actions))
    many = np.tile(context, (30, 1))  # more than a chunk
    found = model.predict(many)
    assert np.isfinite(found).all()
    np.testing.assert_allclose(found[-400:], model.predict(context), rtol=1e-5, atol=1e-6)
    assert model.layers_.predict(context[:0].astype(np.float32)).shape == (0, 3)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"hidden": (0,)}, "hidden must be"),
        ({"dropout": 1.0}, "dropout must lie"),
        ({"n_epochs": 0}, "n_epochs must be"),
        ({"device": "abacus"}, "device must be 'auto', 'cpu' or 'cuda'; got 'abacus'"),
    ],
)
def test_wrong_settings_are_refused(torch, settings, message):
    with pytest.raises(ValueError, match=message):
        small(**settings).fit(informative_log())


def test_without_torch_training_says_how_to_get_it(monkeypatch):
    plain = builtins.__import__

    def without_torch(name, *args, **kwargs):
        if name.partition(".")[0] == "torch":
            raise ImportError(name)
        return plain(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without_torch)
    with pytest.raises(ImportError, match=r"NetworkRewardModel needs PyTorch: pip install 'bopl\[deep\]'"):
        small().fit(informative_log())


@pytest.mark.parametrize("is_installed", [True, False])
def test_the_network_races_where_torch_is_and_contexts_are_wide(monkeypatch, is_installed):
    monkeypatch.setattr("bopl.race.candidate.has_torch", lambda: is_installed)
    rng = np.random.default_rng(0)

    def log(n_samples, n_columns):
        context = rng.normal(size=(n_samples, n_columns)).astype(np.float32)
        return bopl.BanditLog(context, rng.integers(0, 2, n_samples), rng.random(n_samples), np.full(n_samples, 0.5))

    assert NETWORK.suits(log(MIN_NETWORK_SAMPLES, MIN_NETWORK_COLUMNS)) is is_installed
    assert not NETWORK.suits(log(MIN_NETWORK_SAMPLES, MIN_NETWORK_COLUMNS - 1))
    assert not NETWORK.suits(log(MIN_NETWORK_SAMPLES - 1, MIN_NETWORK_COLUMNS))


def test_whether_torch_is_there_is_known_without_importing_it():
    assert isinstance(has_torch(), bool)
