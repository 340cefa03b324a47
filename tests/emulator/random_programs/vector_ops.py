"""The vector instructions: what each computes from 64 lanes of its operand types."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from . import floats
from .lane_sources import dpp, sdwa_result, sdwa_source
from .machine import LANES, Machine, bits_of, lanes_of, mask_of, numpy_type
from .program import Inst, Reg

U32, U64, I64 = np.uint32, np.uint64, np.int64
Run = Callable[[Machine, Inst], "str | None"]


@dataclass(frozen=True)
class Op:
    """``dst`` and ``src`` are types (``u32``, ``f16``, ...); ``f(machine, *sources)``.

    ``forms`` are the encodings that exist (``2``: e32 and e64, ``3``: e64 only, ``d``: DPP, ``s``:
    SDWA). ``keeps_high``: a 16-bit result leaves the upper half of the register alone.
    ``accumulates``: the old destination is the last source. ``loose``: compared with a tolerance.
    """

    name: str
    dst: str
    src: tuple[str, ...]
    f: Callable[..., np.ndarray]
    forms: str = "3"
    keeps_high: bool = False
    accumulates: bool = False
    loose: bool = False
    modifiers: bool = True


OPS: dict[str, Op] = {}
TABLE: dict[str, Run] = {}


def op(name: str, types: str, f: Callable[..., object], forms: str = "3", **more: bool) -> None:
    """``types``: destination, then sources, as in ``u32 u32 u32``."""
    dst, *src = types.split()
    OPS[name] = Op(name, dst, tuple(src), lambda m, *x: f(*x), forms, **more)
    TABLE[name] = run


def op_mode(name: str, types: str, f: Callable[..., object], forms: str = "3", **more: bool):
    """As :func:`op`, for what depends on the mode: ``f(machine, *sources)``."""
    op(name, types, lambda *x: None, forms, **more)
    dst, *src = types.split()
    OPS[name] = Op(name, dst, tuple(src), f, forms, **more)


def typed(bits: np.ndarray, type_: str) -> np.ndarray:
    """Register bits (u32 or u64 lanes) as numbers of a type."""
    width = int(type_[1:])
    narrow = bits.astype(np.dtype(f"u{width // 8}")) if width < 8 * bits.itemsize else bits
    return narrow.view(numpy_type(type_))


def source(m: Machine, inst: Inst, i: int, type_: str) -> np.ndarray:
    """Source ``i`` with its modifiers, before a DPP move."""
    bits = m.lanes(inst.src[i], int(type_[1:]))
    if inst.form == "sdwa":
        select = inst.mods.get(f"src{i}_sel", "DWORD")
        bits = sdwa_source(bits, select, i in inst.mods.get("sext", ()))
    if type_[1:] == "16" and "op_sel" in inst.mods and inst.mods["op_sel"][i]:
        bits = bits >> U32(16)
    return bits


def numbers(m: Machine, inst: Inst, i: int, bits: np.ndarray, type_: str) -> np.ndarray:
    """Typed lanes: |x|, -x, subnormals flushed."""
    values = typed(bits, type_)
    if type_[0] == "f":
        if i in inst.mods.get("abs", ()):
            values = np.abs(values)
        if i in inst.mods.get("neg", ()):
            values = -values
        values = floats.flush(values, m.mode.keeps(int(type_[1:])))
    return values


def sources(m: Machine, inst: Inst, o: Op) -> tuple[list[np.ndarray], np.ndarray]:
    """All sources of an operation, and the lanes that it writes."""
    written = m.exec
    values = []
    for i, type_ in enumerate(o.src[: len(inst.src)]):
        bits = source(m, inst, i, type_)
        if inst.form == "dpp" and i == 0:
            bits, written = dpp(m, inst, bits)
        values.append(numbers(m, inst, i, bits, type_))
    if o.accumulates:
        old = typed(m.lanes(inst.dst[0], int(o.dst[1:])), o.src[-1])
        keep = m.mode.keeps(int(o.src[-1][1:]))
        values.append(floats.flush(old, keep) if o.src[-1][0] == "f" else old)
    return values, written


def run(m: Machine, inst: Inst) -> None:
    o = OPS[inst.op]
    values, written = sources(m, inst, o)
    result = np.asarray(o.f(m, *values)).astype(numpy_type(o.dst))
    if o.dst[0] == "f":
        if inst.mods.get("clamp"):
            result = floats.clamp(result, m.mode)
        result = floats.flush(result, m.mode.keeps(int(o.dst[1:])))
    store(m, inst, result, written, o.keeps_high)


def store(
    m: Machine, inst: Inst, result: np.ndarray, written: np.ndarray, keeps_high: bool = False
) -> None:
    """Write a typed result by the rules of its width and form."""
    bits = bits_of(result)
    reg = inst.dst[0]
    assert isinstance(reg, Reg)
    if bits.dtype == np.uint64:
        m.write(reg, bits, written)
        return
    old = m.v[reg.index].copy()
    wide = bits.astype(U32)
    if inst.form == "sdwa":
        wide = sdwa_result(inst, old, wide)
    elif bits.dtype == np.uint16:
        if inst.mods.get("op_sel", (0,))[-1]:
            wide = old & U32(0xFFFF) | wide << U32(16)
        elif keeps_high or "op_sel" in inst.mods:
            wide = old & U32(0xFFFF0000) | wide
    m.write(reg, wide, written)


# Integers


def _bits(name: str, f: Callable[..., object], forms: str = "2ds", count: int = 2) -> None:
    op(name, " ".join(["u32"] * (count + 1)), f, forms)


_bits("v_add_u32", lambda a, b: a + b)
_bits("v_sub_u32", lambda a, b: a - b)
_bits("v_subrev_u32", lambda a, b: b - a)
_bits("v_and_b32", lambda a, b: a & b)
_bits("v_or_b32", lambda a, b: a | b)
_bits("v_xor_b32", lambda a, b: a ^ b)
_bits("v_xnor_b32", lambda a, b: ~(a ^ b))
_bits("v_lshlrev_b32", lambda a, b: b << (a & U32(31)))
_bits("v_lshrrev_b32", lambda a, b: b >> (a & U32(31)))
op("v_ashrrev_i32", "i32 u32 i32", lambda a, b: b >> (a & U32(31)).astype(np.int32), "2ds")
_bits("v_min_u32", np.minimum)
_bits("v_max_u32", np.maximum)
op("v_min_i32", "i32 i32 i32", np.minimum, "2ds")
op("v_max_i32", "i32 i32 i32", np.maximum, "2ds")


def _24(a: np.ndarray, is_signed: bool) -> np.ndarray:
    low = (a & U32(0xFFFFFF)).astype(I64)
    return (low ^ 0x800000) - 0x800000 if is_signed else low


for _kind, _signed in (("i32_i24", True), ("u32_u24", False)):
    _bits(f"v_mul_{_kind}", lambda a, b, s=_signed: (_24(a, s) * _24(b, s)).astype(U32))
    _bits(f"v_mul_hi_{_kind}", lambda a, b, s=_signed: (_24(a, s) * _24(b, s) >> 32).astype(U32))
    op(
        f"v_mad_{_kind}",
        "u32 u32 u32 u32",
        lambda a, b, c, s=_signed: (_24(a, s) * _24(b, s)).astype(U32) + c,
    )


def _high(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return (a.astype(U64) * b.astype(U64) >> U64(32)).astype(U32)


op("v_mul_lo_u32", "u32 u32 u32", lambda a, b: a * b)
op("v_mul_hi_u32", "u32 u32 u32", _high)
op(
    "v_mul_hi_i32",
    "i32 i32 i32",
    lambda a, b: (a.astype(I64) * b.astype(I64) >> 32).astype(np.int32),
)
for _name, _f in {
    "v_add_u16": lambda a, b: a + b,
    "v_sub_u16": lambda a, b: a - b,
    "v_subrev_u16": lambda a, b: b - a,
    "v_mul_lo_u16": lambda a, b: a * b,
    "v_min_u16": np.minimum,
    "v_max_u16": np.maximum,
    "v_lshlrev_b16": lambda a, b: b << (a & np.uint16(15)),
    "v_lshrrev_b16": lambda a, b: b >> (a & np.uint16(15)),
}.items():
    op(_name, "u16 u16 u16", _f, "2ds")
op("v_ashrrev_i16", "i16 u16 i16", lambda a, b: b >> (a & np.uint16(15)).astype(np.int16), "2ds")
op("v_min_i16", "i16 i16 i16", np.minimum, "2ds")
op("v_max_i16", "i16 i16 i16", np.maximum, "2ds")


def _leading(a: np.ndarray) -> np.ndarray:
    return np.array([32 - int(x).bit_length() if x else -1 for x in a], np.int64).astype(U32)


def _reverse(a: np.ndarray) -> np.ndarray:
    return np.array([int(f"{int(x):032b}"[::-1], 2) for x in a], U32)


def _count(a: np.ndarray) -> np.ndarray:
    return np.array([bin(int(x)).count("1") for x in a], U32)


_bits("v_mov_b32", lambda a: a, "2ds", 1)
_bits("v_not_b32", lambda a: ~a, "2ds", 1)
_bits("v_bfrev_b32", _reverse, "2ds", 1)
_bits("v_ffbh_u32", _leading, "2ds", 1)
_bits(
    "v_ffbl_b32",
    lambda a: np.array([(int(x) & -int(x)).bit_length() - 1 for x in a]).astype(U32),
    "2ds",
    1,
)
_bits("v_ffbh_i32", lambda a: _leading(np.where(a >> U32(31), ~a, a)), "2ds", 1)
for _name, _f in {
    "v_add3_u32": lambda a, b, c: a + b + c,
    "v_lshl_add_u32": lambda a, b, c: (a << (b & U32(31))) + c,
    "v_add_lshl_u32": lambda a, b, c: (a + b) << (c & U32(31)),
    "v_lshl_or_b32": lambda a, b, c: a << (b & U32(31)) | c,
    "v_and_or_b32": lambda a, b, c: a & b | c,
    "v_or3_b32": lambda a, b, c: a | b | c,
    "v_xad_u32": lambda a, b, c: (a ^ b) + c,
    "v_bfi_b32": lambda a, b, c: a & b | ~a & c,
    "v_sad_u32": lambda a, b, c: np.maximum(a, b) - np.minimum(a, b) + c,
    "v_min3_u32": lambda a, b, c: np.minimum(np.minimum(a, b), c),
    "v_max3_u32": lambda a, b, c: np.maximum(np.maximum(a, b), c),
    "v_med3_u32": lambda a, b, c: np.sort([a, b, c], axis=0)[1],
}.items():
    _bits(_name, _f, "3", 3)
for _name, _f in {
    "v_min3_i32": lambda a, b, c: np.minimum(np.minimum(a, b), c),
    "v_max3_i32": lambda a, b, c: np.maximum(np.maximum(a, b), c),
    "v_med3_i32": lambda a, b, c: np.sort([a, b, c], axis=0)[1],
}.items():
    op(_name, "i32 i32 i32 i32", _f)


def _field_mask(width: np.ndarray) -> np.ndarray:
    return (U32(1) << (width & U32(31))) - U32(1)


def _bfe_signed(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    width = (c & U32(31)).astype(I64)
    field = (a.view(np.int32).astype(I64) >> (b & U32(31)).astype(I64)) & ((1 << width) - 1)
    sign = np.where(width > 0, 1 << np.maximum(width - 1, 0), 0)
    return ((field ^ sign) - sign).astype(U32)


_bits("v_bfe_u32", lambda a, b, c: a >> (b & U32(31)) & _field_mask(c), "3", 3)
_bits("v_bfe_i32", _bfe_signed, "3", 3)
_bits("v_bfm_b32", lambda a, b: _field_mask(a) << (b & U32(31)), "3")
_bits("v_bcnt_u32_b32", lambda a, b: _count(a) + b, "3")
_bits(
    "v_mbcnt_lo_u32_b32",
    lambda a, b: _count(a & ((U64(1) << LANES.clip(0, 32).astype(U64)) - U64(1)).astype(U32)) + b,
    "3",
)
_bits(
    "v_mbcnt_hi_u32_b32",
    lambda a, b: (
        _count(a & ((U64(1) << (LANES - 32).clip(0, 32).astype(U64)) - U64(1)).astype(U32)) + b
    ),
    "3",
)


def _pair(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return a.astype(U64) << U64(32) | b


_bits("v_alignbit_b32", lambda a, b, c: (_pair(a, b) >> (c & U32(31))).astype(U32), "3", 3)
_bits("v_alignbyte_b32", lambda a, b, c: (_pair(a, b) >> (c & U32(3)) * U32(8)).astype(U32), "3", 3)


def _bytes(a: np.ndarray) -> np.ndarray:
    """``[64, 4]`` bytes, lowest first."""
    return np.ascontiguousarray(a).view(np.uint8).reshape(64, 4).astype(I64)


def _join(b: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(b.astype(np.uint8)).view(U32).reshape(64)


def _perm(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    data = np.concatenate([_bytes(b), _bytes(a)], axis=1)
    signs = np.where(data[:, [1, 3, 5, 7]] >= 128, 255, 0)
    table = np.concatenate([data, signs, np.zeros((64, 1), I64), np.full((64, 243), 255)], axis=1)
    return _join(np.take_along_axis(table, _bytes(c), axis=1))


def _sad(a: np.ndarray, b: np.ndarray, masked: bool = False) -> np.ndarray:
    off = np.abs(_bytes(a) - _bytes(b))
    if masked:
        off = np.where(_bytes(b) == 0, 0, off)
    return off.sum(axis=1).astype(U32)


_bits("v_perm_b32", _perm, "3", 3)
_bits("v_lerp_u8", lambda a, b, c: _join(_bytes(a) + _bytes(b) + (_bytes(c) & 1) >> 1), "3", 3)
_bits("v_sad_u8", lambda a, b, c: _sad(a, b) + c, "3", 3)
_bits("v_sad_hi_u8", lambda a, b, c: (_sad(a, b) << U32(16)) + c, "3", 3)
_bits("v_msad_u8", lambda a, b, c: _sad(a, b, True) + c, "3", 3)


def _words(a: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(a).view(np.uint16).reshape(64, 2).astype(I64)


_bits(
    "v_sad_u16",
    lambda a, b, c: np.abs(_words(a) - _words(b)).sum(axis=1).astype(U32) + c,
    "3",
    3,
)
_bits(
    "v_cvt_pk_u16_u32",
    lambda a, b: np.minimum(a, U32(65535)) | np.minimum(b, U32(65535)) << U32(16),
    "3",
)
op(
    "v_cvt_pk_i16_i32",
    "u32 i32 i32",
    lambda a, b: (
        (a.clip(-32768, 32767) & 0xFFFF).astype(U32)
        | (b.clip(-32768, 32767) & 0xFFFF).astype(U32) << U32(16)
    ),
)
op("v_lshlrev_b64", "u64 u32 u64", lambda a, b: b << (a & U32(63)).astype(U64))
op("v_lshrrev_b64", "u64 u32 u64", lambda a, b: b >> (a & U32(63)).astype(U64))
op("v_ashrrev_i64", "i64 u32 i64", lambda a, b: b >> (a & U32(63)).astype(I64))
op("v_mad_u16", "u16 u16 u16 u16", lambda a, b, c: a * b + c, keeps_high=True)
op("v_mad_i16", "i16 i16 i16 i16", lambda a, b, c: a * b + c, keeps_high=True)
op("v_pack_b32_f16", "u32 u16 u16", lambda a, b: a.astype(U32) | b.astype(U32) << U32(16))

# gfx942 and gfx950
op("v_mov_b64", "u64 u64", lambda a: a, "2")
op("v_lshl_add_u64", "u64 u64 u32 u64", lambda a, b, c: (a << (b & U32(7)).astype(U64)) + c)


def run_bitop3(m: Machine, inst: Inst) -> None:
    """Each bit: the table's bit at the index that the three source bits form."""
    a, b, c = (m.lanes(x, 32) for x in inst.src)
    table = inst.mods["bitop3"]
    result = np.zeros(64, U32)
    for i in range(8):
        if table >> i & 1:
            x, y, z = (s if i >> k & 1 else ~s for s, k in ((a, 2), (b, 1), (c, 0)))
            result |= x & y & z
    m.write(inst.dst[0], result)


