"""The audit of a log in pieces says what that of the log in memory says, and what it has looked at."""

import numpy as np
import pytest

from bopl import BanditLog
from bopl.log import AuditError
from bopl.log.pieces.pieces_audit import audit_pieces
from pieces_logs import ROLES, a_frame, write


class Leaning:
    """Likes the first action the more, the older."""

    def predict_proba(self, context, action_mask=None):
        score = np.column_stack([np.nan_to_num(context[:, 0]), np.zeros(len(context)), np.ones(len(context))])
        return np.exp(score) / np.exp(score).sum(axis=1, keepdims=True)


@pytest.mark.parametrize("roles", [{}, {"group": "user"}, {"actions": ["a", "b", "c", "z"]}], ids=str)
@pytest.mark.parametrize("policy", [None, Leaning()], ids=["no policy", "policy"])
def test_findings_are_those_of_the_log_in_memory(tmp_path, roles, policy):
    if policy is not None and "actions" in roles:
        roles = {}
    path = write(tmp_path, a_frame(300), (150, 0, 1, 149), 70)
    mine = BanditLog.scan_parquet(path, **ROLES, **roles).audit(policy, logging_policy=policy)
    theirs = BanditLog.read(path, **ROLES, **roles).audit(policy, logging_policy=policy)
    assert [one.check for one in mine.findings] == [one.check for one in theirs.findings]
    assert [one.sentence for one in mine.findings] == [one.sentence for one in theirs.findings]
    assert mine.leaks == theirs.leaks


def test_what_was_looked_at_in_a_part_only_is_told(tmp_path):
    log = BanditLog.scan_parquet(write(tmp_path, a_frame(300), (300,), 70), **ROLES)
    some = audit_pieces(log, None, None, max_contexts=100)
    assert "searched for in 100 of 300 samples" in some["drawn_part"].sentence
    few = audit_pieces(log, None, None, max_contexts=100, max_outcomes=200)
    assert "checked in 200 of them" in few["drawn_part"].sentence
    assert [one.check for one in some.findings] == [one.check for one in few.findings]


def test_a_strict_audit_raises(tmp_path):
    log = BanditLog.scan_parquet(write(tmp_path, a_frame()), **{**ROLES, "propensity": None}, has_propensity=False)
    with pytest.raises(AuditError, match="no propensities"):
        log.audit(strict=True)
