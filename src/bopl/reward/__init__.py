"""Reward models: what an action is expected to earn, and estimates of it that no sample had a part in."""

from bopl.reward.boosted import BoostedRewardModel
from bopl.reward.cross_fit import CrossFit, cross_fit
from bopl.reward.folds import draw_folds
from bopl.reward.logging_model import LoggingModel, fit_logging_model
from bopl.reward.network import NetworkRewardModel

__all__ = [
    "BoostedRewardModel",
    "CrossFit",
    "LoggingModel",
    "NetworkRewardModel",
    "cross_fit",
    "draw_folds",
    "fit_logging_model",
]
