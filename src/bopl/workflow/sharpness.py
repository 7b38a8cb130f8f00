"""Sharpness: the inverse temperature at which a policy acts, and how it is described."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np

from bopl._errors import checking_usage
from bopl._settings import check_number
from bopl.race import AutoPolicy
from bopl.workflow.config import TrainConfig

logger = logging.getLogger(__name__)


def with_sharpness(policy: Any, inverse_temperature: float | None) -> Any:
    """Return the policy as it is, or a copy that acts at another inverse temperature."""
    if inverse_temperature is None:
        return policy
    with checking_usage():
        check_number("inverse_temperature", inverse_temperature, low=0.0)
        return policy.sharpened(inverse_temperature)


def sharpen_trained(policy: Any, config: TrainConfig, *, level: int = logging.WARNING) -> Any:
    """Return a newly trained policy, as sharp as the settings say; the logging policy stays as it is."""
    if config.inverse_temperature is not None and isinstance(policy, AutoPolicy) and policy.is_logging_:
        logger.log(level, "inverse_temperature has no effect: the policy is the logging policy.")
        return policy
    return with_sharpness(policy, config.inverse_temperature)


def is_greedy(policy: Any) -> bool:
    """Return whether the policy always takes its best action."""
    return bool(np.isinf(policy.trained_inverse_temperature))


def describe_acting(policy: Any, name: str = "the policy") -> str:
    """Return a sentence that says whether values are those of the policy as it samples, or of its best actions."""
    if is_greedy(policy):
        return f"Values are those of {name} as it acts: greedily, always taking its best action."
    factor = policy.trained_inverse_temperature
    return f"Values are those of {name} as it samples (inverse temperature {factor:.4g}), not only of its best actions."
