"""Integer work in Triton: all results of one element go to out[row, element]."""

import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def integer_operations(x, y, out, n, rows: tl.constexpr, BLOCK: tl.constexpr):
    """Signed or unsigned of any width; y holds no zero."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    a = tl.load(x + at, mask=inside, other=1)
    b = tl.load(y + at, mask=inside, other=1)
    by = b & 7
    tl.store(out + 0 * n + at, a + b, mask=inside)
    tl.store(out + 1 * n + at, a - b, mask=inside)
    tl.store(out + 2 * n + at, a * b, mask=inside)
    tl.store(out + 3 * n + at, a // b, mask=inside)
    tl.store(out + 4 * n + at, a % b, mask=inside)
    tl.store(out + 5 * n + at, a << by, mask=inside)
    tl.store(out + 6 * n + at, a >> by, mask=inside)
    tl.store(out + 7 * n + at, a & b, mask=inside)
    tl.store(out + 8 * n + at, a | b, mask=inside)
    tl.store(out + 9 * n + at, a ^ b, mask=inside)
    tl.store(out + 10 * n + at, ~a, mask=inside)
    tl.store(out + 11 * n + at, tl.minimum(a, b), mask=inside)
    tl.store(out + 12 * n + at, tl.maximum(a, b), mask=inside)
    tl.store(out + 13 * n + at, (a < b).to(a.dtype), mask=inside)
    tl.store(out + 14 * n + at, tl.where(a == b, a, b + 1), mask=inside)


@triton.jit
def bits_u32(x, y, out, n, rows: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    a = tl.load(x + at, mask=inside, other=1)
    b = tl.load(y + at, mask=inside, other=1)
    signed = a.to(tl.int32, bitcast=True)
    tl.store(out + 0 * n + at, tl.umulhi(a, b), mask=inside)
    tl.store(out + 1 * n + at, libdevice.clz(signed), mask=inside)
    tl.store(out + 2 * n + at, libdevice.popc(signed), mask=inside)
    tl.store(out + 3 * n + at, libdevice.popc((signed & -signed) - 1), mask=inside)
    tl.store(out + 4 * n + at, (a << 13) | (a >> 19), mask=inside)
    tl.store(out + 5 * n + at, (a & 0xFF00) << 8 | (b >> 24), mask=inside)
    tl.store(out + 6 * n + at, a // 7 + b % 11, mask=inside)
    tl.store(out + 7 * n + at, (a * 5 + b) ^ (a + 3), mask=inside)


@triton.jit
def collatz(x, steps, n, LIMIT: tl.constexpr):
    """A scalar loop of data-dependent length a program: steps to reach 1, in 64 bits."""
    i = tl.program_id(0)
    value = tl.load(x + i)
    count = 0
    while (value != 1) & (count < LIMIT):
        if value % 2 == 0:  # noqa: SIM108 (a conditional expression would be a select)
            value = value // 2
        else:
            value = 3 * value + 1
        count += 1
    tl.store(steps + i, count)


@triton.jit
def unpack_int4(packed, scale, out, n, GROUP: tl.constexpr, BLOCK: tl.constexpr):
    """Two signed 4-bit values a byte (low half first), one f16 scale for GROUP values."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    byte = tl.load(packed + at, mask=inside, other=0)
    low = ((byte << 4) >> 4).to(tl.float16)
    high = (byte >> 4).to(tl.float16)
    s = tl.load(scale + 2 * at // GROUP, mask=inside, other=0.0)
    tl.store(out + 2 * at, low * s, mask=inside)
    tl.store(out + 2 * at + 1, high * s, mask=inside)
