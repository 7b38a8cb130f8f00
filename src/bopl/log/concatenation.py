"""Several logs as one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from bopl._errors import UsageError, quoted
from bopl._typing import AnyArray, BoolArray, ContextMatrix, FloatArray
from bopl.log.action import label_array, object_array
from bopl.log.bandit_log import PER_SAMPLE, BanditLog, replaced
from bopl.log.context import is_sparse, read_only
from bopl.log.origin import LogOrigin

DOUBTFUL_FIRST = ("mismatched", "estimated", "uniform", "balanced", "logged")


def concat(logs: Iterable[BanditLog], *, share_groups: bool = True) -> BanditLog:
    """Return the samples of several logs as one log, in their order.

    The result has the actions of all logs: those of the first log in its order, then those of later ones. In a log with
    an action mask, actions of other logs could not be chosen; in a log without one, every action of the result could.

    Parameters
    ----------
    logs : iterable of BanditLog
        All with the same context columns, encoded in the same way: read the later ones with ``schema=first.schema``.
    share_groups : bool, default=True
        Whether a group with the same label in two logs is one group, like a user; if not, as with numbers that restart
        in each log, the groups of each are kept apart and called ``"1:label"``, ``"2:label"``, ….

    Examples
    --------
    >>> import bopl
    >>> monday = bopl.BanditLog([[0.0], [1.0]], ["a", "b"], [1, 0], [0.5, 0.5])
    >>> tuesday = bopl.BanditLog([[0.0], [2.0]], ["a", "c"], [0, 1], [0.5, 0.5])
    >>> bopl.concat([monday, tuesday]).actions.tolist()
    ['a', 'b', 'c']
    """
    parts = [logs] if isinstance(logs, BanditLog) else list(logs)
    _check_logs(parts)
    actions = list(dict.fromkeys(label for log in parts for label in log.actions.tolist()))
    has_propensity = parts[0].has_propensity
    joined = BanditLog(
        joined_context(parts),
        object_array([label for log in parts for label in log.action.tolist()]),
        np.concatenate([log.reward for log in parts]),
        np.concatenate([log.propensity for log in parts]) if has_propensity else None,
        actions=object_array(actions),
        feature_names=parts[0].feature_names,
        time=_joined_time(parts),
        action_mask=_joined_mask(parts, actions),
        action_features=_joined_features(parts, actions),
        group=_joined_group(parts, share_groups=share_groups),
        other_rewards={
            name: np.concatenate([log.other_rewards[name] for log in parts]) for name in parts[0].other_rewards
        },
        segment=None if parts[0].segment is None else np.concatenate([log.segment for log in parts]),
    )
    if has_propensity:
        sources = {log.propensity_source for log in parts}
        source = next(one for one in DOUBTFUL_FIRST if one in sources)
        joined = joined.with_propensity(joined.propensity, source=source)
        joined = joined.with_exact_propensity(all(log.exact_propensity for log in parts))
    if parts[0].schema is not None:
        joined = joined.with_schema(parts[0].schema)
    return joined.with_origin(_joined_origin(parts))


def _check_logs(logs: Sequence[Any]) -> None:
    if not logs:
        raise UsageError("concat takes at least one log; got none.")
    wrong = [place for place, log in enumerate(logs) if not isinstance(log, BanditLog)]
    if wrong:
        raise TypeError(f"concat takes logs; number {wrong[0] + 1} is of type {type(logs[wrong[0]]).__name__}.")
    for place, log in enumerate(logs[1:], start=2):
        _check_columns(logs[0], log, place)
        pair = (logs[0], log)
        for name in sorted({*logs[0].other_rewards, *log.other_rewards}):
            _check_both([name in one.other_rewards for one in pair], place, f"the other reward {name!r}")
        for what in ("time", "group", "action_features", "segment"):
            _check_both([getattr(one, what) is not None for one in pair], place, what)
        advice = "add them first, with bopl.estimate_propensity or log.with_propensity"
        _check_both([one.has_propensity for one in pair], place, "propensities", advice)


def _check_both(have_it: Sequence[bool], place: int, what: str, advice: str = "give it to both, or to neither") -> None:
    """Raise if the first log has something that the one at a place lacks, or the other way round."""
    if have_it[0] != have_it[1]:
        has, lacks = (1, place) if have_it[0] else (place, 1)
        raise ValueError(f"log {has} has {what} but log {lacks} does not: {advice}.")


def _check_columns(first: BanditLog, log: BanditLog, place: int) -> None:
    """Raise if the contexts of two logs do not mean the same."""
    if log.n_features != first.n_features or log.feature_names != first.feature_names:
        mine, theirs = first.feature_names or (), log.feature_names or ()
        differing = [name for name in dict.fromkeys([*mine, *theirs]) if (name in mine) != (name in theirs)]
        said = f": {quoted(differing)} are in only one of them" if differing else ", or in their order"
        if not (mine and theirs):
            said = f" ({first.n_features} and {log.n_features} columns, {_named(first)} and {_named(log)})"
        raise ValueError(
            f"log 1 and log {place} differ in their context columns{said}. Read both with the same context=[…]."
        )
    mine_of, theirs_of = ({} if one.schema is None else {c.name: c for c in one.schema.columns} for one in (first, log))
    if mine_of != theirs_of:
        differing = [name for name in {**mine_of, **theirs_of} if mine_of.get(name) != theirs_of.get(name)]
        raise ValueError(
            f"log 1 and log {place} turn {quoted(differing)} into numbers differently, such as with other categories: "
            f"read log {place} with schema=first.schema, where first is log 1, or read all files at once."
        )


def _named(log: BanditLog) -> str:
    return "without names" if log.feature_names is None else "with names"


def joined_context(logs: Sequence[BanditLog]) -> ContextMatrix:
    """Return the contexts of all logs below one another, sparse if one of them is."""
    if not any(is_sparse(log.context) for log in logs):
        return np.concatenate([np.asarray(log.context) for log in logs])
    from scipy.sparse import csr_array, vstack

    return vstack([csr_array(log.context) for log in logs], format="csr")


def _joined_time(logs: Sequence[BanditLog]) -> AnyArray | None:
    times = [log.time for log in logs if log.time is not None]
    if not times:
        return None
    kinds = ["dates" if time.dtype.kind == "M" else "numbers" for time in times]
    other = [place for place, kind in enumerate(kinds) if kind != kinds[0]]
    if other:
        raise ValueError(f"the times of log 1 are {kinds[0]}, those of log {other[0] + 1} {kinds[other[0]]}.")
    return np.concatenate(times)


def _joined_mask(logs: Sequence[BanditLog], actions: Sequence[Any]) -> BoolArray | None:
    if all(log.action_mask is None for log in logs):
        return None
    place = {label: idx for idx, label in enumerate(actions)}
    masks = []
    for log in logs:
        mask = np.full((log.n_samples, len(actions)), log.action_mask is None)
        if log.action_mask is not None:
            mask[:, [place[label] for label in log.actions.tolist()]] = log.action_mask
        masks.append(mask)
    return np.concatenate(masks)


def _joined_features(logs: Sequence[BanditLog], actions: Sequence[Any]) -> FloatArray | None:
    known: dict[Any, FloatArray] = {}
    for number, log in enumerate(logs, start=1):
        if log.action_features is None:
            return None
        for label, row in zip(log.actions.tolist(), log.action_features, strict=True):
            if not np.array_equal(known.setdefault(label, row), row):
                raise ValueError(
                    f"log {number} has other action_features for {label!r} than an earlier log: an action has the "
                    "same everywhere. What changes with the sample belongs in the context."
                )
    return np.array([known[label] for label in actions])


def _joined_group(logs: Sequence[BanditLog], *, share_groups: bool) -> AnyArray | None:
    labels: list[Any] = []
    for number, log in enumerate(logs, start=1):
        if log.group is None:
            return None
        own = log.group if log.group_labels is None else log.group_labels[log.group]
        labels += own.tolist() if share_groups else [f"{number}:{label}" for label in own.tolist()]
    return label_array(labels)


def _joined_origin(logs: Sequence[BanditLog]) -> LogOrigin | None:
    """Return the record of all logs; what was left out is told log by log."""
    if len(logs) == 1 or all(log.origin is None for log in logs):
        return logs[0].origin
    origins = [LogOrigin(log.n_samples) if log.origin is None else log.origin for log in logs]
    formats, wheres = ({getattr(one, name) for one in origins} for name in ("format", "where"))
    is_alike = len(wheres) == 1
    uneven = [f"Log {number}: {one.uneven}" for number, one in enumerate(origins, start=1) if one.uneven is not None]
    return LogOrigin(
        sum(one.n_rows if is_alike else one.n_rows - one.n_filtered for one in origins),
        format=formats.pop() if len(formats) == 1 else None,
        where=wheres.pop() if is_alike else None,
        n_filtered=sum(one.n_filtered for one in origins) if is_alike else 0,
        dropped=tuple(
            replace(dropped, reason=f"log {number}: {dropped.reason}")
            for number, one in enumerate(origins, start=1)
            for dropped in one.dropped
        ),
        uneven=" ".join(uneven) or None,
    )


def join_parts(parts: Sequence[BanditLog]) -> BanditLog:
    """Return the samples of parts of one log, in their order: actions, columns and groups are the same in all."""
    first = parts[0]
    if len(parts) == 1:
        return first
    columns: dict[str, Any] = {
        name: read_only(np.concatenate([getattr(part, name) for part in parts]))
        for name in PER_SAMPLE
        if name != "context" and getattr(first, name) is not None
    }
    others = {
        name: read_only(np.concatenate([part.other_rewards[name] for part in parts])) for name in first.other_rewards
    }
    return replaced(first, context=read_only(joined_context(parts)), other_rewards=others, **columns)
