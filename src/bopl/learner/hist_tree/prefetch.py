"""A hint to the processor to load memory that will be read soon.

A node's rows lie scattered over memory; while one row is added to the histogram the next ones can already be on their
way.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.extending import intrinsic

READ, KEEP, DATA = 0, 3, 1  # arguments of LLVM's prefetch: to be read, into all levels of the cache, no instructions


@intrinsic
def prefetch(typing_context: Any, array: Any, index: Any) -> Any:
    """Ask for the cache line of ``array[index]`` of a one-dimensional contiguous array; out of range is harmless."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        offset = context.cast(builder, args[1], signature.args[1], types.intp)
        address = builder.bitcast(builder.gep(data, [offset]), ir.PointerType(ir.IntType(8)))
        i32 = ir.IntType(32)
        function_type = ir.FunctionType(ir.VoidType(), [address.type, i32, i32, i32])
        function = builder.module.declare_intrinsic("llvm.prefetch", [address.type], function_type)
        builder.call(function, [address, i32(READ), i32(KEEP), i32(DATA)])
        return context.get_dummy_value()

    return types.void(array, index), generate
