"""Attention forward passes in Triton. q [batch, heads, sq, d], k and v [batch, kv_heads, sk, d].

Scores are scaled in base 2; lse is base 2 as well.
"""

import triton
import triton.language as tl


@triton.jit
def flash_attention(
    q, k, v, out, lse, scale_log2, heads, kv_heads, sq, sk,
    D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, CAUSAL: tl.constexpr,
):  # fmt: skip
    """One program: BM query rows of one head; causal is aligned at the bottom right."""
    head = tl.program_id(1)
    batch = tl.program_id(2)
    kv_head = head // (heads // kv_heads)
    q_base = q + (batch * heads + head).to(tl.int64) * sq * D
    k_base = k + (batch * kv_heads + kv_head).to(tl.int64) * sk * D
    v_base = v + (batch * kv_heads + kv_head).to(tl.int64) * sk * D
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    ds = tl.arange(0, D)
    query = tl.load(q_base + rows[:, None] * D + ds[None, :], mask=rows[:, None] < sq, other=0.0)
    top = tl.full([BM], -1.0e30, tl.float32)
    total = tl.zeros([BM], tl.float32)
    acc = tl.zeros([BM, D], tl.float32)
    end = sk
    if CAUSAL:
        end = min(sk, (tl.program_id(0) + 1) * BM + sk - sq)
    for start in range(0, end, BN):
        keys = start + tl.arange(0, BN)
        inside = keys < sk
        key = tl.load(k_base + keys[None, :] * D + ds[:, None], mask=inside[None, :], other=0.0)
        score = tl.dot(query, key) * scale_log2
        allowed = inside[None, :]
        if CAUSAL:
            allowed = allowed & (keys[None, :] <= rows[:, None] + (sk - sq))
        score = tl.where(allowed, score, -float("inf"))
        new_top = tl.maximum(top, tl.max(score, axis=1))
        p = tl.exp2(score - new_top[:, None])
        shrink = tl.exp2(top - new_top)
        total = total * shrink + tl.sum(p, axis=1)
        value = tl.load(v_base + keys[:, None] * D + ds[None, :], mask=inside[:, None], other=0.0)
        acc = tl.dot(p.to(value.dtype), value, acc * shrink[:, None])
        top = new_top
    acc = acc / total[:, None]
    out_at = out + (batch * heads + head).to(tl.int64) * sq * D + rows[:, None] * D + ds[None, :]
    tl.store(out_at, acc.to(out.dtype.element_ty), mask=rows[:, None] < sq)
    tl.store(lse + (batch * heads + head) * sq + rows, top + tl.log2(total), mask=rows < sq)


