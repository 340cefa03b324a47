"""The scalar instructions: arithmetic, logic, comparisons, branches, EXEC."""

from __future__ import annotations

import operator
from collections.abc import Callable

from .machine import EXEC, VCC, Machine
from .program import Inst

Run = Callable[[Machine, Inst], "str | None"]
TABLE: dict[str, Run] = {}


def signed(value: int, bits: int = 32) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def _width(name: str) -> int:
    return 64 if name.endswith("64") else 32


def put(m: Machine, inst: Inst, value: int, bits: int) -> None:
    (m.set_s64 if bits == 64 else m.set_s32)(inst.dst[0].index, value)


def define(name: str, f: Callable[..., object], widths: tuple[int, ...] = (), result: int = 0):
    """``f(*sources)`` gives the value, or (value, scc)."""
    bits = result or _width(name)

    def run(m: Machine, inst: Inst) -> None:
        sizes = widths or (bits,) * len(inst.src)
        found = f(*(m.scalar(x, w) for x, w in zip(inst.src, sizes, strict=True)))
        value, scc = found if isinstance(found, tuple) else (found, None)
        put(m, inst, int(value), bits)
        if scc is not None:
            m.scc = int(scc)

    TABLE[name] = run


def with_old(name: str, f: Callable[[Machine, int, int], object], source: int = 32):
    """``f(machine, old destination, source)`` gives the value, or (value, scc)."""
    bits = _width(name)

    def run(m: Machine, inst: Inst) -> None:
        old = m.scalar(inst.dst[0], bits)
        found = f(m, old, m.scalar(inst.src[0], source))
        value, scc = found if isinstance(found, tuple) else (found, None)
        put(m, inst, int(value), bits)
        if scc is not None:
            m.scc = int(scc)

    TABLE[name] = run


S = signed
define("s_add_u32", lambda a, b: (a + b, a + b >> 32))
define("s_sub_u32", lambda a, b: (a - b, b > a))
define("s_add_i32", lambda a, b: (a + b, S(a) + S(b) != S(a + b)))
define("s_sub_i32", lambda a, b: (a - b, S(a) - S(b) != S(a - b)))
define("s_min_i32", lambda a, b: (min(S(a), S(b)), S(a) < S(b)))
define("s_max_i32", lambda a, b: (max(S(a), S(b)), S(a) >= S(b)))
define("s_min_u32", lambda a, b: (min(a, b), a < b))
define("s_max_u32", lambda a, b: (max(a, b), a >= b))
define("s_mul_i32", lambda a, b: a * b)
define("s_mul_hi_u32", lambda a, b: a * b >> 32)
define("s_mul_hi_i32", lambda a, b: S(a) * S(b) >> 32)
define("s_absdiff_i32", lambda a, b: (abs(S(a - b)), a != b))
define("s_abs_i32", lambda a: (abs(S(a)), a != 0))
for _n in (1, 2, 3, 4):
    define(f"s_lshl{_n}_add_u32", lambda a, b, n=_n: ((a << n) + b, (a << n) + b >> 32 != 0))
define("s_pack_ll_b32_b16", lambda a, b: (b & 0xFFFF) << 16 | a & 0xFFFF, (32, 32), 32)
define("s_pack_lh_b32_b16", lambda a, b: b >> 16 << 16 | a & 0xFFFF, (32, 32), 32)
define("s_pack_hh_b32_b16", lambda a, b: b >> 16 << 16 | a >> 16, (32, 32), 32)
define("s_sext_i32_i8", lambda a: S(a, 8), (32,), 32)
define("s_sext_i32_i16", lambda a: S(a, 16), (32,), 32)


def _carry(name: str, sign: int) -> None:
    def run(m: Machine, inst: Inst) -> None:
        a, b = (m.scalar(x) for x in inst.src)
        total = a + sign * (b + m.scc)
        m.set_s32(inst.dst[0].index, total)
        m.scc = int(total >> 32 != 0)

    TABLE[name] = run


_carry("s_addc_u32", 1)
_carry("s_subb_u32", -1)

