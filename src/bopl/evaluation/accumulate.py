"""`ValueAccumulator`: estimates taken over a log part by part, in bounded memory, and merged over shards."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np

from bopl._errors import UsageError
from bopl._settings import check_number
from bopl._typing import FloatArray, IntArray
from bopl.evaluation.answer import Answers
from bopl.evaluation.books import Books
from bopl.evaluation.bootstrap import PoissonBootstrap
from bopl.evaluation.estimator import Estimator
from bopl.evaluation.interval import Interval, get_interval
from bopl.evaluation.ledger import Block
from bopl.evaluation.question import ask
from bopl.evaluation.registry import get_estimators
from bopl.evaluation.result import Evaluation
from bopl.evaluation.sources import Sources, check_all_actions, named_policies, read_logging_policy
from bopl.evaluation.terms import Pilot, Terms
from bopl.evaluation.unit import in_unit, reward_unit
from bopl.log import BanditLog
from bopl.log.context import quoted
from bopl.log.policy_prob import read_policy
from bopl.reward.prediction import predict_rewards

PILOT_BLOCKS = 2  # blocks of the log from which settings left to the data are chosen
MIN_TAIL_REPLICATES = 5.0  # bootstrap replicates beyond an end of an interval; of fewer its place is chance


class ValueAccumulator:
    """Evaluates policies over the parts of a log, one after another or on several machines.

    Memory does not grow with the log, except with intervals that need every sample (``"log_smoothing"``, ``"betting"``:
    16 bytes a sample and policy). Shards that were accumulated apart are merged to the same result, but for rounding.

    Parameters
    ----------
    policies : policy, or mapping of name to policy
        Objects with ``predict_proba``; parts given to `add` may bring arrays of their own.
    estimators, interval, confidence, min_uplift, guards, against, head_to_head, simultaneous, n_replicates, \
    reward_range, min_propensity, random_state, n_jobs
        As for `bopl.evaluate`; ``against`` is the name of a policy. Guarded rewards and segments are those of the parts
        (``other_rewards``, ``segment``).
    reward_model : fitted model, optional
        For estimators that need one: it must have been fitted on other samples than these.
    logging_policy : object with ``predict_proba``, optional
        The policy that wrote the log: its probabilities of all actions sharpen the uplift of estimators with a reward
        model.
    n_samples : int, optional
        How many samples there will be: settings left to the data are chosen from the first part, and ``clipped_ips``
        cuts weights at ``sqrt(n_samples)``. By default the length of the first part.

    Examples
    --------
    >>> import numpy as np, bopl
    >>> rng = np.random.default_rng(0)
    >>> log = bopl.BanditLog(np.ones((600, 1)), rng.integers(2, size=600), rng.random(600), np.full(600, 0.5))
    >>> total = bopl.ValueAccumulator({"first": None}, estimators="ips")
    >>> for rows in (slice(0, 200), slice(200, 600)):
    ...     part = log.subset(rows)
    ...     total.add(part, policies={"first": (part.action_idx == 0).astype(float)})
    >>> whole = bopl.evaluate(log, {"first": (log.action_idx == 0).astype(float)}, estimators="ips")
    >>> bool(np.isclose(total.result().row()["value"], whole.row()["value"], rtol=1e-12))
    True
    """

    def __init__(
        self,
        policies: object,
        *,
        estimators: object = None,
        interval: str = "normal",
        confidence: float = 0.95,
        min_uplift: object = 0.0,
        guards: object = (),
        against: str | None = None,
        head_to_head: bool = False,
        simultaneous: bool = True,
        reward_model: object = None,
        logging_policy: object = None,
        n_replicates: int = 1000,
        reward_range: tuple[float, float] | None = None,
        min_propensity: float | None = None,
        random_state: int = 0,
        n_jobs: int | None = None,
        n_samples: int | None = None,
    ) -> None:
        check_number("random_state", random_state, low=0, integer=True)
        _check_range(reward_range)
        self.policies = named_policies(policies)
        self.interval: Interval = get_interval(interval, confidence)
        self.question = ask(
            list(self.policies),
            min_uplift=min_uplift,
            guards=guards,
            against=against,
            head_to_head=head_to_head,
            simultaneous=simultaneous,
        )
        self.question.check(self.interval)
        self.estimators = get_estimators(estimators, self.interval, has_reward_model=reward_model is not None)
        self.reward_model, self.logging_policy = reward_model, logging_policy
        self.reward_range, self.min_propensity = reward_range, min_propensity
        self.n_replicates, self.random_state, self.n_jobs = n_replicates, random_state, n_jobs
        self.n_samples = n_samples
        self.notes: list[str] = []
        self._clear()

    def _clear(self) -> None:
        """Forget all samples."""
        self.n_added = 0
        self.source: str | None = None
        self._knows_logging_policy = False
        self._books: Books | None = None
        self._bootstrap: PoissonBootstrap | None = None
        self._least_propensity = np.inf
        self._actions: list[Any] = []
        self._rows: list[tuple[int, int]] = []  # of every part: its first row, and the one after its last

    def add(
        self,
        log: BanditLog,
        *,
        policies: Mapping[str, object] | None = None,
        first_row: int | None = None,
        group: object = None,
    ) -> None:
        """Add a part of the log.

        Parameters
        ----------
        log : BanditLog
            All parts with the same ``actions``.
        policies : mapping of name to policy, optional
            Probabilities on this part, where they are arrays.
        first_row : int, optional
            Number of the part's first sample in the whole log, by which the bootstrap draws; by default the parts
            follow each other. Shards that are to be merged must have other rows.
        group : array of int of shape (n_samples,), optional
            Number of each sample's group in the whole log, from 0: the same number is the same group in every part. A
            log numbers its groups by itself, which serves only if all parts are subsets of one log.
        """
        self.add_from(self.read(log, policies, group), first_row=first_row)

    def read(self, log: BanditLog, policies: Mapping[str, object] | None = None, group: object = None) -> Sources:
        """Return checked readers of everything that a part needs."""
        log.require_propensity()
        given = {**self.policies, **({} if policies is None else named_policies(policies))}
        foreign = [name for name in given if name not in self.policies]
        if foreign:
            raise ValueError(
                f"the part brings {quoted(foreign)}, which {'is' if len(foreign) == 1 else 'are'} no policy of the "
                f"accumulator; its policies are {quoted(list(self.policies))}."
            )
        readers = tuple(read_policy(policy, log, f"policy {name!r}") for name, policy in given.items())
        rewards = None
        if self.needs_reward_model:
            check_all_actions(readers, self.estimators)
            if self.reward_model is None:
                raise ValueError("estimators with a reward model need one that was fitted on other samples here.")
            rewards = predict_rewards(self.reward_model, log, n_folds=None)
        logging = read_logging_policy(self.logging_policy, log)
        return Sources(log, readers, rewards, logging, log.group if group is None else _check_group(group, log))

    @property
    def needs_reward_model(self) -> bool:
        """Whether an estimator needs a reward model."""
        return any(estimator.needs_model for estimator in self.estimators)

    @property
    def tuned_estimators(self) -> list[list[Estimator]]:
        """The estimators of every policy, with the settings chosen that are left to the data."""
        assert self._books is not None
        return [list(totals.estimators) for totals in self._books.main.totals]

    @property
    def reward_limits(self) -> tuple[float, float]:
        """The range of the rewards: given, or taken from those added so far."""
        return self._range()

    def add_from(self, sources: Sources, *, first_row: int | None = None, is_whole: bool = False) -> None:
        """Add a part from readers; ``is_whole`` if it is the whole log."""
        self.take_in(self.summed(sources, first_row=first_row, is_whole=is_whole))

    def summed(self, sources: Sources, *, first_row: int | None = None, is_whole: bool = False) -> ValueAccumulator:
        """Return the sums of a part, with the units and settings that earlier parts chose; nothing is added here."""
        self._check_part(sources)
        first = self.n_added if first_row is None else first_row
        self._check_rows([(first, first + sources.log.n_samples)])
        unit = reward_unit(sources.log.reward) if self._books is None else self._books.main.unit
        sources = replace(sources, unit=unit)
        books = self._new_books(sources, is_whole) if self._books is None else self._books.empty()
        part = copy(self)  # summed up apart: a part that fails on the way leaves nothing behind
        part._clear()
        part._fill(sources, first, books)
        return part

    def take_in(self, part: ValueAccumulator) -> None:
        """Add the sums of a part that `summed` has returned, here or in another process."""
        if self.source is None:
            vars(self).update(vars(part))
        else:
            self._check_rows(part._rows)
            self._join(part)

    def emptied(self) -> ValueAccumulator:
        """Return an accumulator without samples that has the units and settings chosen here, to be sent elsewhere."""
        other = copy(self)
        if self._books is not None:
            other._books = self._books.empty()
        other.source, other._bootstrap, other._rows = None, None, []
        return other

    def _check_part(self, sources: Sources) -> None:
        """Raise if a part does not go with the interval or with the parts before it."""
        log = sources.log
        for estimator in self.estimators:
            self.interval.check(estimator, has_group=sources.group is not None, source=log.propensity_source)
        if self.source is None:
            return
        if self._actions != log.actions.tolist() or self.source != log.propensity_source:
            raise ValueError("all parts of a log must have the same actions and the same source of propensities.")
        if self._has_groups != (sources.group is not None):
            raise ValueError("either all parts of a log have groups, or none has.")
        assert self._books is not None
        if self._books.has_segments != (log.segment is not None):
            raise ValueError("either all parts of a log have segments, or none has.")

    def _new_books(self, sources: Sources, is_whole: bool) -> Books:
        """Return empty books, with units and settings chosen from the first part."""
        if sources.log.segment is not None and self.interval.is_bound:
            raise UsageError(f"interval={self.interval.name!r} has no segments; use 'normal' or 'bootstrap'.")
        n_samples = sources.log.n_samples if self.n_samples is None else self.n_samples
        return Books(
            self.question,
            self._tuned(sources, is_whole),
            sources.log,
            unit=sources.unit,
            is_whole=is_whole,
            n_samples=n_samples,
        )

    def _tuned(self, sources: Sources, is_whole: bool) -> list[list[Estimator]]:
        """Return the estimators of every policy, with the settings chosen that are left to the data."""
        n_samples = sources.log.n_samples if self.n_samples is None else self.n_samples
        pilots = [self._pilot(sources, position, n_samples) for position in range(len(self.policies))]
        return [
            [
                estimator if estimator.is_tuned_for_rounding and not is_whole else estimator.tuned(pilot)
                for estimator in self.estimators
            ]
            for pilot in pilots
        ]

    def _fill(self, sources: Sources, first_row: int, books: Books) -> None:
        """Sum up a part."""
        log = sources.log
        self.source, self._actions, self.n_added = log.propensity_source, log.actions.tolist(), log.n_samples
        self._knows_logging_policy = sources.logging is not None
        self._least_propensity = float(log.propensity.min())
        self._rows = [(first_row, first_row + log.n_samples)]
        self._books = books
        for reader, totals in zip(sources.readers, books.main.totals, strict=True):
            totals.trained.add(*reader.fitted)
        for rows in sources.blocks():
            self._add_block(sources, rows, first_row + rows.start)
        self._range()  # raises if the part does not lie in what was promised of the log
        self._max_weight()

    def _pilot(self, sources: Sources, position: int, n_samples: int) -> Pilot:
        """Return blocks spread over the log; one row if no estimator looks at them."""
        if not any(estimator.needs_pilot for estimator in self.estimators):
            return Pilot(Terms(np.ones(1), in_unit(sources.log.reward[:1], sources.unit)), n_samples)
        blocks = sources.blocks()
        chosen = blocks if len(blocks) <= PILOT_BLOCKS else blocks[:: -(-len(blocks) // PILOT_BLOCKS)]
        return sources.pilot(chosen, position, n_samples)

    def _add_block(self, sources: Sources, rows: slice, first_row: int) -> None:
        assert self._books is not None
        group = None if sources.group is None else sources.group[rows]
        reward_hat = None if sources.rewards is None else sources.rewards.block(rows)
        logging_prob = sources.logging_prob(rows)
        blocks = [reader.block(rows) for reader in sources.readers]
        block = Block(
            [sources.terms(rows, one, reward_hat, logging_prob) for one in blocks],
            [one.action_prob for one in blocks],
            sources.log.action_idx[rows],
            sources.impossible(rows, logging_prob),
            group,
        )
        moments = self._books.add(block, sources.log, rows, keep=self.interval.needs_samples)
        if self.interval.needs_replicates:
            self._resample(moments, first_row, group)

    def _resample(self, moments: FloatArray, first_row: int, group: Any) -> None:
        if self._bootstrap is None:
            self._bootstrap = PoissonBootstrap(moments.shape[1], self.n_replicates, self.random_state, self.n_jobs)
        self._bootstrap.add(moments, first_row=first_row, group=group)

    @property
    def _has_groups(self) -> bool:
        return self._books is not None and self._books.main.has_groups

    def _check_rows(self, rows: list[tuple[int, int]]) -> None:
        """Raise if rows were added before: the bootstrap would draw two samples of one number alike."""
        if self.interval.needs_replicates and not self._has_groups:
            for start, stop in rows:
                if any(start < other_stop and other_start < stop for other_start, other_stop in self._rows):
                    raise ValueError(
                        f"rows {start} to {stop - 1} were added before, and the bootstrap draws samples by their "
                        "number: pass first_row, the number of a part's first sample in the whole log, to add."
                    )

    def merge(self, other: ValueAccumulator) -> None:
        """Add what another accumulator with the same settings has seen of other rows."""
        if other.source is None:
            return
        if self.source is None:
            raise ValueError("merge into an accumulator that has seen samples: swap the two.")
        if self._settings() != other._settings():
            raise ValueError(
                "the shards differ in their policies, actions, interval, confidence, min_uplift, guards, comparisons, "
                "reward_range, min_propensity, replicates, random_state, groups, segments, in the size of their "
                "rewards, in the source of their propensities or in whether the logging policy is known."
            )
        if self._chosen() != other._chosen():
            raise ValueError(
                "the shards chose different settings from their data; give estimators with settings of your own, such "
                "as ClippedIPS(max_importance_weight=10), to merge them."
            )
        self._check_rows(other._rows)
        self._join(other)

    def _join(self, other: ValueAccumulator) -> None:
        """Add the sums of another accumulator that is known to go with this one."""
        assert self._books is not None
        assert other._books is not None
        self._books.merge(other._books)
        if self._bootstrap is not None and other._bootstrap is not None:
            self._bootstrap.merge(other._bootstrap)
        self.n_added += other.n_added
        self._rows += other._rows
        self._least_propensity = min(self._least_propensity, other._least_propensity)

    def _settings(self) -> tuple[Any, ...]:
        """Return what two shards must have in common."""
        assert self._books is not None
        draws = (self.n_replicates, self.random_state) if self.interval.needs_replicates else ()
        limits = (self.reward_range, self.min_propensity, self._books.units)
        log = (self._actions, self.source, self._has_groups, self._books.has_segments, self._knows_logging_policy)
        return self.question, log, self.interval, limits, draws

    def _chosen(self) -> list[list[Estimator]]:
        """Return the estimators of every ledger with their settings."""
        assert self._books is not None
        ledgers = (self._books.main, *self._books.guards.values())
        return [totals.estimators for ledger in ledgers for totals in ledger.totals]

    # -- Results --------------------------------------------------------------------------------------------------

    def result(self) -> Evaluation:
        """Return the evaluation of all samples added so far."""
        if self.source is None:
            raise ValueError("nothing has been added yet: there is no result.")
        assert self._books is not None
        self._books.check_units()
        limits, max_weight = self._range(), self._max_weight()
        means = None if self._bootstrap is None else self._bootstrap.means()
        answers = Answers(
            self._books, self.interval, limits, max_weight, self.source, self._knows_logging_policy, means
        )
        rows, guards, comparisons = answers.rows(), answers.guards(), answers.comparisons()
        return Evaluation(
            rows,
            self.interval.name,
            self.interval.confidence,
            self._books.main.mean,
            (*self.notes, *self._setting_notes(), *self._range_notes(limits, max_weight), *self._level_notes()),
            decisions=answers.decisions(rows, guards, comparisons),
            guards=guards,
            segments=answers.segments(),
            comparisons=comparisons,
            estimators=self.estimators,
        )

    def _range(self) -> tuple[float, float]:
        """Return the range of rewards: given, [0, 1] if all lie there, else what was seen."""
        assert self._books is not None
        reward, unit = self._books.main.reward, self._books.main.unit
        low, high = reward.low * unit, reward.high * unit
        if self.reward_range is None:
            return (0.0, 1.0) if low >= 0.0 and high <= 1.0 else (low, high)
        if low < self.reward_range[0] or high > self.reward_range[1]:
            raise ValueError(
                f"reward_range={self.reward_range} does not hold the rewards of the log, which lie in [{low:g}, "
                f"{high:g}]."
            )
        return self.reward_range

    def _max_weight(self) -> float:
        least = self._least_propensity
        if self.min_propensity is None:
            return 1.0 / least
        if not 0.0 < self.min_propensity <= least * (1.0 + 1e-9):
            raise ValueError(
                f"min_propensity={self.min_propensity:g} must be positive and at most the smallest propensity of the "
                f"log, {least:g}."
            )
        return 1.0 / self.min_propensity

    def _setting_notes(self) -> list[str]:
        assert self._books is not None
        notes = []
        for totals in self._books.main.totals:
            for given, tuned in zip(self.estimators, totals.estimators, strict=True):
                if given != tuned and not tuned.is_tuned_for_rounding:
                    setting, value = next((name, one) for name, one in vars(tuned).items() if vars(given)[name] != one)
                    notes.append(f"{tuned.name} of {totals.name!r}: {setting} = {value:.4g}, chosen from the log.")
        return notes

    def _range_notes(self, limits: tuple[float, float], max_weight: float) -> list[str]:
        if not self.interval.is_bound:
            return []
        origin = "given" if self.reward_range is not None else "assumed, from the rewards seen"
        notes = [f"The bounds hold for rewards in [{limits[0]:g}, {limits[1]:g}] ({origin})."]
        if self.interval.needs_min_propensity:
            origin = "given" if self.min_propensity is not None else "assumed: the smallest propensity seen"
            notes.append(f"They hold for propensities of at least {1.0 / max_weight:.4g} ({origin}).")
        return notes

    def _level_notes(self) -> list[str]:
        """Return at which level several answers hold together."""
        assert self._books is not None
        question, confidence = self.question, self.interval.confidence
        level = question.confidence(confidence, question.n_judged)
        notes = []
        if question.n_judged > 1 and question.is_simultaneous:
            notes.append(
                f"Verdicts and intervals of the uplift hold for all {question.n_judged} policies together: each is at "
                f"{100.0 * level:.6g}%."
            )
        if self.interval.needs_replicates:
            if not question.is_plain or self._books.has_segments:
                notes.append("Intervals of guards, segments and comparisons are normal ones, not of the bootstrap.")
            least = MIN_TAIL_REPLICATES / ((1.0 - level) / 2.0)
            if self.n_replicates < least:
                notes.append(
                    f"{self.n_replicates} replicates are few for intervals at {100.0 * level:.6g}%: take n_replicates "
                    f"of at least {np.ceil(least):.0f}."
                )
        return notes


def _check_range(reward_range: Any) -> None:
    if reward_range is None:
        return
    low, high = reward_range
    if not (np.isfinite(low) and np.isfinite(high) and low <= high):
        raise ValueError(f"reward_range must be two finite numbers, the smaller one first; got {reward_range}.")


def _check_group(group: object, log: BanditLog) -> IntArray:
    numbers = np.asarray(group)
    if numbers.shape != (log.n_samples,) or numbers.dtype.kind not in "iu" or numbers.min() < 0:
        raise ValueError(
            f"group must hold {log.n_samples} whole numbers from 0, one per sample: the number of its group in the "
            "whole log."
        )
    return numbers.astype(np.int64)
