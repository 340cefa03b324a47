"""LDS: arrays, loads and stores, direct copies from global memory, transposed reads."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from mlir import ir as mlir_ir

from rocke.core.base import Operand
from rocke.core.global_memory import GlobalMemory
from rocke.core.types import I32, PtrType, ScalarType, SmemType, Type, VectorType, with_article
from rocke.core.value import Value

LDS_ALIGN = 16
"""Alignment of every LDS array in bytes: what ds_read_b128 and ds_write_b128 want."""

_COPY_TARGETS: dict[int, tuple[str, ...]] = {
    4: ("gfx90a", "gfx942", "gfx950"),
    12: ("gfx950",),
    16: ("gfx950",),
}
"""Bytes a lane of a direct-to-LDS copy -> targets that have it."""
_MOST_IMMEDIATE = 4095
"""Bytes: the immediate of a buffer instruction has 12 bits."""

Index = Operand | Sequence[Operand]
_NO_SYMBOL = re.compile(r"[^A-Za-z0-9_.$]")


class Lds(GlobalMemory):
    """The workgroup's LDS.

    An index is one i32 Value (or Python int) for a one-dimensional array, else a list with one for
    each dimension; arrays are row-major. A place given by Python ints alone must lie in the array;
    other indices are not checked.
    """

    _incoming: mlir_ir.Attribute | None = None

    def smem_alloc(
        self, type: ScalarType, shape: int | Sequence[int], name_hint: str = "smem"
    ) -> Value:
        """An LDS array for the whole launch, 16-byte aligned, not initialised.

        ``shape`` is a list of sizes, or one size.
        Each array is a global of its own, so LLVM knows that accesses to two arrays never meet.
        Emits ``llvm.mlir.global`` in address space 3 and ``llvm.mlir.addressof`` at the kernel's
        start.
        """
        op = "smem_alloc"
        self._in_memory(op, type)
        array = self._array_type(op, type, shape)
        self._smem_count += 1
        # Any text is a hint, but symbols are written into the text of attributes.
        hint = _NO_SYMBOL.sub("_", str(name_hint))
        symbol = f"{self.kernel.name}.{hint}.{self._smem_count}"
        elements = array.bytes // type.bytes
        made = mlir_ir.Operation.create(
            "llvm.mlir.global",
            attributes={
                "sym_name": self._attr(f'"{symbol}"'),
                "global_type": self._attr(f"!llvm.array<{elements} x {type.mlir}>"),
                "linkage": self._attr("#llvm.linkage<internal>"),
                "addr_space": self._attr("3 : i32"),
                "alignment": self._attr(f"{LDS_ALIGN} : i64"),
            },
            regions=1,
            loc=self._location(),
            ip=mlir_ir.InsertionPoint(self._function),
        )
        made.verify()
        address = mlir_ir.Operation.create(
            "llvm.mlir.addressof",
            results=[self._type(array)],
            attributes={"global_name": self._attr(f'@"{symbol}"')},
            loc=self._location(hint),
            ip=mlir_ir.InsertionPoint.at_block_begin(self._entry),
        )
        self._operations += 2
        return Value(self, address.results[0], array, 0)

    def _indices(self, op: str, array: SmemType, index: Sequence[Index]) -> list[Operand]:
        flat = (
            list(index[0])
            if len(index) == 1 and isinstance(index[0], (list, tuple))
            else list(index)
        )
        if len(flat) != len(array.shape):
            self._fail(op, f"expected {len(array.shape)} indices for {array}, got {len(flat)}")
        for i in flat:
            if isinstance(i, Value):
                self._expect(op, i, i.type == I32, "i32 indices")
            elif isinstance(i, bool) or not isinstance(i, int):
                self._fail(op, f"expected i32 indices, got {i!r}")
        return flat  # type: ignore[return-value]

    def _element(self, op: str, array: Value, index: Sequence[Index], count: int = 1) -> Value:
        type_ = self._smem(op, array)
        constant, total = 0, None
        for i, stride in zip(self._indices(op, type_, index), type_.strides, strict=True):
            if isinstance(i, int):
                constant += i * stride
                continue
            assert isinstance(i, Value)
            term = i
            if stride != 1:
                term = self._emit1(op, "arith.muli", (i, self._operand(op, stride)), I32)
            total = term if total is None else self._emit1(op, "arith.addi", (total, term), I32)
        if total is None:
            elements = type_.bytes // type_.elem.bytes
            if not 0 <= constant <= elements - count:
                what = f"element {constant}" if count == 1 else f"{count} elements from {constant}"
                self._fail(op, f"{what} of {type_}: outside its {elements} elements")
            return self._element_pointer(op, array, type_.elem, constant)
        where = self._element_pointer(op, array, type_.elem, total)
        return self._element_pointer(op, where, type_.elem, constant)

    def _array_type(self, op: str, type: ScalarType, shape: int | Sequence[int]) -> SmemType:
        sizes = (shape,) if isinstance(shape, int) else shape
        if not isinstance(sizes, (tuple, list)):
            self._fail(op, f"expected a size or a list of sizes, got {shape!r}")
        try:
            return SmemType(type, tuple(sizes))
        except (TypeError, ValueError) as error:
            self._fail(op, str(error))

    def smem_view(self, array: Value, type: ScalarType, shape: int | Sequence[int]) -> Value:
        """The bytes of an LDS array as an array of another type and shape, not larger.

        Emits nothing.
        """
        op = "smem_view"
        whole = self._smem(op, array)
        self._in_memory(op, type)
        view = self._array_type(op, type, shape)
        if view.bytes > whole.bytes:
            self._fail(op, f"expected at most the {whole.bytes} bytes of {whole}, got {view}")
        return Value(self, self._use(op, array), view, array._block)

    def smem_ptr(self, array: Value, *index: Index) -> Value:
        """The address of one element as an LDS pointer. Emits ``llvm.getelementptr inbounds``."""
        return self._element("smem_ptr", array, index)

    def smem_load_vN(
        self,
        array: Value,
        index: Index,
        *more: Operand,
        dtype: ScalarType | None = None,
        n: int = 1,
        align: int | None = None,
    ) -> Value:
        """``n`` consecutive elements from ``index`` on, as a vector (of one element for n = 1).

        The indices of further dimensions may follow ``index`` instead of standing in a list.
        ``dtype`` repeats the array's element. ``align`` is the address's alignment in bytes,
        default the element's. Emits ``llvm.load`` (``ds_read_b128`` for 16 bytes).
        """
        op = "smem_load_vN"
        elem = self._same_element(op, self._smem(op, array).elem, dtype)
        type_ = self._vector_of(op, elem, n)
        address = self._element(op, array, (index, *more), n)
        return self._load(op, address, type_, align, self._read_scope())

    def smem_store_vN(
        self, array: Value, index: Index, value: Operand, n: int, *, align: int | None = None
    ) -> None:
        """Stores ``n`` elements from ``index`` on: a vector, or for n = 1 also a scalar.

        Emits ``llvm.store``.
        """
        op = "smem_store_vN"
        stored = self._counted(op, self._smem(op, array).elem, value, n)
        self._store(op, self._element(op, array, (index,), n), stored, align)

    def smem_load(self, array: Value, *index: Index) -> Value:
        """One element, as a scalar. Emits ``llvm.load``."""
        op = "smem_load"
        elem = self._smem(op, array).elem
        return self._load(op, self._element(op, array, index), elem, None, self._read_scope())

    def smem_store(self, array: Value, index: Index, value: Operand) -> None:
        """Stores one element, a scalar. Emits ``llvm.store``."""
        op = "smem_store"
        elem = self._smem(op, array).elem
        stored = self._operand(op, value, elem)
        self._expect(op, stored, stored.type == elem, f"{with_article(elem)} value")
        self._store(op, self._element(op, array, (index,)), stored, None)

    # -- direct copies -------------------------------------------------------------------

    @contextmanager
    def incoming_scope(self) -> Iterator[None]:
        """Promises that no LDS read emitted inside meets a direct copy emitted inside.

        Code inside fills one buffer by direct copies while it reads another: without the promise
        LLVM lets every read wait for all copies under way. The kernel waits for them itself
        (`s_waitcnt`, barrier) before it reads what they wrote. Emits alias scopes.
        """
        made = "#llvm.alias_scope<id = distinct[0]<>, domain = <id = distinct[1]<>>>"
        outer, self._incoming = self._incoming, self._attr(f"[{made}]")
        try:
            yield
        finally:
            self._incoming = outer

    def _copy_scope(self) -> dict[str, mlir_ir.Attribute]:
        return {} if self._incoming is None else {"alias_scopes": self._incoming}

    def _read_scope(self) -> dict[str, mlir_ir.Attribute]:
        return {} if self._incoming is None else {"noalias_scopes": self._incoming}

    def _copy_size(self, op: str, nbytes: int) -> Value:
        if nbytes not in _COPY_TARGETS:
            self._fail(op, f"expected 4, 12 or 16 bytes a lane, got {nbytes!r}")
        self._require(op, *_COPY_TARGETS[nbytes])
        return self._operand(op, nbytes)

    def _lds_address(self, op: str, array: Value, index: Index) -> Value:
        if isinstance(array, Value) and isinstance(array.type, PtrType):
            pointer = self._pointer(op, array, "lds")
            if isinstance(index, (list, tuple)):
                self._fail(op, "expected one index for an LDS pointer")
            return self._element_pointer(op, array, pointer.elem, index)  # type: ignore[arg-type]
        return self._element(op, array, (index,))

    def buffer_load_lds(
        self,
        rsrc: Value,
        offset: Operand,
        array: Value,
        index: Index = 0,
        *,
        nbytes: int = 4,
        soffset: Operand = 0,
        immediate: int = 0,
    ) -> None:
        """Copies ``nbytes`` a lane from a buffer straight into LDS, without registers.

        Lane l reads at its own ``offset + soffset`` (elements) and writes at the wave-uniform
        ``array[index]`` + l * nbytes: lane after lane without gaps. ``array`` is an LDS array or
        pointer. ``immediate`` (elements, 0 to 4095 bytes) moves both addresses: copies that differ
        by it share the register M0. 4 bytes on every target, 12 and 16 on gfx950. Complete after a
        wait on vmcnt. Emits ``rocdl.raw.ptr.buffer.load.lds``.
        """
        op = "buffer_load_lds"
        elem = self._buffer(op, rsrc)
        size = self._copy_size(op, nbytes)
        where = self._lds_address(op, array, index)
        voffset, uniform = self._bytes(op, elem, offset), self._bytes(op, elem, soffset)
        if not isinstance(immediate, int) or not 0 <= immediate * elem.bytes <= _MOST_IMMEDIATE:
            self._fail(op, f"expected an immediate of 0 to 4095 bytes, got {immediate!r} elements")
        both = self._operand(op, immediate * elem.bytes)
        operands = (rsrc, where, size, voffset, uniform, both, self._operand(op, 0))
        self._emit(op, "rocdl.raw.ptr.buffer.load.lds", operands, (), self._copy_scope())

    def global_load_lds(
        self, ptr: Value, offset: Operand, array: Value, index: Index = 0, *, nbytes: int = 4
    ) -> None:
        """`buffer_load_lds` from a global pointer, unchecked; not on gfx90a.

        Emits ``rocdl.global.load.lds``.
        """
        op = "global_load_lds"
        self._pointer(op, ptr, "global")
        source = self._address(op, ptr, offset)
        self._copy_size(op, nbytes)
        self._require(op, "gfx942", "gfx950")
        where = self._lds_address(op, array, index)
        zero = self._attr("0 : i32")
        attributes = {"size": self._attr(f"{nbytes} : i32"), "offset": zero, "aux": zero}
        attributes.update(self._copy_scope())
        self._emit(op, "rocdl.global.load.lds", (source, where), (), attributes)

    # -- transposed reads ----------------------------------------------------------------

    def ds_read_tr16_b64(self, array: Value, *index: Index) -> Value:
        """Transposed read of 16-bit elements: four a lane, from within its group of 16 lanes;
        gfx950.

        Lane t of a group gets as element e the element (t mod 4) of the 8 bytes that lane 4e + t/4
        addressed. All lanes active, addresses 8-byte aligned. ``array`` of a 16-bit type. Emits
        ``rocdl.ds.read.tr16.b64``.
        """
        op = "ds_read_tr16_b64"
        return self._transposed(op, "rocdl.ds.read.tr16.b64", 2, 4, array, index)

    def ds_read_tr8_b64(self, array: Value, *index: Index) -> Value:
        """Transposed read of 8-bit elements, eight a lane; gfx950. ``array`` of an 8-bit type.

        Emits ``rocdl.ds.read.tr8.b64``.
        """
        return self._transposed("ds_read_tr8_b64", "rocdl.ds.read.tr8.b64", 1, 8, array, index)

    def _transposed(
        self, op: str, name: str, size: int, n: int, array: Value, index: Sequence[Index]
    ) -> Value:
        elem = self._smem(op, array).elem
        self._expect(op, array, elem.bytes == size, f"an LDS array of {8 * size}-bit elements")
        self._require(op, "gfx950")
        result = VectorType(elem, n)
        carried: Type = result if size == 2 else VectorType(I32, 2)
        address = self._element(op, array, index)
        read = self._emit1(op, name, (address,), carried, self._read_scope())
        return read if carried == result else self._emit1(op, "llvm.bitcast", (read,), result)
