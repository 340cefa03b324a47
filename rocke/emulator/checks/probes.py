"""Host functions that the checked translation calls before an instruction.

They keep the definedness of registers (one u64 a register at ``DEFINED``, see
:mod:`rocke.emulator.state`), number the memory operations and hand accesses to the functions of
:mod:`rocke.emulator.checks.runtime`. Register lists come from a table of i32 (*descriptions*), so
that one function serves every instruction.
"""

from __future__ import annotations

import functools

from rocke.emulator import state
from rocke.emulator.checks import bits
from rocke.emulator.checks import layout as at
from rocke.emulator.checks.code import Code, Num, Var
from rocke.emulator.checks.moved import moved, written_lanes
from rocke.emulator.semantics import Helper

LANES, ALL, MASK, MOVED = range(4)
"""How a register counts in a description: lane by lane; a scalar, wholly defined or not; the first
of a pair that is a lane mask; a vector register whose lanes move, as the lane map says."""
BITWISE, WHOLE, MASKED, SHIFTED = range(4)
"""How a scalar result comes from its sources, see :func:`scalar`."""
MODE_SHIFT = 12
FULL = 0xFFFF_FFFF
"""Definedness of a scalar register of which all bits are defined."""
ACQUIRE, RELEASE = 1, 2


def helper(code: Code, name: str) -> Helper:
    """The finished function as a helper."""
    text = code.whole
    return Helper(name, lambda: text, frozenset(code.declares))


def _report(c: Code, slot: Num, lanes: Num) -> None:
    with c.when(lanes.differs(0), likely=False):
        values = (slot, lanes, Num(c, "0"), Num(c, "0"))
        arguments = [("i64", v) for v in values]
        c.invoke("void", "rk_check_report", ("ptr", "%wave"), *arguments)


def _table(c: Code, offset: str = "description") -> str:
    thread = c.pointer(c.get("%wave", at.W_THREAD))
    return c.pointer(c.get(thread, at.T_DESCRIPTIONS) + (c.param(offset) << 2))


def _defined(c: Code, register: Num) -> str:
    return bits.defined_at(c, register, "%wave")


def lane_bits(c: Code, register: Num, lane: Num) -> Num:
    """The defined bits of one lane of a vector register, 32 of them."""
    row = c.at(bits.undefined_row(c, register, "%wave"), (lane << 2).name)
    whole = (c.get(_defined(c, register)) >> lane & 1).differs(0)
    return c.select(whole, FULL, ~c.get(row, 0, 32) & FULL)


def _sources(c: Code, table: str, cursor: Var) -> Num:
    """Lanes in which all sources of a list are defined; the list starts with its length."""
    result = c.var(-1)
    length = c.get(table, cursor.get(), 32)
    cursor.set(cursor.get() + 4)
    with c.count(0, length):
        entry = c.get(table, cursor.get(), 32)
        place = _defined(c, entry & ((1 << MODE_SHIFT) - 1))
        mode = entry >> MODE_SHIFT
        value = c.get(place)
        lanes = c.var(value)
        with c.when(mode.differs(LANES)):
            pair = value | (c.get(place, 8) << 32)
            flag = c.select(value.equals(FULL), -1, 0)
            lanes.set(c.select(mode.equals(MASK), pair, flag))
            with c.when(mode.equals(MOVED)):
                lanes.set(value)
                with c.when(value.differs(-1), likely=False):
                    lanes.set(moved(c, value))
        result.set(result.get() & lanes.get())
        cursor.set(cursor.get() + 4)
    return result.get()


def _bit_by_bit(c: Code, table: str, results: Num, known: Var, lanes: Num) -> None:
    """What becomes of lanes in which a source is not wholly defined."""
    bad = lanes & ~known.get()
    thread = c.pointer(c.get("%wave", at.W_THREAD))
    rule = c.pointer(c.get(thread, at.T_DESCRIPTIONS) + (c.get(table, 4, 32) << 2))
    place = c.var(results)
    with c.count(0, c.get(table, results, 32)):
        place.set(place.get() + 4)
        entry = c.get(table, place.get(), 32)
        register = c.select((entry >> MODE_SHIFT).equals(LANES), entry, bits.IMMEDIATE)
        arguments = (("ptr", rule), ("i64", bad), ("i64", register))
        found = c.invoke("i64", "rk_check_bits", ("ptr", "%wave"), *arguments)
        known.set(known.get() | found)
    _report(c, c.get(table, 0, 32), lanes & ~known.get())


