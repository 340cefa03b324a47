"""Host functions that check a memory access: addresses, data, marks.

The address part comes from the same classes that the instruction's own helper uses, so that both
see the same bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from rocke.emulator import state
from rocke.emulator.checks import layout as at
from rocke.emulator.checks.bits import EXTENDED, undefined_row
from rocke.emulator.checks.code import Code, Num
from rocke.emulator.checks.global_memory import GLOBAL_READ, GLOBAL_SYNC, GLOBAL_WRITE
from rocke.emulator.checks.probes import helper
from rocke.emulator.instruction import EXEC, M0
from rocke.emulator.semantics import WAVE, Helper, HelperCall, Imm, RegPtr, ScalarReg
from rocke.emulator.semantics.interface import Arg
from rocke.emulator.semantics.memory_address import Address, GlobalAddress
from rocke.emulator.semantics.memory_descriptor import BufferAddress
from rocke.emulator.semantics.memory_direct import copied_bytes
from rocke.emulator.semantics.memory_flat import FlatAddress
from rocke.emulator.semantics.memory_format import ELEMENT_BYTES
from rocke.emulator.semantics.memory_lanes import ADDRESSES, INTS
from rocke.emulator.semantics.memory_lds import lds_bytes
from rocke.emulator.semantics.memory_lds_wave import counter_bytes, thread_bytes

FLAT_LDS_SLOTS = 3
"""Slots of an access to LDS by a flat or copying instruction come so much later."""
_ALL = (1 << 64) - 1
_HELPERS: dict[str, Helper] = {}
_COMMON = [
    *(("i64", name) for name in ("exec", "slot", "flags", "argument", "first", "count", "skip")),
    ("ptr", "data"),
]


@dataclass(frozen=True)
class Data:
    """Data registers of an access: the definedness numbers of ``count`` of them from ``first`` on,
    and of a plain store the offset of their contents in the wave (0: not known), of which ``skip``
    bytes come before the data. ``form``: how a load of less than 32 bits fills its register (see
    :mod:`rocke.emulator.checks.bits`)."""

    first: int = 0
    count: int = 0
    contents: int | None = None
    skip: int = 0
    form: int = 0


def common(slot: int, flags: int, data: Data, argument: int = -1) -> list[Arg]:
    """The leading arguments: EXEC, finding slot, flags, pointer argument and data registers.

    ``argument`` is the segment offset of the pointer that the address was computed from, -1 if that
    is not known. Contents that are not known are told by an odd ``skip``, with the form above it.
    """
    skip = 1 | data.form << 1 if data.contents is None else data.skip
    numbers = (slot, flags, argument & _ALL, data.first, data.count, skip)
    return [WAVE, ScalarReg(EXEC, 64), *(Imm(v, 64) for v in numbers), RegPtr(data.contents or 0)]


def _code(name: str, parameters: Sequence[tuple[str, str]]) -> Code:
    return Code(name, [("ptr", "wave"), *_COMMON, *parameters])


def _data_defined(c: Code, size: int = 4) -> Num:
    """Lanes in which all data registers are defined; of a store of less than 4 bytes, those."""
    result = c.var(-1)
    first = c.param("first")
    with c.count(first, first + c.param("count")) as register:
        result.set(result.get() & c.get("%wave", register * 8 + state.DEFINED))
    skip = c.param("skip")
    if size < 4:
        plain = c.both((skip & 1).equals(0), c.param("count").equals(1))
        lacking = c.param("exec") & ~result.get()
        with c.when(c.both(plain, lacking.differs(0)), likely=False):
            row = c.row(undefined_row(c, first, "%wave"))
            used = Num(c, str((1 << 8 * size) - 1)) << (skip << 3)
            used_row = c.splat("i32", c.new(f"trunc i64 {used.name} to i32"))
            part = c.new(f"and {INTS} {row}, {used_row}")
            fine = c.new(f"icmp eq {INTS} {part}, zeroinitializer")
            good = Num(c, c.new(f"bitcast <64 x i1> {fine} to i64"))
            result.set(result.get() | (good & lacking))
    return result.get()


def _define(c: Code, lanes: Num, good: Num, first: Num, count: Num) -> None:
    """``count`` registers from ``first`` on become defined in the ``good`` ones of ``lanes``."""
    with c.count(first, first + count) as register:
        place = c.at("%wave", (register * 8 + state.DEFINED).name)
        c.put((c.get(place) & ~lanes) | (good & lanes), place)
        lost = lanes & ~good
        with c.when(lost.differs(0), likely=False):  # by the rule for what has none
            thread = c.pointer(c.get("%wave", at.W_THREAD))
            rule = c.pointer(c.get(thread, at.T_DESCRIPTIONS))
            arguments = (("ptr", rule), ("i64", lost), ("i64", register))
            c.invoke("i64", "rk_check_bits", ("ptr", "%wave"), *arguments)


def _define_loaded(c: Code, array: str, size: int, undefined: Num) -> None:
    """The registers of an LDS read, bit by bit where bytes are undefined or an old half stays."""
    lanes, first, form = c.param("exec"), c.param("first"), c.param("skip") >> 1
    old = c.get("%wave", first * 8 + state.DEFINED)
    partly = c.select((form & 3).differs(EXTENDED), undefined | (lanes & ~old), undefined)
    count = c.param("count")
    with c.count(first, first + count) as register:
        place = c.at("%wave", (register * 8 + state.DEFINED).name)
        c.put(c.get(place) | (lanes & ~partly), place)
    with c.when(c.both(partly.differs(0), count.differs(0)), likely=False):
        numbers = [("i64", v) for v in (partly, Num(c, str(size)), first, form)]
        c.invoke("void", "rk_check_lds_bits", ("ptr", "%wave"), ("ptr", array), *numbers)


def _report(c: Code, slot: Num, lanes: Num) -> None:
    with c.when(lanes.differs(0), likely=False):
        values = (slot, lanes, Num(c, "0"), Num(c, "0"))
        c.invoke("void", "rk_check_report", ("ptr", "%wave"), *(("i64", v) for v in values))


def _lds(c: Code, array: str, lanes: Num, size: int, write: bool, defined: Num | int) -> Num:
    kind = "write" if write else "read"
    return c.invoke(
        "i64",
        f"rk_check_lds_{kind}_{size}",
        ("ptr", "%wave"),
        ("ptr", array),
        *(("i64", v) for v in (lanes, c.param("slot"), c.param("flags"), defined)),
        *_contents(c),
    )


def _stored(c: Code, bytes_: str) -> str:
    """LDS bytes of all lanes in memory."""
    array = c.new(f"alloca {INTS}, align 64")
    c.store(INTS, bytes_, array, align=64)
    return array


def _contents(c: Code, row: int = 0) -> tuple[tuple[str, str], tuple[str, Num]]:
    """The arguments ``data`` and ``skip`` of the runtime functions, from register ``row`` on."""
    skip = c.param("skip")
    known = c.address(c.at("%data", row * state.ROW_BYTES))
    pointer = c.pointer(c.select((skip & 1).equals(0), known, 0))
    return ("ptr", pointer), ("i64", skip)


class LdsPlace(Enum):
    """Where the LDS address of a DS instruction comes from."""

    LANES = "lanes"
    """A VGPR (the argument is its address)."""
    THREAD = "thread"
    """M0[15:0] and the lane (the argument is M0)."""
    COUNTER = "counter"
    """M0[31:16], the same for all lanes (the argument is M0)."""
    COPY = "copy"
    """M0[17:0] and the lane, as in direct copies (the argument is M0; a 64-bit offset)."""


class LdsKind(Enum):
    """What a DS instruction does with memory."""

    READ = "read"
    WRITE = "write"
    MODIFY = "modify"
    """An atomic whose effect depends on what was there."""
    EXCHANGE = "exchange"
    """A write that gives what was there; more arguments: the first result and their number."""


def lds_access(
    size: int, kind: LdsKind, place: LdsPlace, head: list[Arg], tail: list[Arg]
) -> HelperCall:
    """A DS instruction; ``tail`` is the argument of ``place``, the offset, and more for some kinds.

    Slots: race, direct copy, undefined bytes (a note, but for MODIFY).
    """
    name = f"check_lds_{place.value}_{kind.value}_{size}"
    if name not in _HELPERS:
        parameters = [("ptr", "addr") if place is LdsPlace.LANES else ("i32", "m0")]
        parameters.append(("i64" if place is LdsPlace.COPY else "i32", "offset"))
        if kind is LdsKind.EXCHANGE:
            parameters += [("i64", "result"), ("i64", "results")]
        c = _code(name, parameters)
        lanes = c.param("exec")
        bytes_ = {
            LdsPlace.LANES: lambda: lds_bytes(c, "%addr", "%offset"),
            LdsPlace.THREAD: lambda: thread_bytes(c),
            LdsPlace.COUNTER: lambda: counter_bytes(c),
            LdsPlace.COPY: lambda: copied_bytes(c, 1),
        }[place]()
        array = _stored(c, bytes_)
        defined: Num | int = 0 if kind is LdsKind.READ else _data_defined(c, size)
        undefined = _lds(c, array, lanes, size, kind is not LdsKind.READ, defined)
        if kind is not LdsKind.WRITE:
            _report(c, c.param("slot") + 2, undefined)
        if kind is LdsKind.READ:
            _define_loaded(c, array, size, undefined)
        if kind is LdsKind.EXCHANGE:
            _define(c, lanes, ~undefined, c.param("result"), c.param("results"))
        _HELPERS[name] = helper(c.end(), name)
    return HelperCall(_HELPERS[name], (*head, *tail))


def global_access(
    address: Address, size: int, read: bool, write: bool, head: list[Arg]
) -> HelperCall:
    """A global, flat or buffer access. Slots: race, bounds, undefined data (of a store)."""
    kind = ("read" if read else "") + ("write" if write else "")
    name = f"check_{address.tag}_{kind}_{size}"
    if name not in _HELPERS:
        c = _code(name, address.params)
        flags = c.param("flags") | (GLOBAL_WRITE if write else GLOBAL_READ)
        lanes = _each_address(c, address, size, flags, write)
        if write:
            _report(c, c.param("slot") + 2, lanes & ~_data_defined(c, size))
        _HELPERS[name] = helper(c.end(), name)
    return HelperCall(_HELPERS[name], (*head, *address.args))


def formatted_access(
    address: BufferAddress, size: int, write: bool, typed: int | None, head: list[Arg]
) -> HelperCall:
    """A buffer access with a data format, of at most ``size`` bytes.

    ``typed`` is the format of the instruction, in the place where a descriptor has its own (None:
    the descriptor's counts). Slots as for :func:`global_access`.
    """
    name = f"check_{address.tag}_{'typed' if typed is not None else 'format'}"
    name += f"_{'write' if write else 'read'}_{size}"
    if name not in _HELPERS:
        parameters = [*address.params, *([("i64", "format")] if typed is not None else [])]
        c = _code(name, parameters)
        flags = c.param("flags") | (GLOBAL_WRITE if write else GLOBAL_READ)
        form = c.param("format") if typed is not None else c.get("%resource", 12, 32)
        element: Num = Num(c, "0") + 0
        for code, count in ELEMENT_BYTES.items():
            element = c.select((form >> 15 & 15).equals(code), count, element)
        checked = _BufferRows(c, address, flags)
        lanes: Num = Num(c, "0") + 0
        for part in (1, 2, 4):
            rows = -(-size // 4) if part == 4 else 1
            for row in range(rows):
                there = element.equals(part) if part < 4 else (element >> 2).above(row)
                lanes = lanes | checked.check(row, part, there)
        if write:
            _report(c, c.param("slot") + 2, lanes & ~_data_defined(c))
        _HELPERS[name] = helper(c.end(), name)
    more = [] if typed is None else [Imm(typed, 64)]
    return HelperCall(_HELPERS[name], (*head, *address.args, *more))


def _each_address(c: Code, address: Address, size: int, flags: Num, write: bool) -> Num:
    """Check all addresses; the lanes that access global memory."""
    if isinstance(address, BufferAddress):
        return _buffer(c, address, size, flags)
    lanes = c.param("exec")
    if isinstance(address, FlatAddress):
        return _flat(c, address, lanes, size, flags, write)
    assert isinstance(address, GlobalAddress)
    base: Num | int = c.param("saddr") if address.scalar else 0
    _global(c, address.addresses(c), lanes, size, flags, base)
    return lanes


def _global(
    c: Code,
    addresses: str,
    lanes: Num,
    size: int,
    flags: Num,
    base: Num | int,
    row: int = 0,
) -> None:
    array = c.new(f"alloca {ADDRESSES}, align 64")
    c.store(ADDRESSES, addresses, array, align=64)
    origin = c.var(base)
    argument = c.param("argument")
    with c.when(argument.differs(-1)):
        thread = c.pointer(c.get("%wave", at.W_THREAD))
        origin.set(c.get(c.pointer(c.get(thread, at.T_ARGUMENTS) + argument)))
    base = origin.get()
    c.invoke(
        "void",
        "rk_check_global",
        ("ptr", "%wave"),
        ("ptr", array),
        *(("i64", v) for v in (lanes, Num(c, str(size)), flags, c.param("slot"), base)),
        *_contents(c, row),
    )


def _flat(c: Code, address: FlatAddress, lanes: Num, size: int, flags: Num, write: bool) -> Num:
    high = c.row("%addr", 1)
    apertures = (state.SHARED_APERTURE_HI, state.PRIVATE_APERTURE_HI)
    shared, private = (
        Num(c, c.new(f"bitcast <64 x i1> {c.new(test)} to i64"))
        for test in (f"icmp eq {INTS} {high}, splat (i32 {value})" for value in apertures)
    )
    offset = c.splat("i32", c.new("trunc i64 %offset to i32"))
    bytes_ = c.new(f"add {INTS} {c.row('%addr')}, {offset}")
    elsewhere = lanes & ~(shared | private)
    _global(c, address.addresses(c), elsewhere, size, flags, 0)
    inside = lanes & shared
    with c.when(inside.differs(0)):
        # The flags of LDS and of global memory are different bits: only "atomic" is translated.
        atomic = (c.param("flags") & GLOBAL_SYNC).differs(0)
        marks = c.select(atomic, at.LDS_ATOMIC, 0)
        array = c.new(f"alloca {INTS}, align 64")
        c.store(INTS, bytes_, array, align=64)
        kind = "write" if write else "read"
        values = (inside, c.param("slot") + FLAT_LDS_SLOTS, marks, Num(c, "-1"))
        c.invoke(
            "i64",
            f"rk_check_lds_{kind}_{size}",
            ("ptr", "%wave"),
            ("ptr", array),
            *(("i64", v) for v in values),
            *_contents(c),
        )
    return elsewhere


def _buffer(c: Code, address: BufferAddress, size: int, flags: Num) -> Num:
    """Dword by dword, as the range check goes."""
    rows = _BufferRows(c, address, flags)
    used: Num = Num(c, "0")
    for row in range(max(1, size // 4)):
        used = used | rows.check(row, min(size, 4), "true")
    return used


class _BufferRows:
    """The dwords (or less) of one buffer access; nothing for scratch (a swizzled descriptor)."""

    def __init__(self, c: Code, address: BufferAddress, flags: Num) -> None:
        self.code, self.address, self.flags = c, address, flags
        self.descriptor = address.descriptor(c)
        self.index = address.lane_index(c, self.descriptor)
        self.offsets = address.lane_offset(c)
        self.lanes = c.select(self.descriptor.swizzled, 0, c.param("exec"))

    def check(self, row: int, size: int, there: str) -> Num:
        """Check dword ``row``, if ``there`` (i1); the lanes that access it."""
        c, d, here = self.code, self.descriptor, self.offsets
        if row:
            here = c.new(f"add {ADDRESSES} {here}, splat (i64 {4 * row})")
        addresses, good = self.address.component(c, d, self.index, here, size)
        lanes = c.select(there, self.lanes & Num(c, good), 0)
        _global(c, addresses, lanes, size, self.flags, Num(c, d.base), row)
        return lanes


def copy_to_lds(rows: int, offset: int, head: list[Arg]) -> HelperCall:
    """The write of LDS by a direct copy of ``rows`` dwords a lane; ``offset`` is the immediate."""
    name = f"check_copy_{rows}"
    if name not in _HELPERS:
        c = _code(name, [("i32", "m0"), ("i64", "offset")])
        _lds(c, _stored(c, copied_bytes(c, rows)), c.param("exec"), 4 * rows, True, -1)
        _HELPERS[name] = helper(c.end(), name)
    return HelperCall(_HELPERS[name], (*head, ScalarReg(M0), Imm(offset & _ALL, 64)))
