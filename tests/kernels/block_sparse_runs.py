"""Problems for the fast block-sparse attention kernel, their float64 answer, and launches."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import e, log2, sqrt
from typing import Any

import ml_dtypes
import numpy as np

from rocke.compiler import compile_kernel
from rocke.compiler.code_object import CodeObject
from rocke.emulator import EmulatedDevice
from rocke.kernels.common.block_sparse_attention import (
    EMPTY_LSE,
    NO_WINDOW,
    BlockSparseAttentionSpec,
    block_sparse_attention_block,
    block_sparse_attention_grid,
    block_sparse_attention_signature,
    build_block_sparse_attention,
)
from rocke.runtime import Launcher

ARCHS = ("gfx90a", "gfx942", "gfx950")
TYPES = {"f16": np.dtype(np.float16), "bf16": np.dtype(ml_dtypes.bfloat16)}
TOLERANCE = {"f16": 1e-3, "bf16": 8e-3}
"""Accepted norm(out - reference) / norm(reference)."""
GARBAGE = (-1, -(2**31), 2**31 - 1)


@dataclass
class Problem:
    """Tensors ``[batch, heads, rows, D]`` (any strides), the pattern as booleans, and the masks."""

    q: np.ndarray
    k: np.ndarray
    v: np.ndarray
    pattern: np.ndarray
    sizes: np.ndarray | None = None
    window: tuple[int, int] = (NO_WINDOW, NO_WINDOW)
    scale_log2: float = 0.0
    seqlen_k: int = 0
    lists: list[np.ndarray] | None = field(default=None)
    """Rows of the index list, flattened over batch, head and query block; left out: shuffled."""
    out: dict[str, np.ndarray] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.scale_log2 = self.scale_log2 or log2(e) / sqrt(self.q.shape[-1])
        self.seqlen_k = self.seqlen_k or self.k.shape[2]


def random_problem(
    spec: BlockSparseAttentionSpec,
    rng: np.random.Generator,
    *,
    batch: int = 1,
    heads: int = 2,
    kv_heads: int = 1,
    seqlen_q: int = 200,
    seqlen_k: int = 300,
    density: float = 0.4,
    window: tuple[int, int] = (NO_WINDOW, 0),
) -> Problem:
    """Normal values; the first query block, if not the only one, attends nothing."""
    dtype, size = TYPES[spec.dtype], spec.head_size

    def tensor(count: int, rows: int) -> np.ndarray:
        return rng.standard_normal((batch, count, rows, size), np.float32).astype(dtype)

    q_blocks, k_blocks = blocks(seqlen_q, spec.block_q), blocks(seqlen_k, spec.block_k)
    pattern = rng.random((batch, heads, q_blocks, k_blocks)) < density
    pattern[:, :, 0] &= q_blocks == 1
    sizes = None
    if spec.variable_blocks:
        sizes = rng.integers(0, spec.block_k + 1, k_blocks)
        sizes[rng.random(k_blocks) < 0.3] = spec.block_k
    return Problem(
        tensor(heads, seqlen_q),
        tensor(kv_heads, seqlen_k),
        tensor(kv_heads, seqlen_k),
        pattern,
        sizes=None if sizes is None else sizes.astype(np.int32),
        window=window if spec.mask_mode == "band" else (NO_WINDOW, NO_WINDOW),
    )


def blocks(rows: int, block: int) -> int:
    """Blocks that cover ``rows``."""
    return -(-rows // block)


def attended(spec: BlockSparseAttentionSpec, given: Problem) -> np.ndarray:
    """Which keys each row attends, ``[batch, heads, rows, keys]``."""
    rows, keys = given.q.shape[2], given.seqlen_k
    mask = np.repeat(np.repeat(given.pattern, spec.block_q, 2), spec.block_k, 3)
    mask = mask[:, :, :rows, :keys]
    key = np.arange(keys)
    if given.sizes is not None:
        mask = mask & (key % spec.block_k < given.sizes[key // spec.block_k])
    distance = key - (np.arange(rows)[:, None] + keys - rows)
    return mask & (-given.window[0] <= distance) & (distance <= given.window[1])


def reference(spec: BlockSparseAttentionSpec, given: Problem) -> tuple[np.ndarray, np.ndarray]:
    """O and LSE in float64, by the dense formula with a mask."""
    mask = attended(spec, given)
    group = given.q.shape[1] // given.k.shape[1]
    q, k, v = (np.asarray(x).astype(np.float64) for x in (given.q, given.k, given.v))
    k, v = (np.repeat(x[:, :, : given.seqlen_k], group, 1) for x in (k, v))
    used = mask.any(2)[..., None]
    k, v = np.where(used, k, 0), np.where(used, v, 0)
    scores = np.where(mask, q @ k.swapaxes(2, 3) * given.scale_log2, -np.inf)
    some = ~np.isneginf(scores.max(-1, keepdims=True))
    highest = np.where(some, scores.max(-1, keepdims=True), 0)
    weights = np.exp2(scores - highest)
    total = np.where(some, weights.sum(-1, keepdims=True), 1)
    lse = np.where(some, highest + np.log2(total), EMPTY_LSE)
    return np.where(some, weights @ v / total, 0), lse[..., 0]


def index_lists(given: Problem, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """The pattern as lists with garbage behind each count."""
    rows = given.pattern.reshape(-1, given.pattern.shape[-1])
    lists = given.lists or [rng.permutation(np.flatnonzero(row)) for row in rows]
    width = max(1, *(len(row) for row in lists))
    indices = rng.choice(np.array(GARBAGE, np.int64), (len(lists), width)).astype(np.int32)
    for row, listed in zip(indices, lists, strict=True):
        row[: len(listed)] = listed
    counts = np.array([len(listed) for listed in lists], np.int32)
    shape = given.pattern.shape[:3]
    return indices.reshape(*shape, width), counts.reshape(shape)


def arguments(
    spec: BlockSparseAttentionSpec, given: Problem, rng: np.random.Generator
) -> dict[str, Any]:
    """Arguments by parameter name; O (laid out like q) and LSE start as NaN."""
    rows, heads = given.q.shape[2], given.q.shape[1]
    out = np.full_like(given.q, np.nan, subok=False)
    found: dict[str, Any] = {"Q": given.q, "K": given.k, "V": given.v, "O": out}
    strided = {n: (found[n.upper()], ("batch", "head", "token")) for n in "qkvo"}
    if spec.need_lse:
        found["LSE"] = np.full(given.q.shape[:3], np.nan, np.float32)
        strided["lse"] = found["LSE"], ("batch", "head")
    if spec.pattern == "bitmap":
        found["bitmap"] = given.pattern.astype(np.int8)
        strided["bitmap"] = found["bitmap"], ("batch", "head", "row")
    else:
        found["indices"], found["counts"] = index_lists(given, rng)
        found["list_width"] = found["indices"].shape[-1]
        strided["indices"] = found["indices"], ("batch", "head", "row")
        strided["counts"] = found["counts"], ("batch", "head")
    if spec.variable_blocks:
        found["block_sizes"] = given.sizes
    if spec.row_order:
        counts = np.broadcast_to(given.pattern.sum(-1), given.pattern.shape[:3])
        found["order"] = np.argsort(-counts, axis=-1, kind="stable").astype(np.int32)
        strided["order"] = found["order"], ("batch", "head")
    found["scale_log2"] = given.scale_log2
    found["seqlen_q"], found["seqlen_k"] = rows, given.seqlen_k
    found["heads_per_kv"] = heads // given.k.shape[1]
    if spec.mask_mode == "band":
        found["window_left"], found["window_right"] = given.window
    for name, (array, axes) in strided.items():
        for axis, stride in zip(axes, array.strides, strict=False):
            found[f"stride_{name}_{axis}"] = stride // array.itemsize
    return found


@functools.lru_cache(maxsize=64)
def compiled(spec: BlockSparseAttentionSpec, arch: str) -> CodeObject:
    """The kernel's code object."""
    return compile_kernel(build_block_sparse_attention(spec, arch), arch, cache=None)


