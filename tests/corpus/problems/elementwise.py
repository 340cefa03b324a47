"""Problems of flat arrays."""

from __future__ import annotations

import math

import numpy as np

from .problem import DTYPES, TOLERANCE, Expected, Problem, normal, poisoned, wide


def vector_add(rng: np.random.Generator, *, n: int, dtype: str = "f32") -> Problem:
    x, y = normal(rng, n, dtype), normal(rng, n, dtype)
    exact = x + y if np.issubdtype(x.dtype, np.integer) else wide(x) + wide(y)
    expected = Expected(exact, rtol=TOLERANCE.get(dtype, 0.0), atol=1e-6)
    return Problem(
        {"x": x, "y": y, "out": poisoned(n, dtype), "n": n},
        {"out": expected},
    )


def saxpy(rng: np.random.Generator, *, n: int, a: float = 1.5) -> Problem:
    x, y = normal(rng, n, "f32"), normal(rng, n, "f32")
    return Problem(
        {"a": a, "x": x, "y": y, "n": n}, {"y": Expected(a * wide(x) + wide(y), 1e-6, 1e-6)}
    )


_erf = np.vectorize(math.erf)
_lgamma = np.vectorize(math.lgamma)


def _sigmoid(a: np.ndarray) -> np.ndarray:
    return 1.0 / (1.0 + np.exp(-a))


def math_f32(rng: np.random.Generator, *, n: int) -> Problem:
    x = normal(rng, n, "f32", 2.0)
    a = wide(x)
    p = wide((np.abs(x) + np.float32(0.25)).astype(np.float32))
    rows = [
        np.exp(a), np.exp2(a), np.log(p), np.log2(p), np.sin(a), np.cos(a), np.sqrt(p),
        1 / np.sqrt(p), _erf(a), np.floor(a), np.ceil(a), a / p, a * p + a, _sigmoid(a),
        np.sqrt(p), p / (a * a + 1.0), np.clip(a, -0.5, 0.5), np.fmod(a, p),
    ]  # fmt: skip
    out = np.stack(rows)
    return Problem(
        {"x": x, "out": poisoned(out.shape, "f32"), "n": n}, {"out": Expected(out, 4e-6, 2e-6)}
    )


def _erfinv(y: np.ndarray) -> np.ndarray:
    """Newton's method on math.erf."""
    x = np.zeros_like(y)
    for _ in range(60):
        x -= (_erf(x) - y) / (2 / math.sqrt(math.pi) * np.exp(-x * x))
    return x


def libdevice_f32(rng: np.random.Generator, *, n: int) -> Problem:
    x = normal(rng, n, "f32", 1.2)
    a = wide(x)
    p32 = (np.abs(x) + np.float32(0.25)).astype(np.float32)
    p = wide(p32)
    rows = [
        np.tanh(a), p**a, np.arctan2(a, p), np.expm1(a), np.log1p(p), np.hypot(a, p), _lgamma(p),
        np.fmod(a, p), np.rint(wide(x * np.float32(3))), a * 32, np.copysign(p, a),
        np.trunc(wide(x * np.float32(3))), np.arcsin(a / (p + 1)), np.tan(a), _erfinv(a / (p + 1)),
        wide(np.nextafter(x, p32)),
    ]  # fmt: skip
    out = np.stack(rows)
    return Problem(
        {"x": x, "out": poisoned(out.shape, "f32"), "n": n}, {"out": Expected(out, 1e-5, 4e-6)}
    )


def math_f64(rng: np.random.Generator, *, n: int) -> Problem:
    a = rng.standard_normal(n) * 3.0
    p = np.abs(a) + 0.25
    rows = [
        np.exp(a), np.log(p), np.sqrt(p), a / p, np.floor(a * 7.0), np.maximum(a, 0.5) * a + p,
        np.sin(a), 2 * np.trunc(a),
    ]  # fmt: skip
    out = np.stack(rows)
    return Problem(
        {"x": a, "out": poisoned(out.shape, "f64"), "n": n}, {"out": Expected(out, 1e-13, 1e-13)}
    )


def convert(
    rng: np.random.Generator, *, n: int, source: str, target: str, scale: float = 4.0
) -> Problem:
    """Values that both types can hold; float to integer truncates, narrowing rounds to even."""
    if np.issubdtype(DTYPES[source], np.integer):
        x = rng.integers(-100, 100, size=n).astype(DTYPES[source])
    else:
        x = normal(rng, n, source, scale)
        x.reshape(-1)[:4] = np.array([0.0, -0.0, 1.0, -1.5]).astype(x.dtype)
    kind = DTYPES[target]
    if np.issubdtype(kind, np.integer):
        return Problem(
            {"x": x, "out": poisoned(n, target), "n": n},
            {"out": Expected(np.trunc(wide(x)).astype(kind))},
        )
    return Problem(
        {"x": x, "out": poisoned(n, target), "n": n},
        {"out": Expected(wide(wide(x).astype(np.float32).astype(kind)))},
    )


