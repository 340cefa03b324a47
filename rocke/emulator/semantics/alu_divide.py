"""The steps of the exact division (div_scale, div_fmas, div_fixup) and frexp.

Compilers divide as: scale numerator and denominator into a safe range (div_scale), approximate and
refine the quotient with FMAs, undo the scaling (div_fmas), and put in the special cases
(div_fixup). Source: AMD Instinct MI300 ISA guide, *VOP3 instructions*, and for the direction of
the last scaling the RDNA3 ISA guide, whose pseudocode states it: up when the quotient is large,
down when it is small. Where the denominator alone must be scaled because its reciprocal would be
subnormal, it is scaled down (the printed pseudocode says up, which would overflow).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from rocke.emulator.semantics import floatmath as fm
from rocke.emulator.semantics.expr import (
    BOOL,
    F16,
    F32,
    F64,
    I16,
    I32,
    Emitter,
    Type,
    Value,
)
from rocke.emulator.semantics.vector import vop


@dataclass(frozen=True)
class _Format:
    """Constants of one float format and of its division."""

    type: Type
    mantissa: int
    exponent_mask: int
    bias: int
    scale: int
    """div_scale multiplies by 2**scale or 2**-scale."""
    far: int
    """Exponent difference from which the denominator alone is scaled up."""
    tiny: int
    """Biased exponent up to which a numerator counts as tiny."""

    @property
    def smallest(self) -> float:
        """The smallest normal number."""
        return float(2.0 ** (1 - self.bias))


_F32 = _Format(F32, 23, 0xFF, 127, 64, 96, 23)
_F64 = _Format(F64, 52, 0x7FF, 1023, 128, 768, 53)


def _exponent(f: _Format, x: Value) -> Value:
    """The biased exponent as a signed integer."""
    raw = x.bitcast(f.type.unsigned)
    return ((raw >> f.mantissa) & f.exponent_mask).view(f.type.signed)


def _is_subnormal(f: _Format, x: Value) -> Value:
    size = x.fabs()
    return (size < f.smallest) & (size > 0.0)


def _div_scale(f: _Format) -> Callable[..., Any]:
    def meaning(e: Emitter, x: Value, denominator: Value, numerator: Value) -> tuple[Value, Value]:
        """``x`` is the denominator or the numerator; the mask asks div_fmas to scale back."""
        d_exponent, n_exponent = _exponent(f, denominator), _exponent(f, numerator)
        reciprocal_tiny = _is_subnormal(f, 1.0 / denominator)
        # A quotient that underflows to zero counts as well (zero operands are ruled out below).
        quotient_tiny = (numerator / denominator).fabs() < f.smallest
        is_denominator = x.eq(denominator)
        is_numerator = x.eq(numerator)
        up, down = x * 2.0**f.scale, x * 2.0**-f.scale
        # From the last rule of the ISA's chain to the first.
        value = e.select(n_exponent <= f.tiny, up, x)
        value = e.select(quotient_tiny, e.select(is_numerator, up, x), value)
        flag = quotient_tiny
        value = e.select(reciprocal_tiny, down, value)
        flag = flag & ~reciprocal_tiny
        both = reciprocal_tiny & quotient_tiny
        value = e.select(both, e.select(is_denominator, down, x), value)
        flag = flag | both
        subnormal = _is_subnormal(f, denominator)
        value = e.select(subnormal, up, value)
        flag = flag & ~subnormal
        far = (n_exponent - d_exponent) >= f.far
        value = e.select(far, e.select(is_denominator, up, x), value)
        flag = flag | far
        zero = denominator.eq(0.0) | numerator.eq(0.0)
        nan = e.bits(f.type, (f.exponent_mask << f.mantissa) | (1 << (f.mantissa - 1)))
        return e.select(zero, nan, value), flag & ~zero

    return meaning


def _div_fmas_f32(e: Emitter, a: Value, b: Value, c: Value, scaled: Value) -> Value:
    """The FMA, times 2**64 or 2**-64 where scaled; in f64 so that it is rounded once."""
    wide = e.fma(a.fext(F64), b.fext(F64), c.fext(F64))
    large = _exponent(_F32, c) > 127
    factor = e.select(large, e.const(F64, 2.0**64), 2.0**-64)
    return e.select(scaled, (wide * factor).ftrunc(F32), e.fma(a, b, c))


def _div_fmas_f64(e: Emitter, a: Value, b: Value, c: Value, scaled: Value) -> Value:
    total = e.fma(a, b, c)
    large = _exponent(_F64, c) > 1023
    factor = e.select(large, e.const(F64, 2.0**128), 2.0**-128)
    return e.select(scaled, total * factor, total)


def _div_fixup(e: Emitter, quotient: Value, denominator: Value, numerator: Value) -> Value:
    """The quotient's magnitude with the sign of the operands, and the special cases."""
    t = quotient.type
    sign = 1 << (t.bits - 1)
    raw_d, raw_n = denominator.bitcast(t.unsigned), numerator.bitcast(t.unsigned)
    sign_out = (raw_d ^ raw_n) & sign
    d, n = fm.widen(denominator), fm.widen(numerator)
    infinity = float("inf")
    d_zero, n_zero = d.eq(0.0), n.eq(0.0)
    d_inf, n_inf = d.fabs().eq(infinity), n.fabs().eq(infinity)
    magnitude = fm.widen(quotient).fabs()
    magnitude = fm.narrow_float(magnitude, t).bitcast(t.unsigned)
    inf_bits = {16: 0x7C00, 32: 0x7F80_0000, 64: 0x7FF0_0000_0000_0000}[t.bits]
    quiet = {16: 0x0200, 32: 0x0040_0000, 64: 1 << 51}[t.bits]
    # A quotient far beyond the largest number has become inf - inf in the refinement.
    magnitude = e.select(fm.widen(quotient).is_nan(), e.const(t.unsigned, inf_bits), magnitude)
    magnitude = e.select(d_inf | n_zero, e.const(t.unsigned, 0), magnitude)
    magnitude = e.select(d_zero | n_inf, e.const(t.unsigned, inf_bits), magnitude)
    result = magnitude | sign_out
    invalid = (d_zero & n_zero) | (d_inf & n_inf)
    result = e.select(invalid, e.const(t.unsigned, sign | inf_bits | quiet), result)
    result = e.select(d.is_nan(), raw_d | quiet, result)
    return e.select(n.is_nan(), raw_n | quiet, result).bitcast(t)


