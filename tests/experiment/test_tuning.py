import pytest

from bopl.experiment.config import DATASETS, METHODS, read_config
from bopl.experiment.tuning import paper_space, tune
from bopl.search import Float, Int


@pytest.mark.parametrize("dataset", DATASETS)
@pytest.mark.parametrize("method", [method for method in METHODS if method != "logging"])
def test_ranges_of_the_paper_make_a_space(dataset, method):
    space = paper_space(dataset, method)
    assert set(space) == set(read_config(dataset, method).search)
    assert all(isinstance(each, Int | Float) for each in space.values())


def test_a_dataset_the_paper_does_not_know_has_no_ranges():
    with pytest.raises(ValueError, match="the paper searched nothing for drr on digits"):
        paper_space("digits", "drr")


@pytest.mark.usefixtures("paper_data")
def test_tiny_search_on_scene_scores_by_validation_reward(tmp_path, monkeypatch):
    pytest.importorskip("optuna")
    narrow = {"n_rounds": Int(2, 5), "max_depth": Int(2, 4)}
    monkeypatch.setattr("bopl.experiment.tuning.paper_space", lambda dataset, method: narrow)
    settings = {"trials": (0,), "study": tmp_path / "study.log", "n_samples": 600, "report": lambda text: None}
    result = tune("scene", "bopl-s-regr", n_configurations=2, **settings)
    assert 0.3 < result.value < 1.0
    assert result.policy.reward_translation == read_config("scene", "bopl-s-regr").policy["reward_translation"]
    assert len(tune("scene", "bopl-s-regr", n_configurations=3, **settings).configurations) == 3
