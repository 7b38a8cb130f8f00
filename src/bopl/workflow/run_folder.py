"""The run folder: the policy, its report, and all that is needed to understand and repeat the run."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from sklearn.base import clone

from bopl import report
from bopl._errors import UsageError
from bopl._files import only_writer, recover_file, recover_folder, replaced_folder, replacing, write_text
from bopl._interrupt import uninterrupted
from bopl._machine import peak_memory_mib, reset_peak_memory, versions
from bopl._progress import RunLine
from bopl.log.format.files import find_files
from bopl.log.log_split import SplitFacts
from bopl.policy import BlendedPolicy, BoostedPolicy
from bopl.race import AutoPolicy, Leaderboard
from bopl.workflow.config import TrainConfig

SUFFIX = ".bopl"
FILES = ("policy.bopl", "report.html", "summary.json", "config.toml", "history.csv", "run.json")


@dataclass
class StepClock:
    """Times the steps of a run."""

    # ``step``, ``seconds`` and ``peak_mib``, the most memory the process held meanwhile
    steps: list[dict[str, Any]] = field(default_factory=list)
    line: RunLine | None = None  # is told which step begins

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Time what happens inside."""
        if self.line is not None:
            self.line.stage(name)
        reset_peak_memory()
        start = time.perf_counter()
        yield
        seconds = round(time.perf_counter() - start, 3)
        self.steps.append({"step": name, "seconds": seconds, "peak_mib": peak_memory_mib()})

    @property
    def peak_mib(self) -> float:
        """The most memory of any step."""
        return max((step["peak_mib"] for step in self.steps), default=0.0)


@dataclass(frozen=True)
class RunFolder:
    """Where a run's files are.

    ====================  =========================================================
    ``policy.bopl``       the policy; a copy lies where ``out`` says
    ``report.html``       the page to show
    ``summary.json``      what the page is made from
    ``config.toml``       ``bopl train --config`` repeats the run
    ``history.csv``       one line per boosting round, of the winner where there was a race
    ``run.json``          versions, fingerprint of the log, what was held out, time and memory of each step
    ====================  =========================================================
    """

    path: Path
    out: Path  # the policy file asked for
    log_facts: dict[str, Any] = field(default_factory=dict)  # what run.json is to say of how the log was read

    @classmethod
    @contextmanager
    def open(cls, out: str | Path) -> Iterator[RunFolder]:
        """Make the folder, before hours are spent on what cannot be written, and let no other run write there.

        If what happens inside fails before anything was written, the folder is taken away again.
        """
        target = Path(out)
        if target.suffix != SUFFIX:
            raise UsageError(f"the name of a policy file must end in {SUFFIX}; got {str(out)!r}.")
        folder = cls(target.with_suffix(".run"), target)
        make_folder(Path(os.path.realpath(folder.path)).parent)
        with only_writer(folder.path):
            folder._prepare()
            with folder._kept_if_used():
                yield folder

    def _prepare(self) -> None:
        """Clear away what a killed run has left, and check that the next can write; only under the lock."""
        recover_folder(self.path)
        if self.path.is_dir() and not self.run.is_file() and _foreign(self.path):
            raise UsageError(
                f"{str(self.path)!r} contains files that are not from a run; name another policy file with out=…."
            )
        make_folder(self.path)
        check_writable(self.policy)
        check_writable(self.out)
        for file in (self.out, *(self.path / name for name in FILES)):
            recover_file(file)

    @property
    def policy(self) -> Path:
        """The policy file in the folder."""
        return self.path / "policy.bopl"

    @property
    def report(self) -> Path:
        """The page."""
        return self.path / "report.html"

    @property
    def summary(self) -> Path:
        """What the page is made from."""
        return self.path / "summary.json"

    @property
    def run(self) -> Path:
        """Versions, fingerprint and steps."""
        return self.path / "run.json"

    @contextmanager
    def _kept_if_used(self) -> Iterator[None]:
        """Take the folder away again if what happens inside fails before anything was written."""
        try:
            yield
        except BaseException:
            if self.path.is_dir() and not any(self.path.iterdir()):
                self.path.rmdir()
            raise

    def save_policy(self, config: TrainConfig, policy: Any, split: SplitFacts) -> None:
        """Write the policy, in the folder and where it was asked for, and all that is known before it is judged.

        All of it takes the place of an earlier run in one step, or nothing does. The verdict of the earlier run goes:
        it would be that of another policy.
        """
        from pyarrow import csv

        earlier_verdict = frozenset({"report.html", "summary.json"})
        with uninterrupted(), replacing(self.out) as copied, replaced_folder(self.path, without=earlier_verdict) as new:
            write_text(new / "config.toml", config.absolute().to_toml())
            csv.write_csv(policy.history_.to_arrow(), new / "history.csv")
            self._save_facts(config, policy, {"split": split.to_dict()}, new / "run.json")
            without_machine(policy).save(new / "policy.bopl")
            with (new / "policy.bopl").open("rb") as file:  # a disk without room for both keeps the earlier run
                shutil.copyfileobj(file, copied)
            copied.flush()

    def save_run(self, config: TrainConfig, policy: Any, summary: dict[str, Any], clock: StepClock) -> None:
        """Write what is known in the end; the page comes last, from the summary."""
        more = {"steps": clock.steps, "peak_mib": clock.peak_mib}
        more |= {name: summary[name] for name in ("split", "left_out", "drift")}
        self._save_facts(config, policy, more, self.run)
        write_summary(summary, self.summary)
        report.write_page(summary, self.report)

    def _save_facts(self, config: TrainConfig, policy: Any, more: dict[str, Any], path: Path) -> None:
        log = {"path": config.absolute().log, "fingerprint": policy.trained_on_, **self.log_facts}
        facts = {"versions": versions(), "log": log, **more}
        write_text(path, json.dumps(facts, indent=1) + "\n")


