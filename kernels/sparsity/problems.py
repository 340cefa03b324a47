"""Random arguments of the kernels around a pattern, and what they must give, in numpy."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from ..common.block_sparse_reference import attended_by_list
from ..family import Problem

Arrays = dict[str, np.ndarray]
GARBAGE = np.array([-1, -(2**31), 2**31 - 1, 10**9], np.int32)
UNSET = 77
"""Integer outputs start filled with this."""


def _unset(*shape: int, dtype: type = np.int32) -> np.ndarray:
    return np.full(shape, UNSET, dtype)


def _bitmap(rng: np.random.Generator, rows: int, blocks: int, density: float) -> np.ndarray:
    """0 and other values; the first rows attend nothing and everything."""
    bitmap = rng.integers(1, 256, (rows, blocks)).astype(np.uint8).view(np.int8)
    bitmap[rng.random((rows, blocks)) >= density] = 0
    if rows > 2:
        bitmap[0], bitmap[1] = 0, 1
    return bitmap


def _lists(
    rng: np.random.Generator, rows: int, blocks: int, width: int, density: float
) -> tuple[np.ndarray, np.ndarray]:
    """Unsorted lists with garbage behind the counts, a count of 0 beside a full one."""
    indices = rng.choice(GARBAGE, (rows, width))
    attended = _bitmap(rng, rows, blocks, density) != 0
    counts = np.minimum(attended.sum(axis=1), width).astype(np.int32)
    for row, listed in enumerate(attended):
        blocks_of_row = rng.permutation(np.flatnonzero(listed))[: counts[row]]
        indices[row, : counts[row]] = blocks_of_row
    return indices, counts


def map_to_index(bitmap: np.ndarray, width: int) -> tuple[np.ndarray, np.ndarray]:
    """Ascending lists of width ``width``, -1 behind; counts of the rows, whatever the width."""
    indices = np.full((*bitmap.shape[:-1], width), -1, np.int32)
    for place in np.ndindex(bitmap.shape[:-1]):
        attended = np.flatnonzero(bitmap[place])[:width]
        indices[place][: len(attended)] = attended
    return indices, np.count_nonzero(bitmap, axis=-1).astype(np.int32)


def make_map_to_index_problem(
    spec: Any,
    rng: np.random.Generator,
    *,
    rows: int = 64,
    num_k_blocks: int = 200,
    width: int = 128,
    density: float = 0.25,
) -> Problem:
    """Options are the sizes and the share of attended blocks."""
    arguments = {
        "bitmap": _bitmap(rng, rows, num_k_blocks, density),
        "indices": _unset(rows, width),
        "counts": _unset(rows),
        "rows": rows,
        "num_k_blocks": num_k_blocks,
        "width": width,
    }
    return Problem(arguments, ("indices", "counts"))


def map_to_index_reference(spec: Any, problem: Problem) -> Arrays:
    """The outputs by name."""
    given = problem.arguments
    indices, counts = map_to_index(given["bitmap"], given["width"])
    return {"indices": indices, "counts": counts}


def _list_arguments(
    rng: np.random.Generator, rows: int, num_k_blocks: int, width: int, density: float
) -> dict[str, Any]:
    indices, counts = _lists(rng, rows, num_k_blocks, width, density)
    return {"indices": indices, "counts": counts}


def make_index_to_map_problem(
    spec: Any,
    rng: np.random.Generator,
    *,
    rows: int = 64,
    num_k_blocks: int = 200,
    width: int = 128,
    density: float = 0.25,
) -> Problem:
    """Options are the sizes and the share of attended blocks. Some entries are out of range."""
    arguments = {
        **_list_arguments(rng, rows, num_k_blocks, width, density),
        "bitmap": _unset(rows, num_k_blocks, dtype=np.int8),
        "rows": rows,
        "num_k_blocks": num_k_blocks,
        "width": width,
    }
    _spoil(rng, arguments)
    return Problem(arguments, ("bitmap",))


def _spoil(rng: np.random.Generator, arguments: dict[str, Any]) -> None:
    """Entries that are no blocks, twice the same one, counts out of range."""
    indices, counts = arguments["indices"], arguments["counts"]
    flat, lengths = indices.reshape(-1, indices.shape[-1]), counts.reshape(-1)
    for row in range(2, len(flat), 3):
        if lengths[row] > 1:
            flat[row, rng.integers(lengths[row])] = rng.choice(GARBAGE)
            flat[row, 0] = flat[row, lengths[row] - 1]
    lengths[-1] = -3
    if len(lengths) > 3:
        lengths[-2] = 10**6


def index_to_map_reference(spec: Any, problem: Problem) -> Arrays:
    """The outputs by name."""
    given = problem.arguments
    attended = attended_by_list(given["indices"], given["counts"], given["num_k_blocks"])
    return {"bitmap": attended.astype(np.int8)}


def make_invert_index_problem(
    spec: Any,
    rng: np.random.Generator,
    *,
    matrices: int = 2,
    num_q_blocks: int = 300,
    num_k_blocks: int = 70,
    width: int = 40,
    inverse_width: int = 120,
    density: float = 0.25,
) -> Problem:
    """Options are the sizes and the share of attended blocks."""
    rows = matrices * num_q_blocks
    lists = _list_arguments(rng, rows, num_k_blocks, width, density)
    arguments = {
        "indices": lists["indices"].reshape(matrices, num_q_blocks, width),
        "counts": lists["counts"].reshape(matrices, num_q_blocks),
        "inverse": _unset(matrices, num_k_blocks, inverse_width),
        "inverse_counts": _unset(matrices, num_k_blocks),
        "matrices": matrices,
        "num_q_blocks": num_q_blocks,
        "num_k_blocks": num_k_blocks,
        "width": width,
        "inverse_width": inverse_width,
    }
    _spoil(rng, arguments)
    return Problem(arguments, ("inverse", "inverse_counts"))


def invert_index_reference(spec: Any, problem: Problem) -> Arrays:
    """The outputs by name."""
    given = problem.arguments
    attended = attended_by_list(given["indices"], given["counts"], given["num_k_blocks"])
    inverse, counts = map_to_index(attended.swapaxes(1, 2), given["inverse_width"])
    return {"inverse": inverse, "inverse_counts": counts}


def index_to_deltas(indices: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Differences to the entry before (the first to 0); 0 past the count."""
    deltas = np.diff(indices, axis=-1, prepend=np.int32(0)).astype(np.int32)
    return np.where(np.arange(indices.shape[-1]) < counts[..., None], deltas, np.int32(0))


