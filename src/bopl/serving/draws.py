"""The uniform number that decides an event: a function of the loop's seed and the event, so that it can be replayed."""

from __future__ import annotations

import hashlib

_STREAM = 0x626F706C  # second half of the key: draws of decisions, apart from other uses of the seed
_WORD = (1 << 64) - 1
# Philox4x64-10 of Salmon, Moraes, Dror and Shaw (2011): multipliers, Weyl sequence, rounds.
_MULTIPLY_0, _MULTIPLY_1 = 0xD2E7470EE14C6C93, 0xCA5A826395121157
_WEYL_0, _WEYL_1 = 0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B
_N_ROUNDS = 10


def draw_of(seed: int, event: str) -> float:
    """Return the number in [0, 1) that belongs to an event.

    It is the first output of the counter-based generator Philox with the seed as its key and a hash of the event as its
    counter: no state, no order, the same in every process.

    Examples
    --------
    >>> draw_of(1, "order-17") == draw_of(1, "order-17"), draw_of(1, "order-17") == draw_of(2, "order-17")
    (True, False)
    """
    return (philox(key_of(seed), counter_of(event)) >> 11) * 2.0**-53


def key_of(seed: int) -> tuple[int, int]:
    """Return the key of a loop's draws: two words of 64 bits."""
    return seed & _WORD, _STREAM


def counter_of(event: str) -> tuple[int, int, int, int]:
    """Return the counter of an event: four words of 64 bits."""
    digest = hashlib.blake2b(event.encode(), digest_size=32).digest()
    first, second, third, fourth = (int.from_bytes(digest[at : at + 8], "little") for at in (0, 8, 16, 24))
    return first, second, third, fourth


def philox(key: tuple[int, int], counter: tuple[int, int, int, int]) -> int:
    """Return the first word of Philox4x64-10; a generator object of numpy's costs ten times as much to set up."""
    (key_0, key_1), (a, b, c, d) = key, counter
    for _ in range(_N_ROUNDS):
        low, high = a * _MULTIPLY_0, c * _MULTIPLY_1
        a, b, c, d = (high >> 64) ^ b ^ key_0, high & _WORD, (low >> 64) ^ d ^ key_1, low & _WORD
        key_0, key_1 = (key_0 + _WEYL_0) & _WORD, (key_1 + _WEYL_1) & _WORD
    return a
