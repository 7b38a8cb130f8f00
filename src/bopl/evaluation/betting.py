"""Anytime-valid intervals by betting: whoever bets against the true value is never expected to gain.

Waudby-Smith, Wu, Ramdas, Karampatziakis and Mineiro (2022), "Anytime-valid off-policy inference for contextual
bandits"; Waudby-Smith and Ramdas (2024), "Estimating means of bounded random variables by betting". For terms ``Z_t >=
0`` with mean mu and bets ``lambda_t in [0, 1/mu)`` that depend on the past only, the capital::

    K_t(mu) = prod_{s <= t} (1 + lambda_s (Z_s - mu))

is a non-negative martingale, so with probability ``1 - delta`` it never reaches ``1/delta`` (Ville's inequality): all
mu at which it did are excluded. The weights need no bound, and the interval may be looked at after every sample.
"""

from __future__ import annotations

import numpy as np

from bopl._kernel import njit
from bopl._typing import FloatArray

SHARE = 0.75  # a bet never risks more than this share of the capital
PRIOR_MEAN, PRIOR_VARIANCE = 0.5, 0.25  # what is believed of [0, 1] before the first sample


@njit(nogil=True, cache=True)
def set_bets(terms, log_inverse_delta, bet_out):  # type: ignore[no-untyped-def]
    """Write the bets ``sqrt(2 log(1/delta) / (n · variance_{t-1}))``: the variance is that of the terms before t.

    They are the best for a look after all n samples, and valid for a look at any other time.
    """
    n_samples = len(terms)
    total, spread = PRIOR_MEAN, PRIOR_VARIANCE
    for t in range(n_samples):
        bet_out[t] = np.sqrt(2.0 * log_inverse_delta * (t + 1.0) / (n_samples * spread))
        total += terms[t]
        spread += (terms[t] - total / (t + 2.0)) ** 2


@njit(nogil=True, cache=True)
def ever_reaches(terms, bet, mu, log_target):  # type: ignore[no-untyped-def]
    """Return whether ``K_t(mu)`` ever reaches ``exp(log_target)``; bets are clipped at ``SHARE / mu``."""
    most = np.inf if mu <= 0.0 else SHARE / mu
    log_capital, product, ceiling = 0.0, 1.0, np.exp(min(log_target, 200.0))
    for t in range(len(terms)):
        product *= 1.0 + min(bet[t], most) * (terms[t] - mu)
        if product >= ceiling or product < 1e-100:  # before it overflows or underflows
            log_capital += np.log(product)
            if log_capital >= log_target:
                return True
            product, ceiling = 1.0, np.exp(min(log_target - log_capital, 200.0))
    return False


def betting_lower_bound(terms: FloatArray, delta: float) -> float:
    """Return a lower bound on the mean of terms in the order of the log, valid at all times with ``1 - delta``.

    The capital falls as mu rises (both the plain and the clipped bet do), so the bound is found by bisection. The
    terms, of shape (n_samples,), are non-negative, with a conditional mean in [0, 1].
    """
    target = float(np.log(1.0 / delta))
    bet = np.empty(len(terms))
    set_bets(terms, target, bet)
    low, high = 0.0, 1.0
    if not ever_reaches(terms, bet, 0.0, target):
        return 0.0
    for _ in range(50):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if ever_reaches(terms, bet, middle, target) else (low, middle)
    return low
