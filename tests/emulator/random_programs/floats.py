"""Float arithmetic with one rounding, and the special cases that the ISA names."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from .machine import Mode, bits_of

_FRACTION = {16: 10, 32: 23, 64: 52}


def flush(values: np.ndarray, keep: bool) -> np.ndarray:
    """Subnormals to zero of the same sign, unless kept."""
    if keep:
        return values
    small = np.abs(values) < np.finfo(values.dtype).tiny
    return np.where(small, np.copysign(values.dtype.type(0), values), values)


def signaling(values: np.ndarray) -> np.ndarray:
    bits = bits_of(values)
    quiet = bits.dtype.type(1 << (_FRACTION[8 * values.itemsize] - 1))
    return np.isnan(values) & (bits & quiet == 0)


def fma(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """``a * b + c`` rounded once, to the type of ``a``."""
    if a.dtype == np.float64:
        return np.array([_fma64(*map(float, x)) for x in zip(a, b, c, strict=True)])
    product = a.astype(np.float64) * b.astype(np.float64)  # exact
    addend = c.astype(np.float64)
    total = product + addend
    part = total - product
    error = (product - (total - part)) + (addend - part)
    # Round to odd, so that rounding again to the narrow type is right.
    even = bits_of(total) & np.uint64(1) == 0
    inexact = np.isfinite(total) & (error != 0) & even
    toward = np.where(error > 0, np.inf, -np.inf)
    total = np.where(inexact, np.nextafter(total, toward), total)
    return total.astype(a.dtype)


def _fma64(a: float, b: float, c: float) -> float:
    if not all(map(math.isfinite, (a, b, c))):
        with np.errstate(all="ignore"):
            return (
                float(np.float64(a) * np.float64(b) + np.float64(c)) if _big(a, b, c) else c + 0.0
            )
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact == 0:
        return a * b + c
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def _big(a: float, b: float, c: float) -> bool:
    """False where a finite product would overflow beside an infinite addend."""
    return not (math.isfinite(a) and math.isfinite(b))


def minmax(a: np.ndarray, b: np.ndarray, largest: bool, mode: Mode) -> np.ndarray:
    """v_min, v_max: a NaN gives the other operand; with IEEE a signaling one gives NaN."""
    smaller = (a < b) | ((a == b) & np.signbit(a) & ~np.signbit(b))
    first = ~smaller if largest else smaller
    if largest:
        first = (a > b) | ((a == b) & ~np.signbit(a) & np.signbit(b))
    value = np.where(first, a, b)
    value = np.where(np.isnan(a), b, np.where(np.isnan(b), a, value))
    if mode.ieee:
        value = np.where(signaling(a) | signaling(b), a.dtype.type(np.nan), value)
    return value


def clamp(values: np.ndarray, mode: Mode) -> np.ndarray:
    """To [0, 1]; NaN to 0 with DX10_CLAMP."""
    one, zero = values.dtype.type(1), values.dtype.type(0)
    bounded = np.where(values > one, one, np.where(values > zero, values, zero))
    if not mode.dx10_clamp:
        bounded = np.where(np.isnan(values), values, bounded)
    return bounded


def to_int(values: np.ndarray, dtype: str) -> np.ndarray:
    """Toward zero, saturating; NaN gives 0."""
    info = np.iinfo(dtype)
    whole = np.trunc(values.astype(np.float64))
    whole = np.where(np.isnan(whole), 0.0, whole)
    inside = np.clip(whole, float(info.min), float(info.max))
    result = inside.astype(np.int64) if info.bits < 64 else inside
    return result.astype(dtype)


def toward_zero_half(values: np.ndarray) -> np.ndarray:
    """f32 to f16, rounded toward zero."""
    near = values.astype(np.float16)
    over = np.abs(near.astype(np.float64)) > np.abs(values.astype(np.float64))
    back = np.nextafter(near, np.float16(0))
    return np.where(over & np.isfinite(values), back, near)


def frexp(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mantissa in [0.5, 1) and exponent; infinity and NaN keep their value with exponent 0."""
    mantissa, exponent = np.frexp(values)
    finite = np.isfinite(values)
    kept = np.where(np.isnan(values), values.dtype.type(np.nan), values)
    return np.where(finite, mantissa, kept), np.where(finite, exponent, 0).astype(np.int32)


def class_bits(values: np.ndarray) -> np.ndarray:
    """The bit of v_cmp_class for each lane."""
    negative, tiny = np.signbit(values), np.finfo(values.dtype).tiny
    size = np.abs(values)
    kinds = [
        (signaling(values), 0, 0),
        (np.isnan(values), 1, 1),
        (np.isinf(values), 2, 9),
        (size == 0, 5, 6),
        (size < tiny, 4, 7),
    ]
    result = np.where(negative, 3, 8)
    for is_kind, minus, plus in reversed(kinds):
        result = np.where(is_kind, np.where(negative, minus, plus), result)
    return 1 << result