def swiglu(rng: np.random.Generator, *, n: int, dtype: str) -> Problem:
    gate, up = normal(rng, n, dtype), normal(rng, n, dtype)
    out = wide(gate) * _sigmoid(wide(gate)) * wide(up)
    return Problem(
        {"gate": gate, "up": up, "out": poisoned(n, dtype), "n": n},
        {"out": Expected(out, 2 * TOLERANCE[dtype], 1e-4)},
    )


def gelu_tanh(rng: np.random.Generator, *, n: int, dtype: str) -> Problem:
    x = normal(rng, n, dtype, 2.0)
    a = wide(x)
    out = 0.5 * a * (1 + np.tanh(0.7978845608028654 * (a + 0.044715 * a**3)))
    return Problem(
        {"x": x, "out": poisoned(n, dtype), "n": n},
        {"out": Expected(out, 2 * TOLERANCE[dtype], 1e-4)},
    )


def _philox(seed: int, counter: np.ndarray) -> list[np.ndarray]:
    """Philox-4x32, 10 rounds (Salmon et al., SC 2011), key and counter low words given."""
    c = [counter.astype(np.uint64), *(np.zeros(len(counter), np.uint64) for _ in range(3))]
    k0, k1, low = seed & 0xFFFFFFFF, seed >> 32, np.uint64(0xFFFFFFFF)
    for _ in range(10):
        left, right = c[0] * np.uint64(0xD2511F53), c[2] * np.uint64(0xCD9E8D57)
        c = [
            (right >> np.uint64(32)) ^ c[1] ^ np.uint64(k0),
            right & low,
            (left >> np.uint64(32)) ^ c[3] ^ np.uint64(k1),
            left & low,
        ]
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return [x.astype(np.uint32) for x in c]


def philox_random(rng: np.random.Generator, *, n: int) -> Problem:
    """Raw 32-bit words, and uniform values: |word| (signed, bits inverted if negative) / 2^31."""
    seed = int(rng.integers(1, 1 << 30))
    words = _philox(seed, np.arange(n))
    first = words[0].view(np.int32)
    uniform = np.where(first < 0, ~first, first) * np.float64(np.float32(4.6566127342e-10))
    return Problem(
        {
            "seed": seed,
            "out_int": poisoned((n, 4), "i32"),
            "out_uniform": poisoned(n, "f32"),
            "n": n,
        },
        {
            "out_int": Expected(np.stack(words, axis=1).view(np.int32)),
            "out_uniform": Expected(uniform, 1e-6, 1e-7),
        },
    )


def half_operations(rng: np.random.Generator, *, n: int) -> Problem:
    """Pairs of f16; some results pass through f32."""
    x, y = normal(rng, (n, 2), "f16"), normal(rng, (n, 2), "f16")
    y[np.abs(y) < 0.1] = 0.5
    a, b = wide(x), wide(y)
    b_squared = wide(y[:, 0] * y[:, 0])
    rows = [
        a + b, a * b, a * b + a, np.maximum(a, b), np.minimum(a, -b),
        (a[:, 0] / b[:, 0], np.sqrt(np.abs(a[:, 1]))), np.floor(a[:, ::-1]),
        ((a * b).sum(axis=1) + 1, a[:, 0] * b[:, 1] + 2),
        (np.exp2(a[:, 0]), np.log2(b[:, 1] ** 2 + 1)),
        (np.trunc(a[:, 0] * 16), np.trunc(b_squared * 8)), (a[:, 1], b[:, 1]),
        (np.sort(np.stack([a[:, 0], b[:, 0], np.full(n, 0.25)]), axis=0)[1], a[:, 1] * 8),
    ]  # fmt: skip
    out = np.stack([np.stack(r, axis=1) if isinstance(r, tuple) else r for r in rows])
    return Problem(
        {"x": x, "y": y, "out": poisoned(out.shape, "f16"), "n": n},
        {"out": Expected(out, 2e-3, 2e-3)},
    )


PROBLEMS = (
    vector_add, saxpy, math_f32, libdevice_f32, math_f64, convert, swiglu, gelu_tanh, philox_random,
    half_operations,
)  # fmt: skip
