"""Logs of decisions: the checked record that everything else trusts."""

from bopl.log.audit import Audit, AuditError, Finding
from bopl.log.bandit_log import BanditLog

__all__ = ["Audit", "AuditError", "BanditLog", "Finding"]
