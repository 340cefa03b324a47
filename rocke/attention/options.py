"""Checks of the options that are no arrays: flags, counts, the scale, the window."""

from __future__ import annotations

import math

import numpy as np

from rocke.runtime import ArgumentError
from rocke.runtime.device import is_count

MAX_SCALE = 1e19
"""Largest softmax scale: times log2(e) it is within the kernel's range of ``scale_log2``."""
NO_WINDOW = 2**30
"""A side of the window without a bound, as the kernel takes it."""
MAX_COUNT = 2**31 - 64
"""Largest size that a kernel counts in i32."""


def flag(name: str, value: object) -> bool:
    """True or False, numpy's too; raises :class:`ArgumentError` for anything else."""
    if not isinstance(value, (bool, np.bool_)):
        raise ArgumentError(f"{name}: {value!r}, expected True or False")
    return bool(value)


def count(name: str, value: object, most: int = MAX_COUNT) -> int:
    """An integer from 1 to ``most``, numpy's too; raises :class:`ArgumentError`."""
    if not is_count(value):
        raise ArgumentError(f"{name}: {value!r}, expected an integer of at least 1")
    if value > most:
        raise ArgumentError(f"{name}: {value}, expected at most {most}")
    return int(value)


def scale_of(softmax_scale: object, head_size: int) -> float:
    """The softmax scale, by default ``1 / sqrt(head size)``; raises :class:`ArgumentError`."""
    if softmax_scale is None:
        return 1 / math.sqrt(head_size) if head_size else 1.0
    scale = math.nan
    if isinstance(softmax_scale, (int, float, np.floating, np.integer)):
        try:
            scale = math.nan if isinstance(softmax_scale, bool) else float(softmax_scale)
        except OverflowError:  # an int beyond every float
            scale = math.inf
    if not 0 <= scale <= MAX_SCALE:
        raise ArgumentError(
            f"softmax_scale: {repr(softmax_scale)[:40]}, expected a finite number that is not "
            f"negative, at most {MAX_SCALE:g}"
        )
    return scale


def bounds_of(window: object, causal: bool) -> tuple[int, int] | None:
    """Both bounds as the kernel takes them, or None where there are none.

    Raises :class:`ArgumentError`.
    """
    if not isinstance(window, (tuple, list)) or len(window) != 2:
        raise ArgumentError(f"window: {window!r}, expected (left, right)")
    bounds = []
    for side, bound in zip(("left", "right"), window, strict=True):
        if bound is not None and not is_count(bound, -1):
            raise ArgumentError(
                f"window: {side} is {bound!r}, expected None or -1 (no bound), or 0 and up"
            )
        bounds.append(NO_WINDOW if bound in (None, -1) else min(int(bound), NO_WINDOW))
    if causal:
        bounds[1] = 0
    left, right = bounds
    return None if left == right == NO_WINDOW else (left, right)
