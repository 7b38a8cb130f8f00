"""`LoopSettings`: all that a loop is told, from the ``loop.toml`` of its folder.

Nothing heavy is imported here: the command reads the settings before it knows what is asked.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from bopl._errors import UsageError, checking_usage, did_you_mean
from bopl._settings import check_choice, check_number
from bopl.workflow.config import TrainConfig, read_toml, to_toml

SERVE, APPRENTICE = "serve", "apprentice"
MODES = (SERVE, APPRENTICE)
COMBINATIONS = ("sum", "first", "last")
TRAIN = "train"
# What the loop itself says to a training run: the joined log, its columns, and where the policy goes.
OWN_TRAIN_SETTINGS = ("log", "action", "reward", "propensity", "time", "format", "out", "holdout", "min_uplift")


def _about(help: str, default: Any, section: str = "") -> Any:
    """Declare a setting: what it means, its default, and the heading it begins in the file."""
    return field(default=default, metadata={"help": help, "section": section})


@dataclass(frozen=True)
class LoopSettings:
    """Settings of a loop; every field is a key of ``loop.toml``."""

    mode: str = _about(
        "serve: the loop decides. apprentice: the caller decides, and the loop records what it would have done.",
        SERVE,
        section="Deciding",
    )
    actions: tuple[str | int, ...] = _about(
        "The actions, needed only while there is no policy: a policy knows its own.", ()
    )
    exploration: float = _about("Share of the decisions that is made uniformly at random.", 0.05)
    min_propensity: float = _about("Minimum probability of every eligible action.", 0.001)
    time_budget_ms: float = _about("Milliseconds after which the baseline decides instead of the policy.", 50.0)
    random_state: int | None = _about("Seed of the draws; a secret one is drawn when the loop is created.", None)

    host: str = _about("Address to listen on; 0.0.0.0 for all, which needs a token.", "127.0.0.1", section="Listening")
    port: int = _about("Port to listen on.", 8380)
    token_file: str | None = _about(
        "File with the bearer token that requests must carry; the variable BOPL_TOKEN does the same.", None
    )
    allowed_hosts: tuple[str, ...] = _about(
        "Names that requests may be sent to, besides host, localhost and IP addresses; without a token, others are "
        "refused.",
        (),
    )
    max_body_bytes: int = _about("Maximum size of a request; larger ones are refused.", 65_536)
    max_requests_per_second: float = _about(
        "Maximum rate of requests from one address; more are refused. 0 for no limit.", 0.0
    )
    max_connections: int = _about("Maximum number of simultaneous connections; more are refused.", 512)
    request_timeout_s: float = _about("Seconds within which a request must arrive completely.", 5.0)
    max_events_mb: int = _about("Maximum size of events.db; 0 for no limit.", 0)

    reward_window_s: float = _about(
        "Seconds after a decision during which rewards count; later ones are kept, but never trained on.",
        3600.0,
        section="Joining",
    )
    default_reward: float = _about("Reward of a decision for which none arrived.", 0.0)
    reward_range: tuple[float, float] = _about(
        "Range of the reward of a decision; the bounds on a running policy rely on it.", (0.0, 1.0)
    )
    reward_combination: str = _about("How to combine several rewards of one decision: sum, first or last.", "sum")
    needs_activation: bool = _about("Leave decisions that were never activated out of the log.", False)

    min_uplift: float | str = _about(
        "Smallest uplift worth a promotion, per decision (0.001) or as a share of what is earned now (1%).",
        0.0,
        section="Learning",
    )
    confidence: float = _about("Confidence level of verdicts and bounds.", 0.95)
    holdout: float = _about("Share of the joined log, its newest part, on which a new policy is judged.", 0.3)
    min_decisions: int = _about("Joined decisions needed before a policy is trained or judged.", 1000)
    ramp: tuple[float, ...] = _about(
        "Shares of the traffic that a new policy gets, one after the other, each after its own verdict.",
        (0.01, 0.1, 0.5, 1.0),
    )
    max_ramp_decisions: int = _about(
        "Joined decisions after which a ramp without a verdict ends; all traffic returns to what ran before.",
        100_000,
    )
    train: Mapping[str, Any] = field(
        default_factory=dict, metadata={"help": "Settings of `bopl train`.", "section": "[train]"}
    )

    def check(self) -> LoopSettings:
        """Return the settings, or raise one sentence about the first that is out of range."""
        with checking_usage():
            _check(self)
        return self

    @property
    def is_local(self) -> bool:
        """Whether nobody outside this machine can reach the address."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    def to_toml(self) -> str:
        """Return a ``loop.toml`` that says what every setting means; those that are unset are comments."""
        lines: list[str] = []
        for entry in fields(self):
            if entry.name == TRAIN:
                continue
            if entry.metadata["section"]:
                lines += ["", f"# -- {entry.metadata['section']} --"]
            lines.append(f"# {entry.metadata['help']}")
            value = getattr(self, entry.name)
            lines.append(f"# {entry.name} =" if value in (None, ()) else to_toml({entry.name: value}, {}).rstrip("\n"))
        lines += ["", "# -- Settings of `bopl train` for the training of new policies --", f"[{TRAIN}]"]
        return "\n".join(lines).lstrip("\n") + "\n" + (to_toml(self.train, {}) if self.train else "# minutes = 10\n")


