"""Many bytes at a time: unaligned loads and byte searches for the compiled parsers.

Each is one LLVM operation that numba has no spelling for; the compiler lowers it to what the processor has.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.extending import intrinsic

__all__ = ["WIDTH", "bits_float", "count_bits", "equal64", "float_bits", "high64", "load64", "lowest_bit"]

# Bytes looked at by equal64 and high64; buffers are padded accordingly.
WIDTH = 64
_VECTOR = ir.VectorType(ir.IntType(8), WIDTH)
_MASK = ir.IntType(WIDTH)


def _address(context: Any, builder: Any, array_type: Any, array: Any, at: Any, element: Any) -> Any:
    data = context.make_array(array_type)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [at]), element.as_pointer())


@intrinsic
def load64(typingctx: Any, buffer: Any, at: Any) -> Any:
    """Load ``buffer[at:at + 8]`` as one little-endian uint64; the buffer must hold those bytes."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.load(_address(context, builder, sig.args[0], args[0], args[1], ir.IntType(64)), align=1)

    return types.uint64(buffer, types.int64), codegen


@intrinsic
def equal64(typingctx: Any, buffer: Any, at: Any, byte: Any) -> Any:
    """Return a mask: bit i is set where ``buffer[at + i] == byte``, for 64 bytes."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        chunk = builder.load(_address(context, builder, sig.args[0], args[0], args[1], _VECTOR), align=1)
        one = builder.insert_element(ir.Constant(_VECTOR, ir.Undefined), args[2], ir.Constant(ir.IntType(32), 0))
        zeros = ir.Constant(ir.VectorType(ir.IntType(32), WIDTH), [0] * WIDTH)
        wanted = builder.shuffle_vector(one, ir.Constant(_VECTOR, ir.Undefined), zeros)
        return builder.bitcast(builder.icmp_unsigned("==", chunk, wanted), _MASK)

    return types.uint64(buffer, types.int64, types.uint8), codegen


@intrinsic
def high64(typingctx: Any, buffer: Any, at: Any) -> Any:
    """Return a mask: bit i is set where ``buffer[at + i] >= 128``, for 64 bytes."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        chunk = builder.load(_address(context, builder, sig.args[0], args[0], args[1], _VECTOR), align=1)
        zeros = ir.Constant(_VECTOR, [0] * WIDTH)
        return builder.bitcast(builder.icmp_signed("<", chunk, zeros), _MASK)

    return types.uint64(buffer, types.int64), codegen


@intrinsic
def lowest_bit(typingctx: Any, mask: Any) -> Any:
    """Return the number of the lowest set bit; the mask must not be 0."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.uint64), codegen


@intrinsic
def float_bits(typingctx: Any, value: Any) -> Any:
    """Return the bits of a float64."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.bitcast(args[0], ir.IntType(64))

    return types.uint64(types.float64), codegen


@intrinsic
def bits_float(typingctx: Any, bits: Any) -> Any:
    """Return the float64 with these bits."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.bitcast(args[0], ir.DoubleType())

    return types.float64(types.uint64), codegen


@intrinsic
def count_bits(typingctx: Any, mask: Any) -> Any:
    """Return how many bits are set."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.ctpop(args[0])

    return types.int64(types.uint64), codegen
