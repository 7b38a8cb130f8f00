"""`LogFiles`: a log from frames and files, and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from bopl.log.cleaning import RowChoice
from bopl.log.request import LogRequest

if TYPE_CHECKING:
    from bopl.log.bandit_log import BanditLog
    from bopl.log.pieces import PartitionedLog
    from bopl.log.schema import LogSchema


class LogFiles:
    """How `BanditLog` is read from frames and files, and written to them."""

    # -- Reading ----------------------------------------------------------------------------------------------------

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

        Text becomes categories, and times become day, weekday and hour; the log's ``schema`` records how, and so do the
        policies that are fitted to it.

        Parameters
        ----------
        frame : frame of n_samples rows
            A pandas or polars frame, an Arrow table, or whatever narwhals knows.
        action, reward, propensity : str
            Names of the columns; ``propensity=None`` if there is none.
        context : sequence of str, optional
            Names of the context columns; by default all without another role.
        ignore : sequence of str, optional
            Names of columns that are not context.
        categorical : sequence of str, optional
            Names of numeric columns that are categories; text always is.
        actions : sequence of labels, optional
            As for `BanditLog`.
        time : str, optional
            Name of the column with the time of the decision. Its weekday and hour stay context unless ``context`` or
            ``ignore`` says otherwise; its day does not, because no future day is a past one.
        group : str, optional
            Name of the column with the group of a sample.
        action_mask, action_features : optional
            As for `BanditLog`.
        other_rewards : sequence of str, optional
            Names of columns with further rewards; they are not context.
        segment : str, optional
            Name of the column with the segment of a sample; it is also context, unless it is excluded.
        schema : LogSchema, optional
            Encoding of another log, such as ``policy.schema_``: the columns are encoded in the same way.
        where : str, optional
            Condition on columns, such as ``"country == 'DE' and day >= 3"``; other rows are dropped. Supports ``==``,
            ``!=``, ``<``, ``<=``, ``>``, ``>=``, ``in (…)``, ``is missing``, ``and``, ``or``, ``not`` and parentheses;
            names with spaces go in backticks.
        drop_invalid : bool, default=False
            As for `BanditLog`.
        drop_duplicates : bool or sequence of str, default=False
            Keep the first of rows that agree in these columns, such as the number of the decision; True compares all
            columns that are used.
        exact_propensity : bool, default=False
            As for `BanditLog`.
        """
        from bopl.log.read import log_of_frame

        request = LogRequest(
            action=action,
            reward=reward,
            propensity=propensity,
            time=time,
            group=group,
            context=context,
            ignore=ignore,
            categorical=categorical,
            rows=RowChoice.of(where, drop_invalid, drop_duplicates),
            other_rewards=other_rewards,
            segment=segment,
            exact_propensity=exact_propensity,
        )
        return log_of_frame(
            frame,
            request,
            actions=actions,
            action_mask=action_mask,
            action_features=action_features,
            schema=schema,
        )

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
            One of ``bopl.log.format.FORMATS``, if the extension does not show it.
        context, ignore, categorical, actions, time, group, other_rewards, segment, schema, where, drop_invalid,
        drop_duplicates, exact_propensity
            As for `from_frame`.

        Examples
        --------
        >>> import bopl
        >>> log = bopl.BanditLog.read("clicks.parquet", action="item", reward="click", propensity="p")  # doctest: +SKIP
        """
        from bopl.log.read import read_log

        request = LogRequest(
            path,
            action=action,
            reward=reward,
            propensity=propensity,
            time=time,
            group=group,
            has_propensity=has_propensity,
            context=context,
            ignore=ignore,
            categorical=categorical,
            format=format,
            rows=RowChoice.of(where, drop_invalid, drop_duplicates),
            other_rewards=other_rewards,
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

        Only footers are read, and once the columns whose footers are not sufficient: the action if
        ``actions`` is not given, text, integers and times if ``schema`` is not given, the group and the time,
        and with ``where`` or ``drop_invalid`` all columns. Files written by `to_parquet` contain most of this.

        Parameters
        ----------
        path : str or Path, or a sequence of them
            Files, folders, or patterns such as ``"days/*.parquet"``; files of a folder or a pattern are sorted.
        action, reward, propensity, has_propensity, context, ignore, categorical, actions, time, group, other_rewards,
        segment, schema, where, drop_invalid, exact_propensity
            As for `read`.
        """
        from bopl.log.pieces.scan import scan_files

        request = LogRequest(
            path,
            action=action,
            reward=reward,
            propensity=propensity,
            time=time,
            group=group,
            has_propensity=has_propensity,
            context=context,
            ignore=ignore,
            categorical=categorical,
            rows=RowChoice.of(where, drop_invalid, drop_duplicates=False),
            other_rewards=other_rewards,
            segment=segment,
            exact_propensity=exact_propensity,
        )
        return scan_files(request, actions=actions, schema=schema)

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
        from bopl.log.bandit_log import BanditLog
        from bopl.log.format.open_bandit import feedback_columns

        return BanditLog(**feedback_columns(feedback))

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

    # -- Writing ----------------------------------------------------------------------------------------------------

    def to_frame(self, backend: str | None = None) -> Any:
        """Return the log as a frame: a row per sample, with its context, action, reward and everything else.

        Categories and times are decoded. If there is an action mask, the column
        ``eligible_actions`` lists the eligible actions, and is empty where all are. Sparse contexts are one
        column of maps from the name of a feature to its value.

        Parameters
        ----------
        backend : {"pandas", "polars", "pyarrow"}, optional
            By default pandas if it is installed, else polars, else pyarrow.
        """
        from bopl._table import to_frame
        from bopl.log.frame_of import log_table

        table = log_table(cast("BanditLog", self))
        return table if backend == "pyarrow" else to_frame({name: table[name] for name in table.column_names}, backend)

    def to_parquet(self, path: str | Path) -> None:
        """Write the log to a Parquet file atomically; ``BanditLog.read(path)`` returns the same log.

        The columns are those of `to_frame`. What does not fit into columns (the schema, actions that were never taken,
        action features, where the propensities come from) is in the file's metadata.
        """
        from bopl.log.frame_of import write_log

        write_log(cast("BanditLog", self), path)