@functools.lru_cache(maxsize=8)
def device(arch: str, counters: str = "basic") -> EmulatedDevice:
    """One device a target; a kernel that does not end is stopped."""
    return EmulatedDevice(arch, max_instructions=20_000_000, counters=counters)  # type: ignore[arg-type]


def launch(
    spec: BlockSparseAttentionSpec,
    arch: str,
    given: dict[str, Any],
    *,
    counters: str = "basic",
) -> EmulatedDevice:
    """Run the kernel once; outputs are in the arguments."""
    batch, heads, rows, _ = given["Q"].shape
    target = device(arch, counters)
    launcher = Launcher(
        target,
        compiled(spec, arch),
        block_sparse_attention_signature(spec),
        grid=block_sparse_attention_grid(spec, arch, batch=batch, heads=heads, seqlen_q=rows),
        block=block_sparse_attention_block(spec, arch),
        limits={n: {"strided": True} for n, a in given.items() if isinstance(a, np.ndarray)},
    )
    launcher(**given)
    return target


def run(
    spec: BlockSparseAttentionSpec, arch: str, given: Problem, seed: int = 0
) -> tuple[np.ndarray, np.ndarray | None]:
    """Launch a problem; O in float64 and LSE."""
    made = arguments(spec, given, np.random.default_rng(seed))
    launch(spec, arch, made)
    return np.asarray(made["O"]).astype(np.float64), made.get("LSE")


def check(
    spec: BlockSparseAttentionSpec, arch: str, given: Problem, tolerance: float = 0.0
) -> np.ndarray:
    """Launch and compare with the reference; gives O."""
    out, lse = run(spec, arch, given)
    expected, expected_lse = reference(spec, given)
    some = attended(spec, given).any(-1)
    assert np.isfinite(out).all(), f"{np.count_nonzero(~np.isfinite(out))} elements not finite"
    assert (out[~some] == 0).all(), "rows that attend nothing must be exactly 0"
    error = np.linalg.norm(out - expected)
    scale = np.linalg.norm(expected)
    assert error <= (tolerance or TOLERANCE[spec.dtype]) * scale, f"error {error / scale:.2e}"
    if lse is not None:
        assert (lse[~some] == np.float32(EMPTY_LSE)).all()
        worst = np.abs(lse - expected_lse)[some] / np.maximum(1, np.abs(expected_lse[some]))
        # gfx90a takes subnormal f16 inputs as 0: up to 6e-5 of a product.
        assert worst.max(initial=0) < 1e-4
    return out


def with_options(spec: BlockSparseAttentionSpec, **changes: Any) -> BlockSparseAttentionSpec:
    """``spec`` with some fields changed."""
    return replace(spec, **changes)


def listed(*rows: Sequence[int]) -> list[np.ndarray]:
    """Rows of an index list."""
    return [np.array(row, np.int64) for row in rows]
