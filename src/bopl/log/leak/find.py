"""`find_leaks`: tests what every context column reveals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from bopl._typing import AnyArray, IntArray
from bopl.log.by_column import each_column
from bopl.log.context import is_sparse
from bopl.log.finding import PROBLEM, Finding
from bopl.log.leak.action_test import told_action, try_action
from bopl.log.leak.column_bins import MISSING, BinnedColumn, bin_column, constant_column
from bopl.log.leak.column_trial import Trial, make_trial
from bopl.log.leak.identifier import judge_identifier
from bopl.log.leak.late import judge_time, lags
from bopl.log.leak.leak import OUTCOME, REWARD, TIME, Leak
from bopl.log.leak.reward_test import try_reward
from bopl.log.leak.rules import ERROR, Suspicion, judge_action, judge_reward, judge_told_action
from bopl.log.leak.view import ColumnView, column_views, striking_columns
from bopl.log.propensity_audit import propensity_findings

if TYPE_CHECKING:
    from bopl.log.bandit_log import BanditLog

MAX_CELLS = 20_000_000  # samples times columns that are looked at: of wide logs fewer samples …
MIN_ROWS = 20_000  # … but no fewer than these
MIN_SAMPLES = 100  # below which nothing can be said
MAX_CONSTANT_Z = 4.0  # of what needs no column: beyond it the propensities themselves are wrong
_SEED = 20_141


def find_leaks(log: BanditLog, propensities: Sequence[Finding] | None = None) -> tuple[Leak, ...]:
    """Return the leaking context columns of a log, in their order; see `BanditLog.leaks`.

    ``propensities`` is what `propensity_findings` says of the log, where that is known.
    """
    views = column_views(log)
    if log.n_samples < MIN_SAMPLES:
        return ()
    rows = _rows(log)
    trial = make_trial(log, rows)
    context = log.context[rows]
    if is_sparse(log.context):
        striking = set(striking_columns(context, trial).tolist())
        tried = [view for view in views if striking & set(view.place.tolist())]
        context = context.tocsc()
    else:
        tried = views
    asking = _Asking(trial, log, rows, context, _suspicion(trial, log, propensities))
    found = each_column(asking.ask, tried, len(rows))
    return tuple(leak for leak in found if leak is not None)


def _rows(log: BanditLog) -> IntArray:
    n_used = max(MIN_ROWS, MAX_CELLS // max(log.n_features, 1))
    if is_sparse(log.context) or log.n_samples <= n_used:
        return np.arange(log.n_samples)
    return np.sort(np.random.default_rng(_SEED).permutation(log.n_samples)[:n_used])


def _suspicion(trial: Trial, log: BanditLog, propensities: Sequence[Finding] | None) -> Suspicion:
    """Return whether propensities pass where no column is looked at, and what they leave open."""
    if trial.inverse is None:
        return Suspicion(log.n_features, 0.0, are_propensities_sound=False)
    is_sound = (
        abs(trial.z_of(np.ones(trial.n_samples))) < MAX_CONSTANT_Z
        and try_action(trial, constant_column(trial.n_samples)).log_capital < -np.log(ERROR)
        and all(finding.status != PROBLEM for finding in (propensities or propensity_findings(log)))
    )
    return Suspicion(
        log.n_features,
        float(np.log(trial.inverse).mean()),
        are_propensities_sound=is_sound,
        are_propensities_declared=log.propensity_source == "uniform",
    )


class _Asking:
    """What is asked of every column."""

    def __init__(self, trial: Trial, log: BanditLog, rows: IntArray, context: AnyArray, given: Suspicion) -> None:
        self.trial, self.given = trial, given
        self._log, self._rows, self._context = log, rows, context
        self._constant_told = told_action(trial, constant_column(trial.n_samples))

    def ask(self, view: ColumnView) -> Leak | None:
        """Return the worst of what a column knows, or nothing."""
        values = list(view.values(self._context))
        lag = lags(view, values, None if self._log.time is None else self._log.time[self._rows])
        parts = values if lag is None else [*values, lag]
        n_events = 0 if self.trial.event is None else int(self.trial.event.sum())
        binned = ((bin_column(part, is_category=view.is_category, n_events=n_events), part) for part in parts)
        pairs = [(column, part) for column, part in binned if np.ptp(column.code) > 0]
        by_action = _worst([self._action(view, column) for column, _ in pairs])
        if by_action is not None and by_action.is_sure:  # what gives the action away goes with what it earned as well
            return by_action
        by_reward = _worst([self._reward(view, *pair) for pair in pairs])
        return by_reward or by_action or judge_time(view, lag) or self._identifier(view)

    def _identifier(self, view: ColumnView) -> Leak | None:
        if view.column is None or is_sparse(self._log.context):
            return None
        return judge_identifier(view.column, self._log.context[:, view.place[0]])

    def _reward(self, view: ColumnView, column: BinnedColumn, values: AnyArray) -> Leak | None:
        if self.trial.target.min() == self.trial.target.max():
            return None
        kind = "number" if view.column is None else view.column.kind
        is_outcome = kind in ("number", "flag") and column.common not in (-1, MISSING)
        knows = TIME if kind == "time" else OUTCOME if is_outcome else REWARD
        test = try_reward(self.trial, column, None if view.is_category else values)
        leak = judge_reward(view.name, test, self.given, knows)
        coarse = column.coarse()
        if leak is not None or coarse is None:
            return leak
        return judge_reward(view.name, try_reward(self.trial, coarse), self.given, knows)

    def _action(self, view: ColumnView, column: BinnedColumn) -> Leak | None:
        if self.trial.n_actions < 2:
            return None
        if self.trial.inverse is None:
            return judge_told_action(view.name, told_action(self.trial, column), self._constant_told)
        return judge_action(view.name, try_action(self.trial, column), self.given)


def _worst(leaks: list[Leak | None]) -> Leak | None:
    """Return the first of the leaks that are sure, else the first."""
    found = [leak for leak in leaks if leak is not None]
    return next((leak for leak in found if leak.is_sure), found[0] if found else None)
