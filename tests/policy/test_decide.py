"""Deciding from a record: the propensity is that of predict_proba, whoever asks, in whatever thread or process."""

import copy
import multiprocessing
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest

import bopl
from bopl import baseline
from bopl.policy.decider import load_decider
from bopl.policy.decision import Decision
from helpers import informative_log

ROLES = ["item", "click", "p"]
N = 300


def shop_frame(seed=0):
    rng = np.random.default_rng(seed)
    city = rng.choice(["Rom", "Ulm", "Bonn"], N).astype(object)
    city[::17] = None
    item = rng.choice(["tea", "milk", "water"], N)
    best = np.where(city == "Rom", "tea", np.where(city == "Ulm", "milk", "water"))
    return pd.DataFrame(
        {
            "city": city,
            "age": np.where(rng.random(N) < 0.1, np.nan, rng.normal(40.0, 9.0, N)),
            "is_member": rng.random(N) < 0.5,
            "when": pd.Timestamp("2024-01-01 13:30") + pd.to_timedelta(rng.integers(0, 900, N), unit="h"),
            "item": item,
            "click": (item == best).astype(int),
            "p": np.full(N, 1 / 3),
        }
    )


FRAME = shop_frame()
CONTEXTS = FRAME.drop(columns=ROLES)
RECORDS = CONTEXTS.to_dict("records")
LOG = bopl.BanditLog.from_frame(FRAME, action="item", reward="click", propensity="p")


def boosted(**settings):
    return bopl.BoostedPolicy(**({"n_rounds": 4, "progress": False, "random_state": 0} | settings))


POLICIES = {
    "boosted": boosted,
    "paper": lambda: boosted(objective="ips", reward_translation=-0.1),
    "greedy": lambda: boosted(inverse_temperature=np.inf),
    "blend": lambda: bopl.BlendedPolicy([boosted(), boosted(objective="surrogate")], inverse_temperature=2.0),
    "auto": lambda: bopl.AutoPolicy(include=["regression"], progress=False, random_state=0),
    "regression": lambda: baseline.BoostedRewardPolicy(n_rounds=3),
    "xgboost": lambda: baseline.XGBRewardPolicy(n_rounds=3, n_jobs=1),
    "uniform": baseline.UniformPolicy,
    "logging": baseline.LoggingPolicy,
}


@pytest.fixture(scope="module")
def fitted():
    return {name: make().fit(LOG) for name, make in POLICIES.items()}


@pytest.mark.parametrize("name", POLICIES)
def test_a_propensity_is_that_of_predict_proba_to_the_last_bit(fitted, name):
    policy = fitted[name]
    expected = policy.predict_proba(CONTEXTS)
    np.testing.assert_array_equal(policy.records_proba(RECORDS), expected)
    position = {label: place for place, label in enumerate(policy.actions_.tolist())}
    for row in range(0, N, 7):
        np.testing.assert_array_equal(policy.record_proba(RECORDS[row]), expected[row])
        decision = policy.decide(RECORDS[row])
        assert decision.propensity == expected[row, position[decision.action]] > 0.0
        assert decision.policy == policy.policy_id


@pytest.mark.parametrize("name", ["boosted", "blend", "logging"])
def test_deciding_draws_as_sample_does(fitted, name):
    policy = fitted[name]
    action, propensity = policy.sample(CONTEXTS, random_state=3)
    decisions = policy.decide_many(RECORDS, random_state=3)
    assert [one.action for one in decisions] == action.tolist()
    assert [one.propensity for one in decisions] == propensity.tolist()
    first = policy.decide(RECORDS[0], random_state=np.random.default_rng(3), event="a")
    assert first == Decision(action[0], propensity[0], "a", policy.policy_id)


def test_a_draw_that_is_given_decides(fitted):
    policy = fitted["uniform"]
    chosen = [policy.decide(RECORDS[0], draw=draw).action for draw in (0.0, 0.34, 0.67, 1.0 - 2.0**-53)]
    assert chosen == ["milk", "tea", "water", "water"]
    many = policy.decide_many(RECORDS[:2], draw=[0.0, 0.9], events=["a", "b"])
    assert [(one.action, one.event) for one in many] == [("milk", "a"), ("water", "b")]
    with pytest.raises(ValueError, match=r"draw must lie in \[0, 1\); got 1\.0"):
        policy.decide(RECORDS[0], draw=1.0)
    with pytest.raises(TypeError, match="either random_state or draw"):
        policy.decide(RECORDS[0], draw=0.5, random_state=1)


