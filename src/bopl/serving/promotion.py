"""Where a loop stands: what runs and what is tried, read off the rows of promotions; promotions by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from bopl._errors import UsageError, checking_usage, did_you_mean
from bopl._settings import check_number
from bopl.serving.book import VerdictBook, level_of_look
from bopl.serving.events import EventStore
from bopl.serving.folder import SUFFIX, LoopFolder
from bopl.serving.joining import count_joined
from bopl.serving.record import UNIFORM, PromotionRow
from bopl.serving.settings import LoopSettings

BY_HAND = "by hand"
MAX_VERDICTS = 5  # that a status shows


@dataclass(frozen=True)
class Standing:
    """Where a loop stands."""

    promotions: tuple[PromotionRow, ...]  # all of them, the oldest first; the last is in force

    @classmethod
    def of(cls, promotions: Sequence[PromotionRow]) -> Standing:
        """Return where a loop with these promotions stands; raise if it has not begun."""
        if not promotions:
            raise UsageError("nothing has been promoted here yet; start the loop with `bopl serve FOLDER`.")
        return cls(tuple(promotions))

    @property
    def now(self) -> PromotionRow:
        """The promotion in force."""
        return self.promotions[-1]

    @property
    def canary(self) -> str | None:
        """Id of the policy that is tried on a part of the traffic; None if there is none."""
        return self.now.policy if self.now.share < 1.0 else None

    @property
    def running(self) -> str:
        """Id of the policy that has the rest of the traffic, or all of it."""
        return self.now.policy if self.canary is None else self.now.baseline

    @property
    def before(self) -> str | None:
        """Id of the policy that the running one has replaced and is still compared with; None if there is none."""
        has_one = self.canary is None and self.now.baseline != self.now.policy
        return self.now.baseline if has_one else None

    @property
    def served(self) -> frozenset[str]:
        """Ids of all policies that ever had traffic: what replays need, and what is never tried a second time."""
        return frozenset(name for row in self.promotions for name in (row.policy, row.baseline))

    @property
    def trial(self) -> tuple[PromotionRow, ...]:
        """The promotions of the policy in force over the baseline in force, without a break."""
        return self._back_while(lambda row: (row.policy, row.baseline) == (self.now.policy, self.now.baseline))

    @property
    def ramp(self) -> tuple[PromotionRow, ...]:
        """Those of the trial with the share in force."""
        return self._back_while(
            lambda row: (row.policy, row.baseline, row.share) == (self.now.policy, self.now.baseline, self.now.share)
        )

    def _back_while(self, is_part: Any) -> tuple[PromotionRow, ...]:
        found: list[PromotionRow] = []
        for row in reversed(self.promotions):
            if not is_part(row):
                break
            found.insert(0, row)
        return tuple(found)

    # -- What may come next -----------------------------------------------------------------------------------------

    def next_share(self, ramp: Sequence[float]) -> float:
        """Return the share after the one in force."""
        return next((share for share in ramp if share > self.now.share), 1.0)

    def telling_share(self, ramp: Sequence[float]) -> float | None:
        """Return the share of a ramp, below the one in force, that separates two policies soonest, or None.

        It is the one nearest to one half, where neither of them is rare.
        """
        lower = [share for share in ramp if share < self.now.share]
        return min(lower, key=lambda share: abs(share - 0.5), default=None)

    def promotion_of(
        self, policy: str, share: float, settings: LoopSettings, reason: str, **facts: Any
    ) -> PromotionRow:
        """Return the row that serves a policy at a share, over what runs now."""
        baseline = self.running if policy != self.running else self.now.baseline
        if policy == self.canary:
            baseline = self.now.baseline
        return self._row(policy, share, baseline, settings, reason, facts)

    def rollback_of(self, settings: LoopSettings, reason: str, **facts: Any) -> PromotionRow:
        """Return the row that gives all traffic back to what ran before."""
        target = self.now.baseline
        if target == self.now.policy:
            name = "the uniform policy" if target == UNIFORM else f"policy {target}"
            raise UsageError(
                f"there is nothing to roll back to: {name} has replaced no other policy. Promote one by its id."
            )
        return self._row(target, 1.0, target, settings, reason, facts)

    def _row(
        self, policy: str, share: float, baseline: str, settings: LoopSettings, reason: str, facts: dict[str, Any]
    ) -> PromotionRow:
        known = list(dict.fromkeys([*settings.actions, *(self.now.actions or ())]))
        row = PromotionRow(policy, share, baseline, settings.exploration, settings.min_propensity, reason)
        return replace(row, actions=known or None, **facts)


def promote(folder: str | Path, policy: str, *, share: float | None = None) -> PromotionRow:
    """Serve a policy at a share of the traffic, over what runs now; `step` takes it back if it is worse.

    Parameters
    ----------
    folder : path
        Folder of the loop.
    policy : str
        Its id, a prefix of its id, the path of a policy file, which is copied into the folder, or ``"uniform"``.
    share : float in (0, 1], optional
        By default the next share of the ramp for the canary, and the first one for any other policy.
    """
    loop = LoopFolder(folder)
    settings = loop.settings()
    if share is not None:
        with checking_usage():
            check_number("share", share, low=0.0, high=1.0, low_open=True)
    with EventStore(loop.events) as store:
        standing = Standing.of(store.promotions())
        name = _find_policy(loop, policy)
        if share is None:
            share = standing.next_share(settings.ramp) if name == standing.canary else settings.ramp[0]
        if name == standing.running and standing.canary is None:
            raise UsageError(f"{name} has all traffic already: there is nothing to promote.")
        if name == standing.running:
            return store.promote(standing.rollback_of(settings, BY_HAND), after=standing.now.id)
        loop.load_policy(name)  # raises if it cannot be served
        return store.promote(standing.promotion_of(name, share, settings, BY_HAND), after=standing.now.id)


def rollback(folder: str | Path) -> PromotionRow:
    """Give all traffic back to what ran before: to the running policy if there is a canary, else to its predecessor."""
    loop = LoopFolder(folder)
    with EventStore(loop.events) as store:
        standing = Standing.of(store.promotions())
        return store.promote(standing.rollback_of(loop.settings(), BY_HAND), after=standing.now.id)


@dataclass(frozen=True)
class LoopStatus:
    """Where a loop stands.

    Attributes
    ----------
    promotion : PromotionRow
        In force.
    running : str
    canary : str or None
    share : float
        Of the canary, or 1.
    n_decisions, n_open, n_joined : int
        Decisions in the event store, those of them with open windows, and those in the log.
    rewards : dict of status to int
    n_looks : int
        Verdicts on candidates for the place of the running policy.
    next_confidence : float
        Confidence of the next of them.
    policies : list of str
        Ids of the policies in the folder.
    promotions : list of PromotionRow
    verdicts : list of dict
        The newest.
    """

    promotion: PromotionRow
    running: str
    canary: str | None
    share: float
    n_decisions: int
    n_open: int
    n_joined: int
    rewards: dict[str, int]
    n_looks: int
    next_confidence: float
    policies: list[str]
    promotions: list[PromotionRow]
    verdicts: list[dict[str, Any]]

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values."""
        return asdict(self)


