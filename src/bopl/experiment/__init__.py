"""The paper's experiments: configuration, runner, tables, figure."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bopl.experiment.config import DATASETS as DATASETS
    from bopl.experiment.config import METHODS as METHODS
    from bopl.experiment.config import Config as Config
    from bopl.experiment.config import read_config as read_config
    from bopl.experiment.method import build_policy as build_policy
    from bopl.experiment.plan import Task as Task
    from bopl.experiment.plan import full_plan as full_plan
    from bopl.experiment.plan import quick_plan as quick_plan
    from bopl.experiment.result import read_results as read_results
    from bopl.experiment.runner import run_plan as run_plan

_HOME_OF = {
    "DATASETS": "config",
    "METHODS": "config",
    "Config": "config",
    "Task": "plan",
    "build_policy": "method",
    "full_plan": "plan",
    "quick_plan": "plan",
    "read_config": "config",
    "read_results": "result",
    "run_plan": "runner",
}

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


def __getattr__(name: str) -> Any:
    if name in _HOME_OF:
        return getattr(import_module(f"bopl.experiment.{_HOME_OF[name]}"), name)
    raise AttributeError(f"module 'bopl.experiment' has no attribute {name!r}")
