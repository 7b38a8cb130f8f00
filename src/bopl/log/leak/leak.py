"""`Leak`: a column that reveals what happened after the decision, what it reveals, and how certain that is."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

#: What a column may reveal, in the order in which it is reported.
REWARD, OUTCOME, ACTION, TIME, IDENTIFIER = "reward", "outcome", "action", "time", "identifier"
SURE, DOUBTFUL = "sure", "doubtful"


@dataclass(frozen=True)
class Leak:
    """A context column that reveals more than was known when the action was chosen.

    Attributes
    ----------
    column : str or int
        Its name; its position where columns have no names.
    knows : {"reward", "outcome", "action", "time", "identifier"}
        The reward after the action; another outcome; the action beyond the propensities; a time after the decision; or
        nothing but which row it is.
    certainty : {"sure", "doubtful"}
        A sure leak is left out of the training unless it is kept by name; a doubtful one is reported.
    evidence : str
        What was seen, as a clause.
    value : float
        The number behind it.
    """

    column: str | int
    knows: str
    certainty: str
    evidence: str
    value: float

    @property
    def is_sure(self) -> bool:
        """Whether it is left out by default."""
        return self.certainty == SURE

    @property
    def is_problem(self) -> bool:
        """Whether a log with this column is not to be trained on; identifiers and planned times do no harm."""
        return self.knows != IDENTIFIER and (self.is_sure or self.knows != TIME)

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values."""
        return {**asdict(self), "sentence": self.sentence}

    @property
    def sentence(self) -> str:
        """What it is, in a sentence."""
        return f"Column {self.column!r} {_VERBS[self.certainty][self.knows]}: {self.evidence}."


_VERBS = {
    SURE: {
        REWARD: "reveals the reward after the action",
        OUTCOME: "is another outcome",
        ACTION: "reveals the action",
        TIME: "is a time after the decision",
        IDENTIFIER: "is an identifier",
    },
    DOUBTFUL: {
        REWARD: "may reveal the reward after the action",
        OUTCOME: "may be another outcome",
        ACTION: "may reveal the action",
        TIME: "may be a time after the decision",
        IDENTIFIER: "looks like an identifier",
    },
}
