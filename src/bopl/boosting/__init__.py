"""Boosting: the loop, its callbacks, its history and certificate, checkpoints.

Names are imported when first used.
"""

from typing import TYPE_CHECKING

from bopl._lazy import lazy_modules

if TYPE_CHECKING:
    from bopl.boosting.callback import BoostingState as BoostingState
    from bopl.boosting.callback import Callback as Callback
    from bopl.boosting.callback import CallbackAction as CallbackAction
    from bopl.boosting.callback import ProgressBar as ProgressBar
    from bopl.boosting.callback import TimeLimit as TimeLimit
    from bopl.boosting.callback import Validation as Validation
    from bopl.boosting.checkpoint import Checkpoint as Checkpoint
    from bopl.boosting.checkpoint import read_checkpoint as read_checkpoint
    from bopl.boosting.ensemble import STARTS as STARTS
    from bopl.boosting.ensemble import Ensemble as Ensemble
    from bopl.boosting.ensemble import Round as Round
    from bopl.boosting.ensemble import Start as Start
    from bopl.boosting.ensemble import Step as Step
    from bopl.boosting.ensemble import StepRule as StepRule
    from bopl.boosting.history import History as History
    from bopl.boosting.loop import BoostingResult as BoostingResult
    from bopl.boosting.loop import Problem as Problem
    from bopl.boosting.loop import fit_ensemble as fit_ensemble
    from bopl.boosting.workbench import Workbench as Workbench

__all__, __getattr__, __dir__ = lazy_modules(
    __name__,
    {
        "callback": "BoostingState Callback CallbackAction ProgressBar TimeLimit Validation",
        "checkpoint": "Checkpoint read_checkpoint",
        "ensemble": "STARTS Ensemble Round Start Step StepRule",
        "history": "History",
        "loop": "BoostingResult Problem fit_ensemble",
        "workbench": "Workbench",
    },
)
