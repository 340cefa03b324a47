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
    pairs = list(zip(a.tolist(), b.tolist(), strict=True))
    quotients = [abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1) for x, y in pairs]
    remainders = [x - y * q for (x, y), q in zip(pairs, quotients, strict=True)]
    wrap = 1 << 8 * a.dtype.itemsize
    bits = np.array([q % wrap for q in quotients], dtype=f"u{a.dtype.itemsize}")
    return bits.view(a.dtype), np.array(remainders, a.dtype)


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


def constant_table(rng: np.random.Generator, *, n: int) -> Problem:
    """A workgroup is 64 elements."""
    primes = np.array([2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53])
    x = rng.integers(0, 1000, size=n).astype(np.int32)
    out = primes[x & 15] * primes[np.arange(n) // 64 & 15] + x
    return Problem({"x": x, "out": poisoned(n, "i32"), "n": n}, {"out": Expected(out)})


def ballot_rank(rng: np.random.Generator, *, n: int) -> Problem:
    """Odd values before a lane in its wave, and 65536 times the wave's number of odd values."""
    x = rng.integers(0, 1 << 20, size=n).astype(np.uint32)
    odd = np.zeros((-(-n // 64), 64), np.int64)
    odd.reshape(-1)[:n] = x & 1
    out = np.cumsum(odd, axis=1) - odd + (odd.sum(axis=1, keepdims=True) << 16)
    return Problem(
        {"x": x, "out": poisoned(n, "u32"), "n": n}, {"out": Expected(out.reshape(-1)[:n])}
    )


def integer_hash(rng: np.random.Generator, *, n: int) -> Problem:
    x = _any_integers(rng, n, "u64")
    mask = (1 << 64) - 1
    out = []
    for value in x.tolist():
        h = value
        h = (h ^ h >> 33) * 0xFF51AFD7ED558CCD & mask
        h = (h ^ h >> 33) * 0xC4CEB9FE1A85EC53 & mask
        h ^= h >> 33
        signed = [v - (1 << 64) if v >> 63 else v for v in (value, h)]
        rotated = (value << 17 | value >> 47) & mask
        total = h + rotated + (value * h >> 64) + (64 - value.bit_length()) + h.bit_count()
        out.append((total + (abs(signed[0] - signed[1]) >> 3)) & mask)
    return Problem(
        {"x": x, "out": poisoned(n, "u64"), "n": n},
        {"out": Expected(np.array(out, np.uint64))},
    )


def narrow(rng: np.random.Generator, *, n: int) -> Problem:
    """Packed 8- and 16-bit arithmetic within 32-bit words."""
    x, y = _any_integers(rng, n, "u32"), _any_integers(rng, n, "u32")
    x[: n // 2] = rng.integers(0, 1 << 32, size=n // 2)
    y[: n // 2] = rng.integers(0, 1 << 32, size=n // 2)

    def parts(a: np.ndarray, kind: str) -> np.ndarray:
        return a.view(DTYPES[kind]).reshape(n, -1).astype(np.int64)

    def word(a: np.ndarray, kind: str) -> np.ndarray:
        packed = np.ascontiguousarray(a.astype(DTYPES[kind]))
        return packed.view(np.uint32).reshape(n).astype(np.int64)

    ab, bb, ac, bc = parts(x, "u8"), parts(y, "u8"), parts(x, "i8"), parts(y, "i8")
    as_, bs, au, bu = parts(x, "i16"), parts(y, "i16"), parts(x, "u16"), parts(y, "u16")
    i = np.arange(n)
    wide_xy = x.astype(np.uint64) << np.uint64(32) | y
    ones = np.full(n, 255)
    rows = [
        word(np.clip(ab + bb, 0, 255), "u8"),
        word(np.clip(ac - bc, -128, 127), "i8"),
        word(np.clip(as_ + bs, -32768, 32767), "i16"),
        word(ab + bb >> 1, "u8"),
        word(np.minimum(as_, bs), "i16") ^ word(np.maximum(au, bu), "u16"),
        (ab * bb).sum(axis=1),
        (ac * bc).sum(axis=1) + i,
        np.minimum((ab * bb).sum(axis=1) + i, (1 << 32) - 1),
        (as_ * bs).sum(axis=1) + i,
        word(np.stack([bb[:, 0], ab[:, 1], ab[:, 2], ones], axis=1), "u8"),
        np.abs(ab - bb).sum(axis=1) + i,
        (wide_xy >> (8 * (i & 3)).astype(np.uint64)).astype(np.int64),
        word(as_ * bs, "i16") + word(as_ << 3, "i16"),
        as_[:, 0] >> 2 ^ bs[:, 1] + 1 & 255,
    ]
    out = (np.stack(rows) & 0xFFFFFFFF).astype(np.uint32)
    return Problem(
        {"x": x, "y": y, "out": poisoned(out.shape, "u32"), "n": n}, {"out": Expected(out)}
    )


PROBLEMS = (
    integer_operations, bits_u32, collatz, unpack_int4, constant_table, ballot_rank, integer_hash,
    narrow,
)  # fmt: skip
