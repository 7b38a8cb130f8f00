"""`LoggingModel`: the logging policy, learned from the logged propensities.

A logged propensity is the logging policy's own number, without noise: a model fitted to it is far closer to
that policy than one fitted to the actions that happened to be drawn, and held-out samples show whether it fits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from bopl._archive import Packed, check_array, grouped
from bopl._policy_reader import logged_entries
from bopl._typing import AnyArray, ContextMatrix, FloatArray
from bopl.learner.hist_tree.predict import FlatEnsemble
from bopl.learner.hist_tree.predictor import HistTreePredictor, pack_hist_trees, stack_trees, unpack_hist_trees
from bopl.learner.hist_tree.tree import MAX_NUMBER
from bopl.learner.store import PREDICTORS, Codec
from bopl.log.context import is_sparse
from bopl.log.input_layout import InputLayout, category_sizes, fit_layout, unpack_layout
from bopl.objective.softmax import log_softmax
from bopl.reward.linear_score import linear_score

if TYPE_CHECKING:
    from bopl.log import BanditLog
    from bopl.reward.boosted_model import BoundPairs

MAX_SAMPLES = 30_000  # more hardly improve a linear model
MIN_SAMPLES, MAX_PRODUCTS = 5_000, 120_000_000  # fewer with many inputs or actions: rows · inputs · actions
MAX_ITERATIONS = 100
PENALTIES = (1e-3, 1e-4, 1e-5)  # ridge, on inputs of unit variance
WORTH_LESS_PENALTY = 0.05  # a smaller penalty must lower the error by this share
MIN_PROB = 1e-12
CHUNK_ROWS = 16_384
NEVER_LOGGED = -8.0  # score of an action that the log does not contain, below the mean of the others
FLOOR_SHARE = 0.999  # of the smallest propensity, which is taken as a floor
MIN_FLOOR = 0.005  # minimum share of uniform exploration to look for
GOOD_FIT = 0.15  # a linear model with a smaller error, relative to the spread of the log-propensities, needs no trees
WORTH_TREES = 0.1  # share of its residuals that trees must explain
TREE_ROUNDS = 200
MAX_BINNED_ACTIONS = 256  # of a boosted reward model, which has a bin for each


@dataclass(frozen=True, eq=False)
class LoggingModel:
    """``pi_0(a | x) = (1 - epsilon) · softmax(inputs(x)·coef + intercept + trees) + epsilon / n_actions``.

    Attributes
    ----------
    layout : InputLayout
        From contexts to inputs: missing values filled, categories as indicators.
    coef : ndarray of shape (n_inputs, n_actions)
    intercept : ndarray of shape (n_actions,)
    epsilon : float
        Share of uniform exploration.
    trees : tuple of HistTreePredictor
        Trees fitted to the residuals of the linear part; each is multiplied by ``tree_factor``.
    tree_factor : float
    error : float
        Root mean squared error of the log-propensities of held-out samples.
    spread : float
        Standard deviation of these log-propensities.
    """

    layout: InputLayout
    coef: FloatArray
    intercept: FloatArray
    epsilon: float = 0.0
    trees: tuple[HistTreePredictor, ...] = ()
    tree_factor: float = 0.0
    error: float = float("nan")
    spread: float = float("nan")

    @property
    def n_actions(self) -> int:
        """Number of actions."""
        return len(self.intercept)

    def score(self, context: ContextMatrix) -> FloatArray:
        """Return the scores before the softmax, of shape (n_samples, n_actions)."""
        score = linear_score(context, self.layout, self.coef, self.intercept)
        if self.trees:
            score += self._flat_trees.score(context, n_jobs=1)
        return score

    @cached_property
    def _flat_trees(self) -> FlatEnsemble:
        return stack_trees(self.trees, [self.tree_factor] * len(self.trees))

    def log_prob(self, context: ContextMatrix, action_mask: Any = None) -> FloatArray:
        """Return log-probabilities of all actions; those of ineligible ones are low, but finite."""
        log_prob = np.empty((context.shape[0], self.n_actions))
        for start in range(0, len(log_prob), CHUNK_ROWS):  # indicators take many times the memory of the contexts
            rows = slice(start, start + CHUNK_ROWS)
            part = log_softmax(self.score(context[rows]), None if action_mask is None else action_mask[rows])
            if self.epsilon > 0.0:
                part = np.log((1.0 - self.epsilon) * np.exp(part) + self.epsilon / self.n_actions)
            log_prob[rows] = np.maximum(part, np.log(MIN_PROB))
        return log_prob

    def pack(self) -> Packed:
        """Return the model as JSON facts and plain arrays."""
        arrays = {"coef": self.coef, "intercept": self.intercept, **self.layout.pack()}
        if self.trees:
            arrays |= {f"tree/{name}": array for name, array in pack_hist_trees(self.trees)[1].items()}
        facts = {name: getattr(self, name) for name in ("epsilon", "tree_factor", "error", "spread")}
        return facts | {"n_trees": len(self.trees)}, arrays

    @classmethod
    def unpack(
        cls, facts: Mapping[str, Any], arrays: Mapping[str, AnyArray], *, n_features: int, by_action: FloatArray
    ) -> LoggingModel:
        """Return the model of `pack`, after checking everything that predicting relies on."""
        layout, n_actions = unpack_layout(arrays, n_features), len(by_action)
        numbers = {name: float(facts[name]) for name in ("epsilon", "tree_factor", "error", "spread")}
        if not 0.0 <= numbers["epsilon"] <= 1.0 or abs(numbers["tree_factor"]) > MAX_NUMBER:
            raise ValueError("the model of the logging policy is not valid")
        trees: tuple[HistTreePredictor, ...] = ()
        if facts["n_trees"]:
            own = {name.removeprefix("tree/"): array for name, array in arrays.items() if name.startswith("tree/")}
            trees = tuple(unpack_hist_trees({}, own, n_features=n_features, by_action=by_action))
        return cls(
            layout,
            check_array(arrays, "coef", (layout.n_inputs, n_actions)),
            check_array(arrays, "intercept", (n_actions,)),
            trees=trees,
            **numbers,
        )


def fit_logging_model(
    log: BanditLog, *, seed: int = 0, n_jobs: int | None = None, pairs: BoundPairs | None = None
) -> LoggingModel:
    """Learn the logging policy from the logged propensities, without using rewards.

    Minimises the squared error of ``ln pi_0(a_i | x_i) - ln p_i``. The penalty, and whether there is a floor
    under the propensities (uniform exploration), are chosen to predict held-out samples best. If a linear model
    is not enough, boosted trees learn its residuals; ``pairs`` are shared with other fits on the log.
    """
    # A fitted model does not need these.
    from bopl.reward.boosted_model import BoostedRewardModel, BoundPairs, default_reward_learner
    from bopl.reward.cross_fitting import cross_fit

    model = _fit_linear(log, seed)
    if is_linear_enough(model):
        return model
    if model.epsilon > 0.0:  # a floor that only compensates for what a linear model lacks
        model = _fit_linear(log, seed, has_floor=False)
    logged = logged_entries(model.log_prob(log.context, log.action_mask), log.action_idx)
    left = log.with_reward(np.log(np.maximum(log.propensity, MIN_PROB)) - logged)
    trees = BoostedRewardModel(default_reward_learner().set_params(n_jobs=n_jobs), TREE_ROUNDS)
    binding = (BoundPairs() if pairs is None else pairs).of(log, trees.learner_for(log)).with_reward(left.reward)
    fitted = cross_fit(left, trees, n_folds=2, seed=seed, binding=binding)
    return with_trees(model, fitted)


def is_linear_enough(model: LoggingModel) -> bool:
    """Return whether a linear model needs no trees, or none can be grown."""
    return model.error <= GOOD_FIT * model.spread or model.n_actions > MAX_BINNED_ACTIONS


def with_trees(model: LoggingModel, fitted: Any) -> LoggingModel:
    """Return a linear model with trees fitted to its residuals, if they explain enough of them."""
    if fitted.explained < WORTH_TREES:
        return model
    return replace(
        model,
        trees=tuple(tree for one in fitted.models for tree in one.predictors_),
        tree_factor=fitted.models[0].learning_rate / len(fitted.models),
        error=float(np.sqrt(fitted.error)),
    )


def _fit_linear(log: BanditLog, seed: int, *, has_floor: bool = True) -> LoggingModel:
    layout = fit_layout(log.context, category_sizes(log))
    rows = rows_of_linear(layout, log.n_samples, log.n_actions, seed)
    return fit_linear_part(log.subset(rows), layout, has_floor=has_floor)


def rows_of_linear(layout: InputLayout, n_samples: int, n_actions: int, seed: int) -> AnyArray:
    """Return the samples to which a linear model is fitted, in ascending order."""
    n_rows = min(MAX_SAMPLES, max(MAX_PRODUCTS // (layout.n_inputs * n_actions), MIN_SAMPLES))
    return np.sort(np.random.default_rng([seed, 5]).permutation(n_samples)[:n_rows])


def fit_linear_part(part: BanditLog, layout: InputLayout, *, has_floor: bool = True) -> LoggingModel:
    """Return the linear model of some samples of a log."""
    held_out = np.arange(part.n_samples) % 5 == 4  # rows were drawn, so every fifth is as good as a draw
    if not held_out.any():
        held_out = np.ones(part.n_samples, bool)
    fit = _LinearFit(part, layout)
    # An epsilon-greedy policy never logs below epsilon/A: the least propensity, times A, is a guess at epsilon, which
    # held-out samples accept or refuse. A mask makes the floor differ by sample.
    floor = FLOOR_SHARE * float(part.propensity.min()) * part.n_actions
    floors = (0.0, floor) if has_floor and part.action_mask is None and MIN_FLOOR <= floor < 0.9 else (0.0,)
    train = held_out if held_out.all() else ~held_out
    best_error, found, epsilon, penalty = min(
        (fit.search_penalty(train, held_out, epsilon) for epsilon in floors), key=lambda one: one[0]
    )
    everything = fit.solve(np.ones(part.n_samples, bool), epsilon, penalty, found)
    spread = float(np.log(np.maximum(part.propensity[held_out], MIN_PROB)).std())
    return replace(fit.model(everything, epsilon), error=best_error, spread=spread)


class _LinearFit:
    """Least squares of log-propensities under a softmax of linear scores, by L-BFGS."""

    def __init__(self, part: BanditLog, layout: InputLayout) -> None:
        self.part, self.layout = part, layout
        self.inputs, self.shift, self.scale = standardised(layout(part.context))
        # Sparse inputs stay sparse: their means are subtracted from the products instead.
        self.offset = self.shift / self.scale if is_sparse(self.inputs) else np.zeros(len(self.scale))
        self.target = np.log(np.maximum(part.propensity, MIN_PROB))

    def begin(self) -> FloatArray:
        """Return the start of the search: equal scores, with actions that were never logged below them."""
        n_logged = np.bincount(self.part.action_idx, minlength=self.part.n_actions)
        return np.concatenate(
            [np.zeros(self.inputs.shape[1] * len(n_logged)), np.where(n_logged > 0, 0.0, NEVER_LOGGED)]
        )

    def search_penalty(
        self, train: AnyArray, held_out: AnyArray, epsilon: float
    ) -> tuple[float, FloatArray, float, float]:
        """Lower the penalty while held-out propensities are predicted better; return error, solution and settings."""
        found, best = self.begin(), (np.inf, self.begin(), epsilon, PENALTIES[0])
        for penalty in PENALTIES:  # each starts where the previous one ended
            found = self.solve(train, epsilon, penalty, found)
            error = self.error(self.model(found, epsilon), held_out)
            if error >= (1.0 - WORTH_LESS_PENALTY) * best[0]:
                break
            best = (error, found, epsilon, penalty)
        return best

    def solve(self, rows: AnyArray, epsilon: float, penalty: float, begin: FloatArray) -> FloatArray:
        """Return the coefficients, followed by the intercepts, fitted to some rows."""
        from scipy.optimize import minimize
        from threadpoolctl import threadpool_limits

        inputs, target, action = self.inputs[rows], self.target[rows], self.part.action_idx[rows]
        mask = None if self.part.action_mask is None else self.part.action_mask[rows]
        n_inputs, n_actions, here = inputs.shape[1], self.part.n_actions, np.arange(len(target))
        offset = self.offset[:, None]

        def loss(flat: FloatArray) -> tuple[float, FloatArray]:
            coef, intercept = flat[:-n_actions].reshape(n_inputs, n_actions), flat[-n_actions:]
            single = coef.astype(np.float32)  # inputs are float32: the product then copies nothing
            score = np.asarray(inputs @ single, np.float64) + (intercept - (offset * single).sum(axis=0))
            prob = np.exp(log_softmax(score, mask))
            logged = prob[here, action]
            # Chain rule of ln((1 - epsilon)·softmax + epsilon/A) - ln p; ``slope`` is the gradient in the scores.
            mixed = np.maximum((1.0 - epsilon) * logged + epsilon / n_actions, MIN_PROB)
            off = (np.log(mixed) - target) / len(target)
            pull = off * (1.0 - epsilon) * logged / mixed  # of the logged action's score
            slope = -pull[:, None] * prob
            slope[here, action] += pull
            pulled = np.asarray(inputs.T @ slope.astype(np.float32), np.float64)
            gradient = pulled - offset * slope.sum(axis=0) + penalty * coef
            value = 0.5 * len(target) * float((off**2).sum()) + 0.5 * penalty * float((coef**2).sum())
            return value, np.concatenate([gradient.ravel(), slope.sum(axis=0)])

        with threadpool_limits(limits=1):  # with more threads, sums would differ in their last digits
            found = minimize(loss, begin, jac=True, method="L-BFGS-B", options={"maxiter": MAX_ITERATIONS})
        return np.asarray(found.x)

    def model(self, found: FloatArray, epsilon: float) -> LoggingModel:
        """Return the model of what `solve` found."""
        n_actions = self.part.n_actions
        coef = found[:-n_actions].reshape(-1, n_actions) / self.scale[:, None]
        return LoggingModel(self.layout, coef, found[-n_actions:] - self.shift @ coef, epsilon)

    def error(self, model: LoggingModel, rows: AnyArray) -> float:
        """Return the root mean squared error of the log-propensities of some rows."""
        mask = None if self.part.action_mask is None else self.part.action_mask[rows]
        log_prob = model.log_prob(self.part.context[rows], mask)
        predicted = logged_entries(log_prob, self.part.action_idx[rows])
        return float(np.sqrt(np.mean((predicted - self.target[rows]) ** 2)))


def standardised(inputs: ContextMatrix) -> tuple[ContextMatrix, FloatArray, FloatArray]:
    """Return inputs of unit variance, with their means and scales; sparse inputs are not centred."""
    if is_sparse(inputs):
        wide = inputs.astype(np.float64)  # squares of a column far from zero are larger than its variance
        shift = np.asarray(wide.mean(axis=0)).ravel()
        spread = np.sqrt(np.maximum(np.asarray(wide.multiply(wide).mean(axis=0)).ravel() - shift**2, 0.0))
        scale = np.where(spread > 1e-6 * np.abs(shift) + 1e-12, spread, 1.0)
        return inputs @ _diagonal(1.0 / scale), shift, scale
    shift = inputs.mean(axis=0, dtype=np.float64)
    spread = inputs.std(axis=0, dtype=np.float64)
    scale = np.where(spread > 1e-12, spread, 1.0)
    return ((inputs - shift) / scale).astype(np.float32), shift, scale


def _diagonal(values: FloatArray) -> Any:
    from scipy.sparse import dia_array

    return dia_array((values[None].astype(np.float32), [0]), shape=(len(values), len(values))).tocsr()


@dataclass(frozen=True, eq=False)
class LoggingTerm:
    """``log_factor · ln pi_0(a | x) + prob_factor · pi_0(a | x)`` as a predictor of scores or rewards."""

    kind: ClassVar[str] = "logging"
    has_exact_rows: ClassVar[bool] = True

    model: LoggingModel
    log_factor: float = 1.0
    prob_factor: float = 0.0

    def predict(self, context: ContextMatrix) -> FloatArray:
        """Return the term for all actions, of shape (n_samples, n_actions)."""
        return self.of(self.model.log_prob(context))

    def of(self, log_prob: FloatArray) -> FloatArray:
        """Return the term from given log-probabilities."""
        return self.log_factor * log_prob + self.prob_factor * np.exp(log_prob)

    def gain_by_column(self) -> None:
        """Return None: a linear function has no splits."""


def _pack_terms(terms: Sequence[LoggingTerm]) -> Packed:
    models: list[LoggingModel] = []
    for term in terms:  # terms of one start share their model
        if not any(term.model is model for model in models):
            models.append(term.model)
    packed = [model.pack() for model in models]
    facts = {
        "terms": [
            [next(k for k, model in enumerate(models) if model is term.model), term.log_factor, term.prob_factor]
            for term in terms
        ],
        "models": [facts for facts, _ in packed],
    }
    arrays = {f"{number}/{name}": array for number, (_, own) in enumerate(packed) for name, array in own.items()}
    return facts, arrays


def _unpack_terms(
    facts: dict[str, Any], arrays: dict[str, AnyArray], *, n_features: int, by_action: FloatArray
) -> list[LoggingTerm]:
    groups = grouped(arrays, len(facts["models"]))
    models = [
        LoggingModel.unpack(own_facts, own, n_features=n_features, by_action=by_action)
        for own_facts, own in zip(facts["models"], groups, strict=True)
    ]
    terms = []
    for k, log_factor, prob_factor in facts["terms"]:
        if not isinstance(k, int) or not 0 <= k < len(models) or max(abs(log_factor), abs(prob_factor)) > MAX_NUMBER:
            raise ValueError("a term of the logging policy is not valid")
        terms.append(LoggingTerm(models[k], float(log_factor), float(prob_factor)))
    return terms


CODEC = PREDICTORS[LoggingTerm.kind] = Codec(_pack_terms, _unpack_terms, needs_columns=False)
