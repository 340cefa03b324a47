"""Checks of q, k and v: what the kernels' 16-byte loads and 32-bit offsets need."""

from __future__ import annotations

from dataclasses import dataclass

import ml_dtypes
import numpy as np

from rocke.attention.patterns import refuse_masked
from rocke.runtime import ArgumentError

DTYPES: dict[np.dtype, str] = {
    np.dtype(np.float16): "f16",
    np.dtype(ml_dtypes.bfloat16): "bf16",
}
LAYOUTS = ("bhsd", "bshd")
"""Order of the axes: batch, heads, sequence, head dimension; or the sequence before the heads."""

MAX_GRID = 65535
"""Batch and heads are the grid's z and y dimension, which HIP limits to 16 bits."""
LOAD_BYTES = 16
SPAN = 2**32
"""Rows of one head are addressed by 32-bit byte offsets."""
OUTPUT_SPAN = SPAN - 1024
"""What is behind are offsets for rows of o that are not stored."""


@dataclass(frozen=True)
class Tensors:
    """q, k, v as views ``[batch, heads, sequence, head dimension]`` and the sizes they agree on."""

    q: np.ndarray
    k: np.ndarray
    v: np.ndarray
    layout: str

    @staticmethod
    def of(q: object, k: object, v: object, layout: str) -> Tensors:
        """The views, checked; raises :class:`ArgumentError` that names the tensor."""
        if layout not in LAYOUTS:
            raise ArgumentError(f"layout: {layout!r}, expected {' or '.join(map(repr, LAYOUTS))}")
        found = Tensors(_view("q", q, layout), _view("k", k, layout), _view("v", v, layout), layout)
        found._agree()
        for name, view in (("q", found.q), ("k", found.k), ("v", found.v)):
            check_strides(name, view)
        found._check_output()
        return found

    @property
    def dtype(self) -> str:
        """``f16`` or ``bf16``."""
        return DTYPES[self.q.dtype]

    @property
    def batch(self) -> int:
        """Batch size."""
        return self.q.shape[0]

    @property
    def heads(self) -> int:
        """Query heads."""
        return self.q.shape[1]

    @property
    def kv_heads(self) -> int:
        """Key/value heads."""
        return self.k.shape[1]

    @property
    def seqlen_q(self) -> int:
        """Query rows."""
        return self.q.shape[2]

    @property
    def seqlen_k(self) -> int:
        """Keys."""
        return self.k.shape[2]

    @property
    def head_size(self) -> int:
        """Elements of a row."""
        return self.q.shape[3]

    def check_tiles(self, tile_k: int = 64, waves_q: int = 4) -> None:
        """Refuse keys so far apart that a tile's offsets come round; raises :class:`ArgumentError`.

        By default for the largest tile, and the most waves to it, that the kernels' table has.
        """
        for name, view in (("k", self.k), ("v", self.v)):
            if view.size and view.shape[2] > 1:
                most = longest_stride(self.head_size, tile_k, waves_q)
                if view.strides[2] > most:
                    raise ArgumentError(
                        f"{name}: token stride {view.strides[2]} bytes, expected at most {most}: "
                        "a tile of keys is addressed by 32-bit offsets, past the last key too"
                    )

    def output(self) -> np.ndarray:
        """A new array for o, in the layout of q, as ``[batch, heads, sequence, dimension]``."""
        batch, heads, rows, size = self.q.shape
        if self.layout == "bhsd":
            return np.empty((batch, heads, rows, size), self.q.dtype)
        return np.empty((batch, rows, heads, size), self.q.dtype).swapaxes(1, 2)

    def in_layout(self, view: np.ndarray) -> np.ndarray:
        """``[batch, heads, sequence, dimension]`` in the caller's order."""
        return view if self.layout == "bhsd" else view.swapaxes(1, 2)

    def _check_output(self) -> None:
        _, heads, rows, size = self.q.shape
        token = size if self.layout == "bhsd" else heads * size
        span = ((rows - 1) * token + size) * self.q.itemsize
        if span >= OUTPUT_SPAN:
            raise ArgumentError(
                f"q: {rows} rows of one head of o, which is like q, span {span} bytes, expected "
                f"less than {OUTPUT_SPAN}"
            )

    def _agree(self) -> None:
        q, k, v = self.q, self.k, self.v
        for name, view in (("k", k), ("v", v)):
            if view.dtype != q.dtype:
                raise ArgumentError(f"{name}: dtype {view.dtype}, expected {q.dtype} as q")
            for axis, what in ((0, "batch size"), (3, "head size")):
                if view.shape[axis] != q.shape[axis]:
                    raise ArgumentError(
                        f"{name}: {what} {view.shape[axis]}, expected {q.shape[axis]} as q"
                    )
        for axis, what in ((1, "heads"), (2, "keys")):
            if v.shape[axis] != k.shape[axis]:
                raise ArgumentError(f"v: {v.shape[axis]} {what}, expected {k.shape[axis]} as k")
        for name, view in (("q", q), ("k", k)):
            if not view.shape[1]:
                raise ArgumentError(f"{name}: 0 heads, expected at least 1")
        if q.shape[1] % k.shape[1]:
            raise ArgumentError(
                f"q: {q.shape[1]} heads, expected a multiple of the {k.shape[1]} heads of k and v"
            )
        for axis, what in ((0, "batch size"), (1, "heads")):
            if q.shape[axis] > MAX_GRID:
                raise ArgumentError(f"q: {what} {q.shape[axis]}, expected at most {MAX_GRID}")


