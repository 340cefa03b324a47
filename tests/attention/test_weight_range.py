"""Weights far below a row's maximum count, and scores of great magnitude stay in range."""

from __future__ import annotations

import numpy as np
import pytest

from rocke.arch import TARGETS
from rocke.attention import BitmapPattern, block_sparse_attention
from rocke.library.verifying import relative_error

KEYS, BLOCK, HEAD_SIZE = 4096, 64, 64


@pytest.mark.parametrize("arch", TARGETS)
@pytest.mark.parametrize("need_lse", [False, True])
@pytest.mark.parametrize("depth", [12, 15, 20])
def test_many_small_weights_beside_one_great_weight(arch: str, need_lse: bool, depth: int) -> None:
    """A key of weight 1 and thousands of weight ``2**-depth``, subnormal in f16 as such.

    V is 1 for the small ones alone, so the output is their share.
    """
    q, k, v = (np.zeros((1, 1, n, HEAD_SIZE), np.float16) for n in (BLOCK, KEYS, KEYS))
    q[..., 0], k[0, 0, 0, 0], v[0, 0, 1:] = 1, depth, 1
    found = block_sparse_attention(
        q,
        k,
        v,
        BitmapPattern(np.ones((1, KEYS // BLOCK), bool)),
        softmax_scale=float(np.log(2)),
        need_lse=need_lse,
        device=f"emulated:{arch}",
    )
    small = (KEYS - 1) * 2.0**-depth
    out = found[0] if need_lse else found
    assert relative_error(out, np.full(out.shape, small / (1 + small))) < 1e-3
    if need_lse:
        assert relative_error(found[1], np.full(found[1].shape, depth + np.log2(1 + small))) < 1e-5


@pytest.mark.parametrize(
    ("arch", "least", "exact"), [("gfx90a", 25, 25), ("gfx942", 31, 21), ("gfx950", 32, 21)]
)
def test_the_least_weights(arch: str, least: int, exact: int) -> None:
    """Of keys after the reference: right to ``2**-exact``, 0 below ``2**-least``."""
    q, k, v = (np.zeros((1, 1, BLOCK, HEAD_SIZE), np.float16) for _ in range(3))
    q[..., 0], v[0, 0, 1:] = 1, 60000
    for depth in (exact - 0.125, exact + 0.875, least - 0.125, least + 0.125):
        k[0, 0, 1:, 0] = -depth
        out = block_sparse_attention(
            q,
            k,
            v,
            BitmapPattern(np.ones((1, 1), bool)),
            softmax_scale=float(np.log(2)),
            device=f"emulated:{arch}",
        )
        assert bool((out > 0).all()) == (depth < least)
        assert bool((out == 0).all()) == (depth > least)
        if depth < exact:
            small = (BLOCK - 1) * 2.0**-depth
            expected = np.full(out.shape, small / (1 + small) * 60000)
            assert relative_error(out, expected) < 1e-3


@pytest.mark.parametrize("arch", TARGETS)
@pytest.mark.parametrize("magnitude", [1e4, 1e6, 2.0**23])
def test_scores_of_great_magnitude(arch: str, magnitude: float) -> None:
    """All keys but one block score ``magnitude`` in log2 units, that block its negative."""
    keys = 4 * BLOCK
    q, k = (np.zeros((1, 1, n, HEAD_SIZE), np.float16) for n in (BLOCK, keys))
    v = np.random.default_rng(5).standard_normal((1, 1, keys, HEAD_SIZE)).astype(np.float16)
    q[..., 0], k[..., 0] = 64, 64
    k[:, :, :BLOCK, 0] = -64
    scale = magnitude / 64**2 * float(np.log(2))
    pattern = BitmapPattern(np.ones((1, 4), bool))
    out = block_sparse_attention(q, k, v, pattern, softmax_scale=scale, device=f"emulated:{arch}")
    mean = v[0, 0, BLOCK:].astype(np.float64).mean(axis=0)
    assert relative_error(out, np.broadcast_to(mean, out.shape)) < 1e-3
