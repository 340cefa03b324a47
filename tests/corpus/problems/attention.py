"""Attention: dense, causal, block-sparse, and a backward pass. Scores and lse are in base 2."""

from __future__ import annotations

import math

import numpy as np

from .problem import Expected, Problem, normal, poisoned, wide

OUT_TOLERANCE = {"f16": (2e-3, 2e-3), "bf16": (1.2e-2, 1.2e-2)}
EMPTY_LSE = -float(np.finfo(np.float32).max)


def _attend(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, allowed: np.ndarray, scale_log2: float
) -> tuple[np.ndarray, np.ndarray]:
    """q [sq, d], k and v [sk, d], allowed [sq, sk] -> output [sq, d], lse [sq]."""
    score = np.where(allowed, wide(q) @ wide(k).T * scale_log2, -np.inf)
    some = allowed.any(axis=1)
    top = np.where(some, score.max(axis=1, initial=-np.inf), 0.0)
    p = np.exp2(score - top[:, None])
    total = np.where(some, p.sum(axis=1), 1.0)
    return p @ wide(v) / total[:, None], np.where(some, top + np.log2(total), EMPTY_LSE)


def _all(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, allowed: np.ndarray, scale_log2: float
) -> tuple[np.ndarray, np.ndarray]:
    """Over batch and heads; allowed [batch, heads, sq, sk]; kv heads shared by groups."""
    out, lse = np.zeros(q.shape), np.zeros(q.shape[:3])
    group = q.shape[1] // k.shape[1]
    for b in range(q.shape[0]):
        for h in range(q.shape[1]):
            g = h // group
            out[b, h], lse[b, h] = _attend(q[b, h], k[b, g], v[b, g], allowed[b, h], scale_log2)
    return out, lse


def flash_attention(
    rng: np.random.Generator,
    *,
    sq: int,
    sk: int,
    d: int,
    dtype: str,
    causal: bool = False,
    batch: int = 1,
    heads: int = 1,
    kv_heads: int = 1,
) -> Problem:
    q = normal(rng, (batch, heads, sq, d), dtype)
    k, v = (normal(rng, (batch, kv_heads, sk, d), dtype) for _ in range(2))
    scale_log2 = float(np.float32(math.log2(math.e) / math.sqrt(d)))
    allowed = np.ones((batch, heads, sq, sk), bool)
    if causal:
        allowed &= np.arange(sk)[None, :] <= np.arange(sq)[:, None] + sk - sq
    out, lse = _all(q, k, v, allowed, scale_log2)
    rtol, atol = OUT_TOLERANCE[dtype]
    return Problem(
        {"q": q, "k": k, "v": v, "out": poisoned(q.shape, dtype),
         "lse": poisoned(q.shape[:3], "f32"), "scale_log2": scale_log2, "heads": heads,
         "kv_heads": kv_heads, "sq": sq, "sk": sk},
        {"out": Expected(out, rtol, atol), "lse": Expected(lse, 1e-4, 1e-4)},
    )  # fmt: skip