TABLE["v_bitop3_b32"] = run_bitop3


def _swap_run(rows: int) -> Run:
    def run_swap(m: Machine, inst: Inst) -> None:
        """Odd rows of the first register change places with even rows of the second."""
        first, second = m.v[inst.dst[0].index], m.v[inst.src[0].index]
        for start in range(0, 64, 2 * rows):
            low, high = slice(start, start + rows), slice(start + rows, start + 2 * rows)
            first[high], second[low] = second[low].copy(), first[high].copy()

    return run_swap


TABLE["v_permlane32_swap_b32"] = _swap_run(32)
TABLE["v_permlane16_swap_b32"] = _swap_run(16)


# Carries


def _carry(name: str, f: Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray], uses: bool):
    def run_carry(m: Machine, inst: Inst) -> None:
        written = m.exec
        a, b = (source(m, inst, i, "u32") for i in (0, 1))
        if inst.form == "dpp":
            a, written = dpp(m, inst, a)
        carry = np.zeros(64, I64)
        if uses:
            reg = inst.src[2]
            carry = lanes_of(m.s64(reg.index)).astype(I64)
        total = f(a.astype(I64), b.astype(I64), carry)
        out = (total < 0) | (total >> 32 > 0)
        m.set_s64(inst.dst[1].index, mask_of(out & written))
        store(m, inst, (total & 0xFFFFFFFF).astype(U32), written)

    TABLE[name] = run_carry