@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.parametrize("eligible", [["tea", "milk"], [True, True, False], np.array([True, True, False])], ids=repr)
def test_only_eligible_actions_are_chosen(fitted, name, eligible):
    policy = fitted[name]
    mask = np.tile([True, True, False], (N, 1))
    expected = policy.predict_proba(CONTEXTS, action_mask=mask)
    np.testing.assert_array_equal(policy.records_proba(RECORDS, eligible=[eligible] * N), expected)
    decision = policy.decide(RECORDS[0], eligible=eligible, draw=0.999)
    assert decision.action != "water"
    assert decision.propensity == expected[0, policy.actions_.tolist().index(decision.action)]


def test_wrong_eligible_actions_are_named(fitted):
    policy = fitted["uniform"]
    for eligible, message in [
        (["tea", "beer"], "eligible lists 'beer', which the policy does not know. Its actions are 'milk', 'tea'"),
        ([], "leaves no action"),
        ([False] * 3, "leaves no action"),
        ([True], "a mask of 1 booleans; there are 3 actions"),
        ([{"a": 1}], "eligible lists {'a': 1}"),
    ]:
        with pytest.raises(ValueError, match=message):
            policy.decide(RECORDS[0], eligible=eligible)
    with pytest.raises(TypeError, match="eligible must be a list of actions"):
        policy.decide(RECORDS[0], eligible="tea")
    with pytest.raises(ValueError, match="eligible has 1 entries for 2 records"):
        policy.decide_many(RECORDS[:2], eligible=[["tea"]])


def test_columns_without_names_are_decided_from_numbers():
    log = informative_log()
    policy = boosted(objective="ips").fit(log)
    row = log.context[0].tolist()
    np.testing.assert_array_equal(policy.record_proba(row), policy.predict_proba(log.context[:1])[0])
    with pytest.raises(TypeError, match="columns without names; pass a sequence of numbers"):
        policy.decide({"x": 1.0})
    with pytest.raises(ValueError, match="context has 3 columns"):
        policy.decide(row[:3])


def test_a_frame_without_a_schema_is_decided_by_the_names_of_its_columns():
    log = informative_log()
    frame = pd.DataFrame(log.context, columns=list("abcd"))
    policy = boosted(objective="ips").fit(frame, log.action, reward=log.reward, propensity=log.propensity)
    record = dict(zip("dcba", log.context[0].tolist()[::-1], strict=True))
    np.testing.assert_array_equal(policy.record_proba(record), policy.predict_proba(frame)[0])


def test_a_sparse_record_is_decided_by_what_it_lists(tmp_path):
    rng = np.random.default_rng(0)
    words = [" ".join(f"f{k}" for k in rng.choice(9, 3, replace=False)) for _ in range(200)]
    lines = [f"{rng.integers(1, 4)}:{rng.random() - 1:.3f}:0.333 | {features}" for features in words]
    (tmp_path / "log.vw").write_text("\n".join(lines) + "\n")
    log = bopl.BanditLog.read(tmp_path / "log.vw")
    policy = boosted(objective="ips").fit(log)
    names = policy.schema_.feature_names
    expected = policy.predict_proba(log.context[:20])
    dense = log.context[:20].toarray()
    records = [{names[k]: float(row[k]) for k in np.flatnonzero(row)} for row in dense]
    np.testing.assert_array_equal(policy.records_proba(records), expected)


class FairCoin(bopl.Policy):
    actions_ = np.array(["heads", "tails"])

    def predict_proba(self, context):
        return np.full((len(context), 2), 0.5)


def test_a_policy_of_ones_own_decides():
    decision = FairCoin().decide([1.0], draw=0.7, event="e")
    assert (decision.action, decision.propensity, decision.event) == ("tails", 0.5, "e")
    assert decision.policy.endswith("FairCoin")
    with pytest.raises(TypeError, match="takes no action_mask"):
        FairCoin().decide([1.0], eligible=["heads"])


def test_an_unfitted_policy_says_so():
    with pytest.raises(ValueError, match="not fitted"):
        boosted().decide({"a": 1})


def test_nothing_is_decided_of_no_records(fitted):
    assert fitted["uniform"].decide_many([]) == []


# -- Ids --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", POLICIES)
def test_an_id_survives_a_file(fitted, name, tmp_path):
    policy = fitted[name]
    policy.save(tmp_path / "policy.bopl")
    assert bopl.load(tmp_path / "policy.bopl").policy_id == policy.policy_id
    assert copy.deepcopy(policy).policy_id == policy.policy_id


def test_other_policies_have_other_ids(fitted):
    ids = {policy.policy_id for policy in fitted.values()}
    assert len(ids) == len(POLICIES)
    assert fitted["boosted"].sharpened(3.0).policy_id not in ids
    assert all(len(one) == 16 for one in ids)


