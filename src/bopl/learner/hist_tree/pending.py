"""Problems that wait to be grown: a set of contexts with one action set each."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bopl._kernel import njit
from bopl.learner.hist_tree.node import with_capacity
from bopl.learner.hist_tree.random import WENT_LEFT, WENT_RIGHT, mix

FIRST_PROBLEMS = 16  # problems that a new queue holds

PROBLEM = np.dtype(
    [
        ("row_start", np.int64),  # in ``Queue.rows``
        ("n_rows", np.int64),
        ("action_start", np.int64),  # in ``Queue.actions``
        ("n_actions", np.int64),
        ("depth", np.int64),
        ("node", np.int64),  # the node that it continues
        ("path", np.int64),
    ]
)
USED = np.dtype([("problems", np.int64), ("rows", np.int64), ("actions", np.int64)])


class Queue(NamedTuple):
    """Problems waiting, the last first, their rows and action sets end to end."""

    problems: NDArray[Any]  # of PROBLEM
    rows: NDArray[np.int32]
    actions: NDArray[np.int32]
    used: NDArray[Any]  # (1,) of USED: how many of each are in use


@njit(nogil=True, cache=True)
def make_queue(n_rows, n_actions):  # type: ignore[no-untyped-def]
    """Return an empty queue."""
    problems = np.empty(FIRST_PROBLEMS, PROBLEM)
    return Queue(problems, np.empty(n_rows, np.int32), np.empty(n_actions, np.int32), np.zeros(1, USED))


@njit(nogil=True, cache=True)
def _append(queue, rows, actions, n_problems):  # type: ignore[no-untyped-def]
    """Add rows and actions, and empty problems; return the queue and where problems, rows and actions begin."""
    # A queue is a tuple, so growing it makes another; ``used`` is an array, so both see the same counts.
    used = queue.used[0]
    n, row_start, action_start = used.problems, used.rows, used.actions
    used.problems, used.rows, used.actions = n + n_problems, row_start + len(rows), action_start + len(actions)
    queue = Queue(
        with_capacity(queue.problems, n + n_problems),
        with_capacity(queue.rows, row_start + len(rows)),
        with_capacity(queue.actions, action_start + len(actions)),
        queue.used,
    )
    queue.rows[row_start : row_start + len(rows)] = rows
    queue.actions[action_start : action_start + len(actions)] = actions
    return queue, n, row_start, action_start


@njit(nogil=True, cache=True)
def _put_problem(row_start, n_rows, action_start, n_actions, depth, node, path, problem_out):  # type: ignore[no-untyped-def]
    problem_out.row_start, problem_out.n_rows = row_start, n_rows
    problem_out.action_start, problem_out.n_actions = action_start, n_actions
    problem_out.depth, problem_out.node, problem_out.path = depth, node, path


@njit(nogil=True, cache=True)
def push(queue, rows, actions, depth, node, path):  # type: ignore[no-untyped-def]
    """Add the problem that continues ``node``; return the queue."""
    queue, n, row_start, action_start = _append(queue, rows, actions, 1)
    _put_problem(row_start, len(rows), action_start, len(actions), depth, node, path, queue.problems[n])
    return queue


@njit(nogil=True, cache=True)
def push_pair(queue, rows, actions, is_right, depth, node, path):  # type: ignore[no-untyped-def]
    """Add the two problems of an action split, ``node`` and ``node + 1``, which share their rows; return the queue."""
    ordered, n_left = _left_first(actions, is_right)
    queue, n, row_start, action_start = _append(queue, rows, ordered, 2)
    n_rows, n_right = len(rows), len(actions) - n_left
    left, right = queue.problems[n], queue.problems[n + 1]
    _put_problem(row_start, n_rows, action_start, n_left, depth, node, mix(path, WENT_LEFT), left)
    _put_problem(row_start, n_rows, action_start + n_left, n_right, depth, node + 1, mix(path, WENT_RIGHT), right)
    return queue


@njit(nogil=True, cache=True)
def pop(queue):  # type: ignore[no-untyped-def]
    """Take the last problem; everything above it in the pools belongs to problems that are done.

    What is returned is good until something is pushed.
    """
    # The last problem has its rows and actions at the end of the pools, those of an action split sharing theirs: so
    # cutting the pools at its end frees all that later problems had, and nothing of an earlier one.
    used = queue.used[0]
    used.problems -= 1
    problem = queue.problems[used.problems]
    used.rows, used.actions = problem.row_start + problem.n_rows, problem.action_start + problem.n_actions
    return problem


@njit(nogil=True, cache=True)
def _left_first(actions, is_right):  # type: ignore[no-untyped-def]
    """Return the actions that an action split sends left, then the others, and the number of the former."""
    ordered = np.empty_like(actions)  # ascending on both sides, as ``actions`` is
    n = 0
    for side in (False, True):
        if side:
            n_left = n
        for k in range(len(actions)):
            if is_right[k] == side:
                ordered[n] = actions[k]
                n += 1
    return ordered, n_left
