"""A policy as an ONNX model: contexts in, scores, probabilities and the best action out.

A policy is one boosted policy or a blend of several; each of these is a sum of trees and of functions of the logging
policy's probabilities (`Summands`), followed by a softmax. Everything is computed in float32.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bopl._settings import check_flag
from bopl._typing import AnyArray
from bopl.policy.onnx_graph import Graph, add_trees
from bopl.policy.onnx_raw import add_columns, check_raw, input_names, missing_text
from bopl.policy.summands import Summands, summands_of
from bopl.reward.logging_model import MIN_PROB as MIN_LOGGING_PROB
from bopl.reward.logging_model import LoggingModel

if TYPE_CHECKING:
    from bopl.policy.boosted import BoostedPolicy
    from bopl.policy.scored import ScoredPolicy

MIN_PROB = 1e-300  # of a blend's action before the logarithm is taken, as in `BlendedPolicy`
LOWEST = -1e4  # logarithm of a probability of zero, within a blend: finite, and far below the logarithm above
HIGHEST_FACTOR = 1e30  # a finite inverse temperature stays finite in float32


def write_onnx(
    parts: Sequence[tuple[BoostedPolicy, float]], path: str | Path, *, policy: ScoredPolicy, raw: bool = False
) -> None:
    """Write a policy as an ONNX model.

    ``parts`` are the policies to average, with their shares; for a single policy, itself. ``policy`` is the one with
    the parts: labels that are text or integers are returned as they are, others as positions. With ``raw`` the inputs
    are the columns of the log, by name (`onnx_raw`), instead of encoded contexts.
    """
    check_flag("raw", raw)
    for one in (policy, *(part for part, _ in parts)):
        one._check_as_built()
    graph = Graph()
    facts: dict[str, Any] = {}
    if raw:
        schema = check_raw(policy.schema_)
        add_columns(graph, schema)
        facts = {"inputs": input_names(schema), "missing_text": missing_text(schema)}
    else:
        graph.put_in(graph.context, "float", policy.n_features_in_)
    writer = _PolicyWriter(graph, len(policy.actions_))
    if policy is parts[0][0]:
        score = writer.add_score(summands_of(parts[0][0].ensemble_))
    else:
        score = writer.add_log_mean(parts)
    writer.finish(score, float(policy.trained_inverse_temperature), policy.actions_)
    facts |= {
        "actions": [str(label) for label in policy.actions_.tolist()],
        "schema": None if policy.schema_ is None else policy.schema_.to_json(),
        "policy": policy.policy_id,
    }
    graph.write(path, facts)


class _PolicyWriter:
    """Adds the pieces of a policy to a graph; tensors have the shape (n_samples, n_actions)."""

    def __init__(self, graph: Graph, n_actions: int) -> None:
        self.graph = graph
        self.n_actions = n_actions
        self._log_prob: dict[int, tuple[LoggingModel, str]] = {}  # parts of a blend share their logging model

    def add_score(self, summands: Summands) -> str:
        """Add the scores of an ensemble."""
        graph = self.graph
        addends = [add_trees(graph, summands.trees, summands.coefficients)] if summands.trees else []
        if summands.sparse_trees:
            sparse = add_trees(graph, summands.sparse_trees, summands.sparse_coefficients, zero_is_missing=True)
            addends.append(sparse)
        for term in summands.terms:
            log_prob = self._add_logging(term.model)
            if term.log_factor != 0.0:
                addends.append(graph.add("Mul", log_prob, graph.constant(term.log_factor)))
            if term.prob_factor != 0.0:
                addends.append(graph.add("Mul", graph.add("Exp", log_prob), graph.constant(term.prob_factor)))
        return graph.add("Sum", *addends) if addends else self._add_zeros()

    def _add_zeros(self) -> str:
        graph = self.graph
        n_samples = graph.add("Gather", graph.add("Shape", graph.context), graph.constant([0]), axis=0)
        shape = graph.add("Concat", n_samples, graph.constant([1]), axis=0)
        return graph.add("Expand", graph.constant(np.zeros((1, self.n_actions))), shape)

    # -- The logging policy ---------------------------------------------------------------------------------------

    def _add_logging(self, model: LoggingModel) -> str:
        """Add the logging policy's log-probabilities, once for each model."""
        if id(model) not in self._log_prob:
            self._log_prob[id(model)] = (model, self._add_log_prob(model))
        return self._log_prob[id(model)][1]

    def _add_log_prob(self, model: LoggingModel) -> str:
        graph, score = self.graph, self._add_linear(model)
        if model.trees:
            trees = add_trees(graph, [one.tree for one in model.trees], [model.tree_factor] * len(model.trees))
            score = graph.add("Add", score, trees)
        if model.epsilon > 0.0:
            kept = graph.add("Mul", graph.add("Softmax", score, axis=1), graph.constant(1.0 - model.epsilon))
            log_prob = graph.add("Log", graph.add("Add", kept, graph.constant(model.epsilon / self.n_actions)))
        else:
            log_prob = graph.add("LogSoftmax", score, axis=1)
        return graph.add("Max", log_prob, graph.constant(np.log(MIN_LOGGING_PROB)))

    def _add_linear(self, model: LoggingModel) -> str:
        """Add the linear scores of the inputs of `InputLayout`, up to a constant for each context."""
        graph, layout = self.graph, model.layout
        inputs = []
        if len(layout.number):
            # Numbers less their means: products of large numbers would cancel each other in float32.
            number = graph.add("Gather", graph.context, graph.constant(layout.number), axis=1)
            centred = graph.add("Sub", number, graph.constant(layout.fill[None]))
            inputs.append(graph.add("Where", graph.add("IsNaN", number), graph.constant(0.0), centred))
        if len(layout.gap):
            number = graph.add("Gather", graph.context, graph.constant(layout.gap), axis=1)
            inputs.append(graph.to_float(graph.add("IsNaN", number)))
        if layout.n_categories.sum():
            inputs.append(self._add_indicators(layout.category, layout.n_categories))
        intercept = model.intercept + layout.fill.astype(np.float64) @ model.coef[: len(layout.number)]
        shift = graph.constant((intercept - intercept.mean())[None])
        if not inputs:
            return graph.add("Add", self._add_zeros(), shift)
        coef = model.coef - model.coef.mean(axis=1, keepdims=True)  # which changes no probability
        joined = inputs[0] if len(inputs) == 1 else graph.add("Concat", *inputs, axis=1)
        return graph.add("Add", graph.add("MatMul", joined, graph.constant(coef)), shift)

    def _add_indicators(self, category: AnyArray, n_categories: AnyArray) -> str:
        """Add an indicator for each category; NaN and codes of no category equal none."""
        graph = self.graph
        column = graph.constant(np.repeat(category, n_categories))
        code = graph.add("Floor", graph.add("Gather", graph.context, column, axis=1))
        known = np.concatenate([np.arange(size) for size in n_categories]).astype(np.float32)
        return graph.to_float(graph.add("Equal", code, graph.constant(known[None])))

    # -- Probabilities --------------------------------------------------------------------------------------------

    def add_log_mean(self, parts: Sequence[tuple[BoostedPolicy, float]]) -> str:
        """Add the logarithm of the mean of the parts' probabilities, without leaving the logarithms: see logsumexp."""
        graph = self.graph
        weighted = []
        for part, share in parts:
            log_prob = self._add_part(self.add_score(summands_of(part.ensemble_)), float(part.inverse_temperature))
            weighted.append(graph.add("Add", log_prob, graph.constant(np.log(share))))
        highest = graph.add("Max", *weighted)
        ratios = [graph.add("Exp", graph.add("Sub", one, highest)) for one in weighted]
        log_mean = graph.add("Add", highest, graph.add("Log", graph.add("Sum", *ratios)))
        return graph.add("Max", log_mean, graph.constant(np.log(MIN_PROB)))

    def _add_part(self, score: str, inverse_temperature: float) -> str:
        """Add the log-probabilities of a part of a blend."""
        graph = self.graph
        if inverse_temperature == np.inf:
            return self._add_one_hot(score, [LOWEST, 0.0])
        scaled = self._add_scaled(score, inverse_temperature)
        return graph.add("LogSoftmax", graph.add("Max", scaled, graph.constant(LOWEST)), axis=1)

    def _add_probability(self, score: str, inverse_temperature: float) -> str:
        if inverse_temperature == np.inf:
            return self._add_one_hot(score, [0.0, 1.0])
        return self.graph.add("Softmax", self._add_scaled(score, inverse_temperature), axis=1)

    def _add_scaled(self, score: str, inverse_temperature: float) -> str:
        """Add the scores times a factor; shifted before, as our own softmax does: the largest exponent is zero."""
        graph = self.graph
        shifted = graph.add("Sub", score, graph.add("ReduceMax", score, axes=[1], keepdims=1))
        return graph.add("Mul", shifted, graph.constant(min(inverse_temperature, HIGHEST_FACTOR)))

    def _add_one_hot(self, score: str, values: list[float]) -> str:
        """Add the second value for the highest score, and the first for the others."""
        graph = self.graph
        best = graph.add("ArgMax", score, axis=1, keepdims=0)
        return graph.add("OneHot", best, graph.constant(self.n_actions), graph.constant(values), axis=1)

    def finish(self, score: str, inverse_temperature: float, actions: AnyArray) -> None:
        """Make scores, probabilities and the best action outputs."""
        graph, shape = self.graph, [None, self.n_actions]
        numbers, labels = np.zeros(0, np.float32), _labels(actions)
        best = graph.add("ArgMax", score, axis=1, keepdims=0)
        graph.put_out(score, "score", numbers, shape)
        graph.put_out(self._add_probability(score, inverse_temperature), "probability", numbers, shape)
        graph.put_out(graph.add("Gather", graph.constant(labels), best, axis=0), "action", labels, [None])


def _labels(actions: AnyArray) -> AnyArray:
    """Return what positions are mapped to: text and integers as they are, otherwise the positions."""
    labels: list[Any] = actions.tolist()
    if all(isinstance(label, str) for label in labels):
        return np.array(labels, dtype=np.str_)
    is_whole = all(isinstance(label, int) and not isinstance(label, bool) for label in labels)
    is_whole &= all(-(2**63) <= label < 2**63 for label in labels if is_whole)
    return np.array(labels if is_whole else range(len(labels)), dtype=np.int64)