@functools.cache
def vector() -> Helper:
    """``(wave, lanes, description)``: ``slot, rule, n, sources..., m, results...``.

    Results become defined in ``lanes`` where all sources are; where one is not, the rule (an offset
    in the descriptions, see :mod:`rocke.emulator.checks.bits`) decides, and ``slot`` notes lanes
    that stay undefined.
    """
    c = Code("check_vector", [("ptr", "wave"), ("i64", "lanes"), ("i64", "description")])
    return _vector(c, c.param("lanes"), "check_vector")


@functools.cache
def vector_dpp() -> Helper:
    """:func:`vector` with ``limit`` and ``zeroes`` after it, which say what DPP writes (see
    :func:`rocke.emulator.checks.moved.written_lanes`)."""
    names = ("lanes", "description", "limit", "zeroes")
    c = Code("check_vector_dpp", [("ptr", "wave"), *(("i64", n) for n in names)])
    return _vector(c, written_lanes(c, c.param("lanes")), "check_vector_dpp")


def _vector(c: Code, lanes: Num, name: str) -> Helper:
    table = _table(c)
    cursor = c.var(8)
    known = c.var(_sources(c, table, cursor))
    length = c.get(table, cursor.get(), 32)
    with c.when((lanes & ~known.get()).differs(0), likely=False):
        _bit_by_bit(c, table, cursor.get(), known, lanes)
    good = known.get()
    with c.count(0, length):
        cursor.set(cursor.get() + 4)
        entry = c.get(table, cursor.get(), 32)
        place = _defined(c, entry & ((1 << MODE_SHIFT) - 1))
        mode = entry >> MODE_SHIFT
        with c.when(mode.equals(LANES)):
            c.put((c.get(place) & ~lanes) | (good & lanes), place)
        with c.when(mode.equals(ALL)):
            c.put(c.select((lanes & ~good).equals(0), FULL, 0), place)
        with c.when(mode.equals(MASK)):
            mask = good | ~lanes
            c.put(mask & FULL, place)
            c.put(mask >> 32, place, 8)
    return helper(c.end(), name)


def _masked(c: Code, table: str, start: Num) -> Num:
    """Bits that are defined in both sources, or that a known bit of one decides."""
    parts = []
    for i in range(2):
        register, value, ones = (c.get(table, start + 12 * i + 4 * k, 32) for k in range(3))
        fixed = register.equals(FULL)
        register = c.select(fixed, bits.SCALARS, register)
        place = c.at("%wave", ((register - bits.SCALARS) * 4 + state.SGPR).name)
        known = c.select(fixed, FULL, c.get(_defined(c, register)))
        value = c.select(fixed, value, c.get(place, 0, 32))
        parts.append((known, known & (value ^ c.select(ones.equals(0), FULL, 0))))
    (first, decides), (second, also) = parts
    return (first & second) | decides | also


def _shifted(c: Code, table: str, start: Num) -> Num:
    register, left, shift, mask = (c.get(table, start + 4 * k, 32) for k in range(4))
    lacking = ~c.get(_defined(c, register)) & FULL
    moved = c.select(left.equals(0), lacking >> shift, lacking << shift)
    return ~(moved & mask) & FULL


@functools.cache
def scalar() -> Helper:
    """``(wave, description)``: description ``slot, n, {result, how, m, sources...}[n]``.

    BITWISE: each bit of the result is defined where it is in all sources. WHOLE: the result is
    defined if all of all sources is. MASKED: two sources of three words (register or -1, value,
    whether a known 1 decides a bit, else a known 0 does). SHIFTED: register, whether to the left,
    by how much, mask after that.
    """
    c = Code("check_scalar", [("ptr", "wave"), ("i64", "description")])
    table = _table(c)
    cursor = c.var(8)
    with c.count(0, c.get(table, 4, 32)):
        result = c.get(table, cursor.get(), 32)
        how = c.get(table, cursor.get() + 4, 32)
        whole = how.equals(WHOLE)
        length = c.get(table, cursor.get() + 8, 32)
        cursor.set(cursor.get() + 12)
        value = c.var(FULL)
        with c.when(how.equals(MASKED)):
            value.set(_masked(c, table, cursor.get()))
        with c.when(how.equals(SHIFTED)):
            value.set(_shifted(c, table, cursor.get()))
        with c.count(0, c.select(how.at_most(WHOLE), length, 0)) as i:
            source = c.get(_defined(c, c.get(table, cursor.get() + (i << 2), 32)))
            source = c.select(c.both(whole, source.differs(FULL)), 0, source)
            value.set(value.get() & source)
        cursor.set(cursor.get() + (length << 2))
        c.put(value.get(), _defined(c, result))
        _report(c, c.get(table, 0, 32), value.get() ^ FULL)
    return helper(c.end(), "check_scalar")


