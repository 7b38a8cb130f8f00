"""`TrainConfig`: all settings of a run; every setting is a key of the TOML file and a flag of the command.

Nothing heavy is imported here: the command makes its flags from these settings before it parses its arguments.
"""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bopl._errors import UsageError, checking_usage, did_you_mean
from bopl._settings import check_choice, check_jobs, check_number

if TYPE_CHECKING:
    from bopl.evaluation.question import Guard
    from bopl.log.request import LogRequest

AUTO = "auto"
ALL = "all"
ASSUMPTIONS = ("estimate", "uniform")
OBJECTIVES = (AUTO, "dr", "ips", "surrogate")
STARTS = ("uniform", "reward_model", "logging", "logging+reward_model")
SMOOTHNESS = ("sharp", "paper")
INTERVALS = ("normal", "bootstrap", "empirical_bernstein", "log_smoothing", "betting")
FORMATS = ("parquet", "csv", "arrow", "jsonl", "vw", "dsjson", "obd")

#: Former names of settings and flags, from before they had the names of the parameters.
RENAMED = {
    "rounds": "n_rounds",
    "seed": "random_state",
    "threads": "n_jobs",
    "early_stopping": "early_stopping_rounds",
    "validation": "validation_fraction",
}
# The race chooses the settings of a single objective itself, and a single objective has no candidates.
SINGLE_SETTINGS = (
    "n_rounds",
    "max_depth",
    "min_leaf_samples",
    "colsample",
    "reg_lambda",
    "learning_rate",
    "weight",
    "smoothness",
    "start",
    "reward_translation",
    "early_stopping_rounds",
)
RACE_SETTINGS = ("include", "exclude")


def _about(
    help: str, default: Any = None, section: str = "", choices: tuple[str, ...] = (), group: str | None = None
) -> Any:
    """Declare a setting: its help, its default, the heading that it begins in a file, and the values that it may have.

    ``group`` names the entry points by which installed packages offer further values.
    """
    return field(default=default, metadata={"help": help, "section": section, "choices": choices, "group": group})


