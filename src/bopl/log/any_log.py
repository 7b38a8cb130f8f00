"""`AnyLog`: what a log in memory and a log in pieces have in common."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from bopl._settings import check_flag
from bopl._typing import AnyArray, IntArray
from bopl.log.log_split import Numbered, divide, divide_latest

if TYPE_CHECKING:
    from bopl.log.bandit_log import BanditLog
    from bopl.log.finding import Audit
    from bopl.log.leak import Leak
    from bopl.log.schema import LogSchema


class AnyLog:
    """Sizes, roles and checks of a log, wherever its samples are.

    A subclass has ``n_samples``, ``actions``, ``schema`` and ``propensity_source``, and says in ``_without_propensity``
    what to do about a log that has none. ``_divisible`` and ``_looked_at`` are its own.
    """

    _without_propensity: ClassVar[str]

    if TYPE_CHECKING:

        @property
        def n_samples(self) -> int: ...  # noqa: D102

        @property
        def actions(self) -> AnyArray: ...  # noqa: D102

        @property
        def schema(self) -> LogSchema | None: ...  # noqa: D102

        @property
        def propensity_source(self) -> str: ...  # noqa: D102

    @property
    def n_actions(self) -> int:
        """Number of actions that can be chosen, logged or not."""
        return len(self.actions)

    @property
    def categorical(self) -> tuple[int, ...]:
        """Positions of the context columns that hold categories."""
        if self.schema is None:
            return ()
        return tuple(self.schema.feature_names.index(name) for name in self.schema.categorical)

    @property
    def has_propensity(self) -> bool:
        """Whether there are propensities, logged or filled in."""
        return self.propensity_source != "unknown"

    @property
    def has_estimates(self) -> bool:
        """Whether the propensities are estimates of a model."""
        return self.propensity_source == "estimated"

    def require_propensity(self) -> None:
        """Raise one sentence if the log has no propensities."""
        if not self.has_propensity:
            raise ValueError(self._without_propensity)

    def __len__(self) -> int:
        return self.n_samples

    def split_rows(
        self, test_fraction: float = 0.2, *, by: str = "random", random_state: int | None = None
    ) -> tuple[IntArray, IntArray]:
        """Return the rows of the two logs of `split`, for what belongs to the samples without being part of the log.

        ``by="latest"`` divides by time if possible, otherwise at random.
        """
        choose = divide_latest if by == "latest" else partial(divide, by=by)
        division = choose(self._divisible(), test_fraction, random_state=random_state)
        return division.train, division.test

    def audit(
        self,
        policy: object | None = None,
        *,
        logging_policy: object | None = None,
        keep: Sequence[str | int] = (),
        strict: bool = False,
    ) -> Audit:
        """Check whether the log can be trusted, and whether it can answer for a policy.

        In a log in pieces, actions, propensities, rewards and weights of all samples are checked (of 10,000,000 random
        ones, if there are more), some 50 bytes each. Leaks, copies and columns are checked in 200,000 samples, drawn
        at random: a finding says so.

        Parameters
        ----------
        policy : object with ``predict_proba``, array of shape (n_samples, n_actions) or (n_samples,), optional
            The policy to evaluate on this log; the uniform policy by default. Arrays are for
            logs in memory.
        logging_policy : object with ``predict_proba`` or array of shape (n_samples, n_actions), optional
            The logging policy: its probabilities of the logged actions should be the propensities.
        keep : sequence of column names, optional
            Context columns that were known when the action was chosen, whatever they look like: see `leaks`.
        strict : bool, default=False
            Raise `AuditError` if there is a problem.

        Returns
        -------
        Audit
            One finding per check, with a plain sentence: print it, or use ``.table``.
        """
        check_flag("strict", strict)
        report = self._audit(policy, logging_policy, [keep] if isinstance(keep, str) else keep)
        if strict:
            report.raise_problems()
        return report

    def leaks(self) -> tuple[Leak, ...]:
        """Find context columns that leak what was not known when the action was chosen.

        In a log in pieces, 200,000 random samples are used.

        Returns
        -------
        tuple of Leak
            Columns that reveal the reward after the action, another outcome, the action beyond the propensities or a
            time after the decision, and identifiers; each says how surely, and why. `without_columns` leaves them out.
        """
        from bopl.log.leak import find_leaks

        return find_leaks(self._looked_at())

    def _looked_at(self) -> BanditLog:
        """Return the log, or a part of it, in memory."""
        raise NotImplementedError

    def _divisible(self) -> Numbered:
        """Return the times and groups of all samples, if there are any."""
        raise NotImplementedError

    def _audit(self, policy: object | None, logging_policy: object | None, keep: Sequence[str | int]) -> Audit:
        """Return the findings of all checks on a log in memory."""
        from bopl.log.log_audit import audit_log

        return audit_log(self._looked_at(), policy, logging_policy, keep)