@functools.cache
def read_lane() -> Helper:
    """``(wave, lane, source, result, slot)``: definedness numbers of the registers."""
    names = ("lane", "source", "result", "slot")
    c = Code("check_read_lane", [("ptr", "wave"), *(("i64", n) for n in names)])
    known = lane_bits(c, c.param("source"), c.param("lane") & 63)
    c.put(known, _defined(c, c.param("result")))
    _report(c, c.param("slot"), c.select(known.equals(FULL), 0, -1))
    return helper(c.end(), "check_read_lane")


@functools.cache
def read_first_lane() -> Helper:
    """As :func:`read_lane`, for the first lane of EXEC (lane 0 if there is none)."""
    names = ("exec", "source", "result", "slot")
    c = Code("check_read_first_lane", [("ptr", "wave"), *(("i64", n) for n in names)])
    first = c.invoke("i64", "llvm.cttz.i64", ("i64", c.param("exec")), ("i1", "false"))
    known = lane_bits(c, c.param("source"), first & 63)
    c.put(known, _defined(c, c.param("result")))
    _report(c, c.param("slot"), c.select(known.equals(FULL), 0, -1))
    return helper(c.end(), "check_read_first_lane")


@functools.cache
def write_lane() -> Helper:
    """``(wave, lane, result)``: the lane becomes defined."""
    c = Code("check_write_lane", [("ptr", "wave"), ("i64", "lane"), ("i64", "result")])
    place = _defined(c, c.param("result"))
    c.put(c.get(place) | (Num(c, "1") << (c.param("lane") & 63)), place)
    return helper(c.end(), "check_write_lane")


@functools.cache
def hit() -> Helper:
    """``(wave, exec, slot)``: an instruction that is wrong wherever it executes."""
    c = Code("check_hit", [("ptr", "wave"), ("i64", "exec"), ("i64", "slot")])
    values = (c.param("slot"), c.param("exec"), Num(c, "0"), Num(c, "0"))
    c.invoke("void", "rk_check_report", ("ptr", "%wave"), *(("i64", v) for v in values))
    return helper(c.end(), "check_hit")


@functools.cache
def all_lanes() -> Helper:
    """``(wave, exec, slot)``: an instruction that needs all lanes on."""
    c = Code("check_all_lanes", [("ptr", "wave"), ("i64", "exec"), ("i64", "slot")])
    _report(c, c.param("slot"), ~c.param("exec"))
    return helper(c.end(), "check_all_lanes")


@functools.cache
def barrier() -> Helper:
    """``(wave, slot)``: remembers where the wave waits."""
    c = Code("check_barrier", [("ptr", "wave"), ("i64", "slot")])
    c.put(c.param("slot"), "%wave", at.W_BARRIER)
    return helper(c.end(), "check_barrier")


@functools.cache
def issue() -> Helper:
    """``(wave, lds, vm)``: adds to the numbers of memory operations."""
    c = Code("check_issue", [("ptr", "wave"), ("i64", "lds"), ("i64", "vm")])
    c.put(c.get("%wave", at.W_LDS_ISSUED) + c.param("lds"), "%wave", at.W_LDS_ISSUED)
    c.put(c.get("%wave", at.W_VM_ISSUED) + c.param("vm"), "%wave", at.W_VM_ISSUED)
    return helper(c.end(), "check_issue")


@functools.cache
def wait() -> Helper:
    """``(wave, vm, lds)``: at most so many operations are outstanding from here on."""
    c = Code("check_wait", [("ptr", "wave"), ("i64", "vm"), ("i64", "lds")])
    for name, issued, done in (
        ("vm", at.W_VM_ISSUED, at.W_VM_DONE),
        ("lds", at.W_LDS_ISSUED, at.W_LDS_DONE),
    ):
        over = c.invoke(
            "i64",
            "llvm.usub.sat.i64",
            ("i64", c.get("%wave", issued)),
            ("i64", c.param(name)),
        )
        before = c.get("%wave", done)
        c.put(c.select(before.below(over), over, before), "%wave", done)
    return helper(c.end(), "check_wait")


@functools.cache
def sync() -> Helper:
    """``(wave, what)``: the workgroup acquires and releases what others can see."""
    c = Code("check_sync", [("ptr", "wave"), ("i64", "what")])
    thread = c.pointer(c.get("%wave", at.W_THREAD))
    with c.when((c.param("what") & ACQUIRE).differs(0)):
        c.put(1, thread, at.T_ACQUIRED)
    with c.when((c.param("what") & RELEASE).differs(0)):
        group = c.get(thread, at.T_GROUP) & ((1 << at.CELL_GROUP_BITS) - 1)
        c.put(1, c.pointer(c.get(thread, at.T_RELEASED) + group), 0, 8)
    return helper(c.end(), "check_sync")
