"""The deciding part of policies in files, which a server loads without scikit-learn and anything that fitting needs.

Probabilities and ids equal those of the policies themselves to the last bit: the same code computes them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bopl._archive import Archive
from bopl._settings import check_number
from bopl._typing import BoolArray, ContextMatrix, FloatArray
from bopl.policy.action_prob import BlendDeciding, EnsembleDeciding, shares_of
from bopl.policy.boosted_file import ensemble_from
from bopl.policy.model_file import (
    check_parts,
    from_plain,
    part_archives,
    policy_from,
    read_policy,
    restore_common,
)
from bopl.policy.policy import read_fitted_context
from bopl.policy.records import RecordPolicy

BOOSTED, BLENDED, AUTO = "BoostedPolicy", "BlendedPolicy", "AutoPolicy"
_SHARED = ("actions", "n_features", "feature_names", "schema")  # which a race's policy reads records by


class Decider(RecordPolicy):
    """The deciding part of a policy in a file; a subclass has its content and its probabilities.

    ``inverse_temperature``, in [0, inf], is the value in the file.
    """

    def __init__(self, archive: Archive, inverse_temperature: Any) -> None:
        self._class: str = archive.document["class"]
        factor = from_plain(inverse_temperature)
        check_number("inverse_temperature", factor, low=0.0)
        self.inverse_temperature = float(factor)
        restore_common(self, archive)

    @property
    def _class_name(self) -> str:
        return self._class

    @property
    def trained_inverse_temperature(self) -> float:
        """Factor of the scores."""
        return self.inverse_temperature

    def predict_proba(self, context: Any, *, action_mask: BoolArray | None = None) -> FloatArray:
        """Return action probabilities of contexts that are numbers."""
        return self._prob(self._read(context), action_mask)

    def _read(self, context: Any) -> ContextMatrix:
        names = getattr(self, "feature_names_in_", None)
        return read_fitted_context(context, self.n_features_in_, names, self._class)


class BoostedDecider(EnsembleDeciding, Decider):
    """The deciding part of a `bopl.BoostedPolicy`."""

    def __init__(self, archive: Archive) -> None:
        super().__init__(archive, archive.document["settings"].get("inverse_temperature", 1.0))
        self.ensemble_ = ensemble_from(self, archive)


class BlendedDecider(BlendDeciding, Decider):
    """The deciding part of a `bopl.BlendedPolicy`."""

    def __init__(self, archive: Archive) -> None:
        super().__init__(archive, archive.document["inverse_temperature"])
        self.policies_ = [BoostedDecider(part) for part in part_archives(archive, [BOOSTED])]
        check_parts(self, self.policies_)
        self.weights_ = shares_of(archive.document["weights"], len(self.policies_))


def load_decider(path: str | Path) -> Any:
    """Return the deciding part of the policy in a file; policies of other classes are loaded completely.

    It decides like the policy that `bopl.load` returns, to the last bit, and loads faster: it has neither history nor
    settings, and cannot be trained, explained, exported or saved.
    """
    return read_policy(path, _decider_from)


def _decider_from(archive: Archive) -> Any:
    name = archive.document["class"]
    if name == AUTO:
        part = part_archives(archive, [BOOSTED, BLENDED])[0]
        if all(part.document.get(fact) == archive.document.get(fact) for fact in _SHARED):
            return _decider_from(part)
    if name == BLENDED and all(part["class"] == BOOSTED for part in archive.document["parts"]):
        return BlendedDecider(archive)
    return BoostedDecider(archive) if name == BOOSTED else policy_from(archive)
