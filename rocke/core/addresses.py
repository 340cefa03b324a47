"""Addresses: what the memory groups share."""

from __future__ import annotations

from collections.abc import Mapping

from mlir import ir as mlir_ir

from rocke.core.base import BuilderBase, Operand
from rocke.core.types import I32, I64, PtrType, ScalarType, SmemType, Type, VectorType
from rocke.core.value import Value

_DYNAMIC = -(1 << 31)
"""``llvm.getelementptr``'s mark for an index that is an operand."""
_INDEX_LIMIT = 1 << 28
"""Constant indices of ``llvm.getelementptr`` have 29 bits; MLIR ends the process for larger ones.

[MLIR LLVMDialect.h, kGEPConstantBitWidth]
"""


class Addresses(BuilderBase):
    """Pointer arithmetic, loads and stores of the LLVM dialect."""

    def _pointer(self, op: str, ptr: Value, *spaces: str) -> PtrType:
        type_ = ptr.type if isinstance(ptr, Value) else None
        if not isinstance(type_, PtrType) or type_.space not in spaces:
            given = type_ if type_ is not None else repr(ptr)
            self._fail(op, f"expected a {' or '.join(spaces)} pointer, got {given}")
        return type_

    def _offset_type(self, op: str, offset: Operand) -> None:
        if isinstance(offset, Value):
            self._expect(op, offset, offset.type in (I32, I64), "an i32 or i64 offset in elements")
        elif isinstance(offset, bool) or not isinstance(offset, int):
            self._fail(op, f"expected an i32 or i64 Value or an int as offset, got {offset!r}")

    def _element_pointer(self, op: str, base: Value, elem: ScalarType, offset: Operand) -> Value:
        """The address of element ``offset`` past ``base``, as a pointer value."""
        self._offset_type(op, offset)
        space = base.type.space if isinstance(base.type, PtrType) else "lds"
        result = PtrType(elem, space)
        constant = isinstance(offset, int) and -_INDEX_LIMIT <= offset < _INDEX_LIMIT
        if constant and offset == 0 and isinstance(base.type, PtrType):
            return base
        index = () if constant else (self._operand(op, offset, I64),)
        attributes = {
            "elem_type": mlir_ir.TypeAttr.get(self._type(elem), context=self._context),
            "rawConstantIndices": self._attr(f"array<i32: {offset if constant else _DYNAMIC}>"),
            "noWrapFlags": self._attr("3 : i32"),
        }
        return self._derived(
            self._emit1(op, "llvm.getelementptr", (base, *index), result, attributes), base
        )

    def _derived(self, made: Value, base: Value) -> Value:
        """``made`` with the promises of the parameter that ``base`` comes from."""
        made._param = base._param
        return made

    def _promised(self, op: str, base: Value, *, store: bool) -> None:
        """Refuses what the parameter's declaration promises not to happen: LLVM relies on it."""
        param = base._param
        if param is not None and (param.readonly if store else param.writeonly):
            kind = "readonly" if store else "writeonly"
            self._fail(op, f"parameter {param.name!r} is declared {kind}")

    def _alignment(
        self, op: str, elem: ScalarType, align: int | None
    ) -> dict[str, mlir_ir.Attribute]:
        value = elem.bytes if align is None else align
        if (
            isinstance(value, bool)
            or not isinstance(value, int)
            or value < 1
            or value & (value - 1)
        ):
            self._fail(op, f"align must be a power of two in bytes, got {align!r}")
        return {"alignment": self._attr(f"{value} : i64")}

    def _in_memory(self, op: str, elem: Type) -> None:
        if not isinstance(elem, ScalarType) or elem.bits < 8:
            self._fail(op, f"expected a type of 8 bits or more in memory, got {elem}")

    def _load(
        self,
        op: str,
        address: Value,
        type_: Type,
        align: int | None,
        scopes: Mapping[str, mlir_ir.Attribute] | None = None,
    ) -> Value:
        elem = type_.elem if isinstance(type_, VectorType) else type_
        self._in_memory(op, elem)
        assert isinstance(elem, ScalarType)
        attributes = {**self._alignment(op, elem, align), **(scopes or {})}
        return self._emit1(op, "llvm.load", (address,), type_, attributes)

    def _store(self, op: str, address: Value, value: Value, align: int | None) -> None:
        elem = value.type.elem if isinstance(value.type, VectorType) else value.type
        self._in_memory(op, elem)
        assert isinstance(elem, ScalarType)
        self._emit(op, "llvm.store", (value, address), (), self._alignment(op, elem, align))

    def _same_element(self, op: str, elem: ScalarType, type_: Type | None) -> ScalarType:
        if type_ is not None and type_ != elem:
            self._fail(
                op, f"expected {elem}, the element of the memory, got {type_} (see ptr_cast)"
            )
        return elem

    def _counted(self, op: str, elem: ScalarType, value: Operand, n: int) -> Value:
        """``value`` checked to be ``n`` elements: a vector, or a scalar where n is 1."""
        if isinstance(n, bool) or not isinstance(n, int) or n < 1:
            self._fail(op, f"expected a positive element count n, got {n!r}")
        stored = self._operand(op, value, elem)
        accepted: tuple[Type, ...] = (VectorType(elem, n),) + ((elem,) if n == 1 else ())
        wanted = " or ".join(map(str, accepted))
        self._expect(op, stored, stored.type in accepted, f"a value of {wanted} for n = {n}")
        return stored

    def ptr_cast(self, ptr: Value, elem: ScalarType) -> Value:
        """The same address as a pointer to ``elem``: offsets count in its size. No operation."""
        type_ = self._pointer("ptr_cast", ptr, "global", "constant", "lds")
        self._in_memory("ptr_cast", elem)
        result = PtrType(elem, type_.space)
        return Value(self, self._use("ptr_cast", ptr), result, ptr._block, ptr._param)

    def ptr_add(self, ptr: Value, offset: Operand) -> Value:
        """The pointer ``offset`` elements further (i32 or i64, signed).

        Use an i64 to rebase a pointer once, for instance for a batch and a head, and i32 offsets
        from there. Emits ``llvm.getelementptr inbounds``.
        """
        type_ = self._pointer("ptr_add", ptr, "global", "constant", "lds")
        return self._element_pointer("ptr_add", ptr, type_.elem, offset)

    def _smem(self, op: str, array: Value) -> SmemType:
        type_ = array.type if isinstance(array, Value) else None
        if not isinstance(type_, SmemType):
            given = type_ if type_ is not None else repr(array)
            self._fail(op, f"expected an LDS array, got {given}")
        return type_
