"""Runs of the host function on the emulated device, and what is expected of them."""

from __future__ import annotations

import functools
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from rocke.attention import BitmapPattern, ListPattern, block_sparse_attention
from rocke.emulator import EmulatedDevice
from rocke.kernels.common.block_sparse_reference import (
    EMPTY_LSE,
    Attention,
    block_sparse_attention_reference,
)

ARCHS = ("gfx90a", "gfx942", "gfx950")
TARGETS = ["gfx950", *(pytest.param(arch, marks=pytest.mark.normal) for arch in ARCHS[:2])]
"""For tests that run on every target; the quick set has one of them."""
DTYPES: dict[str, Any] = {"f16": np.float16, "bf16": ml_dtypes.bfloat16}
TOLERANCES = {"f16": 1e-3, "bf16": 8e-3}
"""Accepted norm(out - ref) / norm(ref): about two roundings of P and O to the type."""
ROW_FACTOR = 6
"""How many times that one row alone may be off."""
GARBAGE = np.array([-1, -(2**31), 2**31 - 1, 10**9], np.int32)


@functools.lru_cache(maxsize=8)
def device(arch: str) -> EmulatedDevice:
    """One device of each target for all tests."""
    return EmulatedDevice(arch)


def tensors(
    seed: int = 0,
    *,
    batch: int = 1,
    heads: int = 2,
    kv_heads: int | None = None,
    seqlen_q: int = 128,
    seqlen_k: int = 256,
    head_size: int = 64,
    dtype: str = "f16",
    layout: str = "bhsd",
) -> dict[str, np.ndarray]:
    """Random q, k and v in a layout."""
    rng = np.random.default_rng(seed)
    kv_heads = heads if kv_heads is None else kv_heads
    found = {}
    for name, n, rows in (("q", heads, seqlen_q), ("k", kv_heads, seqlen_k), ("v", kv_heads, -1)):
        shape = (batch, n, seqlen_k if rows < 0 else rows, head_size)
        if layout == "bshd":
            shape = (shape[0], shape[2], shape[1], shape[3])
        found[name] = rng.standard_normal(shape, np.float32).astype(DTYPES[dtype])
    return found


def attended(seed: int, *shape: int, density: float = 0.4) -> np.ndarray:
    """Random attended blocks as bool, at ``density``."""
    return np.random.default_rng(seed).random(shape) < density


def as_list(
    blocks: np.ndarray,
    *,
    order: str = "random",
    width: int | None = None,
    seed: int = 0,
    block_q: int = 64,
    block_k: int = 64,
    dtype: Any = np.int32,
) -> ListPattern:
    """Attended blocks as lists in an order (random, ascending, reversed), garbage behind them."""
    rng = np.random.default_rng(seed)
    counts = blocks.sum(axis=-1)
    width = max(1, int(counts.max(initial=0))) if width is None else width
    indices = rng.choice(GARBAGE, (*blocks.shape[:-1], width)).astype(dtype)
    for place in np.ndindex(blocks.shape[:-1]):
        listed = np.flatnonzero(blocks[place])
        if order == "random":
            listed = rng.permutation(listed)
        elif order == "reversed":
            listed = listed[::-1]
        indices[place][: len(listed)] = listed
    return ListPattern(indices, counts.astype(dtype), block_q, block_k)


def as_pattern(
    form: str, blocks: np.ndarray, *, block_q: int = 64, block_k: int = 64, seed: int = 0
) -> Any:
    """Attended blocks in one of the pattern's forms."""
    if form == "bitmap":
        return BitmapPattern(blocks, block_q, block_k)
    return as_list(blocks, block_q=block_q, block_k=block_k, seed=seed)


def run(
    given: dict[str, np.ndarray], pattern: Any, arch: str, **options: Any
) -> tuple[np.ndarray, np.ndarray | None]:
    """o, and lse where it is asked for."""
    on = options.pop("device", None) or device(arch)
    found = block_sparse_attention(**given, pattern=pattern, device=on, **options)
    return found if options.get("need_lse") else (found, None)


def reference(given: dict[str, np.ndarray], blocks: np.ndarray, **options: Any) -> Attention:
    """The float64 result; ``options`` as the host function has them."""
    layout = options.pop("layout", "bhsd")
    views = {n: a if layout == "bhsd" else a.swapaxes(1, 2) for n, a in given.items()}
    for ignored in ("need_lse", "row_order", "device", "settings"):
        options.pop(ignored, None)
    options["block_sizes"] = options.pop("variable_block_sizes", None)
    found = block_sparse_attention_reference(**views, attended=blocks, **options)
    return found if layout == "bhsd" else Attention(found.o.swapaxes(1, 2), found.lse)


def check(
    given: dict[str, np.ndarray],
    blocks: np.ndarray,
    arch: str,
    *,
    pattern: Any = None,
    form: str = "list",
    block_q: int = 64,
    block_k: int = 64,
    **options: Any,
) -> np.ndarray:
    """Run, compare with the reference row by row, and give o."""
    if pattern is None:
        pattern = as_pattern(form, blocks, block_q=block_q, block_k=block_k)
    o, lse = run(given, pattern, arch, **options)
    expected = reference(given, blocks, block_q=block_q, block_k=block_k, **options)
    assert o.dtype == given["q"].dtype
    assert o.shape == given["q"].shape
    compare(o, lse, expected)
    return o


def compare(o: np.ndarray, lse: np.ndarray | None, expected: Attention) -> None:
    """Finite, within the type's tolerance over all and row by row, exact where a row is empty."""
    tolerance = TOLERANCES["f16" if o.dtype == np.float16 else "bf16"]
    found = o.astype(np.float64)
    assert np.isfinite(found).all(), f"{np.count_nonzero(~np.isfinite(found))} are not finite"
    errors = np.linalg.norm(found - expected.o, axis=-1)
    norms = np.linalg.norm(expected.o, axis=-1)
    assert (found[norms == 0] == 0).all(), "rows that attend nothing must be exactly 0"
    worst = errors - ROW_FACTOR * tolerance * norms
    at = np.unravel_index(worst.argmax(), worst.shape)
    assert worst.max() <= 0, f"row {at}: error {errors[at]:.2e} of {norms[at]:.2e}"
    total, scale = np.linalg.norm(errors), np.linalg.norm(norms)
    assert total <= tolerance * scale, f"relative error {total / scale:.2e}"
    if lse is not None:
        assert lse.dtype == np.float32
        empty = expected.lse == EMPTY_LSE
        np.testing.assert_array_equal(lse[empty], np.float32(EMPTY_LSE))
        np.testing.assert_allclose(lse[~empty], expected.lse[~empty], rtol=2e-6, atol=2e-5)
