"""Problems that wait to be grown: a set of contexts with one action set each."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bopl._kernel import njit
from bopl.learner.hist_tree.random import mix

# Columns of ``Queue.table``.
ROW_START, N_ROWS, ACTION_START, N_ACTIONS, P_DEPTH, P_NODE, P_PATH, N_PROBLEM_INTS = 0, 1, 2, 3, 4, 5, 6, 7


@njit(nogil=True, cache=True)
def with_room(table, n):  # type: ignore[no-untyped-def]
    """Return ``table``, or a longer copy if it has no room for ``n`` rows."""
    if n <= len(table):
        return table
    longer = np.empty((max(n, 2 * len(table)), table.shape[1]), table.dtype)
    longer[: len(table)] = table
    return longer


@njit(nogil=True, cache=True)
def with_room_flat(values, n):  # type: ignore[no-untyped-def]
    """Return ``values``, or a longer copy if they have no room for ``n``."""
    if n <= len(values):
        return values
    longer = np.empty(max(n, 2 * len(values)), values.dtype)
    longer[: len(values)] = values
    return longer


class Queue(NamedTuple):
    """Problems waiting, the last first, their rows and action sets end to end."""

    table: NDArray[np.int64]  # (room, N_PROBLEM_INTS)
    rows: NDArray[np.int32]
    actions: NDArray[np.int32]
    top: NDArray[np.int64]  # (3,): problems, rows and actions in use


@njit(nogil=True, cache=True)
def make_queue(n_rows, n_actions):  # type: ignore[no-untyped-def]
    """Return an empty queue with some room."""
    table = np.empty((16, N_PROBLEM_INTS), np.int64)
    return Queue(table, np.empty(n_rows, np.int32), np.empty(n_actions, np.int32), np.zeros(3, np.int64))


@njit(nogil=True, cache=True)
def _append(queue, rows, actions, n_problems):  # type: ignore[no-untyped-def]
    """Add rows and actions, and room for problems; return the queue and where the rows and the actions begin."""
    n, row_start, action_start = queue.top[0], queue.top[1], queue.top[2]
    queue.top[0], queue.top[1], queue.top[2] = n + n_problems, row_start + len(rows), action_start + len(actions)
    queue = Queue(
        with_room(queue.table, n + n_problems),
        with_room_flat(queue.rows, row_start + len(rows)),
        with_room_flat(queue.actions, action_start + len(actions)),
        queue.top,
    )
    queue.rows[row_start : row_start + len(rows)] = rows
    queue.actions[action_start : action_start + len(actions)] = actions
    return queue, row_start, action_start


@njit(nogil=True, cache=True)
def push(queue, rows, actions, depth, node, path):  # type: ignore[no-untyped-def]
    """Add the problem that continues ``node``; return the queue."""
    n = queue.top[0]
    queue, row_start, action_start = _append(queue, rows, actions, 1)
    queue.table[n] = (row_start, len(rows), action_start, len(actions), depth, node, path)
    return queue


@njit(nogil=True, cache=True)
def push_pair(queue, rows, actions, is_right, depth, node, path):  # type: ignore[no-untyped-def]
    """Add the two problems of an action split, ``node`` and ``node + 1``, which share their rows; return the queue."""
    ordered, n_left = _left_first(actions, is_right)
    n = queue.top[0]
    queue, row_start, action_start = _append(queue, rows, ordered, 2)
    n_right = len(actions) - n_left
    queue.table[n] = (row_start, len(rows), action_start, n_left, depth, node, mix(path, 1))
    queue.table[n + 1] = (row_start, len(rows), action_start + n_left, n_right, depth, node + 1, mix(path, 2))
    return queue


@njit(nogil=True, cache=True)
def pop(queue):  # type: ignore[no-untyped-def]
    """Take the last problem; everything above it in the pools belongs to problems that are done."""
    queue.top[0] -= 1
    problem = queue.table[queue.top[0]].copy()
    queue.top[1] = problem[ROW_START] + problem[N_ROWS]
    queue.top[2] = problem[ACTION_START] + problem[N_ACTIONS]
    return problem


@njit(nogil=True, cache=True)
def _left_first(actions, is_right):  # type: ignore[no-untyped-def]
    """Return the actions that an action split sends left, then the others, and the number of the former."""
    ordered = np.empty_like(actions)
    n = 0
    for side in (False, True):
        if side:
            n_left = n
        for k in range(len(actions)):
            if is_right[k] == side:
                ordered[n] = actions[k]
                n += 1
    return ordered, n_left
