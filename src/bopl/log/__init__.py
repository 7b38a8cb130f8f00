"""Logs of decisions: the checked record that everything else trusts."""

from bopl.log.bandit_log import BanditLog
from bopl.log.finding import Audit, AuditError, Finding
from bopl.log.outcomes import outcomes

__all__ = ["Audit", "AuditError", "BanditLog", "Finding", "outcomes"]