for _name, _format in (("f32", _F32), ("f64", _F64)):
    _t = _format.type
    vop(f"v_div_scale_{_name}", (_t, BOOL), (_t,) * 3, _div_scale(_format))
    vop(f"v_div_fixup_{_name}", _t, (_t,) * 3, _div_fixup)
vop("v_div_fmas_f32", F32, (F32,) * 3, _div_fmas_f32, reads_vcc=True)
vop("v_div_fmas_f64", F64, (F64,) * 3, _div_fmas_f64, reads_vcc=True)
vop("v_div_fixup_f16", F16, (F16,) * 3, _div_fixup, keeps_high=True)
vop("v_div_fixup_legacy_f16", F16, (F16,) * 3, _div_fixup)


def _normalized(f: _Format, e: Emitter, x: Value) -> tuple[Value, Value, Value]:
    """Bits of x with subnormals scaled up to normal, their exponent correction, and whether x is 0,
    infinite or NaN."""
    lift = 64
    tiny = x.fabs() < f.smallest
    lifted = e.select(tiny, x * 2.0**lift, x)
    correction = e.select(tiny, e.const(f.type.signed, lift), 0)
    special = x.eq(0.0) | ~(x.fabs() < float("inf"))
    return lifted.bitcast(f.type.unsigned), correction, special


def _frexp_exponent(f: _Format) -> Callable[..., Any]:
    def meaning(e: Emitter, x: Value) -> Value:
        raw, correction, special = _normalized(f, e, x)
        exponent = ((raw >> f.mantissa) & f.exponent_mask).view(f.type.signed)
        value = e.select(special, e.const(f.type.signed, 0), exponent - correction - (f.bias - 1))
        return value.trunc(I32) if f.type is F64 else value

    return meaning


def _frexp_mantissa(f: _Format) -> Callable[..., Any]:
    def meaning(e: Emitter, x: Value) -> Value:
        raw, _, special = _normalized(f, e, x)
        kept = raw & ~e.const(f.type.unsigned, f.exponent_mask << f.mantissa)
        half = kept | (f.bias - 1) << f.mantissa
        kept_whole = e.select(x.is_nan(), fm.quiet(x), x)
        return e.select(special, kept_whole, half.bitcast(f.type))

    return meaning


_EXPONENT_32, _MANTISSA_32 = _frexp_exponent(_F32), _frexp_mantissa(_F32)
vop("v_frexp_exp_i32_f32", I32, (F32,), _EXPONENT_32)
vop("v_frexp_mant_f32", F32, (F32,), _MANTISSA_32)
vop("v_frexp_exp_i32_f64", I32, (F64,), _frexp_exponent(_F64))
vop("v_frexp_mant_f64", F64, (F64,), _frexp_mantissa(_F64))
vop(
    "v_frexp_exp_i16_f16",
    I16,
    (F16,),
    lambda e, x: _EXPONENT_32(e, x.fext(F32)).trunc(I16),
)
vop(
    "v_frexp_mant_f16",
    F16,
    (F16,),
    lambda e, x: _MANTISSA_32(e, x.fext(F32)).ftrunc(F16),
)
