"""The id of a policy: a digest of everything it decides by."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from bopl._archive import Packed
from bopl._typing import AnyArray

if TYPE_CHECKING:
    from bopl.boosting import Ensemble

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


def ensemble_content(ensemble: Ensemble) -> Packed:
    """Return the predictors of an ensemble with their coefficients.

    Raises
    ------
    TypeError
        A predictor has no plain form.
    """
    from bopl.learner.store import pack_predictors  # with the compiled engine, which other policies do without

    facts, arrays = pack_predictors(ensemble.predictors)
    return {"predictors": facts}, arrays | {"coefficients": np.array(ensemble.coefficients)}


def _without_threads(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _without_threads(one) for name, one in value.items() if name != _THREADS}
    return [_without_threads(one) for one in value] if isinstance(value, list | tuple) else value
