"""`NetworkRewardModel`: expected rewards of all actions by a small network, for contexts that trees find hard."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from bopl._archive import Packed, check_array, grouped
from bopl._machine import import_torch, pick_device
from bopl._settings import check_number
from bopl._typing import AnyArray, ContextMatrix, FloatArray
from bopl.learner.store import PREDICTORS, Codec
from bopl.log import BanditLog
from bopl.log.context import is_sparse, read_context
from bopl.log.input_layout import InputLayout, category_sizes, fit_layout, unpack_layout
from bopl.log.row_sketch import RowSketch

N_THREADS = 2  # of PyTorch: another number would add up in another order
HELD_OUT = 0.1  # of the samples, for early stopping
CHUNK_ROWS = 8192


@dataclass(frozen=True, eq=False)
class Layers:
    """A fitted network as plain arrays: inputs, standardised, through rectified layers to one output per action."""

    kind: ClassVar[str] = "network"

    layout: InputLayout
    shift: FloatArray  # (n_inputs,): inputs are ``(x - shift) · factor``
    factor: FloatArray  # (n_inputs,)
    weights: tuple[FloatArray, ...]  # of the layers, with batch normalisation folded in
    biases: tuple[FloatArray, ...]

    def predict(self, context: ContextMatrix) -> FloatArray:
        """Return the outputs for all actions, of shape (n_samples, n_actions)."""
        parts = [self._forward(context[k : k + CHUNK_ROWS]) for k in range(0, context.shape[0], CHUNK_ROWS)]
        return np.concatenate(parts) if parts else np.zeros((0, len(self.biases[-1])))

    def _forward(self, context: ContextMatrix) -> FloatArray:
        values = (_dense(self.layout(context)) - self.shift) * self.factor
        for weight, bias in zip(self.weights[:-1], self.biases[:-1], strict=True):
            values = np.maximum(values @ weight + bias, 0.0)
        return np.asarray(values @ self.weights[-1] + self.biases[-1], dtype=np.float64)

    def gain_by_column(self) -> None:
        """Return None: a network has no splits."""


def _dense(inputs: ContextMatrix) -> FloatArray:
    return np.asarray(inputs.toarray() if is_sparse(inputs) else inputs, dtype=np.float32)


class NetworkRewardModel(BaseEstimator):
    """Estimate of ``E[r | x, a]`` by a network with one output per action, fitted to the logged actions' rewards.

    Training needs PyTorch (``pip install 'bopl[deep]'``), predicting does not. Every hidden layer is followed by batch
    normalisation, a rectifier and dropout; Adam minimises the squared error, and the epoch with the smallest error on a
    tenth of the samples is kept.

    Parameters
    ----------
    hidden : sequence of int, default=(512, 256)
        Widths of the hidden layers.
    dropout : float in [0, 1), default=0.3
        Share of the hidden units dropped in each step of training.
    learning_rate : float, default=0.001
        Learning rate of Adam.
    batch_size : int, default=256
        Number of samples in one step of training.
    n_epochs : int, default=30
        Maximum number of epochs.
    patience : int, default=6
        Number of epochs without a smaller error after which training ends.
    device : {"auto", "cpu", "cuda"}, default="auto"
        ``"auto"`` is CUDA if there is a GPU.
    random_state : int, optional
        Seed of initial weights, batches and dropout.

    Attributes
    ----------
    actions_ : ndarray of shape (n_actions,)
    layers_ : Layers
    training_rows_ : RowSketch
    """

    #: Few folds of cross-fitting: a network takes long.
    max_folds: ClassVar[int] = 2

    def __init__(
        self,
        hidden: Sequence[int] = (512, 256),
        dropout: float = 0.3,
        learning_rate: float = 0.001,
        batch_size: int = 256,
        n_epochs: int = 30,
        patience: int = 6,
        device: str = "auto",
        random_state: int | None = None,
    ) -> None:
        self.hidden = hidden
        self.dropout = dropout
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.n_epochs = n_epochs
        self.patience = patience
        self.device = device
        self.random_state = random_state

    def fit(self, log: BanditLog, *, sample_weight: FloatArray | None = None) -> NetworkRewardModel:
        """Fit the network to the rewards of the logged actions."""
        self._check_settings()
        return self.adopt(log, _train(log, self, np.ones(log.n_samples) if sample_weight is None else sample_weight))

    def adopt(self, log: BanditLog, layers: Layers) -> NetworkRewardModel:
        """Use layers that were fitted to a log."""
        self.actions_, self.n_features_in_, self.layers_ = log.actions, log.n_features, layers
        self.feature_names_in_, self.schema_ = log.feature_names, log.schema
        self.training_rows_ = RowSketch.of(log)
        return self

    def predictor(self) -> Layers:
        """Return what predicts, as part of an ensemble."""
        return self.layers_

    def predict(self, context: Any) -> FloatArray:
        """Return the expected reward of every action, of shape (n_samples, n_actions)."""
        check_is_fitted(self)
        return self.layers_.predict(read_context(context)[0])

    def _check_settings(self) -> None:
        for width in self.hidden:
            check_number("hidden", width, low=1, integer=True)
        check_number("dropout", self.dropout, low=0.0, high=1.0, high_open=True)
        check_number("learning_rate", self.learning_rate, low=0.0, low_open=True)
        for name in ("batch_size", "n_epochs", "patience"):
            check_number(name, getattr(self, name), low=1, integer=True)


def _train(log: BanditLog, settings: NetworkRewardModel, sample_weight: FloatArray) -> Layers:
    torch = import_torch("NetworkRewardModel")
    threads = torch.get_num_threads()
    torch.set_num_threads(N_THREADS)
    try:
        with torch.random.fork_rng():
            torch.manual_seed(settings.random_state or 0)
            return _train_on(torch, log, settings, sample_weight)
    finally:
        torch.set_num_threads(threads)


def _train_on(torch: Any, log: BanditLog, settings: NetworkRewardModel, sample_weight: FloatArray) -> Layers:
    device = pick_device(torch, settings.device)
    layout = fit_layout(log.context, category_sizes(log))
    inputs = _dense(layout(log.context))
    shift, spread = inputs.mean(axis=0), inputs.std(axis=0)
    factor = (1.0 / np.maximum(spread, 1e-2 * max(float(spread.max(initial=0.0)), 1e-12))).astype(np.float32)
    x = torch.as_tensor((inputs - shift) * factor, device=device)
    action = torch.as_tensor(log.action_idx.astype(np.int64), device=device)
    # Rewards of mean 0 and variance 1, whatever their unit: a learning rate then means the same for all logs.
    mean, scale = float(log.reward.mean()), float(log.reward.std()) or 1.0
    reward = torch.as_tensor(((log.reward - mean) / scale).astype(np.float32), device=device)
    weight = torch.as_tensor(sample_weight.astype(np.float32), device=device)
    order = np.random.default_rng([settings.random_state or 0, 3]).permutation(log.n_samples)
    n_held_out = max(int(HELD_OUT * log.n_samples), 1)
    held_out, train = (torch.as_tensor(rows, device=device) for rows in (order[:n_held_out], order[n_held_out:]))
    model = _make_model(torch, inputs.shape[1], log.n_actions, settings).to(device)
    optimiser = torch.optim.Adam(model.parameters(), lr=settings.learning_rate)
    n_batches = max(-(-len(train) // settings.batch_size), 1)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimiser, settings.learning_rate * 3.0, total_steps=settings.n_epochs * n_batches
    )

    def error(rows: Any) -> Any:
        predicted = model(x[rows]).gather(1, action[rows, None])[:, 0]
        return (weight[rows] * (predicted - reward[rows]) ** 2).mean()

    best, best_error, waited = None, np.inf, 0
    for _ in range(settings.n_epochs):
        model.train()
        shuffled = train[torch.randperm(len(train), device="cpu").to(device)]
        for rows in shuffled.split(settings.batch_size):
            if len(rows) < 2:  # batch normalisation needs two
                continue
            optimiser.zero_grad()
            error(rows).backward()
            optimiser.step()
            schedule.step()
        model.eval()
        with torch.no_grad():
            found = float(torch.cat([error(rows)[None] * len(rows) for rows in held_out.split(4096)]).sum())
        if found < best_error:
            best, best_error, waited = {k: v.detach().clone() for k, v in model.state_dict().items()}, found, 0
        else:
            waited += 1
            if waited >= settings.patience:
                break
    if best is not None:
        model.load_state_dict(best)
    return _fold(model, layout, shift, factor, mean, scale)


def _make_model(torch: Any, n_inputs: int, n_actions: int, settings: NetworkRewardModel) -> Any:
    nn, layers, width = torch.nn, [], n_inputs
    for size in settings.hidden:
        layers += [nn.Linear(width, int(size)), nn.BatchNorm1d(int(size)), nn.ReLU(), nn.Dropout(settings.dropout)]
        width = int(size)
    return nn.Sequential(*layers, nn.Linear(width, n_actions))


def _fold(model: Any, layout: InputLayout, shift: FloatArray, factor: FloatArray, mean: float, scale: float) -> Layers:
    """Return the network as arrays: normalisation in the layers, outputs on the scale of the rewards."""
    weights, biases = [], []
    modules = list(model)
    for k, module in enumerate(modules):
        if not hasattr(module, "in_features"):
            continue
        weight = module.weight.detach().cpu().numpy().T.astype(np.float32)
        bias = module.bias.detach().cpu().numpy().astype(np.float32)
        if k + 1 < len(modules):
            norm = modules[k + 1]
            # norm(z) = gain · (z - mean) + bias at prediction: an affine map, which the layer before it takes over.
            gain = (norm.weight / (norm.running_var + norm.eps).sqrt()).detach().cpu().numpy()
            bias = (bias - norm.running_mean.cpu().numpy()) * gain + norm.bias.detach().cpu().numpy()
            weight = weight * gain
        else:
            weight, bias = weight * scale, bias * scale + mean
        weights.append(np.ascontiguousarray(weight, dtype=np.float32))  # as a file stores it
        biases.append(bias.astype(np.float32))
    return Layers(layout, shift.astype(np.float32), factor, tuple(weights), tuple(biases))


def _pack(networks: Sequence[Layers]) -> Packed:
    arrays: dict[str, AnyArray] = {}
    for number, network in enumerate(networks):
        own = {"shift": network.shift, "factor": network.factor, **network.layout.pack()}
        own |= {f"weight/{k}": weight for k, weight in enumerate(network.weights)}
        own |= {f"bias/{k}": bias for k, bias in enumerate(network.biases)}
        arrays |= {f"{number}/{name}": array for name, array in own.items()}
    return {"widths": [[len(bias) for bias in network.biases] for network in networks]}, arrays


def _unpack(
    facts: Mapping[str, Any], arrays: Mapping[str, AnyArray], *, n_features: int, by_action: FloatArray
) -> list[Layers]:
    found = []
    for widths, own in zip(facts["widths"], grouped(arrays, len(facts["widths"])), strict=True):
        layout = unpack_layout(own, n_features)
        sizes = [layout.n_inputs, *(int(width) for width in widths)]
        if len(sizes) < 2 or sizes[-1] != len(by_action):
            raise ValueError("a network has another number of outputs than there are actions")
        shapes = list(pairwise(sizes))
        found.append(
            Layers(
                layout,
                check_array(own, "shift", (layout.n_inputs,)),
                check_array(own, "factor", (layout.n_inputs,)),
                tuple(check_array(own, f"weight/{k}", shape) for k, shape in enumerate(shapes)),
                tuple(check_array(own, f"bias/{k}", shape[1:]) for k, shape in enumerate(shapes)),
            )
        )
    return found


CODEC = PREDICTORS[Layers.kind] = Codec(_pack, _unpack, needs_columns=False)
