"""Supervised-to-bandit conversion: labelled data to a log with a known truth."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from bopl._typing import AnyArray, FloatArray
from bopl.log import BanditLog
from bopl.policy.policy import Policy, draw_actions


def reward_matrix(
    label: Any, actions: AnyArray, *, partial_credit: Sequence[Collection[Any]] = (), credit: float = 0.25
) -> FloatArray:
    """Return the reward of every action for every row of labelled data, of shape (n_samples, n_actions).

    Parameters
    ----------
    label : array-like of shape (n_samples,), or 0/1 array of shape (n_samples, n_actions)
        Classes, or indicators of several labels per row: reward 1 for every true label.
    actions : ndarray of shape (n_actions,)
        Labels that can be chosen, in the order of the columns.
    partial_credit : sequence of groups of labels
        Choosing another label of the true one's group earns ``credit``.
    """
    values = np.asarray(label)
    if values.ndim == 2:
        return _check_indicators(values, actions)
    position = {action: idx for idx, action in enumerate(actions.tolist())}
    _check_known("label", values.tolist(), position)
    _check_known("partial_credit", (member for group in partial_credit for member in group), position)
    table = np.eye(len(actions))  # true class by chosen action
    for group in partial_credit:
        members = [position[member] for member in group]
        for true in members:
            for chosen in members:
                if true != chosen:
                    table[true, chosen] = credit
    return table[[position[value] for value in values.tolist()]]


def _check_indicators(values: AnyArray, actions: AnyArray) -> FloatArray:
    """Return 0/1 indicators as rewards, or raise an error."""
    if values.shape[1] != len(actions):
        raise ValueError(
            f"label must have one column per action: it has {values.shape[1]}, and there are {len(actions)} actions."
        )
    wrong = values[~np.isin(values, (0, 1))]
    if wrong.size:
        raise ValueError(f"label must hold 0 and 1 where it has several columns; got {wrong.tolist()[0]!r}.")
    return values.astype(np.float64)


def _check_known(what: str, labels: Iterable[Any], position: Mapping[Any, int]) -> None:
    unknown = [value for value in labels if value not in position]
    if unknown:
        raise ValueError(
            f"{what} holds {unknown[0]!r}, which is not among the actions {', '.join(map(repr, position))}."
        )


def supervised_to_bandit(
    context: Any, reward: FloatArray, logging_policy: Policy, *, random_state: int | None = None
) -> BanditLog:
    """Return the log that ``logging_policy`` would have written (Beygelzimer and Langford, 2009).

    Parameters
    ----------
    context : array-like of shape (n_samples, n_features)
        What a policy may use.
    reward : ndarray of shape (n_samples, n_actions)
        Reward of every action, such as from `reward_matrix`; the log contains only that of the drawn action.
    logging_policy : Policy
        Its ``actions_`` are the actions of the log.
    random_state : int, optional
        Seed of the drawn actions.
    """
    action_prob = logging_policy.predict_proba(context)
    if action_prob.shape != reward.shape:
        raise ValueError(
            f"reward must have one column per action: it has shape {reward.shape}, the logging policy's probabilities "
            f"{action_prob.shape}."
        )
    chosen = draw_actions(action_prob, np.random.default_rng(random_state))
    rows = np.arange(len(chosen))
    return BanditLog(
        context,
        logging_policy.actions_[chosen],
        reward[rows, chosen],
        action_prob[rows, chosen],
        actions=logging_policy.actions_,
    )


def true_value(policy: Policy, context: Any, reward: FloatArray, *, is_greedy: bool = True) -> float:
    """Return the true reward of a policy on labelled data.

    Parameters
    ----------
    policy : Policy
        A fitted or hand-made policy.
    context : array-like of shape (n_samples, n_features)
        Contexts whose true rewards are known.
    reward : ndarray of shape (n_samples, n_actions)
        Reward of every action.
    is_greedy : bool, default=True
        Whether it always takes its most probable action; otherwise it samples, which is what `bopl.evaluate` estimates.
    """
    action_prob = policy.predict_proba(context)
    if not is_greedy:
        return float((action_prob * reward).sum(axis=1).mean())
    chosen = action_prob.argmax(axis=1)
    return float(reward[np.arange(len(chosen)), chosen].mean())
