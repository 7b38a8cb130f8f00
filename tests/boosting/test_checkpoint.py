import os
import runpy
import signal
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from sklearn.tree import DecisionTreeRegressor

import bopl
from helpers import informative_log, make_log

SCRIPT = """
import os, signal, sys
import numpy as np
import bopl
from sklearn.tree import DecisionTreeRegressor

mode, learner, folder = sys.argv[1:]
rng = np.random.default_rng(0)
context = rng.normal(size=(300, 4))
action = rng.integers(0, 3, size=300)
reward = (action == np.digitize(context[:, 0], [-0.4, 0.4])) + 0.1 * rng.normal(size=300)
log = bopl.BanditLog(context, action, reward, np.full(300, 1 / 3))
learners = {
    "tree": DecisionTreeRegressor(max_depth=4, max_features=2),
    "xgboost": bopl.XGBTree("hist", max_depth=4, n_jobs=1),
    "engine": bopl.HistTree(max_depth=4, colsample=0.7, subsample=0.8, n_jobs=2),
}
policy = bopl.BoostedPolicy("surrogate", learners[learner], n_rounds=30, reward_translation=-0.2, random_state=7)
checkpoint = bopl.Checkpoint(f"{folder}/fit.ckpt", every=5)

def kill_in_the_middle(state):
    if len(state.rounds) == 17:
        os.kill(os.getpid(), signal.SIGKILL)
    return bopl.CallbackAction.CONTINUE

if mode == "whole":
    policy.fit(log).save(f"{folder}/whole.bopl")
elif mode == "killed":
    policy.fit(log, callbacks=[checkpoint, kill_in_the_middle])
else:
    policy.fit(log, callbacks=[checkpoint], resume_from=f"{folder}/fit.ckpt").save(f"{folder}/resumed.bopl")
"""


SLOW = pytest.mark.slow


@pytest.mark.parametrize("learner", [pytest.param("tree", marks=SLOW), pytest.param("xgboost", marks=SLOW), "engine"])
def test_killed_and_resumed_fit_saves_the_same_bytes(tmp_path, monkeypatch, learner):
    script = tmp_path / "fit.py"
    script.write_text(textwrap.dedent(SCRIPT))
    command = [sys.executable, str(script), "killed", learner, str(tmp_path)]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    for mode in ("resumed", "whole"):  # in another process than the one that was killed: this one
        monkeypatch.setattr(sys, "argv", ["fit.py", mode, learner, str(tmp_path)])
        runpy.run_path(str(script))
    assert (tmp_path / "resumed.bopl").read_bytes() == (tmp_path / "whole.bopl").read_bytes()


def policy(**settings):
    return bopl.BoostedPolicy(
        learner=DecisionTreeRegressor(max_depth=3),
        **({"objective": "surrogate", "n_rounds": 12, "random_state": 0} | settings),
    )


def test_resume_with_validation_and_early_stopping_ends_at_the_same_round(tmp_path):
    train, validation = informative_log(0), informative_log(1)
    settings = {"n_rounds": 60, "early_stopping_rounds": 6}
    whole = policy(**settings).fit(train, validation=validation)
    path = tmp_path / "fit.ckpt"
    policy(**(settings | {"n_rounds": 4})).fit(train, validation=validation, callbacks=[bopl.Checkpoint(path, every=3)])
    resumed = policy(**settings).fit(train, validation=validation, resume_from=path)
    whole.save(tmp_path / "whole.bopl")
    resumed.save(tmp_path / "resumed.bopl")
    assert (tmp_path / "whole.bopl").read_bytes() == (tmp_path / "resumed.bopl").read_bytes()
    assert whole.stop_reason_ == resumed.stop_reason_ == "the validation value stopped improving"


def test_a_fit_without_a_seed_resumes_with_the_seed_it_began_with(tmp_path):
    log = informative_log()
    learner = DecisionTreeRegressor(max_depth=3, max_features=1)
    settings = {"objective": "surrogate", "learner": learner, "random_state": None}
    path = tmp_path / "fit.ckpt"
    first = bopl.BoostedPolicy(**settings, n_rounds=9).fit(log, callbacks=[bopl.Checkpoint(path, every=100)])
    resumed = bopl.BoostedPolicy(**settings, n_rounds=9).fit(log, resume_from=path)
    np.testing.assert_array_equal(first.decision_function(log.context), resumed.decision_function(log.context))


