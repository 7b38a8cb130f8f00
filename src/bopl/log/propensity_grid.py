"""Rounded propensities: on which grid they lie, and whether they can be exact all the same."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bopl._typing import FloatArray

MAX_DECIMALS = 6
MAX_DIGITS = 3  # significant ones
MAX_EXACT_VALUES = 10  # a policy that was designed with round probabilities has few of them
MAX_PARTS = 12  # thirds, sevenths and the like, as which a few values may have been rounded
MIN_STEPS_PER_PART = 8  # steps of the grid in such a part; on a coarser grid everything is near some fraction


@dataclass(frozen=True)
class Grid:
    """The decimals and significant digits after which all propensities of a log end."""

    decimals: int | None  # None if there are more than `MAX_DECIMALS`
    digits: int | None  # None if there are more than `MAX_DIGITS`
    values: FloatArray  # the different propensities

    def half_unit(self, propensity: FloatArray) -> FloatArray:
        """Return by how much rounding can have moved each propensity: half a unit of its last decimal or digit."""
        found = np.zeros(len(propensity))
        if self.decimals is not None:
            found = np.full(len(propensity), 0.5 * 10.0**-self.decimals)
        if self.digits is not None:
            found = np.maximum(found, 0.5 * 10.0 ** (_exponent(propensity) - self.digits + 1))
        return found

    def may_be_rounded(self, n_actions: int) -> bool:
        """Return whether the values look rounded, and not like a design with round numbers.

        A design has few values, some of them make up a distribution that sums to one exactly, and they are not the
        rounded values of thirds, sevenths or other simple fractions.
        """
        if len(self.values) > MAX_EXACT_VALUES or self.decimals is None:
            return True
        return self._are_fractions() or not self._make_distributions(n_actions)

    def _are_fractions(self) -> bool:
        """Return whether all values are simple fractions that the grid does not hold."""
        assert self.decimals is not None
        for n_parts in range(2, min(MAX_PARTS, 10**self.decimals // MIN_STEPS_PER_PART) + 1):
            fraction = np.round(self.values * n_parts) / n_parts
            if np.array_equal(np.round(fraction, self.decimals), np.round(self.values, self.decimals)):
                return not np.allclose(fraction, self.values, rtol=1e-6, atol=0.0)
        return False

    def _make_distributions(self, n_actions: int) -> bool:
        """Return whether each value is part of a distribution of at most ``n_actions`` of them that sums to one."""
        assert self.decimals is not None
        total = 10**self.decimals
        units = [int(unit) for unit in np.round(self.values * total)]
        keep = (1 << (total + 1)) - 1
        sums = reached = 1  # bit s is set if some of the values sum to s units
        for _ in range(n_actions - 1):
            for unit in units:
                sums |= reached << unit
            sums &= keep
            if sums == reached:
                break
            reached = sums
        return all(reached >> (total - unit) & 1 for unit in units)


def find_grid(propensity: FloatArray) -> Grid | None:
    """Return the grid on which propensities lie; None if they have too many decimals and digits for one."""
    values = np.unique(propensity)
    decimals = next((d for d in range(1, MAX_DECIMALS + 1) if _is_same(values, np.round(values, d))), None)
    scale = 10.0 ** _exponent(values)
    digits = next(
        (s for s in range(1, MAX_DIGITS + 1) if _is_same(values, np.round(values / scale, s - 1) * scale)), None
    )
    return None if decimals is None and digits is None else Grid(decimals, digits, values)


def _is_same(values: FloatArray, rounded: FloatArray) -> bool:
    """Return whether values are equal in 32 bits, in which many logs store them."""
    return bool(np.array_equal(values.astype(np.float32), rounded.astype(np.float32)))


def _exponent(values: FloatArray) -> FloatArray:
    return np.floor(np.log10(values) + 1e-9)
