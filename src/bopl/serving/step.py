"""A step of the loop: join, audit, then either judge the canary or train and judge a new policy, and act on it.

The consequence of a verdict is written with it, before it is carried out: the next step finishes one that was killed.
"""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from bopl._files import only_writer
from bopl._progress import Hear, deprecated_listener
from bopl.evaluation.verdict import BETTER, WORSE
from bopl.serving.book import CANDIDATE, RAMP, VerdictBook, level_of_look
from bopl.serving.canary import CanaryVerdict, finite, judge_trial, trial_rows
from bopl.serving.events import EventStore
from bopl.serving.folder import SUFFIX, LoopFolder, load_policy_file
from bopl.serving.joining import JoinResult, count_joined, join
from bopl.serving.learning import NEW, Learned, learn
from bopl.serving.promotion import Standing
from bopl.serving.record import UNIFORM, PromotionRow
from bopl.serving.settings import APPRENTICE, LoopSettings

logger = logging.getLogger(__name__)
START, RAISE, LOWER, KEEP, ROLL_BACK, WAIT = "start", "raise", "lower", "keep", "roll back", "wait"
FOLLOWED = (START, RAISE, LOWER, ROLL_BACK)  # by a promotion
# What a promotion says of the verdict that it follows from.
PROMOTED = ("number", "kind", "verdict", "reason", "difference", "lower", "upper", "confidence", "look", "n_samples")


