"""The step size is the same number whatever the linear algebra library's threads."""

from __future__ import annotations

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from bopl.boosting import StepRule
from bopl.boosting.ascent import CompiledAscent, PlainAscent
from bopl.objective import IPS, TrainingData
from helpers import make_log


@pytest.mark.parametrize("kind", [CompiledAscent, PlainAscent])
def test_step_does_not_depend_on_blas_threads(kind: type) -> None:
    log = make_log(0, n_samples=30_000)  # enough for BLAS to divide an inner product among threads
    score, prediction = np.random.default_rng(0).standard_normal((2, 30_000, 4))
    data = TrainingData(log)
    steps = []
    for n_threads in (1, 2):
        with threadpool_limits(limits=n_threads, user_api="blas"):
            more = (1,) if kind is CompiledAscent else ()
            ascent = kind(IPS().bind(data), data, log, np.asfortranarray(score), *more)
            steps.append(StepRule(scale=2.0)(ascent.measure(prediction)))
    assert steps[0] == steps[1]
