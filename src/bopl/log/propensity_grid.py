"""Rounded propensities: on which grid they lie, and whether they can be exact all the same."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from bopl._typing import FloatArray

MAX_DECIMALS = 6
MAX_DIGITS = 3  # significant ones
MAX_EXACT_VALUES = 10  # a policy that was designed with round probabilities has few of them
MAX_PARTS = 12  # thirds, sevenths and the like, as which a few values may have been rounded
MIN_STEPS_PER_PART = 8  # steps of the grid in such a part; on a coarser grid everything is near some fraction
DESIGN_PARTS = (*range(1, 18), 256)  # a design with more decimals has multiples of one such part
HEAD = 1000  # values that are looked at before all others


@dataclass(frozen=True)
class Grid:
    """What all propensities of a log are multiples of, or end after."""

    values: FloatArray  # the different propensities
    decimals: int | None = None  # after which they end; None if there are more than `MAX_DECIMALS`
    digits: int | None = None  # significant ones, after which they end; None if there are more than `MAX_DIGITS`
    # Where there are more of both, another form in which they were rounded:
    bits: int | None = None  # binary digits, as 16-bit floats have
    parts: int | None = None  # they are multiples of one such part, as one byte holds
    log_decimals: int | None = None  # after which their logarithms end
    inverse_decimals: int | None = None  # after which their inverses end

    @property
    def form(self) -> str:
        """The other form in which they were rounded, as the object of "are"; empty if it is decimals or digits."""
        said = {
            "bits": "binary numbers of {} digits, as 16-bit floats are",
            "parts": "multiples of 1/{}",
            "log_decimals": "numbers whose logarithms end after {} decimals",
            "inverse_decimals": "numbers whose inverses end after {} decimals",
        }
        return next((text.format(getattr(self, name)) for name, text in said.items() if getattr(self, name)), "")

    def nearest(self, propensity: FloatArray) -> FloatArray:
        """Return the numbers of the other form that are nearest to propensities."""
        if self.log_decimals is not None:
            return np.exp(np.round(np.log(propensity), self.log_decimals))
        if self.inverse_decimals is not None:
            return 1.0 / np.maximum(np.round(1.0 / propensity, self.inverse_decimals), 1.0)
        unit = 2.0 * self.half_unit(propensity)
        return np.round(propensity / unit) * unit

    def half_unit(self, propensity: FloatArray) -> FloatArray:
        """Return by how much rounding can have moved each propensity: half a unit of its last decimal or digit."""
        found = np.zeros(len(propensity))
        if self.decimals is not None:
            found = np.full(len(propensity), 0.5 * 10.0**-self.decimals)
        if self.digits is not None:
            found = np.maximum(found, 0.5 * 10.0 ** (_exponent(propensity) - self.digits + 1))
        if self.bits is not None:
            found = np.ldexp(0.5, np.frexp(propensity)[1] - self.bits)
        if self.parts is not None:
            found = np.full(len(propensity), 0.5 / self.parts)
        if self.log_decimals is not None:
            found = propensity * np.expm1(0.5 * 10.0**-self.log_decimals)
        if self.inverse_decimals is not None:
            share = propensity * 0.5 * 10.0**-self.inverse_decimals  # of the inverse that rounding can have moved
            found = propensity * share / (1.0 - share)
        return found

    def may_be_rounded(self, n_actions: int) -> bool:
        """Return whether the values look rounded, and not like a design with round numbers.

        A design has few values, some of them make up a distribution that sums to one exactly, and they are not the
        rounded values of thirds, sevenths or other simple fractions.
        """
        if len(self.values) > MAX_EXACT_VALUES:
            return True
        if self.decimals is None:
            return self.digits is not None or not self._are_designed()
        return self._are_fractions() or not self._make_distributions(n_actions)

    def _are_designed(self) -> bool:
        """Return whether all values are simple fractions, or one action gets what the others, all alike, leave of 1."""
        rest = np.atleast_1d((1.0 - self.values.max()) / self.values.min())
        return _are_whole(rest, 1e-5) or any(_are_whole(self.values * n_parts) for n_parts in DESIGN_PARTS)

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
    if decimals is not None or digits is not None:
        return Grid(values, decimals, digits)
    if _are_whole(1.0 / values):
        return None  # one of so many actions, each as likely as the others
    return next((form for form in _other_forms(values) if _is_on(form, values)), None)


def _other_forms(values: FloatArray) -> Iterator[Grid]:
    """Yield what else propensities may have been rounded as, the coarser forms first."""
    yield Grid(values, parts=255)
    yield from (Grid(values, bits=n) for n in (8, 11))
    yield from (Grid(values, log_decimals=n) for n in range(1, MAX_DIGITS + 1))
    yield from (Grid(values, inverse_decimals=n) for n in range(1, MAX_DIGITS + 1))


def _is_on(grid: Grid, values: FloatArray) -> bool:
    """Return whether all values are numbers of the grid, as precisely as they are stored."""
    head = values[:: -(-len(values) // HEAD)]
    is_single = np.array_equal(head.astype(np.float32).astype(np.float64), head)
    tolerance = 1e-7 if is_single else 1e-9
    return all(np.allclose(grid.nearest(some), some, rtol=tolerance, atol=0.0) for some in (head, values))


def _are_whole(values: FloatArray, tolerance: float = 2e-7) -> bool:
    """Return whether numbers are integers, by default as precisely as 32 bits hold them."""
    return bool(np.allclose(values, np.round(values), rtol=tolerance, atol=0.0))


def _is_same(values: FloatArray, rounded: FloatArray) -> bool:
    """Return whether values are equal in 32 bits, in which many logs store them."""
    return bool(np.array_equal(values.astype(np.float32), rounded.astype(np.float32)))


def _exponent(values: FloatArray) -> FloatArray:
    return np.floor(np.log10(values) + 1e-9)
