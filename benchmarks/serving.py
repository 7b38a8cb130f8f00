"""Decisions per second over HTTP on one core, each on disk before it is answered, beside a plain handler.

The server is `bopl serve` in a process of its own, pinned to one core; clients are threads of other processes on the
other cores, each with a connection that is kept. The plain handler is what one would write by hand: a Starlette route
(FastAPI is Starlette with validation on top, and not needed here) that makes a one-row pandas frame of the record,
calls ``policy.sample`` and writes nothing down. ``--kills 50`` kills the server at random moments under load instead.

    python benchmarks/serving.py --seconds 10 --clients 16
    python benchmarks/serving.py --kills 50
"""

import argparse
import http.client
import json
import multiprocessing
import os
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import bopl
from bopl.serving.events import EventStore
from bopl.serving.folder import LoopFolder
from bopl.serving.settings import LoopSettings
from loops import Server, wait_until

MAX_START_S = 2.0  # from the command to the first answer, after a kill
PLAIN = """
import asyncio, json, socket, sys
import bopl, pandas as pd, uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

policy = bopl.load(sys.argv[1])

async def decide(request: Request):
    body = await request.json()
    action, propensity = policy.sample(pd.DataFrame([body["context"]]))
    return JSONResponse({"action": action.tolist()[0], "propensity": float(propensity[0])})

listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
print(f"at http://127.0.0.1:{listener.getsockname()[1]};", flush=True)
app = Starlette(routes=[Route("/decide", decide, methods=["POST"])])
uvicorn.Server(uvicorn.Config(app, log_config=None, access_log=False)).run(sockets=[listener])
"""


def make_frame(n_samples, n_columns, n_actions, seed=0):
    """Return a log of mixed columns: numbers, texts, flags and times."""
    import pandas as pd

    rng = np.random.default_rng(seed)
    columns = {}
    for number in range(n_columns):
        kind = number % 5
        if kind < 2:
            columns[f"number_{number}"] = rng.normal(size=n_samples)
        elif kind == 2:
            columns[f"text_{number}"] = rng.choice([f"value {one}" for one in range(20)], n_samples)
        elif kind == 3:
            columns[f"flag_{number}"] = rng.random(n_samples) < 0.5
        else:
            start = pd.Timestamp("2026-01-01")
            columns[f"time_{number}"] = start + pd.to_timedelta(rng.integers(0, 10**7, n_samples), unit="s")
    frame = pd.DataFrame(columns)
    frame["action"] = rng.integers(0, n_actions, n_samples)
    frame["reward"] = (rng.random(n_samples) < 0.1 + 0.5 * (frame["action"] == (frame["number_0"] > 0))).astype(float)
    frame["propensity"] = 1.0 / n_actions
    return frame


def make_policy(folder, options):
    """Return the path of a policy and some records to decide on."""
    frame = make_frame(options.samples, options.columns, options.actions)
    log = bopl.BanditLog.from_frame(frame, action="action", reward="reward", propensity="propensity")
    policy = bopl.BoostedPolicy("ips", n_rounds=options.rounds, random_state=0).fit(log)
    path = folder / "policy.bopl"
    policy.save(path)
    context = frame.drop(columns=["action", "reward", "propensity"]).head(200)
    return path, json.loads(context.to_json(orient="records", date_format="iso"))


# -- Load -------------------------------------------------------------------------------------------------------------


