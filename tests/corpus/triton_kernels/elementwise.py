"""Element-wise Triton kernels: one program handles BLOCK consecutive elements of flat arrays."""

import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def vector_add(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    total = tl.load(x + at, mask=inside) + tl.load(y + at, mask=inside)
    tl.store(out + at, total, mask=inside)


@triton.jit
def math_f32(x, out, n, rows: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    a = tl.load(x + at, mask=inside, other=1.0)
    p = tl.abs(a) + 0.25
    tl.store(out + 0 * n + at, tl.exp(a), mask=inside)
    tl.store(out + 1 * n + at, tl.exp2(a), mask=inside)
    tl.store(out + 2 * n + at, tl.log(p), mask=inside)
    tl.store(out + 3 * n + at, tl.log2(p), mask=inside)
    tl.store(out + 4 * n + at, tl.sin(a), mask=inside)
    tl.store(out + 5 * n + at, tl.cos(a), mask=inside)
    tl.store(out + 6 * n + at, tl.sqrt(p), mask=inside)
    tl.store(out + 7 * n + at, tl.rsqrt(p), mask=inside)
    tl.store(out + 8 * n + at, tl.erf(a), mask=inside)
    tl.store(out + 9 * n + at, tl.floor(a), mask=inside)
    tl.store(out + 10 * n + at, tl.ceil(a), mask=inside)
    tl.store(out + 11 * n + at, a / p, mask=inside)
    tl.store(out + 12 * n + at, tl.fma(a, p, a), mask=inside)
    tl.store(out + 13 * n + at, tl.sigmoid(a), mask=inside)
    tl.store(out + 14 * n + at, tl.sqrt_rn(p), mask=inside)
    tl.store(out + 15 * n + at, tl.div_rn(p, a * a + 1.0), mask=inside)
    tl.store(out + 16 * n + at, tl.clamp(a, -0.5, 0.5), mask=inside)
    tl.store(out + 17 * n + at, a % p, mask=inside)


@triton.jit
def libdevice_f32(x, out, n, rows: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    a = tl.load(x + at, mask=inside, other=1.0)
    p = tl.abs(a) + 0.25
    tl.store(out + 0 * n + at, libdevice.tanh(a), mask=inside)
    tl.store(out + 1 * n + at, libdevice.pow(p, a), mask=inside)
    tl.store(out + 2 * n + at, libdevice.atan2(a, p), mask=inside)
    tl.store(out + 3 * n + at, libdevice.expm1(a), mask=inside)
    tl.store(out + 4 * n + at, libdevice.log1p(p), mask=inside)
    tl.store(out + 5 * n + at, libdevice.hypot(a, p), mask=inside)
    tl.store(out + 6 * n + at, libdevice.lgamma(p), mask=inside)
    tl.store(out + 7 * n + at, libdevice.fmod(a, p), mask=inside)
    tl.store(out + 8 * n + at, libdevice.rint(a * 3.0), mask=inside)
    tl.store(out + 9 * n + at, libdevice.ldexp(a, 5), mask=inside)
    tl.store(out + 10 * n + at, libdevice.copysign(p, a), mask=inside)
    tl.store(out + 11 * n + at, libdevice.trunc(a * 3.0), mask=inside)
    tl.store(out + 12 * n + at, libdevice.asin(a / (p + 1.0)), mask=inside)
    tl.store(out + 13 * n + at, libdevice.tan(a), mask=inside)
    tl.store(out + 14 * n + at, libdevice.erfinv(a / (p + 1.0)), mask=inside)
    tl.store(out + 15 * n + at, libdevice.nextafter(a, p), mask=inside)


@triton.jit
def math_f64(x, out, n, rows: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    a = tl.load(x + at, mask=inside, other=1.0)
    p = tl.abs(a) + 0.25
    tl.store(out + 0 * n + at, tl.exp(a), mask=inside)
    tl.store(out + 1 * n + at, tl.log(p), mask=inside)
    tl.store(out + 2 * n + at, tl.sqrt(p), mask=inside)
    tl.store(out + 3 * n + at, a / p, mask=inside)
    tl.store(out + 4 * n + at, tl.floor(a * 7.0), mask=inside)
    tl.store(out + 5 * n + at, tl.maximum(a, 0.5) * a + p, mask=inside)
    tl.store(out + 6 * n + at, tl.sin(a), mask=inside)
    tl.store(out + 7 * n + at, a.to(tl.int64).to(tl.float64) + a.to(tl.int32), mask=inside)


@triton.jit
def convert(x, out, n, rounding: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    a = tl.load(x + at, mask=inside)
    tl.store(out + at, a.to(out.dtype.element_ty), mask=inside)


@triton.jit
def swiglu(gate, up, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    g = tl.load(gate + at, mask=inside, other=0.0).to(tl.float32)
    u = tl.load(up + at, mask=inside, other=0.0).to(tl.float32)
    tl.store(out + at, (g * tl.sigmoid(g) * u).to(out.dtype.element_ty), mask=inside)


@triton.jit
def gelu_tanh(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    a = tl.load(x + at, mask=inside, other=0.0).to(tl.float32)
    inner = 0.7978845608028654 * (a + 0.044715 * a * a * a)
    tanh = 2.0 * tl.sigmoid(2.0 * inner) - 1.0
    tl.store(out + at, (0.5 * a * (1.0 + tanh)).to(out.dtype.element_ty), mask=inside)


@triton.jit
def philox_random(seed, out_int, out_uniform, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    a, b, c, d = tl.randint4x(seed, at)
    tl.store(out_int + 4 * at + 0, a.to(tl.int32, bitcast=True), mask=inside)
    tl.store(out_int + 4 * at + 1, b.to(tl.int32, bitcast=True), mask=inside)
    tl.store(out_int + 4 * at + 2, c.to(tl.int32, bitcast=True), mask=inside)
    tl.store(out_int + 4 * at + 3, d.to(tl.int32, bitcast=True), mask=inside)
    tl.store(out_uniform + at, tl.rand(seed, at), mask=inside)
