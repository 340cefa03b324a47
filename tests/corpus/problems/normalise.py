"""Problems of rows: softmax and norms."""

from __future__ import annotations

import numpy as np

from .problem import TOLERANCE, Expected, Problem, normal, poisoned, wide


def _softmax(a: np.ndarray) -> np.ndarray:
    e = np.exp(a - a.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def softmax(
    rng: np.random.Generator, *, rows: int, columns: int, dtype: str, padding: int = 0
) -> Problem:
    """Input rows ``padding`` elements apart beyond their length; the padding is never written."""
    x = normal(rng, (rows, columns + padding), dtype, 2.0)
    out = _softmax(wide(x[:, :columns]))
    return Problem(
        {
            "x": x,
            "out": poisoned((rows, columns), dtype),
            "columns": columns,
            "x_stride": columns + padding,
            "out_stride": columns,
        },
        {"out": Expected(out, 4 * TOLERANCE[dtype], 1e-6)},
    )


def softmax_rows(rng: np.random.Generator, *, rows: int, columns: int, dtype: str) -> Problem:
    x = normal(rng, (rows, columns), dtype, 2.0)
    return Problem(
        {"x": x, "out": poisoned(x.shape, dtype), "rows": rows, "columns": columns},
        {"out": Expected(_softmax(wide(x)), 4 * TOLERANCE[dtype], 1e-6)},
    )


def softmax_online(rng: np.random.Generator, *, rows: int, columns: int, dtype: str) -> Problem:
    x = normal(rng, (rows, columns), dtype, 2.0)
    return Problem(
        {"x": x, "out": poisoned(x.shape, dtype), "columns": columns},
        {"out": Expected(_softmax(wide(x)), 4 * TOLERANCE[dtype], 1e-6)},
    )


def layer_norm(rng: np.random.Generator, *, rows: int, columns: int, dtype: str) -> Problem:
    x = normal(rng, (rows, columns), dtype, 2.0)
    weight, bias = normal(rng, columns, dtype), normal(rng, columns, dtype)
    eps = 1e-5
    a = wide(x)
    mean, rstd = a.mean(axis=1), 1 / np.sqrt(a.var(axis=1) + eps)
    out = (a - mean[:, None]) * rstd[:, None] * wide(weight) + wide(bias)
    return Problem(
        {
            "x": x,
            "weight": weight,
            "bias": bias,
            "out": poisoned(x.shape, dtype),
            "mean_out": poisoned(rows, "f32"),
            "rstd_out": poisoned(rows, "f32"),
            "columns": columns,
            "eps": eps,
        },
        {
            "out": Expected(out, 2 * TOLERANCE[dtype], 1e-5),
            "mean_out": Expected(mean, 1e-5, 1e-5),
            "rstd_out": Expected(rstd, 1e-5, 1e-5),
        },
    )


def rms_norm(rng: np.random.Generator, *, rows: int, columns: int, dtype: str) -> Problem:
    x, weight = normal(rng, (rows, columns), dtype), normal(rng, columns, dtype)
    eps = 1e-6
    a = wide(x)
    out = a / np.sqrt((a * a).mean(axis=1, keepdims=True) + eps) * wide(weight)
    return Problem(
        {
            "x": x,
            "weight": weight,
            "out": poisoned(x.shape, dtype),
            "columns": columns,
            "eps": eps,
        },
        {"out": Expected(out, 2 * TOLERANCE[dtype], 1e-5)},
    )


def layer_norm_weight_gradient(
    rng: np.random.Generator, *, rows: int, columns: int, dtype: str
) -> Problem:
    gradient, x = normal(rng, (rows, columns), dtype), normal(rng, (rows, columns), dtype)
    mean = wide(x).mean(axis=1).astype(np.float32)
    rstd = (1 / wide(x).std(axis=1)).astype(np.float32)
    hat = (wide(x) - wide(mean)[:, None]) * wide(rstd)[:, None]
    return Problem(
        {
            "gradient": gradient,
            "x": x,
            "mean": mean,
            "rstd": rstd,
            "out_w": poisoned(columns, "f32"),
            "out_b": poisoned(columns, "f32"),
            "rows": rows,
            "columns": columns,
        },
        {
            "out_w": Expected((wide(gradient) * hat).sum(axis=0), 1e-5, 1e-4),
            "out_b": Expected(wide(gradient).sum(axis=0), 1e-5, 1e-4),
        },
    )


PROBLEMS = (
    softmax, softmax_rows, softmax_online, layer_norm, rms_norm, layer_norm_weight_gradient,
)  # fmt: skip
