"""Reward models: predicted rewards of all actions, and estimates that have not seen their own samples.

Names are imported when first used: a network needs no compiled engine.
"""

from typing import TYPE_CHECKING

from bopl._lazy import lazy_names

if TYPE_CHECKING:
    from bopl.reward.boosted_model import BoostedRewardModel as BoostedRewardModel
    from bopl.reward.cross_fitting import CrossFit as CrossFit
    from bopl.reward.cross_fitting import cross_fit as cross_fit
    from bopl.reward.folds import draw_folds as draw_folds
    from bopl.reward.logging_model import LoggingModel as LoggingModel
    from bopl.reward.logging_model import fit_logging_model as fit_logging_model
    from bopl.reward.network_model import NetworkRewardModel as NetworkRewardModel

__all__ = [
    "BoostedRewardModel",
    "CrossFit",
    "LoggingModel",
    "NetworkRewardModel",
    "cross_fit",
    "draw_folds",
    "fit_logging_model",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "BoostedRewardModel": "boosted_model",
        "CrossFit": "cross_fitting",
        "LoggingModel": "logging_model",
        "NetworkRewardModel": "network_model",
        "cross_fit": "cross_fitting",
        "draw_folds": "folds",
        "fit_logging_model": "logging_model",
    },
)
