"""`PackedPolicy`: a policy that is written to one file."""

from __future__ import annotations

from abc import abstractmethod
from pathlib import Path

from sklearn.utils.validation import check_is_fitted

from bopl._archive import Packed
from bopl.policy.scored import ScoredPolicy


class PackedPolicy(ScoredPolicy):
    """A policy that packs itself as JSON facts and arrays."""

    @abstractmethod
    def pack(self) -> Packed:
        """Return what was learned as JSON facts and arrays."""

    def save(self, path: str | Path) -> None:
        """Write the policy to one file that `bopl.load` reads: JSON and plain arrays in a zip, nothing executable."""
        from bopl.policy.model_file import write_policy

        check_is_fitted(self)
        write_policy(self, path)
