"""Which key blocks each block of queries attends: as a bitmap, or as lists of block numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from rocke.attention.options import count
from rocke.runtime import ArgumentError

_INT32 = np.iinfo(np.int32)


@dataclass(frozen=True, eq=False)
class BitmapPattern:
    """``bitmap`` ``[..., num_q_blocks, num_k_blocks]``: not 0 = the query block attends the keys.

    Before the last two axes stand none (shared by all), ``heads``, or ``batch, heads``; an axis of
    1 (or with stride 0) is shared. Types: bool, i8 and u8 are used as they are, without a copy;
    wider integers are converted. ``block_q`` and ``block_k``: tokens of a block.

    Raises :class:`rocke.runtime.ArgumentError` that names what is wrong.
    """

    bitmap: np.ndarray
    block_q: int = 64
    block_k: int = 64

    def __post_init__(self) -> None:
        bitmap = _array("bitmap", self.bitmap, 2, "[batch, heads, num_q_blocks, num_k_blocks]")
        if bitmap.dtype not in (np.bool_, np.int8, np.uint8):
            bitmap = bitmap != 0
        object.__setattr__(self, "bitmap", plain(bitmap).view(np.int8))
        _keep_block_sizes(self)

    @property
    def num_q_blocks(self) -> int:
        """Rows of the bitmap."""
        return self.bitmap.shape[-2]

    @property
    def lead(self) -> tuple[int, int]:
        """The first two axes: batch or 1, heads or 1."""
        return self.bitmap.shape[0], self.bitmap.shape[1]


@dataclass(frozen=True, eq=False)
class ListPattern:
    """``indices`` ``[..., num_q_blocks, width]`` with ``counts`` ``[..., num_q_blocks]``.

    Row i attends the key blocks ``indices[i, :counts[i]]``, in any order; what stands behind is
    never used. Leading axes as in :class:`BitmapPattern`, for each array on its own. Integers of
    any width are accepted and converted to i32 (i32 needs no copy); a value beyond its range
    becomes the nearest i32, which is no block number either. Entries outside of the key blocks are
    ignored, counts beyond the width are cut to it. Duplicates have no defined weight.

    Raises :class:`rocke.runtime.ArgumentError` that names what is wrong.
    """

    indices: np.ndarray
    counts: np.ndarray
    block_q: int = 64
    block_k: int = 64
    given: Mapping[str, np.ndarray] = field(init=False, repr=False)
    """Both arrays before conversion to i32, with all leading axes."""

    def __post_init__(self) -> None:
        indices = _array("indices", self.indices, 2, "[batch, heads, num_q_blocks, width]")
        counts = _array("counts", self.counts, 1, "[batch, heads, num_q_blocks]")
        if counts.shape[-1] != indices.shape[-2]:
            raise ArgumentError(
                f"counts: shape {counts.shape}, expected {indices.shape[-2]} query blocks as in "
                f"indices, of shape {indices.shape}"
            )
        _keep_block_sizes(self)
        object.__setattr__(self, "given", {"indices": indices, "counts": counts})
        object.__setattr__(self, "indices", as_i32(indices))
        object.__setattr__(self, "counts", as_i32(counts))

    @property
    def num_q_blocks(self) -> int:
        """Rows of the lists."""
        return self.indices.shape[-2]

    @property
    def width(self) -> int:
        """Entries that a row has room for."""
        return self.indices.shape[-1]

    @property
    def lead(self) -> tuple[int, int]:
        """The first two axes: batch or 1, heads or 1."""
        (a, b), (c, d) = self.indices.shape[:2], self.counts.shape[:2]
        return max(a, c), max(b, d)


Pattern = BitmapPattern | ListPattern


def as_i32(array: np.ndarray) -> np.ndarray:
    """Integers as i32, values out of range as the nearest; no copy where none is needed."""
    if array.dtype == np.int32:
        return plain(array)
    return plain(np.clip(array, _INT32.min, _INT32.max).astype(np.int32, order="C"))


def plain(array: np.ndarray) -> np.ndarray:
    """The array itself if its last axis is contiguous and no stride negative, else a copy.

    Strides of axes of 1 do not count.
    """
    size, strides = array.itemsize, array.strides
    neighbours = array.shape[-1] <= 1 or strides[-1] == size
    steps = (s for n, s in zip(array.shape, strides, strict=True) if n > 1)
    if neighbours and all(s >= 0 and s % size == 0 for s in steps):
        return array
    return np.ascontiguousarray(array)


def refuse_masked(name: str, value: object) -> None:
    """Refuse a masked array, whose mask no kernel sees; raises :class:`ArgumentError`."""
    if isinstance(value, np.ma.MaskedArray):
        raise ArgumentError(
            f"{name}: a masked array, expected a plain one (numpy.ma.filled makes it)"
        )


def described(value: object) -> str:
    """What a value is, for messages."""
    if isinstance(value, np.ndarray):
        return f"{value.dtype} of shape {value.shape}"
    return type(value).__name__


def expect(pattern: object, kind: type) -> None:
    """Refuse a pattern of another kind; raises :class:`ArgumentError`."""
    if not isinstance(pattern, kind):
        raise ArgumentError(f"pattern: {type(pattern).__name__}, expected a {kind.__name__}")


def lead_strides(name: str, array: np.ndarray, batch: int, heads: int) -> tuple[int, int]:
    """Batch and head stride in elements, 0 where the axis is shared.

    Raises :class:`ArgumentError` for an axis that is neither 1 nor the problem's.
    """
    found = []
    for axis, (what, size) in enumerate((("batch", batch), ("query heads", heads))):
        if array.shape[axis] not in (1, size):
            raise ArgumentError(
                f"{name}: shape {array.shape}, axis {axis} is {array.shape[axis]}, expected 1 "
                f"(shared) or {size} ({what})"
            )
        found.append(0 if array.shape[axis] == 1 else array.strides[axis] // array.itemsize)
    return found[0], found[1]


def _array(name: str, value: object, rank: int, shape: str) -> np.ndarray:
    """``value`` as an integer array with both leading axes."""
    refuse_masked(name, value)
    if not isinstance(value, np.ndarray):
        raise ArgumentError(f"{name}: {type(value).__name__}, expected a numpy array {shape}")
    kinds: Sequence[str] = "iub" if name == "bitmap" else "iu"
    if value.dtype.kind not in kinds:
        raise ArgumentError(
            f"{name}: dtype {value.dtype}, expected an integer type"
            + (" or bool" if "b" in kinds else "")
        )
    if not rank <= value.ndim <= rank + 2:
        raise ArgumentError(
            f"{name}: shape {value.shape}, expected {shape} (leading axes may be left out)"
        )
    return value.reshape((1,) * (rank + 2 - value.ndim) + value.shape)


def _keep_block_sizes(pattern: BitmapPattern | ListPattern) -> None:
    for name in ("block_q", "block_k"):
        object.__setattr__(pattern, name, count(name, getattr(pattern, name)))
