"""Columns as strangers bring them: handled as they are meant, or refused in one sentence of the package."""

from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy import sparse

import bopl
from bopl._errors import UsageError
from bopl.baseline import UniformPolicy

ROLES = {"action": "a", "reward": "r", "propensity": "p"}
N = 40


def frame(**changes):
    rng = np.random.default_rng(0)
    columns = {"x": rng.normal(size=N), "a": ["u", "v"] * 20, "r": rng.random(N), "p": np.full(N, 0.5)}
    return pd.DataFrame({**columns, **changes})


def two(**changes):
    columns = {"context": np.ones((2, 1)), "action": ["a", "b"], "reward": [1, 0], "propensity": [0.5, 0.5]}
    return bopl.BanditLog(**{**columns, **changes})


def test_a_propensity_that_rounding_lifted_above_one_is_one():
    log = two(propensity=np.float32([1.0000001, 0.5]))
    assert log.propensity.tolist() == [1.0, 0.5]
    with pytest.raises(ValueError, match=r"propensity must lie in \(0, 1\]"):
        two(propensity=[1.00001, 0.5])


def test_groups_and_segments_of_several_kinds_stay_apart():
    log = bopl.BanditLog(np.ones((4, 1)), ["a", "b"] * 2, [1, 0] * 2, [0.5] * 4, group=[1, "1", 2, "2"])
    assert log.group.tolist() == [0, 1, 2, 3]
    with pytest.raises(ValueError, match="group is missing in 1 of 2 samples, the first at row 1"):
        two(group=["u", np.nan])


@pytest.mark.parametrize("as_frame", [pd.DataFrame, pa.table])
@pytest.mark.parametrize("role", ["action", "reward", "propensity", "time", "group", "segment"])
@pytest.mark.parametrize("drop_invalid", [False, True])
def test_a_frame_is_not_a_column_and_its_names_are_not_labels(as_frame, role, drop_invalid):
    for columns in ({"a": [1, 0]}, {"a": [1, 0], "b": [0, 1]}):
        told = rf"{role} must have one dimension .*\(2, {len(columns)}\)\. Pass one of its columns"
        with pytest.raises(ValueError, match=told):
            two(**{role: as_frame(columns)}, drop_invalid=drop_invalid)
    with pytest.raises(TypeError, match="other_rewards must be a mapping of names to columns; got"):
        two(other_rewards=as_frame({"a": [1, 0]}))


@pytest.mark.parametrize("role", ["action", "reward", "propensity", "time", "group", "segment"])
def test_a_name_is_not_a_column(role):
    told = rf"{role} must have one value per sample; got 'ab'\. Pass the column, not its name"
    with pytest.raises(TypeError, match=told):
        two(**{role: "ab"})
    with pytest.raises(TypeError, match="segment must have one value per sample; got 'ab'"):
        two().with_segment("ab")


@pytest.mark.parametrize("segment", [["q", pd.NA], pd.array(["q", None], dtype="string"), ["q", np.nan], ["q", None]])
def test_a_missing_segment_is_one_by_whatever_name(segment):
    assert two(segment=segment).segment.tolist() == ["q", "missing"]


def test_one_name_is_a_column_and_not_its_letters():
    data = frame(city=["Rom", "Ulm"] * 20, size=[1, 2] * 20)
    assert bopl.BanditLog.from_frame(data, **ROLES, ignore="city").feature_names == ("x", "size")
    assert bopl.BanditLog.from_frame(data, **ROLES, context="city").feature_names == ("city",)
    whole = bopl.BanditLog.from_frame(data, **ROLES)
    assert whole.without_columns("city").feature_names == ("x", "size")
    log = bopl.BanditLog.from_frame(data, **ROLES, categorical="size", other_rewards="x")
    assert (log.schema.categorical, list(log.other_rewards)) == (("city", "size"), ["x"])


def test_a_leak_is_not_kept_because_its_name_is_part_of_another():
    rng = np.random.default_rng(0)
    reward = (rng.random(600) < 0.2).astype(float)
    columns = {"x": rng.normal(size=600), "rev": 3.0 * reward, "a": ["u", "v"] * 300, "r": reward, "p": 0.5}
    log = bopl.BanditLog.from_frame(pd.DataFrame(columns), **ROLES)
    assert log.audit(keep="rev")["leaks"].status == "note"
    assert log.audit(keep="revenue")["leaks"].status == "problem"


def test_times_of_several_zones_are_instants():
    times = [pd.Timestamp("2024-01-01", tz="UTC"), pd.Timestamp("2024-01-01 05:00", tz="Asia/Tokyo")] * 20
    log = bopl.BanditLog.from_frame(frame(t=times), **ROLES, time="t")
    assert log.time[1] < log.time[0]


