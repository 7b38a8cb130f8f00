"""The estimators by name."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from bopl._registry import Registry, required_settings, with_defaults
from bopl._settings import check_choice
from bopl.evaluation.beta_ips import BetaIPS
from bopl.evaluation.estimator import IPS, SNIPS, ClippedIPS, Estimator, Need
from bopl.evaluation.model_based import DirectMethod, DoublyRobust, SelfNormalisedDR, ShrinkageDR, SwitchDR

if TYPE_CHECKING:
    from bopl.evaluation.interval import Interval

_OWN = (IPS, ClippedIPS, SNIPS, DirectMethod, DoublyRobust, SelfNormalisedDR, SwitchDR, ShrinkageDR, BetaIPS)
ESTIMATORS: Registry[type[Estimator]] = Registry("bopl.estimators", {kind.name: kind for kind in _OWN})


def register_estimator(kind: type[Estimator]) -> type[Estimator]:
    """Make an estimator of your own known by its ``name``: to `bopl.evaluate` and the commands."""
    ESTIMATORS[kind.name] = kind
    return kind


def get_estimators(estimators: object, interval: Interval, *, has_reward_model: bool) -> tuple[Estimator, ...]:
    """Return estimators from names and objects.

    None takes the default ones that suit the interval, those with a reward model only if there is one; ``"all"`` all
    that suit it.
    """
    if estimators is None:
        estimators = estimator_names(interval, is_default=True, has_reward_model=has_reward_model)
    elif isinstance(estimators, str) and estimators == "all":
        estimators = estimator_names(interval)
    elif isinstance(estimators, str | Estimator):
        estimators = (estimators,)
    if not isinstance(estimators, Iterable):
        raise TypeError(f"estimators must be names or Estimator objects; got {type(estimators).__name__}.")
    found = tuple(_get_estimator(one) for one in estimators)
    names = [one.name for one in found]
    if "" in names:
        raise TypeError(f"{type(found[names.index('')]).__name__} needs a name, which tables and reports show.")
    if not names or len(set(names)) < len(names):
        raise ValueError(f"estimators must name at least one estimator and none of them twice; got {names}.")
    return found


def estimator_names(interval: Interval, *, is_default: bool = False, has_reward_model: bool = True) -> tuple[str, ...]:
    """Return the names of the estimators that suit an interval, in the order of the registry.

    With ``is_default`` only those that are taken where nobody names one; without a reward model none that needs it.
    """
    return tuple(
        name
        for name, kind in ESTIMATORS.usable()
        if interval.suits(kind)
        and not required_settings(kind)
        and (kind.is_default or not is_default)
        and (has_reward_model or Need.REWARD_MODEL not in kind.needs)
    )


def primary_position(estimators: Sequence[Estimator]) -> int:
    """Return which of some estimators is the primary one: of those that carry a verdict, that of least priority."""
    return min(range(len(estimators)), key=lambda place: (not estimators[place].can_decide, estimators[place].priority))


def _get_estimator(estimator: object) -> Estimator:
    if isinstance(estimator, Estimator):
        return estimator
    check_choice("estimators", estimator, tuple(ESTIMATORS))
    return with_defaults(ESTIMATORS[str(estimator)], str(estimator))
