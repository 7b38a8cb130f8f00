"""`Track`: logs a fit, and the results of its policy, to an MLflow run."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from bopl._settings import check_number
from bopl.boosting import Callback, CallbackAction
from bopl.boosting.callback import BoostingState
from bopl.evaluation import Evaluation
from bopl.mlflow.model import ID_TAG, _import_mlflow, log_policy
from bopl.report import render_page

VERDICT_TAG = "bopl.verdict"
STOP_TAG = "bopl.stop_reason"
MAX_BATCH = 1000  # metrics that MLflow accepts at once
MAX_VALUE = 500  # characters of a parameter
ESTIMATES = ("value", "ci_lower", "ci_upper", "uplift", "uplift_ci_lower", "uplift_ci_upper", "ess")
FINISHED, FAILED = "FINISHED", "FAILED"


class Track(Callback):
    """Log a fit to MLflow: its settings as parameters, its rounds as metrics; then policy, verdict and report.

    As a callback of a fit it logs to the active run, or to a new one that ends with the fit. In a ``with`` block
    everything goes to one run.

    Parameters
    ----------
    every : int, default=10
        Number of rounds whose metrics are sent together.

    Examples
    --------
    ::

        with bopl.mlflow.Track() as track:
            policy = bopl.BoostedPolicy(random_state=0).fit(train, callbacks=[track])
            track.policy(policy)
            track.evaluation(bopl.evaluate(test, policy))
    """

    def __init__(self, every: int = 10) -> None:
        check_number("every", every, low=1, integer=True)
        self.every = every
        self._mlflow: Any = None
        self._run_id: str | None = None
        self._owns_run = False
        self._is_open = False  # within a with block
        self._waiting: list[Any] = []

    # -- The run --------------------------------------------------------------------------------------------------

    @property
    def run_id(self) -> str:
        """Id of the run."""
        if self._run_id is None:
            self._begin()
        assert self._run_id is not None
        return self._run_id

    def __enter__(self) -> Self:
        self._begin()
        self._is_open = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_open = False
        self._end(FINISHED if kind is None else FAILED)

    def _begin(self) -> None:
        if self._run_id is not None:
            return
        self._mlflow = _import_mlflow()
        active = self._mlflow.active_run()
        self._owns_run = active is None
        self._run_id = (self._mlflow.start_run() if active is None else active).info.run_id

    def _end(self, status: str) -> None:
        self._send()
        if self._owns_run and self._run_id is not None:
            self._mlflow.end_run(status)
        self._run_id, self._owns_run = None, False

    @property
    def _client(self) -> Any:
        return self._mlflow.MlflowClient()

    # -- A fit ----------------------------------------------------------------------------------------------------

    def on_start(self, state: BoostingState) -> None:
        """Log the settings, and the rounds before a resume."""
        self._begin()
        facts = {"n_rounds": state.n_rounds, "n_samples": state.log.n_samples, "n_actions": state.log.n_actions}
        self._log_params({**facts, **dict(_flat(state.settings))})
        for record in state.records:
            self._note(record)

    def __call__(self, state: BoostingState) -> CallbackAction:
        """Log the round, together with some others."""
        self._note(state.records[-1])
        if len(state.records) % self.every == 0:
            self._send()
        return CallbackAction.CONTINUE

    def on_end(self, state: BoostingState) -> None:
        """Log the rest; end the run if it began with the fit."""
        self._send()
        if not self._is_open:
            self._end(FINISHED)

    def _note(self, record: Mapping[str, float]) -> None:
        from mlflow.entities import Metric

        now, step = int(1000 * time.time()), int(record["round"])
        self._waiting += [
            Metric(name, float(value), now, step)
            for name, value in record.items()
            if name != "round" and math.isfinite(value)
        ]

    def _send(self) -> None:
        waiting, self._waiting = self._waiting, []
        for start in range(0, len(waiting), MAX_BATCH):
            self._client.log_batch(self.run_id, metrics=waiting[start : start + MAX_BATCH])

    def _log_params(self, params: Mapping[str, Any]) -> None:
        from mlflow.entities import Param

        entries = [Param(name, str(value)[:MAX_VALUE]) for name, value in params.items()]
        known = self._client.get_run(self.run_id).data.params  # a second fit in one run keeps those of the first
        self._client.log_batch(self.run_id, params=[entry for entry in entries if entry.key not in known])

    # -- What came of it --------------------------------------------------------------------------------------------

    def policy(self, policy: Any, name: str = "policy", **more: Any) -> Any:
        """Log a fitted policy, its history and why its training ended; return MLflow's `ModelInfo`.

        Parameters
        ----------
        policy : policy
            A fitted policy.
        name : str, default="policy"
            Name of the model in the run.
        more
            As for `log_policy`.
        """
        run = self.run_id
        self._client.set_tag(run, ID_TAG, policy.policy_id)
        history: Any = getattr(policy, "history_", None)
        reason = getattr(policy, "stop_reason_", None)
        if reason is not None:
            self._client.set_tag(run, STOP_TAG, reason)
        if hasattr(history, "to_records"):
            rows = [list(history), *(row.values() for row in history.to_records())]
            text = "".join(",".join(map(str, row)) + "\n" for row in rows)
            self._client.log_text(run, text, "history.csv")
        if hasattr(policy, "leaderboard_"):
            self._client.log_dict(run, policy.leaderboard_.to_dict(), "leaderboard.json")
        return log_policy(policy, name, **more)

    def evaluation(self, evaluation: Evaluation) -> None:
        """Log an evaluation: all of it as JSON, its estimates as metrics, the verdict as a tag."""
        from mlflow.entities import Metric

        run, now = self.run_id, int(1000 * time.time())
        self._client.log_dict(run, evaluation.to_dict(), "evaluation.json")
        self._client.log_text(run, str(evaluation), "evaluation.txt")
        metrics, is_single = [], len(evaluation.decisions) == 1
        for row in evaluation.rows:
            prefix = row["estimator"] if is_single else _metric_name(f"{row['policy']}/{row['estimator']}")
            metrics += [
                Metric(f"{prefix}/{name}", float(row[name]), now, 0) for name in ESTIMATES if math.isfinite(row[name])
            ]
        self._client.log_batch(run, metrics=metrics)
        for one in evaluation.decisions:
            tag = VERDICT_TAG if is_single else f"{VERDICT_TAG}.{_metric_name(one['policy'])}"
            self._client.set_tag(run, tag, one["verdict"])

    def report(self, report: Mapping[str, Any] | str | Path) -> None:
        """Log a report: the summary of `bopl.report.summarise`, or a page or run folder on disk."""
        run = self.run_id
        if isinstance(report, Mapping):
            self._client.log_text(run, render_page(report), "report.html")
            return
        path = Path(report)
        if not path.exists():
            raise FileNotFoundError(f"there is no report {str(path)!r}; check the path.")
        for file in sorted(path.iterdir()) if path.is_dir() else [path]:
            if file.is_file():
                self._client.log_artifact(run, str(file))


def _flat(settings: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield nested settings by dotted names."""
    for name, value in settings.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _metric_name(text: str) -> str:
    """Return a name that MLflow accepts: letters, digits and a few other characters."""
    return "".join(one if one.isalnum() or one in "_-. /" else "_" for one in text)