def read_settings(path: str | Path) -> LoopSettings:
    """Return the settings of a ``loop.toml``, checked."""
    file = Path(path)
    if not file.is_file():
        raise FileNotFoundError(
            f"there is no {file.name!r} in {str(file.parent)!r}: it is not the folder of a loop; make one with "
            "`bopl serve FOLDER --init`."
        )
    given = _with_tuples(read_toml(file, LoopSettings))
    if isinstance(given.get(TRAIN), dict):
        given[TRAIN] = MappingProxyType(_with_tuples(given[TRAIN]))
    try:
        return replace(LoopSettings(), **given).check()
    except UsageError as error:
        raise UsageError(f"{str(path)!r}: {error}") from None


def _with_tuples(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}


def _check(settings: LoopSettings) -> None:
    check_choice("mode", settings.mode, MODES)
    check_choice("reward_combination", settings.reward_combination, COMBINATIONS)
    _check_actions(settings.actions)
    check_number("exploration", settings.exploration, low=0.0, high=1.0)
    check_number("min_propensity", settings.min_propensity, low=0.0, high=0.5)
    if settings.exploration == 0.0 and settings.min_propensity == 0.0:
        raise ValueError(
            "exploration and min_propensity must not both be 0: actions that are never tried cannot be learned about."
        )
    if settings.random_state is not None:
        check_number("random_state", settings.random_state, low=0, high=2**63 - 1, integer=True)
    _check_listening(settings)
    check_number("reward_window_s", settings.reward_window_s, low=0.0, high=1e9, low_open=True)
    if not isinstance(settings.reward_range, tuple) or len(settings.reward_range) != 2:
        raise TypeError(f"reward_range must be two numbers, as in [0.0, 1.0]; got {settings.reward_range!r}.")
    for end in settings.reward_range:
        check_number("each end of reward_range", end, low_open=True, high_open=True)
    lowest, highest = settings.reward_range
    if not lowest < highest:
        raise ValueError(f"reward_range must rise, as in [0.0, 1.0]; got {list(settings.reward_range)!r}.")
    check_number("default_reward", settings.default_reward, low_open=True, high_open=True)
    if not lowest <= settings.default_reward <= highest:
        raise ValueError(
            f"default_reward must lie in reward_range, from {lowest:g} to {highest:g}; got {settings.default_reward!r}."
        )
    if not isinstance(settings.needs_activation, bool):
        raise TypeError(f"needs_activation must be true or false; got {settings.needs_activation!r}.")
    if not isinstance(settings.min_uplift, str):
        check_number("min_uplift", settings.min_uplift, low=0.0)
    for name in ("confidence", "holdout"):
        check_number(name, getattr(settings, name), low=0.0, high=1.0, low_open=True, high_open=True)
    for name in ("min_decisions", "max_ramp_decisions"):
        check_number(name, getattr(settings, name), low=1, integer=True)
    _check_ramp(settings.ramp)
    _check_train(settings.train)


def _check_listening(settings: LoopSettings) -> None:
    for name in ("host", "token_file"):
        value = getattr(settings, name)
        if not isinstance(value, str) and not (name == "token_file" and value is None):
            raise TypeError(f"{name} must be text; got {value!r}.")
    hosts = settings.allowed_hosts
    if not isinstance(hosts, tuple) or not all(isinstance(one, str) and one for one in hosts):
        raise TypeError(f"allowed_hosts must be a list of names, as in ['shop.example.org']; got {hosts!r}.")
    check_number("port", settings.port, low=0, high=65_535, integer=True)
    for name in ("time_budget_ms", "request_timeout_s"):
        check_number(name, getattr(settings, name), low=0.0, high=1e6, low_open=True)
    check_number("max_body_bytes", settings.max_body_bytes, low=256, high=2**30, integer=True)
    check_number("max_requests_per_second", settings.max_requests_per_second, low=0.0)
    check_number("max_connections", settings.max_connections, low=1, high=65_535, integer=True)
    check_number("max_events_mb", settings.max_events_mb, low=0, high=2**24, integer=True)


def _check_actions(actions: object) -> None:
    if not isinstance(actions, tuple) or not all(type(one) in (str, int) for one in actions):
        raise TypeError(f"actions must be a list of texts or integers; got {actions!r}.")
    if len({(type(one), one) for one in actions}) < len(actions):
        raise ValueError(f"actions must differ from each other; got {list(actions)!r}.")
    if len({type(one) for one in actions}) > 1:
        raise TypeError(f"actions must be all texts or all integers; got {list(actions)!r}.")


def _check_ramp(ramp: object) -> None:
    if not isinstance(ramp, tuple) or not ramp:
        raise TypeError(f"ramp must be a list of shares; got {ramp!r}.")
    for share in ramp:
        check_number("each share of ramp", share, low=0.0, high=1.0, low_open=True)
    if list(ramp) != sorted(set(ramp)) or ramp[-1] != 1.0:
        raise ValueError(f"ramp must rise to 1.0, as in [0.01, 0.1, 0.5, 1.0]; got {list(ramp)!r}.")


def _check_train(train: object) -> None:
    if not isinstance(train, Mapping):
        raise TypeError(f"train must be a table, as in [train]; got {train!r}.")
    known = [entry.name for entry in fields(TrainConfig)]
    for name in train:
        if name in OWN_TRAIN_SETTINGS:
            raise UsageError(f"train.{name} cannot be set here: the loop sets it itself.")
        if name not in known:
            raise UsageError(f"train.{name} is not a setting of `bopl train`.{did_you_mean(name, known)}")
