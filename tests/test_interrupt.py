"""Ctrl-C at any moment: the process lives, and what must happen as one does."""

import os
import signal
import subprocess
import sys
import threading

import pytest

from bopl._interrupt import SigtermAsCtrlC, Threads, uninterrupted


@pytest.fixture(autouse=True)
def interrupts_raise():
    """Ctrl-C raises, also where the tests run in the background of a shell, which lets them ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


STORM = """
import random, signal, sys, time
import numpy as np
import bopl
from bopl.learner import HistTree

rng = np.random.default_rng(0)
random.seed(0)
context, action = rng.normal(size=(3000, 3)), rng.integers(0, 3, size=3000)
reward = (action == (context[:, 0] > 0)).astype(float)
log = bopl.BanditLog(context, action, reward, np.full(3000, 1 / 3))


def fit():
    learner = HistTree(6, n_jobs=1)
    return bopl.BoostedPolicy("ips", learner, 8, progress=False, random_state=0, certificate=False).fit(log)


policy = fit()
work = [fit, lambda: policy.explain(context[:20]), lambda: policy.predict_proba(context)]
for one in work:
    one()


def interrupt(*ignored):
    raise KeyboardInterrupt


signal.signal(signal.SIGALRM, interrupt)
n_hit = 0
for k in range(300):
    try:
        signal.setitimer(signal.ITIMER_REAL, random.uniform(1e-4, 1e-2))
        try:
            work[k % 3]()
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    except KeyboardInterrupt:
        n_hit += 1
print("alive after", n_hit)
"""


@pytest.fixture(autouse=True)
def ctrl_c():
    """Let SIGINT interrupt, also where the tests were started in the background, which ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_a_hundred_interrupts_of_compiled_code_on_one_thread_leave_the_process_alive():
    done = subprocess.run([sys.executable, "-c", STORM], capture_output=True, text=True, timeout=300, env=os.environ)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "alive after" in done.stdout


def test_a_signal_inside_the_block_is_handled_after_it():
    done = []

    def run():
        with uninterrupted():
            os.kill(os.getpid(), signal.SIGINT)
            done.append("all of it")

    with pytest.raises(KeyboardInterrupt):
        run()
    assert done == ["all of it"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_handler_of_the_user_is_asked_and_comes_back():
    seen = []
    before = signal.signal(signal.SIGINT, lambda number, frame: seen.append(number))
    handler = signal.getsignal(signal.SIGINT)
    try:
        with uninterrupted(), uninterrupted():
            os.kill(os.getpid(), signal.SIGINT)
            assert seen == []
        assert seen == [signal.SIGINT]
        assert signal.getsignal(signal.SIGINT) is handler
    finally:
        signal.signal(signal.SIGINT, before)


def test_threads_do_the_work_of_every_item_and_pass_errors_on():
    with Threads(2) as threads:
        assert threads.each(lambda item: item * 2, range(5)) == [0, 2, 4, 6, 8]
    with pytest.raises(ZeroDivisionError), Threads(2) as threads:
        threads.each(lambda item: 1 / item, [1, 0])


def test_an_interrupt_begins_no_more_work_and_waits_for_what_runs():
    begun, ended = [], []

    def work(item):
        begun.append(item)
        if item == 0:
            os.kill(os.getpid(), signal.SIGINT)
        threading.Event().wait(0.3)
        ended.append(item)

    with pytest.raises(KeyboardInterrupt), Threads(1) as threads:
        threads.each(work, range(50))
    assert begun == ended
    assert len(begun) < 50


def test_outside_the_main_thread_nothing_is_put_off():
    seen = []

    def run():
        with uninterrupted():
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert seen == [signal.default_int_handler]


def test_sigterm_is_ctrl_c_within_the_block_and_waits_for_what_must_happen_as_one():
    done = []

    def run():
        with uninterrupted():
            os.kill(os.getpid(), signal.SIGTERM)
            done.append("all of it")

    with SigtermAsCtrlC() as sigterm, pytest.raises(KeyboardInterrupt):
        run()
    assert sigterm.came
    assert done == ["all of it"]
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_a_handler_of_sigterm_that_is_there_already_stays():
    seen = []
    before = signal.signal(signal.SIGTERM, lambda number, frame: seen.append(number))
    try:
        with SigtermAsCtrlC() as sigterm:
            os.kill(os.getpid(), signal.SIGTERM)
        assert seen == [signal.SIGTERM]
        assert not sigterm.came
    finally:
        signal.signal(signal.SIGTERM, before)
