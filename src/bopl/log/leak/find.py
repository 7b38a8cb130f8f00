"""`find_leaks`: tests what every context column reveals; `warn_of_leaks` for those who train in Python."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from bopl._errors import LeakWarning
from bopl._interrupt import each_column
from bopl._typing import AnyArray, FloatArray, IntArray
from bopl.log.context import is_sparse
from bopl.log.duplicate import Repetition, find_shared_draws
from bopl.log.finding import PROBLEM, Finding
from bopl.log.leak.action_test import told_action, try_action
from bopl.log.leak.by_context import coarse_code, contrast_by_context
from bopl.log.leak.column_bins import MISSING, BinnedColumn, bin_column, constant_column
from bopl.log.leak.column_trial import Trial, make_trial
from bopl.log.leak.difference import differences
from bopl.log.leak.leak import IDENTIFIER, OUTCOME, REWARD, TIME, Leak
from bopl.log.leak.reward_test import RewardTest, try_reward
from bopl.log.leak.rules import (
    ERROR,
    Suspicion,
    judge_action,
    judge_identifier,
    judge_propensity,
    judge_reward,
    judge_time,
    judge_told_action,
    lags,
)
from bopl.log.leak.view import ColumnView, column_views, striking_columns
from bopl.log.propensity_audit import propensity_findings

if TYPE_CHECKING:
    from bopl.log.bandit_log import BanditLog

MAX_CELLS = 20_000_000  # samples times columns that are looked at: of wide logs fewer samples …
MIN_ROWS = 20_000  # … but no fewer than these
MIN_SAMPLES = 100  # below which nothing can be said
MAX_CONSTANT_Z = 4.0  # of what needs no column: beyond it the propensities themselves are wrong
MAX_ROWS = 50_000  # from which it is learned what actions earn in which context …
MAX_ENTRIES = 5_000_000  # … and samples times actions
MAX_BY_CONTEXT = 16  # columns that are blamed by it, one by one
MAX_TRAINING_ROWS = 30_000  # that are looked at before a training, so that it costs little beside it
_SEED, _TRAINING_SEED = 20_141, 20_143


def find_leaks(log: BanditLog, propensities: Sequence[Finding] | None = None) -> tuple[Leak, ...]:
    """Return the leaking context columns of a log, in their order; see `BanditLog.leaks`."""
    return find_leaks_and_draws(log, propensities)[0]


def find_leaks_and_draws(
    log: BanditLog, propensities: Sequence[Finding] | None = None
) -> tuple[tuple[Leak, ...], Repetition | None]:
    """Return the leaking columns, and what shows that one draw served all samples of a user, if something does.

    Then every column of users goes with the action that they drew and with what it earned. Columns that leak do so as
    well if each user counts once. ``propensities`` is what `propensity_findings` says of the log, where it is known.
    """
    leaks = _find_leaks(log, propensities)
    doubtful = {leak.column for leak in leaks if not leak.is_sure and leak.knows not in (IDENTIFIER, TIME)}
    views = [view for view in column_views(log) if view.name in doubtful]
    draws = find_shared_draws(log, {view.name: view.place for view in views}) if views else None
    if draws is not None:
        of_users = _find_leaks(draws.as_groups(log))
        if not doubtful & {leak.column for leak in of_users}:
            return of_users, draws
    return leaks, None


def _find_leaks(log: BanditLog, propensities: Sequence[Finding] | None = None) -> tuple[Leak, ...]:
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
    if asking.given.are_propensities_sound and trial.target.min() < trial.target.max():
        blamed = _ask_by_context(asking, log, [view for view, leak in zip(tried, found, strict=True) if leak is None])
        found = [leak or blamed.get(view.name) for view, leak in zip(tried, found, strict=True)]
    if not is_sparse(log.context):
        blamed = _ask_differences(asking, [view for view, leak in zip(tried, found, strict=True) if leak is None])
        found = [leak or blamed.get(view.name) for view, leak in zip(tried, found, strict=True)]
    return tuple(leak for leak in found if leak is not None)


def _ask_by_context(asking: _Asking, log: BanditLog, views: Sequence[ColumnView]) -> dict[str | int, Leak]:
    """Return which of the columns that nothing is known of go with what actions earn in one context or another.

    What actions earn is learned from these columns themselves. One that leaks spoils it for the others, but goes with
    it most: so one is blamed at a time, and the others are asked anew without it.
    """
    asking = asking.of_fewer(min(MAX_ROWS, MAX_ENTRIES // log.n_actions, MAX_CELLS // max(log.n_features, 1)))
    codes = {view.name: asking.codes(view) for view in views}
    blamed: dict[str | int, Leak] = {}
    left = list(views)
    while left and len(blamed) < MAX_BY_CONTEXT:
        contrast = contrast_by_context(asking.trial, [code for view in left for code in codes[view.name]])
        ask = partial(asking.ask_late, contrast=contrast)
        found = [one for one in each_column(ask, left, asking.trial.n_samples) if one is not None]
        if not found:
            break
        _, leak = max(found, key=lambda one: one[0])
        blamed[leak.column] = leak
        left = [view for view in left if view.name != leak.column]
    return blamed


def _ask_differences(asking: _Asking, views: Sequence[ColumnView]) -> dict[str | int, Leak]:
    """Return which of the columns that nothing is known of tell something by their difference to another one."""
    pairs = differences(asking.context, views, asking.trial)
    asking = asking.of_more(len(pairs))
    blamed: dict[str | int, Leak] = {}
    for pair, leak in zip(pairs, each_column(asking.ask, pairs, asking.trial.n_samples), strict=True):
        if leak is not None and not {pair.name, pair.minus.name} & blamed.keys():
            blamed[pair.name] = pair.named(leak)
    return blamed


def _rows(log: BanditLog) -> IntArray:
    n_used = max(MIN_ROWS, MAX_CELLS // max(log.n_features, 1))
    if is_sparse(log.context) or log.n_samples <= n_used:
        return np.arange(log.n_samples)
    return np.sort(np.random.default_rng(_SEED).permutation(log.n_samples)[:n_used])


def _suspicion(trial: Trial, log: BanditLog, propensities: Sequence[Finding] | None) -> Suspicion:
    """Return whether propensities pass where no column is looked at, and what they leave open."""
    if trial.inverse is None:
        return Suspicion(log.n_features, 0.0, are_propensities_sound=False)
    constant = try_action(trial, constant_column(trial.n_samples))
    is_sound = (
        abs(trial.z_of(np.ones(trial.n_samples))) < MAX_CONSTANT_Z
        and constant.log_capital < -np.log(ERROR)
        and all(finding.status != PROBLEM for finding in (propensities or propensity_findings(log)))
    )
    return Suspicion(
        log.n_features,
        float(np.log(trial.inverse).mean()),
        are_propensities_sound=is_sound,
        are_propensities_declared=log.propensity_source == "uniform",
        has_groups=log.group is not None,
        constant_gain=0.0 if is_sound else max(constant.gain, 0.0),
    )


class _Asking:
    """What is asked of every column."""

    def __init__(self, trial: Trial, log: BanditLog, rows: IntArray, context: AnyArray, given: Suspicion) -> None:
        self.trial, self.given, self.context = trial, given, context
        self._log, self._rows = log, rows
        self._constant_told = told_action(trial, constant_column(trial.n_samples))

    def of_fewer(self, n_rows: int) -> _Asking:
        """Return what is asked on so many of the samples, if there are more."""
        if n_rows >= len(self._rows):
            return self
        chosen = np.sort(np.random.default_rng(_SEED).permutation(len(self._rows))[:n_rows])
        rows = self._rows[chosen]
        return _Asking(make_trial(self._log, rows), self._log, rows, self.context[chosen], self.given)

    def of_more(self, n_columns: int) -> _Asking:
        """Return what is asked of so many columns more: of each of them more has to be shown."""
        more = copy(self)
        more.given = replace(self.given, n_columns=self.given.n_columns + n_columns)
        return more

    def ask(self, view: ColumnView) -> Leak | None:
        """Return the worst of what a column knows, or nothing."""
        values, lag = self._values(view)
        pairs = list(self._binned(view, values if lag is None else [*values, lag]))
        by_action = _worst([self._action(view, column) for column, _ in pairs])
        if by_action is not None and by_action.is_sure:  # what gives the action away goes with what it earned as well
            return by_action
        by_reward = _worst([self._reward(view, *pair) for pair in pairs])
        if (by_reward or by_action) and self.trial.inverse is not None and len(values) == 1:
            by_reward = judge_propensity(view.name, values[0], self.trial) or by_reward
        return by_reward or by_action or judge_time(view, lag) or self._identifier(view)

    def ask_late(self, view: ColumnView, contrast: FloatArray) -> tuple[float, Leak] | None:
        """Return how surely a column goes with what the drawn action earned by a contrast, if it does, and the leak."""
        found = []
        for column, values in self._binned(view, self._values(view)[0]):
            for test, knows in self._tests(view, column, values, contrast):
                leak = judge_reward(view.name, test, self.given, knows)
                if leak is not None and abs(test.honest_z) > self.given.honest_limit:  # the rest is asked already
                    found.append((abs(test.honest_z), leak))
        return max(found, key=lambda one: one[0], default=None)

    def codes(self, view: ColumnView) -> list[IntArray]:
        """Return a column in few bins."""
        return [coarse_code(part, is_category=view.is_category) for part in self._values(view)[0]]

    def _values(self, view: ColumnView) -> tuple[list[AnyArray], FloatArray | None]:
        """Return the values of a column, and how long after the decision they lie if they are times."""
        values = list(view.values(self.context))
        return values, lags(view, values, None if self._log.time is None else self._log.time[self._rows])

    def _binned(self, view: ColumnView, parts: Sequence[AnyArray]) -> Iterator[tuple[BinnedColumn, AnyArray]]:
        n_events = 0 if self.trial.event is None else int(self.trial.event.sum())
        for part in parts:
            column = bin_column(part, is_category=view.is_category, n_events=n_events)
            if np.ptp(column.code) > 0:
                yield column, part

    def _reward(self, view: ColumnView, column: BinnedColumn, values: AnyArray) -> Leak | None:
        if self.trial.target.min() == self.trial.target.max():
            return None
        tests = self._tests(view, column, values)
        return next((leak for test, knows in tests if (leak := judge_reward(view.name, test, self.given, knows))), None)

    def _tests(
        self, view: ColumnView, column: BinnedColumn, values: AnyArray, contrast: FloatArray | None = None
    ) -> Iterator[tuple[RewardTest, str]]:
        """Yield what a column tells of the reward, as it is and in two bins, and what it is called if that is late."""
        kind = "number" if view.column is None else view.column.kind
        is_outcome = kind in ("number", "flag") and column.common not in (-1, MISSING)
        knows = TIME if kind == "time" else OUTCOME if is_outcome else REWARD
        yield try_reward(self.trial, column, None if view.is_category else values, contrast), knows
        if (coarse := column.coarse()) is not None:
            yield try_reward(self.trial, coarse, contrast=contrast), knows

    def _identifier(self, view: ColumnView) -> Leak | None:
        if view.column is None or is_sparse(self._log.context):
            return None
        return judge_identifier(view.column, self._log.context[:, view.place[0]])

    def _action(self, view: ColumnView, column: BinnedColumn) -> Leak | None:
        if self.trial.n_actions < 2:
            return None
        if self.trial.inverse is None:
            return judge_told_action(view.name, told_action(self.trial, column), self._constant_told)
        coarse = column.coarse()
        tests = [try_action(self.trial, one) for one in (column, coarse) if one is not None]
        return _worst([judge_action(view.name, test, self.given, len(tests)) for test in tests])


def _worst(leaks: list[Leak | None]) -> Leak | None:
    """Return the first of the leaks that are sure, else the first."""
    found = [leak for leak in leaks if leak is not None]
    return next((leak for leak in found if leak.is_sure), found[0] if found else None)


def warn_of_leaks(log: BanditLog) -> None:
    """Warn if context columns of a log surely leak; called by the function that the user calls.

    Does nothing where the warning is ignored.
    """
    if _is_ignored():
        return
    if log.n_samples > MAX_TRAINING_ROWS:
        log = log.subset(np.sort(np.random.default_rng(_TRAINING_SEED).permutation(log.n_samples)[:MAX_TRAINING_ROWS]))
    sure = [leak for leak in find_leaks(log) if leak.is_sure]
    if sure:
        columns = [leak.column for leak in sure]
        warnings.warn(
            f"{' '.join(leak.sentence for leak in sure)} Nothing useful can be learned from it: train "
            f"on log.without_columns({columns!r}). If it was known when the action was chosen, filter LeakWarning.",
            LeakWarning,
            stacklevel=3,
        )


def _is_ignored() -> bool:
    """Return whether a filter lets no such warning through, wherever it comes from."""
    for action, message, category, module, line in warnings.filters:
        if issubclass(LeakWarning, category):  # the first filter that matches decides
            return action == "ignore" and message is None and module is None and line == 0
    return False
