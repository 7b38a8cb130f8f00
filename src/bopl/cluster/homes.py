"""`Homes`: which slot of which worker has which piece."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

Slot = tuple[str, int]  # a worker's address, and one of its threads


@dataclass
class Homes:
    """The pieces of one placement, distributed over the threads of workers by their rows."""

    rows: dict[int, int] = field(default_factory=dict)
    slot_of: dict[int, Slot] = field(default_factory=dict)
    moved: dict[str, set[int]] = field(default_factory=dict)  # pieces that a worker has but need not keep

    def share_out(self, pieces: Iterable[int], threads: Mapping[str, int]) -> None:
        """Give each piece to the slot with the fewest rows, the largest pieces first."""
        for piece_idx in pieces:
            self.slot_of.pop(piece_idx, None)
        load = self._load(threads)
        for piece_idx in sorted(pieces, key=lambda one: (-self.rows[one], one)):
            slot = min(load, key=lambda one: (load[one], one))
            self._settle(piece_idx, slot)
            load[slot] += self.rows[piece_idx]

    def rebalance(self, threads: Mapping[str, int]) -> None:
        """Let idle slots take pieces from those that have most."""
        load = self._load(threads)
        for idle in [slot for slot in load if not any(self._pieces_of(slot))]:
            while (taken := self._piece_for(idle, load)) is not None:
                before = self.slot_of[taken]
                if before[0] != idle[0]:
                    self.moved.setdefault(before[0], set()).add(taken)
                self._settle(taken, idle)
                load[before] -= self.rows[taken]
                load[idle] += self.rows[taken]

    def by_slot(self, pieces: Iterable[int]) -> dict[Slot, list[int]]:
        """Return the pieces of each slot, in order; pieces without a slot are unassigned."""
        found: dict[Slot, list[int]] = {}
        for piece_idx in pieces:
            if piece_idx in self.slot_of:
                found.setdefault(self.slot_of[piece_idx], []).append(piece_idx)
        return dict(sorted(found.items()))

    def _settle(self, piece_idx: int, slot: Slot) -> None:
        self.slot_of[piece_idx] = slot
        self.moved.get(slot[0], set()).discard(piece_idx)

    def _load(self, threads: Mapping[str, int]) -> dict[Slot, int]:
        load = {(address, thread): 0 for address in sorted(threads) for thread in range(threads[address])}
        for piece_idx, slot in self.slot_of.items():
            if slot in load:
                load[slot] += self.rows[piece_idx]
        return load

    def _pieces_of(self, slot: Slot) -> list[int]:
        return [piece_idx for piece_idx, home in self.slot_of.items() if home == slot]

    def _piece_for(self, idle: Slot, load: Mapping[Slot, int]) -> int | None:
        """Return the largest piece of the fullest slot whose move makes the two more equal, if there is one."""
        donor = max(load, key=lambda one: (load[one], one))
        gap = load[donor] - load[idle]
        fitting = [piece_idx for piece_idx in self._pieces_of(donor) if self.rows[piece_idx] < gap]
        return max(fitting, key=lambda one: (self.rows[one], -one)) if fitting else None
