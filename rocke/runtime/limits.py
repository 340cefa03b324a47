"""What a kernel family says about the arguments of a launch, and the checks that follow from it.

Limits are plain data, so kernel families need not import the runtime. They map argument names to

- ``(low, high)`` or ``(low, high, multiple_of)`` for a value: both ends are allowed;
- a mapping for a pointer, with any of

  - ``"shape"``: a tuple of sizes; the array must be C-contiguous and have exactly this shape. A
    bare buffer must be large enough for it;
  - ``"access"``: a tuple of ``(count, stride)`` pairs of sizes, in elements. The kernel reads or
    writes elements up to ``sum((count - 1) * stride)``, so the array must reach that far, and no
    stride may be negative;
  - ``"apart"``: True where no two elements of ``access`` may be the same, as in an output: each
    stride must reach over what the smaller ones span;
  - ``"span"``: ``(n, size)``: the last n pairs of ``access``, which the kernel adds up in narrow
    offsets, must span less than ``size`` bytes;
  - ``"strided"``: True where the kernel is told the array's strides but no ``access`` is given;
  - ``"align"``: the bytes to which the address must be aligned.

  An array without ``access`` or ``strided`` must be C-contiguous: nothing tells the kernel of gaps.

A size is an int, the name of an integer argument, ``"grid.x"``, ``"grid.y"`` or ``"grid.z"`` (the
workgroups of the launch), or an operation on two sizes: ``("ceil_div", a, b)``, ``("mul", a, b)``.

Example, for a query tensor ``[seqlen_q, heads, head size 128]`` in any layout::

    {"seqlen_q": (1, 4096),
     "Q": {"access": (("seqlen_q", "stride_q_token"), ("grid.y", "stride_q_head"), (128, 1)),
           "align": 16},
     "mask": {"shape": (64, 128)}}
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from rocke.runtime.packing import ArgumentError, ArgumentType

Limits = Mapping[str, Any]
Size = int | str | tuple[Any, ...]
Values = Mapping[str, Any]

OPERATIONS = ("ceil_div", "mul")
GRID = ("grid.x", "grid.y", "grid.z")
_KEYS = frozenset({"shape", "access", "apart", "span", "strided", "align"})


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
            for reference in _references(name, limit):
                value = reference in types and not types[reference].pointer
                if not value and reference not in GRID:
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
    name: str, array: np.ndarray, limits: Limits, values: Values, *, address: int | None = None
) -> None:
    """Refuse an array whose shape, extent or alignment does not fit; raises :class:`ArgumentError`.

    ``values`` holds the value arguments of the same launch, and its grid by the names of
    :data:`GRID`; ``address`` is the array's, if it is known already.
    """
    limit = limits.get(name, {})
    _check_layout(name, array, exact="shape" in limit, strided=_strided(limit))
    if "shape" in limit:
        expected = tuple(_resolve(n, values) for n in limit["shape"])
        if array.shape != expected:
            raise ArgumentError(f"argument {name!r}: shape {array.shape}, expected {expected}")
    span = sum([(n - 1) * s for n, s in zip(array.shape, array.strides, strict=True)])
    extent = 1 + span // array.itemsize
    _check_reach(name, extent, f"an array of shape {array.shape}", limit, values, array)
    _check_span(name, array.itemsize, limit, values)
    start = address_of(array) if address is None else address
    _check_alignment(name, start, limit, array.itemsize)


def address_of(array: np.ndarray) -> int:
    """The address of an array's first element; quicker than ``array.ctypes.data``."""
    address: int = array.__array_interface__["data"][0]
    return address


