"""`RecordPolicy`: from one record, a plain mapping, to action probabilities, and the policy's id."""

from __future__ import annotations

import hashlib
import json
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import is_
from typing import Any, ClassVar

import numpy as np

from bopl._typing import AnyArray, BoolArray, ContextMatrix, FloatArray
from bopl.log.column import Column
from bopl.log.context import CONTEXT_DTYPE
from bopl.log.schema import LogSchema
from bopl.objective.softmax import softmax
from bopl.policy.policy import Policy

ID_LENGTH = 16  # hexadecimal digits: 64 bits distinguish more policies than anybody trains
_LEFT_OUT = ("gain", "sum_weight")  # of trees, only for explanations
_THREADS = "n_jobs"


def digest(facts: Mapping[str, Any], arrays: Mapping[str, AnyArray]) -> str:
    """Return the id of facts and arrays: the same on every machine, whatever threads were used."""
    # Sorted names, fixed byte order, types and shapes included: equal policies have equal bytes, others have not.
    text = json.dumps(_without_threads(facts), sort_keys=True, separators=(",", ":"))
    found = hashlib.sha256(text.encode())
    for name in sorted(arrays):
        if name.rpartition("/")[2] in _LEFT_OUT:
            continue
        array = np.ascontiguousarray(arrays[name])
        array = array.astype(array.dtype.newbyteorder("<"), copy=False)
        found.update(f"\n{name} {array.dtype.str} {array.shape}\n".encode())
        found.update(array.tobytes())
    return found.hexdigest()[:ID_LENGTH]


def _without_threads(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _without_threads(one) for name, one in value.items() if name != _THREADS}
    return [_without_threads(one) for one in value] if isinstance(value, list | tuple) else value


@dataclass(frozen=True, eq=False)
class _Served:
    """Everything that deciding needs from a policy, and the state of the policy that it was made from."""

    state: list[Any]
    policy_id: str
    labels: list[Any]
    schema: LogSchema | None


class RecordPolicy(Policy):
    """A policy that knows the names of its columns and reads records; it imports nothing that fitting needs.

    A subclass defines `content`, the probabilities of encoded contexts, ``_prob``, and how to encode others,
    ``_read``.
    """

    action_features_: FloatArray | None
    n_features_in_: int
    schema_: LogSchema | None
    predicts_rewards: ClassVar[bool] = False  # whether scores are predicted rewards

    @property
    def trained_inverse_temperature(self) -> float:
        """Factor of the scores, unless the caller gives one; infinity for predicted rewards, so that it is greedy."""
        return np.inf if self.predicts_rewards else 1.0

    @property
    def policy_id(self) -> str:
        """Digest of everything the policy decides by: equal for equal policies, even after loading."""
        return self._served().policy_id

    @abstractmethod
    def content(self) -> tuple[dict[str, Any], dict[str, AnyArray]]:
        """Return what the policy decides by besides its columns and actions, as JSON facts and arrays."""

    @property
    def _class_name(self) -> str:
        return type(self).__name__

    def _check_fitted(self) -> None:
        """Raise if the policy cannot decide yet."""

    def _served(self) -> _Served:
        """Return what deciding needs, cached until an attribute of the policy is replaced."""
        state, made = self._state(), vars(self).get("_made")
        if isinstance(made, _Served) and len(made.state) == len(state) and all(map(is_, made.state, state)):
            return made
        self._check_fitted()
        names = getattr(self, "feature_names_in_", None)
        schema = self.schema_
        if schema is None and names is not None:
            schema = LogSchema(tuple(Column(str(name), "number") for name in names))
        labels = self.actions_.tolist()
        facts, arrays = self.content()
        common = {
            "class": self._class_name,
            "actions": [[type(label).__name__, repr(label)] for label in labels],
            "n_features": int(self.n_features_in_),
            "columns": None if schema is None else schema.to_json()["columns"],
            "is_sparse": schema is not None and schema.is_sparse,
            "inverse_temperature": float(self.trained_inverse_temperature),
        }
        features = {} if self.action_features_ is None else {"action_features": self.action_features_}
        made = _Served(state, digest({**facts, **common}, arrays | features), labels, schema)
        self._made = made
        return made

    def _state(self) -> list[Any]:
        """Return what changes when the policy does: a replaced attribute is another object."""
        return [value for name, value in vars(self).items() if name != "_made"]

    def _identity(self) -> tuple[str, list[Any]]:
        served = self._served()
        return served.policy_id, served.labels

    @property
    def has_exact_rows(self) -> bool:
        """Whether the digits of a row's probabilities do not depend on the other rows.

        If they do, as in matrix products, several records are decided one by one.
        """
        return True

    def _records_proba(self, records: Sequence[Any], mask: BoolArray | None) -> FloatArray:
        matrix = self._read_records(records)
        if matrix.shape[0] == 1 or self.has_exact_rows:
            return self._prob(matrix, mask)
        rows = [slice(row, row + 1) for row in range(matrix.shape[0])]
        return np.concatenate([self._prob(matrix[row], None if mask is None else mask[row]) for row in rows])

    def _read_records(self, records: Sequence[Any]) -> ContextMatrix:
        if type(records[0]) is dict or isinstance(records[0], Mapping):
            schema = getattr(self, "schema_", None) or self._served().schema
            if schema is None:
                raise TypeError("the policy was fitted on columns without names; pass a sequence of numbers.")
            return schema.encode_records(records)
        matrix = np.asarray(records)
        if matrix.ndim == 2 and matrix.shape[1] == self.n_features_in_ and matrix.dtype.kind in "fiu":
            with np.errstate(over="ignore"):
                matrix = np.ascontiguousarray(matrix, dtype=CONTEXT_DTYPE)
            if not np.isinf(matrix).any():
                return matrix
        return self._read(matrix)

    @abstractmethod
    def _read(self, context: Any) -> ContextMatrix:
        """Return contexts as a matrix of numbers, checked."""

    @abstractmethod
    def _prob(self, matrix: ContextMatrix, mask: BoolArray | None) -> FloatArray:
        """Return the probabilities of contexts that have been read."""

    def _softmax(self, score: FloatArray, mask: BoolArray | None) -> FloatArray:
        factor = float(self.trained_inverse_temperature)
        return softmax(check_scores(score), inverse_temperature=factor, action_mask=mask)


def check_scores(score: FloatArray) -> FloatArray:
    """Return scores, after checking that they are finite: otherwise there are no probabilities to act on or to log."""
    if len(score) > 1:
        with np.errstate(over="ignore", invalid="ignore"):
            total = score.sum()
        if np.isfinite(total):  # it may overflow even if no score does
            return score
    if np.isfinite(score).all():
        return score
    bad = ~np.isfinite(score).all(axis=1)
    raise ValueError(
        f"the policy's scores are not finite for {np.count_nonzero(bad)} of {len(score)} contexts, the first at row "
        f"{int(np.flatnonzero(bad)[0])}. Missing or very large numbers in the context do this to linear models and "
        "networks: fill in missing values, or rescale."
    )