@triton.jit
def sparse_attention(
    q, k, v, index, count, valid, out, lse, scale_log2, heads, sq, sk, blocks_q, blocks_k, width,
    D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    """Each BM-row block attends the BN-key blocks that its list names.

    index [batch, heads, blocks_q, width] and count [batch, heads, blocks_q] are i32; valid
    [blocks_k] is the number of real keys in a block. Empty rows give 0 and a finite lse.
    """
    block = tl.program_id(0)
    plane = (tl.program_id(2) * heads + tl.program_id(1)).to(tl.int64)
    rows = block * BM + tl.arange(0, BM)
    ds = tl.arange(0, D)
    q_at = q + plane * sq * D + rows[:, None] * D + ds[None, :]
    query = tl.load(q_at, mask=rows[:, None] < sq, other=0.0)
    top = tl.full([BM], -1.0e30, tl.float32)
    total = tl.zeros([BM], tl.float32)
    acc = tl.zeros([BM, D], tl.float32)
    number = tl.load(count + plane * blocks_q + block)
    list_at = index + (plane * blocks_q + block) * width
    for i in range(0, number):
        chosen = tl.load(list_at + i)
        if (chosen >= 0) & (chosen < blocks_k):
            real = tl.load(valid + chosen)
            inner = tl.arange(0, BN)
            keys = chosen * BN + inner
            inside = (inner < real) & (keys < sk)
            k_at = k + plane * sk * D + keys[None, :] * D + ds[:, None]
            key = tl.load(k_at, mask=inside[None, :], other=0.0)
            score = tl.where(inside[None, :], tl.dot(query, key) * scale_log2, -float("inf"))
            new_top = tl.maximum(top, tl.max(score, axis=1))
            p = tl.exp2(score - new_top[:, None])
            shrink = tl.exp2(top - new_top)
            total = total * shrink + tl.sum(p, axis=1)
            v_at = v + plane * sk * D + keys[:, None] * D + ds[None, :]
            value = tl.load(v_at, mask=inside[:, None], other=0.0)
            acc = tl.dot(p.to(value.dtype), value, acc * shrink[:, None])
            top = new_top
    some = total > 0.0
    acc = tl.where(some[:, None], acc / tl.where(some, total, 1.0)[:, None], 0.0)
    out_at = out + plane * sq * D + rows[:, None] * D + ds[None, :]
    tl.store(out_at, acc.to(out.dtype.element_ty), mask=rows[:, None] < sq)
    sums = tl.where(some, top + tl.log2(tl.where(some, total, 1.0)), -3.4028234663852886e38)
    tl.store(lse + plane * sq + rows, sums, mask=rows < sq)


@triton.jit
def bitmap_attention(
    q, k, v, bitmap, out, scale_log2, heads, sq, sk, blocks_q, blocks_k,
    D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    """As sparse_attention, from an i8 bitmap [heads, blocks_q, blocks_k]; every row has a block."""
    block = tl.program_id(0)
    head = tl.program_id(1)
    plane = (tl.program_id(2) * heads + head).to(tl.int64)
    rows = block * BM + tl.arange(0, BM)
    ds = tl.arange(0, D)
    q_at = q + plane * sq * D + rows[:, None] * D + ds[None, :]
    query = tl.load(q_at, mask=rows[:, None] < sq, other=0.0)
    top = tl.full([BM], -1.0e30, tl.float32)
    total = tl.zeros([BM], tl.float32)
    acc = tl.zeros([BM, D], tl.float32)
    bits = bitmap + (head * blocks_q + block) * blocks_k
    for chosen in range(0, blocks_k):
        if tl.load(bits + chosen) != 0:
            keys = chosen * BN + tl.arange(0, BN)
            inside = keys < sk
            k_at = k + plane * sk * D + keys[:, None] * D + ds[None, :]
            key = tl.load(k_at, mask=inside[:, None], other=0.0)
            score = tl.dot(query, tl.trans(key)) * scale_log2
            score = tl.where(inside[None, :], score, -float("inf"))
            new_top = tl.maximum(top, tl.max(score, axis=1))
            p = tl.exp2(score - new_top[:, None])
            shrink = tl.exp2(top - new_top)
            total = total * shrink + tl.sum(p, axis=1)
            v_at = v + plane * sk * D + keys[:, None] * D + ds[None, :]
            value = tl.load(v_at, mask=inside[:, None], other=0.0)
            acc = tl.dot(p.to(value.dtype), value, acc * shrink[:, None])
            top = new_top
    out_at = out + plane * sq * D + rows[:, None] * D + ds[None, :]
    acc = acc / total[:, None]
    tl.store(out_at, acc.to(out.dtype.element_ty), mask=rows[:, None] < sq)


@triton.jit
def flash_attention_backward_dkv(
    q, k, v, gradient, lse, delta, dk, dv, scale, scale_log2, s,
    D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    """Gradients of BN keys and values of one plane [s, D]; s is a multiple of both blocks."""
    plane = tl.program_id(1).to(tl.int64) * s
    keys = tl.program_id(0) * BN + tl.arange(0, BN)
    ds = tl.arange(0, D)
    kv_at = (plane + keys[:, None]) * D + ds[None, :]
    key = tl.load(k + kv_at)
    value = tl.load(v + kv_at)
    dkey = tl.zeros([BN, D], tl.float32)
    dvalue = tl.zeros([BN, D], tl.float32)
    for start in range(0, s, BM):
        rows = start + tl.arange(0, BM)
        q_at = (plane + rows[:, None]) * D + ds[None, :]
        query = tl.load(q + q_at)
        grad = tl.load(gradient + q_at)
        sums = tl.load(lse + plane + rows)
        dots = tl.load(delta + plane + rows)
        p = tl.exp2(tl.dot(key, tl.trans(query)) * scale_log2 - sums[None, :])
        dvalue = tl.dot(p.to(grad.dtype), grad, dvalue)
        dp = tl.dot(value, tl.trans(grad))
        dscore = p * (dp - dots[None, :])
        dkey = tl.dot(dscore.to(query.dtype), query, dkey)
    tl.store(dk + kv_at, (dkey * scale).to(dk.dtype.element_ty))
    tl.store(dv + kv_at, dvalue.to(dv.dtype.element_ty))
