"""The result of boosting: its start, its rounds with their steps, and the scores that they add up to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from bopl._archive import Packed
from bopl._typing import AnyArray, ContextMatrix, FloatArray
from bopl.boosting.history import COLUMNS
from bopl.learner.base import Predictor
from bopl.learner.hist_tree.tree import MAX_NUMBER
from bopl.learner.store import PREDICTORS, Scorer, pack_predictors, stack_predictors, unpack_predictors

if TYPE_CHECKING:
    from bopl.boosting.ascent import Sums

#: Values of ``start``: the names of the parts, joined by a plus sign.
STARTS = ("uniform", "reward_model", "logging", "logging+reward_model")
MAX_ROUNDS = 1 << 53  # integers that a float can count
STEP_FIELDS = ("alpha", "factor", "guaranteed_decrease")
PREDICTORS.put_later("logging", "bopl.reward.logging_model:CODEC")
PREDICTORS.put_later("network", "bopl.reward.network_model:CODEC")


@dataclass(frozen=True)
class StepRule:
    """How far to go along a predictor.

    Attributes
    ----------
    ensemble_weight_penalty : float, default=0
        ``lambda`` of the paper's regularisation appendix: ``lambda · alpha²`` is added to the risk.
    scale : float, optional
        C of Algorithms 1 and 2: predictors are first rescaled to ``mean(w · ‖f‖²) = C``. By default they are left as
        the learner made them; without a penalty the policy is the same.
    learning_rate : float in (0, 1], default=1
        Share of the certified step to take.
    """

    ensemble_weight_penalty: float = 0.0
    scale: float | None = None
    learning_rate: float = 1.0

    def __call__(self, sums: Sums) -> Step:
        """Return the step that minimises the smoothness bound of the penalised risk, or its share.

        The bound is ``risk - alpha·g + alpha²·s/2 + lambda·alpha²`` with ``g = mean(G·f)`` and
        ``s = mean(curvature·‖f‖²)`` (Eq. "emp_risk_quad_upper_bound" and its surrogate form), so
        ``alpha = g / (s + 2·lambda)``.
        """
        # Eq. "optimal_ensemble_weight" and Eq. "surrogate_optimal_ensemble_weight" in one: the 2 of the first is 1/s
        # with the paper's s = 1/2. A factor of f scales g once and s twice, so that alpha·factor does not depend on it
        # without a penalty.
        factor = self._factor(sums.weighted_norm)
        slope, bend = sums.slope * factor, sums.bend * factor**2
        divisor = bend + 2.0 * self.ensemble_weight_penalty
        # Without weight or penalty the bound is flat, or linear with slope zero: any step is as good as none.
        alpha = self.learning_rate * slope / divisor if divisor > 0.0 else 0.0
        # The bound's own decrease at this alpha, whatever share of the best step it is; without the penalty's part.
        return Step(alpha=alpha, factor=factor, guaranteed_decrease=alpha * slope - alpha**2 * bend / 2.0)

    def _factor(self, mean_square_norm: float) -> float:
        if self.scale is None or mean_square_norm <= 0.0:
            return 1.0
        return float(np.sqrt(self.scale / mean_square_norm))


@dataclass(frozen=True)
class Step:
    """One step: ``score += alpha · factor · prediction``.

    Attributes
    ----------
    alpha : float
        The ensemble weight.
    factor : float
        Factor that gives the predictor the scale C; 1 without one.
    guaranteed_decrease : float
        The risk falls by at least this much (Eq. "emp_risk_quad_upper_bound_decrease"). At the unpenalised alpha it is
        ``(mean G·f)² / (2 · mean curvature·‖f‖²)``.
    """

    alpha: float
    factor: float
    guaranteed_decrease: float

    @property
    def size(self) -> float:
        """The coefficient of the raw prediction."""
        return self.alpha * self.factor


@dataclass(frozen=True, eq=False)
class Start:
    """Initial scores of the ensemble: ``Σ coefficient · predictor``, part of the model like its rounds.

    Attributes
    ----------
    kind : str
        One of `STARTS`.
    predictors : tuple of Predictor
    coefficients : tuple of float
    """

    kind: str = "uniform"
    predictors: tuple[Predictor, ...] = ()
    coefficients: tuple[float, ...] = ()

    def score(self, context: ContextMatrix, n_actions: int) -> FloatArray:
        """Return the scores of contexts, of shape (n_samples, n_actions)."""
        if not self.predictors:
            return np.zeros((context.shape[0], n_actions))
        return stack_predictors(self.predictors, self.coefficients)(context)

    def __add__(self, other: Start) -> Start:
        kinds = [kind for kind in (self.kind, other.kind) if kind != "uniform"]
        return Start(
            "+".join(kinds) or "uniform",
            self.predictors + other.predictors,
            self.coefficients + other.coefficients,
        )


def mean_of(kind: str, predictors: Sequence[Sequence[Predictor]], coefficients: Sequence[Sequence[float]]) -> Start:
    """Return the mean of several sums of predictors as one start."""
    share = 1.0 / len(predictors)
    return Start(
        kind,
        tuple(one for model in predictors for one in model),
        tuple(share * factor for model in coefficients for factor in model),
    )


@dataclass(frozen=True)
class Round:
    """One predictor with its step: one record instead of two parallel lists."""

    predictor: Predictor
    step: Step


@dataclass(frozen=True)
class Ensemble:
    """``F(x, a) = start(x, a) + Σ_t alpha_t f_t(x, a)`` (Eq. "ensemble", where the start is zero)."""

    rounds: tuple[Round, ...]
    n_actions: int
    start: Start = field(default_factory=Start)

    @property
    def predictors(self) -> list[Predictor]:
        """All summands: the predictors of the start, then those of the rounds."""
        return [*self.start.predictors, *(entry.predictor for entry in self.rounds)]

    @property
    def coefficients(self) -> list[float]:
        """The coefficient of each of the `predictors`."""
        return [*self.start.coefficients, *(entry.step.size for entry in self.rounds)]

    @property
    def has_exact_rows(self) -> bool:
        """Whether the digits of a row's scores do not depend on the other rows."""
        # A service logs probabilities one record at a time, and an evaluation recomputes them in a batch: they agree to
        # the bit where no matrix product, whose order depends on its size, is involved.
        return all(getattr(one, "has_exact_rows", False) for one in self.predictors)

    def score(self, context: ContextMatrix) -> FloatArray:
        """Return the ensemble's scores of shape (n_samples, n_actions)."""
        if not self.rounds and not self.start.predictors:
            return np.zeros((context.shape[0], self.n_actions))
        return self._scorer(context)

    @cached_property
    def _scorer(self) -> Scorer:
        return stack_predictors(self.predictors, self.coefficients)

    def __getstate__(self) -> dict[str, Any]:
        # The stacked trees are recreated where they are needed: they are functions, which cannot be pickled.
        return {name: value for name, value in vars(self).items() if name != "_scorer"}

    def staged_score(self, context: ContextMatrix) -> Iterator[FloatArray]:
        """Yield the scores after each round, each as a new array."""
        score = self.start.score(context, self.n_actions)
        for entry in self.rounds:
            score += entry.step.size * entry.predictor.predict(context)
            yield score.copy()

    def truncated(self, n_rounds: int) -> Ensemble:
        """Return the ensemble of the first ``n_rounds`` rounds."""
        return replace(self, rounds=self.rounds[:n_rounds])


