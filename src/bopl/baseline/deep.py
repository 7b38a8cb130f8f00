"""DRR and BanditNet: the paper's networks, as predictors of reward and as softmax policies."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from bopl._settings import check_choice, check_number
from bopl._typing import AnyArray, ContextMatrix, FloatArray
from bopl.baseline.network import SCALINGS, Network, unpack_network
from bopl.baseline.network_training import TrainingSettings, train_networks
from bopl.log import BanditLog
from bopl.policy.learned import LearnedPolicy, Packed


class NetworkPolicy(LearnedPolicy):
    """What DRR and BanditNet share: the network's shape, its training, its file."""

    network_: Network
    history_: dict[str, FloatArray]
    best_epoch_: int

    def __init__(
        self,
        n_hidden_layers: int = 2,
        first_layer_width: int = 256,
        dropout: float = 0.1,
        weight_decay: float = 1e-5,
        learning_rate: float = 0.01,
        n_epochs: int = 1000,
        batch_size: int = 100,
        early_stopping_patience: int = 10,
        scaling: str = "standard",
        device: str = "auto",
        progress: bool = True,
        random_state: int | None = None,
    ) -> None:
        self.n_hidden_layers = n_hidden_layers
        self.first_layer_width = first_layer_width
        self.dropout = dropout
        self.weight_decay = weight_decay
        self.learning_rate = learning_rate
        self.n_epochs = n_epochs
        self.batch_size = batch_size
        self.early_stopping_patience = early_stopping_patience
        self.scaling = scaling
        self.device = device
        self.progress = progress
        self.random_state = random_state

    def learn(self, log: BanditLog) -> None:
        """Learn from the log."""
        _fit_logs([self], [log])

    def _settings(self) -> TrainingSettings:
        check_number("n_hidden_layers", self.n_hidden_layers, low=1, integer=True)
        check_number("first_layer_width", self.first_layer_width, low=1, integer=True)
        check_number("dropout", self.dropout, low=0.0, high=1.0, high_open=True)
        check_number("weight_decay", self.weight_decay, low=0.0)
        check_number("learning_rate", self.learning_rate, low=0.0, low_open=True)
        check_number("n_epochs", self.n_epochs, low=1, integer=True)
        check_number("batch_size", self.batch_size, low=2, integer=True)
        check_number("early_stopping_patience", self.early_stopping_patience, low=1, integer=True)
        check_choice("scaling", self.scaling, SCALINGS)
        return TrainingSettings(
            n_hidden_layers=int(self.n_hidden_layers),
            first_layer_width=int(self.first_layer_width),
            dropout=float(self.dropout),
            weight_decay=float(self.weight_decay),
            learning_rate=float(self.learning_rate),
            n_epochs=int(self.n_epochs),
            batch_size=int(self.batch_size),
            patience=int(self.early_stopping_patience),
            scaling=self.scaling,
            predicts_rewards=self.predicts_rewards,
            reward_translation=0.0,
        )

    @property
    def has_exact_rows(self) -> bool:
        """Whether the digits of a row's probabilities do not depend on the other rows: not for networks."""
        return False

    def score_actions(self, context: ContextMatrix) -> FloatArray:
        """Return the network's scores."""
        return self.network_.score(context)

    def pack_learned(self) -> Packed:
        """Return what was learned."""
        facts, arrays = self.network_.pack()
        arrays |= {f"history/{name}": column for name, column in self.history_.items()}
        return facts | {"best_epoch": self.best_epoch_}, arrays

    def unpack_learned(self, facts: dict[str, Any], arrays: dict[str, AnyArray]) -> None:
        """Restore what was learned."""
        self.network_ = unpack_network(facts, arrays, self.n_features_in_, len(self.actions_))
        self.best_epoch_ = int(facts["best_epoch"])
        self.history_ = {name: arrays[f"history/{name}"] for name in ("epoch", "loss", "snips_value")}
        if any(column.shape != self.history_["epoch"].shape or column.ndim != 1 for column in self.history_.values()):
            raise ValueError("the history's columns differ in length")


class DeepRewardPolicy(NetworkPolicy):
    """DRR of the paper: a network regresses the logged rewards, the policy takes the action it predicts best.

    Rows are ``[x; onehot(a); features of a]``. Every hidden layer is followed by batch normalisation, ReLU and dropout;
    its width is half of the one before, but not below 32. AdaGrad minimises the squared error; training stops when the
    self-normalised estimate of the greedy policy's reward on the training log has not improved for
    ``early_stopping_patience`` epochs, and the best epoch is kept. Predicting needs no PyTorch.

    Categories become indicators. A missing number is replaced by the mean of its column, and columns with missing
    numbers in the training log also get an indicator.

    Parameters
    ----------
    n_hidden_layers : int, default=2
        Number of hidden layers.
    first_layer_width : int, default=256
        Width of the first hidden layer; each further one is half as wide, but not below 32.
    dropout : float in [0, 1), default=0.1
        Share of the hidden units dropped in each step of training.
    weight_decay : float, default=1e-5
        Weight decay per step, in units of the learning rate.
    learning_rate : float, default=0.01
        Learning rate of AdaGrad.
    n_epochs : int, default=1000
        Maximum number of epochs.
    batch_size : int, default=100
        Number of samples in one step of training.
    early_stopping_patience : int, default=10
        Number of epochs without a better estimate after which training stops.
    scaling : {"standard", "max", "none"}, default="standard"
        ``"standard"`` standardises columns that do not lie in [0, 1]; ``"max"`` divides by the largest value.
    device : {"auto", "cpu", "cuda"}, default="auto"
        ``"auto"`` is CUDA if there is a GPU.
    progress : bool, default=True
        Show a progress bar if standard error is a terminal.
    random_state : int, optional
        Seed of initial weights, order of the samples and dropout. On a CPU with the same number of threads the result
        is then the same to the last bit.

    Attributes
    ----------
    network_ : Network
    best_epoch_ : int
    history_ : dict of ndarray
        ``epoch``, ``loss`` and ``snips_value`` (on the training log).
    """

    predicts_rewards = True


