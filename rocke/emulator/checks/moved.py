"""Host functions that follow definedness where values change lanes: permutes, swaps, matrices.

A *lane map* has one byte a lane: the lane that its value comes from, or :data:`NOWHERE`. An
instruction's map is set (``T_MAP``) just before the function that uses it is called.
"""

from __future__ import annotations

import functools

from rocke.emulator import state
from rocke.emulator.checks import bits
from rocke.emulator.checks import layout as at
from rocke.emulator.checks.code import Code, Num
from rocke.emulator.instruction import EXEC
from rocke.emulator.semantics import Helper

NOWHERE = 255
"""In a lane map: no lane; the value is 0, or the old one stays."""
SWAP_FETCHES, SWAP_ZEROES = 1, 2
"""What a swap does in a lane whose partner is off: takes its value all the same, takes 0."""


def _helper(code: Code, name: str) -> Helper:
    text = code.whole
    return Helper(name, lambda: text, frozenset(code.declares))


def _thread(c: Code) -> str:
    return c.pointer(c.get("%wave", at.W_THREAD))


def _defined(c: Code, register: Num) -> str:
    return bits.defined_at(c, register, "%wave")


def moved(c: Code, defined: Num) -> Num:
    """Lanes to which the lane map brings something defined, or nothing, from a register."""
    result = c.var(-1)
    map_ = c.pointer(c.get(_thread(c), at.T_MAP))
    here = defined | ~c.get("%wave", state.sgpr(EXEC))  # lanes that are off supply 0
    with c.count(0, 64) as lane:
        source = c.get(map_, lane, 8)
        lacking = ~(here >> (source & 63)) & 1
        lacking = c.select(source.below(64), lacking, 0)
        result.set(result.get() & ~(lacking << lane))
    return result.get()


@functools.cache
def static_map() -> Helper:
    """``(wave, at)``: the lane map is in the descriptions."""
    c = Code("check_static_map", [("ptr", "wave"), ("i64", "at")])
    thread = _thread(c)
    c.put(c.get(thread, at.T_DESCRIPTIONS) + (c.param("at") << 2), thread, at.T_MAP)
    return _helper(c.end(), "check_static_map")


@functools.cache
def address_map(send: bool) -> Helper:
    """``(wave, register, offset)``: the map of a permute through LDS addresses in a register."""
    name = f"check_{'send' if send else 'fetch'}_map"
    c = Code(name, [("ptr", "wave"), ("i64", "register"), ("i64", "offset")])
    thread = _thread(c)
    c.put(c.address(thread) + at.T_LANES, thread, at.T_MAP)
    row = c.at("%wave", (c.param("register") * state.ROW_BYTES).name)
    if send:
        with c.count(0, 64) as lane:
            c.put(NOWHERE, thread, lane + at.T_LANES, 8)
    with c.lanes(c.get("%wave", state.sgpr(EXEC))) as lane:
        other = (c.get(row, lane << 2, 32) + c.param("offset")) >> 2 & 63
        to, source = (other, lane) if send else (lane, other)
        c.put(source, thread, to + at.T_LANES, 8)
    return _helper(c.end(), name)


def written_lanes(c: Code, lanes: Num) -> Num:
    """The lanes that a DPP instruction writes: ``limit`` are those that its control allows; without
    ``zeroes`` (bound_ctrl) none whose source is off."""
    result = c.var(lanes & c.param("limit"))
    with c.when(c.both(lanes.differs(-1), c.param("zeroes").equals(0)), likely=False):
        map_ = c.pointer(c.get(_thread(c), at.T_MAP))
        with c.lanes(result.get()) as lane:
            source = c.get(map_, lane, 8) & 63
            off = ~(lanes >> source) & 1
            result.set(result.get() & ~(off << lane))
    return result.get()


