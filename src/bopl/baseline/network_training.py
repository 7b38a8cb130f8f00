"""Training of the networks in PyTorch: several logs of one shape in lockstep, all data on the device.

A leading dimension T indexes the logs. Activations are kept as (T, width, rows): one matrix product per layer serves
all logs, and (1, T·width, rows) is what the library's batch normalisation takes, with separate statistics for each log.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np

from bopl._machine import import_torch, pick_device
from bopl._typing import FloatArray, IntArray
from bopl._weight import snips_value
from bopl.baseline.network import Network, fit_scaling, layer_widths
from bopl.log import BanditLog
from bopl.log.input_layout import category_sizes

Tensor: TypeAlias = Any  # torch is an optional dependency: it is imported when a network is trained

NORM_EPSILON = 1e-5
NORM_MOMENTUM = 0.1
INITIAL_WEIGHT = 0.07  # uniform in ±0.07, as in the library of the paper; larger ones cost DRR over 0.01 on Scene
ADAGRAD_EPSILON = 1e-7  # inside the root: parameters whose gradients were always tiny move little
EVALUATED_VALUES = {"cuda": 1 << 28, "cpu": 1 << 22}  # activations of one layer held while scoring a whole log


@dataclass(frozen=True)
class TrainingSettings:
    """Settings of a training run, checked by the policies."""

    n_hidden_layers: int
    first_layer_width: int
    dropout: float
    weight_decay: float
    learning_rate: float
    n_epochs: int
    batch_size: int
    patience: int
    scaling: str
    predicts_rewards: bool  # else the network's softmax is the policy, whose estimated reward is maximised
    reward_translation: float


@dataclass
class EpochHistory:
    """Loss and training reward after every epoch, one list for each log."""

    loss: list[list[float]] = field(default_factory=list)
    snips_value: list[list[float]] = field(default_factory=list)


@dataclass(frozen=True)
class Columns:
    """The logs' columns on the device, of shape (T, n_samples)."""

    action_idx: Tensor
    reward: Tensor
    propensity: Tensor
    action_mask: Tensor | None  # (T, n_samples, n_actions)

    def rows(self, at: Tensor) -> Columns:
        """Return the columns of some samples; ``at`` has shape (T, n_rows)."""
        mask = self.action_mask
        return Columns(
            self.action_idx.gather(1, at),
            self.reward.gather(1, at),
            self.propensity.gather(1, at),
            None if mask is None else mask.gather(1, at[:, :, None].expand(-1, -1, mask.shape[2])),
        )


def squared_error(score: Tensor, columns: Columns, reward_translation: float) -> Tensor:
    """Return ``mean (F(x, a) - r)²`` of the logged actions; ``score`` has shape (T, n_rows)."""
    return ((score - columns.reward) ** 2).mean(dim=1)


def ips_risk(score: Tensor, columns: Columns, reward_translation: float) -> Tensor:
    """Return ``-mean (r + translation)/p · pi(a | x)`` of the softmax policy; ``score`` has shape (T, n_rows, A)."""
    if columns.action_mask is not None:
        score = score.masked_fill(~columns.action_mask, -np.inf)
    logged = score.softmax(dim=2).gather(2, columns.action_idx[:, :, None])[:, :, 0]
    return -((columns.reward + reward_translation) / columns.propensity * logged).mean(dim=1)


