"""The audit before training: what it found is said, and wrong data is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from bopl.log import BanditLog
from bopl.log.finding import NOTE, Audit, AuditError
from bopl.policy import load
from bopl.workflow.config import TrainConfig
from bopl.workflow.judging import align_policy
from bopl.workflow.reading import fill_propensity, read_log_for, read_training_log

# These speak of what the log is worth to the uniform policy, which nobody is about to deploy: they are told, no more.
ABOUT_UNIFORM = ("effective_sample_size", "largest_weight", "tail_index", "top_weight_share")


def audit_for_training(log: BanditLog, *, force: bool, say: Callable[[object], None]) -> Audit:
    """Return the audit of a log that is fit for training; raise one sentence if it is not, unless forced."""
    audit = log.audit()
    problems = [finding for finding in audit.problems if finding.check not in ABOUT_UNIFORM]
    tolerable = [finding for finding in audit.problems if finding.check in ABOUT_UNIFORM]
    notes = [finding for finding in audit.findings if finding.status == NOTE and finding.check not in ABOUT_UNIFORM]
    for finding in [*notes, *tolerable]:
        say(f"Note: {finding.sentence}")
    if problems and not force:
        listed = " ".join(finding.sentence for finding in problems)
        raise AuditError(
            f"the audit found {len(problems)} problem(s): {listed} Repair the log, or train all the same with --force."
        )
    for finding in problems:
        say(f"Problem: {finding.sentence}")
    if not problems:
        say(f"Audit: {len(audit.findings)} checks, no problem{' that forbids training' if tolerable else ''}.")
    return audit


def audit_file(config: TrainConfig, policy_file: str | Path | None = None) -> tuple[BanditLog, Audit]:
    """Return a log and its audit, for a policy if there is one."""
    if policy_file is None:
        log = read_training_log(config)
        return log, log.audit()
    policy = load(policy_file)
    log = fill_propensity(read_log_for(policy, config.request()), config.assume_propensity, config.random_state)
    return log, log.audit(align_policy(policy, log))
