"""Exit codes: the same in every command, so that scripts can rely on them."""

from __future__ import annotations

from collections.abc import Iterable

from bopl._errors import UsageError
from bopl._interrupt import SigtermAsCtrlC

FINE = 0
BAD_DATA = 1
WRONG_USE = 2
WORSE = 3
NOT_ENOUGH_EVIDENCE = 4
INTERRUPTED = 130  # what shells give a command that Ctrl-C ended
TERMINATED = 143  # ... and one that SIGTERM ended

HELP = (
    "Exit codes: 0 success; 1 bad data; 2 wrong usage; 3 the policy is worse than the logging policy; 4 not enough "
    "evidence; 130 interrupted; 143 terminated."
)
_WRONG_USE = (UsageError, FileNotFoundError, PermissionError, IsADirectoryError, NotADirectoryError, ImportError)

sigterm = SigtermAsCtrlC()  # replaced when a command begins


def of_interruption() -> int:
    """Return the code of a command that was stopped from outside."""
    return TERMINATED if sigterm.came else INTERRUPTED


def of_error(error: BaseException) -> int:
    """Return the code of an error: wrong use where a name, a path or an installation is to blame, else bad data."""
    return WRONG_USE if isinstance(error, _WRONG_USE) else BAD_DATA


def of_verdicts(verdicts: Iterable[str]) -> int:
    """Return the code of one or more verdicts: fine only if all policies are better."""
    from bopl.evaluation.verdict import overall_verdict

    return {"better": FINE, "worse": WORSE}.get(overall_verdict(verdicts), NOT_ENOUGH_EVIDENCE)
