"""What a kernel family says about the arguments of a launch, and the checks that follow from it.

Limits are plain data, so kernel families need not import the runtime. They map argument names to

- ``(low, high)`` or ``(low, high, multiple_of)`` for a value: both ends are allowed;
- a mapping for a pointer, with any of

  - ``"shape"``: a tuple; the array must be C-contiguous and have exactly this shape. An entry is
    an int or the name of an integer argument. A bare buffer must be large enough for it;
  - ``"access"``: a tuple of ``(count, stride)`` pairs, in elements; each is an int or the name of
    an integer argument. The kernel reads or writes elements up to ``sum((count - 1) * stride)``, so
    the array must reach that far, and no stride may be negative;
  - ``"strided"``: True where the kernel is told the array's strides but no ``access`` is given;
  - ``"align"``: the bytes to which the address must be aligned.

  An array without ``access`` or ``strided`` must be C-contiguous: nothing tells the kernel of gaps.

Example, for a query tensor ``[seqlen_q, 8 heads, head size 128]`` in any layout::

    {"seqlen_q": (1, 4096),
     "Q": {"access": (("seqlen_q", "stride_q_token"), (8, "stride_q_head"), (128, 1)), "align": 16},
     "mask": {"shape": (64, 128)}}
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np

from rocke.runtime.packing import ArgumentError, ArgumentType

Limits = Mapping[str, Any]
_KEYS = frozenset({"shape", "access", "strided", "align"})


def check_limits_declaration(types: Mapping[str, ArgumentType], limits: Limits) -> None:
    """Refuse limits that name no argument, or that are not in the form given above.

    Raises :class:`ArgumentError`.
    """
    for name, limit in limits.items():
        if name not in types:
            raise ArgumentError(f"limits: {name!r} is no argument ({', '.join(types)})")
        if types[name].pointer:
            if not isinstance(limit, Mapping) or not set(limit) <= _KEYS:
                raise ArgumentError(
                    f"limits of {name!r}: {limit!r}, expected a mapping with keys of "
                    f"{', '.join(sorted(_KEYS))}"
                )
            for reference in _references(limit):
                if reference not in types or types[reference].pointer:
                    raise ArgumentError(f"limits of {name!r}: {reference!r} is no value argument")
        elif not (isinstance(limit, tuple) and len(limit) in (2, 3)):
            raise ArgumentError(
                f"limits of {name!r}: {limit!r}, expected (low, high) or (low, high, multiple_of)"
            )


def check_value(name: str, value: int | float, limits: Limits) -> None:
    """Refuse a value outside its limits or steps; raises :class:`ArgumentError`."""
    if name in limits:
        low, high, *step = limits[name]
        if not low <= value <= high:
            raise ArgumentError(
                f"argument {name!r}: {value} is outside what this kernel was built for "
                f"({low} to {high})"
            )
        if step and value % step[0]:
            raise ArgumentError(
                f"argument {name!r}: {value} is not a multiple of {step[0]}, which this kernel's "
                "loads need"
            )


def check_array(
    name: str, array: np.ndarray, limits: Limits, values: Mapping[str, int | float]
) -> None:
    """Refuse an array whose shape, extent or alignment does not fit; raises :class:`ArgumentError`.

    ``values`` holds the value arguments of the same launch.
    """
    limit = limits.get(name, {})
    _check_layout(name, array, exact="shape" in limit, strided=_strided(limit))
    if "shape" in limit:
        expected = tuple(_resolve(n, values) for n in limit["shape"])
        if array.shape != expected:
            raise ArgumentError(f"argument {name!r}: shape {array.shape}, expected {expected}")
    extent = 1 + sum(
        (n - 1) * s // array.itemsize for n, s in zip(array.shape, array.strides, strict=True)
    )
    _check_reach(name, extent, f"an array of shape {array.shape}", limit, values)
    _check_alignment(name, array.ctypes.data, limit, array.itemsize)


def check_buffer(
    name: str,
    address: int,
    nbytes: int,
    itemsize: int,
    limits: Limits,
    values: Mapping[str, int | float],
) -> None:
    """Refuse a device buffer that is too small or misaligned; raises :class:`ArgumentError`."""
    limit = limits.get(name, {})
    elements = nbytes // itemsize
    if "shape" in limit:
        expected = tuple(_resolve(n, values) for n in limit["shape"])
        if elements < prod(expected):
            raise ArgumentError(
                f"argument {name!r}: a buffer of {nbytes} bytes, expected at least "
                f"{prod(expected) * itemsize} for shape {expected}"
            )
    _check_reach(name, elements, f"a buffer of {elements} elements", limit, values)
    _check_alignment(name, address, limit, itemsize)


def _references(limit: Mapping[str, Any]) -> list[str]:
    entries = [*limit.get("shape", ()), *(e for pair in limit.get("access", ()) for e in pair)]
    return [entry for entry in entries if isinstance(entry, str)]


def _resolve(entry: int | str, values: Mapping[str, int | float]) -> int:
    return int(values[entry]) if isinstance(entry, str) else entry


def _strided(limit: Mapping[str, Any]) -> bool:
    return "access" in limit or bool(limit.get("strided"))


def _check_layout(name: str, array: np.ndarray, *, exact: bool, strided: bool) -> None:
    if array.size == 0:
        raise ArgumentError(f"argument {name!r}: the array is empty (shape {array.shape})")
    if array.ndim and array.shape[-1] > 1 and array.strides[-1] != array.itemsize:
        raise ArgumentError(
            f"argument {name!r}: the last dimension is not contiguous (stride "
            f"{array.strides[-1]} bytes, expected {array.itemsize}); use numpy.ascontiguousarray"
        )
    if (exact or not strided) and not array.flags.c_contiguous:
        why = "" if exact else "; no limit says that the kernel takes its strides"
        raise ArgumentError(
            f"argument {name!r}: the array is not C-contiguous (strides {array.strides} bytes for "
            f"shape {array.shape}{why}); use numpy.ascontiguousarray"
        )
    if any(s < 0 or s % array.itemsize for s in array.strides):
        raise ArgumentError(
            f"argument {name!r}: strides {array.strides} bytes, expected multiples of "
            f"{array.itemsize} that are not negative"
        )


def _check_reach(
    name: str,
    elements: int,
    what: str,
    limit: Mapping[str, Any],
    values: Mapping[str, int | float],
) -> None:
    if "access" not in limit:
        return
    last = 0
    for count_entry, stride_entry in limit["access"]:
        count, stride = _resolve(count_entry, values), _resolve(stride_entry, values)
        if stride < 0:
            raise ArgumentError(f"argument {stride_entry!r}: {stride}, expected 0 or more")
        last += max(count - 1, 0) * stride
    if last >= elements:
        terms = ", ".join(
            f"{c} = {values[c]}" for pair in limit["access"] for c in pair if isinstance(c, str)
        )
        raise ArgumentError(
            f"argument {name!r}: {what} reaches element {elements - 1}, but the kernel reads or "
            f"writes up to element {last}" + (f" (by {terms})" if terms else "")
        )


def _check_alignment(name: str, address: int, limit: Mapping[str, Any], natural: int) -> None:
    align = max(int(limit.get("align", 1)), natural)
    if address % align:
        raise ArgumentError(
            f"argument {name!r}: address {address:#x} is not a multiple of {align} bytes, which "
            "this kernel's loads need"
        )
