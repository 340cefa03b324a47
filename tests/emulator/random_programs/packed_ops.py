"""VOP3P: two numbers a register, dot products, mixed precision, two f32 in a register pair."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from . import floats
from .machine import Machine, bits_of, numpy_type
from .program import Inst
from .vector_ops import TABLE

U32 = np.uint32
PACKED: dict[str, tuple[str, int]] = {}
"""Type and number of sources of the packed 16-bit operations."""


def _select(m: Machine, inst: Inst, i: int, high: bool) -> np.ndarray:
    """The half of source ``i`` that the low or the high result takes, as u16."""
    default = (1,) * len(inst.src) if high else (0,) * len(inst.src)
    chosen = inst.mods.get("op_sel_hi" if high else "op_sel", default)[i]
    return (m.lanes(inst.src[i], 16) >> U32(16 * chosen)).astype(np.uint16)


def packed(name: str, type_: str, count: int, f: Callable[..., np.ndarray]) -> None:
    def run(m: Machine, inst: Inst) -> None:
        result = np.zeros(64, U32)
        for high in (False, True):
            values = []
            for i in range(count):
                value = _select(m, inst, i, high).view(numpy_type(type_))
                if type_ == "f16":
                    if i in _negated(inst, "neg_hi" if high else "neg_lo"):
                        value = -value
                    value = floats.flush(value, m.mode.keep16_64)
                values.append(value)
            out = np.asarray(f(m, *values)).astype(numpy_type(type_))
            if type_ == "f16":
                if inst.mods.get("clamp"):
                    out = floats.clamp(out, m.mode)
                out = floats.flush(out, m.mode.keep16_64)
            result |= bits_of(out).astype(U32) << U32(16 * high)
        m.write(inst.dst[0], result)

    TABLE[name] = run
    PACKED[name] = (type_, count)


def _negated(inst: Inst, name: str) -> list[int]:
    return [i for i, bit in enumerate(inst.mods.get(name, ())) if bit]


for _name, _type, _f in (
    ("v_pk_add_u16", "u16", lambda m, a, b: a + b),
    ("v_pk_add_i16", "i16", lambda m, a, b: a + b),
    ("v_pk_sub_u16", "u16", lambda m, a, b: a - b),
    ("v_pk_sub_i16", "i16", lambda m, a, b: a - b),
    ("v_pk_mul_lo_u16", "u16", lambda m, a, b: a * b),
    ("v_pk_min_u16", "u16", lambda m, a, b: np.minimum(a, b)),
    ("v_pk_max_u16", "u16", lambda m, a, b: np.maximum(a, b)),
    ("v_pk_min_i16", "i16", lambda m, a, b: np.minimum(a, b)),
    ("v_pk_max_i16", "i16", lambda m, a, b: np.maximum(a, b)),
    ("v_pk_lshlrev_b16", "u16", lambda m, a, b: b << (a & np.uint16(15))),
    ("v_pk_lshrrev_b16", "u16", lambda m, a, b: b >> (a & np.uint16(15))),
    ("v_pk_ashrrev_i16", "i16", lambda m, a, b: b >> (a & np.int16(15))),
    ("v_pk_add_f16", "f16", lambda m, a, b: a + b),
    ("v_pk_mul_f16", "f16", lambda m, a, b: a * b),
    ("v_pk_min_f16", "f16", lambda m, a, b: floats.minmax(a, b, False, m.mode)),
    ("v_pk_max_f16", "f16", lambda m, a, b: floats.minmax(a, b, True, m.mode)),
):
    packed(_name, _type, 2, _f)
packed("v_pk_mad_u16", "u16", 3, lambda m, a, b, c: a * b + c)
packed("v_pk_mad_i16", "i16", 3, lambda m, a, b, c: a * b + c)
packed("v_pk_fma_f16", "f16", 3, lambda m, a, b, c: floats.fma(a, b, c))


def pairs(name: str, count: int, f: Callable[..., np.ndarray]) -> None:
    """Operations on two f32 in a register pair."""

    def run(m: Machine, inst: Inst) -> None:
        result = np.zeros(64, np.uint64)
        for high in (False, True):
            values = []
            for i in range(count):
                default = (1,) * count if high else (0,) * count
                chosen = inst.mods.get("op_sel_hi" if high else "op_sel", default)[i]
                bits = (m.lanes(inst.src[i], 64) >> np.uint64(32 * chosen)).astype(U32)
                value = bits.view(np.float32)
                if i in _negated(inst, "neg_hi" if high else "neg_lo"):
                    value = -value
                values.append(floats.flush(value, m.mode.keep32))
            out = floats.flush(f(*values).astype(np.float32), m.mode.keep32)
            result |= bits_of(out).astype(np.uint64) << np.uint64(32 * high)
        m.write(inst.dst[0], result)

    TABLE[name] = run
    PACKED[name] = ("pair", count)


pairs("v_pk_add_f32", 2, lambda a, b: a + b)
pairs("v_pk_mul_f32", 2, lambda a, b: a * b)
pairs("v_pk_fma_f32", 3, floats.fma)


def run_pk_mov(m: Machine, inst: Inst) -> None:
    """Low result from source 0, high one from source 1; op_sel picks their halves."""
    first, second = inst.mods.get("op_sel", (0, 0))
    low = m.lanes(inst.src[0], 64) >> np.uint64(32 * first) & np.uint64(0xFFFFFFFF)
    high = m.lanes(inst.src[1], 64) >> np.uint64(32 * second) & np.uint64(0xFFFFFFFF)
    m.write(inst.dst[0], low | high << np.uint64(32))


TABLE["v_pk_mov_b32"] = run_pk_mov


def dot(name: str, bits: int, is_signed: bool) -> None:
    def run(m: Machine, inst: Inst) -> None:
        a, b, c = (m.lanes(x, 32) for x in inst.src)
        total = c.astype(np.int64)
        if is_signed:
            total = c.view(np.int32).astype(np.int64)
        for i in range(32 // bits):
            parts = []
            for x in (a, b):
                part = (x >> U32(bits * i) & U32((1 << bits) - 1)).astype(np.int64)
                if is_signed:
                    part = (part ^ (1 << (bits - 1))) - (1 << (bits - 1))
                parts.append(part)
            total = total + parts[0] * parts[1]
        m.write(inst.dst[0], (total & 0xFFFFFFFF).astype(U32))

    TABLE[name] = run
    PACKED[name] = ("dot", 3)


for _bits, _parts in ((16, 2), (8, 4), (4, 8)):
    dot(f"v_dot{_parts}_i32_i{_bits}", _bits, True)
    dot(f"v_dot{_parts}_u32_u{_bits}", _bits, False)


def mix(name: str, half: int | None) -> None:
    """Fused multiply-add in f32; op_sel_hi: the source is f16, op_sel: its upper half."""

    def run(m: Machine, inst: Inst) -> None:
        values = []
        for i, x in enumerate(inst.src):
            bits = m.lanes(x, 32)
            if inst.mods["op_sel_hi"][i]:
                part = (bits >> U32(16 * inst.mods["op_sel"][i])).astype(np.uint16)
                value = floats.flush(part.view(np.float16), m.mode.keep16_64).astype(np.float32)
            else:
                value = floats.flush(bits.view(np.float32), m.mode.keep32)
            if i in inst.mods.get("abs", ()):
                value = np.abs(value)
            values.append(-value if i in inst.mods.get("neg", ()) else value)
        if half is None:
            total = floats.flush(floats.fma(*values), m.mode.keep32)
            m.write(inst.dst[0], bits_of(total))
            return
        total = bits_of(floats.fma(*values).astype(np.float16)).astype(U32)
        old = m.v[inst.dst[0].index]
        kept = old & U32(0xFFFF0000 if half == 0 else 0xFFFF)
        m.write(inst.dst[0], kept | total << U32(16 * half))

    TABLE[name] = run
    PACKED[name] = ("mix", 3)


mix("v_fma_mix_f32", None)
