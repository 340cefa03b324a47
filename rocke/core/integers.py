"""Integer arithmetic and comparisons."""

from __future__ import annotations

from rocke.core.base import BuilderBase, Operand
from rocke.core.types import I1, I32, ScalarType, Type, element_of, is_int, with_element
from rocke.core.value import Value


class Integers(BuilderBase):
    """Integers and vectors of integers.

    Binary methods take two operands of one type (a Python int becomes a constant of the other's
    type) and give that type. Arithmetic wraps. Division and comparisons are signed.
    """

    def _integers(self, op: str, name: str, a: Operand, b: Operand) -> Value:
        x, y = self._alike(op, a, b)
        self._expect(op, x, is_int(x.type), "integers")
        return self._emit1(op, name, (x, y), x.type)

    def add(self, a: Operand, b: Operand) -> Value:
        """``a + b``. Emits ``arith.addi``."""
        return self._integers("add", "arith.addi", a, b)

    def sub(self, a: Operand, b: Operand) -> Value:
        """``a - b``. Emits ``arith.subi``."""
        return self._integers("sub", "arith.subi", a, b)

    def mul(self, a: Operand, b: Operand) -> Value:
        """``a * b``. Emits ``arith.muli``."""
        return self._integers("mul", "arith.muli", a, b)

    def div(self, a: Operand, b: Operand) -> Value:
        """``a / b`` signed, rounded toward zero; b = 0 is undefined. Emits ``arith.divsi``."""
        return self._integers("div", "arith.divsi", a, b)

    def mod(self, a: Operand, b: Operand) -> Value:
        """Remainder of `div`, with the sign of ``a``. Emits ``arith.remsi``."""
        return self._integers("mod", "arith.remsi", a, b)

    def smax(self, a: Operand, b: Operand) -> Value:
        """The greater, signed. Emits ``arith.maxsi``."""
        return self._integers("smax", "arith.maxsi", a, b)

    def smin(self, a: Operand, b: Operand) -> Value:
        """The smaller, signed. Emits ``arith.minsi``."""
        return self._integers("smin", "arith.minsi", a, b)

    def land(self, a: Operand, b: Operand) -> Value:
        """Bitwise and; on ``i1`` the logical one. Emits ``arith.andi``."""
        return self._integers("land", "arith.andi", a, b)

    def lor(self, a: Operand, b: Operand) -> Value:
        """Bitwise or; on ``i1`` the logical one. Emits ``arith.ori``."""
        return self._integers("lor", "arith.ori", a, b)

    def xor(self, a: Operand, b: Operand) -> Value:
        """Bitwise exclusive or. Emits ``arith.xori``."""
        return self._integers("xor", "arith.xori", a, b)

    def lnot(self, a: Value) -> Value:
        """All bits inverted; on ``i1`` the logical not. Emits ``arith.xori`` with all ones."""
        self._expect("lnot", a, isinstance(a, Value) and is_int(a.type), "an integer")
        ones = self._constant("lnot", a.type, -1)
        return self.xor(a, self._emit1("lnot", "arith.constant", (), a.type, {"value": ones}))

    def shl(self, a: Operand, b: Operand) -> Value:
        """``a`` shifted left by ``b`` bits, 0 <= b < width. Emits ``arith.shli``."""
        return self._integers("shl", "arith.shli", a, b)

    def lshr(self, a: Operand, b: Operand) -> Value:
        """``a`` shifted right by ``b`` bits, zeros from the left. Emits ``arith.shrui``."""
        return self._integers("lshr", "arith.shrui", a, b)

    def ashr(self, a: Operand, b: Operand) -> Value:
        """``a`` shifted right by ``b`` bits, sign from the left. Emits ``arith.shrsi``."""
        return self._integers("ashr", "arith.shrsi", a, b)

    def umul_hi_i32(self, a: Operand, b: Operand) -> Value:
        """Upper 32 bits of the unsigned 64-bit product of two ``i32``.

        Emits ``arith.mului_extended`` (one ``v_mul_hi_u32`` or ``s_mul_hi_u32``).
        """
        x, y = self._alike("umul_hi_i32", a, b)
        self._expect("umul_hi_i32", x, x.type == I32, "i32 operands")
        _, results = self._emit("umul_hi_i32", "arith.mului_extended", (x, y), (I32, I32))
        return results[1]

    def bit_mask(self, value: Value, bit: int) -> Value:
        """-1 where bit ``bit`` (0 to 31) of an ``i32`` is set, else 0: a mask for bitwise choices.

        Emits the intrinsic ``llvm.amdgcn.sbfe`` (one ``v_bfe_i32``), which LLVM leaves a mask: of
        shifts it makes a comparison.
        """
        op = "bit_mask"
        self._expect(op, value, isinstance(value, Value) and value.type == I32, "an i32")
        if isinstance(bit, bool) or not isinstance(bit, int) or not 0 <= bit < 32:
            self._fail(op, f"expected a bit from 0 to 31, got {bit!r}")
        operands = (value, self._operand(op, bit), self._operand(op, 1))
        return self._call(op, "llvm.amdgcn.sbfe.i32", operands, I32)

    # -- width ---------------------------------------------------------------------------

    def _width(self, op: str, name: str, a: Value, type: Type, wider: bool) -> Value:
        self._expect(op, a, isinstance(a, Value) and is_int(a.type), "an integer")
        if not isinstance(type, Type) or not is_int(type):
            self._fail(op, f"expected an integer type, got {type}")
        target = element_of(type)
        assert isinstance(target, ScalarType)
        before = element_of(a.type)
        assert isinstance(before, ScalarType)
        if a.type == type:
            return a
        if with_element(a.type, target) != type or (target.bits > before.bits) != wider:
            relation = "wider" if wider else "narrower"
            self._fail(
                op, f"expected a {relation} integer type of the same shape, got {a.type} to {type}"
            )
        return self._emit1(op, name, (a,), type)

    def zext(self, a: Value, type: Type) -> Value:
        """``a`` widened to ``type`` with zeros. Emits ``arith.extui``; the same type is a no-op."""
        return self._width("zext", "arith.extui", a, type, True)

    def sext(self, a: Value, type: Type) -> Value:
        """``a`` widened to ``type`` signed. Emits ``arith.extsi``; the same type is a no-op."""
        return self._width("sext", "arith.extsi", a, type, True)

    def trunc(self, a: Value, type: Type) -> Value:
        """The low bits of ``a`` as ``type``. Emits ``arith.trunci``; the same type is a no-op."""
        return self._width("trunc", "arith.trunci", a, type, False)

    # -- comparisons ---------------------------------------------------------------------

    def _compare(self, op: str, predicate: int, a: Operand, b: Operand) -> Value:
        x, y = self._alike(op, a, b)
        self._expect(op, x, is_int(x.type), "integers (floats: fcmp)")
        attribute = self._attr(f"{predicate} : i64")
        return self._emit1(
            op, "arith.cmpi", (x, y), with_element(x.type, I1), {"predicate": attribute}
        )

    def cmp_eq(self, a: Operand, b: Operand) -> Value:
        """``a == b`` as ``i1``. Emits ``arith.cmpi eq``."""
        return self._compare("cmp_eq", 0, a, b)

    def cmp_ne(self, a: Operand, b: Operand) -> Value:
        """``a != b`` as ``i1``. Emits ``arith.cmpi ne``."""
        return self._compare("cmp_ne", 1, a, b)

    def cmp_lt(self, a: Operand, b: Operand) -> Value:
        """``a < b``, signed, as ``i1``. Emits ``arith.cmpi slt``."""
        return self._compare("cmp_lt", 2, a, b)

    def cmp_le(self, a: Operand, b: Operand) -> Value:
        """``a <= b``, signed, as ``i1``. Emits ``arith.cmpi sle``."""
        return self._compare("cmp_le", 3, a, b)

    def cmp_gt(self, a: Operand, b: Operand) -> Value:
        """``a > b``, signed, as ``i1``. Emits ``arith.cmpi sgt``."""
        return self._compare("cmp_gt", 4, a, b)

    def cmp_ge(self, a: Operand, b: Operand) -> Value:
        """``a >= b``, signed, as ``i1``. Emits ``arith.cmpi sge``."""
        return self._compare("cmp_ge", 5, a, b)

    def cmp_ult(self, a: Operand, b: Operand) -> Value:
        """``a < b``, unsigned, as ``i1``; one test for 0 <= a < b where b >= 0.

        Emits ``arith.cmpi ult``.
        """
        return self._compare("cmp_ult", 6, a, b)

    def select(self, condition: Value, a: Operand, b: Operand) -> Value:
        """``a`` where ``condition`` (i1, or a vector of i1) is true, else ``b``; any type.

        Emits ``arith.select``.
        """
        x, y = self._alike("select", a, b)
        kind = condition.type if isinstance(condition, Value) else None
        good = kind == I1 or (kind == with_element(x.type, I1))
        self._expect("select", condition, good, f"an i1 condition for operands of {x.type}")
        return self._emit1("select", "arith.select", (condition, x, y), x.type)
