"""What an audit says of decisions that were logged more than once.

Samples of one group may share a draw, which intervals allow for. So their copies are a note, unless it is rewarded
decisions that have them, as after a join with clicks: then values are wrong, whatever the intervals.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bopl._errors import quoted
from bopl.log.duplicate import Repetition, find_copies_in_groups
from bopl.log.finding import NOTE, OK, PROBLEM, Finding
from bopl.log.identical import mix, row_keys

if TYPE_CHECKING:
    from bopl.log.bandit_log import BanditLog

MAX_SHARE = 0.01  # a smaller share of copies hardly changes an interval
MIN_FOLLOWED, FOLLOWED = 20, 0.98  # decisions with copies, and the share of them that are rewarded, where rewards copy


def audit_duplicates(log: BanditLog, found: Repetition | None) -> Finding:
    """Return what an audit says of decisions that were logged more than once; ``found`` is what shows them."""
    if found is not None:
        share = found.n_copies / log.n_samples
        return Finding("duplicated_rows", PROBLEM if share >= MAX_SHARE else NOTE, share, _copied_text(found, log))
    if (within := find_copies_in_groups(log)) is not None:
        return _audit_groups(within, log)
    n_repeated = log.n_samples - len(np.unique(row_keys(log)))
    share = n_repeated / log.n_samples
    if n_repeated == 0:
        return Finding("duplicated_rows", OK, 0.0, "No two samples share context, action and reward.")
    text = f"{n_repeated} of {log.n_samples} samples repeat context, action and reward of another one"
    return Finding("duplicated_rows", NOTE, share, f"{text}; contexts repeat, so this can be chance.")


def _audit_groups(found: Repetition, log: BanditLog) -> Finding:
    """Return what is said of copies within groups."""
    share, text = found.n_copies / log.n_samples, _proof(found, " of others of their group", log.n_samples)
    if _follow_rewards(found, log):
        said = f"{text}. {_FOLLOWING}: give each decision one row, with its whole reward."
        return Finding("duplicated_rows", PROBLEM if share >= MAX_SHARE else NOTE, share, said)
    meaning = (
        "Where one draw served several samples of a group, intervals allow for it. If decisions were logged more than "
        "once, drop the copies with drop_duplicates"
    )
    return Finding("duplicated_rows", NOTE, share, f"{text}. {meaning}{_first_ignore(found)}.")


def _follow_rewards(found: Repetition, log: BanditLog) -> bool:
    """Return whether it is decisions with another reward than the usual one that have copies, and hardly others."""
    value, count = np.unique(log.reward, return_counts=True)
    if found.key is None or len(value) < 2 or 2 * int(count.max()) < log.n_samples:
        return False
    cell = mix(found.key + log.action_idx.astype(np.uint64))
    for known in (log.propensity if log.has_propensity else None, log.group, log.time):  # copies have the same
        if known is not None:
            cell = mix(cell + np.unique(known, return_inverse=True)[1].astype(np.uint64))
    place = np.unique(cell, return_inverse=True)[1]
    is_event = np.bincount(place, weights=log.reward != value[count.argmax()]) > 0.0
    is_copied = np.bincount(place) > 1
    n_copied = int(is_copied.sum())
    if not MIN_FOLLOWED <= n_copied <= len(is_copied) // 2:
        return False
    return bool(is_event[is_copied].mean() >= FOLLOWED and is_event[~is_copied].mean() <= 0.5)


_FOLLOWING = (
    "Decisions with a reward were logged more than once, as after a join with clicks, and others were not, so that "
    "every value is wrong"
)


def _copied_text(found: Repetition, log: BanditLog) -> str:
    text = _proof(found, "", log.n_samples)
    if _follow_rewards(found, log):
        return f"{text}. {_FOLLOWING}: give each decision one row, with its whole reward."
    return (
        f"{text}. The same decisions were logged more than once, or one draw served several. Intervals are then too "
        f"narrow: drop the copies with drop_duplicates{_first_ignore(found)}, or name their group, such as the user."
    )


def _proof(found: Repetition, of_whom: str, n_samples: int) -> str:
    but = "" if found.column is None else f" but for {found.column!r}"
    shared = f"their context{but}" if not found.columns else quoted(found.columns)
    if found.is_doubled:
        proof = (
            f"{found.n_even:,} of {found.n_cells:,} combinations of context{but}, action and reward occur an even "
            f"number of times, where at most {found.n_cells // 2:,} would by chance"
        )
    elif found.is_near and found.near is not None:
        proof = (
            f"{found.near.n_agreeing:,} of {found.near.n_pairs:,} share the action of the one before them with the "
            f"same context{but}, where {found.near.chance * found.near.n_pairs:,.0f} share that of one farther back"
        )
    else:
        proof = (
            f"of {found.n_pairs:,} that share {shared} with another one, {found.n_agreeing:,} share its "
            f"action as well, where {found.n_expected:,.0f} would by chance"
        )
    return f"About {found.n_copies:,.0f} of {n_samples:,} samples are copies{of_whom}: {proof}"


def _first_ignore(found: Repetition) -> str:
    return "" if found.column is None else f" (exclude {found.column!r} from the context first, with ignore)"
