"""What the library says: through logging, silent by default, and still to functions that were told to listen."""

import logging
import subprocess
import sys
import threading

import numpy as np
import pytest

import bopl
from bopl._progress import Listener, listening
from bopl.search import Int, search
from bopl.workflow.backtest import backtest
from bopl.workflow.config import TrainConfig
from bopl.workflow.training import train
from product import write_log

SAY = logging.getLogger("bopl.somewhere")


def small_config(folder, n_samples=1500):
    log = write_log(folder / "log.parquet", n_samples=n_samples)
    settings = {"objective": "ips", "n_rounds": 3, "max_depth": 2, "reward_translation": 0.0, "ignore": ("user",)}
    roles = {"action": "item", "reward": "click", "propensity": "p"}
    return TrainConfig(log=log, out=str(folder / "policy.bopl"), **roles, **settings)


def test_nothing_is_printed_unless_a_program_asks_for_it():
    script = "import logging, bopl; logging.getLogger('bopl.x').warning('heard')"
    silent = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert (silent.stdout, silent.stderr) == ("", "")
    told = f"import logging; logging.basicConfig(); {script}"
    assert "heard" in subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=True).stderr


def test_a_listener_hears_sentences_and_objects_while_its_block_runs():
    heard, thing = [], object()
    with listening(heard.append):
        SAY.info("%d of 5%%", 3)
        SAY.warning("5% of it")  # without arguments nothing is filled in
        SAY.info(thing)
        SAY.debug("of no interest")
        other = threading.Thread(target=SAY.warning, args=("of another run",))
        other.start()
        other.join()
    SAY.info("after it")
    assert heard == ["3 of 5%", "5% of it", thing]
    assert logging.getLogger("bopl").level == logging.NOTSET
    assert not any(isinstance(one, Listener) for one in logging.getLogger("bopl").handlers)


def test_what_a_listener_raises_ends_what_was_said():
    def stop(text):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), listening(stop):
        SAY.info("a sentence")


def test_a_run_says_results_at_level_info_and_cautions_at_level_warning(tmp_path, caplog):
    caplog.set_level(logging.INFO, "bopl")
    train(small_config(tmp_path, n_samples=40))
    levels = {record.getMessage().split()[0]: record.levelname for record in caplog.records}
    assert levels["Audit:"] == levels["Judging"] == "INFO"
    assert levels["Note:"] == "WARNING"
    assert {record.name.rsplit(".", 1)[0] for record in caplog.records} == {"bopl.workflow"}


def test_say_and_report_still_hear_and_name_their_successor(tmp_path):
    said = []
    with pytest.warns(FutureWarning, match=r"say= is deprecated .* logging.getLogger\('bopl'\)") as caught:
        train(small_config(tmp_path), say=said.append)
    assert any(str(text).startswith("Judging on the ") for text in said)
    assert caught[0].filename == __file__
    rng = np.random.default_rng(0)
    log = bopl.BanditLog(
        rng.normal(size=(600, 2)), rng.integers(0, 2, 600), rng.random(600), np.full(600, 0.5), time=np.arange(600)
    )
    policy = bopl.BoostedPolicy("ips", n_rounds=2, progress=False, random_state=0)
    said.clear()
    with pytest.warns(FutureWarning, match="say= is deprecated"):
        backtest(log, policy, n_periods=2, say=said.append)
    assert said[0].startswith("Period 1 of 2.")
    said.clear()
    with pytest.warns(FutureWarning, match="report= is deprecated"):
        search(policy, {"n_rounds": Int(2, 3)}, lambda policy: 0.0, n_configurations=2, report=said.append)
    assert len(said) == 2


def test_a_leaderboard_in_a_log_file_is_text(tmp_path, caplog):
    caplog.set_level(logging.INFO, "bopl")
    config = small_config(tmp_path)
    settings = {"log": config.log, "out": config.out, "include": ("regression",), "minutes": 0.05, "ignore": ("user",)}
    result = train(TrainConfig(action="item", reward="click", propensity="p", **settings))
    board = next(record for record in caplog.records if record.name == "bopl.workflow.racing").getMessage()
    assert board.splitlines() == str(result.policy.leaderboard_).splitlines()[: len(result.policy.leaderboard_) + 1]
