"""Array aliases used in signatures across the package."""

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

FloatArray: TypeAlias = npt.NDArray[np.floating[Any]]
IntArray: TypeAlias = npt.NDArray[np.integer[Any]]
BoolArray: TypeAlias = npt.NDArray[np.bool_]
AnyArray: TypeAlias = npt.NDArray[Any]

# A dense float32 array of shape (n_samples, n_features), or a scipy.sparse.csr_array of that shape. scipy ships no
# types, so the alias can only be Any; the name says what is meant.
ContextMatrix: TypeAlias = Any