def ask(address, records, seconds, n_clients, core, answers):
    """Ask as fast as answers come, from several threads of one process; put the latencies into a queue."""
    if core is not None:
        os.sched_setaffinity(0, {core})
    latencies, n_failed = [], [0]

    def work(number):
        rng, end = random.Random(number), time.perf_counter() + seconds
        host, port = address.rsplit(":", 1)
        connection = http.client.HTTPConnection(host, int(port), timeout=60)
        while (began := time.perf_counter()) < end:
            body = json.dumps({"context": rng.choice(records)})
            connection.request("POST", "/decide", body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            answer.read()
            latencies.append(time.perf_counter() - began)
            n_failed[0] += answer.status != 200
        connection.close()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(n_clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    answers.put((latencies, n_failed[0]))


def measure(address, records, options, cores):
    """Return requests per second and latencies in milliseconds."""
    answers = multiprocessing.Queue()
    arguments = (address, records, options.seconds, options.clients, cores[-1] if len(cores) > 1 else None, answers)
    process = multiprocessing.Process(target=ask, args=arguments)
    process.start()
    latencies, n_failed = answers.get()
    process.join()
    shown = np.percentile(latencies, [50, 99]) * 1e3
    return len(latencies) / options.seconds, shown[0], shown[1], n_failed


def pin(pid, core):
    """Let a process use one core."""
    for task in Path(f"/proc/{pid}/task").iterdir():
        os.sched_setaffinity(int(task.name), {core})


def compare(options):
    cores = sorted(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path, records = make_policy(folder, options)
        print(
            f"{options.columns} columns, {options.actions} actions, {options.rounds} rounds, {options.clients} clients"
        )
        print(f"{'':28} {'decisions/s':>12} {'p50 ms':>8} {'p99 ms':>8} {'failed':>7}")
        settings = LoopSettings(port=0, time_budget_ms=1000.0)
        loop = LoopFolder.create(folder / "loop", settings, policy=path)
        with Server(loop.path) as server:
            pin(server.process.pid, cores[0])
            rate, p50, p99, n_failed = measure(server.address, records, options, cores)
        print(f"{'bopl serve, on disk':28} {rate:12.0f} {p50:8.2f} {p99:8.2f} {n_failed:7}")
        with EventStore(loop.events) as store:
            rows = list(store.decisions())
            fallbacks = sum(row.is_fallback for row in rows)
            print(f"{'':28} {len(rows):,} decisions on disk, {fallbacks} of them fallbacks")
        plain = subprocess.Popen([sys.executable, "-c", PLAIN, path], stdout=subprocess.PIPE, text=True)
        try:
            address = plain.stdout.readline().partition("http://")[2].partition(";")[0]
            pin(plain.pid, cores[0])
            rate, p50, p99, n_failed = measure(address, records, options, cores)
        finally:
            plain.terminate()
            plain.wait(30)
            plain.stdout.close()
        print(f"{'Starlette and pandas':28} {rate:12.0f} {p50:8.2f} {p99:8.2f} {n_failed:7}")


# -- Kills ------------------------------------------------------------------------------------------------------------


def kill(options):
    """Kill the server at random moments under load; count what was lost or came twice, and time the starts after."""
    rng, acknowledged, starts = random.Random(0), {}, []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path, records = make_policy(folder, options)
        loop = LoopFolder.create(folder / "loop", LoopSettings(port=0), policy=path)
        for moment in range(options.kills):
            server = Server(loop.path)
            starts.append(server)
            threading.Timer(rng.uniform(0.05, 1.0), server.process.kill).start()
            clients = [
                threading.Thread(target=until_killed, args=(server, f"k{moment}-{number}", records, acknowledged))
                for number in range(options.clients)
            ]
            for client in clients:
                client.start()
            for client in clients:
                client.join()
            wait_until(lambda server=server: server.process.poll() is not None)
            server.stop()
        with Server(loop.path) as server, server.client() as client:
            starts.append(server)
            asked = rng.sample(sorted(acknowledged), min(100, len(acknowledged)))
            answers = {event: client.decide(event, records[0])[1] for event in asked}
        with EventStore(loop.events) as store:
            rows = list(store.decisions())
    kept = {row.event: [row.action, row.propensity] for row in rows}
    lost = sum(kept.get(event) != answer for event, answer in acknowledged.items())
    other = sum([one["action"], one["propensity"]] != acknowledged[event] for event, one in answers.items())
    twice = len(rows) - len(kept)
    print(f"{options.kills} kills, {len(acknowledged):,} acknowledged, {lost} lost or changed, {twice} twice")
    print(f"{len(answers)} asked again, {other} answered otherwise")
    seconds, cpu_seconds = (
        [one.seconds_to_start for one in starts[1:]],
        [one.cpu_seconds_to_start for one in starts[1:]],
    )
    is_kept = "kept" if max(seconds) < MAX_START_S else "broken"
    print(f"next start: median {statistics.median(seconds):.2f} s, longest {max(seconds):.2f} s")
    print(f"at most {MAX_START_S:g} s: {is_kept}")
    print(f"processor time of a start: median {statistics.median(cpu_seconds):.2f} s, longest {max(cpu_seconds):.2f} s")
    if lost or other or twice:
        raise SystemExit(1)


def until_killed(server, names, records, acknowledged):
    client, count = server.client(), 0
    while True:
        count += 1
        try:
            status, answer = client.decide(f"{names}-{count}", records[count % len(records)])
        except (OSError, http.client.HTTPException, ValueError):
            client.close()
            return
        if status == 200:
            acknowledged[f"{names}-{count}"] = [answer["action"], answer["propensity"]]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--samples", type=int, default=20_000)
    parser.add_argument("--columns", type=int, default=50)
    parser.add_argument("--actions", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--kills", type=int, default=0, help="kill the server so often instead")
    given = parser.parse_args()
    kill(given) if given.kills else compare(given)