def _view(name: str, value: object, layout: str) -> np.ndarray:
    refuse_masked(name, value)
    order = "[batch, heads, sequence, head size]"
    if layout == "bshd":
        order = "[batch, sequence, heads, head size]"
    if not isinstance(value, np.ndarray):
        raise ArgumentError(f"{name}: {type(value).__name__}, expected a numpy array {order}")
    if value.dtype not in DTYPES:
        raise ArgumentError(f"{name}: dtype {value.dtype}, expected float16 or ml_dtypes.bfloat16")
    if value.ndim != 4:
        raise ArgumentError(f"{name}: shape {value.shape}, expected {order}")
    return value if layout == "bhsd" else value.swapaxes(1, 2)


def element_strides(view: np.ndarray) -> tuple[int, int, int]:
    """Batch, head and token stride in elements; an axis of one has any: 0, or the row's length."""
    defaults = (0, 0, view.shape[3])
    batch, head, token = (
        default if n <= 1 else stride // view.itemsize
        for default, n, stride in zip(defaults, view.shape[:3], view.strides[:3], strict=True)
    )
    return batch, head, token


def longest_stride(head_size: int, tile_k: int, waves_q: int) -> int:
    """The longest token stride of k and v in bytes, as the kernels have it."""
    rows = tile_k + -(-512 * waves_q // head_size)
    return (SPAN - 4096) // 2 // rows * 2


def check_strides(name: str, view: np.ndarray) -> None:
    """Refuse what 16-byte loads at 32-bit offsets cannot read; raises :class:`ArgumentError`."""
    if not view.size:
        return
    check_loads(name, view, LOAD_BYTES)
    span = (view.shape[2] - 1) * view.strides[2] + view.shape[3] * view.itemsize
    if span >= SPAN:
        raise ArgumentError(
            f"{name}: {view.shape[2]} rows of one head span {span} bytes, expected less than {SPAN}"
        )


def check_loads(name: str, view: np.ndarray, load: int) -> None:
    """Refuse strides and an address that do not suit loads of so many bytes.

    Raises :class:`ArgumentError`.
    """
    size = view.itemsize
    if view.strides[3] != size:
        raise ArgumentError(
            f"{name}: the head dimension is not contiguous (stride {view.strides[3]} bytes, "
            f"expected {size}); use numpy.ascontiguousarray"
        )
    for what, n, stride in zip(
        ("batch", "head", "token"), view.shape[:3], view.strides[:3], strict=True
    ):
        if n > 1 and (stride < 0 or stride % load):
            raise ArgumentError(
                f"{name}: {what} stride {stride} bytes, expected a multiple of {load} (of "
                f"{load // size} elements) that is not negative, for {load}-byte loads"
            )
    if view.ctypes.data % load:
        raise ArgumentError(
            f"{name}: address {view.ctypes.data:#x}, expected a multiple of {load} bytes"
        )
