"""Making patterns on the device: conversions, row order, block means, top-k selection.

Each function launches one kernel of ``rocke.kernels.sparsity``; nothing is read on the host.
``device`` is a device or a name as :func:`rocke.open_device` takes; ``library`` as
:func:`rocke.attention.block_sparse_attention` has it. All raise
:class:`rocke.runtime.ArgumentError` that names what is wrong, and
:class:`rocke.runtime.DeviceError` for a name of no device.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rocke.attention.devices import device_of
from rocke.attention.launching import Kernel, Library, check_library, launch
from rocke.attention.options import count
from rocke.attention.patterns import (
    BitmapPattern,
    ListPattern,
    Pattern,
    as_i32,
    described,
    expect,
    refuse_masked,
)
from rocke.attention.tensors import DTYPES, LAYOUTS, check_loads, element_strides
from rocke.runtime import ArgumentError
from rocke.runtime.device import Device

MAX_BLOCKS = 2048
"""Key blocks that :func:`select_blocks` chooses from, at most."""


def bitmap_to_list(
    pattern: BitmapPattern,
    *,
    device: Device | str,
    width: int | None = None,
    library: Library | None = None,
) -> ListPattern:
    """The pattern as ascending lists with room for ``width`` blocks (default: all).

    Counts are those of the bitmap: one above ``width`` says that the list was cut.
    """
    expect(pattern, BitmapPattern)
    batch, heads, rows, blocks = pattern.bitmap.shape
    width = blocks if width is None else count("width", width)
    indices, counts = _lists(batch, heads, rows, width)
    if pattern.bitmap.size:
        _launch(
            Kernel.of("map_to_index"),
            device,
            library,
            bitmap=_rows(pattern.bitmap),
            indices=_rows(indices),
            counts=counts.reshape(-1),
            rows=batch * heads * rows,
            num_k_blocks=blocks,
            width=width,
        )
    return ListPattern(indices, counts, pattern.block_q, pattern.block_k)


def list_to_bitmap(
    pattern: ListPattern,
    num_k_blocks: int,
    *,
    device: Device | str,
    library: Library | None = None,
) -> BitmapPattern:
    """The pattern as a bitmap of 0 and 1 over ``num_k_blocks`` key blocks."""
    indices, counts = _whole(pattern)
    batch, heads, rows, width = indices.shape
    blocks = count("num_k_blocks", num_k_blocks)
    bitmap = np.zeros((batch, heads, rows, blocks), np.int8)
    if indices.size:
        _launch(
            Kernel.of("index_to_map"),
            device,
            library,
            indices=_rows(indices),
            counts=counts.reshape(-1),
            bitmap=_rows(bitmap),
            rows=batch * heads * rows,
            num_k_blocks=blocks,
            width=width,
        )
    return BitmapPattern(bitmap, pattern.block_q, pattern.block_k)


def invert_list(
    pattern: ListPattern,
    num_k_blocks: int,
    *,
    device: Device | str,
    width: int | None = None,
    library: Library | None = None,
) -> ListPattern:
    """For each key block the query blocks that attend it, ascending: ``[..., num_k_blocks,
    width]`` (default: room for all); its ``block_q`` is the pattern's ``block_k`` and vice versa.
    """
    indices, counts = _whole(pattern)
    batch, heads, rows, _ = indices.shape
    blocks = count("num_k_blocks", num_k_blocks)
    width = max(rows, 1) if width is None else count("width", width)
    inverse, inverse_counts = _lists(batch, heads, blocks, width)
    if indices.size:
        _launch(
            Kernel.of("invert_index"),
            device,
            library,
            indices=indices.reshape(-1, *indices.shape[2:]),
            counts=counts.reshape(-1, rows),
            inverse=inverse.reshape(-1, blocks, width),
            inverse_counts=inverse_counts.reshape(-1, blocks),
            matrices=batch * heads,
            num_q_blocks=rows,
            num_k_blocks=blocks,
            width=pattern.width,
            inverse_width=width,
        )
    return ListPattern(inverse, inverse_counts, pattern.block_k, pattern.block_q)


def list_from_deltas(
    deltas: np.ndarray,
    counts: np.ndarray,
    block_q: int = 64,
    block_k: int = 64,
    *,
    device: Device | str,
    library: Library | None = None,
) -> ListPattern:
    """Lists coded as their first block and differences to the entry before, as CK has them."""
    coded = ListPattern(deltas, counts, block_q, block_k)
    given, counts = _whole(coded)
    indices = np.empty_like(given)
    if given.size:
        _launch(
            Kernel.of("deltas_to_index"),
            device,
            library,
            deltas=_rows(given),
            counts=counts.reshape(-1),
            indices=_rows(indices),
            rows=counts.size,
            width=coded.width,
        )
    return ListPattern(indices, counts, block_q, block_k)


def list_to_deltas(
    pattern: ListPattern, *, device: Device | str, library: Library | None = None
) -> np.ndarray:
    """Differences of the lists, of the shape of ``pattern.indices``; 0 past the counts."""
    indices, counts = _whole(pattern)
    deltas = np.empty_like(indices)
    if indices.size:
        _launch(
            Kernel.of("index_to_deltas"),
            device,
            library,
            indices=_rows(indices),
            counts=counts.reshape(-1),
            deltas=_rows(deltas),
            rows=counts.size,
            width=pattern.width,
        )
    return deltas


def longest_first(
    pattern: Pattern, *, device: Device | str, library: Library | None = None
) -> np.ndarray:
    """The order of query blocks by count, largest first: i32 ``[batch or 1, heads or 1, rows]``,
    as ``row_order`` of :func:`rocke.attention.block_sparse_attention`.
    """
    if isinstance(pattern, BitmapPattern):
        width = pattern.bitmap.shape[3]
        pattern = bitmap_to_list(pattern, device=device, width=1, library=library)
    else:
        expect(pattern, ListPattern)
        width = pattern.width
    counts = np.ascontiguousarray(pattern.counts)
    order = np.empty_like(counts)
    rows = counts.shape[2]
    if counts.size:
        _launch(
            Kernel.of("row_order"),
            device,
            library,
            counts=counts.reshape(-1, rows),
            order=order.reshape(-1, rows),
            matrices=counts.shape[0] * counts.shape[1],
            num_q_blocks=rows,
            width=width,
        )
    return order


def block_means(
    x: np.ndarray,
    block_size: int,
    *,
    device: Device | str,
    sizes: np.ndarray | None = None,
    layout: str = "bhsd",
    library: Library | None = None,
) -> np.ndarray:
    """Means of blocks of tokens: f32 ``[batch, heads, num_blocks, head size]``.

    ``x`` is f16 or bf16, ``[batch, heads, tokens, head size]`` or with ``layout="bshd"`` the tokens
    before the heads. ``sizes`` i32 ``[num_blocks]``: leading tokens of each block that are real.
    """
    refuse_masked("x", x)
    refuse_masked("sizes", sizes)
    if not isinstance(x, np.ndarray) or x.ndim != 4 or x.dtype not in DTYPES:
        found = f"{x.dtype} of shape {x.shape}" if isinstance(x, np.ndarray) else type(x).__name__
        raise ArgumentError(f"x: {found}, expected float16 or bfloat16 with four axes")
    if layout not in LAYOUTS:
        raise ArgumentError(f"layout: {layout!r}, expected {' or '.join(map(repr, LAYOUTS))}")
    view = x if layout == "bhsd" else x.swapaxes(1, 2)
    batch, heads, tokens, size = view.shape
    block_size = count("block_size", block_size)
    blocks = -(-tokens // block_size)
    if sizes is not None:
        good = isinstance(sizes, np.ndarray) and sizes.dtype.kind in "iu"
        if not good or sizes.shape != (blocks,):
            raise ArgumentError(
                f"sizes: {described(sizes)}, expected integers of shape ({blocks},)"
            )
    means = np.zeros((batch, heads, blocks, size), np.float32)
    if view.size:
        check_loads("x", view, 4 if size <= 128 else 8)
        strides = zip(("batch", "head", "token"), element_strides(view), strict=True)
        _launch(
            Kernel.of(
                "block_means",
                head_size=size,
                dtype=DTYPES[view.dtype],
                variable_blocks=sizes is not None,
            ),
            device,
            library,
            x=view,
            means=means,
            **({} if sizes is None else {"sizes": as_i32(sizes)}),
            batch=batch,
            heads=heads,
            tokens=tokens,
            block_size=block_size,
            num_blocks=blocks,
            **{f"stride_{axis}": stride for axis, stride in strides},
        )
    return means


def select_blocks(
    scores: np.ndarray,
    k: int,
    block_q: int = 64,
    block_k: int = 64,
    *,
    device: Device | str,
    library: Library | None = None,
) -> ListPattern:
    """The ``k`` key blocks of highest score of each query block, in ascending order.

    ``scores`` f32 ``[..., num_q_blocks, num_k_blocks]``, at most 2,048 key blocks; of equals the
    lower block is taken, -inf and NaN never (a count may then be below ``k``).
    """
    refuse_masked("scores", scores)
    if not isinstance(scores, np.ndarray) or scores.dtype != np.float32:
        found = scores.dtype if isinstance(scores, np.ndarray) else type(scores).__name__
        raise ArgumentError(f"scores: {found}, expected a numpy array of float32")
    if not 2 <= scores.ndim <= 4:
        raise ArgumentError(
            f"scores: shape {scores.shape}, expected [batch, heads, num_q_blocks, num_k_blocks] "
            "(leading axes may be left out)"
        )
    whole = np.ascontiguousarray(scores.reshape((1,) * (4 - scores.ndim) + scores.shape))
    batch, heads, rows, blocks = whole.shape
    k = count("k", k)
    if blocks > MAX_BLOCKS:
        raise ArgumentError(f"scores: {blocks} key blocks, expected at most {MAX_BLOCKS}")
    width = min(k, max(blocks, 1))
    indices, counts = _lists(batch, heads, rows, width)
    if whole.size:
        _launch(
            Kernel.of("top_k", max_blocks=max(64, 1 << (blocks - 1).bit_length())),
            device,
            library,
            scores=_rows(whole),
            indices=_rows(indices),
            counts=counts.reshape(-1),
            rows=batch * heads * rows,
            num_k_blocks=blocks,
            width=width,
            k=k,
        )
    return ListPattern(indices, counts, block_q, block_k)


def _launch(
    kernel: Kernel, device: Device | str, library: Library | None, **arguments: Any
) -> None:
    check_library(library)
    launch(kernel, device_of(device), arguments, library=library)


def _lists(batch: int, heads: int, rows: int, width: int) -> tuple[np.ndarray, np.ndarray]:
    indices: np.ndarray = np.full((batch, heads, rows, width), -1, np.int32)
    return indices, np.zeros((batch, heads, rows), np.int32)


def _rows(array: np.ndarray) -> np.ndarray:
    """A contiguous array with all leading axes in one; a view where that is possible."""
    return np.ascontiguousarray(array).reshape(-1, array.shape[-1])


def _whole(pattern: ListPattern) -> tuple[np.ndarray, np.ndarray]:
    """Indices and counts over one batch and head axis, contiguous."""
    expect(pattern, ListPattern)
    batch, heads = pattern.lead
    rows, width = pattern.indices.shape[2:]
    try:
        indices = np.broadcast_to(pattern.indices, (batch, heads, rows, width))
        counts = np.broadcast_to(pattern.counts, (batch, heads, rows))
    except ValueError:
        raise ArgumentError(
            f"counts: shape {pattern.counts.shape} does not go with indices of shape "
            f"{pattern.indices.shape}"
        ) from None
    return np.ascontiguousarray(indices), np.ascontiguousarray(counts)
