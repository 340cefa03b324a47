"""Integer problems: exact, wrapping at the width of the type."""

from __future__ import annotations

import numpy as np

from .problem import DTYPES, Expected, Problem, poisoned


def _any_integers(rng: np.random.Generator, n: int, dtype: str) -> np.ndarray:
    """All bit lengths, both signs, and the extremes."""
    kind = DTYPES[dtype]
    info = np.iinfo(kind)
    bits = rng.integers(0, 1 << 63, size=n, dtype=np.uint64) >> rng.integers(0, 63, size=n).astype(
        np.uint64
    )
    signed = np.where(rng.random(n) < 0.5, bits, ~bits + np.uint64(1))
    x = signed.astype(kind)
    x[:4] = [0, 1, info.max, info.min]
    return x


def _truncated_division(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Quotient towards zero and its remainder, without overflow for the smallest integer."""
    if np.issubdtype(a.dtype, np.unsignedinteger):
        return a // b, a % b
    wide_a, wide_b = a.astype(object), b.astype(object)
    q = np.array(
        [abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1) for x, y in zip(wide_a, wide_b)],
        dtype=object,
    )
    wrap = 1 << 8 * a.dtype.itemsize
    q_bits = np.array([int(v) % wrap for v in q], dtype=f"u{a.dtype.itemsize}").view(a.dtype)
    return q_bits, np.array([int(x - y * v) for x, y, v in zip(wide_a, wide_b, q)], a.dtype)


def integer_operations(rng: np.random.Generator, *, n: int, dtype: str) -> Problem:
    x, y = _any_integers(rng, n, dtype), _any_integers(rng, n, dtype)
    y[y == 0] = 3
    if dtype.startswith("i"):
        y[(y == -1) & (x == np.iinfo(x.dtype).min)] = 5
    with np.errstate(over="ignore"):
        by = y & DTYPES[dtype].type(7)
        quotient, remainder = _truncated_division(x, y)
        rows = [
            x + y, x - y, x * y, quotient, remainder, x << by, x >> by, x & y, x | y, x ^ y, ~x,
            np.minimum(x, y), np.maximum(x, y), (x < y).astype(x.dtype),
            np.where(x == y, x, y + DTYPES[dtype].type(1)),
        ]  # fmt: skip
    out = np.stack(rows)
    return Problem(
        {"x": x, "y": y, "out": poisoned(out.shape, dtype), "n": n}, {"out": Expected(out)}
    )


def bits_u32(rng: np.random.Generator, *, n: int) -> Problem:
    x, y = _any_integers(rng, n, "u32"), _any_integers(rng, n, "u32")
    a, b = x.astype(np.uint64), y.astype(np.uint64)
    mask = np.uint64(0xFFFFFFFF)
    length = np.array([int(v).bit_length() for v in x], np.uint64)
    ones = np.array([int(v).bit_count() for v in x], np.uint64)
    trailing = np.array([((int(v) & -int(v)) - 1 & 0xFFFFFFFF).bit_count() for v in x], np.uint64)
    rows = [
        a * b >> np.uint64(32), np.uint64(32) - length, ones, trailing,
        a << np.uint64(13) | a >> np.uint64(19),
        (a & np.uint64(0xFF00)) << np.uint64(8) | b >> np.uint64(24),
        a // np.uint64(7) + b % np.uint64(11),
        (a * np.uint64(5) + b) ^ (a + np.uint64(3)),
    ]  # fmt: skip
    out = (np.stack(rows) & mask).astype(np.uint32)
    return Problem(
        {"x": x, "y": y, "out": poisoned(out.shape, "u32"), "n": n}, {"out": Expected(out)}
    )


def collatz(rng: np.random.Generator, *, n: int, limit: int) -> Problem:
    x = rng.integers(1, 1 << 20, size=n).astype(np.int64)
    x[0] = 1
    steps = []
    for start in x:
        value, count = int(start), 0
        while value != 1 and count < limit:
            value = value // 2 if value % 2 == 0 else 3 * value + 1
            count += 1
        steps.append(count)
    return Problem(
        {"x": x, "steps": poisoned(n, "i32"), "n": n}, {"steps": Expected(np.array(steps))}
    )


def unpack_int4(rng: np.random.Generator, *, n: int, group: int) -> Problem:
    """n bytes, 2 n values; one f16 scale (a power of two) for ``group`` values."""
    packed = rng.integers(-128, 128, size=n).astype(np.int8)
    scale = (2.0 ** rng.integers(-4, 4, size=-(-2 * n // group))).astype(np.float16)
    low = ((packed.astype(np.int32) & 15) ^ 8) - 8
    values = np.stack([low, packed.astype(np.int32) >> 4], axis=1).reshape(-1)
    out = values * np.repeat(scale.astype(np.float64), group)[: 2 * n]
    return Problem(
        {"packed": packed, "scale": scale, "out": poisoned(2 * n, "f16"), "n": n},
        {"out": Expected(out)},
    )


PROBLEMS = (integer_operations, bits_u32, collatz, unpack_int4)