def test_arrays_of_arrow_are_read_as_their_values():
    log = two(
        action=pa.array(["a", "b"]), group=pa.array([1, 2]), segment=pa.array(["q", None]), actions=pa.array(["b", "a"])
    )
    assert (log.actions.tolist(), log.action_idx.tolist()) == (["b", "a"], [1, 0])
    assert log.segment.tolist() == ["q", "missing"]
    assert two(action=list(pa.array([7, 8]))).actions.tolist() == [7, 8]
    with pytest.raises(ValueError, match="action is missing in 1 of 3 samples, the first at row 2"):
        bopl.BanditLog(np.ones((3, 1)), pa.array(["a", "b", None]), [1, 0, 1], [0.5] * 3)


def test_tensors_are_read_as_their_values():
    torch = pytest.importorskip("torch")
    log = two(action=torch.tensor([3, 4]), reward=torch.tensor([1.0, 0.0]))
    assert log.actions.tolist() == [3, 4]
    assert two(action=list(torch.tensor([3, 4]))).actions.tolist() == [3, 4]
    with pytest.raises(TypeError, match=r"Tensor cannot be read as a numpy array: .*Convert it to one first"):
        two(reward=torch.tensor([1.0, 0.0], requires_grad=True))


def test_labels_that_differ_by_a_final_null_character_stay_apart(tmp_path):
    log = bopl.BanditLog(np.ones((3, 1)), ["a", "a\0", "b"], [1, 0, 1], [0.5] * 3)
    assert list(log.actions) == ["a", "a\0", "b"]
    UniformPolicy().fit(log).save(tmp_path / "policy.bopl")
    assert list(bopl.load(tmp_path / "policy.bopl").actions_) == ["a", "a\0", "b"]


def test_hidden_probabilities_of_a_masked_array_are_not_used():
    policy = np.ma.array(np.full((2, 2), 0.5), mask=[[True, False], [False, False]])
    with pytest.raises(ValueError, match="negative or not a number"):
        bopl.evaluate(two(), policy)


