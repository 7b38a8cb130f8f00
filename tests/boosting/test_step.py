"""The step size is the same number whatever the linear algebra library's threads."""

from __future__ import annotations

import numpy as np
from threadpoolctl import threadpool_limits

from bopl.boosting import StepRule
from bopl.boosting.step import inner
from bopl.objective import StepTarget


def test_step_does_not_depend_on_blas_threads() -> None:
    rng = np.random.default_rng(0)
    shape = (30_000, 4)  # enough for BLAS to divide an inner product among threads
    gradient, prediction = np.asfortranarray(rng.standard_normal((2, *shape)))
    weight = rng.exponential(size=shape[0])
    target = StepTarget(gradient, weight, weight, np.zeros(shape[0]))
    steps = []
    for n_threads in (1, 2):
        with threadpool_limits(limits=n_threads, user_api="blas"):
            steps.append(StepRule(scale=2.0)(target, prediction))
    assert steps[0] == steps[1]


def test_inner_product_is_the_sum_of_products() -> None:
    rng = np.random.default_rng(0)
    left, right = rng.standard_normal((2, 1001))
    assert np.isclose(inner(left, right), sum(x * y for x, y in zip(left, right, strict=True)), rtol=1e-12)
