"""`PackedPolicy`: a policy that is written to one file, and shown as a card in notebooks."""

from __future__ import annotations

from abc import abstractmethod
from pathlib import Path

from sklearn.utils.validation import check_is_fitted

from bopl._archive import Packed
from bopl.policy.scored import ScoredPolicy, ShownAsCard


class PackedPolicy(ShownAsCard, ScoredPolicy):
    """A policy that packs itself as JSON facts and arrays."""

    @abstractmethod
    def pack(self) -> Packed:
        """Return what was learned as JSON facts and arrays."""

    def save(self, path: str | Path) -> None:
        """Write the policy to one file that `bopl.load` reads: JSON and plain arrays in a zip, nothing executable."""
        from bopl.policy.model_file import save_packed

        check_is_fitted(self)
        save_packed(self, path)
