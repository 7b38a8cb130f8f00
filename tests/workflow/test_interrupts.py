"""A few of the moments of ``benchmarks/interrupts.py``, which prints what became of many."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "interrupts.py"


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["single objective", "race"])
def test_whatever_stops_a_run_leaves_the_old_policy_or_the_new_one_and_the_next_run_works(kind):
    command = [sys.executable, SCRIPT, "--moments", "2", "--only", kind]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [line.strip("| ").split(" | ") for line in done.stdout.splitlines()[2:]]
    assert [(row[1], row[2], row[-2], row[-1]) for row in rows] == [
        (name, "2", "0", "0") for name in ("SIGKILL", "SIGTERM", "SIGINT")
    ]