for _bits in (32, 64):
    _all = (1 << _bits) - 1
    _logic = {
        "and": lambda a, b, n: a & b,
        "or": lambda a, b, n: a | b,
        "xor": lambda a, b, n: a ^ b,
        "andn2": lambda a, b, n: a & ~b & n,
        "orn2": lambda a, b, n: a | ~b & n,
        "nand": lambda a, b, n: ~(a & b) & n,
        "nor": lambda a, b, n: ~(a | b) & n,
        "xnor": lambda a, b, n: ~(a ^ b) & n,
    }
    for _name, _f in _logic.items():
        define(
            f"s_{_name}_b{_bits}",
            lambda a, b, f=_f, n=_all: (f(a, b, n), f(a, b, n) != 0),
        )
    _shift = _bits - 1
    define(
        f"s_lshl_b{_bits}",
        lambda a, b, k=_shift, n=_all: (a << (b & k) & n, a << (b & k) & n != 0),
        (_bits, 32),
    )
    define(
        f"s_lshr_b{_bits}", lambda a, b, k=_shift: (a >> (b & k), a >> (b & k) != 0), (_bits, 32)
    )
    define(
        f"s_ashr_i{_bits}",
        lambda a, b, k=_shift, w=_bits: (S(a, w) >> (b & k), S(a, w) >> (b & k) != 0),
        (_bits, 32),
    )
    define(
        f"s_bfm_b{_bits}", lambda a, b, k=_shift: ((1 << (a & k)) - 1) << (b & k), (32, 32), _bits
    )

    def _bfe(a: int, b: int, w: int = _bits, sign: bool = False) -> tuple[int, bool]:
        offset, width = b & (w - 1), b >> 16 & 0x7F
        if width == 0:
            return 0, False
        value = (S(a, w) if sign else a) >> offset & ((1 << width) - 1)
        if sign and width < w and offset + width <= w and value >> (width - 1):
            value -= 1 << width
        elif sign and offset + width > w:
            value = S(a, w) >> offset
        return value, value & ((1 << w) - 1) != 0

    define(f"s_bfe_u{_bits}", _bfe, (_bits, 32))
    define(f"s_bfe_i{_bits}", lambda a, b, f=_bfe: f(a, b, sign=True), (_bits, 32))
    define(f"s_not_b{_bits}", lambda a, n=_all: (~a & n, ~a & n != 0))
    define(f"s_mov_b{_bits}", lambda a: a)
    define(
        f"s_brev_b{_bits}",
        lambda a, w=_bits: int(f"{a:0{w}b}"[::-1], 2),
    )
    define(f"s_bcnt1_i32_b{_bits}", lambda a: (bin(a).count("1"), a != 0), (_bits,), 32)
    define(
        f"s_bcnt0_i32_b{_bits}",
        lambda a, n=_all: (bin(~a & n).count("1"), ~a & n != 0),
        (_bits,),
        32,
    )
    define(f"s_ff1_i32_b{_bits}", lambda a: (a & -a).bit_length() - 1, (_bits,), 32)
    define(
        f"s_ff0_i32_b{_bits}",
        lambda a, n=_all: ((~a & n) & -(~a & n)).bit_length() - 1,
        (_bits,),
        32,
    )
    define(
        f"s_flbit_i32_b{_bits}",
        lambda a, w=_bits: w - a.bit_length() if a else -1,
        (_bits,),
        32,
    )
    with_old(f"s_bitset1_b{_bits}", lambda m, old, a, w=_bits: old | 1 << (a & (w - 1)))
    with_old(f"s_bitset0_b{_bits}", lambda m, old, a, w=_bits: old & ~(1 << (a & (w - 1))))
    with_old(f"s_cmov_b{_bits}", lambda m, old, a: a if m.scc else old, _bits)


def _flbit_signed(a: int, bits: int) -> int:
    a = ~a if S(a, bits) < 0 else a
    a &= (1 << bits) - 1
    return bits - a.bit_length() if a else -1


define("s_flbit_i32", lambda a: _flbit_signed(a, 32))
define("s_flbit_i32_i64", lambda a: _flbit_signed(a, 64), (64,), 32)
define(
    "s_bitreplicate_b64_b32",
    lambda a: sum(3 << 2 * i for i in range(32) if a >> i & 1),
    (32,),
    64,
)
with_old("s_addk_i32", lambda m, old, a: (old + a, S(old) + S(a, 16) != S(old + a)))
with_old("s_mulk_i32", lambda m, old, a: old * a)
define("s_movk_i32", lambda a: a)
with_old("s_cmovk_i32", lambda m, old, a: a if m.scc else old)


