"""Policies and checkpoints of earlier versions are read by this one, and do what they did."""

import numpy as np
import pytest

import bopl
from bopl.boosting import checkpoint
from bopl.boosting.checkpoint import FORMAT_NUMBER as CHECKPOINT_FORMAT
from bopl.policy.decider import load_decider
from bopl.policy.model_file import FORMAT_NUMBER
from kept_files import EXTRA_NAMES, FILES, N_ROUNDS, NAMES, checkpointed_policy, small_log

KEPT = sorted(path.stem for path in FILES.glob("format-*.bopl"))
NEEDS = {"xgb_reward": "xgboost", "deep_reward": "torch", "bandit_net": "torch"}  # to predict
MAX_ULP = 4  # the last bits of an exponential depend on the processor: numpy has one for each instruction set


@pytest.mark.parametrize("name", KEPT)
def test_a_kept_file_predicts_as_it_did(name, tmp_path):
    for part, package in NEEDS.items():
        if part in name:
            pytest.importorskip(package)
    then = np.load(FILES / f"{name}.npz")
    policy = bopl.load(FILES / f"{name}.bopl")
    now = policy.predict_proba(then["context"])
    if "score" in then:
        np.testing.assert_array_equal(policy.decision_function(then["context"]), then["score"])
    elif "rtol" in then:
        np.testing.assert_allclose(now, then["action_prob"], rtol=float(then["rtol"]))
    else:
        np.testing.assert_array_max_ulp(now, then["action_prob"], maxulp=MAX_ULP)
    np.testing.assert_array_equal(load_decider(FILES / f"{name}.bopl").predict_proba(then["context"]), now)
    if "id" in then:
        assert policy.policy_id == str(then["id"])
    policy.save(tmp_path / "again.bopl")
    np.testing.assert_array_equal(bopl.load(tmp_path / "again.bopl").predict_proba(then["context"]), now)


def test_files_of_todays_formats_are_kept():
    names = {path.name for path in FILES.iterdir()}
    assert {f"format-{FORMAT_NUMBER}-{name}.bopl" for name in (*NAMES, *EXTRA_NAMES)} <= names
    assert f"checkpoint-{CHECKPOINT_FORMAT}.ckpt" in names


def test_a_checkpoint_of_an_earlier_format_is_refused_by_name(tmp_path, monkeypatch):
    path = tmp_path / "old.ckpt"
    with monkeypatch.context() as patched:
        patched.setattr(checkpoint, "FORMAT_NUMBER", CHECKPOINT_FORMAT - 1)
        checkpointed_policy(N_ROUNDS).fit(small_log(), callbacks=[bopl.Checkpoint(path, every=N_ROUNDS)])
    with pytest.raises(ValueError, match="from an earlier version, which added up in another order"):
        checkpointed_policy(2 * N_ROUNDS).fit(small_log(), resume_from=path)


def test_a_kept_checkpoint_is_resumed_to_the_same_policy():
    path = FILES / f"checkpoint-{CHECKPOINT_FORMAT}.ckpt"
    then = np.load(path.with_suffix(".npz"))
    policy = checkpointed_policy(2 * N_ROUNDS).fit(small_log(), resume_from=path)
    assert policy.n_rounds_ == 2 * N_ROUNDS
    np.testing.assert_array_max_ulp(policy.predict_proba(then["context"]), then["action_prob"], maxulp=MAX_ULP)
