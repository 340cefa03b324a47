"""Vector conversions between integer and float formats, and packing.

Sources: AMD Instinct MI200, MI300 and CDNA4 ISA guides, *VOP1* and *VOP3 instructions*. Float to
integer
truncates, saturates, and gives 0 for a NaN.
"""

from __future__ import annotations

import math

from rocke.emulator.semantics import floatmath as fm
from rocke.emulator.semantics.expr import (
    BF16,
    F16,
    F32,
    F64,
    I16,
    I32,
    U8,
    U16,
    U32,
    Emitter,
    Type,
    Value,
)
from rocke.emulator.semantics.vector import vop


def pack(low: Value, high: Value) -> Value:
    """Two 16-bit values in one U32."""
    return low.bitcast(U16).zext(U32) | high.bitcast(U16).zext(U32) << 16


def to_f16_toward_zero(e: Emitter, x: Value) -> Value:
    """f32 to f16, rounded toward zero (overflow gives the largest finite number)."""
    near = x.ftrunc(F16)
    beyond = near.fext(F32).fabs() > x.fabs()
    bits = near.bitcast(U16)
    return e.select(beyond, bits - 1, bits).bitcast(F16)


def _to_f16(e: Emitter, x: Value) -> Value:
    half = x.ftrunc(F16)
    return fm.limit_overflow(e, half, [x]) if e.mode.fp16_overflow else half


def to_bf16(e: Emitter, x: Value) -> Value:
    """f32 to bfloat16 bits, nearest even; a NaN stays one (quiet)."""
    bits = x.bitcast(U32)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    nan = (bits >> 16) | 0x40
    return e.select(x.is_nan(), nan, rounded).trunc(U16).view(BF16)


def from_bf16(e: Emitter, x: Value) -> Value:
    """bfloat16 bits to f32 (exact)."""
    return (x.zext(U32) << 16).bitcast(F32)


for _name, _type in (("u32", U32), ("i32", I32)):
    for _float_name, _float in (("f32", F32), ("f64", F64)):
        vop(f"v_cvt_{_name}_{_float_name}", _type, (_float,), lambda e, x, t=_type: x.to_int(t))
        vop(
            f"v_cvt_{_float_name}_{_name}", _float, (_type,),
            lambda e, x, t=_float: x.to_float(t), raw_float=True,
        )  # fmt: skip
for _name, _type in (("u16", U16), ("i16", I16)):
    vop(f"v_cvt_{_name}_f16", _type, (F16,), lambda e, x, t=_type: x.fext(F32).to_int(t))
    vop(f"v_cvt_f16_{_name}", F16, (_type,), lambda e, x: x.to_float(F32).ftrunc(F16))

vop("v_cvt_f32_f16", F32, (F16,), lambda e, x: x.fext(F32))
vop("v_cvt_f16_f32", F16, (F32,), lambda e, x: x.ftrunc(F16))
vop("v_cvt_f32_f64", F32, (F64,), lambda e, x: x.ftrunc(F32))
vop("v_cvt_f64_f32", F64, (F32,), lambda e, x: x.fext(F64))
vop("v_cvt_f32_bf16", F32, (BF16,), from_bf16)
vop("v_cvt_rpi_i32_f32", I32, (F32,), lambda e, x: e.call(F32, "floor", x + 0.5).to_int(I32))
vop("v_cvt_flr_i32_f32", I32, (F32,), lambda e, x: e.call(F32, "floor", x).to_int(I32))
for _i in range(4):
    vop(
        f"v_cvt_f32_ubyte{_i}", F32, (U32,),
        lambda e, x, n=_i: ((x >> (8 * n)) & 0xFF).to_float(F32), raw_float=True,
    )  # fmt: skip
vop(
    "v_cvt_off_f32_i4",
    F32,
    (U32,),
    lambda e, x: (x.view(I32) << 28 >> 28).to_float(F32) * 0.0625,
)

vop(
    "v_cvt_pkrtz_f16_f32",
    U32,
    (F32, F32),
    lambda e, a, b: pack(to_f16_toward_zero(e, a), to_f16_toward_zero(e, b)),
)
vop("v_cvt_pk_f16_f32", U32, (F32, F32), lambda e, a, b: pack(_to_f16(e, a), _to_f16(e, b)))
vop("v_cvt_pk_bf16_f32", U32, (F32, F32), lambda e, a, b: pack(to_bf16(e, a), to_bf16(e, b)))
vop("v_pack_b32_f16", U32, (F16, F16), lambda e, a, b: pack(a, b))