class StackedNetwork:
    """T networks of one shape; parameters are tensors with a leading dimension T."""

    def __init__(
        self,
        torch: Any,
        device: Any,
        widths: Sequence[int],
        by_action: FloatArray,
        n_features: int,
        seeds: Sequence[int],
    ) -> None:
        self.torch, self.device, self.widths, self.n_networks = torch, device, list(widths), len(seeds)
        self.by_action = torch.from_numpy(np.ascontiguousarray(by_action, dtype=np.float32)).to(device)
        n_inputs = n_features + by_action.shape[1]
        generators = [torch.Generator().manual_seed(seed) for seed in seeds]

        def uniform(n_out: int, n_in: int) -> Tensor:
            drawn = [torch.rand(n_out, n_in, generator=generator) for generator in generators]
            return ((2.0 * torch.stack(drawn) - 1.0) * INITIAL_WEIGHT).to(device).requires_grad_()

        self.weights = [uniform(n_out, n_in) for n_in, n_out in pairwise([n_inputs, *widths, 1])]
        shape = [self.n_networks * width for width in widths]
        self.gammas = [torch.ones(size, device=device, requires_grad=True) for size in shape]
        self.betas = [torch.zeros(size, device=device, requires_grad=True) for size in shape]
        self.output_bias = torch.zeros(self.n_networks, 1, 1, device=device, requires_grad=True)
        self.means = [torch.zeros(size, device=device) for size in shape]
        self.variances = [torch.ones(size, device=device) for size in shape]
        self.n_features = n_features

    @property
    def parameters(self) -> list[Tensor]:
        """All parameters learned by gradient descent."""
        return [*self.weights, *self.gammas, *self.betas, self.output_bias]

    @property
    def state(self) -> list[Tensor]:
        """Everything that determines the scores."""
        return [*self.parameters, *self.means, *self.variances]

    def first_layer(self, rows: Tensor, action_idx: Tensor | None) -> Tensor:
        """Return (T, width, n_rows) for the given actions, or (T, width, n_rows · A) for all of them."""
        weight = self.weights[0]
        from_context = weight[:, :, : self.n_features] @ rows.transpose(1, 2)  # (T, width, n_rows)
        from_action = weight[:, :, self.n_features :] @ self.by_action.T  # (T, width, A)
        if action_idx is None:
            return (from_context[:, :, :, None] + from_action[:, :, None, :]).flatten(2)
        return from_context + from_action.gather(2, action_idx[:, None, :].expand(-1, weight.shape[1], -1))

    def forward(self, rows: Tensor, action_idx: Tensor | None, *, dropout: float, generator: Any) -> Tensor:
        """Return scores (T, n_rows) of the given actions, or (T, n_rows, A) of all; ``generator=None`` is inference."""
        torch, functional = self.torch, self.torch.nn.functional
        hidden = self.first_layer(rows, action_idx)
        for layer in range(len(self.widths)):
            if layer:
                hidden = self.weights[layer] @ hidden
            flat = hidden.reshape(1, -1, hidden.shape[2])
            flat = functional.batch_norm(
                flat,
                self.means[layer],
                self.variances[layer],
                self.gammas[layer],
                self.betas[layer],
                training=generator is not None,
                momentum=NORM_MOMENTUM,
                eps=NORM_EPSILON,
            )
            hidden = torch.relu(flat).view_as(hidden)
            if generator is not None and dropout > 0.0:
                keep = torch.empty_like(hidden).bernoulli_(1.0 - dropout, generator=generator)
                hidden = hidden * keep.div_(1.0 - dropout)
        score = (self.weights[-1] @ hidden + self.output_bias)[:, 0, :]
        return score if action_idx is not None else score.view(len(score), rows.shape[1], -1)

    def to_network(self, state: Sequence[Tensor], number: int, scaling: Any) -> Network:
        """Return network ``number`` with the given state as plain arrays, batch normalisation folded in."""
        depth = len(self.widths)
        # Parameters of layers lie end to end, T pieces each: cut out the piece of this network.
        own = [
            tensor.detach()
            .reshape(self.n_networks, *(tensor.shape[1:] if tensor.dim() > 1 else (-1,)))[number]
            .double()
            .cpu()
            .numpy()
            for tensor in state
        ]
        weights, rest = own[: depth + 1], own[depth + 1 :]
        gammas, betas, bias = rest[:depth], rest[depth : 2 * depth], rest[2 * depth].ravel()
        means, variances = rest[2 * depth + 1 : 3 * depth + 1], rest[3 * depth + 1 :]
        factors = [gamma / np.sqrt(variance + NORM_EPSILON) for gamma, variance in zip(gammas, variances, strict=True)]
        shifts = [beta - mean * factor for beta, mean, factor in zip(betas, means, factors, strict=True)]
        first = weights[0] * factors[0][:, None]
        by_action = self.by_action.double().cpu().numpy()
        later = [weight * factor[:, None] for weight, factor in zip(weights[1:depth], factors[1:], strict=True)]
        return Network(
            scaling,
            _float32(first[:, : self.n_features].T),
            _float32(by_action @ first[:, self.n_features :].T + shifts[0]),
            tuple(_float32(weight.T) for weight in [*later, weights[depth]]),
            tuple(_float32(shift) for shift in [*shifts[1:], bias]),
        )