def check_buffer(
    name: str,
    address: int,
    nbytes: int,
    itemsize: int,
    limits: Limits,
    values: Values,
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
    _check_span(name, itemsize, limit, values)
    _check_alignment(name, address, limit, itemsize)


def _references(name: str, limit: Mapping[str, Any]) -> Iterator[str]:
    """The names in a limit's sizes; raises :class:`ArgumentError` for what is no size."""
    left = [*limit.get("shape", ()), *(e for pair in limit.get("access", ()) for e in pair)]
    while left:
        size = left.pop()
        if isinstance(size, str):
            yield size
        elif isinstance(size, tuple) and len(size) == 3 and size[0] in OPERATIONS:
            left += size[1:]
        elif not isinstance(size, int):
            raise ArgumentError(
                f"limits of {name!r}: {size!r}, expected an integer, a name, or "
                f"({' or '.join(OPERATIONS)}, a, b)"
            )


def _resolve(size: Size, values: Values) -> int:
    if isinstance(size, int):
        return size
    if isinstance(size, str):
        return int(values[size])
    operation, left, right = size
    a, b = _resolve(left, values), _resolve(right, values)
    if operation == "mul":
        return a * b
    if b < 1:
        raise ArgumentError(f"argument {_text(right)!r}: {b}, expected at least 1")
    return -(-a // b)


def _text(size: Size) -> str:
    if isinstance(size, tuple):
        return f"{size[0]}({_text(size[1])}, {_text(size[2])})"
    return str(size)


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
    steps = [s for n, s in zip(array.shape, array.strides, strict=True) if n > 1]
    if any(s < 0 or s % array.itemsize for s in steps):
        raise ArgumentError(
            f"argument {name!r}: strides {array.strides} bytes, expected multiples of "
            f"{array.itemsize} that are not negative"
        )


@dataclass(frozen=True)
class _Axis:
    """A pair of ``access``: how many steps of how many elements, and their names."""

    count: int
    stride: int
    count_name: str | None
    stride_name: str | None

    @staticmethod
    def of(pair: tuple[Size, Size], values: Values) -> _Axis:
        names = [None if isinstance(size, int) else _text(size) for size in pair]
        count, stride = (_resolve(size, values) for size in pair)
        if stride < 0:
            raise ArgumentError(f"argument {_text(pair[1])!r}: {stride}, expected 0 or more")
        return _Axis(count, stride, *names)

    @property
    def reach(self) -> int:
        """Elements from the first to the last."""
        return max(self.count - 1, 0) * self.stride

    def terms(self) -> Iterator[str]:
        if self.count > 1 and self.count_name:
            yield f"{self.count_name} = {self.count}"
        if self.count > 1 and self.stride_name:
            yield f"{self.stride_name} = {self.stride}"


def _check_reach(
    name: str,
    elements: int,
    what: str,
    limit: Mapping[str, Any],
    values: Values,
    array: np.ndarray | None = None,
) -> None:
    """Refuse memory of ``elements`` elements that ``access`` goes beyond, or overlaps within."""
    if "access" not in limit:
        return
    pairs = [
        (_resolve(count, values), _resolve(stride, values)) for count, stride in limit["access"]
    ]
    last = sum([(count - 1) * stride for count, stride in pairs if count > 1])
    good = last < elements and min([stride for _, stride in pairs]) >= 0
    overlap = _overlap(pairs) if limit.get("apart") else None
    if good and overlap is None:
        return
    axes = [_Axis.of(pair, values) for pair in limit["access"]]
    if last >= elements:
        terms = ", ".join(term for axis in axes for term in axis.terms())
        raise ArgumentError(
            f"argument {name!r}: {what} reaches element {elements - 1}, but the kernel reads or "
            f"writes up to element {last}"
            + (f" (by {terms})" if terms else "")
            + f"; expected {_remedy(last - elements + 1, axes, array)}"
        )
    if overlap is not None:
        at, span = overlap
        axis = axes[at]
        raise ArgumentError(
            f"argument {(axis.stride_name or name)!r}: {axis.stride}, expected at least {span}: "
            f"{name} is written for {' and '.join(axis.terms())}, each apart from the others"
        )


def _overlap(pairs: list[tuple[int, int]]) -> tuple[int, int] | None:
    """The first pair whose stride is shorter than what the shorter ones span, and that span."""
    span = 1
    for stride, count, at in sorted((s, n, at) for at, (n, s) in enumerate(pairs) if n > 1):
        if stride < span:
            return at, span
        span += (count - 1) * stride
    return None


def _check_span(name: str, itemsize: int, limit: Mapping[str, Any], values: Values) -> None:
    if "span" not in limit:
        return
    inner, size = limit["span"]
    pairs = limit["access"][-inner:]
    reach = sum([max(_resolve(n, values) - 1, 0) * _resolve(step, values) for n, step in pairs])
    span = (reach + 1) * itemsize
    if span >= size:
        terms = [term for pair in pairs for term in _Axis.of(pair, values).terms()]
        raise ArgumentError(
            f"argument {name!r}: {', '.join(terms)} span {span} bytes, expected less than {size}"
        )


def _remedy(beyond: int, axes: list[_Axis], array: np.ndarray | None) -> str:
    """What would have to be otherwise: by the array's own axes, or for ``beyond`` elements less."""
    wrong = []
    if array is not None and array.ndim == len(axes):
        steps = [s // array.itemsize for s in array.strides]
        for axis, n, step in zip(axes, array.shape, steps, strict=True):
            if axis.count > n and axis.count_name:
                wrong.append(f"{axis.count_name} at most {n}")
            elif axis.count > 1 and axis.stride > step and axis.stride_name:
                wrong.append(f"{axis.stride_name} = {step}")
    for axis in reversed(axes):
        rest = axis.reach - beyond
        if not wrong and axis.count > 1 and rest >= 0:
            bounds = (
                (axis.count_name, rest // max(axis.stride, 1) + 1),
                (
                    axis.stride_name,
                    rest // (axis.count - 1),
                ),
            )
            wrong = [" or ".join(f"{n} at most {most}" for n, most in bounds if n)]
    return " and ".join(filter(None, wrong)) or "a larger one"


def _check_alignment(name: str, address: int, limit: Mapping[str, Any], natural: int) -> None:
    align = max(int(limit.get("align", 1)), natural)
    if address % align:
        raise ArgumentError(
            f"argument {name!r}: address {address:#x} is not a multiple of {align} bytes, which "
            "this kernel's loads need"
        )