def sparse_attention(
    rng: np.random.Generator,
    *,
    sq: int,
    sk: int,
    d: int,
    block_q: int,
    block_k: int,
    dtype: str,
    batch: int = 1,
    heads: int = 1,
    partial: bool = False,
) -> Problem:
    """Lists of random length (0 included) in random order; entries past the count are -1.

    With ``partial`` some key blocks have fewer real keys than ``block_k``; the others hold NaN.
    """
    q = normal(rng, (batch, heads, sq, d), dtype)
    k, v = (normal(rng, (batch, heads, sk, d), dtype) for _ in range(2))
    blocks_q, blocks_k = -(-sq // block_q), -(-sk // block_k)
    valid = np.full(blocks_k, block_k, np.int32)
    if partial:
        valid[::2] = rng.integers(0, block_k + 1, size=len(valid[::2]))
        for block, real in enumerate(valid):
            k[:, :, block * block_k + real : (block + 1) * block_k] = np.nan
            v[:, :, block * block_k + real : (block + 1) * block_k] = np.nan
    count = rng.integers(0, blocks_k + 1, size=(batch, heads, blocks_q)).astype(np.int32)
    count[0, 0, 0] = 0
    index = np.full((batch, heads, blocks_q, blocks_k), -1, np.int32)
    allowed = np.zeros((batch, heads, sq, sk), bool)
    for at in np.ndindex(count.shape):
        chosen = rng.permutation(blocks_k)[: count[at]]
        index[at][: len(chosen)] = chosen
        rows = slice(at[2] * block_q, (at[2] + 1) * block_q)
        for block in chosen:
            start = block * block_k
            allowed[at[0], at[1], rows, start : min(start + valid[block], sk)] = True
    scale_log2 = float(np.float32(math.log2(math.e) / math.sqrt(d)))
    out, lse = _all(q, np.nan_to_num(k), np.nan_to_num(v), allowed, scale_log2)
    rtol, atol = OUT_TOLERANCE[dtype]
    return Problem(
        {"q": q, "k": k, "v": v, "index": index, "count": count, "valid": valid,
         "out": poisoned(q.shape, dtype), "lse": poisoned(q.shape[:3], "f32"),
         "scale_log2": scale_log2, "heads": heads, "sq": sq, "sk": sk, "blocks_q": blocks_q,
         "blocks_k": blocks_k, "width": blocks_k},
        {"out": Expected(out, rtol, atol), "lse": Expected(lse, 1e-4, 1e-4)},
    )  # fmt: skip


def bitmap_attention(
    rng: np.random.Generator,
    *,
    sq: int,
    sk: int,
    d: int,
    block_q: int,
    block_k: int,
    dtype: str,
    heads: int = 1,
) -> Problem:
    """Every query block attends at least one key block."""
    q = normal(rng, (1, heads, sq, d), dtype)
    k, v = (normal(rng, (1, heads, sk, d), dtype) for _ in range(2))
    blocks_q, blocks_k = -(-sq // block_q), -(-sk // block_k)
    bitmap = (rng.random((heads, blocks_q, blocks_k)) < 0.4).astype(np.int8)
    bitmap[:, :, 0] |= ~bitmap.any(axis=2)
    allowed = np.repeat(np.repeat(bitmap, block_q, axis=1), block_k, axis=2)[None, :, :sq, :sk] != 0
    scale_log2 = float(np.float32(math.log2(math.e) / math.sqrt(d)))
    out, _ = _all(q, k, v, allowed, scale_log2)
    rtol, atol = OUT_TOLERANCE[dtype]
    return Problem(
        {"q": q, "k": k, "v": v, "bitmap": bitmap, "out": poisoned(q.shape, dtype),
         "scale_log2": scale_log2, "heads": heads, "sq": sq, "sk": sk, "blocks_q": blocks_q,
         "blocks_k": blocks_k},
        {"out": Expected(out, rtol, atol)},
    )  # fmt: skip


def flash_attention_backward_dkv(
    rng: np.random.Generator, *, s: int, d: int, dtype: str, planes: int = 1
) -> Problem:
    q, k, v, gradient = (normal(rng, (planes, s, d), dtype) for _ in range(4))
    scale = float(np.float32(1 / math.sqrt(d)))
    scale_log2 = float(np.float32(scale * math.log2(math.e)))
    dk, dv = np.zeros(q.shape), np.zeros(q.shape)
    lse, delta = np.zeros((planes, s), np.float32), np.zeros((planes, s), np.float32)
    for i in range(planes):
        score = wide(q[i]) @ wide(k[i]).T * scale_log2
        top = score.max(axis=1)
        lse[i] = top + np.log2(np.exp2(score - top[:, None]).sum(axis=1))
        p = np.exp2(score - wide(lse[i])[:, None])
        delta[i] = (p @ wide(v[i]) * wide(gradient[i])).sum(axis=1)
        dv[i] = p.T @ wide(gradient[i])
        dp = wide(gradient[i]) @ wide(v[i]).T
        dk[i] = (p * (dp - wide(delta[i])[:, None])).T @ wide(q[i]) * scale
    rtol, atol = (10 * t for t in OUT_TOLERANCE[dtype])
    return Problem(
        {"q": q, "k": k, "v": v, "gradient": gradient, "lse": lse, "delta": delta,
         "dk": poisoned(q.shape, dtype), "dv": poisoned(q.shape, dtype), "scale": scale,
         "scale_log2": scale_log2, "s": s},
        {"dk": Expected(dk, rtol, atol), "dv": Expected(dv, rtol, atol)},
    )  # fmt: skip


PROBLEMS = (
    flash_attention, sparse_attention, bitmap_attention, flash_attention_backward_dkv,
)  # fmt: skip
