"""Files that are whole and signed, and were written to do harm: each is refused in one sentence."""

import hashlib
import io
import json
import tracemalloc
import zipfile

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import ipc
from scipy import sparse

import bopl
from bopl._archive import DOCUMENT, Archive, read_archive, write_archive
from bopl.baseline import LoggingPolicy, XGBRewardPolicy
from bopl.boosting.checkpoint import FORMAT_NUMBER, read_checkpoint
from bopl.learner.store import unpack_predictors
from bopl.policy.scored import check_scores
from helpers import informative_log


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "policy.bopl"
    learner = bopl.HistTree(max_depth=3, min_child_weight=2.0)
    bopl.BoostedPolicy("ips", learner, n_rounds=4, reward_translation=-0.1, random_state=0).fit(informative_log()).save(
        path
    )
    return path


def rewrite(model, path, change):
    """Write the policy again with other arrays or another document."""
    archive = read_archive(model, "policy", 2)
    arrays = {name: array.copy() for name, array in archive.arrays.items()}
    change(archive.document, arrays)
    write_archive(path, Archive("policy", 2, archive.document, arrays))
    return path


def first_leaf(arrays):
    return int(np.flatnonzero(arrays["predictor/feature"] == -1)[0])


def set_entry(name, place, value):
    def change(document, arrays):
        arrays[name][place(arrays) if callable(place) else place] = value

    return change


def on_action(arrays):
    return int(np.flatnonzero(arrays["predictor/feature"] == -2)[0])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (set_entry("predictor/right", first_leaf, 10**6), "a leaf of a tree has a child"),
        (set_entry("predictor/right", first_leaf, 0), "a leaf of a tree has a child"),
        (set_entry("predictor/right", 0, 1), "has no parent or more than one"),
        (set_entry("predictor/right", 0, 10**6), "children do not follow their parents"),
        (set_entry("predictor/action", on_action, -5), "an action that does not exist"),
        (set_entry("predictor/action", on_action, -1), "an action that does not exist"),
        (set_entry("predictor/action_feature", on_action, -7), "a feature of actions that does not exist"),
        (set_entry("predictor/feature", 0, 99), "a column that does not exist"),
        (set_entry("predictor/value", first_leaf, np.nan), "not finite"),
        (set_entry("predictor/value", first_leaf, np.inf), "not finite"),
        (set_entry("predictor/threshold", 0, np.nan), "a threshold that is not a number"),
        (set_entry("predictor/sum_weight", 1, 1e30), "weighs less than its children"),
        (set_entry("predictor/n_nodes", 0, 2**62), "sizes do not match"),
        (set_entry("step/alpha", 0, np.nan), "a step is not a finite number"),
        (lambda document, arrays: document.update(n_features=10**15), "n_features must"),
        (lambda document, arrays: document["settings"].update(inverse_temperature=-1), "inverse_temperature"),
        (lambda document, arrays: document["settings"].update(n_rounds={}), "n_rounds"),
        (lambda document, arrays: document.update(actions=[1, 1, 2]), "lists an action twice"),
        (lambda document, arrays: document.update(history_objective=3), "not text"),
    ],
)
def test_what_would_reach_outside_arrays_or_give_nan_is_refused(tmp_path, model, change, message):
    with pytest.raises(ValueError, match=message):
        bopl.load(rewrite(model, tmp_path / "changed.bopl", change))


def members_of(model):
    with zipfile.ZipFile(model) as file:
        return {name: file.read(name) for name in file.namelist()}


def packed(path, members):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        for name, content in members:
            file.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)
        file.comment = b"0" * 64
    body = buffer.getvalue()[:-64]
    path.write_bytes(body + hashlib.sha256(body).hexdigest().encode())
    return path


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_member_that_occurs_twice_is_refused(tmp_path, model):
    members = list(members_of(model).items())
    with pytest.raises(ValueError, match="contains a member twice"):
        bopl.load(packed(tmp_path / "twice.bopl", [*members, members[-1]]))


