"""Host functions that follow definedness bit by bit, for lanes that are not wholly defined.

Every vector register has a row of u32 a lane at :data:`rocke.emulator.state.UNDEFINED`: the bits
that are *not* defined. A row counts in lanes whose bit at ``DEFINED`` is 0 only, so that nothing is
written while all is defined. The rules for arithmetic are those of Memcheck and MemorySanitizer
(Seward and Nethercote, "Using Valgrind to detect undefined value errors with bit-precision").
"""

from __future__ import annotations

from enum import IntEnum

from rocke.emulator import state
from rocke.emulator.checks import layout as at
from rocke.emulator.checks.code import Code, Num
from rocke.emulator.instruction import EXEC
from rocke.emulator.semantics.memory_lanes import INTS


class Rule(IntEnum):
    """How undefined bits of the sources a, b and c reach the result."""

    ALL = 0
    """Whatever the sources are: all bits."""
    ANY = 1
    """All bits if one of the sources is undefined."""
    EACH = 2
    """Each bit from the same bit: moves, exclusive or."""
    AND = 3
    OR = 4
    LEFT = 5
    """a << b."""
    RIGHT = 6
    SIGNED_RIGHT = 7
    EXTRACT = 8
    """c bits of a from bit b on."""
    SIGNED_EXTRACT = 9
    CARRY = 10
    """From the lowest undefined bit up: additions, products."""
    HALVES = 11
    """Each half from the same half."""
    PACK = 12
    """The low half from a, the high half from b."""
    INSERT = 13
    """a chooses bits of b, elsewhere c."""
    PERMUTE = 14
    """Bytes of a (4 to 7) and b (0 to 3), which the bytes of c choose."""
    FUNNEL = 15
    """a and b as 64 bits, shifted right by c bits."""
    SELECT = 16
    """b in the lanes of the mask c, else a."""
    GUARDED = 17
    """a, if all of b is defined."""


SECOND_OR, SECOND_CARRY = 1, 2
"""The result of ``Rule.AND``, ``OR`` or ``LEFT`` then takes part in a second operation with c."""
SCALARS = 512
"""The number of the first scalar register."""
IMMEDIATE = 0xFFFF
LANES_MOVE, SIGNED, TWO_HALVES, BYTES = 1, 2, 4, 8
"""Flags of a source: its lanes come from where the lane map says; the part is extended by its sign;
low and high half come from bits ``low`` and ``high`` on; it counts bytes (shifts)."""
SOURCE_WORDS = 6
R_KIND, R_SECOND, R_LOW, R_MASK, R_KEEP, R_SOURCES = 0, 4, 8, 12, 16, 20
"""A rule in the descriptions: kind, second operation, where the result's bits go (first bit, mask
before the shift, whether the others stay), three sources."""
RULE_WORDS = R_SOURCES // 4 + 3 * SOURCE_WORDS
BITS_SYMBOLS = ("rk_check_bits", "rk_check_lds_bits")
_FULL = 0xFFFF_FFFF


def defined_at(c: Code, register: Num, wave: str = "%w") -> str:
    """Where the definedness of a register is."""
    return c.at(wave, (register * 8 + state.DEFINED).name)


def undefined_row(c: Code, register: Num, wave: str = "%w") -> str:
    """Where the undefined bits of a vector register are."""
    return c.at(wave, (register * state.ROW_BYTES + state.UNDEFINED).name)


def _lanes(c: Code, mask: Num) -> str:
    return c.new(f"bitcast i64 {mask.name} to <64 x i1>")


def _mask(c: Code, lanes: str) -> Num:
    return Num(c, c.new(f"bitcast <64 x i1> {lanes} to i64"))


def _op(c: Code, op: str, a: str, b: str) -> str:
    return c.new(f"{op} {INTS} {a}, {b}")


def _splat(c: Code, value: Num) -> str:
    return c.splat("i32", c.new(f"trunc i64 {value.name} to i32"))


def _spread(c: Code, row: str) -> str:
    """All ones in lanes that have any bit."""
    some = c.new(f"icmp ne {INTS} {row}, zeroinitializer")
    return c.new(f"sext <64 x i1> {some} to {INTS}")


