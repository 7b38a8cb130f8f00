"""The audit of a log: are its propensities plausible, and can it answer for a policy? One sentence per finding."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from bopl._errors import quoted, shortened
from bopl._policy_reader import read_policy
from bopl._typing import AnyArray
from bopl.log.column import Column
from bopl.log.duplicate import find_copies
from bopl.log.duplicate_audit import audit_duplicates
from bopl.log.finding import NOTE, OK, PROBLEM, Audit, Finding, noted
from bopl.log.leak.find import find_leaks_and_draws
from bopl.log.leak.leak import ACTION, IDENTIFIER, Leak
from bopl.log.leak.view import column_views
from bopl.log.propensity_audit import (
    FEW_SAMPLES,
    logging_policy_finding,
    propensity_findings,
    with_raised_propensities,
)
from bopl.log.schema import LogSchema
from bopl.log.weight_audit import weight_findings
from bopl.log.where import Where

if TYPE_CHECKING:
    from bopl.log.bandit_log import BanditLog

LIKE_MISSING = ("", "nan", "none", "null", "na", "n/a", "<na>", "nat")  # as other programs write what is missing
MAX_ALIKE = 3  # pairs of labels that a sentence names
MIN_NUMBERS = 20  # categories that may be numbers: fewer are grades, sizes or versions
MAX_OTHERS = 0.1  # share of them that may be something else
_NUMBER = re.compile(r"\s*[+-]?(\d+|\d*[.,]\d+|\d{1,3}([., ']\d{3})+([.,]\d+)?)([eE][+-]?\d+)?\s*%?\s*")
_MISSING = ("", "-", "--", ".", "?", "nan", "none", "null", "na", "n/a", "#n/a", "<na>", "nil", "missing", "unknown")


def audit_log(
    log: BanditLog,
    policy: object | None,
    logging_policy: object | None,
    keep: Sequence[str | int] = (),
    seen: BanditLog | None = None,
) -> Audit:
    """Run all checks; see `BanditLog.audit`.

    ``seen`` is the log, or a part of it, whose contexts are checked, if those of ``log`` are not in memory.
    """
    propensities = propensity_findings(log) if log.has_propensity else []
    leaks, draws = find_leaks_and_draws(log, propensities) if seen is None else find_leaks_and_draws(seen)
    compared = with_raised_propensities(_without_told_actions(log if seen is None else seen, leaks), propensities)
    copies = draws or find_copies(compared)
    if copies is not None and seen is None and any(finding.status == PROBLEM for finding in propensities):
        propensities = propensity_findings(copies.as_groups(log))  # what is drawn once counts once
    seen = log if seen is None else seen
    findings = [
        *([] if log.origin is None else log.origin.findings()),
        *_selection_findings(log),
        audit_duplicates(compared, copies),
        *_doubtful_labels(log.actions.tolist()),
        *_doubtful_groups(log.group_labels),
        *_logged_findings(log),
        *audit_columns(seen.schema, leaks, keep),
    ]
    if not log.has_propensity:
        findings.insert(
            0,
            Finding(
                "propensity",
                PROBLEM,
                float("nan"),
                "The log has no propensities: estimates need them, logged, estimated or declared uniform.",
            ),
        )
        return Audit(tuple(findings), log.n_samples, leaks)
    findings = propensities + findings
    if logging_policy is not None:
        findings.append(logging_policy_finding(log, read_policy(logging_policy, log, "logging_policy")))
    return Audit((*findings, *weight_findings(log, policy)), log.n_samples, leaks)


def _without_told_actions(log: BanditLog, leaks: Sequence[Leak]) -> BanditLog:
    """Return a log without the columns that reveal the action: they would hide copies."""
    told = [leak.column for leak in leaks if leak.knows == ACTION]
    return log.without_columns(told) if 0 < len(told) < len(column_views(log)) else log


def _doubtful_labels(labels: Sequence[object]) -> list[Finding]:
    """Return a note if two actions seem to be one, or if one seems to be a missing value; nothing otherwise."""
    spelled: dict[str, list[object]] = {}
    for label in labels:
        spelled.setdefault(str(label).strip().casefold(), []).append(label)
    alike = [same for same in spelled.values() if len(same) > 1]
    empty = [label for text, same in spelled.items() if text in LIKE_MISSING for label in same]
    said = []
    if alike:
        said.append(f"Some actions differ only in type, case or spaces ({_listed(alike)}): are they the same?")
    if empty:
        said.append(f"{quoted(empty)} as an action looks like a missing value that became text: is it an action?")
    return [Finding("action_labels", NOTE, float(len(alike) + len(empty)), " ".join(said))] if said else []


def _listed(alike: Sequence[Sequence[object]]) -> str:
    more = f"; and {len(alike) - MAX_ALIKE} more" if len(alike) > MAX_ALIKE else ""
    return "; ".join(quoted(list(same)) for same in alike[:MAX_ALIKE]) + more


def _doubtful_groups(labels: AnyArray | None) -> list[Finding]:
    """Return a note if two groups seem to be one, as 7 and '7' in joined tables; nothing otherwise."""
    spelled: dict[str, list[object]] = {}
    for label in [] if labels is None or labels.dtype.kind in "iufM" else labels.tolist():
        is_whole = isinstance(label, float) and label.is_integer()
        spelled.setdefault(str(int(label) if is_whole else label).strip(), []).append(label)
    alike = [same for same in spelled.values() if len(same) > 1]
    if not alike:
        return []
    text = (
        f"Some groups differ only in type or spaces ({_listed(alike)}): are they the same? Then write them alike, or "
        "samples of one group are in both parts of a split, and intervals are too narrow."
    )
    return [Finding("group_labels", NOTE, float(len(alike)), text)]


def _selection_findings(log: BanditLog) -> list[Finding]:
    """Return a note if rows were selected by what the decision brought about; nothing otherwise."""
    if log.schema is None or log.origin is None or log.origin.where is None or log.origin.n_filtered == 0:
        return []
    named = Where.parse(log.origin.where).columns
    others = [(name, "reward") for name in log.other_rewards if name in named]
    by = [(name, role) for role in ("action", "propensity", "reward") if (name := log.schema.roles.get(role)) in named]
    if not by + others:
        return []
    listed = " and ".join(f"the {role} {name!r}" for name, role in by + others)
    return [
        Finding(
            "selection",
            NOTE,
            float(len(by + others)),
            f"The rows were selected by {listed}, which the decision itself brought about: the propensities are not "
            "those of the rows that are left, and estimates hold for these alone. Select by what was known before.",
        )
    ]


def _logged_findings(log: BanditLog) -> list[Finding]:
    """Return what is said of actions that were never taken, and of those that hardly were."""
    count = np.bincount(log.action_idx, minlength=log.n_actions)
    never = log.actions[count == 0].tolist()
    few = log.actions[(count > 0) & (count < FEW_SAMPLES)].tolist()
    of_all = f"of {log.n_actions} actions were"
    return [
        noted(
            "never_logged",
            never,
            f"{len(never)} {of_all} never taken: {quoted(never)}. Nothing is known about them.",
            f"All {log.n_actions} actions were taken.",
        ),
        noted(
            "hardly_logged",
            few,
            f"{len(few)} {of_all} taken fewer than {FEW_SAMPLES} times: {quoted(few)}.",
            f"Every action that was taken was taken at least {FEW_SAMPLES} times.",
        ),
    ]


def audit_columns(schema: LogSchema | None, leaks: Sequence[Leak], keep: Sequence[str | int]) -> list[Finding]:
    """Return the findings on the context columns; leaks to ``keep`` are reported, but are not a problem."""
    findings = [_leaks([leak for leak in leaks if leak.knows != IDENTIFIER], keep)]
    if schema is not None:
        findings += [_identifiers([leak for leak in leaks if leak.knows == IDENTIFIER]), _merged(schema.columns)]
        findings += _numbers_as_text(schema.columns)
    return findings


def _leaks(leaks: Sequence[Leak], keep: Sequence[str | int]) -> Finding:
    if not leaks:
        return Finding("leaks", OK, 0.0, "No context column seems to leak what happened after the decision.")
    is_problem = any(leak.is_problem and leak.column not in keep for leak in leaks)
    listed = " ".join(leak.sentence for leak in leaks)
    return Finding(
        "leaks",
        PROBLEM if is_problem else NOTE,
        float(len(leaks)),
        f"{listed} Exclude (ignore) what was not known when the action was chosen; keep what was.",
    )


def _identifiers(leaks: Sequence[Leak]) -> Finding:
    listed = " ".join(leak.sentence for leak in leaks)
    text = f"{listed} Exclude it from the context (ignore), or name it as the group."
    return noted("identifiers", leaks, text, "No context column looks like an identifier.")


def _numbers_as_text(columns: Sequence[Column]) -> list[Finding]:
    """Return a note if columns are categories although nearly all their values are numbers; nothing otherwise."""
    said = {column.name: text for column in columns if (text := _number_text(column)) is not None}
    if not said:
        return []
    listed = "; ".join(f"{name!r} {text}" for name, text in list(said.items())[:8])
    return [
        Finding(
            "numbers_as_text",
            NOTE,
            float(len(said)),
            f"Numbers are read as categories, which lose their order: {listed}. Write them with a decimal point, and "
            "leave missing ones empty.",
        )
    ]


def _number_text(column: Column) -> str | None:
    """Return what shows that a column of categories was meant to be one of numbers; None if nothing does.

    Whole numbers may be codes; what stands for a missing value among them tells that they are not, and so do decimals.
    """
    if column.kind != "category" or len(column.categories) < MIN_NUMBERS:
        return None
    texts = [category for category in column.categories if isinstance(category, str)]
    others = [text for text in texts if not _NUMBER.fullmatch(text)]
    if len(texts) < len(column.categories) or len(others) > MAX_OTHERS * len(texts):
        return None
    decimals = [text for text in texts if not text.strip("+- ").isdigit() and text not in others]
    has_missing = any(text.strip().casefold() in _MISSING for text in others)
    if not has_missing and 2 * len(decimals) < len(texts):
        return None
    example = (decimals or [text for text in texts if text not in others])[0]
    return f"holds text such as {shortened(example)}" + (f", and {quoted(others, limit=3)}" if others else "")


def _merged(columns: tuple[Column, ...]) -> Finding:
    merged = [column for column in columns if column.n_merged]
    listed = ", ".join(
        f"{column.name!r} ({column.n_merged:,} of {column.n_merged + len(column.categories):,})"
        for column in merged[:8]
    )
    text = f"There are more categories than bins: the rarest became one, 'other', in {listed}."
    return noted("merged_categories", merged, text, "Every category has its own bin.")
