"""Vector float arithmetic in f32, f16 and f64 (without comparisons and conversions).

Source of the meanings: AMD Instinct MI200, MI300 and CDNA4 ISA guides, chapters *VOP1*, *VOP2* and
*VOP3 instructions*.
"""

from __future__ import annotations

from rocke.emulator.semantics import floatmath as fm
from rocke.emulator.semantics.expr import F16, F32, F64, I16, I32, Emitter, Type, Value
from rocke.emulator.semantics.vector import vop

_FLOATS = (("f32", F32), ("f16", F16), ("f64", F64))


def _arithmetic(name: str, t: Type, keeps_high: bool) -> None:
    vop(f"v_add_{name}", t, (t, t), lambda e, a, b: fm.via_f32(e, a, b, "+"))
    vop(f"v_mul_{name}", t, (t, t), lambda e, a, b: fm.via_f32(e, a, b, "*"))
    vop(f"v_min_{name}", t, (t, t), fm.fmin)
    vop(f"v_max_{name}", t, (t, t), fm.fmax)
    vop(f"v_fma_{name}", t, (t, t, t), fm.fused_multiply_add, keeps_high=keeps_high)
    vop(
        f"v_fmac_{name}",
        t,
        (t, t),
        fm.fused_multiply_add,
        reads_result=True,
        keeps_high=keeps_high,
    )
    for suffix, rounding in (
        ("rndne", "rint"),
        ("trunc", "trunc"),
        ("floor", "floor"),
        ("ceil", "ceil"),
    ):
        vop(f"v_{suffix}_{name}", t, (t,), lambda e, a, r=rounding: fm.floor(e, a, r))
    vop(f"v_fract_{name}", t, (t,), fm.fract)
    shift = I16 if t is F16 else I32
    vop(f"v_ldexp_{name}", t, (t, shift), fm.ldexp)


for _name, _type in _FLOATS:
    _arithmetic(_name, _type, keeps_high=_type is F16)

for _name, _type in _FLOATS[:2]:
    vop(f"v_sub_{_name}", _type, (_type,) * 2, lambda e, a, b: fm.via_f32(e, a, b, "-"))
    vop(f"v_subrev_{_name}", _type, (_type,) * 2, lambda e, a, b: fm.via_f32(e, b, a, "-"))
    vop(
        f"v_min3_{_name}",
        _type,
        (_type,) * 3,
        lambda e, a, b, c: fm.fmin(e, fm.fmin(e, a, b), c),
        keeps_high=True,
    )
    vop(
        f"v_max3_{_name}",
        _type,
        (_type,) * 3,
        lambda e, a, b, c: fm.fmax(e, fm.fmax(e, a, b), c),
        keeps_high=True,
    )
    vop(f"v_med3_{_name}", _type, (_type,) * 3, fm.median, keeps_high=True)
    # The literal form: a * K + b (madmk) and a * b + K (madak), K in its place in the assembly.
    _keeps = _type is F16
    vop(f"v_fmamk_{_name}", _type, (_type,) * 3, fm.fused_multiply_add, keeps_high=_keeps)
    vop(f"v_fmaak_{_name}", _type, (_type,) * 3, fm.fused_multiply_add, keeps_high=_keeps)


def _multiply_add(e: Emitter, a: Value, b: Value, c: Value) -> Value:
    """The unfused form, which never keeps subnormals."""
    product = fm.via_f32(e, fm.flush_subnormal(a), fm.flush_subnormal(b), "*")
    total = fm.via_f32(e, fm.flush_subnormal(product), fm.flush_subnormal(c), "+")
    return fm.flush_subnormal(total)


for _name, _type in _FLOATS[:2]:
    _half = _type is F16
    vop(f"v_mad_{_name}", _type, (_type,) * 3, _multiply_add, keeps_high=_half)
    vop(
        f"v_mac_{_name}",
        _type,
        (_type,) * 2,
        _multiply_add,
        reads_result=True,
        keeps_high=_half,
    )
    vop(f"v_madmk_{_name}", _type, (_type,) * 3, _multiply_add, keeps_high=_half)
    vop(f"v_madak_{_name}", _type, (_type,) * 3, _multiply_add, keeps_high=_half)


