"""The race: candidates compete on validation samples, and the best policy is trained on all samples."""

from bopl.race.auto import AutoPolicy
from bopl.race.candidate import Candidate, candidates
from bopl.race.leaderboard import Leaderboard

__all__ = ["AutoPolicy", "Candidate", "Leaderboard", "candidates"]