def test_a_name_that_is_listed_twice_or_not_at_all_is_refused(tmp_path, model):
    members = members_of(model)
    head = json.loads(members[DOCUMENT])
    members[DOCUMENT] = json.dumps({**head, "arrays": [*head["arrays"], head["arrays"][0]]}).encode()
    with pytest.raises(ValueError, match="members are not those that it lists"):
        bopl.load(packed(tmp_path / "listed.bopl", members.items()))


def test_a_small_file_that_unpacks_to_much_is_refused(tmp_path, model):
    members = members_of(model)
    members["bomb.npy"] = bytes(1 << 27)
    with pytest.raises(ValueError, match=r"unpacks to [\d,]+ bytes, more than a file of"):
        bopl.load(packed(tmp_path / "bomb.bopl", members.items()))


@pytest.mark.parametrize("has_head", [False, True])
@pytest.mark.parametrize("has_tail", [False, True])
def test_a_huge_file_with_a_hole_is_refused_without_reading_it_into_memory(tmp_path, model, has_head, has_tail):
    content, path = model.read_bytes(), tmp_path / "huge.bopl"
    with path.open("wb") as file:
        file.write(content if has_head else b"")
        file.truncate(1 << 28)
        file.seek(0, 2)
        file.write(content if has_tail else b"")
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=r"is not a bopl policy file|is damaged"):
            bopl.load(path)
        assert tracemalloc.get_traced_memory()[1] < 1 << 24
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("path", [None, 3, b"policy.bopl", ["policy.bopl"]])
def test_a_path_that_is_none_is_refused_in_one_sentence(path):
    with pytest.raises(TypeError, match="the path of a policy file must be text or a Path"):
        bopl.load(path)


@pytest.mark.parametrize("shape", ["(1000000000000,)", "(-1,)", "(4611686018427387904, 4)", "()"])
def test_an_array_that_describes_other_bytes_than_it_has_is_refused(tmp_path, model, shape):
    members = members_of(model)
    head = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}".encode().ljust(117) + b"\n"
    members["step/alpha.npy"] = b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little") + head + bytes(64)
    with pytest.raises(ValueError, match="does not hold the"):
        bopl.load(packed(tmp_path / "shape.bopl", members.items()))


@pytest.mark.parametrize("text", ["NaN", "1e999", "[" * 100_000, '"\\ud800"'])
def test_json_that_python_reads_and_nobody_can_use_is_refused(tmp_path, model, text):
    members = members_of(model)
    members[DOCUMENT] = members[DOCUMENT].replace(b'"n_features": 4', f'"n_features": {text}'.encode())
    with pytest.raises(ValueError, match=r"is not a bopl policy file: \S"):
        bopl.load(packed(tmp_path / "json.bopl", members.items()))


def test_trees_of_many_actions_are_read_without_a_square_of_them():
    arrays = {"coef": np.zeros((1, 100_001)), "intercept": np.zeros(1)}
    with pytest.raises(ValueError, match="a column for each of 100,000 actions"):
        unpack_predictors({"kind": "linear"}, arrays, n_features=1, n_actions=100_000)
    nodes = {"right": "i4", "feature": "i4", "threshold": "f4", "default_left": "?", "is_equal": "?", "value": "f8"}
    nodes |= {"action_feature": "i4", "action": "i4", "gain": "f4", "sum_weight": "f4"}
    leaf = {name: np.zeros(1, kind) for name, kind in nodes.items()}
    leaf |= {name: np.full(1, -1, np.int32) for name in ("right", "feature", "action", "action_feature")}
    leaf |= {"n_nodes": np.ones(1, np.int64), "right_actions": np.zeros((0, 1563), np.uint64)}
    (tree,) = unpack_predictors({"kind": "hist_tree"}, leaf, n_features=1, n_actions=100_000)
    assert tree.n_actions == 100_000


def test_a_booster_whose_trees_point_outside_never_reaches_xgboost(tmp_path):
    path = tmp_path / "xgb.bopl"
    XGBRewardPolicy(n_rounds=3, max_depth=2, n_jobs=1).fit(informative_log()).save(path)

    def point_outside(document, arrays):
        content = arrays["booster"].tobytes()
        at = content.index(b"left_children[$l#L") + len(b"left_children[$l#L") + 8
        arrays["booster"] = np.frombuffer(content[:at] + b"\x7f\xff\xff\x00" + content[at + 4 :], np.uint8)

    with pytest.raises(ValueError, match="children of a tree are not in pairs"):
        bopl.load(rewrite(path, tmp_path / "changed.bopl", point_outside))

    def cut(document, arrays):
        arrays["booster"] = arrays["booster"][:100]

    with pytest.raises(ValueError, match="it ends too early"):
        bopl.load(rewrite(path, tmp_path / "cut.bopl", cut))


