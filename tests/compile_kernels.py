"""Compile what most tests use, once: ``make test`` does so beside ruff, mypy and the pages.

Test processes that start without compiled code compile all of it, each for itself.
"""

import os
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import bopl
from fuzz.seeds import write_seeds
from helpers import informative_log


def main() -> None:
    """Fit, use and explain one of every kind of policy."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["BOPL_CACHE"] = folder
        write_seeds(Path(folder) / "seeds")
        log = informative_log()
        policy = bopl.BoostedPolicy(n_rounds=2, progress=False, random_state=0).fit(log)
        bopl.evaluate(log, policy)
        policy.explain(log.context[:5])
        policy.decide(log.context[0].tolist())
        with bopl.PartitionedLog.from_batches([log.to_frame("pyarrow")], piece_rows=200) as pieces:
            policy.fit(pieces)


if __name__ == "__main__":
    main()
