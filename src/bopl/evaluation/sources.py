"""Everything an evaluation reads of one log: policies, rewards, propensities, the logging policy; block by block."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from bopl._errors import quoted
from bopl._policy_reader import PolicyBlock, PolicyReader, logged_entries, read_policy, row_blocks
from bopl._settings import check_choice
from bopl._typing import BoolArray, FloatArray, IntArray
from bopl._weight import importance_weights
from bopl.evaluation.estimator import Estimator, Need
from bopl.evaluation.moments import in_unit
from bopl.evaluation.rounding import Rounding
from bopl.evaluation.sample_terms import Pilot, Terms
from bopl.log import BanditLog, PartitionedLog
from bopl.objective.softmax import softmax

if TYPE_CHECKING:
    from bopl.reward.prediction import RewardPredictor

PROPENSITY_CHOICES = ("estimate", "uniform")
PILOT_CELLS = 1 << 16  # rows × actions, about, from which the share of large weights is read


@dataclass(frozen=True)
class Sources:
    """Where the numbers of one log come from."""

    log: BanditLog
    readers: tuple[PolicyReader, ...]  # one per policy
    rewards: RewardPredictor | None
    logging: PolicyReader | None  # reader of the logging policy, where it is known in full
    group: IntArray | None  # (n_samples,): groups of the samples, numbered as in the whole log if this is a part of one
    rounding: Rounding  # of the propensities of the whole log
    unit: float = 1.0  # what terms count rewards in; see `bopl.evaluation.moments`
    hat_is_scaled: bool = False  # whether the reward predictions are in that unit already
    notes: tuple[str, ...] = ()  # what was done to read them, in sentences

    @cached_property
    def _error(self) -> FloatArray | None:
        return self.rounding.error(self.log.propensity)

    def blocks(self) -> list[slice]:
        """Return the rows in blocks; of many rows if nothing but logged actions is read."""
        has_matrix = self.rewards is not None or self.logging is not None
        is_wide = has_matrix or any(reader.has_all_actions for reader in self.readers)
        return list(row_blocks(self.log.n_samples, self.log.n_actions if is_wide else 1))

    def impossible(self, rows: slice, logging_prob: FloatArray | None) -> BoolArray | None:
        """Return which actions the logging policy could not choose, if that is known."""
        mask = self.log.action_mask
        if logging_prob is not None:
            never = logging_prob <= 0.0
            return never if mask is None else never | ~mask[rows]
        return None if mask is None else ~mask[rows]

    def logging_prob(self, rows: slice) -> FloatArray | None:
        """Return the logging policy's probabilities of all actions, if known, checked against the propensities."""
        if self.logging is None:
            return None
        block = self.logging.block(rows)
        propensity = self.log.propensity[rows]
        off = block.differs_from(propensity)
        if off.any():
            row = int(np.flatnonzero(off)[0])
            raise ValueError(
                f"logging_policy gives {int(off.sum())} of {len(off)} logged actions another probability than the log, "
                f"the first at row {rows.start + row} with {block.logged_prob[row]:g} instead of {propensity[row]:g}; "
                "it is not the policy that wrote this log."
            )
        return block.action_prob

    def terms(
        self, rows: slice, block: PolicyBlock, reward_hat: FloatArray | None, logging_prob: FloatArray | None
    ) -> Terms:
        """Return the terms of one policy on some rows."""
        log = self.log
        error = None if self._error is None else self._error[rows]
        plain = Terms(
            importance_weights(block.logged_prob, log.propensity[rows]),
            in_unit(log.reward[rows], self.unit),
            error=error,
        )
        if reward_hat is None or block.action_prob is None:
            return plain
        if not self.hat_is_scaled:
            reward_hat = in_unit(reward_hat, self.unit)
        return replace(
            plain,
            reward_hat=logged_entries(reward_hat, log.action_idx[rows]),
            policy_reward_hat=(block.action_prob * reward_hat).sum(axis=1),
            logging_reward_hat=None if logging_prob is None else (logging_prob * reward_hat).sum(axis=1),
        )

    def all_terms(self, position: int) -> Terms:
        """Return the terms of one policy on all rows."""
        parts = []
        for rows in self.blocks():
            reward_hat = None if self.rewards is None else self.rewards.block(rows)
            parts.append(self.terms(rows, self.readers[position].block(rows), reward_hat, self.logging_prob(rows)))
        return Terms(*(_joined([getattr(part, field.name) for part in parts]) for field in fields(Terms)))

    def pilot(self, blocks: Sequence[slice], position: int, n_samples: int) -> Pilot:
        """Return some blocks of one policy as a pilot."""
        terms: list[Terms] = []
        probs: list[tuple[Any, Any]] = []
        for rows in blocks:
            reward_hat = None if self.rewards is None else self.rewards.block(rows)
            block = self.readers[position].block(rows)
            terms.append(self.terms(rows, block, reward_hat, None))
            probs.append((block.action_prob, self.logging_prob(rows)))
        names = ("importance_weight", "reward", "reward_hat", "policy_reward_hat")
        joined = Terms(*(_joined([getattr(one, name) for one in terms]) for name in names))
        if self.logging is None or not self.readers[position].has_all_actions:
            return Pilot(joined, n_samples)
        step = -(-len(joined.reward) * self.log.n_actions // PILOT_CELLS)
        action_prob, logging_prob = (np.concatenate(parts)[::step] for parts in zip(*probs, strict=True))
        return Pilot(joined, n_samples, action_prob, logging_prob)


def _joined(parts: Sequence[Any]) -> Any:
    """Return the parts of a column as one array; None where there is no such column."""
    return None if parts[0] is None else np.concatenate(parts)


def named_policies(policies: object) -> dict[str, object]:
    """Return policies by name; a single one is called "policy"."""
    if isinstance(policies, Mapping):
        if not policies:
            raise ValueError("there is no policy to evaluate: policies is empty.")
        names = [str(name) for name in policies]
        twice = [name for place, name in enumerate(names) if name in names[:place]]
        if twice:
            raise ValueError(f"several policies have the name {twice[0]!r}: names are compared as text.")
        return dict(zip(names, policies.values(), strict=True))
    if isinstance(policies, list | tuple) and any(hasattr(one, "predict_proba") for one in policies):
        raise TypeError("several policies need names: pass a mapping such as {'first': …, 'second': …}.")
    return {"policy": policies}


RUNNING = "running"


def with_running(policies: object, against: object) -> tuple[dict[str, object], str | None]:
    """Return policies by name and the name of the one that runs now, which may be one of them or come by itself."""
    named = named_policies(policies)
    if against is None:
        return named, None
    if isinstance(against, str):
        if against not in named:
            raise ValueError(f"against={against!r} is not one of the policies, which are {quoted(list(named))}.")
        return named, against
    name = RUNNING
    while name in named:
        name += "_"
    return {**named, name: against}, name


def read_logging_policy(policy: object, log: BanditLog) -> PolicyReader | None:
    """Return a reader of the logging policy, which must say the probabilities of all actions; None if not known."""
    if policy is None:
        return None
    reader = read_policy(policy, log, "logging_policy")
    if not reader.has_all_actions:
        raise ValueError(
            "logging_policy must give the probabilities of all actions, of shape (n_samples, n_actions); those of the "
            "logged actions alone are the propensities, which the log has already."
        )
    return reader


def check_all_actions(readers: Sequence[PolicyReader], estimators: Sequence[Estimator]) -> None:
    """Raise if an estimator with a reward model would have to do with probabilities of logged actions."""
    needy = next(estimator for estimator in estimators if Need.REWARD_MODEL in estimator.needs)
    for reader in readers:
        if not reader.has_all_actions:
            raise ValueError(
                f"estimator {needy.name!r} needs the probabilities of all actions, of shape (n_samples, n_actions); "
                f"{reader.name} was given by those of the logged actions only."
            )


@dataclass(frozen=True, eq=False)
class PropensityOrigin:
    """What the caller says of the logging policy; the fields are keywords of `bopl.evaluate`, which describes them."""

    propensity: str | None = None
    propensity_model: object = None
    logging_policy: object = None
    logger: object = None
    logger_propensity: object = None

    def on(self, log: BanditLog, n_folds: int, seed: int) -> tuple[BanditLog, Any]:
        """Return the log with its propensities, and the logging policy in full where that makes it known."""
        if (self.logger is None) != (self.logger_propensity is None):
            raise ValueError("logger and logger_propensity belong together: pass both or none.")
        if self.propensity is None:
            log = log if self.logger is None else log.balanced(self.logger, self.logger_propensity)
            log.require_propensity()
            return log, self.logging_policy
        check_choice("propensity", self.propensity, PROPENSITY_CHOICES)
        if self.logging_policy is not None or self.logger is not None:
            raise ValueError(
                f"propensity={self.propensity!r} stands in for a logging policy that is not known: pass one of them."
            )
        if self.propensity == "uniform":
            return log.with_propensity("uniform"), UniformPolicy(log.n_actions)
        from bopl.evaluation.propensity import estimate_logging_prob  # with the booster

        action_prob = estimate_logging_prob(log, model=self.propensity_model, n_folds=n_folds, random_state=seed)
        logged = logged_entries(action_prob, log.action_idx)
        return log.with_propensity(logged, source="estimated"), action_prob

    def on_pieces(self, log: PartitionedLog) -> tuple[PartitionedLog, Any]:
        """Return the same of a log in pieces, which has propensities of its own or those declared uniform."""
        if self.propensity == "uniform":
            return log.with_propensity("uniform"), UniformPolicy(log.n_actions)
        return log, self.logging_policy


@dataclass(frozen=True)
class UniformPolicy:
    """Takes every eligible action with the same probability."""

    n_actions: int

    def predict_proba(self, context: Any, *, action_mask: BoolArray | None = None) -> FloatArray:
        """Return probabilities of all actions, of shape (n_samples, n_actions)."""
        return softmax(np.zeros((context.shape[0], self.n_actions)), action_mask=action_mask)
