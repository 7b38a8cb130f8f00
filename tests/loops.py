"""Real servers for tests: a process of its own, a free port, and a client of few words."""

import http.client
import json
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

import bopl
from bopl.serving.folder import LoopFolder
from bopl.serving.settings import LoopSettings

RECORD = {"age": 31, "country": "DE", "vip": True}


def make_log(n_samples=400, seed=0):
    """Return a log of three offers, of which one pays in each country."""
    import pandas as pd

    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "age": rng.integers(18, 80, n_samples).astype(float),
            "country": rng.choice(["DE", "FR", "IT"], n_samples),
            "vip": rng.random(n_samples) < 0.3,
            "offer": rng.choice(["book", "film", "game"], n_samples),
            "p": 1 / 3,
        }
    )
    frame.loc[::7, "age"] = np.nan
    pays = {"DE": "book", "FR": "film", "IT": "game"}
    frame["click"] = (frame["offer"] == frame["country"].map(pays)).astype(float)
    return bopl.BanditLog.from_frame(frame, action="offer", reward="click", propensity="p")


def make_policy(path, *, seed=0, n_rounds=4):
    """Save a small policy and return it."""
    learner = bopl.HistTree(max_depth=3)
    policy = bopl.BoostedPolicy("ips", learner, n_rounds=n_rounds, random_state=seed).fit(make_log(seed=seed))
    policy.save(path)
    return policy


def make_loop(path, policy=None, **settings):
    """Make the folder of a loop that listens at a free port."""
    return LoopFolder.create(path, LoopSettings(port=0, **settings), policy=policy)


class Server:
    """A server in a process of its own."""

    def __init__(self, folder, *, before=(), patience=60.0):
        command = [*before, sys.executable, "-m", "bopl", "serve", str(folder)]
        self.began = time.perf_counter()
        self.process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "NUMBA_NUM_THREADS": "1"},
        )
        self._errors = []
        self._reader = threading.Thread(target=self._read_errors, daemon=True)
        self._reader.start()
        watchdog = threading.Timer(patience, self.process.kill)
        watchdog.start()
        line = self.process.stdout.readline()
        watchdog.cancel()
        self.address = line.partition("http://")[2].partition(";")[0]
        if not self.address:
            self.stop()
            raise RuntimeError(f"the server did not start: {line} {self.errors}")
        self.cpu_seconds_to_start = self.cpu_seconds
        self.seconds_to_start = time.perf_counter() - self.began

    def _read_errors(self):
        for line in self.process.stderr:
            self._errors.append(line)

    @property
    def errors(self):
        return "".join(self._errors)

    @property
    def cpu_seconds(self):
        """Processor time that the server has taken so far, which a busy machine does not change much."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def client(self, **headers):
        return Client(self.address, headers)

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        return self.stop()

    def stop(self):
        """End the server as an operator would, and return its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(30)
        self._reader.join(5)
        self.process.stdout.close()
        self.process.stderr.close()
        return self.process.returncode

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()


class Client:
    """One connection that is kept; answers are (status, content)."""

    def __init__(self, address, headers=None, timeout=30.0):
        host, port = address.rsplit(":", 1)
        self._connection = http.client.HTTPConnection(host, int(port), timeout=timeout)
        self._headers = {"Content-Type": "application/json", **(headers or {})}
        self.headers = {}

    def send(self, method, path, body=None, **headers):
        content = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        self._connection.request(method, path, content, {**self._headers, **headers})
        answer = self._connection.getresponse()
        text = answer.read().decode()
        self.headers = {name.lower(): value for name, value in answer.getheaders()}
        is_json = self.headers.get("content-type", "").startswith("application/json")
        return answer.status, json.loads(text) if is_json else text

    def decide(self, event=None, context=None, **fields):
        body = {"context": RECORD if context is None else context, **fields}
        return self.send("POST", "/decide", body if event is None else {"event": event, **body})

    def reward(self, event, value=1.0, **fields):
        return self.send("POST", "/reward", {"event": event, "value": value, **fields})

    def get(self, path):
        return self.send("GET", path)

    def close(self):
        self._connection.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def at_once(server, work, n_clients):
    """Return what several clients bring back that work at the same time; each is told its number."""

    def run(number):
        with server.client() as client:
            return work(client, number)

    with ThreadPoolExecutor(n_clients) as pool:
        return list(pool.map(run, range(n_clients)))


def wait_until(condition, seconds=10.0):
    """Wait until something holds, and return whether it does."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.02)
    return False
