"""Reductions, scans, sorting, data movement."""

from __future__ import annotations

import numpy as np

from .problem import DTYPES, Expected, Problem, normal, poisoned, wide


def reduce_all(rng: np.random.Generator, *, rows: int, columns: int, dtype: str) -> Problem:
    """Distinct values a row, so that positions are unique."""
    base = np.argsort(rng.random((rows, columns)), axis=1) - columns // 2
    x = base.astype(DTYPES[dtype])
    a = wide(x)
    out = np.stack([a.sum(1), a.max(1), a.min(1), a.argmax(1), a.argmin(1)], axis=1)
    kind = "i64" if np.issubdtype(x.dtype, np.integer) else "f64"
    exact = Expected(out.astype(DTYPES[kind]), 1e-6, 1e-3)
    return Problem({"x": x, "out": poisoned(out.shape, kind)}, {"out": exact})


def sum_all(rng: np.random.Generator, *, n: int, dtype: str) -> Problem:
    """The sum of all elements, added up in ``out[0]``."""
    x = rng.integers(-8, 8, size=n).astype(DTYPES[dtype])
    exact = x.astype(np.int64).sum() if np.issubdtype(x.dtype, np.integer) else wide(x).sum()
    return Problem(
        {"x": x, "out": np.zeros(1, DTYPES[dtype]), "n": n}, {"out": Expected(np.array([exact]))}
    )


def xor_rows(rng: np.random.Generator, *, rows: int, columns: int) -> Problem:
    x = rng.integers(-(1 << 31), 1 << 31, size=(rows, columns)).astype(np.int32)
    return Problem(
        {"x": x, "out": poisoned(columns, "i32")},
        {"out": Expected(np.bitwise_xor.reduce(x, axis=0))},
    )


def moments(rng: np.random.Generator, *, rows: int, columns: int) -> Problem:
    x = normal(rng, (rows, columns), "f32") + np.float32(3)
    return Problem(
        {"x": x, "mean": poisoned(rows, "f32"), "variance": poisoned(rows, "f32")},
        {
            "mean": Expected(wide(x).mean(axis=1), 1e-5, 1e-6),
            "variance": Expected(wide(x).var(axis=1), 1e-5, 1e-6),
        },
    )


def scan_sum(
    rng: np.random.Generator, *, rows: int, columns: int, dtype: str, axis: int, block: int,
    reverse: bool = False,
) -> Problem:  # fmt: skip
    """Sums within blocks of ``block`` rows (axis 0) or along columns (axis 1)."""
    x = rng.integers(-8, 8, size=(rows, columns)).astype(DTYPES[dtype])
    a = wide(x).reshape(rows // block, block, columns)
    a = np.flip(a, axis + 1) if reverse else a
    total = np.cumsum(a, axis=axis + 1)
    total = np.flip(total, axis + 1) if reverse else total
    return Problem(
        {"x": x, "out": poisoned(x.shape, dtype)},
        {"out": Expected(total.reshape(rows, columns), 1e-6, 1e-6)},
    )


def scan_recurrence(rng: np.random.Generator, *, rows: int, columns: int) -> Problem:
    a = rng.uniform(0.5, 1.0, size=(rows, columns)).astype(np.float32)
    b = normal(rng, (rows, columns), "f32")
    h = np.zeros((rows, columns))
    state = np.zeros(rows)
    for i in range(columns):
        state = wide(a[:, i]) * state + wide(b[:, i])
        h[:, i] = state
    return Problem(
        {"a": a, "b": b, "out": poisoned(h.shape, "f32")}, {"out": Expected(h, 1e-5, 1e-5)}
    )


def prefix_sum(rng: np.random.Generator, *, blocks: int, block: int) -> Problem:
    """Exclusive prefix sums of u32 within blocks."""
    x = rng.integers(0, 100, size=(blocks, block)).astype(np.uint32)
    return Problem(
        {"x": x, "out": poisoned(x.shape, "u32")},
        {"out": Expected(np.cumsum(x, axis=1, dtype=np.int64) - x)},
    )


def sort_rows(
    rng: np.random.Generator, *, rows: int, columns: int, dtype: str, descending: bool = False
) -> Problem:
    x = normal(rng, (rows, columns), dtype)
    exact = np.sort(wide(x), axis=1)
    return Problem(
        {"x": x, "out": poisoned(x.shape, dtype)},
        {"out": Expected(exact[:, ::-1] if descending else exact)},
    )


def top_rows(rng: np.random.Generator, *, rows: int, columns: int, k: int) -> Problem:
    x = normal(rng, (rows, columns), "f32")
    return Problem(
        {"x": x, "out": poisoned((rows, k), "f32")},
        {"out": Expected(np.sort(wide(x), axis=1)[:, ::-1][:, :k])},
    )


def bins(rng: np.random.Generator, *, n: int, bins: int) -> Problem:
    x = rng.integers(0, bins, size=n).astype(np.int32)
    return Problem(
        {"x": x, "out": np.zeros(bins, np.int32), "n": n},
        {"out": Expected(np.bincount(x, minlength=bins))},
    )


def pick(rng: np.random.Generator, *, rows: int, columns: int) -> Problem:
    x = normal(rng, (rows, columns), "f32")
    index = rng.integers(0, rows, size=(rows, columns)).astype(np.int32)
    return Problem(
        {"x": x, "index": index, "out": poisoned(x.shape, "f32")},
        {"out": Expected(wide(np.take_along_axis(x, index, axis=0)))},
    )


def transpose(rng: np.random.Generator, *, rows: int, columns: int, dtype: str) -> Problem:
    x = normal(rng, (rows, columns), dtype)
    return Problem(
        {"x": x, "out": poisoned((columns, rows), dtype), "rows": rows, "columns": columns},
        {"out": Expected(wide(x.T))},
    )


def shuffle(rng: np.random.Generator, *, half: int) -> Problem:
    x, y = normal(rng, half, "f32"), normal(rng, half, "f32")
    both = np.stack([wide(x), wide(y)], axis=1).reshape(-1)[::-1].reshape(half, 2)
    out = np.concatenate([both[:, 0] + both[:, 1], both[:, 0] - both[:, 1]])
    return Problem(
        {"x": x, "y": y, "out": poisoned(2 * half, "f32")}, {"out": Expected(out, 1e-6, 1e-6)}
    )


def tile_transpose(rng: np.random.Generator, *, n: int) -> Problem:
    """n tiles of 16 x 16 halves."""
    x = normal(rng, (n, 16, 16), "f16")
    return Problem(
        {"x": x, "out": poisoned(x.shape, "f16")}, {"out": Expected(wide(x.swapaxes(1, 2)))}
    )


PROBLEMS = (
    reduce_all, sum_all, xor_rows, moments, scan_sum, scan_recurrence, prefix_sum, sort_rows,
    top_rows, bins, pick, transpose, shuffle, tile_transpose,
)  # fmt: skip
