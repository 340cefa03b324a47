"""Float building blocks of the vector semantics: roundings, minima, transcendentals.

The transcendental f32 functions stay within 1 ulp, the hardware's stated accuracy, and flush
subnormal arguments and results, as the hardware's do. Sources: AMD Instinct MI300 ISA guide,
*VOP1 instructions*; LLVM AMDGPU, which scales around ``v_exp_f32``, ``v_log_f32``, ``v_rcp_f32``,
``v_rsq_f32`` and ``v_sqrt_f32`` because they do not support subnormals.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from rocke.emulator.semantics.expr import F16, F32, F64, I32, I64, U16, U32, Emitter, Type, Value

_EXPONENT = {16: 0x7C00, 32: 0x7F80_0000, 64: 0x7FF0_0000_0000_0000}
_QUIET = {16: 0x0200, 32: 0x0040_0000, 64: 1 << 51}
_SIGN = {16: 0x8000, 32: 0x8000_0000, 64: 1 << 63}

_EXP2 = (
    0.00015461447765119374,
    0.0013390866806730628,
    0.009618056938052177,
    0.055503569543361664,
    0.24022650718688965,
    0.6931471824645996,
    1.0,
)
"""2**f on [-1/2, 1/2], highest power first: Chebyshev fit of (2**f - 1) / f; 0.88 ulp in f32."""


def flush_subnormal(value: Value) -> Value:
    """Subnormal numbers become zeros of the same sign."""
    raw = value.bitcast(value.type.unsigned)
    bits = value.type.bits
    tiny = (raw & _EXPONENT[bits]).eq(0)
    return value.e.select(tiny, raw & _SIGN[bits], raw).bitcast(value.type)


def clamp_unit(value: Value, dx10_clamp: bool) -> Value:
    """A float limited to [0, 1]; a NaN becomes 0 under DX10_CLAMP and stays otherwise."""
    e = value.e
    low = e.select(value > 0.0, value, 0.0)
    if not dx10_clamp:
        low = e.select(value.is_nan(), value, low)
    return e.select(low > 1.0, e.const(value.type, 1.0), low)


def limit_overflow(e: Emitter, result: Value, sources: Sequence[Value]) -> Value:
    """FP16_OVFL: an infinite f16 result of finite sources becomes the largest number."""
    raw = result.bitcast(U16)
    over = (raw & 0x7FFF).eq(0x7C00)
    for source in sources:
        if source.type.is_float:
            over = over & (source.fabs() < math.inf)
    return e.select(over, raw - 1, raw).bitcast(F16)


def widen(value: Value) -> Value:
    """An f16 as f32, for arithmetic that rounds to f16 once at the end; others unchanged."""
    return value.fext(F32) if value.type is F16 else value


def narrow_float(value: Value, type_: Type) -> Value:
    """Round to ``type_`` if it is narrower."""
    return value.ftrunc(type_) if value.type.bits > type_.bits else value


def via_f32(e: Emitter, a: Value, b: Value, op: str) -> Value:
    """``a op b``; f16 operands are computed in f32, which is wide enough to round right."""
    x, y = widen(a), widen(b)
    result = {"+": x.__add__, "-": x.__sub__, "*": x.__mul__, "/": x.__truediv__}[op](y)
    return narrow_float(result, a.type)


def fused_multiply_add(e: Emitter, a: Value, b: Value, c: Value) -> Value:
    """``a * b + c`` with one rounding, for every float type."""
    if a.type is not F16:
        return e.fma(a, b, c)
    # The product of two f16 is exact in f32. The sum is rounded to odd in f32 (the low bit is set
    # when it is inexact), so that rounding it again to f16 cannot hit a false tie.
    product, addend = a.fext(F32) * b.fext(F32), c.fext(F32)
    return round_to_odd_sum(e, product, addend).ftrunc(F16)


def round_to_odd_sum(e: Emitter, a: Value, b: Value) -> Value:
    """``a + b`` in f32, rounded to odd (Boldo and Melquiond, *Emulation of FMA*, 2008)."""
    total = a + b
    part = total - a
    error = (a - (total - part)) + (b - part)
    bits = total.bitcast(U32)
    inexact = error.compare("one", 0.0)
    even = (bits & 1).eq(0)
    same_sign = ((bits ^ error.bitcast(U32)) & 0x8000_0000).eq(0)
    toward = e.select(same_sign, bits + 1, bits - 1)
    return e.select(inexact & even, toward, bits).bitcast(F32)


def is_signaling(value: Value) -> Value:
    """Whether each element is a signaling NaN."""
    bits = value.type.bits
    raw = value.bitcast(value.type.unsigned) & (_SIGN[bits] - 1)
    offset = raw - (_EXPONENT[bits] + 1)
    return offset < _QUIET[bits] - 1


def quiet(value: Value) -> Value:
    """The value with the quiet bit set (for NaNs)."""
    raw = value.bitcast(value.type.unsigned)
    return (raw | _QUIET[value.type.bits]).bitcast(value.type)


def minimum_maximum(e: Emitter, a: Value, b: Value, largest: bool) -> Value:
    """``v_min`` and ``v_max``: a NaN operand gives the other; -0 is below +0; under IEEE mode
    a signaling NaN gives its quiet form."""
    x, y = widen(a), widen(b)
    raw_a, raw_b = a.bitcast(a.type.unsigned), b.bitcast(b.type.unsigned)
    first = x > y if largest else x < y
    result = e.select(first | y.is_nan(), raw_a, raw_b)
    # Equal operands have equal bits, except the two zeros: and gives +0, or gives -0.
    result = e.select(x.eq(y), raw_a & raw_b if largest else raw_a | raw_b, result)
    if e.mode.ieee:
        result = e.select(is_signaling(b), quiet(b).bitcast(b.type.unsigned), result)
        result = e.select(is_signaling(a), quiet(a).bitcast(a.type.unsigned), result)
    return result.bitcast(a.type)


def fmin(e: Emitter, a: Value, b: Value) -> Value:
    """``v_min_*``."""
    return minimum_maximum(e, a, b, largest=False)


def fmax(e: Emitter, a: Value, b: Value) -> Value:
    """``v_max_*``."""
    return minimum_maximum(e, a, b, largest=True)


def median(e: Emitter, a: Value, b: Value, c: Value) -> Value:
    """``v_med3``: the middle one; with a NaN the minimum of the three."""
    low, high = fmin(e, a, b), fmax(e, a, b)
    middle = fmax(e, low, fmin(e, high, c))
    any_nan = widen(a).compare("uno", widen(b)) | widen(c).is_nan()
    raw = middle.type.unsigned
    least = fmin(e, low, c)
    return e.select(any_nan, least.bitcast(raw), middle.bitcast(raw)).bitcast(a.type)


def exp2_f32(e: Emitter, x: Value) -> Value:
    """2**x; results below the normal range are 0."""
    # The limits keep the exponent in range; what lies beyond (or is a NaN) is replaced below.
    limited = e.select(x < 128.0, x, 128.0)
    limited = e.select(limited > -127.0, limited, -127.0)
    whole = e.call(F32, "rint", limited)
    power = e.polynomial(limited - whole, _EXP2)
    shift = whole.to_int_in_range(I32) << 23
    scaled = (power.bitcast(I32) + shift).bitcast(F32)
    result = e.select(x < 128.0, scaled, math.inf)
    result = e.select(x < -126.0, e.const(F32, 0.0), result)
    return e.select(x.is_nan(), x, result)


def log2_f32(e: Emitter, x: Value) -> Value:
    """log2; negative arguments give NaN, zeros and subnormals -inf."""
    x = flush_subnormal(x)
    bits = x.bitcast(U32)
    # Split at sqrt(1/2) so that the mantissa is in [sqrt(1/2), sqrt(2)).
    offset = (bits - 0x3F35_04F3).view(I32)
    exponent = offset >> 23
    mantissa = (bits.view(I32) - (exponent << 23)).bitcast(F32).fext(F64)
    s = (mantissa - 1.0) / (mantissa + 1.0)
    # log2(m) = 2 / ln 2 * atanh(s), |s| < 0.1716: terms up to s**15 leave 4e-14.
    series = e.polynomial(s * s, [2.0 / math.log(2.0) / k for k in range(15, 0, -2)])
    result = (exponent.to_float(F64) + s * series).ftrunc(F32)
    result = e.select(x.compare("ult", 0.0), e.bits(F32, 0x7FC0_0000), result)
    result = e.select(x.eq(0.0), e.const(F32, -math.inf), result)
    return e.select(x.eq(math.inf) | x.is_nan(), x, result)


def rcp_f32(e: Emitter, x: Value) -> Value:
    """1 / x."""
    return flush_subnormal(1.0 / flush_subnormal(x))


def sqrt_f32(e: Emitter, x: Value) -> Value:
    """Square root."""
    return e.call(F32, "sqrt", flush_subnormal(x))


def rsq_f32(e: Emitter, x: Value) -> Value:
    """1 / sqrt(x)."""
    root = e.call(F64, "sqrt", flush_subnormal(x).fext(F64))
    return (1.0 / root).ftrunc(F32)


def sin_turns(e: Emitter, x: Value, quarter: bool) -> Value:
    """sin(2 pi x), or cos with ``quarter``; 0 (1 for cos) beyond |x| = 256, NaN for infinities."""
    size = x.fabs()
    inside = size <= 256.0
    turns = e.select(inside, x, 0.0).fext(F64)
    if quarter:
        turns = turns + 0.25
    half = e.call(F64, "rint", turns * 2.0)
    y = (turns - half * 0.5) * (2.0 * math.pi)
    # Taylor to y**15 on |y| <= pi / 2 leaves 7e-12.
    series = [(-1) ** k / math.factorial(2 * k + 1) for k in range(7, -1, -1)]
    magnitude = y * e.polynomial(y * y, series)
    odd = (half.to_int_in_range(I32) & 1).eq(1)
    result = e.select(odd, -magnitude, magnitude).ftrunc(F32)
    outside = e.select(size.compare("ult", math.inf), e.const(F32, float(quarter)), math.nan)
    outside = e.select(size.compare("ueq", math.inf), e.bits(F32, 0x7FC0_0000), outside)
    return e.select(inside, result, outside)


def power_of_two(exponent: Value) -> Value:
    """2.0**n as f64 for an I64 ``n`` in the normal range."""
    return ((exponent + 1023) << 52).bitcast(F64)


def ldexp(e: Emitter, x: Value, n: Value) -> Value:
    """x * 2**n rounded once; ``n`` is a signed integer of at most 32 bits."""
    n = n.sext(I64)
    if x.type is not F64:
        scaled = x.fext(F64) * power_of_two(n.minimum(400).maximum(-400))
        return narrow_float(scaled.ftrunc(F32), x.type) if x.type is F32 else f64_to_f16(e, scaled)
    n = n.minimum(2200).maximum(-2200)
    for limit, step in ((1023, 1023), (-1022, -1022 + 53)):
        for _ in range(2):
            over = n > limit if limit > 0 else n < limit
            x = e.select(over, x * 2.0**step, x)
            n = e.select(over, n - step, n)
    # Two steps bring every n that can give a nonzero finite result into range.
    return x * power_of_two(n.minimum(1023).maximum(-1022))


def f64_to_f32_odd(e: Emitter, x: Value) -> Value:
    """f64 to f32 rounded to odd, for a following rounding to f16."""
    near = x.ftrunc(F32)
    back = near.fext(F64)
    bits = near.bitcast(U32)
    bits = e.select(back.fabs() > x.fabs(), bits - 1, bits)
    return e.select(back.compare("one", x), bits | 1, bits).bitcast(F32)


def f64_to_f16(e: Emitter, x: Value) -> Value:
    """f64 to f16, rounded once."""
    return f64_to_f32_odd(e, x).ftrunc(F16)


def floor(e: Emitter, x: Value, rounding: str) -> Value:
    """``rounding``: floor, ceil, trunc or rint, for every float type."""
    wide = widen(x)
    return narrow_float(e.call(wide.type, rounding, wide), x.type)


def fract(e: Emitter, x: Value) -> Value:
    """x - floor(x), below 1."""
    wide = widen(x)
    part = wide - e.call(wide.type, "floor", wide)
    limit = {F16: 1 - 2.0**-11, F32: 1 - 2.0**-24, F64: 1 - 2.0**-53}[x.type]
    return narrow_float(e.select(part > limit, e.const(wide.type, limit), part), x.type)


def ieee_extreme(e: Emitter, a: Value, b: Value, largest: bool) -> Value:
    """IEEE 754-2019 minimum or maximum: a NaN operand gives a NaN."""
    bits = a.type.unsigned
    raw = minimum_maximum(e, a, b, largest).bitcast(bits)
    either = e.select(a.is_nan(), quiet(a).bitcast(bits), quiet(b).bitcast(bits))
    return e.select(a.compare("uno", b), either, raw).bitcast(a.type)
