"""Builds helpers of vector instructions: a loop over 64 lanes, sixteen at a time.

:class:`LaneLoop` hands out function parameters, loads and stores of rows (one row is a vector
register: 64 lanes of 32 bits) and the lane masks, while the meaning is emitted into ``body``. All
loads of a lane come before its stores, so the rows of sources and results may overlap.
"""

from __future__ import annotations

from rocke.emulator.semantics.expr import BOOL, CHUNK, U16, U32, U64, Emitter, Type, Value
from rocke.emulator.state import LANES, ROW_BYTES

_CHUNK_BYTES = CHUNK * 4
_INTERLEAVE = ", ".join(f"i32 {i}, i32 {i + CHUNK}" for i in range(CHUNK))
_EVEN = ", ".join(f"i32 {2 * i}" for i in range(CHUNK))
_ODD = ", ".join(f"i32 {2 * i + 1}" for i in range(CHUNK))


class LaneLoop:
    """One helper under construction.

    ``masked``: the helper takes EXEC and keeps the inactive lanes of every row that it stores; mask
    results are 0 there. ``lane_limit``: a constant mask of lanes that may be written besides EXEC.
    """

    def __init__(self, masked: bool, lane_limit: int | None = None) -> None:
        self.params: list[str] = []
        self.entry: list[str] = []
        self.body = Emitter(CHUNK)
        self._masks: list[tuple[str, str]] = []
        self._row_stores: list[tuple[str, int, Value]] = []
        self._active: Value | None = None
        self.exec = self.param("i64", "exec") if masked else None
        """Name of the EXEC parameter of a masked helper."""
        self._limits = [] if lane_limit is None else [str(lane_limit)]
        self._mask_bits: Value | None = None

    def param(self, ir: str, name: str = "") -> str:
        """Add a parameter of LLVM type ``ir``; returns its name."""
        label = f"%{name or f'p{len(self.params)}'}"
        self.params.append(f"{ir} {label}")
        return label

    def _address(self, pointer: str, row: int) -> str:
        e = self.body
        name = e.name()
        offset = "%off"
        if row:
            e.lines.append(f"{name}o = add i64 %off, {row * ROW_BYTES}")
            offset = f"{name}o"
        e.lines.append(f"{name} = getelementptr inbounds i8, ptr {pointer}, i64 {offset}")
        return name

    def load(self, pointer: str, row: int = 0) -> Value:
        """The chunk's lanes of the ``row``-th register from ``pointer``, as U32."""
        address = self._address(pointer, row)
        return self.body.emit(U32, f"load <{CHUNK} x i32>, ptr {address}, align {_CHUNK_BYTES}")

    def load64(self, pointer: str, row: int = 0) -> Value:
        """Two registers as U64."""
        return self.join(self.load(pointer, row), self.load(pointer, row + 1))

    def join(self, low: Value, high: Value) -> Value:
        """Two U32 values as U64."""
        e, vec = self.body, f"<{CHUNK} x i32>"
        both = e.name()
        e.lines.append(
            f"{both} = shufflevector {vec} {low.ref}, {vec} {high.ref},"
            f" <{2 * CHUNK} x i32> <{_INTERLEAVE}>"
        )
        return e.emit(U64, f"bitcast <{2 * CHUNK} x i32> {both} to <{CHUNK} x i64>")

    def split(self, value: Value) -> tuple[Value, Value]:
        """A 64-bit value as its low and high U32."""
        e = self.body
        both = e.name()
        e.lines.append(
            f"{both} = bitcast {e.vector(value.type)} {value.ref} to <{2 * CHUNK} x i32>"
        )
        low, high = (
            e.emit(
                U32,
                f"shufflevector <{2 * CHUNK} x i32> {both}, <{2 * CHUNK} x i32> poison,"
                f" <{CHUNK} x i32> <{picks}>",
            )
            for picks in (_EVEN, _ODD)
        )
        return low, high

    def broadcast(self, param: str, type_: Type) -> Value:
        """A scalar parameter (i32 or i64, as ``type_`` is) in every lane."""
        vec = self.body.vector(type_)
        name = f"{param}.v"
        self.entry.append(f"{name}i = insertelement {vec} poison, {type_.ir} {param}, i64 0")
        self.entry.append(
            f"{name} = shufflevector {vec} {name}i, {vec} poison, <{CHUNK} x i32> zeroinitializer"
        )
        return Value(self.body, type_, name)

    def lane_mask(self, bits: str) -> Value:
        """The chunk's lanes of a 64-bit mask (the name of an i64), as BOOL."""
        e = self.body
        if self._mask_bits is None:
            self._mask_bits = e.constants(U32, [1 << i for i in range(CHUNK)])
        name = e.name()
        e.lines += [
            f"{name}s = lshr i64 {bits}, %lane",
            f"{name}t = trunc i64 {name}s to i32",
            f"{name}i = insertelement <{CHUNK} x i32> poison, i32 {name}t, i64 0",
            f"{name} = shufflevector <{CHUNK} x i32> {name}i, <{CHUNK} x i32> poison,"
            f" <{CHUNK} x i32> zeroinitializer",
        ]
        return (Value(e, U32, name) & self._mask_bits).ne(0)

    def lane_ids(self) -> Value:
        """The lane numbers, as U32."""
        e = self.body
        name = e.name()
        e.lines += [
            f"{name}t = trunc i64 %lane to i32",
            f"{name}i = insertelement <{CHUNK} x i32> poison, i32 {name}t, i64 0",
            f"{name} = shufflevector <{CHUNK} x i32> {name}i, <{CHUNK} x i32> poison,"
            f" <{CHUNK} x i32> zeroinitializer",
        ]
        return Value(e, U32, name) + e.constants(U32, range(CHUNK))

    def restrict(self, bits: str) -> None:
        """Write only lanes in ``bits`` (the name of an i64 defined in ``entry``)."""
        self._limits.append(bits)

    def active(self) -> Value | None:
        """The lanes that may be written, as BOOL; None when that is all of them."""
        if self._active is None and (self.exec is not None or self._limits):
            bits = self.exec or "-1"
            for i, limit in enumerate(self._limits):
                self.entry.append(f"%limited{i} = and i64 {bits}, {limit}")
                bits = f"%limited{i}"
            self._active = self.lane_mask(bits)
        return self._active

    def store(self, pointer: str, value: Value, row: int = 0) -> None:
        """Write 32 bits a lane to the ``row``-th register from ``pointer``, at the chunk's end."""
        self._row_stores.append((pointer, row, value.bitcast(U32)))

    def store64(self, pointer: str, value: Value, row: int = 0) -> None:
        """Write 64 bits a lane to two registers."""
        low, high = self.split(value)
        self.store(pointer, low, row)
        self.store(pointer, high, row + 1)

    def store_mask(self, pointer: str, value: Value) -> None:
        """Write one bit a lane to the 64-bit scalar at ``pointer``, when the loop has ended."""
        e = self.body
        active = self.active()
        if active is not None:
            value = value & active
        index = len(self._masks)
        name = e.name()
        e.lines += [
            f"{name}b = bitcast {e.vector(BOOL)} {value.ref} to {U16.ir}",
            f"{name}z = zext {U16.ir} {name}b to i64",
            f"{name}s = shl i64 {name}z, %lane",
            f"{name} = or i64 %mask{index}, {name}s",
        ]
        self._masks.append((pointer, name))

    def _emit_row_stores(self) -> None:
        e, vec = self.body, f"<{CHUNK} x i32>"
        active = self.active()
        targets = [self._address(pointer, row) for pointer, row, _ in self._row_stores]
        values = [value for _, _, value in self._row_stores]
        if active is not None:
            olds = [
                e.emit(U32, f"load {vec}, ptr {target}, align {_CHUNK_BYTES}") for target in targets
            ]
            values = [e.select(active, v, old) for v, old in zip(values, olds, strict=True)]
        for value, target in zip(values, targets, strict=True):
            e.lines.append(f"store {vec} {value.ref}, ptr {target}, align {_CHUNK_BYTES}")

    def finish(self, name: str) -> tuple[str, frozenset[str]]:
        """The text of the ``define`` and the declarations that it needs."""
        self._emit_row_stores()
        phis = [
            f"%mask{i} = phi i64 [ 0, %entry ], [ {value}, %loop ]"
            for i, (_, value) in enumerate(self._masks)
        ]
        lines = [
            f"define void @{name}({', '.join(self.params)}) nounwind optsize {{",
            "entry:",
            *self.entry,
            "br label %loop",
            "loop:",
            "%lane = phi i64 [ 0, %entry ], [ %next, %loop ]",
            *phis,
            "%off = shl nuw nsw i64 %lane, 2",
            *self.body.lines,
            f"%next = add nuw nsw i64 %lane, {CHUNK}",
            f"%more = icmp ult i64 %next, {LANES}",
            "br i1 %more, label %loop, label %done",
            "done:",
            *(f"store i64 {value}, ptr {pointer}, align 4" for pointer, value in self._masks),
            "ret void",
            "}",
        ]
        return "\n".join(lines) + "\n", frozenset(self.body.declares)
