"""Promotions by hand, and where a loop stands."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bopl._errors import UsageError, checking_usage, did_you_mean
from bopl._settings import check_number
from bopl.serving.book import VerdictBook, level_of_look
from bopl.serving.events import EventStore
from bopl.serving.folder import SUFFIX, LoopFolder
from bopl.serving.joining import count_joined
from bopl.serving.record import UNIFORM, PromotionRow
from bopl.serving.standing import Standing

BY_HAND = "by hand"
MAX_VERDICTS = 5  # that a status shows


def promote(folder: str | Path, policy: str, *, share: float | None = None) -> PromotionRow:
    """Serve a policy at a share of the traffic, over what runs now; `step` takes it back if it is worse.

    Parameters
    ----------
    folder : path
        Folder of the loop.
    policy : str
        Its id, the beginning of it, the path of a policy file, which is copied into the folder, or ``"uniform"``.
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
    """Return the id that is meant: one in full, the beginning of one, or that of a file."""
    if given == UNIFORM:
        return UNIFORM
    if given.endswith(SUFFIX) and Path(given).is_file():
        return loop.add_policy(given)
    known = list(loop.policy_files())
    found = [name for name in known if name == given] or [name for name in known if name.startswith(given)]
    if len(found) == 1:
        return found[0]
    if found:
        raise UsageError(f"{given!r} is the beginning of {len(found)} policies, {', '.join(found)}: give more of it.")
    raise UsageError(
        f"there is no policy {given!r} in {str(loop.policies)!r}.{did_you_mean(given, known)} Its policies are listed "
        "by `bopl loop FOLDER status`."
    )