def _select(name: str, bits: int) -> None:
    def run(m: Machine, inst: Inst) -> None:
        put(m, inst, m.scalar(inst.src[0 if m.scc else 1], bits), bits)

    TABLE[name] = run


_select("s_cselect_b32", 32)
_select("s_cselect_b64", 64)

_COMPARE = {
    "eq": operator.eq,
    "lg": operator.ne,
    "gt": operator.gt,
    "ge": operator.ge,
    "lt": operator.lt,
    "le": operator.le,
}


def _compare(name: str, f: Callable[[int, int], bool], bits: int, is_signed: bool) -> None:
    def run(m: Machine, inst: Inst) -> None:
        operands = (*inst.dst, *inst.src)
        a, b = (m.scalar(x, bits) for x in operands)
        if name.startswith("s_cmpk") and not is_signed:
            b &= 0xFFFF
        m.scc = int(f(S(a, bits), S(b, bits)) if is_signed else f(a, b))

    TABLE[name] = run


for _name, _f in _COMPARE.items():
    for _kind in "iu":
        _compare(f"s_cmp_{_name}_{_kind}32", _f, 32, _kind == "i")
        _compare(f"s_cmpk_{_name}_{_kind}32", _f, 32, _kind == "i")
_compare("s_cmp_eq_u64", operator.eq, 64, False)
_compare("s_cmp_lg_u64", operator.ne, 64, False)


def _bitcmp(name: str, bits: int, wanted: int) -> None:
    def run(m: Machine, inst: Inst) -> None:
        a = m.scalar(inst.src[0], bits)
        m.scc = int((a >> (m.scalar(inst.src[1]) & (bits - 1)) & 1) == wanted)

    TABLE[name] = run


for _bits in (32, 64):
    for _wanted in (0, 1):
        _bitcmp(f"s_bitcmp{_wanted}_b{_bits}", _bits, _wanted)


def _saveexec(name: str, f: Callable[[int, int], int]) -> None:
    def run(m: Machine, inst: Inst) -> None:
        source, old = m.scalar(inst.src[0], 64), m.s64(EXEC)
        m.set_s64(inst.dst[0].index, old)
        result = f(source, old) & (1 << 64) - 1
        m.set_s64(EXEC, result)
        m.scc = int(result != 0)

    TABLE[name] = run


_saveexec("s_and_saveexec_b64", lambda a, e: a & e)
_saveexec("s_or_saveexec_b64", lambda a, e: a | e)
_saveexec("s_xor_saveexec_b64", lambda a, e: a ^ e)
_saveexec("s_andn2_saveexec_b64", lambda a, e: a & ~e)
_saveexec("s_orn2_saveexec_b64", lambda a, e: a | ~e)
_saveexec("s_nand_saveexec_b64", lambda a, e: ~(a & e))
_saveexec("s_nor_saveexec_b64", lambda a, e: ~(a | e))
_saveexec("s_xnor_saveexec_b64", lambda a, e: ~(a ^ e))
_saveexec("s_andn1_saveexec_b64", lambda a, e: ~a & e)
_saveexec("s_orn1_saveexec_b64", lambda a, e: ~a | e)

_BRANCHES = {
    "s_branch": lambda m: True,
    "s_cbranch_scc0": lambda m: not m.scc,
    "s_cbranch_scc1": lambda m: m.scc,
    "s_cbranch_vccz": lambda m: m.s64(VCC) == 0,
    "s_cbranch_vccnz": lambda m: m.s64(VCC) != 0,
    "s_cbranch_execz": lambda m: m.s64(EXEC) == 0,
    "s_cbranch_execnz": lambda m: m.s64(EXEC) != 0,
}
for _name, _f in _BRANCHES.items():
    TABLE[_name] = lambda m, inst, f=_f: inst.target if f(m) else None
for _name in ("s_nop", "s_waitcnt"):
    TABLE[_name] = lambda m, inst: None
