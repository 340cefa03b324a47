"""Reductions, scans, sorting and data movement in Triton."""

import triton
import triton.language as tl


@triton.jit
def reduce_all(x, out, COLUMNS: tl.constexpr):
    """Sum, max, min, argmax, argmin of a row of COLUMNS values to out[row, 0..4]."""
    row = tl.program_id(0)
    a = tl.load(x + row * COLUMNS + tl.arange(0, COLUMNS))
    to = out + row * 5
    kind = out.dtype.element_ty
    tl.store(to + 0, tl.sum(a, axis=0).to(kind))
    tl.store(to + 1, tl.max(a, axis=0).to(kind))
    tl.store(to + 2, tl.min(a, axis=0).to(kind))
    tl.store(to + 3, tl.argmax(a, axis=0).to(kind))
    tl.store(to + 4, tl.argmin(a, axis=0).to(kind))


@triton.jit
def xor_rows(x, out, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    r = tl.arange(0, ROWS)
    c = tl.arange(0, COLUMNS)
    a = tl.load(x + r[:, None] * COLUMNS + c[None, :])
    tl.store(out + c, tl.xor_sum(a, axis=0))


@triton.jit
def _merge_moments(mean_a, square_a, n_a, mean_b, square_b, n_b):
    n = n_a + n_b
    d = mean_b - mean_a
    part = tl.where(n == 0.0, 0.0, n_b / n)
    return mean_a + d * part, square_a + square_b + d * d * n_a * part, n


@triton.jit
def moments(x, mean, variance, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """Mean and variance along rows by merging partial moments (a reduction of three values)."""
    r = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    c = tl.arange(0, COLUMNS)
    a = tl.load(x + r[:, None] * COLUMNS + c[None, :])
    zero = tl.zeros([ROWS, COLUMNS], tl.float32)
    m, s, n = tl.reduce((a, zero, zero + 1.0), 1, _merge_moments)
    tl.store(mean + r, m)
    tl.store(variance + r, s / n)


@triton.jit
def scan_sum(x, out, ROWS: tl.constexpr, COLUMNS: tl.constexpr, AXIS: tl.constexpr,
             REVERSE: tl.constexpr):  # fmt: skip
    r = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    c = tl.arange(0, COLUMNS)
    at = r[:, None] * COLUMNS + c[None, :]
    tl.store(out + at, tl.cumsum(tl.load(x + at), axis=AXIS, reverse=REVERSE))


@triton.jit
def _recur(a1, b1, a2, b2):
    return a1 * a2, b1 * a2 + b2


@triton.jit
def scan_recurrence(a, b, out, COLUMNS: tl.constexpr):
    """h[i] = a[i] * h[i-1] + b[i] along rows, as an associative scan of pairs."""
    at = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    _, h = tl.associative_scan((tl.load(a + at), tl.load(b + at)), 0, _recur)
    tl.store(out + at, h)


@triton.jit
def sort_rows(x, out, ROWS: tl.constexpr, COLUMNS: tl.constexpr, DESCENDING: tl.constexpr):
    r = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    c = tl.arange(0, COLUMNS)
    at = r[:, None] * COLUMNS + c[None, :]
    tl.store(out + at, tl.sort(tl.load(x + at), descending=DESCENDING))


@triton.jit
def top_rows(x, out, ROWS: tl.constexpr, COLUMNS: tl.constexpr, K: tl.constexpr):
    r = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    c = tl.arange(0, COLUMNS)
    best = tl.topk(tl.load(x + r[:, None] * COLUMNS + c[None, :]), K)
    tl.store(out + r[:, None] * K + tl.arange(0, K)[None, :], best)


@triton.jit
def bins(x, out, n, BLOCK: tl.constexpr, BINS: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    counts = tl.histogram(tl.load(x + at, mask=at < n, other=0), BINS, mask=at < n)
    tl.atomic_add(out + tl.arange(0, BINS), counts)


@triton.jit
def pick(x, index, out, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """out[r, c] = x[index[r, c], c] by a gather within the program."""
    r = tl.arange(0, ROWS)
    c = tl.arange(0, COLUMNS)
    at = r[:, None] * COLUMNS + c[None, :]
    tl.store(out + at, tl.gather(tl.load(x + at), tl.load(index + at), axis=0))


@triton.jit
def transpose(x, out, rows, columns, BM: tl.constexpr, BN: tl.constexpr):
    r = tl.program_id(0) * BM + tl.arange(0, BM)
    c = tl.program_id(1) * BN + tl.arange(0, BN)
    inside = (r[:, None] < rows) & (c[None, :] < columns)
    a = tl.load(x + r[:, None] * columns + c[None, :], mask=inside)
    there = (r[None, :] < rows) & (c[:, None] < columns)
    tl.store(out + c[:, None] * rows + r[None, :], tl.trans(a), mask=there)


@triton.jit
def shuffle(x, y, out, HALF: tl.constexpr):
    """Interleave x and y, flip the result, and split it again into sum and difference."""
    at = tl.arange(0, HALF)
    both = tl.flip(tl.interleave(tl.load(x + at), tl.load(y + at)))
    a, b = tl.split(tl.reshape(both, [HALF, 2]))
    tl.store(out + at, a + b)
    tl.store(out + HALF + at, a - b)
