"""The paper's datasets: sizes, splits, and what is logged on them."""

import numpy as np
import pytest

from bopl import simulation
from bopl.simulation import simulate
from bopl_paper.dataset import load_dataset, paper_split, simulate_paper

PAPER_SIZES = {  # logging training, target training, validation, testing, features, actions: the paper's table
    "covertype": (46_481, 418_329, 58_101, 58_101, 54, 7),
    "fashion_mnist": (5_400, 48_600, 6_000, 10_000, 784, 10),
    "scene": (154, 1_387, 385, 481, 294, 6),
    "tmc2007_500": (2_316, 20_846, 2_574, 2_860, 500, 22),
    "tmc2007_500_v1": (2_316, 20_846, 2_574, 2_860, 500, 22),
}


@pytest.mark.parametrize("name", PAPER_SIZES)
@pytest.mark.usefixtures("paper_data")
def test_splits_have_the_sizes_of_the_papers_table(name):
    logging, target, validation, test, n_features, n_actions = PAPER_SIZES[name]
    dataset = load_dataset(name)
    split = paper_split(dataset)
    assert (len(split.train), len(split.validation), len(split.test)) == (logging + target, validation, test)
    assert len(np.unique(np.concatenate([split.train, split.validation, split.test]))) == len(dataset.context)
    assert (dataset.context.shape[1], dataset.reward.shape[1]) == (n_features, n_actions)
    assert set(np.unique(dataset.reward)) <= {0.0, 0.25, 1.0}


@pytest.mark.usefixtures("paper_data")
def test_scene_trial_logs_what_the_paper_logs():
    problem = simulate_paper("scene", trial=3)
    assert problem.train.n_samples == 1_387
    assert problem.logging_value == pytest.approx(0.4317, abs=0.03)
    again = simulate_paper("scene", trial=3)
    assert again.train.fingerprint() == problem.train.fingerprint()
    assert simulate_paper("scene", trial=4).train.fingerprint() != problem.train.fingerprint()


@pytest.mark.slow  # ten logging policies on each of five splits
@pytest.mark.usefixtures("paper_data")
def test_split_of_scene_is_the_first_whose_logging_reward_lies_in_the_papers_interval():
    dataset = load_dataset("scene")
    earned = [
        np.mean(
            [
                simulate(dataset, paper_split(dataset, random_state=seed), trial=trial).logging_value
                for trial in range(10)
            ]
        )
        for seed in range(5)
    ]
    assert [abs(reward - 0.4317) <= 0.0042 for reward in earned] == [False, False, False, False, True]
    np.testing.assert_array_equal(paper_split(dataset).test, paper_split(dataset, random_state=4).test)


def test_missing_and_damaged_data_files_say_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setenv("BOPL_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("BOPL_OFFLINE", "1")
    with pytest.raises(FileNotFoundError, match=r"the data file scene\.npz is in none of .* BOPL_DATA"):
        load_dataset("scene")
    (tmp_path / "scene.npz").write_bytes(b"broken")
    with pytest.raises(ValueError, match=r"scene\.npz is damaged or another version: its SHA-256"):
        load_dataset("scene")
    with pytest.raises(ValueError, match="name must be one of 'covertype'"):
        load_dataset("mnist")


def test_digits_load_without_any_file():
    dataset = load_dataset("digits")
    split = paper_split(dataset)
    assert dataset.context.shape == (1797, 64)
    assert len(split.train) + len(split.validation) + len(split.test) == 1797


def test_names_that_moved_here_still_work_in_a_clone_and_say_where_they_are_elsewhere(monkeypatch):
    with pytest.warns(FutureWarning, match=r"bopl\.simulation\.paper_split is now bopl_paper\.dataset\.paper_split"):
        assert simulation.paper_split is paper_split
    monkeypatch.setattr(simulation, "find_spec", lambda package: None)
    with pytest.raises(ImportError, match=r"is now bopl_paper\.dataset\.load_dataset, in the repository .* clone it"):
        simulation.load_dataset("digits")
    with pytest.raises(AttributeError, match="has no attribute 'simulate_nothing'"):
        simulation.simulate_nothing("digits")