@dataclass(frozen=True)
class StepResult:
    """What a step has done.

    Attributes
    ----------
    joined : JoinResult
    action : {"start", "raise", "lower", "keep", "roll back", "wait"}
        A canary started, got a larger share, or was rolled back; a policy that had all traffic is in doubt and shares
        it with the one it replaced; nothing changes; or there are too few new decisions.
    sentence : str
        The finding and its consequence.
    verdict : mapping or None
        The entry of the book.
    promotion : PromotionRow
        What is served now.
    """

    joined: JoinResult
    action: str
    sentence: str
    verdict: Mapping[str, Any] | None
    promotion: PromotionRow

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values."""
        return {
            "joined": self.joined.to_dict(),
            "action": self.action,
            "sentence": self.sentence,
            "verdict": self.verdict,
            "promotion": asdict(self.promotion),
        }


def step(folder: str | Path, *, now: int | None = None, say: Hear | None = None, progress: bool = False) -> StepResult:
    """Do one step of a loop; run it as often as you like.

    Parameters
    ----------
    folder : path
        Of the loop; the server may be running at the same time.
    now : int, optional
        Microseconds since 1970, for the join; by default the time of the machine.
    say : callable, optional
        Deprecated: what a step says goes to `logging`.
    progress : bool, default=False
        Whether to show a line of progress.
    """
    loop = LoopFolder(folder)
    settings = loop.settings()
    with deprecated_listener("say", say), only_writer(loop.verdicts), EventStore(loop.events) as store:
        return Stepping(loop, settings, store, progress).run(now)


@dataclass(frozen=True)
class Stepping:
    """One step, with all that it needs."""

    loop: LoopFolder
    settings: LoopSettings
    store: EventStore
    progress: bool = False
    book: VerdictBook = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "book", VerdictBook(self.loop.verdicts))

    def run(self, now: int | None = None) -> StepResult:
        """Join, finish what a killed step has left, judge what is on trial, and learn."""
        joined = join(self.loop.path, self.store, self.settings, now=now)
        logger.info(joined.sentence)
        finished = self._finish()
        if finished is not None:
            return self._result(joined, finished)
        standing = self._standing()
        tried = None
        if standing.canary is not None or standing.before is not None:
            tried = self._judge_trial(standing)
            if standing.canary is not None or tried["action"] != KEEP:
                return self._result(joined, tried)
        learned = self._learn(standing)
        return self._result(joined, learned)

    @property
    def _is_apprentice(self) -> bool:
        return self.settings.mode == APPRENTICE

    def _standing(self) -> Standing:
        return Standing.of(self.store.promotions())

    def _result(self, joined: JoinResult, entry: Mapping[str, Any]) -> StepResult:
        logger.info(entry["sentence"])
        written = entry if "number" in entry else None
        return StepResult(joined, entry["action"], entry["sentence"], written, self._standing().now)

    # -- What is on trial -------------------------------------------------------------------------------------------

    def _judge_trial(self, standing: Standing) -> dict[str, Any]:
        """Judge the canary, or the running policy against the one it replaced, and act on the verdict."""
        rows = trial_rows(self.loop, self.store, standing)
        verdict = judge_trial(rows, standing.trial, standing.ramp, self.settings, self.settings.reward_range)
        action, share = self._action_on_trial(standing, verdict, n_ramp=len(rows.of(standing.ramp)))
        entry = {
            "kind": RAMP,
            "running": standing.running,
            "candidate": standing.now.policy,
            "against": standing.now.baseline,
            "share": standing.now.share,
            "after": standing.now.id,
            "action": action,
            "next_share": share,
            "n_joined": count_joined(self.loop.log),
            **verdict.to_dict(),
            "log_fingerprint": None,
            "sentence": _trial_text(standing, verdict, action, share, self.settings),
        }
        last = self.book.last()
        is_known = last is not None and last["kind"] == RAMP and last["n_joined"] == entry["n_joined"]
        if action == KEEP and (standing.canary is None or is_known):
            return entry  # nothing follows, and nothing is to be remembered: the bounds hold at all looks
        return self._follow(self._write(entry))

    def _action_on_trial(self, standing: Standing, verdict: CanaryVerdict, n_ramp: int) -> tuple[str, float | None]:
        """Return what follows from a verdict, and the next share of the policy where it gets another one."""
        if verdict.verdict == WORSE:
            return ROLL_BACK, None
        if standing.canary is None:
            share = standing.telling_share(self.settings.ramp) if verdict.is_doubtful else None
            return (KEEP if share is None else LOWER), share
        if verdict.verdict == BETTER:
            return RAISE, standing.next_share(self.settings.ramp)
        return (ROLL_BACK if n_ramp >= self.settings.max_ramp_decisions else KEEP), None

    # -- What is learned --------------------------------------------------------------------------------------------

    def _learn(self, standing: Standing) -> dict[str, Any]:
        """Train and judge a candidate if there is enough that is new."""
        n_joined = count_joined(self.loop.log)
        looks = self.book.looks(standing.running)
        last = self.book.last()
        n_new = n_joined - (0 if last is None else last["n_joined"])
        if n_new < self.settings.min_decisions:
            sentence = (
                f"Waiting: {n_new:,} joined decisions are new, and {self.settings.min_decisions:,} are needed before "
                "the next look."
            )
            return {"action": WAIT, "sentence": sentence}
        look = len(looks) + 1
        level = level_of_look(self.settings.confidence, look)
        contenders, spoiled = self._contenders(standing)
        learned = learn(
            self.loop.log,
            self.settings,
            self.loop.load_policy(standing.running),
            contenders,
            confidence=level,
            is_caller=self._is_apprentice and standing.running == UNIFORM,
            progress=self.progress,
        )
        learned = replace(learned, left_aside=spoiled | learned.left_aside)
        for name, why in learned.left_aside.items():
            logger.warning("%s%s is skipped: %s", name, SUFFIX, why)
        return self._follow(self._write(self._candidate_entry(standing, learned, look, level, n_joined)))

    def _contenders(self, standing: Standing) -> tuple[dict[str, Any], dict[str, str]]:
        """Return the policies that were put into the folder and never served, by their ids, and why others are none."""
        found: dict[str, Any] = {}
        spoiled: dict[str, str] = {}
        for name, file in self.loop.policy_files().items():
            if name in standing.served:
                continue
            try:
                policy = load_policy_file(file)
                found[self.loop.add_policy(file, policy)] = policy  # one under another name is copied to its id
            except (ValueError, TypeError, KeyError, OSError) as error:
                spoiled[name] = str(error)
        return {name: policy for name, policy in found.items() if name not in standing.served}, spoiled

    def _candidate_entry(
        self, standing: Standing, learned: Learned, look: int, level: float, n_joined: int
    ) -> dict[str, Any]:
        name, row = learned.best()
        is_better = row["verdict"] == BETTER
        candidate = name
        if name == NEW:
            candidate = self._save(learned.policy) if is_better else learned.policy.policy_id
        if candidate == standing.running:  # the same policy again
            is_better = False
        action = START if is_better else KEEP
        # An apprentice has no traffic to share out: what it would do is that of its best policy.
        share = 1.0 if self._is_apprentice else self.settings.ramp[0]
        return {
            "kind": CANDIDATE,
            "running": standing.running,
            "candidate": candidate,
            "after": standing.now.id,
            "action": action,
            "next_share": share if action == START else None,
            "look": look,
            "confidence": level,
            "n_joined": n_joined,
            "verdict": row["verdict"],
            "reason": row["reason"],
            **{name: finite(row[name]) for name in ("difference", "lower", "upper")},
            "log_fingerprint": learned.fingerprint,
            "split": learned.split,
            "verdicts": {one["policy"]: one["verdict"] for one in learned.evaluation.decisions},
            "left_aside": learned.left_aside,
            "audit": [finding.sentence for finding in learned.audit.problems],
            "sentence": (
                f"Look {look} at a replacement for {standing.running}: {row['verdict']} ({row['estimator']}). "
                f"{row['reason']} "
                + (f"{candidate} gets {100.0 * share:.3g}% of the traffic." if action == START else "Nothing changes.")
            ),
        }

    def _save(self, policy: Any) -> str:
        """Put a policy into the folder, under its id."""
        with tempfile.TemporaryDirectory(dir=self.loop.policies, prefix=".") as folder:
            file = Path(folder) / f"policy{SUFFIX}"
            policy.save(file)
            return self.loop.add_policy(file)

    # -- What follows -----------------------------------------------------------------------------------------------

    def _write(self, entry: dict[str, Any]) -> dict[str, Any]:
        return self.book.write({"time": self.store.clock.now(), **entry})

    def _finish(self) -> dict[str, Any] | None:
        """Carry out the verdict of a step that was killed before it could; None if there is no such verdict."""
        last = self.book.last()
        if last is None or last["action"] not in FOLLOWED or self._standing().now.id != last["after"]:
            return None  # it was done, or something else was meanwhile
        return self._follow(last)

    def _follow(self, entry: dict[str, Any]) -> dict[str, Any]:
        """Carry out a verdict, if the promotion that it judged is still in force."""
        standing = self._standing()
        more = {
            "verdict": {name: entry[name] for name in PROMOTED if name in entry},
            "log_fingerprint": entry["log_fingerprint"],
        }
        reason = f"verdict {entry['number']}: {entry['verdict']}"
        if entry["action"] == ROLL_BACK:
            self.store.promote(standing.rollback_of(self.settings, reason, **more), after=entry["after"])
        elif entry["action"] in FOLLOWED:
            row = standing.promotion_of(entry["candidate"], entry["next_share"], self.settings, reason, **more)
            self.store.promote(row, after=entry["after"])
        return entry


def _trial_text(
    standing: Standing, verdict: CanaryVerdict, action: str, share: float | None, settings: LoopSettings
) -> str:
    before = standing.now.baseline
    what = {ROLL_BACK: f"It is rolled back: {before} has all traffic again.", KEEP: "It keeps its share."}
    if share is not None:
        what[RAISE] = f"It gets {_percent(share)} of the traffic."
        what[LOWER] = f"It is in doubt: it gets {_percent(share)} of the traffic, and {before} the rest."
    if action == ROLL_BACK and verdict.verdict != WORSE:
        what[ROLL_BACK] = f"{settings.max_ramp_decisions:,} decisions were not enough. {what[ROLL_BACK]}"
    name = f"Policy {standing.now.policy} at {_percent(standing.now.share)}"
    return f"{name}: {verdict.verdict}. {verdict.reason} {what[action]}"


def _percent(share: float) -> str:
    return f"{100.0 * share:.3g}%"
