"""Backtests: train on the past, judge on the next period, repeat; one verdict over all periods."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import clone

from bopl._progress import Hear, deprecated_listener
from bopl._typing import FloatArray
from bopl.evaluation import Evaluation
from bopl.log import BanditLog, SplitFacts
from bopl.log.drift import Drift, drift_finding
from bopl.log.log_split import Division
from bopl.race import AutoPolicy
from bopl.workflow.auditing import audit_for_training
from bopl.workflow.config import AUTO, TrainConfig
from bopl.workflow.judging import fit_reward_model, judge
from bopl.workflow.periods import PeriodPlan
from bopl.workflow.racing import race
from bopl.workflow.reading import describe_log, read_training_log
from bopl.workflow.run_folder import StepClock
from bopl.workflow.training import boost

logger = logging.getLogger(__name__)
Fit = Callable[[BanditLog], tuple[Any, bool]]
NOTE = (
    "This judges the way of training, with retraining before every period: each sample by the policy trained before it."
)


@dataclass(frozen=True)
class Period:
    """One period of a backtest.

    Attributes
    ----------
    split : SplitFacts
        The training and judging samples.
    evaluation : Evaluation
        Evaluation of the policy trained before, on the samples of this period.
    about : str
        Description of the training.
    drift : tuple of Drift
        Columns in which the judged samples differ from the training samples, the most different first.
    """

    split: SplitFacts
    evaluation: Evaluation
    about: str = ""
    drift: tuple[Drift, ...] = ()

    @property
    def row(self) -> Mapping[str, Any]:
        """The row of the primary estimator."""
        return _deciding(self.evaluation)

    def to_dict(self) -> dict[str, Any]:
        """Return the period as plain values."""
        facts = {"split": self.split.to_dict(), "about": self.about, "evaluation": self.evaluation.to_dict()}
        return facts | {"drift": [one.to_dict() for one in self.drift]}


@dataclass(frozen=True)
class Backtest:
    """Result of a backtest; ``print`` shows the periods and the verdict.

    Attributes
    ----------
    periods : tuple of Period
    evaluation : Evaluation
        Over the samples of all periods, each judged by the policy trained before it, as if it were one policy.
    is_interrupted : bool
        Whether Ctrl-C ended it before the last period.
    """

    periods: tuple[Period, ...]
    evaluation: Evaluation
    is_interrupted: bool = False

    @property
    def row(self) -> Mapping[str, Any]:
        """The verdict of the primary estimator over all periods, with its reason."""
        return _deciding(self.evaluation)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values."""
        return {
            "verdict": self.row["verdict"],
            "estimator": self.row["estimator"],
            "reason": self.row["reason"],
            "periods": [period.to_dict() for period in self.periods],
            "evaluation": self.evaluation.to_dict(),
            "is_interrupted": self.is_interrupted,
        }

    def __str__(self) -> str:
        lines = []
        for number, period in enumerate(self.periods, 1):
            row = period.row
            bounds = f"[{row['uplift_ci_lower']:+.4g}, {row['uplift_ci_upper']:+.4g}]"
            lines.append(f"{number}. {period.split.test.text}: {row['uplift']:+.4g} {bounds}, {row['verdict']}")
        return "\n".join([*lines, f"All: {self.row['verdict']} ({self.row['estimator']}). {self.row['reason']}"])


def backtest(
    log: BanditLog,
    policy: Any = None,
    *,
    n_periods: int | None = None,
    every: Any = None,
    window: Any = None,
    estimators: Sequence[str] | None = None,
    interval: str = "normal",
    confidence: float = 0.95,
    random_state: int = 0,
    n_jobs: int | None = None,
    say: Hear | None = None,
) -> Backtest:
    """Train on the past, judge on the next period, and repeat.

    Parameters
    ----------
    log : BanditLog
        A log with ``time``. Groups with samples in a period are left out of its training part.
    policy : unfitted policy, optional
        A copy is fitted before every period; `bopl.AutoPolicy` by default.
    n_periods, every, window : optional
        How to divide the log, see `bopl.workflow.periods.PeriodPlan`: 4 periods with equally many samples by default,
        or periods of a length such as ``every="7d"``; ``window`` limits how far back training goes.
    estimators, interval, confidence, n_jobs
        As for `bopl.evaluate`. The reward model of a period is fitted on its training part.
    random_state : int, default=0
        Seed of the default policy, of reward models and of the bootstrap.
    say : callable, optional
        Deprecated: what is said before and after every period's training goes to `logging`.

    Examples
    --------
    >>> import numpy as np, bopl
    >>> from bopl.workflow.backtest import backtest
    >>> rng = np.random.default_rng(0)
    >>> context, action = rng.normal(size=(1200, 2)), rng.integers(0, 2, size=1200)
    >>> reward = (action == (context[:, 0] > 0)).astype(float)
    >>> log = bopl.BanditLog(context, action, reward, np.full(1200, 0.5), time=np.arange(1200))
    >>> result = backtest(log, bopl.BoostedPolicy("ips", n_rounds=5, progress=False, random_state=0), n_periods=2)
    >>> result.row["verdict"], [period.split.test.n_samples for period in result.periods]
    ('better', [400, 400])
    """
    log.require_propensity()
    unfitted = AutoPolicy(progress=False, n_jobs=n_jobs, random_state=random_state) if policy is None else policy
    config = TrainConfig(
        log="log",
        estimators=None if estimators is None else tuple(estimators),
        interval=interval,
        confidence=confidence,
        random_state=random_state,
        n_jobs=n_jobs,
    ).check()
    divisions = PeriodPlan(n_periods, every, window).divide(log)
    with deprecated_listener("say", say):
        return _roll(log, divisions, lambda part: (clone(unfitted).fit(part), False), config)


