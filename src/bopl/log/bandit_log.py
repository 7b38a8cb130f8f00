"""`BanditLog`: logged interactions, checked once and then trusted by everything to the right."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bopl._settings import check_choice, check_flag, check_number
from bopl._typing import AnyArray, BoolArray, ContextMatrix, FloatArray, IntArray
from bopl.log.action import encode_actions
from bopl.log.any_log import AnyLog
from bopl.log.check import (
    check_features,
    check_lengths,
    check_mask,
    check_names,
    check_propensity,
    check_reward,
    check_rows,
    check_same_order,
    check_segment,
    column_length,
    named_rewards,
    number_groups,
)
from bopl.log.cleaning import valid_samples
from bopl.log.context import read_context, read_only
from bopl.log.identical import ContextKeys, fingerprint_of
from bopl.log.instant import check_time
from bopl.log.log_files import LogFiles
from bopl.log.log_split import LogSplit, divide, warn_of_dropped
from bopl.log.logger import mixture_propensity, uniform_propensity
from bopl.log.origin import LogOrigin
from bopl.log.schema import LogSchema

OPTIONAL = ("propensity", "time", "group", "segment")  # columns that a log may do without
# Fields with a row per sample; other rewards have such, too.
PER_SAMPLE = ("context", "action_idx", "reward", "propensity", "time", "action_mask", "group", "segment")


@dataclass(frozen=True, init=False, eq=False, repr=False)
class BanditLog(LogFiles, AnyLog):
    """A frozen, checked log of decisions: one sample is (context, action, propensity, reward).

    Parameters
    ----------
    context : array-like, scipy sparse matrix or frame of shape (n_samples, n_features)
        What was known when the action was chosen: numbers or booleans, stored as float32. NaN and null mean missing.
        Frames (pandas, polars, arrow) keep their column names. A float32 C-contiguous array is not copied, so leave it
        unchanged afterwards.
    action : sequence of shape (n_samples,)
        The action taken: any hashable labels.
    reward : array-like of shape (n_samples,)
        What the action earned: any finite number, higher is better.
    propensity : array-like of shape (n_samples,), or None
        Probability, in (0, 1], with which the logging policy chose the logged action (p_i in the paper). None if it was
        never recorded: such a log can be inspected, but neither learned from nor evaluated on until
        `bopl.estimate_propensity` or `with_propensity` has added propensities.
    actions : sequence of labels, optional
        All actions that can be chosen, in order; needed when some were never logged. By default those that occur,
        sorted.
    feature_names : sequence of str, optional
        Names of the context columns; taken from the frame if there is one.
    time : sequence of shape (n_samples,), optional
        When each decision was made: dates, timestamps, text that is a date (ISO 8601, or with the month's name), or
        numbers. Times with a zone are compared in UTC. Used by ``split(by="time")``.
    action_mask : boolean array of shape (n_samples, n_actions), optional
        Which actions could be chosen for each sample; all of them by default. An ineligible action is never chosen and
        is not learned from.
    action_features : array-like of shape (n_actions, n_action_features), optional
        Features of the actions themselves, rows in the order of ``actions``; learners may split on these columns
        as well as on the action.
    group : sequence of shape (n_samples,), optional
        Group of each sample, such as a user or a session: samples of one group are not independent, and
        intervals and folds of `bopl.evaluate` keep them together.
    drop_invalid : bool, default=False
        Drop samples that would be refused (a missing action or reward, a propensity outside (0, 1], an infinite
        context, …); ``origin`` and `audit` say how many, which and why.
    other_rewards : mapping of name to array-like of shape (n_samples,), optional
        Other outcomes of the decisions, such as revenue in addition to clicks, for the guards of `bopl.evaluate`: never
        context.
    segment : sequence of shape (n_samples,), optional
        Segment of each sample, such as a country: `bopl.evaluate` then also answers for each segment.
    exact_propensity : bool, default=False
        Whether the propensities are exact, however few digits they have. Otherwise those that look rounded are assumed
        to be off by half a unit, and intervals are widened accordingly.

    Attributes
    ----------
    action_idx : ndarray of shape (n_samples,)
        Position of the logged action in ``actions``.
    actions : ndarray of shape (n_actions,)
    propensity_source : {"logged", "estimated", "uniform", "balanced", "mismatched", "unknown"}
        Where ``propensity`` comes from; it is NaN throughout if unknown.
    schema : LogSchema or None
        How the columns of a frame or a file were encoded.
    origin : LogOrigin or None
        The format of the files, and which rows were selected or dropped.
    group_labels : ndarray or None
        The labels of the numbers in ``group``.

    Examples
    --------
    >>> import bopl
    >>> context = [[0.0], [1.0], [1.0]]
    >>> log = bopl.BanditLog(context, ["b", "a", "b"], [1, 0, 1], [0.5, 0.2, 0.8], actions=["a", "b", "c"])
    >>> log
    BanditLog(n_samples=3, n_features=1, n_actions=3, mean_reward=0.6667, min_propensity=0.2)
    >>> log.translated(-0.5).reward.tolist()
    [0.5, -0.5, 0.5]
    """

    context: ContextMatrix
    action_idx: IntArray
    reward: FloatArray
    propensity: FloatArray
    actions: AnyArray
    feature_names: tuple[str, ...] | None
    time: AnyArray | None
    action_mask: BoolArray | None
    action_features: FloatArray | None
    group: IntArray | None
    other_rewards: Mapping[str, FloatArray]
    segment: AnyArray | None
    propensity_source: str
    exact_propensity: bool
    schema: LogSchema | None
    origin: LogOrigin | None
    group_labels: AnyArray | None
    _context_keys: ContextKeys

    _without_propensity = (
        "propensity is missing: pass the probability with which the logging policy chose each logged action; without "
        "it no unbiased estimate exists. bopl.estimate_propensity(log) estimates it, and "
        "log.with_propensity('uniform') declares every eligible action equally likely."
    )

    def __init__(
        self,
        context: object,
        action: object,
        reward: object,
        propensity: object,
        *,
        actions: object | None = None,
        feature_names: Sequence[str] | None = None,
        time: object | None = None,
        action_mask: object | None = None,
        action_features: object | None = None,
        group: object | None = None,
        drop_invalid: bool = False,
        other_rewards: Mapping[str, object] | None = None,
        segment: object | None = None,
        exact_propensity: bool = False,
    ) -> None:
        check_flag("exact_propensity", exact_propensity)
        check_flag("drop_invalid", drop_invalid)
        matrix, names_found = read_context(context, feature_names, allow_infinite=drop_invalid)
        others = named_rewards(other_rewards)
        columns = {"action": action, "reward": reward, "propensity": propensity, "time": time, "group": group}
        columns |= {"segment": segment} | others
        given = {name: one for name, one in columns.items() if one is not None or name not in OPTIONAL}
        check_same_order({"context": context} | given)
        check_lengths({"context": matrix.shape[0]} | {name: column_length(one, name) for name, one in given.items()})
        origin = None
        if drop_invalid:
            matrix, columns, action_mask, origin = valid_samples(
                matrix, columns, action_mask, actions, beside=["segment", *others]
            )
        group_idx, group_labels = (None, None) if columns["group"] is None else number_groups(columns["group"])
        action_idx, labels = encode_actions(columns["action"], actions)
        vars(self).update(  # frozen: nothing else writes here
            context=read_only(matrix),
            action_idx=read_only(action_idx),
            reward=read_only(check_reward(columns["reward"])),
            propensity=read_only(check_propensity(columns["propensity"], matrix.shape[0])),
            actions=labels,
            feature_names=check_names(feature_names, names_found, matrix.shape[1]),
            time=_checked(columns["time"], check_time),
            action_mask=_checked(action_mask, lambda mask: check_mask(mask, labels, action_idx)),
            action_features=_checked(action_features, lambda features: check_features(features, labels)),
            group=None if group_idx is None else read_only(group_idx),
            other_rewards={
                str(name): read_only(check_reward(columns[shown], shown))
                for name, shown in zip(other_rewards or {}, others, strict=True)
            },
            segment=_checked(columns["segment"], check_segment),
            propensity_source="unknown" if propensity is None else "logged",
            exact_propensity=exact_propensity,
            schema=None,
            origin=origin,
            group_labels=group_labels,
            _context_keys=ContextKeys(),
        )

    # -- Views ----------------------------------------------------------------------------------------------------

    @property
    def n_samples(self) -> int:
        """Number of logged interactions."""
        return int(self.context.shape[0])

    @property
    def n_features(self) -> int:
        """Number of context columns."""
        return int(self.context.shape[1])

    @property
    def action(self) -> AnyArray:
        """Labels of the logged actions, of shape (n_samples,)."""
        return self.actions[self.action_idx]

    def __array__(self, dtype: object = None, copy: object = None) -> AnyArray:
        """Raise an error: scikit-learn, given a log instead of X, would make an array of one object of it."""
        raise TypeError(
            "a BanditLog is not an array: scikit-learn's searches take X=log.context and "
            "y=bopl.outcomes(log.action, log.reward, log.propensity)."
        )

    def __repr__(self) -> str:
        least = f"min_propensity={self.propensity.min():.4g}" if self.has_propensity else "propensity unknown"
        with np.errstate(over="ignore"):
            return (
                f"BanditLog(n_samples={self.n_samples}, n_features={self.n_features}, n_actions={self.n_actions}, "
                f"mean_reward={self.reward.mean():.4g}, {least})"
            )

    def _repr_html_(self) -> str:
        from bopl.log.log_card import log_card

        return log_card(self)

    # -- New logs from this one -------------------------------------------------------------------------------------

    def subset(self, rows: object) -> BanditLog:
        """Return the log of some samples, with all actions kept.

        Parameters
        ----------
        rows : slice, boolean mask of shape (n_samples,), or sequence of row numbers
            Row numbers may repeat (a bootstrap sample) and come in any order.
        """
        index = check_rows(rows, self.n_samples)
        taken = {name: read_only(column[index]) for name in PER_SAMPLE if (column := getattr(self, name)) is not None}
        others = {name: read_only(one[index]) for name, one in self.other_rewards.items()}
        return replaced(self, **taken, other_rewards=others, _context_keys=self._context_keys.subset(index))

    def outcomes(self, order: AnyArray | None = None) -> BanditLog:
        """Return the samples without their contexts, in another order if one is given; objectives read this.

        Parameters
        ----------
        order : ndarray of int, shape (n_samples,), optional
            The row of this log at each place.
        """
        none = replaced(self, context=np.zeros((self.n_samples, 0), np.float32), feature_names=None, schema=None)
        return none if order is None else none.subset(order)

    def split(self, test_fraction: float = 0.2, *, by: str = "random", random_state: int | None = None) -> LogSplit:
        """Return two logs, ``(train, test)``, that share no group; ``print`` of the pair says what was held out.

        Parameters
        ----------
        test_fraction : float in (0, 1), default=0.2
            Share of the samples, or of the groups, to hold out.
        by : {"random", "time", "group"}, default="random"
            ``"group"`` is ``"random"`` for a log that must have groups. ``"time"`` puts the latest samples into the
            test part (needs ``time``), as in deployment. No training sample is later than the first test
            sample, and samples of one time stay together. Groups that have samples before and after that moment are
            dropped from the training part, and counted.
        random_state : int, optional
            Seed of the random split.
        """
        pair = divide(self, test_fraction, by=by, random_state=random_state).split(self)
        warn_of_dropped(pair.facts)
        return pair

    def translated(self, reward_translation: float) -> BanditLog:
        """Return the log with ``reward_translation`` added to every reward (the paper's sign: -0.4 means r - 0.4)."""
        if isinstance(reward_translation, float) and not np.isfinite(reward_translation):
            raise ValueError(f"reward_translation must be a finite number; got {reward_translation!r}.")
        check_number("reward_translation", reward_translation, low_open=True, high_open=True)
        if reward_translation == 0.0:
            return self
        return replaced(self, reward=read_only(self.reward + float(reward_translation)))

    def with_reward(self, reward: object) -> BanditLog:
        """Return the log with other rewards, of shape (n_samples,)."""
        return replaced(self, reward=self._as_long("reward", check_reward(reward)))

    def with_segment(self, segment: object) -> BanditLog:
        """Return the log with segments, of shape (n_samples,)."""
        return replaced(self, segment=self._as_long("segment", check_segment(segment)))

    def with_other_rewards(self, other_rewards: Mapping[str, object]) -> BanditLog:
        """Return the log with other rewards, by name, each of shape (n_samples,)."""
        found = zip(other_rewards, named_rewards(other_rewards).items(), strict=True)
        checked = {str(name): self._as_long(shown, check_reward(one, shown)) for name, (shown, one) in found}
        return replaced(self, other_rewards=checked)

    def with_exact_propensity(self, exact_propensity: bool = True) -> BanditLog:
        """Return the log with its propensities declared exact, however few digits they have."""
        check_flag("exact_propensity", exact_propensity)
        return replaced(self, exact_propensity=exact_propensity)

    def without_schema(self, feature_names: Sequence[str] | None) -> BanditLog:
        """Return the log with other names of its context columns, and without a schema."""
        return replaced(self, feature_names=check_names(feature_names, None, self.n_features), schema=None)

    def with_schema(self, schema: LogSchema) -> BanditLog:
        """Return the log with a schema, which says how its columns were encoded."""
        if schema.feature_names != self.feature_names:
            raise ValueError("the schema and the log have different context columns.")
        return replaced(self, schema=schema)

    def with_origin(self, origin: LogOrigin | None) -> BanditLog:
        """Return the log with a record of its origin."""
        return replaced(self, origin=origin)

    def with_propensity(self, propensity: object, *, source: str = "logged") -> BanditLog:
        """Return the log with other propensities, which are not declared exact.

        Parameters
        ----------
        propensity : array-like of shape (n_samples,), or "uniform"
            ``"uniform"`` declares that the logging policy chose among the eligible actions with equal probability.
            Nothing else ever assumes so.
        source : {"logged", "estimated", "balanced", "mismatched", "uniform"}, default="logged"
            Where an array comes from; every estimate that depends on it says so.
        """
        if isinstance(propensity, str):
            if propensity != "uniform":
                raise ValueError(f"propensity must be an array or 'uniform'; got {propensity!r}.")
            source, values = "uniform", uniform_propensity(self.n_samples, self.n_actions, self.action_mask)
        elif propensity is None:
            raise ValueError("propensity must be an array or 'uniform'; got None.")
        else:
            check_choice("source", source, ("logged", "estimated", "balanced", "mismatched", "uniform"))
            values = check_propensity(propensity, self.n_samples)
        column = self._as_long("propensity", values)
        return replaced(self, propensity=column, propensity_source=source, exact_propensity=False)

    def _as_long(self, name: str, values: AnyArray) -> AnyArray:
        """Return a column that cannot be written to, after checking that it has a value per sample."""
        check_lengths({"the log": self.n_samples, name: len(values)})
        column: AnyArray = read_only(values)
        return column

    def balanced(self, logger: object, logger_propensity: object) -> BanditLog:
        """Return the log of several logging policies with the propensities of their mixture.

        The propensity of a sample becomes ``sum_l (n_l / n) · p_l(a_i | x_i)``: weights built on it never exceed those
        of the best logger by more than ``n / n_l`` (the balance heuristic of Veach and Guibas, 1995). It takes contexts
        and rewards to be alike under all loggers, and none to be trained on these rows. If rewards show that this is
        not so, a `LoggerDifferenceWarning` says so, the source is ``"mismatched"``, and no verdict is trustworthy.

        Parameters
        ----------
        logger : sequence of shape (n_samples,)
            The policy that wrote each sample.
        logger_propensity : mapping of logger to array of shape (n_samples,), or array of shape (n_samples, n_loggers)
            Probability that each policy would have given to the logged action of *every* sample; 0 if it never takes
            it. The columns of an array are in the sorted order of the loggers.
        """
        mixed, differ = mixture_propensity(logger, logger_propensity, self.reward, self.group)
        return self.with_propensity(mixed, source="mismatched" if differ else "balanced")

    def without_columns(self, columns: Sequence[str | int]) -> BanditLog:
        """Return the log without some context columns, named as in ``feature_names`` or the frame, or by position."""
        from bopl.log.leak.view import kept_columns

        kept, schema = kept_columns(self, columns)
        names = None if self.feature_names is None else tuple(self.feature_names[place] for place in kept)
        return replaced(self, context=read_only(self.context[:, kept]), feature_names=names, schema=schema)

    def fingerprint(self) -> str:
        """Return a hash of the log's contents: equal for equal logs, in every process."""
        return fingerprint_of(self)

    def _divisible(self) -> BanditLog:
        return self

    _looked_at = _divisible


def _checked(column: Any, check: Callable[[Any], AnyArray]) -> Any:
    """Return a column that has passed its check, or None if there is none."""
    return None if column is None else read_only(check(column))


def replaced(log: BanditLog, **changes: object) -> BanditLog:
    """Return a copy with other columns that are known to be good: nothing is checked twice."""
    copy = object.__new__(BanditLog)
    hashed = {"_context_keys": ContextKeys()} if "context" in changes else {}  # contexts that changed have other hashes
    vars(copy).update(vars(log) | hashed | changes)
    return copy
