"""Boosting: the loop, its callbacks, its history and certificate, checkpoints."""

from bopl.boosting.callback import BoostingState, Callback, CallbackAction, ProgressBar, TimeLimit, Validation
from bopl.boosting.checkpoint import Checkpoint, read_checkpoint
from bopl.boosting.ensemble import Ensemble, Round
from bopl.boosting.history import History
from bopl.boosting.loop import BoostingResult, Problem, fit_ensemble
from bopl.boosting.start import STARTS, Start
from bopl.boosting.step import Step, StepRule
from bopl.boosting.workbench import Workbench

__all__ = [
    "STARTS",
    "BoostingResult",
    "BoostingState",
    "Callback",
    "CallbackAction",
    "Checkpoint",
    "Ensemble",
    "History",
    "Problem",
    "ProgressBar",
    "Round",
    "Start",
    "Step",
    "StepRule",
    "TimeLimit",
    "Validation",
    "Workbench",
    "fit_ensemble",
    "read_checkpoint",
]