_carry("v_add_co_u32", lambda a, b, c: a + b, False)
_carry("v_sub_co_u32", lambda a, b, c: a - b, False)
_carry("v_subrev_co_u32", lambda a, b, c: b - a, False)
_carry("v_addc_co_u32", lambda a, b, c: a + b + c, True)
_carry("v_subb_co_u32", lambda a, b, c: a - b - c, True)
_carry("v_subbrev_co_u32", lambda a, b, c: b - a - c, True)


def _mad64(name: str, is_signed: bool) -> None:
    def run_mad(m: Machine, inst: Inst) -> None:
        a, b = (m.lanes(x, 32) for x in inst.src[:2])
        c = m.lanes(inst.src[2], 64)
        result, carry = np.zeros(64, U64), np.zeros(64, bool)
        for i in range(64):
            x, y, z = int(a[i]), int(b[i]), int(c[i])
            if is_signed:
                x, y = (v - (1 << 32) if v >> 31 else v for v in (x, y))
                z = z - (1 << 64) if z >> 63 else z
            total = x * y + z
            result[i] = total & (1 << 64) - 1
            carry[i] = not (-(1 << 63) <= total < 1 << 63) if is_signed else total >> 64 != 0
        m.write(inst.dst[0], result)
        m.set_s64(inst.dst[1].index, mask_of(carry & m.exec))

    TABLE[name] = run_mad


