"""One process of a fuzzing run: it says which case it begins and what came of it, so that its death can be told.

``python worker.py TARGET SEED START STOP SEEDS WORK MEMORY`` runs the cases from START to STOP - 1.
"""

from __future__ import annotations

import resource
import sys
import warnings
from pathlib import Path


def main() -> None:
    """Use the sound files first, which compiles everything, then limit the memory and run the cases."""
    name, seed, start, stop, seeds, work, memory = sys.argv[1:]
    sys.path.insert(0, str(Path(__file__).parents[1]))
    warnings.simplefilter("ignore")
    from fuzz.targets import TARGETS, outcome_of

    target, folder = TARGETS[name], Path(work)
    folder.mkdir(parents=True, exist_ok=True)
    target.sound(Path(seeds), folder)
    limit = _bytes_in_use() + int(memory)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    print("ready", flush=True)
    for number in range(int(start), int(stop)):
        print(f"begin {number}", flush=True)
        outcome, detail = outcome_of(target, int(seed), number, Path(seeds), folder)
        print(f"end {number}\t{outcome}\t{detail!r}", flush=True)


def _bytes_in_use() -> int:
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


if __name__ == "__main__":
    main()
