import io
import json
import subprocess
import sys
import zipfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import Ridge
from sklearn.neural_network import MLPRegressor
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

import bopl
from bopl._archive import Archive, write_archive
from helpers import informative_log, make_log

LEARNERS = [
    DecisionTreeRegressor(max_depth=3),
    DecisionTreeClassifier(max_depth=3),
    bopl.XGBTree("hist", max_depth=3),
    Ridge(),
]


def fitted(learner=LEARNERS[0], log=None, **changes):
    policy = bopl.BoostedPolicy("ips", learner, n_rounds=6, reward_translation=-0.1, random_state=0, **changes)
    return policy.fit(log or informative_log())


@pytest.mark.parametrize("learner", LEARNERS, ids=str)
def test_loaded_policy_is_the_saved_one(tmp_path, learner):
    log, path = informative_log(), tmp_path / "policy.bopl"
    policy = fitted(learner)
    policy.save(path)
    loaded = bopl.load(path)
    np.testing.assert_array_equal(loaded.decision_function(log.context), policy.decision_function(log.context))
    assert loaded.get_params(deep=False).keys() == policy.get_params(deep=False).keys()
    assert loaded.learner.get_params() == policy.learner.get_params()
    assert loaded.reward_translation == -0.1
    assert loaded.stop_reason_ == policy.stop_reason_
    assert loaded.history_.to_frame().equals(policy.history_.to_frame())


def test_another_process_gets_the_same_bits(tmp_path):
    log, policy = informative_log(), fitted()
    policy.save(tmp_path / "policy.bopl")
    np.save(tmp_path / "context.npy", log.context)
    code = (
        "import sys, numpy as np, bopl; folder = sys.argv[1]; policy = bopl.load(folder + '/policy.bopl'); "
        "np.save(folder + '/score.npy', policy.decision_function(np.load(folder + '/context.npy')))"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True)
    assert np.load(tmp_path / "score.npy").tobytes() == policy.decision_function(log.context).tobytes()


def test_saving_twice_gives_the_same_bytes(tmp_path):
    for name in ("one", "two"):
        fitted().save(tmp_path / name)
    bopl.load(tmp_path / "one").save(tmp_path / "three")
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes() == (tmp_path / "three").read_bytes()


def test_the_version_of_the_package_is_not_in_the_file(tmp_path, monkeypatch):
    policy = fitted()
    policy.save(tmp_path / "this")
    monkeypatch.setattr(bopl, "__version__", "9.9")
    policy.save(tmp_path / "another")
    assert (tmp_path / "this").read_bytes() == (tmp_path / "another").read_bytes()


@pytest.mark.parametrize(
    "labels", [["a", "b", "c"], [1, 5, 9], [0.5, 1.5, 2.5], [("x", 1), ("y", (2, 3)), "z"], [True, "yes", 3]]
)
def test_labels_keep_their_types(tmp_path, labels):
    log = informative_log()
    column = [labels[position] for position in log.action_idx]
    policy = fitted(log=bopl.BanditLog(log.context, column, log.reward, log.propensity, actions=labels))
    policy.save(tmp_path / "policy.bopl")
    loaded = bopl.load(tmp_path / "policy.bopl")
    assert loaded.actions_.tolist() == labels
    assert [type(label) for label in loaded.actions_.tolist()] == [type(label) for label in labels]


def test_column_names_are_kept(tmp_path):
    log = informative_log()
    named = bopl.BanditLog(log.context, log.action, log.reward, log.propensity, feature_names=list("abcd"))
    fitted(log=named).save(tmp_path / "policy.bopl")
    assert bopl.load(tmp_path / "policy.bopl").feature_names_in_.tolist() == list("abcd")


def test_what_cannot_be_written_plainly_is_refused_and_leaves_no_file(tmp_path):
    log = informative_log()
    policy = fitted(MLPRegressor(hidden_layer_sizes=(3,), solver="lbfgs", max_iter=500, tol=0.1))
    with pytest.raises(TypeError, match="predictors of MLPRegressor have no plain form"):
        policy.save(tmp_path / "policy.bopl")
    labels = [frozenset([int(position)]) for position in log.action_idx]
    policy = fitted(log=bopl.BanditLog(log.context, labels, log.reward, log.propensity))
    with pytest.raises(TypeError, match="of type frozenset cannot be written"):
        policy.save(tmp_path / "policy.bopl")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"there is no folder .*nowhere' to write 'policy\.bopl' into"):
        fitted().save(tmp_path / "nowhere" / "policy.bopl")


