"""Your own interval: Chebyshev's, which is wide and needs nothing but a variance.

Run it with `python examples/custom_interval.py`.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

import bopl
from bopl.evaluation import Interval, register_interval


# --8<-- [start:interval]
@register_interval
@dataclass(frozen=True)
class Chebyshev(Interval):
    """``estimate ± se / sqrt(1 - confidence)``."""

    name: ClassVar[str] = "chebyshev"

    def value(self, evidence):
        return self._around(evidence.value, evidence.value_spread())

    def uplift(self, evidence):
        return self._around(evidence.uplift, evidence.uplift_spread())

    def _around(self, estimate, spread):
        half = spread.std_err / np.sqrt(1.0 - self.confidence)
        return estimate - half, estimate + half


# --8<-- [end:interval]

if __name__ == "__main__":
    sample = bopl.simulation.make_world("plain", n_samples=4000).sample(random_state=0)
    for interval in ("normal", "chebyshev"):
        print(bopl.evaluate(sample.log, {"new": sample.policy_prob}, interval=interval))