REFUSED = {
    "accents": (lambda: two(action=["é", "e\u0301"]), ValueError, "two actions are both written"),
    "accents, array": (lambda: two(action=np.array(["é", "e\u0301"])), ValueError, "two actions are both written"),
    "a set of actions": (lambda: two(actions={"a", "b"}), TypeError, "must be a sequence"),
    "actions taken as a set": (lambda: two(action={"a", "b"}), TypeError, "must be a sequence"),
    "a ragged mask": (lambda: two(action_mask=[[1], [1, 1]]), ValueError, "rows of different lengths"),
    "a ragged context": (lambda: two(context=[[1], [1, 2]]), ValueError, "rows of different lengths"),
    "ragged times": (lambda: two(time=[[1], [2, 3]]), ValueError, "time must have one dimension"),
    "a short mask": (
        lambda: bopl.BanditLog.from_frame(frame(), **ROLES, action_mask=np.ones((3, 2)), drop_invalid=True),
        ValueError,
        "action_mask has 3 rows, the log 40",
    ),
    "a short mask, array": (
        lambda: two(action_mask=np.ones((1, 2)), drop_invalid=True),
        ValueError,
        "action_mask has 1 rows, the log 2",
    ),
    "groups that are sets": (lambda: two(group=[{1}, {2}]), TypeError, "labels of group must be hashable"),
    "groups that are lists": (lambda: two(group=[[1], [2, 3]]), TypeError, "labels of group must be hashable"),
    "segments that are lists": (
        lambda: two(segment=[["a"], ["b", "c"]]),
        ValueError,
        "segment must have one dimension",
    ),
    "a translation of text": (lambda: two().translated("much"), TypeError, "reward_translation must be a number"),
    "no path": (lambda: bopl.BanditLog.read(None), TypeError, "path must be text or a Path"),
    "no feedback": (lambda: bopl.BanditLog.from_obp(None), TypeError, "feedback must be a dictionary"),
    "feedback of text": (
        lambda: bopl.BanditLog.from_obp({"context": np.ones((2, 1)), "action": ["a", "b"], "reward": [1, 0]}),
        ValueError,
        "'action' of whole numbers",
    ),
    "feedback of one dimension": (
        lambda: bopl.BanditLog.from_obp({"context": np.ones(2), "action": [0, 1], "reward": [1, 0]}),
        ValueError,
        "'context' of shape",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_meant_is_refused_in_one_sentence(case):
    make, kind, sentence = REFUSED[case]
    with pytest.raises(kind, match=sentence):
        make()


@pytest.mark.parametrize("make", [lambda x: pd.cut(x, 4), lambda x: pd.Categorical([(1, 2), (3, 4)] * 20)])
def test_labels_that_are_no_labels_are_named(make):
    table = frame()
    for role, name in (("action", "a"), ("group", "z"), ("context", "z")):
        named = {**ROLES, **({"group": "z"} if role == "group" else {})}
        with pytest.raises(TypeError, match=f"column '{name}' holds .*, whose values cannot be used as labels"):
            bopl.BanditLog.from_frame(table.assign(**{name: make(table["x"])}), **named)


def test_decimals_and_sparse_columns_of_pandas_are_numbers():
    plain = frame(x=np.arange(N) % 3 + 0.5)
    decimals = plain.assign(x=[None if row == 3 else Decimal(str(value)) for row, value in enumerate(plain["x"])])
    expected = bopl.BanditLog.from_frame(plain.assign(x=plain["x"].where(plain.index != 3)), **ROLES)
    for given in (decimals, plain.assign(x=pd.arrays.SparseArray(expected.context[:, 0], fill_value=0.5))):
        log = bopl.BanditLog.from_frame(given, **ROLES)
        assert np.array_equal(log.context, expected.context, equal_nan=True)
    assert np.array_equal(expected.schema.encode(decimals), expected.context, equal_nan=True)


@pytest.mark.parametrize(
    ("values", "held"),
    [
        ([1, "one", None, 2] * 10, r"values of several kinds, such as 1 and 'one'"),
        (pd.period_range("2024-01", periods=N, freq="M"), r"period\[M\]"),
        ([(1, "one")] * N, r"objects such as \(1, 'one'\)"),
    ],
)
def test_a_column_that_cannot_be_context_is_described_by_what_it_holds(values, held):
    with pytest.raises(UsageError, match=f"'x' .{held}"):
        bopl.BanditLog.from_frame(frame(x=values), **ROLES)


def test_records_instead_of_a_frame_are_told_to_become_one():
    policy = UniformPolicy().fit(bopl.BanditLog.from_frame(frame(), **ROLES))
    for records in (frame().to_dict("records"), frame().to_records(index=False)):
        with pytest.raises(TypeError, match=r"context holds records; make a frame of them"):
            policy.predict_proba(records)


def test_a_column_of_objects_that_are_all_missing_is_missing():
    log = bopl.BanditLog.from_frame(frame(z=pd.Series([None] * N, dtype=object)), **ROLES)
    assert np.isnan(log.context[:, 1]).all()


def test_numbers_that_became_text_are_noted_and_codes_are_not():
    whole = [str(20 + row) for row in range(N)]
    table = frame(
        age=["-", *whole[1:]],
        price=[f"{row},50" for row in range(N)],
        total=[f"1,{row:03}" for row in range(N)],
        zip=whole,
        size=["M", "L"] * 20,
        sku=[f"{row}-b" for row in range(N)],
    )
    found = bopl.BanditLog.from_frame(table, **ROLES).audit()["numbers_as_text"]
    assert found.status == "note"
    assert all(f"'{name}' holds text such as" in found.sentence for name in ("age", "price", "total"))
    assert all(f"'{name}'" not in found.sentence for name in ("zip", "size", "sku"))
    clean = bopl.BanditLog.from_frame(table[["x", "zip", "size", "sku", "a", "r", "p"]], **ROLES)
    assert "numbers_as_text" not in [finding.check for finding in clean.audit().findings]


class Framed:
    """A policy that names the columns of its probabilities."""

    def __init__(self, columns):
        self.columns = columns

    def predict_proba(self, context):
        found = pd.DataFrame({"a": [0.9] * len(context), "b": [0.1] * len(context)})
        return found[self.columns]


def test_named_columns_of_a_policys_probabilities_may_come_in_any_order():
    log = bopl.BanditLog(np.ones((N, 1)), ["a", "b"] * 20, [1, 0] * 20, [0.5] * N)
    values = [bopl.evaluate(log, Framed(columns)).rows[0].value for columns in (["a", "b"], ["b", "a"])]
    assert values[0] == values[1] == pytest.approx(0.9)


@pytest.mark.parametrize("found", [None, {}, "text", sparse.eye_array(2)], ids=lambda found: type(found).__name__)
def test_probabilities_that_are_no_numbers_are_one_sentence(found):
    policy = Framed([])
    policy.predict_proba = lambda context: found
    with pytest.raises((TypeError, ValueError), match=r"must hold numbers|shape"):
        bopl.evaluate(two(), policy)


def test_hidden_sample_weights_are_not_used():
    weight = np.ma.array(np.ones(2), mask=[True, False])
    with pytest.raises(ValueError, match="sample_weight must be finite and not negative; 1 of 2 values are not"):
        bopl.BoostedPolicy("ips").fit(two(), sample_weight=weight)