@pytest.fixture(scope="module")
def model_bytes(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "policy.bopl"
    fitted().save(path)
    return path.read_bytes()


def load_bytes(tmp_path, content):
    path = tmp_path / "changed.bopl"
    path.write_bytes(content)
    return bopl.load(path)


@given(data=st.data())
@settings(max_examples=100, deadline=None)
def test_no_altered_or_truncated_file_is_loaded(tmp_path_factory, model_bytes, data):
    content = bytearray(model_bytes)
    position = data.draw(st.integers(0, len(content) - 1))
    if data.draw(st.booleans()):
        content[position] ^= data.draw(st.integers(1, 255))
    else:
        content = content[:position]
    with pytest.raises(ValueError, match=r"is damaged|is not a bopl policy file"):
        load_bytes(tmp_path_factory.mktemp("altered"), bytes(content))


def test_foreign_files_are_named_as_such(tmp_path):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        file.writestr("hello.txt", "hello")
    for content in (b"", b"hello", b"\x80\x04\x95pickle", buffer.getvalue()):
        with pytest.raises(ValueError, match=r"changed\.bopl' is not a bopl policy file"):
            load_bytes(tmp_path, content)
    with pytest.raises(FileNotFoundError, match=r"there is no policy file .*none\.bopl"):
        bopl.load(tmp_path / "none.bopl")


def rewritten(tmp_path, model_bytes, *, change_document=None, change_arrays=None, format_number=2):
    """Write a file that is whole and signed but says something else."""
    with zipfile.ZipFile(io.BytesIO(model_bytes)) as file:
        head = json.loads(file.read("document.json"))
        arrays = {name: np.load(io.BytesIO(file.read(f"{name}.npy"))) for name in head["arrays"]}
    document = head["content"]
    if change_document:
        change_document(document)
    if change_arrays:
        change_arrays(arrays)
    path = tmp_path / "rewritten.bopl"
    write_archive(path, Archive("policy", format_number, document, arrays))
    return path


@pytest.mark.parametrize(
    ("change_document", "change_arrays", "message"),
    [
        (lambda document: document.pop("actions"), None, "not a valid bopl policy file: 'actions'"),
        (lambda document: document.update({"class": "Other"}), None, "it contains 'Other'"),
        (lambda document: document.update({"actions": [None]}), None, "None is not an action label"),
        (lambda document: document.update({"n_features": 1}), None, "column that does not exist"),
        (lambda document: document["rounds"].update(kind="code"), None, "kind 'code' are not known"),
        (lambda document: document["settings"].update(reward_translation=None), None, "'reward_translation' cannot be"),
        (
            None,
            lambda arrays: arrays["predictor/right"].clip(-1, 0, arrays["predictor/right"]),
            "children do not follow",
        ),
        (None, lambda arrays: arrays.update({"step/alpha": np.zeros(2)}), "steps do not match"),
        (None, lambda arrays: arrays.pop("history/alpha"), "history/alpha"),
        (None, lambda arrays: arrays.update(training_rows=np.zeros(3)), "hashes of the training rows are not valid"),
    ],
)
def test_files_that_say_nonsense_are_refused(tmp_path, model_bytes, change_document, change_arrays, message):
    path = rewritten(tmp_path, model_bytes, change_document=change_document, change_arrays=change_arrays)
    with pytest.raises(ValueError, match=message):
        bopl.load(path)


def test_a_file_that_does_not_name_its_training_rows_is_read(tmp_path, model_bytes):
    """As those that were written before there were any."""
    path = rewritten(
        tmp_path,
        model_bytes,
        change_document=lambda document: document.pop("training_rows"),
        change_arrays=lambda arrays: arrays.pop("training_rows"),
    )
    assert bopl.load(path).training_rows_ is None


def test_a_file_of_a_newer_format_asks_for_an_upgrade(tmp_path, model_bytes):
    with pytest.raises(ValueError, match=r"has format 99; this version of bopl reads formats 1 to 2\. Upgrade bopl"):
        bopl.load(rewritten(tmp_path, model_bytes, format_number=99))


def test_no_pickle_is_in_the_file(model_bytes):
    with zipfile.ZipFile(io.BytesIO(model_bytes)) as file:
        arrays = [name for name in file.namelist() if name.endswith(".npy")]
        dtypes = {np.load(io.BytesIO(file.read(name)), allow_pickle=False).dtype.kind for name in arrays}
        assert set(file.namelist()) - set(arrays) == {"document.json"}
    assert dtypes <= set("biuf")


def test_make_log_of_many_rounds_stays_small(tmp_path):
    policy = bopl.BoostedPolicy("surrogate", DecisionTreeRegressor(max_depth=3), n_rounds=100, random_state=0)
    policy.fit(make_log())
    policy.save(tmp_path / "policy.bopl")
    assert (tmp_path / "policy.bopl").stat().st_size < 60_000
