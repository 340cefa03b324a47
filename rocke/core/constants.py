"""Constants."""

from __future__ import annotations

from collections.abc import Sequence

from rocke.core.base import BuilderBase, Number
from rocke.core.types import (
    BF8E5M2,
    BF16,
    F16,
    F32,
    FP8E4M3,
    I1,
    I8,
    I16,
    I32,
    I64,
    ScalarType,
    Type,
    VectorType,
)
from rocke.core.value import Value


class Constants(BuilderBase):
    """Constants. Every method emits ``arith.constant``; a number that does not fit is refused.

    A number that stands as a constant of the type already, and is in scope, is not emitted again.
    """

    def const(self, type: Type, value: Number | Sequence[Number]) -> Value:
        """A constant of any scalar type, or of a vector type (one number for all, or a sequence).

        Integers may be given signed or as the unsigned number with the same bits. The 8-bit floats
        take their bit pattern. Emits ``arith.constant``.
        """
        return self._constant_value("const", type, value)

    def const_i1(self, value: bool) -> Value:
        """An ``i1``: False or True."""
        return self.const(I1, int(value))

    def const_i8(self, value: int) -> Value:
        """An ``i8``."""
        return self.const(I8, value)

    def const_i16(self, value: int) -> Value:
        """An ``i16``."""
        return self.const(I16, value)

    def const_i32(self, value: int) -> Value:
        """An ``i32``."""
        return self.const(I32, value)

    def const_i64(self, value: int) -> Value:
        """An ``i64``."""
        return self.const(I64, value)

    def const_f16(self, value: Number) -> Value:
        """An ``f16``, rounded to nearest even."""
        return self.const(F16, value)

    def const_bf16(self, value: Number) -> Value:
        """A ``bf16``, rounded to nearest even."""
        return self.const(BF16, value)

    def const_f32(self, value: Number) -> Value:
        """An ``f32``, rounded to nearest even; infinities and NaN as Python floats."""
        return self.const(F32, value)

    def const_fp8e4m3(self, bits: int) -> Value:
        """An ``fp8e4m3`` by its bit pattern."""
        return self.const(FP8E4M3, bits)

    def const_bf8e5m2(self, bits: int) -> Value:
        """A ``bf8e5m2`` by its bit pattern."""
        return self.const(BF8E5M2, bits)

    def zero_vec(self, elem: ScalarType, n: int) -> Value:
        """A vector of ``n`` zeros of type ``elem``. Emits ``arith.constant``."""
        return self.const(self._vector("zero_vec", elem, n), 0)

    def _vector(self, op: str, elem: ScalarType, n: int) -> VectorType:
        try:
            return VectorType(elem, n)
        except (TypeError, ValueError) as error:
            self._fail(op, str(error))
