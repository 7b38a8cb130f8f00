"""`LearnedPolicy`: the base class of your own policies, from the log to the model file."""

from __future__ import annotations

from abc import abstractmethod
from inspect import signature
from typing import Any, ClassVar, Self

from bopl._archive import Archive
from bopl._archive import Packed as Packed
from bopl._typing import AnyArray, BoolArray, ContextMatrix, FloatArray
from bopl.log import BanditLog
from bopl.policy.scored import PackedPolicy, as_training_log


class LearnedPolicy(PackedPolicy):
    """A policy that learns from a log, and is saved, loaded, served and judged like ours.

    A subclass is a scikit-learn estimator and defines four methods: `learn`, `score_actions`, `pack_learned` and
    `unpack_learned`. `bopl.policy.register_policy` lets `bopl.load` find it. Settings that are numbers, text, booleans,
    None or lists of these are saved with the policy, and restored without a check: `learn` makes it.

    Attributes
    ----------
    deciding_settings : tuple of str
        Settings that the scores depend on once the policy is fitted: they are part of its id.
    """

    deciding_settings: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def learn(self, log: BanditLog) -> None:
        """Check the settings, learn from the log and set attributes that end in an underscore."""

    @abstractmethod
    def score_actions(self, context: ContextMatrix) -> FloatArray:
        """Return scores of contexts that were read and checked; probabilities are their softmax.

        Parameters
        ----------
        context : ndarray or CSR matrix of shape (n_samples, n_features)
            Numbers in the order of the columns of the log; categories are codes, missing values NaN.

        Returns
        -------
        ndarray of shape (n_samples, n_actions)
        """

    @abstractmethod
    def pack_learned(self) -> Packed:
        """Return what was learned as JSON facts and plain arrays."""

    @abstractmethod
    def unpack_learned(self, facts: dict[str, Any], arrays: dict[str, AnyArray]) -> None:
        """Restore what `pack_learned` returned; raise ValueError if predicting could not rely on it.

        ``actions_`` and ``n_features_in_`` are already set. The file may come from anybody.
        """

    def fit(
        self, context: Any, action: Any = None, *, reward: Any = None, propensity: Any = None, actions: Any = None
    ) -> Self:
        """Train on a log.

        Parameters
        ----------
        context : BanditLog, or array-like of shape (n_samples, n_features)
            A log, or contexts together with ``action``, ``reward`` and ``propensity``, as for `BanditLog`.
        action, reward, propensity, actions
            As for `BanditLog`; only without a log. ``action`` may hold all three, as `bopl.outcomes` makes them.
        """
        log = as_training_log(context, action, reward, propensity, actions)
        self.learn(log)
        self._remember(log)
        return self

    def decision_function(self, context: Any) -> FloatArray:
        """Return the scores before the softmax, of shape (n_samples, n_actions)."""
        return self.score_actions(self._read(context))

    def _prob(self, matrix: ContextMatrix, mask: BoolArray | None) -> FloatArray:
        return self._softmax(self.score_actions(matrix), mask)

    # -- Files ----------------------------------------------------------------------------------------------------

    def content(self) -> Packed:
        """Return what was learned."""
        facts, arrays = self.pack_learned()
        settings = {name: getattr(self, name) for name in self.deciding_settings}
        return {"learned": facts, "settings": settings}, arrays

    def pack(self) -> Packed:
        """Return the settings and what was learned."""
        facts, arrays = self.pack_learned()
        return {"settings": self._plain_settings(), "learned": facts}, arrays

    @classmethod
    def from_archive(cls, archive: Archive) -> Self:
        """Return the policy of a model file; `bopl.load` calls this."""
        from bopl.policy.model_file import plain_settings, restore_common

        policy = cls(**plain_settings(archive.document["settings"], signature(cls).parameters))
        restore_common(policy, archive)
        policy.unpack_learned(archive.document["learned"], archive.arrays)
        return policy

    def _plain_settings(self) -> dict[str, Any]:
        from bopl.policy.model_file import is_plain, to_plain

        return {name: to_plain(value) for name, value in self.get_params(deep=False).items() if is_plain(value)}

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "actions_")
