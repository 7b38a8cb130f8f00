"""Sixty-four contexts at once: comparisons that give one bit each, and a store where the bits are set.

Written as vectors of 64 lanes, which LLVM divides into whatever registers the processor has.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.extending import intrinsic

LANES = 64
LANE_DTYPE = np.uint16  # of what `put` stores


def _vector(element: Any) -> Any:
    """Return the type of 64 lanes; made where it is used, so that importing this needs nothing of llvmlite's types."""
    return ir.VectorType(element, LANES)


def _lanes_at(context: Any, builder: Any, array_type: Any, array: Any, start: Any, vector: Any) -> Any:
    """Return the address of 64 lanes of a one-dimensional contiguous array."""
    data = context.make_array(array_type)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [start]), vector.as_pointer())


def _splat(builder: Any, value: Any, vector: Any) -> Any:
    """Return a vector with the same value in every lane."""
    one = builder.insert_element(ir.Constant(vector, ir.Undefined), value, ir.IntType(32)(0))
    zeros = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
    return builder.shuffle_vector(one, ir.Constant(vector, ir.Undefined), zeros)


def _comparison(predicate: str, *, missing: bool) -> Any:
    """Return an intrinsic ``(values, start, threshold) -> bits`` over float32, true or false for missing values."""

    @intrinsic
    def compare(typing_context: Any, values: Any, start: Any, threshold: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            floats = _vector(ir.FloatType())
            address = _lanes_at(context, builder, signature.args[0], args[0], args[1], floats)
            x, cut = builder.load(address, align=4), _splat(builder, args[2], floats)
            test = builder.fcmp_unordered if missing else builder.fcmp_ordered
            return builder.bitcast(test(predicate, x, cut), ir.IntType(LANES))

        return types.uint64(values, types.intp, types.float32), generate

    return compare


is_below = _comparison("<", missing=False)
is_below_or_missing = _comparison("<", missing=True)
is_equal = _comparison("==", missing=False)
is_equal_or_missing = _comparison("==", missing=True)


@intrinsic
def put(typing_context: Any, values_out: Any, start: Any, value: Any, bits: Any) -> Any:
    """Store ``value`` into those of 64 lanes of a uint16 array whose bits are set."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        shorts = _vector(ir.IntType(16))
        address = _lanes_at(context, builder, signature.args[0], args[0], args[1], shorts)
        chosen = builder.bitcast(args[3], _vector(ir.IntType(1)))
        before = builder.load(address, align=2)
        builder.store(builder.select(chosen, _splat(builder, args[2], shorts), before), address, align=2)
        return context.get_dummy_value()

    return types.void(values_out, types.intp, types.uint16, types.uint64), generate


@intrinsic
def count_bits(typing_context: Any, bits: Any) -> Any:
    """Return the number of bits set."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.ctpop(args[0])

    return types.uint64(types.uint64), generate
