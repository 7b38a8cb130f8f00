"""Sixty-four contexts at once: comparisons that give one bit each, and a store where the bits are set.

Written as vectors of 64 lanes, which LLVM divides into whatever registers the processor has: with 512 bits a comparison
is four instructions whose masks are the bits; with 128 bits it is sixteen. numba offers neither vectors nor masks, so
these few functions are written in LLVM's own language; `predict` does without them where they cannot be compiled.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.extending import intrinsic

LANES = 64
LANE_DTYPE = np.uint16  # of what `put` stores


def _lanes_at(context: Any, builder: Any, array_type: Any, array: Any, start: Any, vector: Any) -> Any:
    """Return the address of a vector's lanes in a one-dimensional contiguous array."""
    data = context.make_array(array_type)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [start]), vector.as_pointer())


def _splat(builder: Any, value: Any, vector: Any) -> Any:
    """Return a vector with the same value in every lane."""
    one = builder.insert_element(ir.Constant(vector, ir.Undefined), value, ir.IntType(32)(0))
    zeros = ir.Constant(ir.VectorType(ir.IntType(32), vector.count), [0] * vector.count)
    return builder.shuffle_vector(one, ir.Constant(vector, ir.Undefined), zeros)


def _comparison(predicate: str, *, missing: bool) -> Any:
    """Return an intrinsic ``(values, start, threshold) -> bits`` over float32, true or false for missing values."""

    @intrinsic
    def compare(typing_context: Any, values: Any, start: Any, threshold: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            floats = ir.VectorType(ir.FloatType(), LANES)  # made here: importing this needs nothing of llvmlite's types
            address = _lanes_at(context, builder, signature.args[0], args[0], args[1], floats)
            # Blocks begin anywhere in a thread's memory: aligned as floats are, not as vectors are.
            x, cut = builder.load(address, align=4), _splat(builder, args[2], floats)
            # "Unordered" comparisons hold if either side is NaN, "ordered" ones do not: missing values cost nothing.
            test = builder.fcmp_unordered if missing else builder.fcmp_ordered
            return builder.bitcast(test(predicate, x, cut), ir.IntType(LANES))  # <64 x i1> is an i64, lane 0 lowest

        return types.uint64(values, types.intp, types.float32), generate

    return compare


is_below = _comparison("<", missing=False)
is_below_or_missing = _comparison("<", missing=True)
is_equal = _comparison("==", missing=False)
is_equal_or_missing = _comparison("==", missing=True)


def masked_store(number: Any, element: Callable[[], Any], n_lanes: int) -> Any:
    """Return an intrinsic ``(values, start, value, bits)`` that stores a value into those lanes whose bits are set.

    ``number`` is the numba type of the array's entries; ``element`` returns the same as a type of LLVM. A store has
    ``n_lanes`` lanes; higher bits are ignored.
    """

    @intrinsic
    def put(typing_context: Any, values_out: Any, start: Any, value: Any, bits: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            vector, size = ir.VectorType(element(), n_lanes), number.bitwidth // 8
            address = _lanes_at(context, builder, signature.args[0], args[0], args[1], vector)
            low = args[3] if n_lanes == LANES else builder.trunc(args[3], ir.IntType(n_lanes))
            chosen = builder.bitcast(low, ir.VectorType(ir.IntType(1), n_lanes))
            # Load, select, store: LLVM makes a masked store of it where there is one. All lanes are the thread's own.
            before = builder.load(address, align=size)
            builder.store(builder.select(chosen, _splat(builder, args[2], vector), before), address, align=size)
            return context.get_dummy_value()

        return types.void(values_out, types.intp, number, types.uint64), generate

    return put


put = masked_store(types.uint16, lambda: ir.IntType(16), LANES)


@intrinsic
def count_bits(typing_context: Any, bits: Any) -> Any:
    """Return the number of bits set."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.ctpop(args[0])

    return types.uint64(types.uint64), generate