def backtest_file(config: TrainConfig, plan: PeriodPlan, *, progress: bool = False) -> Backtest:
    """Backtest ``bopl train`` on a log in a file.

    ``minutes`` of the settings is divided among the periods; ``holdout`` and ``out`` are not used. Progress is shown if
    standard error is a terminal.
    """
    config.check_objective()
    log = read_training_log(config)
    logger.info(describe_log(log, config.paths))
    divisions = plan.divide(log)
    log = audit_for_training(log, config).log
    share = None if config.minutes is None else config.minutes / len(divisions)
    each = replace(config, minutes=share)

    def fit(part: BanditLog) -> tuple[Any, bool]:
        if each.objective == AUTO:
            return race(each, part, StepClock(), progress=progress, level=logging.DEBUG)
        return boost(each, part, 0, StepClock(), progress, level=logging.DEBUG)

    return _roll(log, divisions, fit, each)


def _deciding(evaluation: Evaluation) -> Mapping[str, Any]:
    """Return the row of the primary estimator, with the verdict that follows from all results."""
    row = next(row for row in evaluation.rows if row["policy"] == "policy" and row["is_primary"])
    return {**row, **evaluation.decision("policy")}


def _roll(log: BanditLog, divisions: Sequence[Division], fit: Fit, config: TrainConfig) -> Backtest:
    """Train and judge period by period, and then judge all of them together."""
    periods: list[Period] = []
    judged: list[_Judged] = []
    is_interrupted = False
    for number, division in enumerate(divisions, 1):
        train, test = parts = division.split(log)
        logger.info(f"Period {number} of {len(divisions)}. {parts.facts.sentence}")
        drift = parts.drift()
        if drift:
            logger.warning(f"Drift: {drift_finding(drift).sentence}")
        try:
            policy, is_interrupted = fit(train)
        except KeyboardInterrupt:
            if not judged:
                raise
            is_interrupted = True
            break
        about = _about(policy)
        if about:
            logger.info(about)
        judged.append(_probabilities(policy, fit_reward_model(train, config), test, division))
        periods.append(Period(parts.facts, judged[-1].judge(log, config), about, drift))
        if is_interrupted:
            logger.warning("Interrupted: the verdict is on the periods so far.")
            break
    return Backtest(tuple(periods), _joined(judged).judge(log, config), is_interrupted)


@dataclass(frozen=True)
class _Judged:
    """Rows of a log, with probabilities of policies and predictions of reward models, all trained on earlier rows."""

    rows: Any
    action_prob: FloatArray
    reward_hat: FloatArray | None

    def judge(self, log: BanditLog, config: TrainConfig) -> Evaluation:
        """Evaluate the policies on the rows, as if they were one."""
        evaluation = judge(log.subset(self.rows), self.action_prob, config, self.reward_hat)
        return replace(evaluation, notes=(*evaluation.notes, NOTE))


def _probabilities(policy: Any, reward_model: Any, test: BanditLog, division: Division) -> _Judged:
    masked = {} if test.action_mask is None else {"action_mask": test.action_mask}
    reward_hat = None if reward_model is None else reward_model.predict(test.context)
    return _Judged(division.test, policy.predict_proba(test.context, **masked), reward_hat)


def _joined(parts: Sequence[_Judged]) -> _Judged:
    has_model = all(part.reward_hat is not None for part in parts)
    return _Judged(
        np.concatenate([part.rows for part in parts]),
        np.concatenate([part.action_prob for part in parts]),
        np.concatenate([part.reward_hat for part in parts if part.reward_hat is not None]) if has_model else None,
    )


def _about(policy: Any) -> str:
    """Return the verdict of the race on its winner; nothing if there was no race."""
    board = getattr(policy, "leaderboard_", None)
    return "" if board is None else str(board.verdict)
