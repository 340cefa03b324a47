"""Host functions that the checked translation calls before an instruction.

They keep the definedness of registers (one u64 a register at ``DEFINED``, see
:mod:`rocke.emulator.state`), number the memory operations and hand accesses to the functions of
:mod:`rocke.emulator.checks.runtime`. Register lists come from a table of i32 (*descriptions*), so
that one function serves every instruction.
"""

from __future__ import annotations

import functools

from rocke.emulator import state
from rocke.emulator.checks import layout as at
from rocke.emulator.checks.code import Code, Num, Var
from rocke.emulator.semantics import Helper

LANES, ALL, MASK, ANY = range(4)
"""How a register counts in a description: lane by lane; a scalar, wholly defined or not; the first
of a pair that is a lane mask; a vector register whose lanes move, defined if any lane is."""
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
    return c.at("%wave", (register * 8 + state.DEFINED).name)


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
            whole = c.select(mode.equals(ALL), value, c.select(value.equals(0), 0, FULL))
            flag = c.select(whole.equals(FULL), -1, 0)
            lanes.set(c.select(mode.equals(MASK), pair, flag))
        result.set(result.get() & lanes.get())
        cursor.set(cursor.get() + 4)
    return result.get()


@functools.cache
def vector() -> Helper:
    """``(wave, lanes, description)``: description ``slot, n, sources..., m, results...``.

    Results become defined in ``lanes`` where all sources are; where one is not, ``slot`` notes it.
    """
    c = Code("check_vector", [("ptr", "wave"), ("i64", "lanes"), ("i64", "description")])
    lanes = c.param("lanes")
    table = _table(c)
    cursor = c.var(4)
    good = _sources(c, table, cursor)
    _report(c, c.get(table, 0, 32), lanes & ~good)
    length = c.get(table, cursor.get(), 32)
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
            bits = good | ~lanes
            c.put(bits & FULL, place)
            c.put(bits >> 32, place, 8)
    return helper(c.end(), "check_vector")


@functools.cache
def scalar() -> Helper:
    """``(wave, description)``: description ``slot, n, {result, whole, m, sources...}[n]``.

    ``whole`` 0: each bit of the result is defined where it is in all sources; else the result is
    defined if all of all sources is.
    """
    c = Code("check_scalar", [("ptr", "wave"), ("i64", "description")])
    table = _table(c)
    cursor = c.var(8)
    with c.count(0, c.get(table, 4, 32)):
        result = c.get(table, cursor.get(), 32)
        whole = c.get(table, cursor.get() + 4, 32).differs(0)
        length = c.get(table, cursor.get() + 8, 32)
        cursor.set(cursor.get() + 12)
        value = c.var(FULL)
        with c.count(0, length):
            source = c.get(_defined(c, c.get(table, cursor.get(), 32)))
            source = c.select(c.both(whole, source.differs(FULL)), 0, source)
            value.set(value.get() & source)
            cursor.set(cursor.get() + 4)
        c.put(value.get(), _defined(c, result))
        _report(c, c.get(table, 0, 32), value.get() ^ FULL)
    return helper(c.end(), "check_scalar")


@functools.cache
def read_lane() -> Helper:
    """``(wave, lane, source, result, slot)``: definedness numbers of the registers."""
    names = ("lane", "source", "result", "slot")
    c = Code("check_read_lane", [("ptr", "wave"), *(("i64", n) for n in names)])
    known = c.get(_defined(c, c.param("source"))) >> (c.param("lane") & 63) & 1
    c.put(c.select(known.equals(0), 0, FULL), _defined(c, c.param("result")))
    _report(c, c.param("slot"), c.select(known.equals(0), -1, 0))
    return helper(c.end(), "check_read_lane")


@functools.cache
def read_first_lane() -> Helper:
    """As :func:`read_lane`, for the first lane of EXEC (lane 0 if there is none)."""
    names = ("exec", "source", "result", "slot")
    c = Code("check_read_first_lane", [("ptr", "wave"), *(("i64", n) for n in names)])
    first = c.invoke("i64", "llvm.cttz.i64", ("i64", c.param("exec")), ("i1", "false"))
    known = c.get(_defined(c, c.param("source"))) >> (first & 63) & 1
    c.put(c.select(known.equals(0), 0, FULL), _defined(c, c.param("result")))
    _report(c, c.param("slot"), c.select(known.equals(0), -1, 0))
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
