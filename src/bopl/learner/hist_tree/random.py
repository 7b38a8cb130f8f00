"""Random draws that depend on a seed and a node only, never on the thread or the order of growth."""

from __future__ import annotations

import numpy as np

from bopl._kernel import njit

WENT_LEFT, WENT_RIGHT = 1, 2  # what a child's path is mixed from, beside its parent's


@njit(nogil=True, cache=True)
def mix(state, value):  # type: ignore[no-untyped-def]
    """Combine two integers into one whose bits depend on all of theirs (the splitmix64 finaliser)."""
    # Unsigned, where overflow wraps around; the constants are splitmix64's, and the golden ratio's fraction.
    z = np.uint64(state) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(value) + np.uint64(0x632BE59BD9B4E019)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.int64(z ^ (z >> np.uint64(31)))


@njit(nogil=True, cache=True)
def draw_columns(seed, path, share, n_always, allowed_out):  # type: ignore[no-untyped-def]
    """Mark ``ceil(share * n)`` columns, each set of that size being as likely as another, and the last ``n_always``."""
    n = len(allowed_out) - n_always
    allowed_out[n:] = True
    wanted = max(int(np.ceil(share * n)), 1)
    # From the path, not from a generator: a node draws the same columns whichever thread grows it, and whenever.
    state = mix(seed, path)
    for f in range(n):
        state = mix(state, f)
        # Selection sampling: take column f with probability (still wanted) / (still to come).
        chance = float(np.uint64(state) >> np.uint64(11)) / 9007199254740992.0  # 53 bits over 2^53: in [0, 1)
        allowed_out[f] = chance * (n - f) < wanted
        wanted -= allowed_out[f]