def test_more_rounds_can_be_added_to_a_finished_fit(tmp_path):
    log = informative_log()
    path = tmp_path / "fit.ckpt"
    policy(n_rounds=5).fit(log, callbacks=[bopl.Checkpoint(path)])
    longer = policy(n_rounds=12).fit(log, resume_from=path)
    np.testing.assert_array_equal(
        longer.decision_function(log.context), policy(n_rounds=12).fit(log).decision_function(log.context)
    )


def test_checkpoint_of_another_log_or_other_settings_is_refused(tmp_path):
    log = informative_log(0)
    path = tmp_path / "fit.ckpt"
    policy().fit(log, callbacks=[bopl.Checkpoint(path)])
    with pytest.raises(ValueError, match="belongs to another log"):
        policy().fit(informative_log(1), resume_from=path)
    with pytest.raises(ValueError, match=r"made with reward_translation=0\.0, not -0\.2"):
        policy(reward_translation=-0.2).fit(log, resume_from=path)
    with pytest.raises(ValueError, match=r"made with objective=\{'name': 'surrogate'.*not \{'name': 'ips'"):
        policy(objective="ips").fit(log, resume_from=path)
    with pytest.raises(ValueError, match=r"made with learner=.*'max_depth': 3.*not .*'max_depth': 5"):
        bopl.BoostedPolicy("surrogate", DecisionTreeRegressor(max_depth=5)).fit(log, resume_from=path)


def test_files_that_are_no_checkpoints_are_refused(tmp_path):
    log = informative_log(0)
    with pytest.raises(FileNotFoundError, match=r"there is no checkpoint file .*none\.ckpt"):
        policy().fit(log, resume_from=tmp_path / "none.ckpt")
    policy().fit(log).save(tmp_path / "policy.bopl")
    with pytest.raises(ValueError, match="is a bopl policy file, not a checkpoint file"):
        policy().fit(log, resume_from=tmp_path / "policy.bopl")
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        policy().fit(log, callbacks=[bopl.Checkpoint(tmp_path / "nowhere" / "fit.ckpt")])


def test_a_failed_write_leaves_the_old_checkpoint(tmp_path, monkeypatch):
    log = make_log()
    path = tmp_path / "fit.ckpt"
    policy(n_rounds=5).fit(log, callbacks=[bopl.Checkpoint(path)])
    before = path.read_bytes()

    def full_disk(descriptor):
        raise OSError("no space left on device")

    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(OSError, match="no space left"):
        policy(n_rounds=9).fit(log, callbacks=[bopl.Checkpoint(path, every=1)])
    assert path.read_bytes() == before
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["fit.ckpt"]


def test_resume_to_the_same_bits_with_many_actions(tmp_path):
    """Sums over more than eight actions depend on their order: a resumed fit must add up in the same one."""
    log = make_log(n_samples=300, n_actions=13)
    settings = {"objective": "surrogate", "learner": bopl.HistTree(max_depth=4, n_jobs=1), "random_state": 0}
    path = tmp_path / "fit.ckpt"
    bopl.BoostedPolicy(n_rounds=4, **settings).fit(log, callbacks=[bopl.Checkpoint(path)])
    resumed = bopl.BoostedPolicy(n_rounds=12, **settings).fit(log, resume_from=path)
    whole = bopl.BoostedPolicy(n_rounds=12, **settings).fit(log)
    resumed.save(tmp_path / "resumed.bopl")
    whole.save(tmp_path / "whole.bopl")
    assert (tmp_path / "resumed.bopl").read_bytes() == (tmp_path / "whole.bopl").read_bytes()


def test_resume_with_samples_set_aside_needs_a_seed(tmp_path):
    with pytest.raises(ValueError, match="needs a random_state"):
        policy(validation_fraction=0.2, random_state=None).fit(make_log(), resume_from=tmp_path / "fit.ckpt")


def test_a_fit_that_early_stopping_had_ended_makes_no_further_round_when_it_is_resumed(tmp_path):
    train, validation, path = informative_log(0), informative_log(1), tmp_path / "fit.ckpt"
    settings = {"n_rounds": 60, "early_stopping_rounds": 6}
    whole = policy(**settings).fit(train, validation=validation, callbacks=[bopl.Checkpoint(path)])
    assert whole.stop_reason_ == "the validation value stopped improving"
    resumed = policy(**settings).fit(train, validation=validation, resume_from=path)
    assert resumed.stop_reason_ == whole.stop_reason_
    assert resumed.history_.n_rounds == whole.history_.n_rounds
