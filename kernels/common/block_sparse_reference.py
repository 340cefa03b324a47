"""Block-sparse attention in numpy, by the rules of the kernels: what every test compares with.

The work goes query block by query block over the attended keys alone, so cost and memory follow the
kept blocks and long sequences are affordable: ``dtype=numpy.float32`` computes in single precision,
and ``q_blocks`` picks a sample.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import e, log2, sqrt

import numpy as np

EMPTY_LSE = float(np.finfo(np.float32).min)
"""The ``lse`` of a row that attends nothing: the largest negative finite f32."""

Window = tuple[int | None, int | None]


@dataclass(frozen=True)
class Attention:
    """``o`` ``[batch, query heads, rows, head size]`` and ``lse`` (base 2) without the last axis.

    Rows that were not computed (see ``q_blocks``) are NaN in both.
    """

    o: np.ndarray
    lse: np.ndarray


def attended_by_bitmap(bitmap: np.ndarray) -> np.ndarray:
    """The attended blocks as bool, of a bitmap of any integer type (not 0 = attend)."""
    return np.asarray(bitmap) != 0


def attended_by_list(indices: np.ndarray, counts: np.ndarray, num_k_blocks: int) -> np.ndarray:
    """The attended blocks as bool ``[..., num_k_blocks]``, of lists ``[..., width]`` with counts.

    Counts are clamped to ``0 .. width``; entries at or past the count and entries outside
    ``[0, num_k_blocks)`` are ignored; duplicates count once. Leading axes broadcast.
    """
    indices, counts = np.asarray(indices), np.asarray(counts)
    width = indices.shape[-1]
    listed = np.arange(width) < counts[..., None]
    listed = listed & (indices >= 0) & (indices < num_k_blocks)
    indices = np.broadcast_to(indices, listed.shape)
    attended = np.zeros((*listed.shape[:-1], num_k_blocks), bool)
    place = (*np.nonzero(listed)[:-1], indices[listed])
    attended[place] = True
    return attended


def block_sparse_attention_reference(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    attended: np.ndarray,
    *,
    block_q: int,
    block_k: int,
    softmax_scale: float | None = None,
    block_sizes: np.ndarray | None = None,
    causal: bool = False,
    window: Window = (None, None),
    q_blocks: Iterable[int] | None = None,
    dtype: type = np.float64,
) -> Attention:
    """Block-sparse attention of q ``[B, Hq, Sq, D]`` and k, v ``[B, Hkv, Sk, D]`` (any strides).

    ``attended``: bool ``[B or 1, Hq or 1, num_q_blocks, num_k_blocks]``, leading axes may be left
    out. ``block_sizes`` ``[num_k_blocks]``: leading keys of each block that are real. Row r sees
    key c where ``-left <= c - (r + Sk - Sq) <= right`` for ``window`` (left, right), ``None`` = no
    bound; ``causal`` bounds the right side by 0. ``q_blocks``: compute these query blocks only.

    Scores are ``(q . k) * softmax_scale * log2(e)``, the softmax is base 2. A row that attends
    nothing has o = 0 and lse = :data:`EMPTY_LSE`, and so has one whose every score is -inf: such a
    key weighs nothing. Keys that a row does not attend never reach it, NaN and infinity included.
    """
    batch, heads, rows, size = q.shape
    kv_heads, keys = k.shape[1:3]
    scale = (1 / sqrt(size) if softmax_scale is None else softmax_scale) * log2(e)
    blocks = (-(-rows // block_q), -(-keys // block_k))
    attended = np.broadcast_to(attended, (batch, heads, *blocks))
    bounds = _bounds(rows, keys, causal, window)
    ends = np.minimum((np.arange(blocks[1]) + 1) * block_k, keys)
    if block_sizes is not None:
        starts = np.arange(blocks[1]) * block_k
        ends = np.minimum(ends, starts + np.asarray(block_sizes, np.int64))
    o: np.ndarray = np.full((batch, heads, rows, size), np.nan, dtype)
    lse: np.ndarray = np.full((batch, heads, rows), np.nan, dtype)
    chosen = range(blocks[0]) if q_blocks is None else list(q_blocks)
    for n in range(batch):
        for kv in range(kv_heads):
            k_head, v_head = k[n, kv].astype(dtype), v[n, kv].astype(dtype)
            group = heads // kv_heads
            for h in range(kv * group, (kv + 1) * group):
                for i in chosen:
                    at = slice(i * block_q, min((i + 1) * block_q, rows))
                    listed = _keys(np.flatnonzero(attended[n, h, i]), block_k, ends)
                    low, high = bounds
                    seen = _seen(np.arange(at.start, at.stop), listed, low, high)
                    q_rows = q[n, h, at].astype(dtype) * dtype(scale)
                    o[n, h, at], lse[n, h, at] = _rows(q_rows, k_head, v_head, listed, seen)
    return Attention(o, lse)


def _bounds(rows: int, keys: int, causal: bool, window: Window) -> tuple[int | None, int | None]:
    """Bounds on key minus row; None = no bound."""
    left, right = window
    if causal:
        right = 0 if right is None else min(right, 0)
    shift = keys - rows
    return (
        None if left is None else shift - left,
        None if right is None else shift + right,
    )


def _keys(blocks: Sequence[int] | np.ndarray, block_k: int, ends: np.ndarray) -> np.ndarray:
    """The real keys of some blocks, ascending."""
    blocks = np.asarray(blocks, np.int64)
    keys = blocks[:, None] * block_k + np.arange(block_k)
    return keys[keys < ends[blocks][:, None]]


def _seen(
    rows: np.ndarray, keys: np.ndarray, low: int | None, high: int | None
) -> np.ndarray | None:
    """Which row sees which key, or None where every row sees every key."""
    if low is None and high is None:
        return None
    distance = keys - rows[:, None]
    seen = np.ones(distance.shape, bool)
    if low is not None:
        seen &= distance >= low
    if high is not None:
        seen &= distance <= high
    return None if seen.all() else seen


def _rows(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, keys: np.ndarray, seen: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """o and lse of some scaled query rows over the listed keys of one head."""
    if not keys.size:
        return np.zeros((len(q), v.shape[1]), q.dtype), np.full(len(q), EMPTY_LSE, q.dtype)
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        scores = q @ k[keys].T
        if seen is not None:
            scores[~seen] = -np.inf
        largest = scores.max(axis=-1, keepdims=True)
        weights = np.exp2(scores - largest)
        total = weights.sum(axis=-1, keepdims=True)
        o = _weighted(weights, v[keys], seen) / total
        lse = (largest + np.log2(total))[:, 0]
    empty = np.isneginf(largest[:, 0])
    o[empty], lse[empty] = 0, EMPTY_LSE
    return o, lse


def _weighted(weights: np.ndarray, v: np.ndarray, seen: np.ndarray | None) -> np.ndarray:
    """``weights @ v``, in which hidden keys take no part even where v is NaN or infinite."""
    finite = np.isfinite(v).all(axis=-1)
    if seen is None or finite.all():
        return weights @ v
    out = weights[:, finite] @ v[finite]
    for j in np.flatnonzero(~finite):
        out[seen[:, j]] += weights[seen[:, j], j, None] * v[j]
    return out
