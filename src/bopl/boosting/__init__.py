"""Boosting: the loop, its callbacks, its history and certificate, checkpoints."""

from bopl.boosting.callback import BoostingState, Callback, CallbackAction, ProgressBar, TimeLimit, Validation
from bopl.boosting.checkpoint import Checkpoint, read_checkpoint
from bopl.boosting.ensemble import Ensemble, Round
from bopl.boosting.history import History
from bopl.boosting.loop import BoostingResult, fit_ensemble
from bopl.boosting.reward_model import BoostedRewardModel
from bopl.boosting.step import Step, StepRule

__all__ = [
    "BoostedRewardModel",
    "BoostingResult",
    "BoostingState",
    "Callback",
    "CallbackAction",
    "Checkpoint",
    "Ensemble",
    "History",
    "ProgressBar",
    "Round",
    "Step",
    "StepRule",
    "TimeLimit",
    "Validation",
    "fit_ensemble",
    "read_checkpoint",
]
