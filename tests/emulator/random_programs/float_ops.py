"""Float instructions, conversions and comparisons."""

from __future__ import annotations

import operator
from collections.abc import Callable

import numpy as np

from . import floats
from .lane_sources import dpp
from .machine import EXEC, Machine, mask_of
from .program import Inst
from .vector_ops import TABLE, numbers, op, op_mode, source

F16, F32, F64 = np.float16, np.float32, np.float64

for _t, _forms in (("f32", "2ds"), ("f16", "2ds")):
    op(f"v_add_{_t}", f"{_t} {_t} {_t}", lambda a, b: a + b, _forms)
    op(f"v_sub_{_t}", f"{_t} {_t} {_t}", lambda a, b: a - b, _forms)
    op(f"v_subrev_{_t}", f"{_t} {_t} {_t}", lambda a, b: b - a, _forms)
    op(f"v_mul_{_t}", f"{_t} {_t} {_t}", lambda a, b: a * b, _forms)
for _t, _forms in (("f32", "2ds"), ("f16", "2ds"), ("f64", "3")):
    for _name, _big in (("min", False), ("max", True)):
        op_mode(
            f"v_{_name}_{_t}",
            f"{_t} {_t} {_t}",
            lambda m, a, b, big=_big: floats.minmax(a, b, big, m.mode),
            _forms,
        )
op("v_add_f64", "f64 f64 f64", lambda a, b: a + b)
op("v_mul_f64", "f64 f64 f64", lambda a, b: a * b)
op("v_fma_f64", "f64 f64 f64 f64", floats.fma)
op("v_fma_f32", "f32 f32 f32 f32", floats.fma)
op("v_fma_f16", "f16 f16 f16 f16", floats.fma, keeps_high=True)
op("v_fmac_f32", "f32 f32 f32 f32", floats.fma, "2d", accumulates=True)