@dataclass(frozen=True)
class TrainConfig:
    """Settings of a run; every field is a key of the TOML file and a flag of ``bopl train``."""

    log: str = _about("File, folder or pattern with the logged decisions.", "", section="The log")
    more_logs: tuple[str, ...] = _about("Further files of the same log, in order, separated by commas.", ())
    memory: str | None = _about(
        "Memory that the log may take, such as 4GB; a larger log is read in pieces. Half of the free memory by default."
    )
    cluster: str | None = _about("Address of a Dask scheduler whose workers read the log in pieces: tcp://….")
    action: str | None = _about("Column with the action that was taken.")
    reward: str | None = _about("Column with the reward that the action earned; higher is better.")
    propensity: str | None = _about("Column with the probability with which the action was chosen.")
    assume_propensity: str | None = _about(
        "For a log without propensities: estimate (fit a model of the logging policy) or uniform.", choices=ASSUMPTIONS
    )
    exact_propensity: bool = _about(
        "Treat propensities as exact, however few digits they have: do not widen intervals for rounding.", False
    )
    time: str | None = _about("Column with the time of the decision; the latest samples are then held out.")
    group: str | None = _about("Column with the group of a sample, such as its user; a split never divides a group.")
    context: tuple[str, ...] | None = _about("Context columns, separated by commas; all other columns by default.")
    ignore: tuple[str, ...] = _about("Columns to leave out, separated by commas.", ())
    categorical: tuple[str, ...] = _about("Numeric columns that are categories; text always is.", ())
    keep: tuple[str, ...] = _about(
        "Columns to keep even if they seem to leak what happened after the decision, separated by commas.", ()
    )
    format: str | None = _about(
        "Format of the files, if the extension does not show it.", choices=FORMATS, group="bopl.formats"
    )
    where: str | None = _about("Condition on the rows to read, such as \"country == 'DE' and day >= 3\".")
    drop_invalid: bool = _about("Drop rows with missing or impossible values, and count them.", False)
    drop_duplicates: tuple[str, ...] = _about(
        "Keep the first of the rows that agree in these columns, separated by commas; all compares every used column.",
        (),
    )

    objective: str = _about(
        "auto races candidates and trains the best; dr, ips (BOPL) or surrogate (BOPL-S) trains that objective alone.",
        AUTO,
        section="The policy",
        choices=OBJECTIVES,
        group="bopl.objectives",
    )
    include: tuple[str, ...] | None = _about("Candidates that may race, separated by commas; all by default.")
    exclude: tuple[str, ...] = _about("Candidates that may not race, separated by commas.", ())
    minutes: float | None = _about("Approximate time limit of the race, or of the boosting.")
    inverse_temperature: float | None = _about(
        "How sharply the policy acts: the factor of its scores before the softmax. 0 is uniform, inf always takes the "
        "best action; as trained by default."
    )

    n_rounds: int = _about("Maximum number of boosting rounds.", 100, section="A single objective")
    max_depth: int = _about("Maximum depth of the trees.", 12)
    min_leaf_samples: float = _about("Minimum weight of a leaf, in typical samples.", 20.0)
    colsample: float = _about("Share of the context columns drawn for each node.", 0.5)
    reg_lambda: float = _about("Ridge penalty on the leaves.", 0.0)
    learning_rate: float = _about("Share of the certified step to take in every round.", 1.0)
    weight: str = _about(
        "How propensities weight rewards: plain, or regularised, such as clipped:0.05.", "plain", group="bopl.weights"
    )
    smoothness: str = _about("Curvature of the objective: sharp, or the paper's.", "sharp", choices=SMOOTHNESS)
    start: str | None = _about(
        "Where boosting starts: uniform, reward_model, logging or logging+reward_model; the last by default for dr, "
        "otherwise uniform.",
        choices=STARTS,
    )
    reward_translation: float | str = _about(
        "Constant added to every reward; auto chooses it on validation samples, and is 0 for dr, which needs none.",
        AUTO,
    )
    early_stopping_rounds: int = _about("Stop after this many rounds without a better validation value.", 30)

    holdout: float = _about("Share of the log to hold out for the verdict.", 0.2, section="The verdict")
    validation_fraction: float = _about(
        "Share of the rest that judges the race, or chooses rounds and reward translation.", 0.25
    )
    force: bool = _about("Train even if the audit finds problems.", False)
    estimators: tuple[str, ...] | None = _about(
        "Estimators, separated by commas; all by default; in evaluate, snips, ips and dr. The verdict is that of the "
        "one with the lowest priority number: dr, among the built-in ones.",
        group="bopl.estimators",
    )
    interval: str = _about(
        "Kind of interval: normal, bootstrap, or a bound.", "normal", choices=INTERVALS, group="bopl.intervals"
    )
    confidence: float = _about("Confidence level of the intervals.", 0.95)
    confounding: bool = _about(
        "Report how strong an unmeasured cause must be to overturn the verdict; always on for estimated propensities.",
        False,
    )
    min_uplift: str | float = _about(
        "Minimum uplift of interest, per decision (0.001) or as a share of what is earned now (1%).",
        0.0,
    )
    guard: tuple[str, ...] = _about(
        "Guardrails: other rewards that must not get worse, such as 'revenue>=-1%'; separate them by commas or repeat "
        "the flag.",
        (),
    )
    segment: str | None = _about("Column whose values get separate answers.")

    random_state: int = _about("Seed of the random numbers.", 0, section="The run")
    n_jobs: int | None = _about("Number of threads; all processors by default. The policy does not depend on it.")
    out: str = _about("Policy file; the .run folder beside it holds the report and everything else.", "policy.bopl")

    @property
    def paths(self) -> str | tuple[str, ...]:
        """The path of the log, or several."""
        return (self.log, *self.more_logs) if self.more_logs else self.log

    def request(self) -> LogRequest:
        """Return the request to read the log."""
        from bopl.log.cleaning import RowChoice
        from bopl.log.request import LogRequest
        from bopl.log.schema import ROLES

        return LogRequest(
            self.paths,
            **{role: getattr(self, role) for role in ROLES},
            has_propensity=self.assume_propensity is None,
            context=self.context,
            ignore=self.ignore,
            categorical=self.categorical,
            format=self.format,
            rows=RowChoice.of(self.where, self.drop_invalid, self.drop_duplicates == (ALL,) or self.drop_duplicates),
            other_rewards=[guard.reward for guard in self.guards],
            segment=self.segment,
            exact_propensity=self.exact_propensity,
        )

    @property
    def guards(self) -> tuple[Guard, ...]:
        """The parsed guards."""
        if not self.guard:
            return ()
        from bopl.evaluation.question import parse_guards

        return parse_guards(self.guard)

    def check(self) -> TrainConfig:
        """Return the settings, or raise an error about the first invalid one."""
        with checking_usage():
            _check(self)
        return self

    def check_objective(self) -> None:
        """Raise an error if a setting would have no effect on this kind of training."""
        is_race = self.objective == AUTO
        defaults = {entry.name: entry.default for entry in fields(self)}
        for name in SINGLE_SETTINGS if is_race else RACE_SETTINGS:
            if getattr(self, name) != defaults[name]:
                needed = "dr, ips or surrogate" if is_race else AUTO
                what = "the race chooses its own settings" if is_race else "a single objective has no candidates"
                raise UsageError(f"{name} has no effect here: {what}. Leave it out, or set objective to {needed}.")

    def absolute(self) -> TrainConfig:
        """Return the settings with absolute paths."""
        # Resolving the log's path would lose the meaning of a pattern.
        log, *more = (
            path if os.path.isabs(path) else os.path.join(os.getcwd(), path) for path in (self.log, *self.more_logs)
        )
        return replace(self, log=log, more_logs=tuple(more), out=os.path.abspath(self.out))

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as plain values."""
        values = {entry.name: getattr(self, entry.name) for entry in fields(self)}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}

    def to_toml(self) -> str:
        """Return the settings as TOML that `read_config` reads."""
        headings = {entry.name: entry.metadata["section"] for entry in fields(self) if entry.metadata["section"]}
        return to_toml(self.to_dict(), headings)


def read_config(path: str | Path | None) -> dict[str, Any]:
    """Return the settings of a TOML file, after checking that its keys are known; none if there is no file."""
    if path is None:
        return {}
    file = Path(path)
    if not file.is_file():
        raise FileNotFoundError(f"there is no configuration file {str(path)!r}; check the path.")
    return read_toml(file, TrainConfig, RENAMED)


def make_config(*sources: Mapping[str, Any]) -> TrainConfig:
    """Return the settings of several sources, where later ones take precedence; None leaves a setting as it was."""
    given = {name: value for source in sources for name, value in source.items() if value is not None}
    lists = {name: tuple(value) for name, value in given.items() if isinstance(value, list | tuple)}
    return replace(TrainConfig(), **(given | lists)).check()


_KINDS: tuple[tuple[tuple[str, ...], Any, str], ...] = (
    (("log", "objective", "weight", "smoothness", "interval", "out"), str, "text"),
    (("where", "memory", "cluster"), str | None, "text"),
    (("action", "reward", "propensity", "time", "group", "segment"), str | None, "the name of a column"),
    (("force", "confounding", "drop_invalid", "exact_propensity"), bool, "true or false"),
)
_NAMES = "more_logs context ignore categorical keep drop_duplicates include exclude estimators guard"


def _check(config: TrainConfig) -> None:
    if not config.log:
        raise UsageError(
            "there is no log to read: name a file, as in `bopl train log.parquet`, or set log in the file."
        )
    _check_kinds(config)
    check_choice("smoothness", config.smoothness, SMOOTHNESS)
    if config.start is not None:
        check_choice("start", config.start, STARTS)
    if config.assume_propensity is not None:
        check_choice("assume_propensity", config.assume_propensity, ASSUMPTIONS)
        if config.propensity is not None:
            raise UsageError("propensity and assume_propensity exclude each other: give only one of them.")
    if isinstance(config.reward_translation, str) and config.reward_translation != AUTO:
        raise TypeError(f"reward_translation must be a number or {AUTO}; got {config.reward_translation!r}.")
    if config.reward_translation != AUTO:
        check_number("reward_translation", config.reward_translation, low_open=True, high_open=True)
    _check_ranges(config)
    if config.where is not None:
        from bopl.log.where import Where

        Where.parse(config.where)
    _check_names(config)
    _check_estimators(config)


def _check_kinds(config: TrainConfig) -> None:
    """Raise if a setting is not of its kind."""
    for names, kind, wanted in _KINDS:
        for name in names:
            if not isinstance(getattr(config, name), kind):
                raise TypeError(f"{name} must be {wanted}; got {getattr(config, name)!r}.")
    for name in _NAMES.split():
        value = getattr(config, name)
        if value is not None and not (isinstance(value, tuple) and all(isinstance(one, str) for one in value)):
            raise TypeError(f"{name} must be a list of names; got {value!r}.")


def _check_ranges(config: TrainConfig) -> None:
    """Raise if a number is out of range."""
    for name in ("n_rounds", "max_depth", "early_stopping_rounds"):
        check_number(name, getattr(config, name), low=1, integer=True)
    check_number("random_state", config.random_state, low=0, integer=True)
    for name in ("colsample", "learning_rate"):
        check_number(name, getattr(config, name), low=0.0, high=1.0, low_open=True)
    for name in ("min_leaf_samples", "reg_lambda"):
        check_number(name, getattr(config, name), low=0.0)
    for name in ("holdout", "validation_fraction", "confidence"):
        check_number(name, getattr(config, name), low=0.0, high=1.0, low_open=True, high_open=True)
    if config.minutes is not None:
        check_number("minutes", config.minutes, low=0.0, low_open=True)
    if config.inverse_temperature is not None:
        check_number("inverse_temperature", config.inverse_temperature, low=0.0)
    check_jobs(config.n_jobs)


def _check_names(config: TrainConfig) -> None:
    """Raise if an objective, weight or candidate is unknown; import their registries only if necessary."""
    if config.objective not in OBJECTIVES:
        from bopl.objective.registry import OBJECTIVES as KNOWN

        check_choice("objective", config.objective, tuple(dict.fromkeys([*OBJECTIVES, *KNOWN])))
    if config.weight != "plain":
        from bopl.objective.registry import make_objective, parse_weight

        weight = parse_weight(config.weight)
        if config.objective != AUTO:
            make_objective(config.objective, weight=weight, smoothness=config.smoothness)
    if config.include is not None or config.exclude:
        from bopl.race.candidate import choose

        choose(config.include, config.exclude)


def _check_estimators(config: TrainConfig) -> None:
    """Raise if an estimator is unknown or has no interval of this kind: hours later would be too late."""
    from bopl.evaluation.estimator_registry import get_estimators
    from bopl.evaluation.interval_registry import get_interval
    from bopl.evaluation.question import ask

    interval = get_interval(config.interval, config.confidence)
    ask(["policy"], min_uplift=config.min_uplift, guards=config.guard).check(interval)
    for estimator in get_estimators(config.estimators, interval, has_reward_model=True):
        interval.check(estimator, has_group=config.group is not None, source="logged")


def read_toml(file: Path, kind: type, renamed: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return the settings in a file, after checking that they are fields of a record; ``renamed`` has former names."""
    try:
        found = tomllib.loads(file.read_text(encoding="utf8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{str(file)!r} is not valid TOML: {error}.") from None
    known = [entry.name for entry in fields(kind)]
    for name in found:
        if name in (renamed or {}):
            raise UsageError(f"{str(file)!r} sets {name!r}, which is now called {(renamed or {})[name]!r}.")
        if name not in known:
            raise UsageError(f"{str(file)!r} sets {name!r}, which is not a setting.{did_you_mean(name, known)}")
    return found


def to_toml(values: Mapping[str, Any], headings: Mapping[str, str]) -> str:
    """Return ``key = value`` lines; None is left out, and a key in ``headings`` gets a comment before it."""
    lines: list[str] = []
    for name, value in values.items():
        if name in headings:
            lines += ([""] if lines else []) + [f"# {headings[name]}"]
        if value is not None:
            lines.append(f"{name} = {_value(value)}")
    return "\n".join(lines) + "\n"


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return repr(value)  # inf, nan and all finite numbers are TOML as they are
    if isinstance(value, str):
        # JSON's escapes are TOML's, but for the delete character, which TOML wants escaped.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, list | tuple):
        return f"[{', '.join(_value(one) for one in value)}]"
    raise TypeError(f"{value!r} of type {type(value).__name__} cannot be written to a TOML file.")
