"""`BaselinePolicy`: what all rivals share with `BoostedPolicy`, from the log to the model file."""

from __future__ import annotations

from abc import abstractmethod
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from bopl._archive import Archive
from bopl._typing import AnyArray
from bopl.log import BanditLog
from bopl.policy.scored import ScoredPolicy, as_training_log

Packed = tuple[dict[str, Any], dict[str, AnyArray]]


class BaselinePolicy(ScoredPolicy):
    """A policy that trains from a log with the same call as `bopl.BoostedPolicy`.

    A subclass gives ``decision_function``, ``_fit_log``, ``_pack`` and ``_unpack``, and in ``_deciding_settings`` the
    names of settings that its scores depend on once it is fitted.
    """

    _deciding_settings: ClassVar[tuple[str, ...]] = ()

    def fit(
        self, context: Any, action: Any = None, *, reward: Any = None, propensity: Any = None, actions: Any = None
    ) -> Self:
        """Train on a log.

        Parameters
        ----------
        context : BanditLog, or array-like of shape (n_samples, n_features)
            A log, or contexts with ``action``, ``reward`` and ``propensity`` beside them as for `BanditLog`.
        action, reward, propensity, actions
            As for `BanditLog`; only without a log. ``action`` may hold all three, as `bopl.outcomes` makes them.
        """
        log = as_training_log(context, action, reward, propensity, actions)
        self._fit_log(log)
        self._remember(log)
        return self

    @abstractmethod
    def _fit_log(self, log: BanditLog) -> None:
        """Check the settings and learn from the log."""

    @abstractmethod
    def _pack(self) -> Packed:
        """Return what was learned as JSON facts and arrays."""

    @abstractmethod
    def _unpack(self, facts: dict[str, Any], arrays: dict[str, AnyArray]) -> None:
        """Take back what `_pack` returned, after checking whatever predicting relies on."""

    def content(self) -> Packed:
        """Return what was learned."""
        facts, arrays = self._pack()
        settings = {name: getattr(self, name) for name in self._deciding_settings}
        return {"learned": facts, "settings": settings}, arrays

    def save(self, path: str | Path) -> None:
        """Write the policy to one file that `bopl.load` reads: JSON and plain arrays in a zip, nothing executable."""
        from bopl.policy.model_file import write_policy

        check_is_fitted(self)
        facts, arrays = self._pack()
        write_policy(self, {"settings": self._plain_settings(), "learned": facts}, arrays, path)

    @classmethod
    def from_archive(cls, archive: Archive) -> Self:
        """Return the policy of a model file; `bopl.load` calls this."""
        from bopl.policy.model_file import read_settings, restore_common

        policy = cls(**read_settings(archive.document["settings"], cls().get_params(deep=False)))
        restore_common(policy, archive)
        policy._unpack(archive.document["learned"], archive.arrays)
        return policy

    def _plain_settings(self) -> dict[str, Any]:
        plain = (bool, int, float, str, type(None))
        values = {
            name: value.item() if isinstance(value, np.generic) else value
            for name, value in self.get_params(deep=False).items()
        }
        return {name: value for name, value in values.items() if isinstance(value, plain)}

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "actions_")
