"""Objectives: what is optimised."""

from bopl.objective.base import Objective, StepTarget
from bopl.objective.ips import IPSObjective
from bopl.objective.surrogate import SurrogateObjective

_OBJECTIVES: dict[str, type[Objective]] = {"ips": IPSObjective, "surrogate": SurrogateObjective}


def get_objective(objective: str | Objective) -> Objective:
    """Return the objective of that name, or the object itself if it already is one."""
    if not isinstance(objective, str):
        if not all(hasattr(objective, method) for method in ("step_target", "risk", "optimal_risk")):
            raise TypeError(
                f"objective must be a name or an object with step_target, risk and optimal_risk; got {objective!r}."
            )
        return objective
    if objective not in _OBJECTIVES:
        raise ValueError(f"objective must be one of {', '.join(map(repr, _OBJECTIVES))}; got {objective!r}.")
    return _OBJECTIVES[objective]()


__all__ = ["IPSObjective", "Objective", "StepTarget", "SurrogateObjective", "get_objective"]
