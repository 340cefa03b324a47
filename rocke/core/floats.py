"""Floating-point arithmetic.

``fastmath`` is a comma-separated list of LLVM's flags for one operation (``nnan``, ``ninf``,
``nsz``, ``arcp``, ``contract``, ``afn``, ``reassoc``); without it the operation is IEEE.
"""

from __future__ import annotations

from collections.abc import Callable

from mlir import ir as mlir_ir

from rocke.core.base import BuilderBase, Operand
from rocke.core.types import BF16, F16, F32, I1, VectorType, element_of, is_float, with_element
from rocke.core.value import Value

FCMP_PREDICATES = [
    "false",
    "oeq",
    "ogt",
    "oge",
    "olt",
    "ole",
    "one",
    "ord",
    "ueq",
    "ugt",
    "uge",
    "ult",
    "ule",
    "une",
    "uno",
    "true",
]
"""MLIR's float comparisons in the order of their numbers: o = false for NaN, u = true for NaN."""


class Floats(BuilderBase):
    """Floats f16, bf16, f32 and vectors of them (elementwise).

    Binary methods take two operands of one type (a Python number becomes a constant of the other's
    type) and give that type.
    """

    def _flags(self, op: str, dialect: str, fastmath: str | None) -> dict[str, mlir_ir.Attribute]:
        if fastmath is None:
            return {}
        key = "fastmath" if dialect == "arith" else "fastmathFlags"
        try:
            return {key: self._attr(f"#{dialect}.fastmath<{fastmath}>")}
        except mlir_ir.MLIRError:
            self._fail(op, f"expected fast-math flags such as 'nnan,ninf', got {fastmath!r}")

    def _floats(self, op: str, name: str, fastmath: str | None, *operands: Operand) -> Value:
        values = self._alike(op, *operands)
        self._expect(op, values[0], is_float(values[0].type), "f16, bf16 or f32 operands")
        flags = self._flags(op, name.partition(".")[0], fastmath)
        return self._emit1(op, name, values, values[0].type, flags)

    def fadd(self, a: Operand, b: Operand, *, fastmath: str | None = None) -> Value:
        """``a + b``. Emits ``arith.addf``."""
        return self._floats("fadd", "arith.addf", fastmath, a, b)

    def fsub(self, a: Operand, b: Operand, *, fastmath: str | None = None) -> Value:
        """``a - b``. Emits ``arith.subf``."""
        return self._floats("fsub", "arith.subf", fastmath, a, b)

    def fmul(self, a: Operand, b: Operand, *, fastmath: str | None = None) -> Value:
        """``a * b``. Emits ``arith.mulf``."""
        return self._floats("fmul", "arith.mulf", fastmath, a, b)

    def fdiv(self, a: Operand, b: Operand, *, fastmath: str | None = None) -> Value:
        """``a / b``, correctly rounded (about ten instructions). Emits ``arith.divf``."""
        return self._floats("fdiv", "arith.divf", fastmath, a, b)

    def fneg(self, a: Value) -> Value:
        """``-a``. Emits ``arith.negf``."""
        return self._floats("fneg", "arith.negf", None, a)

    def fabs(self, a: Value) -> Value:
        """``|a|``. Emits the intrinsic ``llvm.fabs``."""
        return self._intrinsic("fabs", "llvm.fabs", a)

    def fma(self, a: Operand, b: Operand, c: Operand, *, fastmath: str | None = None) -> Value:
        """``a * b + c`` with one rounding. Emits ``llvm.intr.fma``."""
        return self._floats("fma", "llvm.intr.fma", fastmath, a, b, c)

    def fmax(self, a: Operand, b: Operand, *, fastmath: str | None = None) -> Value:
        """The greater; where one is NaN, the other. Emits ``arith.maxnumf``."""
        return self._floats("fmax", "arith.maxnumf", fastmath, a, b)

    def fmin(self, a: Operand, b: Operand, *, fastmath: str | None = None) -> Value:
        """The smaller; where one is NaN, the other. Emits ``arith.minnumf``."""
        return self._floats("fmin", "arith.minnumf", fastmath, a, b)

    def fmax3(self, a: Operand, b: Operand, c: Operand, *, fastmath: str | None = None) -> Value:
        """The greatest of three as `fmax`; f32 becomes one ``v_max3_f32``.

        Emits two ``arith.maxnumf``.
        """
        x, y, z = self._alike("fmax3", a, b, c)
        return self.fmax(self.fmax(x, y, fastmath=fastmath), z, fastmath=fastmath)

    def dot2(self, a: Value, b: Value, c: Value) -> Value:
        """``a[0] b[0] + a[1] b[1] + c``: two vectors ``vec<f16, 2>`` or (gfx950) ``vec<bf16, 2>``
        and an f32; gives f32 (``v_dot2_f32_f16``, ``v_dot2_f32_bf16``).

        Emits the intrinsic ``llvm.amdgcn.fdot2`` or ``llvm.amdgcn.fdot2.f32.bf16``.
        """
        op = "dot2"
        x, y = self._alike(op, a, b)
        pairs = (VectorType(F16, 2), VectorType(BF16, 2))
        self._expect(op, x, x.type in pairs, "vectors of two f16 or bf16")
        self._expect(op, c, isinstance(c, Value) and c.type == F32, "an f32 to add to")
        if x.type == pairs[1]:
            self._require(op, "gfx950")
        name = "llvm.amdgcn.fdot2" + ("" if x.type == pairs[0] else ".f32.bf16")
        clamp = self._emit1(op, "arith.constant", (), I1, {"value": self._attr("false")})
        return self._call(op, name, (x, y, c, clamp), F32)

    # -- transcendental -------------------------------------------------------------------------

    def exp2(self, a: Value) -> Value:
        """``2**a`` over the full range, subnormal results too (a few instructions).

        Emits the intrinsic ``llvm.exp2``.
        """
        return self._intrinsic("exp2", "llvm.exp2", a)

    def exp2_fast(self, a: Value) -> Value:
        """``2**a`` by one ``v_exp_f32`` or ``v_exp_f16``: 1 ulp, f32 results below 2**-126 are 0.

        Emits ``rocdl.exp2``, once an element of a vector.
        """
        return self._hardware("exp2_fast", "rocdl.exp2", a)

    def log2(self, a: Value) -> Value:
        """``log2(a)`` over the full range, subnormal arguments too.

        Emits the intrinsic ``llvm.log2``.
        """
        return self._intrinsic("log2", "llvm.log2", a)

    def log2_fast(self, a: Value) -> Value:
        """``log2(a)`` by one ``v_log_f32``: 1 ulp, subnormal f32 arguments count as 0.

        Emits ``rocdl.log``, once an element of a vector.
        """
        return self._hardware("log2_fast", "rocdl.log", a)

    def sqrt(self, a: Value) -> Value:
        """Square root, correctly rounded. Emits the intrinsic ``llvm.sqrt``."""
        return self._intrinsic("sqrt", "llvm.sqrt", a)

    def rcp(self, a: Value) -> Value:
        """``1 / a``, correctly rounded. Emits ``arith.divf``."""
        return self._floats("rcp", "arith.divf", None, 1.0, a)

    def rcp_fast(self, a: Value) -> Value:
        """``1 / a`` by one ``v_rcp_f32``: 1 ulp, subnormal f32 results are 0.

        Emits ``rocdl.rcp``, once an element of a vector.
        """
        return self._hardware("rcp_fast", "rocdl.rcp", a)

    def _intrinsic(self, op: str, name: str, a: Value) -> Value:
        """A call of an LLVM intrinsic: convert-gpu-to-rocdl refuses these as ``llvm.intr``
        operations, since it makes them of the math dialect, as calls of a device library."""
        good = isinstance(a, Value) and is_float(a.type)
        self._expect(op, a, good, "f16, bf16 or f32")
        return self._call(op, name, (a,), a.type)

    def _hardware(self, op: str, name: str, a: Value) -> Value:
        good = isinstance(a, Value) and element_of(a.type) in (F16, F32)
        self._expect(op, a, good, "f32 or f16")
        return self._elementwise(op, a, lambda x: self._emit1(op, name, (x,), x.type))

    def _elementwise(self, op: str, a: Value, apply: Callable[[Value], Value]) -> Value:
        """``apply`` to a scalar, or to each element of a vector."""
        if not isinstance(a.type, VectorType):
            return apply(a)
        parts = []
        for i in range(a.type.count):
            place = {"static_position": self._attr(f"array<i64: {i}>")}
            parts.append(apply(self._emit1(op, "vector.extract", (a,), a.type.elem, place)))
        elem = parts[0].type
        return self._emit1(op, "vector.from_elements", parts, with_element(a.type, elem))  # type: ignore[arg-type]

    def fcmp(self, predicate: str, a: Operand, b: Operand) -> Value:
        """Comparison as ``i1``; ``predicate`` one of `FCMP_PREDICATES`, such as ``olt``.

        Emits ``arith.cmpf``.
        """
        if predicate not in FCMP_PREDICATES:
            self._fail("fcmp", f"expected one of {' '.join(FCMP_PREDICATES)}, got {predicate!r}")
        x, y = self._alike("fcmp", a, b)
        self._expect("fcmp", x, is_float(x.type), "f16, bf16 or f32 operands")
        number = self._attr(f"{FCMP_PREDICATES.index(predicate)} : i64")
        return self._emit1(
            "fcmp", "arith.cmpf", (x, y), with_element(x.type, I1), {"predicate": number}
        )
