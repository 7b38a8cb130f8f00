"""`ValueAccumulator`: estimates taken over a log part by part, in bounded memory, and merged over shards."""

from __future__ import annotations

from collections.abc import Mapping

from bopl.evaluation.answer import conclude
from bopl.evaluation.evaluation_task import EvaluationSettings, EvaluationTask
from bopl.evaluation.log_sums import LogSums, add_part
from bopl.evaluation.result import Evaluation
from bopl.evaluation.sources import named_policies
from bopl.log import BanditLog


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
        clips weights at ``sqrt(n_samples)``. By default the length of the first part.

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
        settings = EvaluationSettings(
            estimators=estimators,
            interval=interval,
            confidence=confidence,
            min_uplift=min_uplift,
            guards=guards,
            against=against,
            head_to_head=head_to_head,
            simultaneous=simultaneous,
            n_replicates=n_replicates,
            reward_range=reward_range,
            min_propensity=min_propensity,
            random_state=random_state,
            n_jobs=n_jobs,
        )
        self._task = EvaluationTask(
            settings, named_policies(policies), reward_model, logging_policy, n_samples=n_samples
        )
        self._sums: LogSums | None = None

    @property
    def policies(self) -> dict[str, object]:
        """The policies by name."""
        return dict(self._task.policies)

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
        self._sums = add_part(self._task, self._sums, self._task.read(log, policies, group), first_row)

    def merge(self, other: ValueAccumulator) -> None:
        """Add what another accumulator with the same settings has seen of other rows."""
        if other._sums is None:
            return
        if self._sums is None:
            raise ValueError("merge into an accumulator that has seen samples: swap the two.")
        if not (self._task.suits(other._task) and self._sums.suits(other._sums)):
            raise ValueError(
                "the shards differ in their policies, actions, interval, confidence, min_uplift, guards, comparisons, "
                "reward_range, min_propensity, replicates, random_state, groups, segments, in the size of their "
                "rewards, in the source of their propensities or in whether the logging policy is known."
            )
        if self._sums.books.chosen != other._sums.books.chosen:
            raise ValueError(
                "the shards chose different settings from their data; give estimators with settings of your own, such "
                "as ClippedIPS(max_importance_weight=10), to merge them."
            )
        self._sums.merge(other._sums)

    def result(self) -> Evaluation:
        """Return the evaluation of all samples added so far."""
        return conclude(self._task, self._sums)
