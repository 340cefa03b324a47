"""Vector ALU instructions one by one against numpy, edge values and EXEC masks included."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from tests.emulator.semantics.alu_cases import F16, F32, F64, Case, check, prepare

pytestmark = pytest.mark.normal

U16, I16, U32, I32, U64, I64 = (
    np.uint16, np.int16, np.uint32, np.int32, np.uint64, np.int64,
)  # fmt: skip


def wide(f):
    """f on the operands as float64, rounded once by the caller's conversion."""
    return lambda *v: f(*(x.astype(F64) for x in v))


def signaling(x):
    quiet = {2: 0x200, 4: 0x400000, 8: 1 << 51}[x.dtype.itemsize]
    bits = x.view(f"u{x.dtype.itemsize}")
    return np.isnan(x) & ((bits & bits.dtype.type(quiet)) == 0)


def vmax(a, b):
    zeros = (a == 0) & (b == 0)
    r = np.where(np.isnan(a), b, np.where(np.isnan(b), a, np.where(a >= b, a, b)))
    r = np.where(zeros, np.where(np.signbit(a) & np.signbit(b), a, np.abs(a)), r)
    return np.where(signaling(a) | signaling(b), np.array(np.nan, a.dtype), r)


def vmin(a, b):
    return -vmax(-a, -b)


def median(a, b, c):
    nan = np.isnan(a) | np.isnan(b) | np.isnan(c)
    middle = vmax(vmin(a, b), vmin(vmax(a, b), c))
    return np.where(nan, vmin(vmin(a, b), c), middle)


def round_exact(value: Fraction, dtype) -> float:
    """The nearest number of a float format, ties to even."""
    digits, low = {F16: (11, -24), F32: (24, -149), F64: (53, -1074)}[dtype]
    if value == 0:
        return 0.0
    size = abs(value)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    exponent -= size < Fraction(2) ** exponent
    step = max(exponent - digits + 1, low)
    scaled = size / Fraction(2) ** step
    whole = round(scaled)  # Python rounds halves to even
    result = Fraction(whole) * Fraction(2) ** step
    largest = Fraction(float(np.finfo(dtype).max))
    number = float("inf") if result > largest else float(result)
    return -number if value < 0 else number


def exact_fma(a, b, c):
    """a * b + c by rational arithmetic; numpy decides about zeros, infinities and NaNs."""
    dtype = a.dtype.type
    plain = (a.astype(F64) * b.astype(F64)) + c.astype(F64)
    out = np.where(np.isfinite(a) & np.isfinite(b) & np.isinf(c), c, plain).astype(dtype)
    for i in range(len(a)):
        if np.isfinite(a[i]) and np.isfinite(b[i]) and np.isfinite(c[i]):
            value = Fraction(float(a[i])) * Fraction(float(b[i])) + Fraction(float(c[i]))
            if value:
                out[i] = round_exact(value, dtype)
    return out


def flush32(f):
    """f with subnormal f32 arguments and results taken as zero."""

    def z(x):
        return np.where(np.abs(x) < np.finfo(F32).tiny, np.copysign(F32(0), x), x).astype(F32)

    return lambda *v: z(f(*(z(x) for x in v)).astype(F32))


def saturate(x, dtype):
    """Truncated, limited, 0 for NaN."""
    info = np.iinfo(dtype)
    x = np.where(np.isnan(x), 0, x).astype(F64)
    return np.array([min(max(int(v) if np.isfinite(v) else (info.max if v > 0 else info.min),
                             info.min), info.max) for v in x], dtype)  # fmt: skip


def sin_turns(x, quarter):
    """sin or cos of 2 pi x, exact at multiples of a quarter turn; |x| > 256 counts as 0."""
    x = x.astype(F64)
    inside = np.abs(x) <= 256
    turns = np.where(inside, x, 0) + (0.25 if quarter else 0)
    halves = np.rint(2 * turns)
    r = np.sin(2 * np.pi * (turns - halves / 2)) * np.where(halves % 2 == 0, 1, -1)
    return np.where(np.isfinite(x), r, np.nan)


def fract(x):
    return np.minimum(x - np.floor(x), np.nextafter(x.dtype.type(1), x.dtype.type(0)))


def half_fract(x):
    w = x.astype(F32)
    return np.where(
        w - np.floor(w) > F32(1 - 2.0**-11), F16(1 - 2.0**-11), (w - np.floor(w)).astype(F16)
    )


def ldexp(x, n):
    n = np.clip(n.astype(I64), -3000, 3000)
    return np.ldexp(x.astype(np.longdouble), n.astype(I32))


CASES: list[Case] = []


def add(template, results, sources, meaning, **options):
    results = results if isinstance(results, tuple) else (results,)
    CASES.append(Case(template, results, sources, meaning, **options))


