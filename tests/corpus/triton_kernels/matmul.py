"""Matrix products in Triton: out[m, n] = a[m, k] @ b[k, n], any strides, edges masked."""

import triton
import triton.language as tl


@triton.jit
def _tile(program, m, n, BM: tl.constexpr, BN: tl.constexpr, GROUP: tl.constexpr):
    """Tile numbers of a program: GROUP rows of tiles are walked column by column."""
    tiles_m = tl.cdiv(m, BM)
    tiles_n = tl.cdiv(n, BN)
    width = GROUP * tiles_n
    first = program // width * GROUP
    height = min(tiles_m - first, GROUP)
    return first + program % width % height, program % width // height


@triton.jit
def matmul(
    a, b, out, m, n, k, stride_am, stride_ak, stride_bk, stride_bn, stride_om,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr,
    ACC: tl.constexpr, PRECISION: tl.constexpr, EVEN_K: tl.constexpr,
):  # fmt: skip
    tile_m, tile_n = _tile(tl.program_id(0), m, n, BM, BN, GROUP)
    rows = tile_m * BM + tl.arange(0, BM)
    columns = tile_n * BN + tl.arange(0, BN)
    ks = tl.arange(0, BK)
    a_at = a + (rows % m)[:, None] * stride_am + ks[None, :] * stride_ak
    b_at = b + ks[:, None] * stride_bk + (columns % n)[None, :] * stride_bn
    total = tl.zeros([BM, BN], dtype=ACC)
    for start in range(0, k, BK):
        if EVEN_K:
            left = tl.load(a_at)
            right = tl.load(b_at)
        else:
            left = tl.load(a_at, mask=ks[None, :] < k - start, other=0)
            right = tl.load(b_at, mask=ks[:, None] < k - start, other=0)
        total = tl.dot(left, right, total, out_dtype=ACC, input_precision=PRECISION)
        a_at += BK * stride_ak
        b_at += BK * stride_bk
    inside = (rows[:, None] < m) & (columns[None, :] < n)
    at = out + rows[:, None] * stride_om + columns[None, :]
    tl.store(at, total.to(out.dtype.element_ty), mask=inside)


@triton.jit
def matmul_split_k(
    a, b, out, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, SPLIT: tl.constexpr
):
    """Row-major operands; SPLIT programs share a tile and add their part with atomics."""
    tile_m, tile_n = _tile(tl.program_id(0), m, n, BM, BN, 1)
    part = tl.program_id(1)
    rows = tile_m * BM + tl.arange(0, BM)
    columns = tile_n * BN + tl.arange(0, BN)
    total = tl.zeros([BM, BN], dtype=tl.float32)
    for start in range(part * BK, k, BK * SPLIT):
        ks = start + tl.arange(0, BK)
        a_inside = (rows[:, None] < m) & (ks[None, :] < k)
        b_inside = (ks[:, None] < k) & (columns[None, :] < n)
        left = tl.load(a + rows[:, None] * k + ks[None, :], mask=a_inside, other=0.0)
        right = tl.load(b + ks[:, None] * n + columns[None, :], mask=b_inside, other=0.0)
        total = tl.dot(left, right, total)
    inside = (rows[:, None] < m) & (columns[None, :] < n)
    tl.atomic_add(out + rows[:, None] * n + columns[None, :], total, mask=inside, sem="relaxed")


@triton.jit
def matmul_scaled(
    a, a_scale, b, b_scale, out, m, n, k,
    A_FORMAT: tl.constexpr, B_FORMAT: tl.constexpr, A_PACK: tl.constexpr, B_PACK: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """Microscaling product: one e8m0 scale for 32 values along k; a [m, k], b [n, k], edges even.

    A_PACK and B_PACK are the values a byte (2 for e2m1).
    """
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    total = tl.zeros([BM, BN], dtype=tl.float32)
    for start in range(0, k, BK):
        ak = start // A_PACK + tl.arange(0, BK // A_PACK)
        bk = start // B_PACK + tl.arange(0, BK // B_PACK)
        sk = start // 32 + tl.arange(0, BK // 32)
        left = tl.load(a + rows[:, None] * (k // A_PACK) + ak[None, :])
        right = tl.load(b + columns[None, :] * (k // B_PACK) + bk[:, None])
        left_scale = tl.load(a_scale + rows[:, None] * (k // 32) + sk[None, :])
        right_scale = tl.load(b_scale + columns[:, None] * (k // 32) + sk[None, :])
        total = tl.dot_scaled(left, left_scale, A_FORMAT, right, right_scale, B_FORMAT, acc=total)
    tl.store(out + rows[:, None] * n + columns[None, :], total)


@triton.jit
def matmul_batched_bias(
    a, b, bias, out, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr
):
    """Batches along grid axis 2, bias added and rectified; row-major operands."""
    batch = tl.program_id(2).to(tl.int64)
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    total = tl.zeros([BM, BN], dtype=tl.float32)
    for start in range(0, k, BK):
        ks = start + tl.arange(0, BK)
        a_inside = (rows[:, None] < m) & (ks[None, :] < k)
        b_inside = (ks[:, None] < k) & (columns[None, :] < n)
        a_at = a + batch * m * k + rows[:, None] * k + ks[None, :]
        b_at = b + batch * k * n + ks[:, None] * n + columns[None, :]
        left = tl.load(a_at, mask=a_inside, other=0.0)
        right = tl.load(b_at, mask=b_inside, other=0.0)
        total = tl.dot(left, right, total)
    total += tl.load(bias + columns, mask=columns < n, other=0.0).to(tl.float32)[None, :]
    total = tl.maximum(total, 0.0)
    inside = (rows[:, None] < m) & (columns[None, :] < n)
    at = out + batch * m * n + rows[:, None] * n + columns[None, :]
    tl.store(at, total.to(out.dtype.element_ty), mask=inside)
