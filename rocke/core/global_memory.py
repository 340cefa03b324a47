"""Global memory, plainly and through bounds-checked buffer descriptors. Offsets are in elements."""

from __future__ import annotations

from rocke.core.addresses import Addresses
from rocke.core.base import Operand
from rocke.core.types import (
    I16,
    I32,
    I64,
    BufferType,
    MlirType,
    PtrType,
    ScalarType,
    Type,
    VectorType,
    with_article,
)
from rocke.core.value import Value

BUFFER_FLAGS = 0x27000
"""Fourth descriptor word of a raw buffer on gfx9: 32-bit data format, unsigned number format.
[LLVM AMDGPU: the value that MLIR's amdgpu.fat_raw_buffer_cast uses for gfx9]"""


class GlobalMemory(Addresses):
    """Global memory.

    ``offset`` is i32 or i64 (or a Python int), signed, in elements of the pointer. ``type`` repeats
    the pointer's element. ``align`` is the alignment of the address in bytes, default the
    element's: more is only a promise, loads and stores are as wide either way.
    """

    def _address(self, op: str, ptr: Value, offset: Operand, *, store: bool = False) -> Value:
        type_ = self._pointer(op, ptr, "global", *(() if store else ("constant",)))
        self._promised(op, ptr, store=store)
        return self._element_pointer(op, ptr, type_.elem, offset)

    def _elem(self, op: str, ptr: Value, type_: Type | None) -> ScalarType:
        pointer = self._pointer(op, ptr, "global", "constant")
        return self._same_element(op, pointer.elem, type_)

    def global_load(
        self,
        ptr: Value,
        offset: Operand,
        type: ScalarType | None = None,
        *,
        align: int | None = None,
    ) -> Value:
        """One element. Emits ``llvm.getelementptr`` and ``llvm.load``."""
        elem = self._elem("global_load", ptr, type)
        return self._load("global_load", self._address("global_load", ptr, offset), elem, align)

    def global_load_i32(self, ptr: Value, offset: Operand, *, align: int | None = None) -> Value:
        """One ``i32`` element of a pointer to i32. Emits as `global_load`."""
        return self.global_load(ptr, offset, I32, align=align)

    def global_load_vN(
        self, ptr: Value, offset: Operand, type: ScalarType, n: int, *, align: int | None = None
    ) -> Value:
        """``n`` consecutive elements from ``offset`` on as a vector. Emits as `global_load`."""
        op = "global_load_vN"
        elem = self._elem(op, ptr, type)
        return self._load(op, self._address(op, ptr, offset), self._vector_of(op, elem, n), align)

    def _vector_of(self, op: str, elem: ScalarType, n: int) -> VectorType:
        if isinstance(n, bool) or not isinstance(n, int) or n < 1:
            self._fail(op, f"expected a positive element count n, got {n!r}")
        return VectorType(elem, n)

    def global_store(
        self, ptr: Value, offset: Operand, value: Operand, *, align: int | None = None
    ) -> None:
        """Stores one element. Emits ``llvm.getelementptr`` and ``llvm.store``."""
        self._global_store("global_store", ptr, offset, value, 1, align)

    def global_store_vN(
        self, ptr: Value, offset: Operand, value: Operand, n: int, *, align: int | None = None
    ) -> None:
        """Stores a vector of ``n`` elements (n = 1: also a scalar). Emits as `global_store`."""
        self._global_store("global_store_vN", ptr, offset, value, n, align)

    def _global_store(
        self, op: str, ptr: Value, offset: Operand, value: Operand, n: int, align: int | None
    ) -> None:
        elem = self._pointer(op, ptr, "global").elem
        stored = self._counted(op, elem, value, n)
        self._store(op, self._address(op, ptr, offset, store=True), stored, align)

    # -- buffers -------------------------------------------------------------------------

    def buffer_rsrc(self, ptr: Value, num_bytes: Operand) -> Value:
        """A buffer descriptor: ``num_bytes`` (i32 or i64, at most 2**32 - 1) from ``ptr`` on.

        Both must be wave-uniform. Loads past the end give 0, stores past it are dropped; a negative
        offset counts as past the end. Emits ``rocdl.make.buffer.rsrc``.
        """
        op = "buffer_rsrc"
        type_ = self._pointer(op, ptr, "global", "constant")
        size = self._operand(op, num_bytes, I64)
        self._expect(op, size, size.type in (I32, I64), "an i32 or i64 number of bytes")
        if size.type == I32:
            size = self._emit1(op, "arith.extui", (size,), I64)
        stride = self._operand(op, 0, I16)
        flags = self._operand(op, BUFFER_FLAGS)
        operands = (ptr, stride, size, flags)
        result = BufferType(type_.elem)
        made = self._emit1(op, "rocdl.make.buffer.rsrc", operands, result, hint="rsrc")
        return self._derived(made, ptr)

    def _buffer(self, op: str, rsrc: Value, *, store: bool = False) -> ScalarType:
        type_ = rsrc.type if isinstance(rsrc, Value) else None
        if not isinstance(type_, BufferType):
            self._fail(op, f"expected a buffer descriptor, got {type_ or repr(rsrc)}")
        self._promised(op, rsrc, store=store)
        return type_.elem

    def _bytes(self, op: str, elem: ScalarType, offset: Operand) -> Value:
        """An offset in elements as i32 bytes."""
        if isinstance(offset, int) and not isinstance(offset, bool):
            return self._operand(op, offset * elem.bytes)
        value = self._operand(op, offset)
        self._expect(op, value, value.type == I32, "an i32 offset in elements")
        if elem.bytes == 1:
            return value
        return self._emit1(op, "arith.muli", (value, self._operand(op, elem.bytes)), I32)

    def _buffer_operands(
        self, op: str, elem: ScalarType, rsrc: Value, offset: Operand, soffset: Operand
    ) -> tuple[Value, Value, Value, Value]:
        voffset = self._bytes(op, elem, offset)
        return rsrc, voffset, self._bytes(op, elem, soffset), self._operand(op, 0)

    def buffer_load(
        self,
        rsrc: Value,
        offset: Operand,
        type: ScalarType | None = None,
        *,
        soffset: Operand = 0,
    ) -> Value:
        """One element at ``offset + soffset`` (i32 elements; ``soffset`` wave-uniform).

        Emits ``rocdl.raw.ptr.buffer.load``.
        """
        op = "buffer_load"
        elem = self._same_element(op, self._buffer(op, rsrc), type)
        operands = self._buffer_operands(op, elem, rsrc, offset, soffset)
        return self._emit1(op, "rocdl.raw.ptr.buffer.load", operands, elem)

    def buffer_load_vN(
        self, rsrc: Value, offset: Operand, type: ScalarType, n: int, *, soffset: Operand = 0
    ) -> Value:
        """``n`` consecutive elements, 16 bytes at most, as a vector.

        A load that straddles the end gives 0 for each dword past it. Emits as `buffer_load`.
        """
        op = "buffer_load_vN"
        elem = self._same_element(op, self._buffer(op, rsrc), type)
        result = self._vector_of(op, elem, n)
        self._buffer_width(op, result)
        # The loads carry dwords: bytes in vectors have no register class of their own.
        carried = self._carrier(result)
        operands = self._buffer_operands(op, elem, rsrc, offset, soffset)
        loaded = self._emit1(op, "rocdl.raw.ptr.buffer.load", operands, carried)
        return loaded if carried == result else self._emit1(op, "llvm.bitcast", (loaded,), result)

    def _buffer_width(self, op: str, type_: VectorType) -> None:
        if type_.bytes not in (1, 2, 4, 8, 12, 16):
            self._fail(op, f"expected 1, 2, 4, 8, 12 or 16 bytes, got {type_}: {type_.bytes} bytes")

    def _carrier(self, type_: VectorType) -> Type:
        if type_.bytes < 4:
            return {1: MlirType("i8"), 2: MlirType("i16")}[type_.bytes]
        words = type_.bytes // 4
        return I32 if words == 1 else VectorType(I32, words)

    def buffer_store(
        self, rsrc: Value, offset: Operand, value: Operand, *, soffset: Operand = 0
    ) -> None:
        """Stores one element at ``offset + soffset``. Emits ``rocdl.raw.ptr.buffer.store``."""
        op = "buffer_store"
        elem = self._buffer(op, rsrc, store=True)
        stored = self._operand(op, value, elem)
        self._expect(op, stored, stored.type == elem, f"{with_article(elem)} value")
        operands = self._buffer_operands(op, elem, rsrc, offset, soffset)
        self._emit(op, "rocdl.raw.ptr.buffer.store", (stored, *operands))

    def buffer_store_vN(
        self, rsrc: Value, offset: Operand, value: Value, n: int, *, soffset: Operand = 0
    ) -> None:
        """Stores a vector of ``n`` elements, 16 bytes at most. Emits as `buffer_store`."""
        op = "buffer_store_vN"
        elem = self._buffer(op, rsrc, store=True)
        stored = self._counted(op, elem, value, n)
        if isinstance(stored.type, VectorType):
            self._buffer_width(op, stored.type)
            carried = self._carrier(stored.type)
            stored = self._emit1(op, "llvm.bitcast", (stored,), carried)
        operands = self._buffer_operands(op, elem, rsrc, offset, soffset)
        self._emit(op, "rocdl.raw.ptr.buffer.store", (stored, *operands))

    def constant_ptr(self, ptr: Value) -> Value:
        """A global pointer as one to constant memory: nothing writes these bytes during the launch.

        Wave-uniform loads through it become scalar loads. Emits ``llvm.addrspacecast``.
        """
        type_ = self._pointer("constant_ptr", ptr, "global")
        result = PtrType(type_.elem, "constant")
        made = self._emit1("constant_ptr", "llvm.addrspacecast", (ptr,), result)
        return self._derived(made, ptr)