for name, t in (("f32", F32), ("f16", F16), ("f64", F64)):
    d = "v[0:1]" if t is F64 else "v0"
    add(f"v_add_{name} {d}, {{0}}, {{1}}", t, (t, t), lambda a, b: a + b)
    add(f"v_mul_{name} {d}, {{0}}, {{1}}", t, (t, t), lambda a, b: a * b)
    add(f"v_max_{name} {d}, {{0}}, {{1}}", t, (t, t), vmax)
    add(f"v_min_{name} {d}, {{0}}, {{1}}", t, (t, t), vmin)
    for op, f in (("rndne", np.rint), ("trunc", np.trunc), ("floor", np.floor), ("ceil", np.ceil)):
        add(f"v_{op}_{name} {d}, {{0}}", t, (t,), f)
    n = I16 if t is F16 else I32
    add(f"v_ldexp_{name} {d}, {{0}}, {{1}}", t, (t, n), ldexp)
for name, t in (("f32", F32), ("f16", F16)):
    add(f"v_sub_{name} v0, {{0}}, {{1}}", t, (t, t), lambda a, b: a - b)
    add(f"v_subrev_{name} v0, {{0}}, {{1}}", t, (t, t), lambda a, b: b - a)
    add(
        f"v_med3_{name} v0, {{0}}, {{1}}, {{2}}",
        (U32 if t is F16 else t),
        (t, t, t),
        median,
        reads_result=False,
    ) if t is F32 else None
    add(
        f"v_max3_{name} v0, {{0}}, {{1}}, {{2}}", t, (t,) * 3, lambda a, b, c: vmax(vmax(a, b), c)
    ) if t is F32 else None
    add(
        f"v_min3_{name} v0, {{0}}, {{1}}, {{2}}", t, (t,) * 3, lambda a, b, c: vmin(vmin(a, b), c)
    ) if t is F32 else None
add("v_fract_f32 v0, {0}", F32, (F32,), fract)
add("v_fract_f64 v[0:1], {0}", F64, (F64,), fract)
add("v_fract_f16 v0, {0}", F16, (F16,), half_fract)
for name, t in (("f32", F32), ("f16", F16), ("f64", F64)):
    d = "v[0:1]" if t is F64 else "v0"
    if t is not F16:
        add(f"v_fma_{name} {d}, {{0}}, {{1}}, {{2}}", t, (t,) * 3, exact_fma)
        add(f"v_fmac_{name} {d}, {{0}}, {{1}}", t, (t,) * 2, exact_fma, reads_result=True)
add(
    "v_mul_legacy_f32 v0, {0}, {1}",
    F32,
    (F32,) * 2,
    lambda a, b: np.where((a == 0) | (b == 0), F32(0), a * b),
)
for arch in ("gfx90a", "gfx950"):
    add("v_add_f32 v0, {0}, {1}", F32, (F32, F32), lambda a, b: a + b, arch=arch)

add("v_exp_f32 v0, {0}", F32, (F32,), flush32(wide(np.exp2)), ulp=1)
add("v_log_f32 v0, {0}", F32, (F32,), flush32(wide(np.log2)), ulp=1)
add("v_rcp_f32 v0, {0}", F32, (F32,), flush32(lambda x: F32(1) / x), ulp=1)
add("v_rsq_f32 v0, {0}", F32, (F32,), flush32(wide(lambda x: 1 / np.sqrt(x))), ulp=1)
add("v_sqrt_f32 v0, {0}", F32, (F32,), flush32(np.sqrt), ulp=1)
add("v_sin_f32 v0, {0}", F32, (F32,), flush32(lambda x: sin_turns(x, False)), ulp=1)
add("v_cos_f32 v0, {0}", F32, (F32,), lambda x: sin_turns(x, True), ulp=1)
add("v_rcp_f16 v0, {0}", F16, (F16,), wide(lambda x: 1 / x), ulp=1)
add("v_exp_f16 v0, {0}", F16, (F16,), wide(np.exp2), ulp=1)
add("v_log_f16 v0, {0}", F16, (F16,), wide(np.log2), ulp=1)
add("v_sqrt_f16 v0, {0}", F16, (F16,), wide(np.sqrt), ulp=1)
add("v_rsq_f16 v0, {0}", F16, (F16,), wide(lambda x: 1 / np.sqrt(x)), ulp=1)
add("v_rcp_f64 v[0:1], {0}", F64, (F64,), lambda x: 1 / x, ulp=1)
add("v_sqrt_f64 v[0:1], {0}", F64, (F64,), np.sqrt, ulp=1)


@pytest.fixture(scope="module")
def instructions():
    return prepare(CASES)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_vector_instruction(case, instructions):
    check(case, instructions[case.name])
