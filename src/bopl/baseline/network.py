"""A trained network as plain arrays: scaling, layers, scores. Predicting needs only numpy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from bopl._archive import check_array
from bopl._settings import check_choice
from bopl._typing import AnyArray, ContextMatrix, FloatArray
from bopl.log.context import is_sparse
from bopl.log.input_layout import InputLayout, fit_layout, unpack_layout
from bopl.policy.learned import Packed

MIN_WIDTH = 32  # "the width is halved, unless a minimum width of 32 is reached"
SCALINGS = ("standard", "max", "none")
CHUNK_VALUES = 1 << 23  # activations of one layer that are held at a time


def layer_widths(n_hidden_layers: int, first_layer_width: int) -> list[int]:
    """Return the widths of the hidden layers: each is half of the previous one, but at least 32.

    >>> layer_widths(4, 256), layer_widths(3, 50)
    ([256, 128, 64, 32], [50, 32, 32])
    """
    widths = [first_layer_width]
    while len(widths) < n_hidden_layers:
        widths.append(max(widths[-1] // 2, min(MIN_WIDTH, widths[-1])))
    return widths


@dataclass(frozen=True)
class Scaling:
    """``(x - shift) · factor``, column by column of the inputs that a layout makes of a context."""

    layout: InputLayout
    shift: FloatArray  # (n_inputs,)
    factor: FloatArray  # (n_inputs,)

    def __call__(self, context: ContextMatrix) -> FloatArray:
        """Return dense scaled inputs."""
        return (_dense(self.layout(context)) - self.shift) * self.factor


def _dense(context: ContextMatrix) -> FloatArray:
    return context.toarray() if is_sparse(context) else context


def fit_scaling(context: ContextMatrix, kind: str, sizes: Mapping[int, int] | None = None) -> Scaling:
    """Return the scaling of a training log's contexts.

    Parameters
    ----------
    context : matrix of shape (n_samples, n_features)
    kind : {"standard", "max", "none"}
        ``"standard"`` gives every column mean 0 and variance 1, except those that already lie in [0, 1], such as
        indicators, which stay as they are. ``"max"`` divides all columns by one number, the largest absolute value
        (pixels). ``"none"`` changes nothing.
    sizes : mapping of int to int, optional
        How many categories there are in the columns that hold positions of some.
    """
    check_choice("scaling", kind, SCALINGS)
    layout = fit_layout(context, sizes)
    dense = _dense(layout(context))
    shift, factor = np.zeros(dense.shape[1], np.float32), np.ones(dense.shape[1], np.float32)
    if kind == "max":
        largest = float(np.abs(dense).max())
        factor[:] = 1.0 / largest if largest > 0.0 else 1.0
    elif kind == "standard":
        outside = (dense.min(axis=0) < 0.0) | (dense.max(axis=0) > 1.0)
        shift[outside] = dense[:, outside].mean(axis=0, dtype=np.float64)
        spread = dense[:, outside].std(axis=0, dtype=np.float64)
        factor[outside] = 1.0 / np.where(spread > 0.0, spread, 1.0)
    return Scaling(layout, shift, factor)


@dataclass(frozen=True)
class Network:
    """Score of every (context, action) pair by a fully connected network on ``[x; onehot(a)]``.

    The first layer is split, ``W·[x; onehot(a)] = W_x·x + w_a``, so that the context's part is computed once for all
    actions. Batch normalisation is folded into the weights.
    """

    scaling: Scaling
    context_weight: FloatArray  # (n_inputs, width)
    action_offset: FloatArray  # (n_actions, width): ``w_a`` and the bias of the first layer
    weights: tuple[FloatArray, ...]  # of the layers after the first; the last has one output
    biases: tuple[FloatArray, ...]  # of the same layers

    def score(self, context: ContextMatrix) -> FloatArray:
        """Return scores of shape (n_samples, n_actions)."""
        n_samples, (n_actions, width) = context.shape[0], self.action_offset.shape
        score = np.empty((n_samples, n_actions))
        step = max(CHUNK_VALUES // (n_actions * width), 1)
        for start in range(0, n_samples, step):
            rows = self.scaling(context[start : start + step])
            score[start : start + step] = self._score_rows(rows)
        return score

    def _score_rows(self, rows: FloatArray) -> FloatArray:
        first = (rows @ self.context_weight)[:, None, :] + self.action_offset
        hidden = np.maximum(first, 0.0, out=first).reshape(-1, first.shape[2])
        for weight, bias in zip(self.weights[:-1], self.biases[:-1], strict=True):
            hidden = hidden @ weight + bias
            np.maximum(hidden, 0.0, out=hidden)
        return (hidden @ self.weights[-1] + self.biases[-1]).reshape(len(rows), -1)

    def pack(self) -> Packed:
        """Return the network as JSON facts and arrays."""
        arrays: dict[str, AnyArray] = {
            **self.scaling.layout.pack(),
            "scaling/shift": self.scaling.shift,
            "scaling/factor": self.scaling.factor,
            "context_weight": self.context_weight,
            "action_offset": self.action_offset,
        }
        for number, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            arrays |= {f"layer/{number}/weight": weight, f"layer/{number}/bias": bias}
        return {"widths": [weight.shape[0] for weight in self.weights]}, arrays


def unpack_network(facts: dict[str, Any], arrays: dict[str, AnyArray], n_features: int, n_actions: int) -> Network:
    """Return the network of `Network.pack`, after checking that the shapes fit."""
    widths = [int(width) for width in facts["widths"]]
    if not widths or min(widths) < 1:
        raise ValueError("the network has no layers")
    shapes = list(zip(widths, [*widths[1:], 1], strict=True))
    layout = unpack_layout(arrays, n_features)
    shift, factor = (check_array(arrays, f"scaling/{name}", (layout.n_inputs,)) for name in ("shift", "factor"))
    return Network(
        Scaling(layout, shift, factor),
        check_array(arrays, "context_weight", (layout.n_inputs, widths[0])),
        check_array(arrays, "action_offset", (n_actions, widths[0])),
        tuple(check_array(arrays, f"layer/{number}/weight", shape) for number, shape in enumerate(shapes)),
        tuple(check_array(arrays, f"layer/{number}/bias", shape[1:]) for number, shape in enumerate(shapes)),
    )
