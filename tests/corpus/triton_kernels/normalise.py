"""Row-wise Triton kernels: softmax, log-sum-exp, layer norm and RMS norm, one program a row."""

import triton
import triton.language as tl


@triton.jit
def softmax(x, out, columns, x_stride, out_stride, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    inside = at < columns
    a = tl.load(x + row * x_stride + at, mask=inside, other=-float("inf")).to(tl.float32)
    e = tl.exp(a - tl.max(a, axis=0))
    result = e / tl.sum(e, axis=0)
    tl.store(out + row * out_stride + at, result.to(out.dtype.element_ty), mask=inside)


@triton.jit
def softmax_rows(x, out, rows, columns, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """Several rows a program, in two dimensions."""
    r = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    c = tl.arange(0, BLOCK)
    inside = (r[:, None] < rows) & (c[None, :] < columns)
    at = r[:, None] * columns + c[None, :]
    a = tl.load(x + at, mask=inside, other=-1.0e30).to(tl.float32)
    e = tl.exp(a - tl.max(a, axis=1)[:, None])
    e = tl.where(c[None, :] < columns, e, 0.0)
    result = e / tl.sum(e, axis=1)[:, None]
    tl.store(out + at, result.to(out.dtype.element_ty), mask=inside)


@triton.jit
def softmax_online(x, out, columns, BLOCK: tl.constexpr):
    """Two sweeps over a long row: running maximum and sum, then the result."""
    row = tl.program_id(0).to(tl.int64)
    top = tl.full([1], -float("inf"), tl.float32)
    total = tl.zeros([1], tl.float32)
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        a = tl.load(x + row * columns + at, mask=at < columns, other=-float("inf")).to(tl.float32)
        new_top = tl.maximum(top, tl.max(a, axis=0))
        total = total * tl.exp(top - new_top) + tl.sum(tl.exp(a - new_top), axis=0)
        top = new_top
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        a = tl.load(x + row * columns + at, mask=at < columns, other=-float("inf")).to(tl.float32)
        result = tl.exp(a - top) / total
        tl.store(out + row * columns + at, result.to(out.dtype.element_ty), mask=at < columns)


@triton.jit
def layer_norm(x, weight, bias, out, mean_out, rstd_out, columns, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros([BLOCK], tl.float32)
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        total += tl.load(x + row * columns + at, mask=at < columns, other=0.0).to(tl.float32)
    mean = tl.sum(total, axis=0) / columns
    squares = tl.zeros([BLOCK], tl.float32)
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        a = tl.load(x + row * columns + at, mask=at < columns, other=0.0).to(tl.float32)
        d = tl.where(at < columns, a - mean, 0.0)
        squares += d * d
    rstd = 1.0 / tl.sqrt(tl.sum(squares, axis=0) / columns + eps)
    tl.store(mean_out + row, mean)
    tl.store(rstd_out + row, rstd)
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        inside = at < columns
        a = tl.load(x + row * columns + at, mask=inside, other=0.0).to(tl.float32)
        w = tl.load(weight + at, mask=inside, other=0.0).to(tl.float32)
        b = tl.load(bias + at, mask=inside, other=0.0).to(tl.float32)
        result = (a - mean) * rstd * w + b
        tl.store(out + row * columns + at, result.to(out.dtype.element_ty), mask=inside)


@triton.jit
def rms_norm(x, weight, out, columns, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    inside = at < columns
    a = tl.load(x + row * columns + at, mask=inside, other=0.0).to(tl.float32)
    w = tl.load(weight + at, mask=inside, other=0.0).to(tl.float32)
    result = a * tl.rsqrt(tl.sum(a * a, axis=0) / columns + eps) * w
    tl.store(out + row * columns + at, result.to(out.dtype.element_ty), mask=inside)


@triton.jit
def layer_norm_weight_gradient(
    gradient, x, mean, rstd, out_w, out_b, rows, columns, ROWS: tl.constexpr, BLOCK: tl.constexpr
):
    """Gradients of weight and bias: columns a program, a sweep over the rows."""
    c = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    gw = tl.zeros([ROWS, BLOCK], tl.float32)
    gb = tl.zeros([ROWS, BLOCK], tl.float32)
    for start in range(0, rows, ROWS):
        r = start + tl.arange(0, ROWS)
        inside = (r[:, None] < rows) & (c[None, :] < columns)
        at = r[:, None] * columns + c[None, :]
        g = tl.load(gradient + at, mask=inside, other=0.0).to(tl.float32)
        a = tl.load(x + at, mask=inside, other=0.0).to(tl.float32)
        m = tl.load(mean + r, mask=r < rows, other=0.0)
        s = tl.load(rstd + r, mask=r < rows, other=0.0)
        gw += g * (a - m[:, None]) * s[:, None]
        gb += g
    tl.store(out_w + c, tl.sum(gw, axis=0), mask=c < columns)
    tl.store(out_b + c, tl.sum(gb, axis=0), mask=c < columns)