class BanditNetPolicy(NetworkPolicy):
    """BanditNet (Joachims et al., 2018): a softmax policy over a network's scores, trained on the estimated reward.

    It minimises ``-mean (r_i + reward_translation)/p_i · pi(a_i | x_i)``; the network and its training are those of
    `DeepRewardPolicy`, except that early stopping watches the softmax policy's estimate.

    Parameters
    ----------
    n_hidden_layers, first_layer_width, dropout, weight_decay, learning_rate, n_epochs, batch_size, scaling, device
        As for `DeepRewardPolicy`, and so ``early_stopping_patience``, ``progress`` and ``random_state``.
    reward_translation : float, default=0
        Added to every reward before training (-0.4 means r - 0.4): the paper's guard against propensity overfitting.

    Attributes
    ----------
    network_, best_epoch_, history_
        As for `DeepRewardPolicy`.
    """

    def __init__(
        self,
        n_hidden_layers: int = 2,
        first_layer_width: int = 256,
        dropout: float = 0.1,
        weight_decay: float = 1e-5,
        learning_rate: float = 0.01,
        n_epochs: int = 1000,
        batch_size: int = 100,
        early_stopping_patience: int = 10,
        reward_translation: float = 0.0,
        scaling: str = "standard",
        device: str = "auto",
        progress: bool = True,
        random_state: int | None = None,
    ) -> None:
        super().__init__(
            n_hidden_layers=n_hidden_layers,
            first_layer_width=first_layer_width,
            dropout=dropout,
            weight_decay=weight_decay,
            learning_rate=learning_rate,
            n_epochs=n_epochs,
            batch_size=batch_size,
            early_stopping_patience=early_stopping_patience,
            scaling=scaling,
            device=device,
            progress=progress,
            random_state=random_state,
        )
        self.reward_translation = reward_translation

    def _settings(self) -> TrainingSettings:
        check_number("reward_translation", self.reward_translation, low_open=True, high_open=True)
        return replace(super()._settings(), reward_translation=float(self.reward_translation))


AnyNetworkPolicy = TypeVar("AnyNetworkPolicy", bound=NetworkPolicy)


def fit_together(policies: Sequence[AnyNetworkPolicy], logs: Sequence[BanditLog]) -> list[AnyNetworkPolicy]:
    """Train one policy per log, all in lockstep: on a GPU ten small networks take little longer than one.

    The policies must agree in everything but ``random_state``, and the logs in their numbers of samples and actions.
    With one policy this is ``fit``; with several, the draws of dropout are shared, so a policy trained together with
    others differs in its random numbers from the same policy trained alone.
    """
    if len(policies) != len(logs) or not policies:
        raise ValueError(f"fit_together needs one policy per log; got {len(policies)} policies and {len(logs)} logs.")
    _fit_logs(policies, logs)
    for policy, log in zip(policies, logs, strict=True):
        policy._remember(log)
    return list(policies)


def _fit_logs(policies: Sequence[NetworkPolicy], logs: Sequence[BanditLog]) -> None:
    first = policies[0]
    settings = first._settings()
    if any(type(policy) is not type(first) or policy._settings() != settings for policy in policies):
        raise ValueError("policies that are trained together must agree in class and settings, except random_state.")
    seeds = [int(np.random.SeedSequence(policy.random_state).generate_state(1)[0]) for policy in policies]
    owner = type(first).__name__
    with _progress(owner, settings.n_epochs, show=first.progress) as report:
        networks, history, best_epoch = train_networks(
            logs, settings, seeds, device=first.device, owner=owner, report=report
        )
    for number, policy in enumerate(policies):
        policy.network_, policy.best_epoch_ = networks[number], int(best_epoch[number])
        policy.history_ = {
            "epoch": np.arange(1, len(history.loss) + 1, dtype=np.float64),
            "loss": np.array([values[number] for values in history.loss]),
            "snips_value": np.array([values[number] for values in history.snips_value]),
        }


@contextmanager
def _progress(owner: str, n_epochs: int, *, show: bool) -> Any:
    """Yield a function of (epoch, training reward) that updates a bar, or does nothing if nobody is watching."""
    if not show or not sys.stderr.isatty():
        yield lambda epoch, value: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn(owner), BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"))
    with Progress(*columns, TimeElapsedColumn(), console=Console(file=sys.stderr), transient=True) as bar:
        task = bar.add_task("", total=n_epochs)
        move: Callable[[int, float], None] = lambda epoch, value: bar.update(  # noqa: E731
            task, completed=epoch, description=f"training reward {value:.4f}"
        )
        yield move