def _not(c: Code, row: str) -> str:
    return _op(c, "xor", row, "splat (i32 -1)")


def _choose(c: Code, lanes: str, yes: str, no: str) -> str:
    return c.new(f"select <64 x i1> {lanes}, {INTS} {yes}, {INTS} {no}")


def _current(c: Code, register: Num) -> str:
    """The undefined bits of a vector register: none in lanes that are defined."""
    defined = _lanes(c, c.get(defined_at(c, register)))
    return _choose(c, defined, "zeroinitializer", c.row(undefined_row(c, register)))


def _source() -> Code:
    """``out`` gets the values and the undefined bits of a source, a row each."""
    parameters = [("ptr", "w"), ("ptr", "record"), ("ptr", "out")]
    c = Code("check_bits_source", parameters, attributes="noinline nounwind ")
    register = c.get("%record", 0, 32)
    c.set_row(_splat(c, c.get("%record", 4, 32)), "%out")
    c.set_row("zeroinitializer", "%out", 1)
    with c.when(register.below(512)):
        c.set_row(c.row(c.at("%w", (register * state.ROW_BYTES).name)), "%out")
        c.set_row(_current(c, register), "%out", 1)
    with c.when(c.both(register.above(511), register.below(IMMEDIATE))):
        known = c.get(defined_at(c, register))
        place = c.at("%w", ((register - 512) * 4 + state.SGPR).name)
        c.set_row(_splat(c, c.get(place, 0, 32)), "%out")
        c.set_row(_splat(c, ~known), "%out", 1)
    low, mask, flags, high = (c.get("%record", offset, 32) for offset in (8, 12, 16, 20))
    with c.when((flags & LANES_MOVE).differs(0)):
        _move_lanes(c)
    with c.when((flags & TWO_HALVES).differs(0)):
        row = c.row("%out", 1)
        halves = [
            _op(c, "and", _op(c, "lshr", row, _splat(c, at_)), "splat (i32 65535)")
            for at_ in (low, high)
        ]
        c.set_row(_op(c, "or", halves[0], _op(c, "shl", halves[1], "splat (i32 16)")), "%out", 1)
    with c.when((flags & TWO_HALVES).equals(0)):
        for row_ in (0, 1):
            part = _op(c, "lshr", c.row("%out", row_), _splat(c, low))
            c.set_row(_op(c, "and", part, _splat(c, mask)), "%out", row_)
    with c.when((flags & SIGNED).differs(0)):
        for row_ in (0, 1):
            up = _op(c, "shl", c.row("%out", row_), _splat(c, high))
            c.set_row(_op(c, "ashr", up, _splat(c, high)), "%out", row_)
    with c.when((flags & BYTES).differs(0)):
        c.set_row(_op(c, "shl", c.row("%out"), "splat (i32 3)"), "%out")
    return c.end()


def _move_lanes(c: Code) -> None:
    """Bring both rows of ``out`` to the lanes of the lane map; lanes that are off supply 0."""
    before = c.new("alloca [2 x <64 x i32>], align 64")
    for row in (0, 1):
        c.set_row(c.row("%out", row), before, row)
    map_ = c.pointer(c.get(c.pointer(c.get("%w", at.W_THREAD)), at.T_MAP))
    active = c.get("%w", state.sgpr(EXEC))
    with c.count(0, 64) as lane:
        source = c.get(map_, lane, 8)
        inside = source & 63
        there = c.both(source.below(64), (active >> inside & 1).differs(0))
        for row in (0, state.ROW_BYTES):
            value = c.select(there, c.get(before, (inside << 2) + row, 32), 0)
            c.put(value, "%out", (lane << 2) + row, 32)


def _and(c: Code, a: str, ua: str, b: str, ub: str) -> str:
    both = _op(c, "and", ua, ub)
    return _op(c, "or", both, _op(c, "or", _op(c, "and", ua, b), _op(c, "and", ub, a)))


def _or(c: Code, a: str, ua: str, b: str, ub: str) -> str:
    return _and(c, _not(c, a), ua, _not(c, b), ub)