def _foreign(path: Path) -> bool:
    """Whether a folder holds what no run writes; what a killed run has left is no reason to refuse the next."""
    return any(entry.name not in FILES and not entry.name.startswith(".") for entry in path.iterdir())


def without_machine(policy: Any) -> Any:
    """Return a copy without threads, progress bar and times of this run, which change nothing that was learned."""
    copied = copy(policy)
    if isinstance(policy, AutoPolicy):
        copied.n_jobs, copied.progress = None, True
        copied.best_policy_ = without_machine(policy.best_policy_)
        copied.leaderboard_ = _without_seconds(policy.leaderboard_)
    elif isinstance(policy, BlendedPolicy):
        copied.policies_ = tuple(without_machine(part) for part in policy.policies_)
        copied.policies = list(copied.policies_)
    elif isinstance(policy, BoostedPolicy):
        copied.progress = True
        copied.learner, copied.reward_model = _without_threads(policy.learner), _without_threads(policy.reward_model)
    return copied


def _without_threads(estimator: Any) -> Any:
    """Return an unfitted copy of a learner or a reward model that takes all processors."""
    if not hasattr(estimator, "get_params"):
        return estimator
    names = [name for name in estimator.get_params() if name.rpartition("__")[2] == "n_jobs"]
    return clone(estimator).set_params(**dict.fromkeys(names))


def _without_seconds(leaderboard: Leaderboard) -> Leaderboard:
    return replace(leaderboard, entries=tuple(replace(entry, seconds=float("nan")) for entry in leaderboard))


def make_folder(path: Path) -> None:
    """Make a folder and those it lies in, or raise one sentence."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"the folder {str(path)!r} cannot be created: {error.strerror}.") from None


def write_summary(summary: dict[str, Any], path: Path) -> None:
    """Write a summary as JSON."""
    write_text(path, json.dumps(summary, indent=1, allow_nan=False) + "\n")


def check_writable(path: str | Path, *, read: Sequence[str | Path] = ()) -> None:
    """Raise one sentence if a file cannot be written, or is one that is read, before anything is computed for it."""
    target = Path(path)
    if any(os.path.realpath(target) == os.path.realpath(file) for one in read for file in _files_of(one)):
        raise UsageError(f"{str(path)!r} is the input: writing would destroy it; name another file with out=….")
    if target.is_dir():
        raise UsageError(f"{str(path)!r} is a folder; name a file.")
    if not target.parent.is_dir():
        raise UsageError(f"there is no folder {str(target.parent)!r} to write {target.name!r} into; create it first.")
    if not os.access(target if target.exists() else target.parent, os.W_OK):
        raise UsageError(f"{str(path)!r} cannot be written: permission denied.")


def _files_of(source: str | Path) -> list[str | Path]:
    """Return the files that an input means: itself, or those of a folder or a pattern."""
    try:
        return [one.path for one in find_files(source)]
    except (OSError, ValueError):  # reading it will say what is wrong
        return [source]


def recorded_fingerprint(config_file: str | Path) -> str | None:
    """Return the fingerprint of the log beside the configuration of a run, None if the file is not part of one."""
    try:
        facts = json.loads((Path(config_file).parent / "run.json").read_text(encoding="utf8"))
        found = facts["log"]["fingerprint"]
    except (FileNotFoundError, ValueError, KeyError, TypeError):  # another's file, or one that was cut short
        return None
    return found if isinstance(found, str) else None
