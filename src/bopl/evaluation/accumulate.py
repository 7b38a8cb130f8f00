"""`ValueAccumulator`: estimates taken over a log part by part, in bounded memory, and merged over shards."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from typing import Any

import numpy as np

from bopl._settings import check_number
from bopl._typing import FloatArray, IntArray
from bopl.evaluation.bootstrap import PoissonBootstrap
from bopl.evaluation.diagnosis import RewardTotals
from bopl.evaluation.estimator import SNIPS, Estimator, Need
from bopl.evaluation.interval import Evidence, Interval, get_interval
from bopl.evaluation.registry import get_estimators
from bopl.evaluation.result import Evaluation
from bopl.evaluation.sources import Sources, check_all_actions, named_policies, read_logging_policy
from bopl.evaluation.terms import Pilot, Terms
from bopl.evaluation.totals import PolicyTotals
from bopl.evaluation.verdict import judge
from bopl.log import BanditLog
from bopl.log.context import quoted
from bopl.log.policy_prob import read_policy
from bopl.reward.prediction import predict_rewards

PILOT_BLOCKS = 2  # blocks of the log from which settings left to the data are chosen


class ValueAccumulator:
    """Evaluates policies over the parts of a log, one after another or on several machines.

    Memory does not grow with the log, except with intervals that need every sample (``"log_smoothing"``, ``"betting"``:
    16 bytes a sample and policy). Shards that were accumulated apart are merged to the same result, but for rounding.

    Parameters
    ----------
    policies : policy, or mapping of name to policy
        Objects with ``predict_proba``; parts given to `add` may bring arrays of their own.
    estimators, interval, confidence, n_replicates, reward_range, min_propensity, random_state, n_jobs
        As for `bopl.evaluate`.
    reward_model : fitted model, optional
        For estimators that need one: it must have been fitted on other samples than these.
    logging_policy : object with ``predict_proba``, optional
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
        self._totals: list[PolicyTotals] = []
        self._bootstrap: PoissonBootstrap | None = None
        self._reward = RewardTotals()
        self._least_propensity = np.inf
        self._actions: list[Any] = []
        self._action_count = np.zeros(0)
        self._rows: list[tuple[int, int]] = []  # of every part: its first row, and the one after its last
        self._kept_reward: list[FloatArray] = []

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
        return any(Need.REWARD_MODEL in estimator.needs for estimator in self.estimators)

    @property
    def tuned_estimators(self) -> list[list[Estimator]]:
        """The estimators of every policy, with the settings chosen that are left to the data."""
        return [list(totals.estimators) for totals in self._totals]

    @property
    def reward_limits(self) -> tuple[float, float]:
        """The range of the rewards: given, or taken from those added so far."""
        return self._range()

    def add_from(self, sources: Sources, *, first_row: int | None = None, is_whole: bool = False) -> None:
        """Add a part from readers; ``is_whole`` if it is the whole log."""
        self._check_part(sources)
        first = self.n_added if first_row is None else first_row
        self._check_rows([(first, first + sources.log.n_samples)])
        part = copy(self)  # summed up apart: a part that fails on the way leaves nothing behind
        part._clear()
        part._fill(sources, first, [totals.estimators for totals in self._totals] or self._tuned(sources, is_whole))
        if self.source is None:
            vars(self).update(vars(part))
        else:
            self._join(part)

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

    def _tuned(self, sources: Sources, is_whole: bool) -> list[list[Estimator]]:
        """Return the estimators of every policy, with the settings chosen that are left to the data."""
        n_samples = sources.log.n_samples if self.n_samples is None else self.n_samples
        pilots = [self._pilot(sources, position, n_samples) for position in range(len(self.policies))]
        return [
            [
                estimator if isinstance(estimator, SNIPS) and not is_whole else estimator.tuned(pilot)
                for estimator in self.estimators
            ]
            for pilot in pilots
        ]

    def _fill(self, sources: Sources, first_row: int, estimators: list[list[Estimator]]) -> None:
        """Sum up a part."""
        log = sources.log
        self.source, self._actions, self.n_added = log.propensity_source, log.actions.tolist(), log.n_samples
        self._knows_logging_policy = sources.logging is not None
        self._action_count = np.zeros(log.n_actions)
        self._least_propensity = float(log.propensity.min())
        self._rows = [(first_row, first_row + log.n_samples)]
        self._totals = [
            PolicyTotals(name, tuned, log.n_actions) for name, tuned in zip(self.policies, estimators, strict=True)
        ]
        for reader, totals in zip(sources.readers, self._totals, strict=True):
            totals.trained.add(reader.policy, log)
        for rows in sources.blocks():
            self._add_block(sources, rows, first_row + rows.start)
        self._range()  # raises if the part does not lie in what was promised of the log
        self._max_weight()

    def _pilot(self, sources: Sources, position: int, n_samples: int) -> Pilot:
        """Return blocks spread over the log; one row if no estimator looks at them."""
        if not any(estimator.needs_pilot for estimator in self.estimators):
            return Pilot(Terms(np.ones(1), sources.log.reward[:1]), n_samples)
        blocks = sources.blocks()
        chosen = blocks if len(blocks) <= PILOT_BLOCKS else blocks[:: -(-len(blocks) // PILOT_BLOCKS)]
        return sources.pilot(chosen, position, n_samples)

    def _add_block(self, sources: Sources, rows: slice, first_row: int) -> None:
        log = sources.log
        group = None if sources.group is None else sources.group[rows]
        reward_hat = None if sources.rewards is None else sources.rewards.block(rows)
        logging_prob = sources.logging_prob(rows)
        impossible = sources.impossible(rows, logging_prob)
        keep, columns = self.interval.needs_samples, []
        for reader, totals in zip(sources.readers, self._totals, strict=True):
            block = reader.block(rows)
            terms = sources.terms(rows, block, reward_hat, logging_prob)
            columns.append(totals.add(terms, group, keep=keep))
            totals.weights.add(terms.importance_weight, terms.reward, block.action_prob, impossible, group)
        self._action_count += np.bincount(log.action_idx[rows], minlength=log.n_actions)
        self._reward.add(log.reward[rows])
        if keep:
            self._kept_reward.append(log.reward[rows])
        if self.interval.name == "bootstrap":
            self._resample(np.hstack(columns), first_row, group)

    def _resample(self, moments: FloatArray, first_row: int, group: Any) -> None:
        if self._bootstrap is None:
            self._bootstrap = PoissonBootstrap(moments.shape[1], self.n_replicates, self.random_state, self.n_jobs)
        self._bootstrap.add(moments, first_row=first_row, group=group)

    @property
    def _has_groups(self) -> bool:
        return bool(self._totals and self._totals[0].groups)

    def _check_rows(self, rows: list[tuple[int, int]]) -> None:
        """Raise if rows were added before: the bootstrap would draw two samples of one number alike."""
        if self.interval.name == "bootstrap" and not self._has_groups:
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
                "the shards differ in their policies, actions, interval, confidence, reward_range, min_propensity, "
                "replicates, random_state, groups, in the source of their propensities or in whether the logging "
                "policy is known."
            )
        if [totals.estimators for totals in self._totals] != [totals.estimators for totals in other._totals]:
            raise ValueError(
                "the shards chose different settings from their data; give estimators with settings of your own, such "
                "as ClippedIPS(max_importance_weight=10), to merge them."
            )
        self._check_rows(other._rows)
        self._join(other)

    def _join(self, other: ValueAccumulator) -> None:
        """Add the sums of another accumulator that is known to go with this one."""
        for mine, yours in zip(self._totals, other._totals, strict=True):
            mine.merge(yours)
        if self._bootstrap is not None and other._bootstrap is not None:
            self._bootstrap.merge(other._bootstrap)
        self.n_added += other.n_added
        self._rows += other._rows
        self._reward.merge(other._reward)
        self._least_propensity = min(self._least_propensity, other._least_propensity)
        self._action_count = self._action_count + other._action_count
        self._kept_reward += other._kept_reward

    def _settings(self) -> tuple[Any, ...]:
        """Return what two shards must have in common."""
        names = [totals.name for totals in self._totals]
        draws = (self.n_replicates, self.random_state) if self.interval.name == "bootstrap" else ()
        limits = (self.reward_range, self.min_propensity)
        log = (self._actions, self.source, self._has_groups, self._knows_logging_policy)
        return names, log, self.interval, limits, draws

    # -- Results --------------------------------------------------------------------------------------------------

    def result(self) -> Evaluation:
        """Return the evaluation of all samples added so far."""
        if self.source is None:
            raise ValueError("nothing has been added yet: there is no result.")
        limits, max_weight = self._range(), self._max_weight()
        means = None if self._bootstrap is None else self._bootstrap.means()
        rows, start = [], 0
        for totals in self._totals:
            for position, estimator in enumerate(totals.estimators):
                stop = start + len(totals.moments[position].mean)
                replicates = None if means is None else means[:, start:stop]
                evidence = self._evidence(totals, position, estimator, replicates, limits, max_weight)
                rows.append(self._row(totals, position, evidence))
                start = stop
        return Evaluation(
            tuple(rows),
            self.interval.name,
            self.interval.confidence,
            self._reward.mean,
            (*self.notes, *self._setting_notes(), *self._range_notes(limits, max_weight)),
        )

    def _evidence(
        self,
        totals: PolicyTotals,
        position: int,
        estimator: Estimator,
        replicates: FloatArray | None,
        limits: tuple[float, float],
        max_weight: float,
    ) -> Evidence:
        keep = self.interval.needs_samples
        return Evidence(
            estimator=estimator,
            moments=totals.moments[position],
            groups=totals.groups[position] if totals.groups else None,
            replicate_means=replicates,
            importance_weight=np.concatenate(totals.kept_weight) if keep else None,
            reward=np.concatenate(self._kept_reward) if keep else None,
            reward_range=limits,
            max_weight=max_weight,
            is_logging_policy=totals.weights.gap == 0.0,
        )

    def _row(self, totals: PolicyTotals, position: int, evidence: Evidence) -> dict[str, Any]:
        estimator = evidence.estimator
        facts = totals.weights.facts(
            self._action_count,
            reward_share=self._reward.share,
            trained_share=totals.trained.share,
            n_groups=evidence.value_spread().n_units if self._has_groups else None,
        )
        rounding, facts = totals.rounding, totals.rounding.allowed(facts)
        lower, upper = rounding.widened(position, 0, self.interval.value(evidence), facts.n_samples)
        uplift = evidence.uplift
        bounds = rounding.widened(position, 1, self.interval.uplift(evidence), facts.n_samples)
        assert self.source is not None
        lost_weight = float(totals.lost_weight[position] / facts.n_samples)
        verdict, reason = judge(
            estimator,
            self.interval,
            facts,
            lost_weight,
            uplift,
            (lower, upper),
            bounds,
            self.source,
            knows_logging_policy=self._knows_logging_policy,
        )
        return {
            "policy": totals.name,
            "estimator": estimator.name,
            "value": evidence.value,
            "std_err": self.interval.std_err(evidence),
            "ci_lower": lower,
            "ci_upper": upper,
            "uplift": uplift,
            "uplift_ci_lower": bounds[0],
            "uplift_ci_upper": bounds[1],
            "n": facts.n_samples,
            "ess": facts.ess,
            "mean_weight": facts.mean,
            "max_weight": facts.max,
            "clipped_share": float(totals.n_clipped[position] / facts.n_samples),
            "unsupported_mass": facts.unsupported_mass,
            "propensity_source": self.source,
            "verdict": verdict,
            "reason": reason + rounding.describe(position, facts.n_samples),
        }

    def _range(self) -> tuple[float, float]:
        """Return the range of rewards: given, [0, 1] if all lie there, else what was seen."""
        low, high = self._reward.low, self._reward.high
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
        notes = []
        for totals in self._totals:
            for given, tuned in zip(self.estimators, totals.estimators, strict=True):
                if given != tuned and not isinstance(tuned, SNIPS):
                    setting, value = next((name, one) for name, one in vars(tuned).items() if vars(given)[name] != one)
                    notes.append(f"{tuned.name} of {totals.name!r}: {setting} = {value:.4g}, chosen from the log.")
        return notes

    def _range_notes(self, limits: tuple[float, float], max_weight: float) -> list[str]:
        if not self.interval.is_bound:
            return []
        origin = "given" if self.reward_range is not None else "assumed, from the rewards seen"
        notes = [f"The bounds hold for rewards in [{limits[0]:g}, {limits[1]:g}] ({origin})."]
        if self.interval.name == "empirical_bernstein":
            origin = "given" if self.min_propensity is not None else "assumed: the smallest propensity seen"
            notes.append(f"They hold for propensities of at least {1.0 / max_weight:.4g} ({origin}).")
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