def _carry(c: Code, u: str) -> str:
    return _op(c, "or", u, _op(c, "sub", "zeroinitializer", u))


class _Rows:
    """The three sources of a rule (values and undefined bits), and where its result goes."""

    def __init__(self, c: Code, sources: list[str], result: str) -> None:
        self.code, self.result = c, result
        self.a, self.ua, self.b, self.ub, self.c, self.uc = (
            c.row(place, row) for place in sources for row in (0, 1)
        )

    def put(self, undefined: str, value: str = "zeroinitializer") -> None:
        """The result's undefined bits, and its value where a second operation wants it."""
        self.code.set_row(value, self.result)
        self.code.set_row(undefined, self.result, 1)


def _simple(c: Code, kind: Num, r: _Rows) -> None:
    both = _op(c, "or", r.ua, r.ub)
    every = _op(c, "or", both, r.uc)
    with c.when(kind.equals(Rule.ANY)):
        r.put(_spread(c, every))
    with c.when(kind.equals(Rule.EACH)):
        r.put(every)
    with c.when(kind.equals(Rule.AND)):
        r.put(_and(c, r.a, r.ua, r.b, r.ub), _op(c, "and", r.a, r.b))
    with c.when(kind.equals(Rule.OR)):
        r.put(_or(c, r.a, r.ua, r.b, r.ub), _op(c, "or", r.a, r.b))
    with c.when(kind.equals(Rule.CARRY)):
        r.put(_carry(c, every))
    with c.when(kind.equals(Rule.GUARDED)):
        r.put(_op(c, "or", r.ua, _spread(c, r.ub)))
    with c.when(c.either(kind.equals(Rule.HALVES), kind.equals(Rule.PACK))):
        pack = c.new(f"select i1 {kind.equals(Rule.PACK)}, {INTS} {r.ua}, {INTS} {every}")
        low = _op(c, "and", pack, "splat (i32 65535)")
        low = c.new(f"select i1 {kind.equals(Rule.PACK)}, {INTS} {r.ua}, {INTS} {low}")
        high = _op(c, "lshr", every, "splat (i32 16)")
        high = c.new(f"select i1 {kind.equals(Rule.PACK)}, {INTS} {r.ub}, {INTS} {high}")
        upper = _op(c, "shl", _spread(c, high), "splat (i32 16)")
        r.put(_op(c, "or", _op(c, "lshr", _spread(c, low), "splat (i32 16)"), upper))


def _shifts(c: Code, kind: Num, r: _Rows) -> None:
    """Shifts, extracts and choices of bytes; all is undefined if the distance is."""
    amount = _op(c, "and", r.b, "splat (i32 31)")
    unknown = _spread(c, _op(c, "and", r.ub, "splat (i32 31)"))
    for rule, op in ((Rule.LEFT, "shl"), (Rule.RIGHT, "lshr"), (Rule.SIGNED_RIGHT, "ashr")):
        with c.when(kind.equals(rule)):
            moved = _op(c, op, r.ua, amount)
            r.put(_op(c, "or", moved, unknown), _op(c, op, r.a, amount))
    with c.when(c.either(kind.equals(Rule.EXTRACT), kind.equals(Rule.SIGNED_EXTRACT))):
        width = _op(c, "and", r.c, "splat (i32 31)")
        unknown_width = _spread(c, _op(c, "and", r.uc, "splat (i32 31)"))
        field = _op(c, "sub", _op(c, "shl", "splat (i32 1)", width), "splat (i32 1)")
        part = _op(c, "and", _op(c, "lshr", r.ua, amount), field)
        sign = _op(c, "and", part, _op(c, "lshr", _op(c, "add", field, "splat (i32 1)"), _ONE))
        extended = _op(c, "or", part, _op(c, "and", _spread(c, sign), _not(c, field)))
        signed = kind.equals(Rule.SIGNED_EXTRACT)
        part = c.new(f"select i1 {signed}, {INTS} {extended}, {INTS} {part}")
        r.put(_op(c, "or", part, _op(c, "or", unknown, unknown_width)))
    with c.when(kind.equals(Rule.FUNNEL)):
        distance = _op(c, "and", r.c, "splat (i32 31)")
        rows = ((INTS, r.ua), (INTS, r.ub), (INTS, distance))
        moved = c.call(INTS, "llvm.fshr.v64i32", *rows)
        r.put(_op(c, "or", moved, _spread(c, _op(c, "and", r.uc, "splat (i32 31)"))))
    with c.when(kind.equals(Rule.PERMUTE)):
        r.put(_op(c, "or", _permuted(c, r), _spread(c, r.uc)))


