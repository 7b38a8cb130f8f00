"""The estimators by name."""

from __future__ import annotations

from collections.abc import Iterable

from bopl._settings import check_choice
from bopl.evaluation.estimator import IPS, SNIPS, BetaIPS, ClippedIPS, Estimator
from bopl.evaluation.interval import Interval
from bopl.evaluation.model_based import DirectMethod, DoublyRobust, SelfNormalisedDR, ShrinkageDR, SwitchDR

ESTIMATORS: dict[str, type[Estimator]] = {
    kind.name: kind
    for kind in (IPS, ClippedIPS, SNIPS, DirectMethod, DoublyRobust, SelfNormalisedDR, SwitchDR, ShrinkageDR, BetaIPS)
}


def get_estimators(estimators: object, interval: Interval, *, has_reward_model: bool) -> tuple[Estimator, ...]:
    """Return estimators from names and objects.

    Parameters
    ----------
    estimators : None, "all", name, Estimator, or sequence of names and Estimators
        None takes those that suit the interval, and ``"dr"`` as well if there is a reward model.
    interval : Interval
    has_reward_model : bool
    """
    if estimators is None:
        with_model = ("dr",) if has_reward_model and interval.estimators is None else ()
        estimators = (*interval.default_estimators, *with_model)
    elif estimators == "all":
        estimators = tuple(ESTIMATORS) if interval.estimators is None else interval.estimators
    elif isinstance(estimators, str | Estimator):
        estimators = (estimators,)
    if not isinstance(estimators, Iterable):
        raise TypeError(f"estimators must be names or Estimator objects; got {type(estimators).__name__}.")
    found = tuple(_get_estimator(one) for one in estimators)
    names = [one.name for one in found]
    if not names or len(set(names)) < len(names):
        raise ValueError(f"estimators must name at least one estimator and none of them twice; got {names}.")
    return found


def _get_estimator(estimator: object) -> Estimator:
    if isinstance(estimator, Estimator):
        return estimator
    check_choice("estimators", estimator, tuple(ESTIMATORS))
    return ESTIMATORS[str(estimator)]()