@functools.cache
def swap() -> Helper:
    """``(wave, exec, first, second, row, how, slot)``: lane ``l + row`` of the first register and
    lane ``l`` of the second change places, for all ``l`` without the bit ``row`` (0: all)."""
    names = ("exec", "first", "second", "row", "how", "slot")
    c = Code("check_swap", [("ptr", "wave"), *(("i64", n) for n in names)])
    exec_, how = c.param("exec"), c.param("how")
    registers = [c.param(n) for n in ("first", "second")]
    places = [_defined(c, r) for r in registers]
    with c.when((c.get(places[0]) & c.get(places[1])).differs(-1), likely=False):
        rows = [bits.undefined_row(c, r, "%wave") for r in registers]
        with c.count(0, 64) as low, c.when((low & c.param("row")).equals(0)):
            lanes = [low + c.param("row"), low]
            active = [exec_ >> lane & 1 for lane in lanes]
            known = [c.get(p) >> lane & 1 for p, lane in zip(places, lanes, strict=True)]
            bits_ = [c.get(r, lane << 2, 32) for r, lane in zip(rows, lanes, strict=True)]
            for me, other in ((0, 1), (1, 0)):
                fetches = c.either(active[other].differs(0), (how & SWAP_FETCHES).differs(0))
                writes = c.either(fetches, (how & SWAP_ZEROES).differs(0))
                with c.when(c.both(active[me].differs(0), writes)):
                    bit = c.select(fetches, known[other], 1) << lanes[me]
                    kept = c.get(places[me]) & ~(Num(c, "1") << lanes[me])
                    c.put(kept | bit, places[me])
                    c.put(bits_[other], rows[me], lanes[me] << 2, 32)
        lost = exec_ & ~(c.get(places[0]) & c.get(places[1]))
        with c.when(lost.differs(0)):
            values = (c.param("slot"), lost, Num(c, "0"), Num(c, "0"))
            c.invoke("void", "rk_check_report", ("ptr", "%wave"), *(("i64", v) for v in values))
    return _helper(c.end(), "check_swap")


def _undefined_in(c: Code, table: str, cursor: Num) -> tuple[Num, Num]:
    """Lanes that are undefined in any register of a list, and where the list ends."""
    length = c.get(table, cursor, 32)
    result = c.var(0)
    with c.count(0, length) as i:
        register = c.get(table, cursor + 4 + (i << 2), 32)
        result.set(result.get() | ~c.get(_defined(c, register)))
    return result.get(), cursor + 4 + (length << 2)


@functools.cache
def matrix() -> Helper:
    """``(wave, description)``: ``slot, table, n, registers of A..., n, registers of B..., n,
    {number, D, C}...``; C may be ``bits.IMMEDIATE``.

    ``table``: for each register and lane of D the lanes of A and of B that its value depends on.
    """
    c = Code("check_matrix", [("ptr", "wave"), ("i64", "description")])
    descriptions = c.get(_thread(c), at.T_DESCRIPTIONS)
    table = c.pointer(descriptions + (c.param("description") << 2))
    depends = c.pointer(descriptions + (c.get(table, 4, 32) << 2))
    rule = c.pointer(descriptions)  # of what has none: all is undefined
    a, place = _undefined_in(c, table, Num(c, "8"))
    b, place = _undefined_in(c, table, place)
    total = c.var(0)
    with c.count(0, c.get(table, place, 32)) as i:
        entry = place + 4 + i * 12
        number, d, addend = (c.get(table, entry + 4 * k, 32) for k in range(3))
        bad = c.var(0)
        with c.when(addend.differs(bits.IMMEDIATE)):
            bad.set(~c.get(_defined(c, addend)))
        with c.when((a | b).differs(0), likely=False), c.count(0, 64) as lane:
            where = (number << 6) + lane << 4
            lost = (c.get(depends, where) & a) | (c.get(depends, where + 8) & b)
            one = c.select(lost.differs(0), 1, 0)
            bad.set(bad.get() | (one << lane))
        with c.when(bad.get().differs(0), likely=False):
            arguments = (("ptr", rule), ("i64", bad.get()), ("i64", d))
            c.invoke("i64", "rk_check_bits", ("ptr", "%wave"), *arguments)
        c.put(~bad.get(), _defined(c, d))
        total.set(total.get() | bad.get())
    lost = total.get()
    with c.when(lost.differs(0), likely=False):
        values = (c.get(table, 0, 32), lost, Num(c, "0"), Num(c, "0"))
        c.invoke("void", "rk_check_report", ("ptr", "%wave"), *(("i64", v) for v in values))
    return _helper(c.end(), "check_matrix")