_ONE = "splat (i32 1)"


def _permuted(c: Code, r: _Rows) -> str:
    """Selectors from 12 on are constants, those from 8 on the sign of some byte."""
    result = "zeroinitializer"
    either = _spread(c, _op(c, "or", r.ua, r.ub))
    for byte in range(4):
        chosen = _op(c, "and", _op(c, "lshr", r.c, f"splat (i32 {8 * byte})"), "splat (i32 255)")
        shift = _op(c, "and", _op(c, "shl", chosen, "splat (i32 3)"), "splat (i32 24)")
        upper = c.new(f"icmp ugt {INTS} {chosen}, splat (i32 3)")
        found = _op(c, "lshr", _choose(c, upper, r.ua, r.ub), shift)
        sign = c.new(f"icmp ugt {INTS} {chosen}, splat (i32 7)")
        constant = c.new(f"icmp ugt {INTS} {chosen}, splat (i32 11)")
        found = _choose(c, constant, "zeroinitializer", _choose(c, sign, either, found))
        found = _op(c, "and", found, "splat (i32 255)")
        result = _op(c, "or", result, _op(c, "shl", found, f"splat (i32 {8 * byte})"))
    return result


def _choices(c: Code, kind: Num, r: _Rows) -> None:
    with c.when(kind.equals(Rule.INSERT)):
        differ = _op(c, "or", _op(c, "xor", r.b, r.c), _op(c, "or", r.ub, r.uc))
        here = _op(c, "and", r.a, r.ub)
        there = _op(c, "and", _not(c, r.a), r.uc)
        r.put(_op(c, "or", _op(c, "and", r.ua, differ), _op(c, "or", here, there)))
    with c.when(kind.equals(Rule.SELECT)):
        register = c.get("%rule", R_SOURCES + 8 * SOURCE_WORDS, 32)
        value = c.get(c.at("%w", ((register - 512) * 4 + state.SGPR).name))
        place = defined_at(c, register)
        known = (c.get(place) & _FULL) | (c.get(place, 8) << 32)
        taken = _choose(c, _lanes(c, value), r.ub, r.ua)
        r.put(_choose(c, _lanes(c, known), taken, "splat (i32 -1)"))


def _bits() -> Code:
    """Follow ``rule`` for some lanes: the undefined bits of vector register ``result`` (none for
    numbers from 512 on) and its definedness; gives the lanes that are defined after all."""
    parameters = [("ptr", "w"), ("ptr", "rule"), ("i64", "lanes"), ("i64", "result")]
    c = Code("rk_check_bits", parameters, "i64", "noinline nounwind ")
    kind, lanes, result = c.get("%rule", R_KIND, 32), c.param("lanes"), c.param("result")
    outcome = c.var(0)
    whole, *places = (c.new("alloca [2 x <64 x i32>], align 64") for _ in range(4))
    c.set_row("splat (i32 -1)", whole, 1)
    with c.when(kind.differs(Rule.ALL)):
        for i, place in enumerate(places):
            record = c.at("%rule", R_SOURCES + 4 * SOURCE_WORDS * i)
            c.call("void", "check_bits_source", ("ptr", "%w"), ("ptr", record), ("ptr", place))
        rows = _Rows(c, places, whole)
        _simple(c, kind, rows)
        _shifts(c, kind, rows)
        _choices(c, kind, rows)
        second = c.get("%rule", R_SECOND, 32)
        with c.when(second.equals(SECOND_OR)):
            rows.put(_or(c, c.row(whole), c.row(whole, 1), rows.c, rows.uc))
        with c.when(second.equals(SECOND_CARRY)):
            rows.put(_carry(c, _op(c, "or", c.row(whole, 1), rows.uc)))
        _place(c, whole, result)
    found = c.row(whole, 1)
    good = _mask(c, c.new(f"icmp eq {INTS} {found}, zeroinitializer")) & lanes
    outcome.set(good)
    with c.when(result.below(512)):
        row, place = undefined_row(c, result), defined_at(c, result)
        c.set_row(_choose(c, _lanes(c, lanes), found, c.row(row)), row)
        c.put((c.get(place) & ~lanes) | good, place)
    return c.end(outcome.get())