def pack_rounds(rounds: Sequence[Round]) -> Packed:
    """Return rounds as JSON facts and arrays with names ``step/…`` and ``predictor/…``."""
    facts, predictor_arrays = pack_predictors([entry.predictor for entry in rounds])
    arrays: dict[str, AnyArray] = {
        f"step/{name}": np.array([getattr(entry.step, name) for entry in rounds], dtype=np.float64)
        for name in STEP_FIELDS
    }
    return facts, arrays | {f"predictor/{name}": array for name, array in predictor_arrays.items()}


def unpack_rounds(
    facts: dict[str, Any],
    arrays: dict[str, AnyArray],
    *,
    n_features: int,
    n_actions: int,
    action_features: FloatArray | None = None,
) -> tuple[Round, ...]:
    """Return the rounds written by `pack_rounds`."""
    prefix = "predictor/"
    own = {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
    predictors = unpack_predictors(
        facts, own, n_features=n_features, n_actions=n_actions, action_features=action_features
    )
    columns = [arrays[f"step/{name}"] for name in STEP_FIELDS]
    if any(column.shape != (len(predictors),) for column in columns):
        raise ValueError("the steps do not match the predictors")
    if any(column.dtype != np.float64 or not (np.abs(column) <= MAX_NUMBER).all() for column in columns):
        raise ValueError(f"a step is not a finite number, or beyond {MAX_NUMBER:g}")
    steps = [Step(*(float(column[row]) for column in columns)) for row in range(len(predictors))]
    return tuple(Round(predictor, step) for predictor, step in zip(predictors, steps, strict=True))


def read_records(arrays: Mapping[str, AnyArray]) -> list[dict[str, float]]:
    """Return the history in arrays with names ``history/…``, one mapping per round."""
    columns = {name: arrays[f"history/{name}"] for name in COLUMNS}
    if any(column.dtype.kind != "f" or column.ndim != 1 for column in columns.values()):
        raise ValueError("the history's columns do not hold numbers")
    if len({len(column) for column in columns.values()}) != 1:
        raise ValueError("the history's columns differ in length")
    number = columns["round"]
    if not ((number >= 0) & (number < MAX_ROUNDS)).all():
        raise ValueError("the history's rounds are not numbered")
    values = [column.tolist() for column in columns.values()]
    return [dict(zip(columns, row, strict=True)) for row in zip(*values, strict=True)]