_mad64("v_mad_u64_u32", False)


def run_cndmask(m: Machine, inst: Inst) -> None:
    written = m.exec
    a, b = (source(m, inst, i, "u32") for i in (0, 1))
    if inst.form == "dpp":
        a, written = dpp(m, inst, a)
    a, b = (_signs(inst, i, x) for i, x in enumerate((a, b)))
    chosen = np.where(lanes_of(m.s64(inst.src[2].index)), b, a)
    store(m, inst, chosen, written)


def _signs(inst: Inst, i: int, bits: np.ndarray) -> np.ndarray:
    if i in inst.mods.get("abs", ()):
        bits = bits & U32(0x7FFFFFFF)
    return bits ^ U32(0x80000000) if i in inst.mods.get("neg", ()) else bits


TABLE["v_cndmask_b32"] = run_cndmask


# Between lanes and scalars


def run_readfirstlane(m: Machine, inst: Inst) -> None:
    active = np.flatnonzero(m.exec)
    m.set_s32(inst.dst[0].index, int(m.v[inst.src[0].index][active[0] if active.size else 0]))


def run_readlane(m: Machine, inst: Inst) -> None:
    lane = m.scalar(inst.src[1]) & 63
    m.set_s32(inst.dst[0].index, int(m.v[inst.src[0].index][lane]))


def run_writelane(m: Machine, inst: Inst) -> None:
    lane = m.scalar(inst.src[1]) & 63
    m.v[inst.dst[0].index][lane] = m.scalar(inst.src[0])


def run_accvgpr(m: Machine, inst: Inst) -> None:
    m.write(inst.dst[0], m.lanes(inst.src[0], 32))


TABLE["v_readfirstlane_b32"] = run_readfirstlane
TABLE["v_readlane_b32"] = run_readlane
TABLE["v_writelane_b32"] = run_writelane
TABLE["v_accvgpr_read_b32"] = TABLE["v_accvgpr_write_b32"] = run_accvgpr


def run_swap(m: Machine, inst: Inst) -> None:
    a, b = inst.dst[0].index, inst.src[0].index
    on = m.exec
    m.v[a][on], m.v[b][on] = m.v[b][on].copy(), m.v[a][on].copy()


TABLE["v_swap_b32"] = run_swap
