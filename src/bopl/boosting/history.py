"""What happened in every round: columns, a frame, a plot."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from bopl._html import card, table
from bopl._table import Record, Tabular, column_texts
from bopl._typing import AnyArray


@dataclass(frozen=True, eq=False)
class RoundRow(Record):
    """One round of the history; NaN for unknown values."""

    round: Annotated[int, "number of rounds in the ensemble, from 1"]
    empirical_risk: Annotated[float, "mean of -r/p · pi(a_i) on the translated training rewards"]
    surrogate_risk: Annotated[float, "the surrogate risk, never below the empirical risk"]
    objective_risk: Annotated[float, "the risk that was boosted and bounded; one of the above or your own"]
    gradient_norm: Annotated[float, "Euclidean norm of the gradient of the mean risk in all scores, before the round"]
    alpha: Annotated[float, "ensemble weight of the round"]
    guaranteed_decrease: Annotated[float, "guaranteed decrease of the objective's risk, from its smoothness"]
    recursive_bound: Annotated[float, "the objective's risk before the round minus the guaranteed decrease"]
    theorem_bound: Annotated[
        float, "Theorem 1: opt_emp_risk + excess_emp_risk_0 · exp(-total decrease / excess_emp_risk_0)"
    ]
    opt_emp_risk: Annotated[
        float, "minimum risk of the objective over all policies on this log; NaN without a certificate"
    ]
    excess_emp_risk_0: Annotated[float, "risk of the start, the uniform policy by default, minus opt_emp_risk"]
    mean_importance_weight: Annotated[float, "mean of pi(a_i)/p; near 1 unless the policy overfits the propensities"]
    effective_sample_size: Annotated[float, "(sum of weights)² / sum of squared weights"]
    snips_value: Annotated[float, "self-normalised estimate of the reward on the training log, untranslated"]
    validation_value: Annotated[float, "self-normalised estimate on the validation log; NaN without one"]


COLUMNS: dict[str, str] = column_texts(RoundRow)


@dataclass(frozen=True, eq=False)
class History(Tabular, Mapping[str, AnyArray]):
    """Training history: one row per round, one array per column.

    ``history["alpha"]`` is an array, ``history.to_frame()`` a frame, ``history.plot()`` a figure. It also supports the
    Arrow interface, so that ``polars.DataFrame(history)`` and the like accept it directly.

    Attributes
    ----------
    columns : mapping of str to ndarray of shape (n_rounds,)
        The columns are described in ``bopl.boosting.history.COLUMNS``.
    objective : str
        Name of the objective.
    title : str
        Name of its risk.
    """

    columns: dict[str, AnyArray]
    objective: str
    title: str = "risk"

    @classmethod
    def from_records(cls, records: Sequence[Mapping[str, float]], objective: str, title: str | None = None) -> History:
        """Build the history from one mapping per round."""
        columns = {
            name: np.array([record.get(name, np.nan) for record in records], dtype=np.float64) for name in COLUMNS
        }
        columns["round"] = columns["round"].astype(np.int64)
        for column in columns.values():
            column.flags.writeable = False
        return cls(columns, objective, f"risk of {objective!r}" if title is None else title)

    def to_records(self) -> list[RoundRow]:
        """Return one record per round."""
        return [
            RoundRow(**{name: column[row].item() for name, column in self.columns.items()})
            for row in range(self.n_rounds)
        ]

    @property
    def n_rounds(self) -> int:
        """Number of rounds recorded."""
        return len(self.columns["round"])

    @property
    def objective_risk(self) -> AnyArray:
        """The risk that the bounds hold for."""
        return self.columns["objective_risk"]

    def __getitem__(self, name: str) -> AnyArray:
        if name not in self.columns:
            raise KeyError(f"the history has no column {name!r}; it has {', '.join(self.columns)}.")
        return self.columns[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.columns)

    def __len__(self) -> int:
        return len(self.columns)

    def __repr__(self) -> str:
        if self.n_rounds == 0:
            return "History(n_rounds=0)"
        return f"History(n_rounds={self.n_rounds}, last risk={self.objective_risk[-1]:.6g})"

    def _columns(self) -> Mapping[str, AnyArray]:
        return self.columns

    def _repr_html_(self) -> str:
        shown = [*range(min(5, self.n_rounds)), *range(max(5, self.n_rounds - 5), self.n_rounds)]
        rows = [[f"{column[row]:.6g}" for column in self.columns.values()] for row in shown]
        return card("History", f"{self.n_rounds} rounds", table(list(self.columns), rows, numeric=range(len(COLUMNS))))

    def plot(self) -> Any:
        """Return a matplotlib figure: risk under its bounds, gradient norm, values, effective sample size."""
        from bopl._figure import new_figure

        figure = new_figure(10.0, 6.5)
        panels = figure.subplots(2, 2, sharex=True)
        _draw_risk(panels[0, 0], self)
        _draw_lines(panels[0, 1], self, {"gradient_norm": "norm of the gradient"}, "gradient")
        panels[0, 1].set_yscale("log")
        _draw_lines(
            panels[1, 0], self, {"snips_value": "training (SNIPS)", "validation_value": "validation (SNIPS)"}, "reward"
        )
        _draw_lines(panels[1, 1], self, {"effective_sample_size": "effective sample size"}, "importance weights")
        for panel in panels[1]:
            panel.set_xlabel("round")
        return figure


def _draw_risk(panel: Any, history: History) -> None:
    panel.plot(history["round"], history.objective_risk, label=history.title, color="C0", linewidth=2)
    panel.plot(history["round"], history["recursive_bound"], label="recursive bound", color="C1", linewidth=1)
    panel.plot(history["round"], history["theorem_bound"], label="Theorem 1", color="C2", linewidth=1, linestyle="--")
    panel.set_title("risk under its bounds")
    panel.legend(frameon=False)


def _draw_lines(panel: Any, history: History, labels: dict[str, str], title: str) -> None:
    drawn = False
    for column_idx, (column, label) in enumerate(labels.items()):
        if np.isfinite(history[column]).any():
            panel.plot(history["round"], history[column], label=label, color=f"C{column_idx}")
            drawn = True
    panel.set_title(title)
    if drawn:
        panel.legend(frameon=False)