def _place(c: Code, whole: str, result: Num) -> None:
    """Move the undefined bits to the part of the register that is written."""
    low, mask, keep = (c.get("%rule", offset, 32) for offset in (R_LOW, R_MASK, R_KEEP))
    part = _op(c, "and", c.row(whole, 1), _splat(c, mask))
    c.set_row(_op(c, "shl", part, _splat(c, low)), whole, 1)
    with c.when(c.both(keep.differs(0), result.below(512))):
        others = _splat(c, ~(mask << low))
        stays = _op(c, "and", _current(c, result), others)
        c.set_row(_op(c, "or", c.row(whole, 1), stays), whole, 1)


EXTENDED, LOW_HALF, HIGH_HALF, SIGN = 0, 2, 3, 4
"""How data of less than 32 bits fills a register: zeros above, or one half of it; plus SIGN."""


def _lds_bits() -> Code:
    """Registers from ``first`` on get the undefined bits of ``size`` LDS bytes at ``at`` (u32[64])
    in some lanes; ``form`` is for data of less than 32 bits."""
    parameters = [("ptr", "w"), ("ptr", "at")]
    parameters += [("i64", n) for n in ("lanes", "size", "first", "form")]
    c = Code("rk_check_lds_bits", parameters, attributes="noinline nounwind ")
    thread = c.pointer(c.get("%w", at.W_THREAD))
    marks, owned = c.get(thread, at.T_LDS_WRITES), c.get("%w", state.LDS_SIZE, 32)
    size, form = c.param("size"), c.param("form")
    with c.lanes(c.param("lanes")) as lane:
        start = c.get("%at", lane << 2, 32)
        fits = (start + size).at_most(owned)
        with c.when(fits), c.count(0, (size + 3) >> 2) as row:
            undefined = c.var(0)
            rest = size - (row << 2)
            with c.count(0, c.select(rest.below(4), rest, 4)) as byte:
                word = c.get(c.pointer(marks + ((start + (row << 2) + byte) << 2)), 0, 32)
                bad = c.either(word.equals(0), (word & at.LDS_UNDEFINED).differs(0))
                more = c.select(bad, Num(c, "255") << (byte << 3), 0)
                undefined.set(undefined.get() | more)
            _fill(c, undefined.get(), size, form, lane, c.param("first") + row)
    return c.end()


def _fill(c: Code, undefined: Num, size: Num, form: Num, lane: Num, register: Num) -> None:
    bit, place = Num(c, "1") << lane, defined_at(c, register)
    row = c.at(undefined_row(c, register), (lane << 2).name)
    bits = c.select(size.below(4), size << 3, 32)
    signed = c.both((form & SIGN).differs(0), (undefined >> (bits - 1)).differs(0))
    upper = ~((Num(c, "1") << bits) - 1)
    whole = c.select(signed, undefined | upper, undefined) & _FULL
    before = c.select((c.get(place) >> lane & 1).equals(0), c.get(row, 0, 32), 0)
    half = form & 3
    low = (whole & 0xFFFF) | (before & 0xFFFF0000)
    high = (whole << 16 & 0xFFFF0000) | (before & 0xFFFF)
    whole = c.select(half.equals(LOW_HALF), low, c.select(half.equals(HIGH_HALF), high, whole))
    c.put(whole, row, 0, 32)
    c.put(c.select(whole.equals(0), c.get(place) | bit, c.get(place) & ~bit), place)


def bits_functions() -> list[Code]:
    """The functions, those that are called first."""
    return [_source(), _bits(), _lds_bits()]
