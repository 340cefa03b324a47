"""Small float formats: E4M3 and E5M2, as OCP (gfx950) or FNUZ (gfx942); E2M1, E2M3, E3M2.

Sources: OCP *8-bit Floating Point Specification* and *Microscaling Formats (MX) Specification*;
AMD Instinct MI300 ISA guide for FNUZ: one more exponent bias, 0x80 is the only NaN, no infinities
and no negative zero.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from rocke.emulator.semantics.expr import F32, U32, Emitter, Value


@dataclass(frozen=True)
class Float8:
    """One format: mantissa bits, bias, and how overflow and NaN are coded."""

    name: str
    mantissa: int
    bias: int
    fnuz: bool
    infinities: bool
    """OCP E5M2: the top exponent holds infinities and NaNs, as in IEEE formats."""

    @property
    def nan(self) -> int:
        """The NaN code (its sign, outside FNUZ, is the operand's)."""
        return 0x80 if self.fnuz else 0x7F

    @property
    def overflow(self) -> int:
        """Code for magnitudes that round beyond the largest number."""
        return 0x7C if self.infinities else self.nan

    @property
    def largest(self) -> int:
        """Code of the largest number."""
        return 0x7B if self.infinities else 0x7F if self.fnuz else 0x7E


def float8(arch: str, kind: str) -> Float8:
    """The format that ``fp8`` (E4M3) or ``bf8`` (E5M2) means on a target."""
    fnuz = arch == "gfx942"
    if kind == "fp8":
        return Float8("e4m3", 3, 8 if fnuz else 7, fnuz, False)
    return Float8("e5m2", 2, 16 if fnuz else 15, fnuz, not fnuz)


def decode(e: Emitter, f: Float8, code: Value) -> Value:
    """The low byte of a U32 as f32 (exact)."""
    code = code & 0xFF
    size = code & 0x7F
    # As f32 bits the code has its exponent 127 - bias too low; a product corrects that, and makes
    # subnormal codes, which are subnormal f32 here, normal.
    scaled = (size << (23 - f.mantissa)).bitcast(F32) * 2.0 ** (127 - f.bias)
    bits = scaled.bitcast(U32)
    if f.fnuz:
        nan = code.eq(0x80)
    elif f.infinities:
        bits = e.select(size.eq(0x7C), e.const(U32, 0x7F80_0000), bits)
        nan = size > 0x7C
    else:
        nan = size.eq(0x7F)
    bits = e.select(nan, e.const(U32, 0x7FC0_0000), bits)
    sign = (code & 0x80) << 24
    return (e.select(nan, bits, bits | sign) if f.fnuz else bits | sign).bitcast(F32)


def encode(e: Emitter, f: Float8, x: Value, seed: Value | None = None) -> Value:
    """f32 to the code in a U32; nearest even, or stochastic with the high bits of ``seed``.

    Stochastic rounding adds the seed's top bits below the last kept place and truncates.
    """
    drop = 23 - f.mantissa
    raw = x.bitcast(U32)
    sign = (raw >> 24) & 0x80
    size = raw & 0x7FFF_FFFF
    magnitude = size.bitcast(F32)
    if seed is None:
        rounded = size + ((1 << (drop - 1)) - 1) + ((size >> drop) & 1)
    else:
        rounded = size + (seed >> (32 - drop))
    normal = (rounded >> drop) - ((127 - f.bias) << f.mantissa)
    # Below the smallest normal number codes are multiples of 2**(1 - bias - mantissa).
    steps = e.select(magnitude < 1.0, magnitude, 0.0) * 2.0 ** (f.bias - 1 + f.mantissa)
    if seed is None:
        whole = e.call(F32, "rint", steps)
    else:
        fraction = (seed >> 8).view(U32).to_float(F32) * 2.0**-24
        whole = e.call(F32, "floor", steps + fraction)
    subnormal = whole.to_int(U32)
    code = e.select(magnitude < 2.0 ** (1 - f.bias), subnormal, normal)
    over = code > f.largest
    # FP16_OVFL asks for the largest number, but infinities stay what they are.
    beyond = e.const(U32, f.largest if e.mode.fp16_overflow else f.overflow)
    code = e.select(over, beyond, code)
    code = e.select(magnitude.eq(math.inf), e.const(U32, f.overflow), code)
    code = e.select(size > 0x7F80_0000, e.const(U32, f.nan), code)
    if f.fnuz:
        return e.select(code.eq(0) | code.eq(0x80), code, code | sign)
    return code | sign


@dataclass(frozen=True)
class SmallFloat:
    """A format of the MX specification without infinities and NaNs: E2M1, E2M3, E3M2."""

    bits: int
    mantissa: int
    bias: int


SMALL_FLOATS = {
    "fp4": SmallFloat(4, 1, 1),
    "fp6": SmallFloat(6, 3, 1),
    "bf6": SmallFloat(6, 2, 3),
}


def decode_small(e: Emitter, f: SmallFloat, code: Value) -> Value:
    """The low bits of a U32 as f32 (exact)."""
    sign = 1 << f.bits - 1
    scaled = ((code & (sign - 1)) << 23 - f.mantissa).bitcast(F32) * 2.0 ** (127 - f.bias)
    return (scaled.bitcast(U32) | (code & sign) << 32 - f.bits).bitcast(F32)


def encode_small(e: Emitter, f: SmallFloat, x: Value, seed: Value | None = None) -> Value:
    """f32 to the code in a U32; beyond the largest number (and NaN) the largest.

    Nearest even, or stochastic with the high bits of ``seed`` as in :func:`encode`.
    """
    drop = 23 - f.mantissa
    smallest = 2.0 ** (1 - f.bias)
    magnitude = x.fabs()
    size = magnitude.bitcast(U32)
    if seed is None:
        rounded = size + ((1 << drop - 1) - 1) + ((size >> drop) & 1)
    else:
        rounded = size + (seed >> 32 - drop)
    normal = (rounded >> drop) - (127 - f.bias << f.mantissa)
    # Below the smallest normal number codes are multiples of smallest / 2**mantissa.
    steps = e.select(magnitude < smallest, magnitude, 0.0) * (2.0**f.mantissa / smallest)
    if seed is None:
        whole = e.call(F32, "rint", steps)
    else:
        fraction = (seed >> 8).view(U32).to_float(F32) * 2.0**-24
        whole = e.call(F32, "floor", steps + fraction)
    code = e.select(magnitude < smallest, whole.to_int(U32), normal)
    largest = (1 << f.bits - 1) - 1
    return code.minimum(largest) | (x.bitcast(U32) >> 31) << f.bits - 1
