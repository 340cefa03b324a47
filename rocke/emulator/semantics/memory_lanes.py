"""Memory accesses of 64 lanes: checks against the memory map, loads to and stores from registers.

A :class:`LaneMemory` belongs to one helper under construction. Its caller computes the host address
of every lane; then :meth:`~LaneMemory.check_map` (or the caller's own check) proves the active
lanes' addresses good, :meth:`~LaneMemory.place` keeps them, and :meth:`~LaneMemory.load` and
:meth:`~LaneMemory.store` move data. Inactive lanes are pointed at scratch rows of the wave state,
so that data moves without a branch a lane. Nothing is accessed before its check, and no register is
written before the last check; all checks come before the first :meth:`~LaneMemory.place`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rocke.emulator import state
from rocke.emulator.semantics.memory_ir import IRWriter

ADDRESSES = "<64 x i64>"
INTS = "<64 x i32>"
_CHUNK = 16
"""Lanes that one turn of a data loop moves."""


@dataclass(frozen=True)
class DataType:
    """What one lane moves: ``size`` bytes in memory, ``rows`` registers.

    ``half``: a 16-bit register half (0 low, 1 high) that a load replaces, or a store reads;
    ``signed``: a narrow load extends the sign.
    """

    size: int
    rows: int = 1
    signed: bool = False
    half: int | None = None

    @property
    def tag(self) -> str:
        """Short name for helper names."""
        sign = "s" if self.signed else ""
        half = "" if self.half is None else f"h{self.half}"
        return f"b{self.size * 8}{sign}{half}"


DWORDS = {count: DataType(4 * count, count) for count in (1, 2, 3, 4)}


class LaneMemory:
    """The lane accesses of one helper.

    ``masked``: the helper has an i64 parameter ``exec`` and leaves inactive lanes alone. The helper
    has a ptr parameter ``wave`` and returns i32.
    """

    def __init__(self, w: IRWriter, masked: bool) -> None:
        self.w = w
        self.masked = masked
        self.array = w.new(f"alloca {ADDRESSES}, align 64")

    # Checks

    def active_lanes(self) -> str:
        """EXEC as an i64 value."""
        return "%exec" if self.masked else "-1"

    def check(self, bad: str, kind: state.Fault, addresses: str, size: int) -> None:
        """Leave with a fault when an active lane of the i1 vector ``bad`` is set.

        ``addresses`` is the ``<64 x i64>`` that the report shows.
        """
        w = self.w
        lanes = w.new(f"bitcast <64 x i1> {bad} to i64")
        if self.masked:
            lanes = w.new(f"and i64 {lanes}, %exec")
        some = w.new(f"icmp ne i64 {lanes}, 0")
        fault, after = w.label(), w.label()
        w.branch_if(some, fault, after)
        w.place(fault)
        w.store(ADDRESSES, addresses, self.array, align=64)
        self._report(kind, lanes, size)
        w.place(after)

    def _report(self, kind: state.Fault, lanes: str, size: int) -> None:
        w, array = self.w, self.array
        lane = w.call("i64", "llvm.cttz.i64", ("i64", lanes), ("i1", "true"))
        address = w.load("i64", w.at(array, w.new(f"shl i64 {lane}, 3")), align=8)
        arguments = (
            ("ptr", "%wave"),
            ("i32", str(int(kind))),
            ("i64", address),
            ("i64", lanes),
            ("i32", str(size)),
        )
        w.do(f"ret i32 {w.call('i32', 'rk_fault', *arguments)}")

    def check_map(self, addresses: str, size: int, write: bool, lanes: str | None = None) -> None:
        """Leave with a fault unless every active lane's ``size`` bytes lie in the memory map.

        ``lanes`` (i64) replaces EXEC as the set of lanes that count.
        """
        w = self.w
        if lanes is None:
            lanes = self.active_lanes()
        missing = self._missing(addresses, lanes, size, write)
        slow, after = w.label(), w.label()
        some = w.new(f"icmp eq i64 {missing}, 0")
        w.branch_if(some, after, slow, likely=True)
        w.place(slow)
        w.store(ADDRESSES, addresses, self.array, align=64)
        loop, hit, miss, following = (w.label() for _ in range(4))
        w.branch(loop)
        w.place(loop)
        pending, pending_phi = w.phi_later("i64", missing, slow)
        bad, bad_phi = w.phi_later("i64", "0", slow)
        lane = w.call("i64", "llvm.cttz.i64", ("i64", pending), ("i1", "true"))
        address = w.load("i64", w.at(self.array, w.new(f"shl i64 {lane}, 3")), align=8)
        function = "rk_find_write" if write else "rk_find_read"
        args = (("ptr", "%wave"), ("i64", address), ("i64", str(size)))
        found = w.new(f"icmp ne i32 {w.call('i32', function, *args)}, 0")
        w.branch_if(found, hit, miss)
        w.place(hit)
        rest_hit = self._missing(addresses, pending, size, write)
        w.branch(following)
        w.place(miss)
        bit = w.new(f"shl i64 1, {lane}")
        bad_now = w.new(f"or i64 {bad}, {bit}")
        rest_miss = w.new(f"xor i64 {pending}, {bit}")
        w.branch(following)
        w.place(following)
        rest = w.new(f"phi i64 [ {rest_hit}, %{hit} ], [ {rest_miss}, %{miss} ]")
        bad_next = w.new(f"phi i64 [ {bad}, %{hit} ], [ {bad_now}, %{miss} ]")
        w.close_phi(pending_phi, rest, following)
        w.close_phi(bad_phi, bad_next, following)
        done, finished, fault = w.new(f"icmp eq i64 {rest}, 0"), w.label(), w.label()
        w.branch_if(done, finished, loop)
        w.place(finished)
        good = w.new(f"icmp eq i64 {bad_next}, 0")
        w.branch_if(good, after, fault)
        w.place(fault)
        kind = state.Fault.GLOBAL_WRITE if write else state.Fault.GLOBAL_READ
        self._report(kind, bad_next, size)
        w.place(after)

    def _missing(self, addresses: str, lanes: str, size: int, write: bool) -> str:
        """Those of ``lanes`` (i64) whose access is not inside the map entry hit last."""
        w = self.w
        low_at, high_at = (
            (state.WRITE_LO, state.WRITE_HI) if write else (state.READ_LO, state.READ_HI)
        )
        low = w.load("i64", "%wave", low_at, align=8)
        high = w.load("i64", "%wave", high_at, align=8)
        length = w.new(f"sub i64 {high}, {low}")
        # An access at offset x is inside when x < length - size + 1; none is when length < size.
        limit = w.call("i64", "llvm.usub.sat.i64", ("i64", length), ("i64", str(size - 1)))
        offsets = w.new(f"sub {ADDRESSES} {addresses}, {w.splat('i64', low)}")
        outside = w.new(f"icmp uge {ADDRESSES} {offsets}, {w.splat('i64', limit)}")
        mask = w.new(f"bitcast <64 x i1> {outside} to i64")
        return mask if lanes == "-1" else w.new(f"and i64 {mask}, {lanes}")

    # Data

    def place(
        self,
        addresses: str,
        array: str | None = None,
        lanes: str | None = None,
        spare: str | None = None,
    ) -> None:
        """Keep the host addresses; those outside ``lanes`` (default EXEC) become ``spare``.

        ``spare`` points at 16 bytes that may be read or overwritten, by default a scratch row.
        """
        w = self.w
        if lanes is None and self.masked:
            lanes = "%exec"
        if lanes is not None:
            unused = spare or w.at("%wave", state.SCRATCH_ROWS)
            dummy = w.new(f"ptrtoint ptr {unused} to i64")
            chosen = w.new(f"bitcast i64 {lanes} to <64 x i1>")
            others = w.splat("i64", dummy)
            addresses = w.new(
                f"select <64 x i1> {chosen}, {ADDRESSES} {addresses}, {ADDRESSES} {others}"
            )
        w.store(ADDRESSES, addresses, array or self.array, align=64)

    def load(self, data: str, type_: DataType, delta: str = "0", array: str | None = None) -> None:
        """Load from the placed addresses plus ``delta`` (i64) into the rows at ``data``."""

        def body(chunk: _Chunk) -> None:
            w = self.w
            rows = chunk.load_rows(type_)
            for number, value in enumerate(rows):
                place = number * state.ROW_BYTES
                vector = "<16 x i32>"
                if type_.half is not None:
                    old = w.load(vector, chunk.registers, place, 64)
                    kept = w.new(
                        f"and {vector} {old}, splat (i32 {0xFFFF if type_.half else -65536})"
                    )
                    if type_.half:
                        value = w.new(f"shl {vector} {value}, splat (i32 16)")
                    else:
                        value = w.new(f"and {vector} {value}, splat (i32 65535)")
                    value = w.new(f"or {vector} {kept}, {value}")
                if self.masked:
                    old = w.load(vector, chunk.registers, place, 64)
                    mask = chunk.active()
                    value = w.new(f"select <16 x i1> {mask}, {vector} {value}, {vector} {old}")
                w.store(vector, value, chunk.registers, place, 64)

        self._chunks(data, type_, delta, array or self.array, body)

    def store(self, data: str, type_: DataType, delta: str = "0", array: str | None = None) -> None:
        """Store the rows at ``data`` to the placed addresses plus ``delta`` (i64)."""

        def body(chunk: _Chunk) -> None:
            w = self.w
            values = [
                w.load("<16 x i32>", chunk.registers, number * state.ROW_BYTES, 64)
                for number in range(type_.rows)
            ]
            if type_.half:
                values = [w.new(f"lshr <16 x i32> {values[0]}, splat (i32 16)")]
            chunk.store_rows(values, type_)

        self._chunks(data, type_, delta, array or self.array, body)

    def each_row(self, rows: int | str, body: Callable[[str], None]) -> None:
        """Run ``body`` for each row number (an i64 value) in a loop.

        ``rows`` is at least 1, a constant or an i64 value.
        """
        if rows == 1:
            body("0")
            return
        w = self.w
        loop, after = w.label(), w.label()
        origin = w.block
        w.branch(loop)
        w.place(loop)
        turn, phi = w.phi_later("i64", "0", origin)
        body(turn)
        following = w.new(f"add i64 {turn}, 1")
        w.close_phi(phi, following, w.block)
        w.branch_if(w.new(f"icmp eq i64 {following}, {rows}"), after, loop)
        w.place(after)

    def move_rows(
        self,
        data: str,
        type_: DataType,
        component: Callable[[str], tuple[str, str | None]],
        write: bool,
        spare: str | None = None,
    ) -> None:
        """Load or store dword by dword where the dwords of a lane need not be consecutive.

        ``component`` gives the host addresses of a dword number and the lanes (i64, default EXEC)
        that have one; the others read or write ``spare``.
        """
        single = type_ if type_.rows == 1 else DWORDS[1]

        def move(row: str) -> None:
            w = self.w
            self.place(*_with_lanes(component(row)), spare)
            registers = w.at(data, w.new(f"mul i64 {row}, {state.ROW_BYTES}"))
            (self.store if write else self.load)(registers, single)

        self.each_row(type_.rows, move)

    def _chunks(
        self,
        data: str,
        type_: DataType,
        delta: str,
        array: str,
        body: Callable[[_Chunk], None],
    ) -> None:
        w = self.w
        loop, after = w.label(), w.label()
        origin = w.block
        w.branch(loop)
        w.place(loop)
        turn, phi = w.phi_later("i64", "0", origin)
        here = w.at(array, w.new(f"shl i64 {turn}, 7"))
        body(_Chunk(w, turn, here, w.at(data, w.new(f"shl i64 {turn}, 6")), delta, type_.size))
        following = w.new(f"add i64 {turn}, 1")
        w.close_phi(phi, following, w.block)
        done = w.new(f"icmp eq i64 {following}, {64 // _CHUNK}")
        w.branch_if(done, after, loop)
        w.place(after)


def _with_lanes(found: tuple[str, str | None]) -> tuple[str, None, str | None]:
    return found[0], None, found[1]


class _Chunk:
    """Sixteen lanes of a data loop."""

    def __init__(
        self, w: IRWriter, turn: str, array: str, registers: str, delta: str, size: int
    ) -> None:
        self.w = w
        self.registers = registers
        self._turn, self._array, self._delta = turn, array, delta
        addresses = w.load("<16 x i64>", array, align=64)
        self._first = self._address(0)
        base = w.splat("i64", w.load("i64", array, align=8), _CHUNK)
        steps = ", ".join(f"i64 {size * lane}" for lane in range(_CHUNK))
        expected = w.new(f"add <16 x i64> {base}, <{steps}>")
        different = w.new(f"icmp ne <16 x i64> {addresses}, {expected}")
        mask = w.new(f"bitcast <16 x i1> {different} to i16")
        self._contiguous = w.new(f"icmp eq i16 {mask}, 0")

    def _address(self, lane: int) -> str:
        pointer = self.w.load("ptr", self._array, 8 * lane, align=8)
        return pointer if self._delta == "0" else self.w.at(pointer, self._delta)

    def active(self) -> str:
        """The chunk's part of EXEC, ``<16 x i1>``."""
        w = self.w
        shifted = w.new(f"lshr i64 %exec, {w.new(f'shl i64 {self._turn}, 4')}")
        return w.new(f"bitcast i16 {w.new(f'trunc i64 {shifted} to i16')} to <16 x i1>")

    def load_rows(self, type_: DataType) -> list[str]:
        """The loaded lanes, a ``<16 x i32>`` for each row."""
        w = self.w
        together, apart, after = (w.label() for _ in range(3))
        w.branch_if(self._contiguous, together, apart)
        w.place(together)
        first = self._load_together(type_)
        end_first = w.block
        w.branch(after)
        w.place(apart)
        second = self._load_apart(type_)
        end_second = w.block
        w.branch(after)
        w.place(after)
        return [
            w.new(f"phi <16 x i32> [ {one}, %{end_first} ], [ {other}, %{end_second} ]")
            for one, other in zip(first, second, strict=True)
        ]

    def _load_together(self, type_: DataType) -> list[str]:
        w = self.w
        if type_.size < 4:
            bits = type_.size * 8
            narrow = w.load(f"<16 x i{bits}>", self._first)
            extend = "sext" if type_.signed else "zext"
            return [w.new(f"{extend} <16 x i{bits}> {narrow} to <16 x i32>")]
        count = type_.rows
        whole = w.load(f"<{16 * count} x i32>", self._first)
        if count == 1:
            return [whole]
        return [
            w.shuffle("i32", 16 * count, whole, "poison", list(range(row, 16 * count, count)))
            for row in range(count)
        ]

    def _load_apart(self, type_: DataType) -> list[str]:
        w = self.w
        if type_.rows == 1:
            vector = "poison"
            for lane in range(_CHUNK):
                if type_.size == 4:
                    value = w.load("i32", self._address(lane))
                else:
                    narrow = f"i{type_.size * 8}"
                    loaded = w.load(narrow, self._address(lane))
                    value = w.new(f"{'sext' if type_.signed else 'zext'} {narrow} {loaded} to i32")
                vector = w.new(f"insertelement <16 x i32> {vector}, i32 {value}, i32 {lane}")
            return [vector]
        count = type_.rows
        width = 2 if count == 2 else 4
        lanes = []
        for lane in range(_CHUNK):
            value = w.load(f"<{count} x i32>", self._address(lane))
            if count == 3:
                value = w.shuffle("i32", 3, value, "poison", [0, 1, 2, 2])
            lanes.append(value)
        while len(lanes) > 1:
            lanes = [
                w.shuffle("i32", width, lanes[i], lanes[i + 1], list(range(2 * width)))
                for i in range(0, len(lanes), 2)
            ]
            width *= 2
        step = width // _CHUNK
        return [
            w.shuffle("i32", width, lanes[0], "poison", list(range(row, width, step)))
            for row in range(count)
        ]

    def store_rows(self, values: list[str], type_: DataType) -> None:
        """Store a ``<16 x i32>`` for each row."""
        w = self.w
        together, apart, after = (w.label() for _ in range(3))
        w.branch_if(self._contiguous, together, apart)
        for label, store in ((together, self._store_together), (apart, self._store_apart)):
            w.place(label)
            store(values, type_)
            w.branch(after)
        w.place(after)

    def _store_together(self, values: list[str], type_: DataType) -> None:
        w = self.w
        if type_.size < 4:
            vector = f"<16 x i{type_.size * 8}>"
            w.store(vector, w.new(f"trunc <16 x i32> {values[0]} to {vector}"), self._first)
            return
        count = type_.rows
        order = [row * 16 + lane for lane in range(_CHUNK) for row in range(count)]
        w.store(f"<{16 * count} x i32>", self._joined(values, order), self._first)

    def _joined(self, values: list[str], order: list[int]) -> str:
        """Elements ``order`` of the rows one after the other (16 for each)."""
        w = self.w
        if len(values) == 1:
            return values[0]
        halves = [
            w.shuffle("i32", 16, values[i], values[i + 1] if i + 1 < len(values) else "poison",
                      list(range(32)))
            for i in range(0, len(values), 2)
        ]  # fmt: skip
        other = halves[1] if len(halves) > 1 else "poison"
        return w.shuffle("i32", 32, halves[0], other, order)

    def _store_apart(self, values: list[str], type_: DataType) -> None:
        w = self.w
        if type_.rows == 1:
            for lane in range(_CHUNK):
                value = w.new(f"extractelement <16 x i32> {values[0]}, i32 {lane}")
                narrow = f"i{type_.size * 8}"
                if type_.size < 4:
                    value = w.new(f"trunc i32 {value} to {narrow}")
                w.store(narrow, value, self._address(lane))
            return
        count = type_.rows
        order = [row * 16 + lane for lane in range(_CHUNK) for row in range(count)]
        joined = self._joined(values, order)
        for lane in range(_CHUNK):
            part = [count * lane + row for row in range(count)]
            value = w.shuffle("i32", 16 * count, joined, "poison", part)
            w.store(f"<{count} x i32>", value, self._address(lane))
