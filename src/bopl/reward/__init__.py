"""Reward models: predicted rewards of all actions, and estimates that have not seen their own samples.

Names are imported when first used: a network needs no compiled engine.
"""

from typing import TYPE_CHECKING

from bopl._lazy import lazy_modules

if TYPE_CHECKING:
    from bopl.reward.boosted_model import BoostedRewardModel as BoostedRewardModel
    from bopl.reward.cross_fitting import CrossFit as CrossFit
    from bopl.reward.cross_fitting import cross_fit as cross_fit
    from bopl.reward.folds import draw_folds as draw_folds
    from bopl.reward.logging_model import LoggingModel as LoggingModel
    from bopl.reward.logging_model import fit_logging_model as fit_logging_model
    from bopl.reward.network_model import NetworkRewardModel as NetworkRewardModel

__all__, __getattr__, __dir__ = lazy_modules(
    __name__,
    {
        "boosted_model": "BoostedRewardModel",
        "cross_fitting": "CrossFit cross_fit",
        "folds": "draw_folds",
        "logging_model": "LoggingModel fit_logging_model",
        "network_model": "NetworkRewardModel",
    },
)
