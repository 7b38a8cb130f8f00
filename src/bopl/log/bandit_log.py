"""`BanditLog`: logged interactions, checked once and then trusted by everything to the right."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bopl._settings import check_choice, check_flag
from bopl._typing import AnyArray, BoolArray, ContextMatrix, FloatArray, IntArray
from bopl.log.action import encode_actions
from bopl.log.check import (
    check_features,
    check_lengths,
    check_mask,
    check_names,
    check_propensity,
    check_propensity_column,
    check_reward,
    check_rows,
    check_segment,
    column_length,
    context_columns,
    names_of,
    number_groups,
)
from bopl.log.cleaning import RowChoice, choose_rows, mask_rows, valid_samples
from bopl.log.context import (
    check_unique_names,
    column_names,
    is_frame,
    is_sparse,
    read_context,
)
from bopl.log.frame import as_table
from bopl.log.instant import check_time
from bopl.log.logger import mixture_propensity
from bopl.log.origin import LogOrigin
from bopl.log.schema import LogSchema, check_time_is_used, fit_schema
from bopl.log.split import LogSplit, divide, divide_latest, warn_of_dropped

if TYPE_CHECKING:
    from bopl.log.finding import Audit
    from bopl.log.leak import Leak
    from bopl.log.pieces import PartitionedLog


@dataclass(frozen=True, init=False, eq=False, repr=False)
class BanditLog:
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
        What came of it: any finite number, higher is better.
    propensity : array-like of shape (n_samples,), or None
        Probability, in (0, 1], with which the logging policy chose the logged action (p_i in the paper). None if it was
        never recorded: such a log can be looked at, but neither learned from nor evaluated on before
        `bopl.estimate_propensity` or `with_propensity` has filled the gap.
    actions : sequence of labels, optional
        All actions that can be chosen, in order; needed when some were never logged. By default those that occur,
        sorted.
    feature_names : sequence of str, optional
        Names of the context columns; taken from the frame where there is one.
    time : sequence of shape (n_samples,), optional
        When each decision was made: dates, timestamps, text that is a date (ISO 8601, or with the month's name), or
        numbers. Times with a zone are compared in UTC. Used by ``split(by="time")``.
    action_mask : boolean array of shape (n_samples, n_actions), optional
        Which actions could be chosen for each sample; all of them by default. An ineligible action is never chosen and
        teaches nothing.
    action_features : array-like of shape (n_actions, n_action_features), optional
        What is known of the actions themselves, rows in the order of ``actions``; learners may split on these columns
        as well as on the action.
    group : sequence of shape (n_samples,), optional
        What each sample belongs to, such as a user or a session: samples of one group are not independent, and
        intervals and folds of `bopl.evaluate` keep them together.
    drop_invalid : bool, default=False
        Leave out samples that would be refused (a missing action or reward, a propensity outside (0, 1], an infinite
        context, …); ``origin`` and `audit` say how many, which and why.
    other_rewards : mapping of name to array-like of shape (n_samples,), optional
        What else came of the decisions, such as revenue beside clicks, for the guards of `bopl.evaluate`: never
        context.
    segment : sequence of shape (n_samples,), optional
        What each sample counts to, such as a country: `bopl.evaluate` then answers for each segment, too.
    exact_propensity : bool, default=False
        Whether the propensities are exact, however few digits they have. Otherwise those that look rounded are taken
        to be off by half a unit, and intervals are widened by what that can do.

    Attributes
    ----------
    action_idx : ndarray of shape (n_samples,)
        Position of the logged action in ``actions``.
    actions : ndarray of shape (n_actions,)
    propensity_source : {"logged", "estimated", "uniform", "balanced", "unknown"}
        Where ``propensity`` comes from; it is NaN throughout if unknown.
    schema : LogSchema or None
        How the columns of a frame or a file became numbers.
    origin : LogOrigin or None
        The format of the files, and which rows were asked for or left out.
    group_labels : ndarray or None
        What the numbers in ``group`` stand for.

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
        matrix, names_found = read_context(context, feature_names, allow_infinite=drop_invalid)
        check_lengths(
            {"context": matrix.shape[0], "action": column_length(action), "reward": column_length(reward)}
            | ({} if propensity is None else {"propensity": column_length(propensity)})
            | ({} if time is None else {"time": column_length(time)})
            | ({} if group is None else {"group": column_length(group)})
            | {f"other_rewards[{name!r}]": column_length(one) for name, one in (other_rewards or {}).items()}
            | ({} if segment is None else {"segment": column_length(segment)})
        )
        origin = None
        if drop_invalid:
            columns = {"action": action, "reward": reward, "propensity": propensity, "time": time, "group": group}
            carried = {"segment": segment} | {
                f"other_rewards[{name!r}]": one for name, one in (other_rewards or {}).items()
            }
            matrix, found, action_mask, origin = valid_samples(
                matrix, columns | carried, action_mask, actions, beside=list(carried)
            )
            action, reward, propensity, time, group, segment, *others = found.values()
            other_rewards = dict(zip(other_rewards or {}, others, strict=True))
        group_idx, group_labels = (None, None) if group is None else number_groups(group)
        action_idx, labels = encode_actions(action, actions)
        _set_fields(
            self,
            context=_read_only(matrix),
            action_idx=_read_only(action_idx),
            reward=_read_only(check_reward(reward)),
            propensity=_read_only(check_propensity(propensity, matrix.shape[0])),
            actions=labels,
            feature_names=check_names(feature_names, names_found, matrix.shape[1]),
            time=None if time is None else _read_only(check_time(time)),
            action_mask=None if action_mask is None else _read_only(check_mask(action_mask, labels, action_idx)),
            action_features=None if action_features is None else _read_only(check_features(action_features, labels)),
            group=None if group_idx is None else _read_only(group_idx),
            other_rewards={
                str(name): _read_only(check_reward(one, f"other_rewards[{name!r}]"))
                for name, one in (other_rewards or {}).items()
            },
            segment=None if segment is None else _read_only(check_segment(segment)),
            propensity_source="unknown" if propensity is None else "logged",
            exact_propensity=exact_propensity,
            schema=None,
            origin=origin,
            group_labels=group_labels,
        )

    # -- Constructors ---------------------------------------------------------------------------------------------

    @classmethod
    def from_frame(
        cls,
        frame: object,
        *,
        action: str,
        reward: str,
        propensity: str | None,
        context: Sequence[str] | None = None,
        ignore: Sequence[str] = (),
        categorical: Sequence[str] = (),
        actions: object | None = None,
        time: str | None = None,
        group: str | None = None,
        action_mask: object | None = None,
        action_features: object | None = None,
        other_rewards: Sequence[str] = (),
        segment: str | None = None,
        schema: LogSchema | None = None,
        where: str | None = None,
        drop_invalid: bool = False,
        drop_duplicates: bool | Sequence[str] = False,
        exact_propensity: bool = False,
    ) -> BanditLog:
        """Build a log from a pandas, polars or arrow frame.

        Text becomes categories, times become day, weekday and hour; how, is kept in the log's ``schema``, and in the
        policies that are fitted to it.

        Parameters
        ----------
        frame : frame of n_samples rows
            A pandas or polars frame, an Arrow table, or whatever narwhals knows.
        action, reward, propensity : str
            Names of the columns; ``propensity=None`` if there is none.
        context : sequence of str, optional
            Names of the context columns; by default all that have no other role.
        ignore : sequence of str, optional
            Names of columns that are not context.
        categorical : sequence of str, optional
            Names of columns of numbers that are categories; text always is.
        actions : sequence of labels, optional
            As for `BanditLog`.
        time : str, optional
            Name of the column with the time of the decision. Its weekday and hour stay context unless ``context`` or
            ``ignore`` says otherwise; its day does not, as no day of the future is one of the past.
        group : str, optional
            Name of the column with what a sample belongs to.
        action_mask, action_features : optional
            As for `BanditLog`.
        other_rewards : sequence of str, optional
            Names of columns with further rewards; they are not context.
        segment : str, optional
            Name of the column with what a sample counts to; it is context all the same, unless that is left out.
        schema : LogSchema, optional
            How another log was read, such as ``policy.schema_``: the columns become the same numbers as there.
        where : str, optional
            Condition on columns, such as ``"country == 'DE' and day >= 3"``; other rows are left out. It knows ``==``,
            ``!=``, ``<``, ``<=``, ``>``, ``>=``, ``in (…)``, ``is missing``, ``and``, ``or``, ``not`` and brackets;
            names with spaces stand in backticks.
        drop_invalid : bool, default=False
            As for `BanditLog`.
        drop_duplicates : bool or sequence of str, default=False
            Keep the first of rows that agree in these columns, such as the number of the decision; True compares all
            columns that are used.
        exact_propensity : bool, default=False
            As for `BanditLog`.
        """
        if not is_frame(frame):
            raise TypeError(f"from_frame takes a pandas, polars or arrow frame; got {type(frame).__name__}.")
        check_unique_names([str(name) for name in column_names(frame)], "the frame")
        table = as_table(frame)
        given = {"action": action, "reward": reward, "propensity": propensity, "time": time, "group": group}
        roles = {role: str(name) for role, name in given.items() if name is not None}
        other_rewards, ignore, categorical = names_of(other_rewards), names_of(ignore), names_of(categorical)
        known_after = {f"other_rewards[{place}]": name for place, name in enumerate(other_rewards)}
        context = None if context is None else names_of(context)
        names = context_columns(table.columns, roles | known_after, context, ignore)
        if segment is not None:
            context_columns(table.columns, {"segment": segment}, None)  # raises if it is not there
        choice = RowChoice.of(where, drop_invalid, drop_duplicates)
        n_read = len(table)
        origin, numbers = LogOrigin(n_read), {}
        if choice.is_any:
            choice.check_columns(table.columns)
            columns = {name: table[name] for name in table.columns}
            chosen = choose_rows(choice, columns, roles, names if schema is None else [], actions)
            table = table if len(chosen.rows) == len(table) else table[chosen.rows.tolist()]
            origin, numbers = chosen.origin, chosen.numbers
            action_mask = None if action_mask is None else mask_rows(action_mask, chosen.rows, n_read)
        if "propensity" in roles and "propensity" not in numbers:
            check_propensity_column(table, roles)
        schema = fit_schema(table, names, roles, categorical) if schema is None else schema.with_roles(roles)
        check_time_is_used(context, time, schema)
        used: dict[str, Any] = {role: table[name].to_native() for role, name in roles.items()} | numbers
        log = cls(
            schema.encode(table),
            used["action"],
            used["reward"],
            used.get("propensity"),
            actions=actions,
            feature_names=schema.feature_names,
            time=used.get("time"),
            group=used.get("group"),
            action_mask=action_mask,
            action_features=action_features,
            other_rewards={name: table[name].to_native() for name in other_rewards},
            segment=None if segment is None else table[segment].to_native(),
            exact_propensity=exact_propensity,
        )
        return replaced(log.with_schema(schema), origin=origin)

    @classmethod
    def read(
        cls,
        path: str | Path,
        *,
        action: str | None = None,
        reward: str | None = None,
        propensity: str | None = None,
        has_propensity: bool = True,
        context: Sequence[str] | None = None,
        ignore: Sequence[str] = (),
        categorical: Sequence[str] = (),
        actions: object | None = None,
        time: str | None = None,
        group: str | None = None,
        format: str | None = None,
        other_rewards: Sequence[str] = (),
        segment: str | None = None,
        schema: LogSchema | None = None,
        where: str | None = None,
        drop_invalid: bool = False,
        drop_duplicates: bool | Sequence[str] = False,
        exact_propensity: bool = False,
    ) -> BanditLog:
        """Read a log from files.

        Parameters
        ----------
        path : str or Path
            A file, a folder, or a pattern such as ``"logs/*.parquet"``: Parquet, CSV, Arrow, JSON lines, Vowpal
            Wabbit (text or dsjson), or the Open Bandit Dataset.
        action, reward, propensity : str, optional
            Names of the columns; by default those of the schema or of the format, else ``"action"``, ``"reward"`` and
            ``"propensity"``.
        has_propensity : bool, default=True
            False for a log that has none.
        format : str, optional
            One of ``bopl.log.format.FORMATS``, where the extension does not tell it.
        context, ignore, categorical, actions, time, group, other_rewards, segment, schema, where, drop_invalid,
        drop_duplicates, exact_propensity
            As for `from_frame`.

        Examples
        --------
        >>> import bopl
        >>> log = bopl.BanditLog.read("clicks.parquet", action="item", reward="click", propensity="p")  # doctest: +SKIP
        """
        from bopl.log.read import LogRequest, read_log

        check_flag("exact_propensity", exact_propensity)
        request = LogRequest(
            path,
            {"action": action, "reward": reward, "propensity": propensity, "time": time, "group": group},
            has_propensity=has_propensity,
            context=None if context is None else names_of(context),
            ignore=names_of(ignore),
            categorical=names_of(categorical),
            format=format,
            rows=RowChoice.of(where, drop_invalid, drop_duplicates),
            other_rewards=names_of(other_rewards),
            segment=segment,
            exact_propensity=exact_propensity,
        )
        return read_log(request, actions=actions, schema=schema)

    @classmethod
    def scan_parquet(
        cls,
        path: str | Path | Sequence[str | Path],
        *,
        action: str | None = None,
        reward: str | None = None,
        propensity: str | None = None,
        has_propensity: bool = True,
        context: Sequence[str] | None = None,
        ignore: Sequence[str] = (),
        categorical: Sequence[str] = (),
        actions: object | None = None,
        time: str | None = None,
        group: str | None = None,
        other_rewards: Sequence[str] = (),
        segment: str | None = None,
        schema: LogSchema | None = None,
        where: str | None = None,
        drop_invalid: bool = False,
        exact_propensity: bool = False,
    ) -> PartitionedLog:
        """Return a log that stays in its Parquet files and is read one row group at a time.

        Only footers are read, and the columns that do not tell everything in their footers, once: the action where
        ``actions`` is not given, text, whole numbers and times where ``schema`` is not given, the group and the time,
        and with ``where`` or ``drop_invalid`` all columns. Files written by `to_parquet` say most of it themselves.

        Parameters
        ----------
        path : str or Path, or a sequence of them
            Files, folders, or patterns such as ``"days/*.parquet"``; files of a folder or a pattern are sorted.
        action, reward, propensity, has_propensity, context, ignore, categorical, actions, time, group, other_rewards,
        segment, schema, where, drop_invalid, exact_propensity
            As for `read`.
        """
        from bopl.log.pieces.footer import find_footers
        from bopl.log.pieces.scan import scan
        from bopl.log.read import LogRequest

        check_flag("exact_propensity", exact_propensity)
        request = LogRequest(
            "",
            {"action": action, "reward": reward, "propensity": propensity, "time": time, "group": group},
            has_propensity=has_propensity,
            context=context,
            ignore=ignore,
            categorical=categorical,
            rows=RowChoice.of(where, drop_invalid, drop_duplicates=False),
            other_rewards=other_rewards,
            segment=segment,
            exact_propensity=exact_propensity,
        )
        return scan(request, find_footers(path), actions=actions, schema=schema)

    @classmethod
    def from_obp(cls, feedback: Mapping[str, Any]) -> BanditLog:
        """Build a log from the dictionary that Open Bandit Pipeline calls bandit feedback.

        Its ``pscore`` is the propensity, its ``action_context`` the action features, and the position, where there are
        several, one more context column.

        Examples
        --------
        >>> import numpy as np, bopl
        >>> feedback = {"n_actions": 2, "context": np.eye(2), "action": np.array([0, 1]), "reward": np.array([1, 0])}
        >>> bopl.BanditLog.from_obp({**feedback, "pscore": np.array([0.5, 0.5]), "position": None})
        BanditLog(n_samples=2, n_features=2, n_actions=2, mean_reward=0.5, min_propensity=0.5)
        """
        from bopl.log.format.open_bandit import feedback_columns

        return cls(**feedback_columns(feedback))

    @classmethod
    def from_parquet(
        cls,
        path: str | Path,
        *,
        action: str,
        reward: str,
        propensity: str | None,
        context: Sequence[str] | None = None,
        actions: object | None = None,
        time: str | None = None,
        group: str | None = None,
        where: str | None = None,
        drop_invalid: bool = False,
        drop_duplicates: bool | Sequence[str] = False,
        exact_propensity: bool = False,
    ) -> BanditLog:
        """Read a log from a Parquet file; the parameters are those of `from_frame`."""
        return cls.read(
            path,
            action=action,
            reward=reward,
            propensity=propensity,
            has_propensity=propensity is not None,
            context=context,
            actions=actions,
            time=time,
            group=group,
            format="parquet",
            where=where,
            drop_invalid=drop_invalid,
            drop_duplicates=drop_duplicates,
            exact_propensity=exact_propensity,
        )

    @classmethod
    def from_csv(
        cls,
        path: str | Path,
        *,
        action: str,
        reward: str,
        propensity: str | None,
        context: Sequence[str] | None = None,
        actions: object | None = None,
        time: str | None = None,
        group: str | None = None,
        where: str | None = None,
        drop_invalid: bool = False,
        drop_duplicates: bool | Sequence[str] = False,
        exact_propensity: bool = False,
    ) -> BanditLog:
        """Read a log from a CSV file with a header line; the parameters are those of `from_frame`."""
        return cls.read(
            path,
            action=action,
            reward=reward,
            propensity=propensity,
            has_propensity=propensity is not None,
            context=context,
            actions=actions,
            time=time,
            group=group,
            format="csv",
            where=where,
            drop_invalid=drop_invalid,
            drop_duplicates=drop_duplicates,
            exact_propensity=exact_propensity,
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
    def n_actions(self) -> int:
        """Number of actions that can be chosen, logged or not."""
        return len(self.actions)

    @property
    def categorical(self) -> tuple[int, ...]:
        """Positions of the context columns that hold categories."""
        if self.schema is None:
            return ()
        return tuple(self.schema.feature_names.index(name) for name in self.schema.categorical)

    @property
    def action(self) -> AnyArray:
        """Labels of the logged actions, of shape (n_samples,)."""
        return self.actions[self.action_idx]

    @property
    def has_propensity(self) -> bool:
        """Whether propensities are there, logged or filled in."""
        return self.propensity_source != "unknown"

    @property
    def has_estimates(self) -> bool:
        """Whether the propensities are estimates of a model."""
        return self.propensity_source == "estimated"

    def require_propensity(self) -> None:
        """Raise one sentence if the log has no propensities."""
        if not self.has_propensity:
            raise ValueError(
                "propensity is missing: pass the probability with which the logging policy chose each logged action; "
                "without it no unbiased estimate exists. bopl.estimate_propensity(log) fits a stand-in, and "
                "log.with_propensity('uniform') says that every eligible action was equally likely."
            )

    def __len__(self) -> int:
        return self.n_samples

    def __array__(self, dtype: object = None, copy: object = None) -> AnyArray:
        """Refuse: scikit-learn, given a log in place of X, would make an array of one object of it."""
        raise TypeError(
            "a BanditLog is not an array: scikit-learn's searches take X=log.context and "
            "y=bopl.outcomes(log.action, log.reward, log.propensity)."
        )

    def __repr__(self) -> str:
        least = f"min_propensity={self.propensity.min():.4g}" if self.has_propensity else "propensity unknown"
        return (
            f"BanditLog(n_samples={self.n_samples}, n_features={self.n_features}, n_actions={self.n_actions}, "
            f"mean_reward={self.reward.mean():.4g}, {least})"
        )

    def _repr_html_(self) -> str:
        from bopl.log.notebook import log_card

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
        return replaced(
            self,
            context=_read_only(self.context[index]),
            action_idx=_read_only(self.action_idx[index]),
            reward=_read_only(self.reward[index]),
            propensity=_read_only(self.propensity[index]),
            time=None if self.time is None else _read_only(self.time[index]),
            action_mask=None if self.action_mask is None else _read_only(self.action_mask[index]),
            group=None if self.group is None else _read_only(self.group[index]),
            other_rewards={name: _read_only(one[index]) for name, one in self.other_rewards.items()},
            segment=None if self.segment is None else _read_only(self.segment[index]),
        )

    def outcomes(self, order: AnyArray | None = None) -> BanditLog:
        """Return the samples without their contexts, in another order if one is given: what objectives read.

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
            Share of the samples, or of the groups, that is held out.
        by : {"random", "time", "group"}, default="random"
            ``"group"`` is ``"random"`` for a log that must have groups. ``"time"`` puts the latest samples into the
            test part (needs ``time``): what deployment looks like. No training sample is later than the first test
            sample, and samples of one time stay together. Groups that have samples before and after that moment are
            dropped from the training part, and counted.
        random_state : int, optional
            Seed of the random split.
        """
        pair = divide(self, test_fraction, by=by, random_state=random_state).split(self)
        warn_of_dropped(pair.facts)
        return pair

    def split_rows(
        self, test_fraction: float = 0.2, *, by: str = "random", random_state: int | None = None
    ) -> tuple[IntArray, IntArray]:
        """Return the rows of the two logs of `split`, for what belongs to the samples without being part of the log.

        ``by="latest"`` divides by time where that is possible, else at random.
        """
        choose = divide_latest if by == "latest" else partial(divide, by=by)
        division = choose(self, test_fraction, random_state=random_state)
        return division.train, division.test

    def translated(self, reward_translation: float) -> BanditLog:
        """Return the log with ``reward_translation`` added to every reward (the paper's sign: -0.4 means r - 0.4)."""
        if not isinstance(reward_translation, Real):
            raise TypeError(f"reward_translation must be a number; got {reward_translation!r}.")
        if not np.isfinite(reward_translation):
            raise ValueError(f"reward_translation must be a finite number; got {reward_translation!r}.")
        if reward_translation == 0.0:
            return self
        return replaced(self, reward=_read_only(self.reward + reward_translation))

    def with_reward(self, reward: object) -> BanditLog:
        """Return the log with other rewards, of shape (n_samples,)."""
        values = check_reward(reward)
        check_lengths({"the log": self.n_samples, "reward": len(values)})
        return replaced(self, reward=_read_only(values))

    def with_segment(self, segment: object) -> BanditLog:
        """Return the log with what each sample counts to, of shape (n_samples,)."""
        values = check_segment(segment)
        check_lengths({"the log": self.n_samples, "segment": len(values)})
        return replaced(self, segment=_read_only(values))

    def with_other_rewards(self, other_rewards: Mapping[str, object]) -> BanditLog:
        """Return the log with what else came of the decisions, by name, each of shape (n_samples,)."""
        found = {str(name): check_reward(one, f"other_rewards[{name!r}]") for name, one in other_rewards.items()}
        for name, values in found.items():
            check_lengths({"the log": self.n_samples, f"other_rewards[{name!r}]": len(values)})
        return replaced(self, other_rewards={name: _read_only(values) for name, values in found.items()})

    def with_exact_propensity(self, exact_propensity: bool = True) -> BanditLog:
        """Return the log with the word that its propensities are exact, however few digits they have."""
        check_flag("exact_propensity", exact_propensity)
        return replaced(self, exact_propensity=exact_propensity)

    def without_schema(self, feature_names: Sequence[str] | None) -> BanditLog:
        """Return the log with other names of its context columns, and no note of how they became numbers."""
        return replaced(self, feature_names=check_names(feature_names, None, self.n_features), schema=None)

    def with_schema(self, schema: LogSchema) -> BanditLog:
        """Return the log with a note of how its columns became numbers."""
        if schema.feature_names != self.feature_names:
            raise ValueError("the schema names other context columns than the log has.")
        return replaced(self, schema=schema)

    def with_origin(self, origin: LogOrigin | None) -> BanditLog:
        """Return the log with a note of how it came about."""
        return replaced(self, origin=origin)

    def with_propensity(self, propensity: object, *, source: str = "logged") -> BanditLog:
        """Return the log with other propensities; nobody has said of these that they are exact.

        Parameters
        ----------
        propensity : array-like of shape (n_samples,), or "uniform"
            ``"uniform"`` says that the logging policy chose among the eligible actions with equal probability. Nothing
            else ever assumes so.
        source : {"logged", "estimated", "balanced", "uniform"}, default="logged"
            Where an array comes from; every estimate that rests on it says so.
        """
        if isinstance(propensity, str):
            if propensity != "uniform":
                raise ValueError(f"propensity must be an array or 'uniform'; got {propensity!r}.")
            n_eligible = (
                np.full(self.n_samples, self.n_actions) if self.action_mask is None else self.action_mask.sum(1)
            )
            return replaced(
                self, propensity=_read_only(1.0 / n_eligible), propensity_source="uniform", exact_propensity=False
            )
        if propensity is None:
            raise ValueError("propensity must be an array or 'uniform'; got None.")
        check_choice("source", source, ("logged", "estimated", "balanced", "uniform"))
        values = check_propensity(propensity, self.n_samples)
        check_lengths({"the log": self.n_samples, "propensity": len(values)})
        return replaced(self, propensity=_read_only(values), propensity_source=source, exact_propensity=False)

    def balanced(self, logger: object, logger_propensity: object) -> BanditLog:
        """Return the log of several logging policies with the propensities of their mixture.

        The propensity of a sample becomes ``sum_l (n_l / n) · p_l(a_i | x_i)``: weights built on it never exceed those
        of the best logger by more than ``n / n_l`` (the balance heuristic of Veach and Guibas, 1995).

        Parameters
        ----------
        logger : sequence of shape (n_samples,)
            Which policy wrote each sample.
        logger_propensity : mapping of logger to array of shape (n_samples,), or array of shape (n_samples, n_loggers)
            Probability that each policy would have given to the logged action of *every* sample; 0 where it never takes
            it. The columns of an array are in the sorted order of the loggers.
        """
        mixed = mixture_propensity(logger, logger_propensity, self.n_samples)
        return self.with_propensity(mixed, source="balanced")

    def audit(
        self,
        policy: object | None = None,
        *,
        logging_policy: object | None = None,
        keep: Sequence[str | int] = (),
        strict: bool = False,
    ) -> Audit:
        """Check whether the log can be trusted, and whether it can answer for a policy.

        Parameters
        ----------
        policy : object with ``predict_proba``, array of shape (n_samples, n_actions) or (n_samples,), optional
            What is to be evaluated on this log; by default its weights are those of the uniform policy.
        logging_policy : object with ``predict_proba`` or array of shape (n_samples, n_actions), optional
            What wrote the log: its probabilities of the logged actions should be the propensities.
        keep : sequence of column names, optional
            Context columns that were known when the action was chosen, whatever they look like: see `leaks`.
        strict : bool, default=False
            Raise `AuditError` if there is a problem.

        Returns
        -------
        Audit
            One finding per check, with a plain sentence: print it, or take ``.table``.
        """
        from bopl.log.audit import audit_log

        report = audit_log(self, policy, logging_policy, keep)
        if strict:
            report.raise_problems()
        return report

    def leaks(self) -> tuple[Leak, ...]:
        """Find context columns that know more than was known when the action was chosen.

        Returns
        -------
        tuple of Leak
            Columns that know the reward after the action, another outcome, the action beyond the propensities or a
            time after the decision, and identifiers; each says how surely, and why. `without_columns` leaves them out.
        """
        from bopl.log.leak import find_leaks

        return find_leaks(self)

    def without_columns(self, columns: Sequence[str | int]) -> BanditLog:
        """Return the log without some context columns, named as in ``feature_names`` or the frame, or by position."""
        from bopl.log.leak.view import kept_columns

        kept, schema = kept_columns(self, columns)
        names = None if self.feature_names is None else tuple(self.feature_names[place] for place in kept)
        return replaced(self, context=_read_only(self.context[:, kept]), feature_names=names, schema=schema)

    def to_frame(self, backend: str | None = None) -> Any:
        """Return the log as a frame: a row per sample, with its context, action, reward and whatever else there is.

        Categories and times are what they were before they became numbers. Where there is an action mask, the column
        ``eligible_actions`` lists what could be chosen, and is empty where everything could. Sparse contexts are one
        column of maps from the name of a feature to its value.

        Parameters
        ----------
        backend : {"pandas", "polars", "pyarrow"}, optional
            By default pandas if it is installed, else polars, else pyarrow.
        """
        from bopl._frame import to_frame
        from bopl.log.frame_of import log_table

        table = log_table(self)
        return table if backend == "pyarrow" else to_frame({name: table[name] for name in table.column_names}, backend)

    def to_parquet(self, path: str | Path) -> None:
        """Write the log to a Parquet file, whole or not at all; ``BanditLog.read(path)`` returns the same log.

        The columns are those of `to_frame`. What does not fit into columns (the schema, actions that were never taken,
        action features, where the propensities come from) stands in the file's metadata.
        """
        from bopl.log.frame_of import write_log

        write_log(self, path)

    def fingerprint(self) -> str:
        """Return a hash of the log's contents: equal for equal logs, in every process."""
        digest = hashlib.sha256()
        for array in self._fingerprint_parts():
            digest.update(f"{array.dtype.str}{array.shape}".encode())
            digest.update(np.ascontiguousarray(array).data)
        digest.update(repr((self.actions.tolist(), self.feature_names)).encode())
        return digest.hexdigest()

    def _fingerprint_parts(self) -> Iterator[AnyArray]:
        if is_sparse(self.context):
            yield from (self.context.indptr.astype(np.int64), self.context.indices.astype(np.int64), self.context.data)
        else:
            yield self.context
        yield from (self.action_idx, self.reward, self.propensity)
        yield from (part for part in (self.action_mask, self.action_features) if part is not None)


def _read_only(array: Any) -> Any:
    """Return an array that cannot be written to, without touching the flags of the caller's own array."""
    if is_sparse(array):
        for part in (array.data, array.indices, array.indptr):
            part.flags.writeable = False
        return array
    view = array.view()
    view.flags.writeable = False
    return view


def _set_fields(log: BanditLog, **fields: object) -> None:
    for name, value in fields.items():
        object.__setattr__(log, name, value)


def replaced(log: BanditLog, **changes: object) -> BanditLog:
    """Return a copy with other columns that are known to be good: nothing is checked twice."""
    copy = object.__new__(BanditLog)
    kept = {name: getattr(log, name) for name in BanditLog.__dataclass_fields__}
    _set_fields(copy, **(kept | changes))
    return copy
