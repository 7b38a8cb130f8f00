"""Train on a log in pieces on a Dask cluster, kill a worker on the way, and get the same bytes.

Run it with `python examples/cluster.py`; it needs `pip install 'bopl[dask]'`.

The cluster is two processes on this machine. For a real one, use `Client("tcp://scheduler:8786")` instead, and put
the files where all workers can see them.
"""

import os
import signal
from pathlib import Path

import pyarrow.parquet as pq
from distributed import Client, LocalCluster
from make_clicks import make_clicks

import bopl

COLUMNS = {"action": "item", "reward": "click", "propensity": "p", "group": "user", "ignore": ["day"]}


def write_days(folder, *, n_files=4):
    """Write the log as a warehouse would: several files, each in row groups."""
    folder.mkdir(exist_ok=True)
    table = make_clicks()
    size = -(-table.num_rows // n_files)
    for idx in range(n_files):
        pq.write_table(table.slice(idx * size, size), folder / f"part-{idx}.parquet", row_group_size=2000)


def a_policy():
    """Return the policy that all fits below train."""
    return bopl.BoostedPolicy("ips", bopl.HistTree(max_depth=4), n_rounds=8, random_state=0, progress=False)


class KillWorker:
    """A callback that kills a worker after the third round."""

    def __init__(self, client):
        self.client = client

    def __call__(self, state):
        if len(state.rounds) == 3:
            victim = min(self.client.run(os.getpid).values())
            os.kill(victim, signal.SIGKILL)
            print(f"Round 3: process {victim} is killed.")
        return bopl.CallbackAction.CONTINUE


def saved(policy, path):
    """Return the bytes of a policy's file."""
    policy.save(path)
    return Path(path).read_bytes()


def main():
    """Train the same policy in memory, out of core, on a cluster, and on a cluster that loses a worker."""
    write_days(Path("days"))
    log = bopl.BanditLog.scan_parquet("days/*.parquet", **COLUMNS)  # reads footers, not rows
    print(log)
    train, test = log.split(0.3, by="group", random_state=0)
    files = {
        "in memory": saved(a_policy().fit(train.to_log()), "memory.bopl"),
        "out of core": saved(a_policy().fit(train, memory="2GB"), "pieces.bopl"),
    }
    workers = LocalCluster(n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address=":0", silence_logs=50)
    with workers, Client(workers) as client:
        policy = a_policy().fit(train, cluster=client)
        files["on two workers"] = saved(policy, "dask.bopl")
        print(bopl.evaluate(test, {"new": policy}, cluster=client))
        survivor = a_policy().fit(train, cluster=client, callbacks=[KillWorker(client)])
        files["on two workers, one killed"] = saved(survivor, "survivor.bopl")
    for name, content in files.items():
        print(f"{name:28s} {'the same bytes' if content == files['in memory'] else 'DIFFERENT'}")
    return files


if __name__ == "__main__":  # worker processes import this file
    files = main()