def _med3(m: Machine, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """The middle one; the least where one is NaN.

    The guide finds it by comparing for equality, which leaves the sign of a zero open. Here -0 is
    less than +0, as it is for the minimum and the maximum.
    """
    low, high = (floats.minmax(a, b, big, m.mode) for big in (False, True))
    middle = floats.minmax(low, floats.minmax(high, c, False, m.mode), True, m.mode)
    bad = np.isnan(a) | np.isnan(b) | np.isnan(c)
    return np.where(bad, floats.minmax(low, c, False, m.mode), middle)


op_mode("v_med3_f32", "f32 f32 f32 f32", _med3)
for _name, _big in (("min", False), ("max", True)):
    op_mode(
        f"v_{_name}3_f32",
        "f32 f32 f32 f32",
        lambda m, a, b, c, big=_big: floats.minmax(
            floats.minmax(a, b, big, m.mode), c, big, m.mode
        ),
    )

for _t in ("f32", "f16"):
    for _name, _f in {
        "trunc": np.trunc,
        "ceil": np.ceil,
        "floor": np.floor,
        "rndne": np.rint,
    }.items():
        op(f"v_{_name}_{_t}", f"{_t} {_t}", _f, "2ds")
    op(f"v_frexp_mant_{_t}", f"{_t} {_t}", lambda a: floats.frexp(a)[0], "2ds")
op("v_frexp_exp_i32_f32", "i32 f32", lambda a: floats.frexp(a)[1], "2ds")
op("v_frexp_exp_i16_f16", "i16 f16", lambda a: floats.frexp(a)[1], "2ds")


def _fract(a: np.ndarray) -> np.ndarray:
    below_one = np.nextafter(a.dtype.type(1), a.dtype.type(0))
    part = a - np.floor(a)
    return np.where(part >= 1, below_one, part)


op("v_fract_f32", "f32 f32", _fract, "2ds")
op("v_ldexp_f32", "f32 f32 i32", lambda a, b: np.ldexp(a, b.clip(-400, 400)), "3")

for _name, _types, _f in (
    ("v_cvt_f32_i32", "f32 i32", lambda a: a.astype(F32)),
    ("v_cvt_f32_u32", "f32 u32", lambda a: a.astype(F32)),
    ("v_cvt_i32_f32", "i32 f32", lambda a: floats.to_int(a, "i4")),
    ("v_cvt_u32_f32", "u32 f32", lambda a: floats.to_int(a, "u4")),
    ("v_cvt_flr_i32_f32", "i32 f32", lambda a: floats.to_int(np.floor(a), "i4")),
    ("v_cvt_f16_f32", "f16 f32", lambda a: a.astype(F16)),
    ("v_cvt_f32_f16", "f32 f16", lambda a: np.where(np.isnan(a), F32(np.nan), a.astype(F32))),
    ("v_cvt_f16_i16", "f16 i16", lambda a: a.astype(F16)),
    ("v_cvt_f16_u16", "f16 u16", lambda a: a.astype(F16)),
    ("v_cvt_i16_f16", "i16 f16", lambda a: floats.to_int(a, "i2")),
    ("v_cvt_u16_f16", "u16 f16", lambda a: floats.to_int(a, "u2")),
):
    op(_name, _types, _f, "2ds")
for _i in range(4):
    op(
        f"v_cvt_f32_ubyte{_i}",
        "f32 u32",
        lambda a, i=_i: (a >> np.uint32(8 * i) & np.uint32(255)).astype(F32),
        "2ds",
    )
op("v_cvt_f64_f32", "f64 f32", lambda a: a.astype(F64), "2")
op("v_cvt_f32_f64", "f32 f64", lambda a: a.astype(F32), "2")
op("v_cvt_f64_i32", "f64 i32", lambda a: a.astype(F64), "2")
op("v_cvt_f64_u32", "f64 u32", lambda a: a.astype(F64), "2")
op("v_cvt_i32_f64", "i32 f64", lambda a: floats.to_int(a, "i4"), "2")
op("v_cvt_u32_f64", "u32 f64", lambda a: floats.to_int(a, "u4"), "2")


def _pair16(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    return low.view(np.uint16).astype(np.uint32) | high.view(np.uint16).astype(np.uint32) << 16


op(
    "v_cvt_pkrtz_f16_f32",
    "u32 f32 f32",
    lambda a, b: _pair16(floats.toward_zero_half(a), floats.toward_zero_half(b)),
)


def _bf16(a: np.ndarray) -> np.ndarray:
    bits = a.view(np.uint32).astype(np.uint64)
    odd = bits >> np.uint64(16) & np.uint64(1)
    near = bits + np.uint64(0x7FFF) + odd >> np.uint64(16)
    return np.where(np.isnan(a), np.uint64(0x7FC0), near).astype(np.uint32)


op("v_cvt_pk_bf16_f32", "u32 f32 f32", lambda a, b: _bf16(a) | _bf16(b) << np.uint32(16))

for _name, _f in {
    "v_rcp_f32": lambda a: F64(1) / a.astype(F64),
    "v_rsq_f32": lambda a: F64(1) / np.sqrt(a.astype(F64)),
    "v_sqrt_f32": lambda a: np.sqrt(a.astype(F64)),
    "v_exp_f32": lambda a: np.exp2(a.astype(F64)),
    "v_log_f32": lambda a: np.log2(a.astype(F64)),
}.items():
    op(_name, "f32 f32", _f, "2", loose=True)

# Comparisons

FLOAT_CONDITIONS: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "f": lambda a, b: a != a & False if a.dtype.kind != "f" else np.zeros(64, bool),
    "lt": operator.lt,
    "eq": operator.eq,
    "le": operator.le,
    "gt": operator.gt,
    "lg": lambda a, b: (a < b) | (a > b),
    "ge": operator.ge,
    "o": lambda a, b: ~(np.isnan(a) | np.isnan(b)),
    "u": lambda a, b: np.isnan(a) | np.isnan(b),
    "nge": lambda a, b: ~(a >= b),
    "nlg": lambda a, b: ~((a < b) | (a > b)),
    "ngt": lambda a, b: ~(a > b),
    "nle": lambda a, b: ~(a <= b),
    "neq": lambda a, b: ~(a == b),
    "nlt": lambda a, b: ~(a < b),
    "tru": lambda a, b: np.ones(64, bool),
}
INT_CONDITIONS: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "f": lambda a, b: np.zeros(64, bool),
    "lt": operator.lt,
    "eq": operator.eq,
    "le": operator.le,
    "gt": operator.gt,
    "ne": operator.ne,
    "ge": operator.ge,
    "t": lambda a, b: np.ones(64, bool),
}
COMPARES: dict[str, str] = {}
"""Operand type of each comparison."""


def _compare(name: str, type_: str, f: Callable[..., np.ndarray], types: tuple[str, ...]) -> None:
    writes_exec = name.startswith("v_cmpx")

    def run(m: Machine, inst: Inst) -> None:
        values = []
        for i, kind in enumerate(types):
            bits = source(m, inst, i, kind)
            if inst.form == "dpp" and i == 0:
                bits, _ = dpp(m, inst, bits)
            values.append(numbers(m, inst, i, bits, kind))
        result = mask_of(f(*values) & m.exec)
        m.set_s64(inst.dst[0].index, result)
        if writes_exec:
            m.set_s64(EXEC, result)

    TABLE[name] = run
    COMPARES[name] = type_


for _prefix in ("v_cmp", "v_cmpx"):
    for _t in ("f16", "f32", "f64"):
        for _c, _f in FLOAT_CONDITIONS.items():
            _compare(f"{_prefix}_{_c}_{_t}", _t, _f, (_t, _t))
    for _t in ("i16", "u16", "i32", "u32", "i64", "u64"):
        for _c, _f in INT_CONDITIONS.items():
            _compare(f"{_prefix}_{_c}_{_t}", _t, _f, (_t, _t))


def _class(m: Machine, inst: Inst) -> None:
    type_ = inst.op.rsplit("_", 1)[1]
    bits = source(m, inst, 0, type_)
    values = bits.astype(f"u{int(type_[1:]) // 8}").view(f"f{int(type_[1:]) // 8}")
    mask = m.lanes(inst.src[1], 32)
    m.set_s64(
        inst.dst[0].index,
        mask_of((floats.class_bits(values) & mask.astype(np.int64) != 0) & m.exec),
    )


TABLE["v_cmp_class_f32"] = TABLE["v_cmp_class_f16"] = _class