def status(folder: str | Path) -> LoopStatus:
    """Return where a loop stands; nothing is changed."""
    loop = LoopFolder(folder)
    settings = loop.settings()
    book = VerdictBook(loop.verdicts)
    with EventStore(loop.events) as store:
        standing = Standing.of(store.promotions())
        watermark = store.watermark()
        with store.reading() as connection:
            counted = "SELECT count(*), coalesce(sum(time > ?), 0) FROM decision"
            n_decisions, n_open = connection.execute(counted, (watermark,)).fetchone()
            rewards = dict(connection.execute("SELECT status, count(*) FROM reward GROUP BY status ORDER BY status"))
    n_looks = len(book.looks(standing.running))
    return LoopStatus(
        promotion=standing.now,
        running=standing.running,
        canary=standing.canary,
        share=standing.now.share,
        n_decisions=n_decisions,
        n_open=n_open,
        n_joined=count_joined(loop.log),
        rewards=rewards,
        n_looks=n_looks,
        next_confidence=level_of_look(settings.confidence, n_looks + 1),
        policies=list(loop.policy_files()),
        promotions=list(standing.promotions),
        verdicts=book.entries()[-MAX_VERDICTS:],
    )


def _find_policy(loop: LoopFolder, given: str) -> str:
    """Return the id that is meant: in full, by a prefix, or of a file."""
    if given == UNIFORM:
        return UNIFORM
    if given.endswith(SUFFIX) and Path(given).is_file():
        return loop.add_policy(given)
    known = list(loop.policy_files())
    found = [name for name in known if name == given] or [name for name in known if name.startswith(given)]
    if len(found) == 1:
        return found[0]
    if found:
        raise UsageError(f"{given!r} matches {len(found)} policies, {', '.join(found)}: give a longer prefix.")
    raise UsageError(
        f"there is no policy {given!r} in {str(loop.policies)!r}.{did_you_mean(given, known)} Its policies are listed "
        "by `bopl loop FOLDER status`."
    )
