"""What a problem is: named arguments, and what the kernel must leave in its outputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import ml_dtypes
import numpy as np

DTYPES: dict[str, np.dtype] = {
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
    "fp8e4nv": np.dtype(ml_dtypes.float8_e4m3fn),
    "fp8e4b8": np.dtype(ml_dtypes.float8_e4m3fnuz),
    "fp8e5": np.dtype(ml_dtypes.float8_e5m2),
    "fp8e5b16": np.dtype(ml_dtypes.float8_e5m2fnuz),
    **{f"{kind}{8 * size}": np.dtype(f"{kind}{size}") for kind in "iu" for size in (1, 2, 4, 8)},
}
"""Type names of the manifests -> numpy types. fp8 names are Triton's."""
TYPE_NAMES = {dtype: name for name, dtype in DTYPES.items()}

Scalar = int | float | np.generic
Argument = np.ndarray | Scalar


@dataclass(frozen=True)
class Expected:
    """An output's right value and how far an element may be off: ``atol + rtol * |value|``.

    ``value`` is float64, or an integer array that must match exactly. With ``unordered`` the
    elements may stand in any order.
    """

    value: np.ndarray
    rtol: float = 0.0
    atol: float = 0.0
    unordered: bool = False

    def mismatch(self, actual: np.ndarray) -> str | None:
        """What is wrong with ``actual`` (same shape), or None."""
        got, want = actual.reshape(-1), self.value.reshape(-1)
        if self.unordered:
            got, want = np.sort(got), np.sort(want)
        if np.issubdtype(want.dtype, np.integer):
            wrong = got != want.astype(got.dtype)
        else:
            got = got.astype(np.float64)
            with np.errstate(invalid="ignore"):
                near = np.abs(got - want) <= self.atol + self.rtol * np.abs(want)
            wrong = ~(near | (got == want) | (np.isnan(got) & np.isnan(want)))
        if not wrong.any():
            return None
        at = np.flatnonzero(wrong)
        first = [
            f"{tuple(int(j) for j in np.unravel_index(i, self.value.shape))}: "
            f"{got[i]} instead of {want[i]}"
            for i in at[:4]
        ]
        return f"{len(at)} of {len(got)} elements wrong, at " + "; ".join(first)


@dataclass(frozen=True)
class Problem:
    """Arguments by parameter name, and the expected outputs by parameter name.

    An array is device memory that the kernel gets the address of (inputs and the initial contents
    of outputs); an ``int`` is passed as i32, a ``float`` as f32, a numpy scalar as its own type.
    """

    arguments: Mapping[str, Argument]
    expected: Mapping[str, Expected] = field(default_factory=dict)


def argument_type(value: Argument) -> tuple[str, bool]:
    """The type name of an argument, and whether it is passed by address."""
    if isinstance(value, np.ndarray):
        return TYPE_NAMES[value.dtype], True
    if isinstance(value, np.generic):
        return TYPE_NAMES[value.dtype], False
    return ("i32" if isinstance(value, int) else "f32"), False


def normal(
    rng: np.random.Generator, shape: int | tuple[int, ...], dtype: str, scale: float = 1.0
) -> np.ndarray:
    """Normally distributed values, rounded to ``dtype``; integers -8 to 7.

    No f16 subnormals: the matrix instructions of gfx90a take them as zero.
    """
    kind = DTYPES[dtype]
    if np.issubdtype(kind, np.integer):
        low = 0 if dtype.startswith("u") else -8
        return rng.integers(low, 8, size=shape).astype(kind)
    values = (rng.standard_normal(shape) * scale).astype(np.float32).astype(kind)
    if dtype == "f16":
        values[np.abs(values) < np.finfo(np.float16).tiny] = 0
    return values


def poisoned(shape: int | tuple[int, ...], dtype: str) -> np.ndarray:
    """An output's initial contents: NaN (or 77), so that an element never written shows."""
    kind = DTYPES[dtype]
    value = 77 if np.issubdtype(kind, np.integer) else float("nan")
    return np.full(shape, value, dtype=kind)


def wide(a: np.ndarray) -> np.ndarray:
    """The values in float64."""
    return a.astype(np.float64)


TOLERANCE = {"f64": 1e-12, "f32": 2e-6, "f16": 1e-3, "bf16": 8e-3, "fp8e4nv": 0.07, "fp8e4b8": 0.07}
"""Relative error of one rounding to the type, with a little room."""