def _action_columns(log: BanditLog) -> FloatArray:
    """Return what an action adds to a row, (n_actions, n_columns); without the imports of `bopl.learner`."""
    identity = np.eye(log.n_actions)
    return identity if log.action_features is None else np.hstack([identity, log.action_features])


def _float32(array: FloatArray) -> FloatArray:
    return np.ascontiguousarray(array, dtype=np.float32)


class AdaGrad:
    """``w -= rate · (g / sqrt(sum of g² + epsilon) + decay · w)`` (Duchi et al., 2011), with decoupled weight decay."""

    def __init__(self, torch: Any, network: StackedNetwork, learning_rate: float, weight_decay: float) -> None:
        self.torch, self.parameters, self.weights = torch, network.parameters, network.weights
        self.learning_rate, self.weight_decay = learning_rate, weight_decay
        self.squares = [torch.zeros_like(parameter) for parameter in self.parameters]

    def step(self, loss: Tensor) -> None:
        """Move all parameters by the gradient of ``loss``."""
        torch = self.torch
        gradients = torch.autograd.grad(loss, self.parameters)
        with torch.no_grad():
            torch._foreach_addcmul_(self.squares, gradients, gradients, 1.0)
            root = torch._foreach_add(self.squares, ADAGRAD_EPSILON)
            torch._foreach_sqrt_(root)
            if self.weight_decay > 0.0:
                torch._foreach_mul_(self.weights, 1.0 - self.learning_rate * self.weight_decay)
            torch._foreach_addcdiv_(self.parameters, gradients, root, -self.learning_rate)


