"""The paper's experiments: configuration, runner, tables, figure."""

from typing import TYPE_CHECKING

from bopl._lazy import lazy_names

if TYPE_CHECKING:
    from bopl.experiment.catalogue import DATASETS as DATASETS
    from bopl.experiment.catalogue import METHODS as METHODS
    from bopl.experiment.catalogue import Config as Config
    from bopl.experiment.catalogue import read_config as read_config
    from bopl.experiment.method import build_policy as build_policy
    from bopl.experiment.result_line import read_results as read_results
    from bopl.experiment.runner import run_plan as run_plan
    from bopl.experiment.task import Task as Task
    from bopl.experiment.task import full_plan as full_plan
    from bopl.experiment.task import quick_plan as quick_plan

__all__ = [
    "DATASETS",
    "METHODS",
    "Config",
    "Task",
    "build_policy",
    "full_plan",
    "quick_plan",
    "read_config",
    "read_results",
    "run_plan",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "DATASETS": "catalogue",
        "METHODS": "catalogue",
        "Config": "catalogue",
        "Task": "task",
        "build_policy": "method",
        "full_plan": "task",
        "quick_plan": "task",
        "read_config": "catalogue",
        "read_results": "result_line",
        "run_plan": "runner",
    },
)
