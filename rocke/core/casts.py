"""Conversions between types."""

from __future__ import annotations

from rocke.core.base import BuilderBase
from rocke.core.types import (
    BF8E5M2,
    BF16,
    F16,
    F32,
    FP8E4M3,
    I8,
    I16,
    I32,
    ScalarType,
    Type,
    VectorType,
    element_of,
    is_float,
    is_int,
    with_element,
)
from rocke.core.value import Value

FP8_TARGETS = ("gfx942", "gfx950")
"""Targets with 8-bit float conversions; gfx942 has the FNUZ encodings, gfx950 the OCP ones."""


class Casts(BuilderBase):
    """Conversions; on vectors elementwise."""

    def cast_to_f32(self, value: Value) -> Value:
        """f16, bf16 or (scalar) 8-bit float to f32, exact; f32 is a no-op.

        Emits ``arith.extf``; for 8-bit floats ``rocdl.cvt.f32.fp8`` or ``.bf8`` (gfx942, gfx950).
        """
        elem = element_of(value.type) if isinstance(value, Value) else None
        if elem == F32:
            return value
        if elem in (FP8E4M3, BF8E5M2) and value.type == elem:
            self._require("cast_to_f32", *FP8_TARGETS)
            word = self._emit1("cast_to_f32", "arith.extui", (value,), I32)
            name = "rocdl.cvt.f32.fp8" if elem == FP8E4M3 else "rocdl.cvt.f32.bf8"
            return self._emit1(
                "cast_to_f32", name, (word,), F32, {"byteSel": self._attr("0 : i32")}
            )
        self._expect("cast_to_f32", value, elem in (F16, BF16), "f16, bf16, f32 or a scalar fp8")
        return self._emit1("cast_to_f32", "arith.extf", (value,), with_element(value.type, F32))

    def cast_f32_to(self, value: Value, type: Type) -> Value:
        """f32 to f16 or bf16 (or a scalar to an 8-bit float), to nearest even; NaN stays NaN.

        ``type`` is the target type, or for a vector also just its element type. Emits
        ``arith.truncf``: one instruction for f16 everywhere and for bf16 on gfx950, about 5.5
        vector instructions a bf16 element on gfx90a and gfx942 (`cvt_pk_bf16_f32_fast` is the cheap
        form). 8-bit floats: ``rocdl.cvt.pk.fp8.f32`` or ``.bf8`` (gfx942, gfx950). f32 is a no-op.
        """
        good = isinstance(value, Value) and element_of(value.type) == F32
        self._expect("cast_f32_to", value, good, "f32")
        elem = element_of(type) if isinstance(type, Type) else None
        if not isinstance(elem, ScalarType) or elem.kind != "float":
            self._fail("cast_f32_to", f"expected a float type, got {type}")
        target = with_element(value.type, elem)
        if isinstance(type, VectorType) and type != target:
            self._fail("cast_f32_to", f"expected a type of the shape of {value.type}, got {type}")
        if elem == F32:
            return value
        if elem.is_fp8:
            self._expect("cast_f32_to", value, value.type == F32, "a scalar f32 for fp8")
            word = self._packed_word("cast_f32_to", value, value, elem)
            return Value(
                self,
                self._emit1("cast_f32_to", "arith.trunci", (word,), I8)._mlir,
                elem,
                self._blocks[-1],
            )
        return self._emit1("cast_f32_to", "arith.truncf", (value,), target)

    def bitcast(self, value: Value, type: Type) -> Value:
        """The same bits as another type of the same width; scalars and vectors.

        Emits ``llvm.bitcast``; between types that MLIR writes alike it is a no-op.
        """
        self._expect("bitcast", value, isinstance(value, Value), "a Value")
        widths = [
            t.bits if isinstance(t, (ScalarType, VectorType)) else 0 for t in (value.type, type)
        ]
        if widths[0] != widths[1] or 0 in widths:
            self._fail("bitcast", f"expected types of one width, got {value.type} to {type}")
        if value.type.mlir == type.mlir:
            return Value(self, self._use("bitcast", value), type, value._block)
        return self._emit1("bitcast", "llvm.bitcast", (value,), type)

    def sitofp_f32(self, value: Value) -> Value:
        """Signed integer to f32, to nearest even. Emits ``arith.sitofp``."""
        good = isinstance(value, Value) and is_int(value.type)
        self._expect("sitofp_f32", value, good, "an integer")
        return self._emit1("sitofp_f32", "arith.sitofp", (value,), with_element(value.type, F32))

    def fptosi_i32(self, value: Value) -> Value:
        """f16, bf16 or f32 to i32, toward zero; undefined outside of the i32 range.

        Emits ``arith.fptosi``.
        """
        good = isinstance(value, Value) and is_float(value.type)
        self._expect("fptosi_i32", value, good, "f16, bf16 or f32")
        return self._emit1("fptosi_i32", "arith.fptosi", (value,), with_element(value.type, I32))

    # -- two at a time -------------------------------------------------------------------

    def _pair(self, op: str, a: Value, b: Value) -> None:
        for value in (a, b):
            self._expect(op, value, isinstance(value, Value) and value.type == F32, "two f32")

    def cvt_pk_bf16_f32(self, a: Value, b: Value) -> Value:
        """Two f32 to ``vec<bf16, 2>`` (a first), to nearest even, NaN kept.

        Emits ``arith.truncf`` on a vector (gfx950: one ``v_cvt_pk_bf16_f32``).
        """
        self._pair("cvt_pk_bf16_f32", a, b)
        pair = self._emit1("cvt_pk_bf16_f32", "vector.from_elements", (a, b), VectorType(F32, 2))
        return self.cast_f32_to(pair, BF16)

    def cvt_pk_bf16_f32_fast(self, a: Value, b: Value) -> Value:
        """Two f32 to ``vec<bf16, 2>`` (a first) in three instructions on every target.

        Adds 0x8000 to the bits and takes the upper halves with one ``v_perm_b32``: to nearest, ties
        away from zero. Finite values and infinities are right; a NaN whose upper 16 bits are all
        ones below the sign (never the hardware's own NaN, 0x7fc00000) comes out as zero. Emits
        ``arith.addi`` and the intrinsic ``llvm.amdgcn.perm``.
        """
        op = "cvt_pk_bf16_f32_fast"
        self._pair(op, a, b)
        half = self._operand(op, 0x8000)
        low, high = (
            self._emit1(op, "arith.addi", (self.bitcast(v, I32), half), I32) for v in (a, b)
        )
        # Selector bytes 0-3 name the second source, 4-7 the first: halves [a.hi, b.hi] of (b, a).
        selector = self._operand(op, 0x07060302)
        word = self._call(op, "llvm.amdgcn.perm", (high, low, selector), I32)
        return self.bitcast(word, VectorType(BF16, 2))

    def byte_permute(self, high: Value, low: Value, selector: Value) -> Value:
        """Four bytes out of the eight of two ``i32``: byte i of the result is byte ``selector[i]``
        of ``low`` (0 to 3) or of ``high`` (4 to 7). Gives i32.

        Emits the intrinsic ``llvm.amdgcn.perm`` (one ``v_perm_b32``).
        """
        op = "byte_permute"
        for value in (high, low, selector):
            self._expect(op, value, isinstance(value, Value) and value.type == I32, "three i32")
        return self._call(op, "llvm.amdgcn.perm", (high, low, selector), I32)

    def cvt_pkrtz_f16_f32(self, a: Value, b: Value) -> Value:
        """Two f32 to ``vec<f16, 2>`` (a first), toward zero, in one instruction.

        Emits ``rocdl.cvt.pkrtz``.
        """
        self._pair("cvt_pkrtz_f16_f32", a, b)
        return self._emit1("cvt_pkrtz_f16_f32", "rocdl.cvt.pkrtz", (a, b), VectorType(F16, 2))

    def _packed_word(self, op: str, a: Value, b: Value, elem: ScalarType) -> Value:
        self._require(op, *FP8_TARGETS)
        name = "rocdl.cvt.pk.fp8.f32" if elem == FP8E4M3 else "rocdl.cvt.pk.bf8.f32"
        attributes = {"wordSel": self._attr("false")}
        return self._emit1(op, name, (a, b, self._operand(op, 0)), I32, attributes)

    def cvt_pk_fp8_f32(self, a: Value, b: Value, type: ScalarType = FP8E4M3) -> Value:
        """Two f32 to a vector of two 8-bit floats (a first), to nearest even.

        ``type`` is FP8E4M3 or BF8E5M2; the encoding is the target's (gfx942 FNUZ, gfx950 OCP). Out
        of range is NaN. Emits ``rocdl.cvt.pk.fp8.f32`` or ``.bf8`` (gfx942, gfx950).
        """
        op = "cvt_pk_fp8_f32"
        self._pair(op, a, b)
        if not isinstance(type, ScalarType) or not type.is_fp8:
            self._fail(op, f"expected fp8e4m3 or bf8e5m2, got {type}")
        word = self._packed_word(op, a, b, type)
        return self.bitcast(self._emit1(op, "arith.trunci", (word,), I16), VectorType(type, 2))

    def cvt_pk_f32_fp8(self, value: Value) -> Value:
        """A vector of two 8-bit floats to ``vec<f32, 2>``, exact.

        Emits ``rocdl.cvt.pk.f32.fp8`` or ``.bf8`` (gfx942, gfx950).
        """
        op = "cvt_pk_f32_fp8"
        kinds = (VectorType(FP8E4M3, 2), VectorType(BF8E5M2, 2))
        good = isinstance(value, Value) and value.type in kinds
        self._expect(op, value, good, "a vector of two fp8e4m3 or bf8e5m2")
        self._require(op, *FP8_TARGETS)
        word = self._emit1(op, "arith.extui", (self.bitcast(value, I16),), I32)
        name = "rocdl.cvt.pk.f32.fp8" if value.type == kinds[0] else "rocdl.cvt.pk.f32.bf8"
        return self._emit1(op, name, (word,), VectorType(F32, 2), {"wordSel": self._attr("false")})
