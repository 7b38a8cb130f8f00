"""Policies and their training in MLflow: ``pip install 'bopl[mlflow]'``.

MLflow itself is imported by the functions that need it. It loads policies through this module (`_load_pyfunc`), from
the policy's own file: no pickle is written or read.
"""

from bopl.mlflow.model import _load_pyfunc as _load_pyfunc
from bopl.mlflow.model import load_policy, log_policy
from bopl.mlflow.track import Track

__all__ = ["Track", "load_policy", "log_policy"]
