"""A closed loop: a shop asks a server which banner to show, and earns more from policy to policy.

    python examples/loop.py                                # five generations, a few minutes
    python examples/loop.py --generations 1

The shop is simulated, with a known truth. Everything else is real: the server runs in its own process and answers over
HTTP, clicks arrive late, get lost or arrive twice, and `step` does what a cron job would do every night.
"""

from __future__ import annotations

import argparse
import http.client
import json
import queue
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

import bopl
from bopl.serving.folder import LoopFolder
from bopl.serving.settings import LoopSettings
from bopl.serving.step import step
from bopl.serving.watching import watch
from bopl.simulation.shop import BANNERS, CATEGORIES, simulate_shop

LOST, TWICE, LATE = 0.05, 0.05, 0.02  # shares of the clicks
NIGHT = 86_400 * 10**6  # microseconds: long enough for every reward window to close
SETTINGS = LoopSettings(
    actions=BANNERS,
    port=0,  # any free port
    exploration=0.15,
    time_budget_ms=1000.0,
    min_decisions=800,
    ramp=(0.5, 1.0),
    random_state=3,
    train={"objective": "dr", "n_rounds": 12, "max_depth": 5},  # without it, candidates race: better, and slower
)
# The banner that visitors like, by device, source, membership and earlier visits; few click on others.
TASTE = np.random.default_rng(5).integers(0, len(BANNERS), (3, 4, 2, 3))
LIKED, OTHER = 0.6, 0.1


# -- The shop ---------------------------------------------------------------------------------------------------------


def draw_visits(n_visits, seed):
    """Return what is known about visits, and the true click rate of every banner."""
    columns = {name: column.tolist() for name, column in simulate_shop(n_visits, random_state=seed).columns.items()}
    rows = zip(*columns.values(), strict=True)
    records = [{name: none_if_nan(value) for name, value in zip(columns, row, strict=True)} for row in rows]
    liked = np.array([favourite(record) for record in records])
    return records, np.where(np.arange(len(BANNERS)) == liked[:, None], LIKED, OTHER)


def none_if_nan(value):
    return None if value != value else value


def favourite(record):
    device, source = (CATEGORIES[name].index(record[name]) for name in ("device", "source"))
    return TASTE[device, source, int(record["is member"]), int(min(record["visits before"], 2))]


def true_value(policy, visits):
    """Return the clicks per visit that a policy earns; None is the uniform policy."""
    records, chance = visits
    if policy is None:
        return float(chance.mean())
    order = [BANNERS.index(label) for label in policy.actions_.tolist()]
    return float((policy.records_proba(records) * chance[:, order]).sum(axis=1).mean())


# -- The server and its clients ---------------------------------------------------------------------------------------


class Server:
    """``bopl serve FOLDER`` in its own process."""

    def __init__(self, folder, n_clients=8):
        self.n_clients = n_clients
        self.process = subprocess.Popen(
            [sys.executable, "-m", "bopl", "serve", str(folder)], stdout=subprocess.PIPE, text=True
        )
        line = self.process.stdout.readline()  # Serving shop at http://127.0.0.1:41234; stop it with Ctrl-C.
        self.address = line.partition("http://")[2].partition(";")[0]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(30)
        self.process.stdout.close()

    def post_all(self, path, bodies):
        """Send requests from several clients at a time; return the answers in the order of the requests."""
        waiting, answers = queue.SimpleQueue(), [None] * len(bodies)
        for number, body in enumerate(bodies):
            waiting.put((number, body))

        def work():
            connection = http.client.HTTPConnection(self.address, timeout=60)
            try:
                while True:
                    number, body = waiting.get_nowait()
                    connection.request("POST", path, json.dumps(body), {"content-type": "application/json"})
                    answers[number] = json.loads(connection.getresponse().read())
            except queue.Empty:
                connection.close()

        clients = [threading.Thread(target=work) for _ in range(self.n_clients)]
        for client in clients:
            client.start()
        for client in clients:
            client.join()
        return answers


def open_shop(server, name, visits, rng):
    """Ask for a banner in every visit and report the clicks; return those to report too late."""
    records, chance = visits
    asked = [{"event": f"{name}-{number}", "context": record} for number, record in enumerate(records)]
    shown = server.post_all("/decide", asked)
    clicked = [
        {"event": answer["event"], "key": "click", "value": 1.0}
        for answer, row in zip(shown, chance, strict=True)
        if rng.random() < row[BANNERS.index(answer["action"])]
    ]
    fate = rng.random(len(clicked))
    told = [click for click, luck in zip(clicked, fate, strict=True) if luck >= LOST + LATE]
    again = [click for click in told if rng.random() < TWICE]
    server.post_all("/reward", told + again)
    return [click for click, luck in zip(clicked, fate, strict=True) if LOST <= luck < LOST + LATE]


# -- The loop ---------------------------------------------------------------------------------------------------------


def run_loop(
    folder, *, generations=5, n_visits=800, max_days=40, settings=SETTINGS, draw=draw_visits, n_clients=8, seed=1
):
    """Run the shop day by day until the given number of policies have taken over; return their true values."""
    loop = LoopFolder.create(folder, settings)
    judged = draw(5000, 10**6)
    values = [true_value(None, judged)]
    print(f"Random banners earn {values[0]:.4f} clicks per visit.")
    rng = np.random.default_rng(seed)
    with Server(folder, n_clients) as server:
        for day in range(1, max_days + 1):
            late = open_shop(server, f"day-{day}", draw(n_visits, [seed, day]), rng)
            result = step(folder, now=time.time_ns() // 1000 + NIGHT)
            server.post_all("/reward", late)
            served = result.promotion
            print(f"Day {day}: {result.action}; {served.policy} has {100.0 * served.share:g}% of the visits.")
            if result.action == "raise" and served.share == 1.0:
                values.append(true_value(loop.load_policy(served.policy), judged))
                print(f"Generation {len(values) - 1} earns {values[-1]:.4f} clicks per visit.")
            if len(values) > generations:
                break
            time.sleep(0.5)  # the server looks for promotions several times a second
    return values


def main():
    """Run the loop in a temporary folder."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--generations", type=int, default=5)
    parser.add_argument("--visits", type=int, default=800, help="of a day")
    parser.add_argument("--days", type=int, default=40, help="at most")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "shop"
        values = run_loop(folder, generations=given.generations, n_visits=given.visits, max_days=given.days)
        problems = bopl.BanditLog.read(folder / "log").audit().problems
        watched = watch(folder)
        print(f"The audit of the joined log finds {len(problems)} problems.")
        print(f"{watched.n_replayed:,} decisions replayed, {watched.n_mismatches} of them not reproduced.")
        return values


if __name__ == "__main__":
    main()