def _normalized(e: Emitter, x: Value, t: Type) -> Value:
    """[-1, 1] or [0, 1] to the full range of a 16-bit integer, nearest even."""
    low, top = (-1.0, 32767.0) if t is I16 else (0.0, 65535.0)
    wide = fm.widen(x)
    limited = e.select(wide > low, wide, low)
    limited = e.select(limited < 1.0, limited, 1.0)
    number = e.call(F32, "rint", limited * top).to_int(t)
    return e.select(wide.is_nan(), e.const(t, 0), number)


for _name, _type in (("i16", I16), ("u16", U16)):
    for _float_name, _float in (("f32", F32), ("f16", F16)):
        vop(
            f"v_cvt_pknorm_{_name}_{_float_name}", U32, (_float, _float),
            lambda e, a, b, t=_type: pack(_normalized(e, a, t), _normalized(e, b, t)),
        )  # fmt: skip
    if _type is I16:
        vop("v_cvt_norm_i16_f16", I16, (F16,), lambda e, x: _normalized(e, x, I16))
    else:
        vop("v_cvt_norm_u16_f16", U16, (F16,), lambda e, x: _normalized(e, x, U16))

vop(
    "v_cvt_pk_u16_u32",
    U32,
    (U32, U32),
    lambda e, a, b: a.minimum(0xFFFF) | b.minimum(0xFFFF) << 16,
)
vop(
    "v_cvt_pk_i16_i32",
    U32,
    (I32, I32),
    lambda e, a, b: pack(*(v.minimum(0x7FFF).maximum(-0x8000).trunc(I16) for v in (a, b))),
)


def _pk_u8(e: Emitter, x: Value, index: Value, old: Value) -> Value:
    """The byte chosen by ``index`` of ``old`` becomes x, truncated and limited to 0..255."""
    shift = (index & 3) << 3
    byte = x.to_int(U8).zext(U32)
    return (old & ~(e.const(U32, 0xFF) << shift)) | byte << shift


vop("v_cvt_pk_u8_f32", U32, (F32, U32, U32), _pk_u8)
vop("v_cvt_pkaccum_u8_f32", U32, (F32, U32), _pk_u8, reads_result=True)
vop(
    "v_sat_pk_u8_i16",
    U16,
    (U32,),
    lambda e, x: _byte(x.view(I32) << 16 >> 16) | _byte(x.view(I32) >> 16) << 8,
)


def _byte(x: Value) -> Value:
    return x.maximum(0).minimum(255).trunc(U16)


def _stochastic_f16(e: Emitter, x: Value, seed: Value) -> Value:
    """f32 to f16, up or down by chance: ``seed`` counts below the last kept place."""
    size = x.bitcast(U32) & 0x7FFF_FFFF
    magnitude = x.fabs()
    normal = ((size + (seed >> 19)) >> 13) - (112 << 10)
    small = magnitude < 2.0**-14
    fraction = (seed >> 8).to_float(F32) * 2.0**-24
    steps = e.select(small, magnitude, 0.0) * 2.0**24
    code = e.select(small, e.call(F32, "floor", steps + fraction).to_int(U32), normal)
    code = code.minimum(0x7BFF if e.mode.fp16_overflow else 0x7C00)
    code = e.select(magnitude.eq(math.inf), e.const(U32, 0x7C00), code)
    code = e.select(x.is_nan(), e.const(U32, 0x7E00), code)
    return (code | (x.bitcast(U32) >> 16) & 0x8000).trunc(U16).bitcast(F16)


def _stochastic_bf16(e: Emitter, x: Value, seed: Value) -> Value:
    bits = x.bitcast(U32)
    finite = x.fabs() < math.inf
    code = e.select(finite, (bits + (seed >> 16)) >> 16, bits >> 16)
    return e.select(x.is_nan(), (bits >> 16) | 0x40, code).trunc(U16).view(BF16)


# Which bits of the seed count is published for the 8-bit formats (the high ones) and taken to hold
# here too.
vop("v_cvt_sr_f16_f32", F16, (F32, U32), _stochastic_f16, keeps_high=True)
vop("v_cvt_sr_bf16_f32", BF16, (F32, U32), _stochastic_bf16, keeps_high=True)