def deltas_to_index(deltas: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """The inverse of :func:`index_to_deltas`; -1 past the count."""
    indices = np.cumsum(deltas, axis=-1, dtype=np.int32)
    return np.where(np.arange(deltas.shape[-1]) < counts[..., None], indices, np.int32(-1))


def make_index_to_deltas_problem(
    spec: Any,
    rng: np.random.Generator,
    *,
    rows: int = 64,
    num_k_blocks: int = 200,
    width: int = 128,
    density: float = 0.25,
) -> Problem:
    """Options are the sizes and the share of attended blocks."""
    arguments = {
        **_list_arguments(rng, rows, num_k_blocks, width, density),
        "deltas": _unset(rows, width),
        "rows": rows,
        "width": width,
    }
    arguments["counts"][-1] = 10**6
    return Problem(arguments, ("deltas",))


def index_to_deltas_reference(spec: Any, problem: Problem) -> Arrays:
    """The outputs by name."""
    given = problem.arguments
    return {"deltas": index_to_deltas(given["indices"], given["counts"])}


def make_deltas_to_index_problem(
    spec: Any,
    rng: np.random.Generator,
    *,
    rows: int = 64,
    num_k_blocks: int = 200,
    width: int = 128,
    density: float = 0.25,
) -> Problem:
    """Options are the sizes and the share of attended blocks."""
    lists = _list_arguments(rng, rows, num_k_blocks, width, density)
    deltas = index_to_deltas(lists["indices"], lists["counts"])
    past = np.arange(width) >= lists["counts"][:, None]
    deltas[past] = rng.choice(GARBAGE, np.count_nonzero(past))
    arguments = {
        "deltas": deltas,
        "counts": lists["counts"],
        "indices": _unset(rows, width),
        "rows": rows,
        "width": width,
    }
    return Problem(arguments, ("indices",))


def deltas_to_index_reference(spec: Any, problem: Problem) -> Arrays:
    """The outputs by name."""
    given = problem.arguments
    return {"indices": deltas_to_index(given["deltas"], given["counts"])}


def block_means(
    x: np.ndarray, block_size: int, sizes: np.ndarray | None, num_blocks: int
) -> np.ndarray:
    """f32 means of the real tokens of each block; sums in single precision, token by token."""
    batch, heads, tokens, width = x.shape
    starts = np.arange(num_blocks) * block_size
    valid = np.minimum(tokens - starts, block_size)
    if sizes is not None:
        valid = np.minimum(valid, sizes)
    sums: np.ndarray = np.zeros((batch, heads, num_blocks, width), np.float32)
    for i in range(block_size):
        real = np.flatnonzero(i < valid)
        sums[:, :, real] += x[:, :, starts[real] + i].astype(np.float32)
    return sums / np.maximum(valid, 1).astype(np.float32)[:, None]


def make_block_means_problem(
    spec: Any,
    rng: np.random.Generator,
    *,
    batch: int = 2,
    heads: int = 3,
    tokens: int = 200,
    block_size: int = 64,
) -> Problem:
    """Options are the sizes. Heads stand inside of the tokens."""
    dtype = np.dtype(np.float16 if spec.dtype == "f16" else ml_dtypes.bfloat16)
    blocks = -(-tokens // block_size)
    values = rng.standard_normal((batch, tokens, heads, spec.head_size), np.float32)
    x = values.astype(dtype).swapaxes(1, 2)
    sizes = rng.integers(0, block_size + 1, blocks).astype(np.int32)
    arguments = {
        "x": x,
        "means": np.full((batch, heads, blocks, spec.head_size), np.nan, np.float32),
        **({"sizes": sizes} if spec.variable_blocks else {}),
        "batch": batch,
        "heads": heads,
        "tokens": tokens,
        "block_size": block_size,
        "num_blocks": blocks,
        "stride_batch": x.strides[0] // dtype.itemsize,
        "stride_head": x.strides[1] // dtype.itemsize,
        "stride_token": x.strides[2] // dtype.itemsize,
    }
    return Problem(arguments, ("means",))


def block_means_reference(spec: Any, problem: Problem) -> Arrays:
    """The outputs by name."""
    given = problem.arguments
    sizes = given.get("sizes")
    return {"means": block_means(given["x"], given["block_size"], sizes, given["num_blocks"])}


def top_k(scores: np.ndarray, k: int, width: int) -> tuple[np.ndarray, np.ndarray]:
    """The best ``min(k, width)`` blocks of each row, ascending, -1 behind; and the counts."""
    rows = len(scores)
    indices, counts = np.full((rows, width), -1, np.int32), np.zeros(rows, np.int32)
    for i, row in enumerate(scores):
        eligible = np.flatnonzero(row > -np.inf)
        best = eligible[np.argsort(-row[eligible], kind="stable")][: min(k, width)]
        indices[i, : len(best)], counts[i] = np.sort(best), len(best)
    return indices, counts


def make_top_k_problem(
    spec: Any,
    rng: np.random.Generator,
    *,
    rows: int = 16,
    num_k_blocks: int = 200,
    width: int = 128,
    k: int | None = None,
    density: float = 0.25,
) -> Problem:
    """Options are the sizes; ``k`` is by default ``density`` of the blocks.

    Scores have many equals, both zeros, infinities and NaN.
    """
    scores = rng.integers(-20, 20, (rows, num_k_blocks)).astype(np.float32) / 4
    scores[rng.random(scores.shape) < 0.1] = -0.0
    for value in (np.inf, -np.inf, np.nan):
        scores[rng.random(scores.shape) < 0.03] = value
    scores[0], scores[-1] = 1, np.nan
    arguments = {
        "scores": scores,
        "indices": _unset(rows, width),
        "counts": _unset(rows),
        "rows": rows,
        "num_k_blocks": num_k_blocks,
        "width": width,
        "k": max(1, round(density * num_k_blocks)) if k is None else k,
    }
    return Problem(arguments, ("indices", "counts"))


def top_k_reference(spec: Any, problem: Problem) -> Arrays:
    """The outputs by name."""
    given = problem.arguments
    indices, counts = top_k(given["scores"], given["k"], given["width"])
    return {"indices": indices, "counts": counts}


def row_order(counts: np.ndarray, width: int) -> np.ndarray:
    """Rows by count (clamped to ``0 .. width``), largest first, the lower one among equals."""
    return np.argsort(-np.clip(counts, 0, width), axis=-1, kind="stable").astype(np.int32)


def make_row_order_problem(
    spec: Any,
    rng: np.random.Generator,
    *,
    matrices: int = 3,
    num_q_blocks: int = 150,
    width: int = 20,
    density: float = 0.25,
) -> Problem:
    """Options are the sizes; ``density`` of the width is the mean count. Many are equal."""
    counts = rng.binomial(width, density, (matrices, num_q_blocks)).astype(np.int32)
    counts[0, :3] = (-5, 10**9, 0)[: min(3, num_q_blocks)]
    arguments = {
        "counts": counts,
        "order": _unset(matrices, num_q_blocks),
        "matrices": matrices,
        "num_q_blocks": num_q_blocks,
        "width": width,
    }
    return Problem(arguments, ("order",))


def row_order_reference(spec: Any, problem: Problem) -> Arrays:
    """The outputs by name."""
    given = problem.arguments
    return {"order": row_order(given["counts"], given["width"])}
