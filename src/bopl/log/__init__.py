"""Logs of decisions: the checked record that everything else trusts."""

from bopl.log.bandit_log import BanditLog

__all__ = ["BanditLog"]
