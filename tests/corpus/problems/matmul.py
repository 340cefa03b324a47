"""Matrix products."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from .problem import DTYPES, Expected, Problem, normal, poisoned, wide


def _product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    if np.issubdtype(a.dtype, np.integer):
        return a.astype(np.int64) @ b.astype(np.int64)
    return wide(a) @ wide(b)


def _expected(exact: np.ndarray, k: int, out: str, unit: float = 6e-8) -> Expected:
    """f32 accumulation of k terms of about unit size, one rounding to the output type."""
    if np.issubdtype(exact.dtype, np.integer):
        return Expected(exact)
    rounding = {"f16": 6e-4, "bf16": 4.5e-3, "f64": 1e-13}.get(out, 0.0)
    return Expected(exact, rounding + (1e-13 if out == "f64" else 1e-6), max(k, 32) * unit)


def matmul(
    rng: np.random.Generator,
    *,
    m: int,
    n: int,
    k: int,
    dtype: str,
    out: str,
    dtype_b: str | None = None,
    transpose_a: bool = False,
    transpose_b: bool = False,
    unit: float = 6e-8,
) -> Problem:
    """``transpose_b`` stores b as [n, k] in memory; the strides passed describe [k, n]."""
    a, b = normal(rng, (m, k), dtype), normal(rng, (k, n), dtype_b or dtype)
    stored_a = np.ascontiguousarray(a.T) if transpose_a else a
    stored_b = np.ascontiguousarray(b.T) if transpose_b else b
    return Problem(
        {
            "a": stored_a,
            "b": stored_b,
            "out": poisoned((m, n), out),
            "m": m,
            "n": n,
            "k": k,
            "stride_am": 1 if transpose_a else k,
            "stride_ak": m if transpose_a else 1,
            "stride_bk": 1 if transpose_b else n,
            "stride_bn": k if transpose_b else 1,
            "stride_om": n,
        },
        {"out": _expected(_product(a, b), k, out, unit)},
    )


def matmul_split_k(rng: np.random.Generator, *, m: int, n: int, k: int, dtype: str) -> Problem:
    a, b = normal(rng, (m, k), dtype), normal(rng, (k, n), dtype)
    return Problem(
        {"a": a, "b": b, "out": np.zeros((m, n), np.float32), "m": m, "n": n, "k": k},
        {"out": _expected(_product(a, b), k, "f32")},
    )


def matmul_batched_bias(
    rng: np.random.Generator, *, batch: int, m: int, n: int, k: int, dtype: str
) -> Problem:
    a, b = normal(rng, (batch, m, k), dtype), normal(rng, (batch, k, n), dtype)
    bias = normal(rng, n, dtype)
    exact = np.maximum(_product(a, b) + wide(bias), 0.0)
    return Problem(
        {"a": a, "b": b, "bias": bias, "out": poisoned((batch, m, n), dtype), "m": m, "n": n,
         "k": k},
        {"out": _expected(exact, k, dtype)},
    )  # fmt: skip


_SCALED = {"e4m3": "fp8e4nv", "e5m2": "fp8e5"}


def _scaled_operand(
    rng: np.random.Generator, rows: int, k: int, form: str
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Stored values, e8m0 scales and the float64 values that they mean, along the last axis."""
    exponent = rng.integers(-3, 4, size=(rows, k // 32))
    scale = (exponent + 127).astype(np.uint8)
    factor = np.repeat(2.0**exponent, 32, axis=1)
    if form == "e2m1":
        codes = rng.integers(0, 16, size=(rows, k)).astype(np.uint8)
        values = codes.view(ml_dtypes.float4_e2m1fn).astype(np.float64)
        return codes[:, 0::2] | codes[:, 1::2] << 4, scale, values * factor
    stored = normal(rng, (rows, k), _SCALED[form])
    return stored, scale, wide(stored) * factor


def matmul_scaled(
    rng: np.random.Generator, *, m: int, n: int, k: int, form_a: str, form_b: str
) -> Problem:
    """Microscaling product; forms e4m3, e5m2 or e2m1 (two values a byte, even k low)."""
    a, a_scale, left = _scaled_operand(rng, m, k, form_a)
    b, b_scale, right = _scaled_operand(rng, n, k, form_b)
    return Problem(
        {"a": a, "a_scale": a_scale, "b": b, "b_scale": b_scale, "out": poisoned((m, n), "f32"),
         "m": m, "n": n, "k": k},
        {"out": Expected(left @ right.T, 1e-6, 2e-3)},
    )  # fmt: skip


def sgemm_tiled(rng: np.random.Generator, *, m: int, n: int, k: int) -> Problem:
    """Row-major f32 product with multiples of 16 in all sizes."""
    a, b = normal(rng, (m, k), "f32"), normal(rng, (k, n), "f32")
    return Problem(
        {"a": a, "b": b, "out": poisoned((m, n), "f32"), "m": m, "n": n, "k": k},
        {"out": _expected(_product(a, b), k, "f32", 3e-7)},
    )


def mfma_tile(
    rng: np.random.Generator, *, m: int, n: int, k: int, dtype: str, out: str, blocks: int = 1,
    unit: float | None = None,
) -> Problem:  # fmt: skip
    """``blocks`` independent products a [blocks, m, k], b [blocks, k, n] plus c.

    ``unit`` is the error of one term where the operands are rounded on the way in.
    """
    a, b = normal(rng, (blocks, m, k), dtype), normal(rng, (blocks, k, n), dtype)
    c = normal(rng, (blocks, m, n), out)
    exact = _product(a, b) + (c if np.issubdtype(c.dtype, np.integer) else wide(c))
    return Problem(
        {"a": a, "b": b, "c": c, "out": poisoned((blocks, m, n), out)},
        {"out": _expected(exact, k, out, unit or (1e-14 if DTYPES[out].itemsize == 8 else 6e-8))},
    )


PROBLEMS = (
    matmul, matmul_split_k, matmul_batched_bias, matmul_scaled, sgemm_tiled, mfma_tile,
)  # fmt: skip
