"""Logs of decisions: the checked record that everything else trusts."""

from bopl.log.bandit_log import BanditLog
from bopl.log.finding import Audit, AuditError, Finding

__all__ = ["Audit", "AuditError", "BanditLog", "Finding"]
