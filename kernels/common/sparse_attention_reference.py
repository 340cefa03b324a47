"""Float64 references of the block-sparse attention families, from the launch arguments alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

Arguments = Mapping[str, Any]


def attended_by_bitmap(mask: np.ndarray) -> list[np.ndarray]:
    """The key blocks of each query block: where ``mask[q_block, k_block]`` is not 0, ascending."""
    return [np.flatnonzero(row) for row in mask]


def attended_by_list(lut: np.ndarray, count: np.ndarray, num_k_blocks: int) -> list[np.ndarray]:
    """The key blocks of each query block, ascending and each once.

    Row ``i`` lists ``count[i]`` entries of ``lut[i]``; the count is clamped to the row's length,
    entries outside ``[0, num_k_blocks)`` are ignored and duplicates count once.
    """
    rows = []
    for entries, n in zip(lut, count, strict=True):
        listed = entries[: min(max(int(n), 0), len(entries))]
        rows.append(np.unique(listed[(listed >= 0) & (listed < num_k_blocks)]))
    return rows


def sparse_attention_reference(
    arguments: Arguments, attended: Iterable[np.ndarray], block_q: int, block_k: int
) -> np.ndarray:
    """Block-sparse attention in float64, in the shape of ``arguments["O"]``.

    Q, K, V and O are arrays ``[tokens, heads, head size]`` (any strides). ``attended`` gives the
    key blocks of each query block. Scores are ``(q . k) * scale_log2``, the softmax is base 2.
    Keys from ``seqlen_k`` on take no part; a row that attends nothing, or nothing but scores of
    -inf, is 0; rows from ``seqlen_q`` on, which a kernel does not write, are NaN.
    """
    seqlen_q, seqlen_k = int(arguments["seqlen_q"]), int(arguments["seqlen_k"])
    scale = float(np.float32(arguments["scale_log2"]))
    q, k, v = (np.asarray(arguments[n]).astype(np.float64).swapaxes(0, 1) for n in ("Q", "K", "V"))
    k, v = (np.repeat(x, len(q) // len(k), axis=0) for x in (k, v))
    out = np.full(np.asarray(arguments["O"]).shape, np.nan)
    out[:seqlen_q] = 0.0
    for q_block, blocks in enumerate(attended):
        rows = slice(q_block * block_q, min((q_block + 1) * block_q, seqlen_q))
        keys = (np.asarray(blocks)[:, None] * block_k + np.arange(block_k)).ravel()
        keys = keys[keys < seqlen_k]
        if rows.start >= rows.stop or not keys.size:
            continue
        scores = q[:, rows] @ k[:, keys].swapaxes(1, 2) * scale
        highest = scores.max(axis=-1, keepdims=True)
        nothing = np.isneginf(highest)
        weights = np.exp2(scores - np.where(nothing, 0, highest))
        total = np.where(nothing, 1, weights.sum(axis=-1, keepdims=True))
        out[rows] = (weights / total @ v[:, keys]).swapaxes(0, 1)
    return out