def test_an_id_follows_what_is_set_anew(fitted):
    blend = copy.deepcopy(fitted["blend"])
    before = blend.policy_id
    blend.policies_[1].set_params(inverse_temperature=7.0)
    assert blend.policy_id != before
    policy = copy.deepcopy(fitted["boosted"])
    before = policy.policy_id
    assert policy.fit(LOG.subset(np.arange(200))).policy_id != before


def test_an_id_does_not_depend_on_threads_or_on_the_time(fitted):
    learner = bopl.learner.default_learner().set_params(n_jobs=1)
    assert boosted(learner=learner, certificate=False).fit(LOG).policy_id == fitted["boosted"].policy_id


def test_the_id_of_a_race_is_that_of_its_winner(fitted):
    assert fitted["auto"].policy_id == fitted["auto"].best_policy_.policy_id


# -- Threads and processes --------------------------------------------------------------------------------------------


def decide_all(policy, seed):
    return [policy.decide(record, draw=(row + seed) / (N + 9), event="e") for row, record in enumerate(RECORDS[:60])]


@pytest.mark.parametrize("name", ["boosted", "blend", "logging"])
def test_threads_share_a_policy(fitted, name):
    expected = [decide_all(fitted[name], seed) for seed in range(8)]
    fresh = copy.deepcopy(fitted[name])  # nothing of it has been prepared
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda seed: decide_all(fresh, seed), range(8))) == expected


def _answer(connection, policy):
    connection.send((decide_all(policy, 0), policy.decide(RECORDS[0]).event, os.urandom(0)))
    connection.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
@pytest.mark.parametrize("name", ["boosted", "blend"])
def test_a_forked_process_decides_alike(fitted, name):
    policy = fitted[name]
    expected = decide_all(policy, 0)
    policy.predict_proba(CONTEXTS)  # whatever is kept for batches is there
    context, events = multiprocessing.get_context("fork"), set()
    for _ in range(2):
        here, there = context.Pipe(duplex=False)
        process = context.Process(target=_answer, args=(there, policy))
        process.start()
        there.close()
        assert here.poll(30)
        found, event, _ = here.recv()
        process.join(10)
        here.close()
        assert found == expected
        events.add(event)
    assert len(events) == 2


# -- Files as far as they decide --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", POLICIES)
def test_a_decider_decides_as_the_policy_of_its_file_to_the_last_bit(fitted, name, tmp_path):
    policy = fitted[name]
    policy.save(tmp_path / "policy.bopl")
    decider = load_decider(tmp_path / "policy.bopl")
    assert decider.policy_id == policy.policy_id
    assert decider.actions_.tolist() == policy.actions_.tolist()
    assert decider.records_proba(RECORDS).tobytes() == policy.records_proba(RECORDS).tobytes()
    for record in RECORDS[::50]:
        chosen = {"draw": 0.4, "event": "e", "eligible": ["tea", "water"]}
        assert decider.decide(record, **chosen) == policy.decide(record, **chosen)


def test_a_decider_reads_arrays_of_numbers_and_refuses_other_widths(tmp_path):
    log = informative_log(200)
    policy = boosted(objective="ips").fit(log)
    policy.save(tmp_path / "policy.bopl")
    decider = load_decider(tmp_path / "policy.bopl")
    assert decider.predict_proba(log.context).tobytes() == policy.predict_proba(log.context).tobytes()
    with pytest.raises(ValueError, match="expecting"):
        decider.decide(log.context[0][:-1])


def test_a_decider_of_a_spoiled_file_is_refused_in_one_sentence(tmp_path):
    (tmp_path / "policy.bopl").write_bytes(b"PK\x03\x04 nothing")
    with pytest.raises(ValueError, match=r"policy\.bopl"):
        load_decider(tmp_path / "policy.bopl")


@pytest.mark.parametrize("name", ["boosted", "paper", "blend", "auto"])
def test_deciding_imports_neither_scikit_learn_nor_pandas(fitted, name, tmp_path):
    fitted[name].save(tmp_path / "policy.bopl")
    code = (
        "import sys; from bopl.policy.decider import load_decider\n"
        "load_decider(sys.argv[1]).decide({'city': 'Rom', 'age': 31.0, 'is_member': True, 'when': '2024-01-02'})\n"
        "assert not {'sklearn', 'pandas', 'pyarrow', 'torch', 'xgboost', 'scipy.stats'} & set(sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code, tmp_path / "policy.bopl"], check=False).returncode == 0
