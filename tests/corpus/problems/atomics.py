"""Problems whose workgroups meet in memory."""

from __future__ import annotations

import numpy as np

from .problem import DTYPES, Expected, Problem, normal, poisoned, wide

_OPERATION = {
    "add": np.add,
    "add_relaxed": np.add,
    "max": np.maximum,
    "min": np.minimum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}


def atomic_bins(
    rng: np.random.Generator, *, n: int, bins: int, dtype: str, operation: str
) -> Problem:
    """Small whole numbers, so that float sums are exact in any order."""
    kind = DTYPES[dtype]
    integer = np.issubdtype(kind, np.integer)
    low = 0 if dtype.startswith("u") else -8
    top = 1 << 20 if integer and operation != "add" else 9
    x = rng.integers(low, top, size=n).astype(kind)
    out = rng.integers(low, top, size=bins).astype(kind)
    bin_of = rng.integers(0, bins, size=n).astype(np.int32)
    exact = out.astype(np.int64) if integer else wide(out)
    values = x.astype(np.int64) if integer else wide(x)
    _OPERATION[operation].at(exact, bin_of, values)
    return Problem({"x": x, "bin_of": bin_of, "out": out, "n": n}, {"out": Expected(exact)})


def atomic_ticket(rng: np.random.Generator, *, n: int, block: int) -> Problem:
    value = rng.integers(-100, 100, size=n).astype(np.int32)
    blocks = -(-n // block)
    padded = np.zeros(blocks * block, np.int64)
    padded[:n] = value
    return Problem(
        {"order": poisoned(blocks, "i32"), "value": value, "counter": np.zeros(1, np.int32),
         "n": n},
        {
            "order": Expected(padded.reshape(blocks, block).sum(axis=1), unordered=True),
            "counter": Expected(np.array([blocks])),
        },
    )  # fmt: skip


def locked_sum(rng: np.random.Generator, *, n: int, block: int) -> Problem:
    """n is a multiple of block."""
    x = rng.integers(-8, 8, size=n).astype(np.float32)
    return Problem(
        {"x": x, "out": np.zeros(block, np.float32), "lock": np.zeros(1, np.int32), "n": n},
        {
            "out": Expected(wide(x).reshape(-1, block).sum(axis=0)),
            "lock": Expected(np.zeros(1, np.int64)),
        },
    )


def exchange(rng: np.random.Generator, *, n: int, dtype: str) -> Problem:
    x, out = normal(rng, n, dtype), normal(rng, n, dtype)
    return Problem(
        {"x": x, "out": out, "old": poisoned(n, dtype), "n": n},
        {"out": Expected(x.copy()), "old": Expected(out.copy())},
    )


def compare_exchange(rng: np.random.Generator, *, n: int, dtype: str) -> Problem:
    kind = DTYPES[dtype]
    out, expected, x = (rng.integers(0, 3, size=n).astype(kind) for _ in range(3))
    return Problem(
        {"out": out, "expected": expected, "x": x, "old": poisoned(n, dtype), "n": n},
        {"out": Expected(np.where(out == expected, x, out)), "old": Expected(out.copy())},
    )


def lds_histogram(rng: np.random.Generator, *, n: int, bins: int) -> Problem:
    x = rng.integers(0, bins, size=n).astype(np.uint32)
    return Problem(
        {"x": x, "out": np.zeros(bins, np.uint32), "n": n},
        {"out": Expected(np.bincount(x, minlength=bins))},
    )


PROBLEMS = (
    atomic_bins, atomic_ticket, locked_sum, exchange, compare_exchange, lds_histogram,
)  # fmt: skip