def test_scores_that_are_not_finite_are_never_acted_on():
    assert check_scores(np.array([[1e308, 1e308]])).max() == 1e308  # although their sum is infinite
    with pytest.raises(ValueError, match="not finite for 1 of 2 contexts, the first at row 1"):
        check_scores(np.array([[0.0, 1.0], [np.nan, 0.0]]))


def test_a_checkpoint_that_says_nonsense_is_refused_in_one_sentence(tmp_path):
    log, path = informative_log(), tmp_path / "fit.ckpt"
    bopl.BoostedPolicy("ips", n_rounds=2, random_state=0).fit(log, callbacks=[bopl.Checkpoint(path, every=1)])
    archive = read_archive(path, "checkpoint", FORMAT_NUMBER)
    settings = archive.document["settings"]
    for name, value in (("score", np.zeros(3)), ("history/alpha", np.zeros(7)), ("step/alpha", np.full(2, np.nan))):
        write_archive(path, Archive("checkpoint", FORMAT_NUMBER, archive.document, archive.arrays | {name: value}))
        with pytest.raises(ValueError, match="is not a valid bopl checkpoint file"):
            read_checkpoint(path, log, settings, 2)


def test_an_arrow_log_whose_positions_leave_their_dictionary_is_refused(tmp_path):
    action = pa.DictionaryArray.from_arrays(np.array([0, 2**30], np.int32), ["a", "b"], safe=False)
    table = pa.table({"action": action, "reward": [0.0, 1.0], "propensity": [0.5, 0.5], "x": [0.0, 1.0]})
    with ipc.new_file(tmp_path / "log.arrow", table.schema) as file:
        file.write_table(table)
    with pytest.raises(ValueError, match="cannot be read as Arrow"):
        bopl.BanditLog.read(tmp_path / "log.arrow")


@pytest.mark.parametrize(("name", "value"), [("indices", 10**6), ("indices", -3), ("indptr", 10**6), ("indptr", -1)])
def test_sparse_contexts_that_point_outside_are_refused_before_any_kernel(model, name, value):
    log = informative_log()
    matrix = sparse.csr_array(log.context)
    getattr(matrix, name)[5] = value
    for use in (
        lambda: bopl.BanditLog(matrix, log.action, log.reward, log.propensity),
        lambda: bopl.load(model).predict_proba(matrix),
    ):
        with pytest.raises(ValueError, match="point outside it"):
            use()


def test_a_policy_with_an_infinite_setting_is_written_and_read_again(tmp_path):
    policy = XGBRewardPolicy(reg_lambda=np.inf, n_rounds=2)
    assert policy._plain_settings()["reg_lambda"] == "inf"


@pytest.mark.parametrize("names", [3, "dr", ["dr", 3]])
def test_names_of_candidates_in_a_file_are_a_list_of_names(names):
    from bopl.policy.model_file import read_settings

    defaults = bopl.AutoPolicy().get_params(deep=False)
    with pytest.raises(ValueError, match="'include' must be a list of names"):
        read_settings({"include": names}, defaults)
    assert read_settings({"include": ["dr"]}, defaults) == {"include": ["dr"]}


@pytest.mark.parametrize("penalty", [[], [0.5], "much", -1.0, True])
def test_a_penalty_that_is_no_number_is_refused_under_its_former_name(tmp_path, penalty):
    LoggingPolicy().fit(informative_log()).save(tmp_path / "policy.bopl")
    path = rewrite(
        tmp_path / "policy.bopl",
        tmp_path / "changed.bopl",
        lambda document, arrays: document["settings"].update(inverse_penalty=penalty),
    )
    with pytest.raises(ValueError, match="C must be"):
        bopl.load(path)