class Training:
    """One training run: logs on the device, networks, optimiser, early stopping on the training reward."""

    def __init__(
        self, logs: Sequence[BanditLog], settings: TrainingSettings, seeds: Sequence[int], device: str, *, owner: str
    ) -> None:
        self.torch = torch = import_torch(owner)
        self.device = pick_device(torch, device)
        self.logs, self.settings = list(logs), settings
        first = self.logs[0]
        if any((log.context.shape, log.n_actions) != (first.context.shape, first.n_actions) for log in logs):
            raise ValueError("logs that are trained on together must have the same numbers of samples and actions.")
        self.scalings = [fit_scaling(log.context, settings.scaling, category_sizes(log)) for log in logs]
        scaled = [scaling(log.context) for scaling, log in zip(self.scalings, logs, strict=True)]
        if any(rows.shape != scaled[0].shape for rows in scaled):
            raise ValueError("logs that are trained on together must have missing values in the same columns.")
        self.context = torch.stack([torch.from_numpy(rows).to(self.device) for rows in scaled])
        # Where each log begins when all are laid end to end, of shape (T, 1).
        self.first_row = torch.arange(len(self.logs), device=self.device)[:, None] * first.n_samples
        self.columns = self._columns()
        widths = layer_widths(settings.n_hidden_layers, settings.first_layer_width)
        by_action = _action_columns(first)
        self.network = StackedNetwork(torch, self.device, widths, by_action, self.context.shape[2], seeds)
        self.optimizer = AdaGrad(torch, self.network, settings.learning_rate, settings.weight_decay)
        # Orders are drawn on the CPU, so that they are the same on every device; dropout where it is used.
        self.orders = [torch.Generator().manual_seed(seed + 1) for seed in seeds]
        self.dropout_generator = torch.Generator(self.device).manual_seed(sum(seeds) + 2)
        self.history = EpochHistory()

    def _columns(self) -> Columns:
        torch, device = self.torch, self.device

        def stacked(name: str, dtype: Any) -> Tensor:
            return torch.stack([torch.from_numpy(np.array(getattr(log, name))) for log in self.logs]).to(device, dtype)

        has_mask = any(log.action_mask is not None for log in self.logs)
        return Columns(
            stacked("action_idx", torch.int64),
            stacked("reward", torch.float32),
            stacked("propensity", torch.float32),
            stacked("action_mask", torch.bool) if has_mask else None,
        )

    def run(self, report: Callable[[int, float], None]) -> list[Network]:
        """Train until every log's training reward has stopped improving; return the networks at their best epochs."""
        n_logs, patience = len(self.logs), self.settings.patience
        best = [tensor.detach().clone() for tensor in self.network.state]
        best_value, best_epoch = np.full(n_logs, -np.inf), np.zeros(n_logs, dtype=int)
        try:
            for epoch in range(1, self.settings.n_epochs + 1):
                self.history.loss.append(self._train_epoch())
                value = self.training_reward()
                self.history.snips_value.append(value.tolist())
                is_open = epoch - best_epoch <= patience  # a log that has stopped keeps its result
                improved = is_open & (value > best_value)
                self._keep(best, improved)
                best_value, best_epoch = np.where(improved, value, best_value), np.where(improved, epoch, best_epoch)
                report(epoch, float(best_value.mean()))
                if (epoch - best_epoch >= patience).all():
                    break
        except KeyboardInterrupt:
            if not best_epoch.any():
                raise
        self.best_epoch = best_epoch
        return [self.network.to_network(best, number, self.scalings[number]) for number in range(n_logs)]

    def _keep(self, best: list[Tensor], improved: Any) -> None:
        for kept, tensor in zip(best, self.network.state, strict=True):
            pieces = kept.view(len(improved), -1), tensor.detach().reshape(len(improved), -1)
            for number in np.flatnonzero(improved):
                pieces[0][number].copy_(pieces[1][number])

    def _train_epoch(self) -> list[float]:
        torch, n_samples = self.torch, self.context.shape[1]
        order = torch.stack([torch.randperm(n_samples, generator=generator) for generator in self.orders])
        order = order.to(self.device)
        total, n_batches = torch.zeros(len(self.logs), device=self.device), 0
        for start in range(0, n_samples, self.settings.batch_size):
            at = order[:, start : start + self.settings.batch_size]
            if at.shape[1] < 2 and n_batches:  # batch normalisation needs two rows; another sample comes last next time
                break
            loss = self.batch_loss(at)
            self.optimizer.step(loss.sum())
            total, n_batches = total + loss.detach(), n_batches + 1
        return [float(value) for value in total / n_batches]

    def batch_loss(self, at: Tensor) -> Tensor:
        """Return the loss of some samples of each log, of shape (T,)."""
        rows = self.context.view(-1, self.context.shape[2])[at + self.first_row]  # (T, batch, n_features)
        columns = self.columns.rows(at)
        predicts_rewards = self.settings.predicts_rewards
        action_idx = columns.action_idx if predicts_rewards else None
        score = self.network.forward(rows, action_idx, dropout=self.settings.dropout, generator=self.dropout_generator)
        loss = squared_error if predicts_rewards else ips_risk
        return loss(score, columns, self.settings.reward_translation)

    def training_reward(self) -> FloatArray:
        """Return each log's self-normalised estimate: of the softmax policy, or of the greedy one for rewards."""
        logged = self._probability_of_logged()
        return np.array(
            [
                snips_value(probability / log.propensity, log.reward)
                for probability, log in zip(logged, self.logs, strict=True)
            ]
        )

    def _probability_of_logged(self) -> FloatArray:
        torch, n_samples = self.torch, self.context.shape[1]
        per_sample = len(self.logs) * self.logs[0].n_actions * max(self.network.widths)
        step = max(EVALUATED_VALUES.get(self.device.type, 1 << 22) // per_sample, 1)
        pieces = []
        with torch.no_grad():
            for start in range(0, n_samples, step):
                rows = slice(start, start + step)
                score = self.network.forward(self.context[:, rows], None, dropout=0.0, generator=None)
                if self.columns.action_mask is not None:
                    score = score.masked_fill(~self.columns.action_mask[:, rows], -np.inf)
                action_idx = self.columns.action_idx[:, rows]
                if self.settings.predicts_rewards:
                    piece = (score.argmax(dim=2) == action_idx).float()
                else:
                    piece = score.softmax(dim=2).gather(2, action_idx[:, :, None])[:, :, 0]
                pieces.append(piece)
        probability: FloatArray = torch.cat(pieces, dim=1).double().cpu().numpy()
        return probability


def train_networks(
    logs: Sequence[BanditLog],
    settings: TrainingSettings,
    seeds: Sequence[int],
    *,
    device: str,
    owner: str,
    report: Callable[[int, float], None] = lambda epoch, value: None,
) -> tuple[list[Network], EpochHistory, IntArray]:
    """Train one network per log; return them with their history and their best epochs."""
    training = Training(logs, settings, seeds, device, owner=owner)
    networks = training.run(report)
    return networks, training.history, training.best_epoch