# The older f16 forms clear the high half.
vop("v_mad_legacy_f16", F16, (F16,) * 3, _multiply_add)
vop("v_fma_legacy_f16", F16, (F16,) * 3, fm.fused_multiply_add)


def _legacy_multiply(e: Emitter, a: Value, b: Value) -> Value:
    """A zero operand gives +0 whatever the other."""
    zero = a.eq(0.0) | b.eq(0.0)
    return e.select(zero, e.const(F32, 0.0), a * b)


def _legacy_multiply_add(e: Emitter, a: Value, b: Value, c: Value) -> Value:
    product = _legacy_multiply(e, fm.flush_subnormal(a), fm.flush_subnormal(b))
    return fm.flush_subnormal(fm.flush_subnormal(product) + fm.flush_subnormal(c))


vop("v_mul_legacy_f32", F32, (F32, F32), _legacy_multiply)
vop("v_mad_legacy_f32", F32, (F32,) * 3, _legacy_multiply_add)


def _sqrt(e: Emitter, x: Value) -> Value:
    return e.call(x.type, "sqrt", x)


def _rcp(e: Emitter, x: Value) -> Value:
    return 1.0 / x


def _rsq(e: Emitter, x: Value) -> Value:
    wide = x.fext(F64) if x.type is F32 else x
    return fm.narrow_float(1.0 / _sqrt(e, wide), x.type)


vop("v_exp_f32", F32, (F32,), fm.exp2_f32)
vop("v_log_f32", F32, (F32,), fm.log2_f32)
vop("v_exp_legacy_f32", F32, (F32,), fm.exp2_f32)
vop("v_log_legacy_f32", F32, (F32,), fm.log2_f32)
vop("v_rcp_f32", F32, (F32,), fm.rcp_f32)
vop("v_rcp_iflag_f32", F32, (F32,), fm.rcp_f32)
vop("v_rsq_f32", F32, (F32,), fm.rsq_f32)
vop("v_sqrt_f32", F32, (F32,), fm.sqrt_f32)
vop("v_sin_f32", F32, (F32,), lambda e, x: fm.sin_turns(e, fm.flush_subnormal(x), False))
vop("v_cos_f32", F32, (F32,), lambda e, x: fm.sin_turns(e, fm.flush_subnormal(x), True))
vop("v_rcp_f64", F64, (F64,), _rcp)
vop("v_rsq_f64", F64, (F64,), _rsq)
vop("v_sqrt_f64", F64, (F64,), _sqrt)


def _exp_f16(e: Emitter, x: Value) -> Value:
    """2**x: a result that is subnormal in f16 is normal in f32."""
    return fm.exp2_f32(e, x.fext(F32)).ftrunc(F16)


vop("v_exp_f16", F16, (F16,), _exp_f16)
vop("v_log_f16", F16, (F16,), lambda e, x: fm.log2_f32(e, x.fext(F32)).ftrunc(F16), divides=True)
vop("v_rcp_f16", F16, (F16,), lambda e, x: _rcp(e, x.fext(F32)).ftrunc(F16), divides=True)
vop("v_sqrt_f16", F16, (F16,), lambda e, x: _sqrt(e, x.fext(F32)).ftrunc(F16))
vop("v_rsq_f16", F16, (F16,), lambda e, x: _rsq(e, x.fext(F32)).ftrunc(F16), divides=True)
vop("v_sin_f16", F16, (F16,), lambda e, x: fm.sin_turns(e, x.fext(F32), False).ftrunc(F16))
vop("v_cos_f16", F16, (F16,), lambda e, x: fm.sin_turns(e, x.fext(F32), True).ftrunc(F16))
