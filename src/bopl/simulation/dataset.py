"""The paper's four supervised datasets: found on disk, checked, split as in the paper."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bopl._typing import AnyArray, FloatArray, IntArray
from bopl.simulation.conversion import reward_matrix


@dataclass(frozen=True)
class Source:
    """One file: its checksum and how its arrays become contexts and labels."""

    file: str
    sha256: str
    read: Callable[[Any], tuple[AnyArray, AnyArray, AnyArray]]  # arrays -> context, label, names of the actions
    partial_credit: tuple[tuple[int, ...], ...] = ()  # groups of classes, by number
    test_share: float = 0.1
    validation_share: float = 0.1  # of what the test part leaves
    n_test: int | None = None  # rows of a fixed test part, at the end
    logging_reward: float = 0.5  # of the paper's logging policy


@dataclass(frozen=True)
class Dataset:
    """Labelled data with the reward of every action.

    Attributes
    ----------
    name : str
    context : float32 ndarray of shape (n_samples, n_features)
    reward : ndarray of shape (n_samples, n_actions)
    actions : ndarray of shape (n_actions,)
        Class numbers.
    action_names : ndarray of str of shape (n_actions,)
    logging_reward : float
        Reward of the paper's logging policy.
    """

    name: str
    context: FloatArray
    reward: FloatArray
    actions: AnyArray
    action_names: AnyArray
    logging_reward: float


@dataclass(frozen=True)
class Split:
    """Row numbers of the three parts."""

    train: IntArray
    validation: IntArray
    test: IntArray


def _read_covertype(arrays: Any) -> tuple[AnyArray, AnyArray, AnyArray]:
    return arrays["X"], arrays["y"], arrays["class_names"]


def _read_fashion(arrays: Any) -> tuple[AnyArray, AnyArray, AnyArray]:
    images = np.concatenate([arrays["x_train"], arrays["x_test"]])
    label = np.concatenate([arrays["y_train"], arrays["y_test"]])
    return images.reshape(len(images), -1), label, arrays["class_names"]


def _read_multilabel(arrays: Any) -> tuple[AnyArray, AnyArray, AnyArray]:
    return arrays["X"], arrays["Y"], arrays["label_names"]


SOURCES = {
    "covertype": Source(
        file="covertype.npz",
        sha256="5fce359d481d93aedcc0d71c38d7d5679b732f80e44941a46464c633784c55f2",
        read=_read_covertype,
        partial_credit=((0, 5), (1, 2), (3, 4)),  # firs, pines, populus
        validation_share=1 / 9,
        logging_reward=0.4907,
    ),
    "fashion_mnist": Source(
        file="fashion_mnist.npz",
        sha256="188c9226d11c4e8197a3b7023823024706d588e520b87c80c2247efcd134b714",
        read=_read_fashion,
        partial_credit=((2, 4), (0, 6), (5, 7, 9)),  # outerwear, shirts, footwear
        n_test=10_000,
        logging_reward=0.4708,
    ),
    "scene": Source(
        file="scene.npz",
        sha256="59f182fe9b82f8122c5fd5d20f304da5b4c707f456ff08435bd34bf5e8be988d",
        read=_read_multilabel,
        test_share=0.2,
        validation_share=0.2,
        logging_reward=0.4317,
    ),
    "tmc2007_500": Source(
        file="tmc2007_500.npz",
        sha256="243f78cb0e62a9a00df5b057b22722f763fd1676a77085d22711665dac16351b",
        read=_read_multilabel,
        logging_reward=0.3187,
    ),
    "tmc2007_500_v1": Source(
        file="tmc2007_500_v1.npz",
        sha256="9b68f8ca6f4da9c6d4e5aa1701ba57dfc8df4ed873d169912a1c5bb786f24795",
        read=_read_multilabel,
        logging_reward=0.3187,
    ),
}


def load_dataset(name: str) -> Dataset:
    """Load one of the paper's datasets.

    Parameters
    ----------
    name : {"covertype", "fashion_mnist", "scene", "tmc2007_500", "tmc2007_500_v1"}

    Raises
    ------
    FileNotFoundError
        The file is in none of the folders; the message names the file, the folders and ``BOPL_DATA``.
    ValueError
        The file is there but damaged.
    """
    if name not in SOURCES:
        raise ValueError(f"name must be one of {', '.join(map(repr, SOURCES))}; got {name!r}.")
    source = SOURCES[name]
    path = _find(source.file)
    _check_sum(path, source.sha256)
    with np.load(path, allow_pickle=False) as arrays:
        context, label, action_names = source.read(arrays)
    actions = np.arange(len(action_names))
    reward = reward_matrix(label, actions, partial_credit=source.partial_credit)
    context = np.ascontiguousarray(context, dtype=np.float32)
    return Dataset(name, context, reward, actions, action_names, source.logging_reward)


def data_folders() -> list[Path]:
    """Return where data files are looked for: ``BOPL_DATA`` if it is set, then the user's cache folder."""
    named = os.environ.get("BOPL_DATA")
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "bopl"
    return [*([Path(named)] if named else []), cache]


def _find(file: str) -> Path:
    for folder in data_folders():
        if (folder / file).is_file():
            return folder / file
    listed = ", ".join(str(folder) for folder in data_folders())
    raise FileNotFoundError(
        f"the data file {file} is in none of these folders: {listed}. Put it there, or set the environment variable "
        "BOPL_DATA to the folder that holds it."
    )


def _check_sum(path: Path, expected: str) -> None:
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    if found != expected:
        raise ValueError(
            f"the data file {path} is damaged or another version: its SHA-256 is {found[:12]}…, expected "
            f"{expected[:12]}…. Replace the file."
        )


def paper_split(dataset: Dataset, *, random_state: int = 0) -> Split:
    """Return the paper's split (appendix "Data Splits"); its sizes are those of the paper's table of datasets."""
    source = SOURCES[dataset.name]
    rng = np.random.default_rng(random_state)
    n_samples = len(dataset.context)
    if source.n_test is not None:
        rest, test = rng.permutation(n_samples - source.n_test), np.arange(n_samples - source.n_test, n_samples)
    else:
        order = rng.permutation(n_samples)
        n_test = round(source.test_share * n_samples)
        test, rest = order[:n_test], order[n_test:]
    n_validation = round(source.validation_share * len(rest))
    return Split(train=rest[n_validation:], validation=rest[:n_validation], test=test)
