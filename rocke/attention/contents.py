"""The checks that read what a pattern holds: only for those who ask for them."""

from __future__ import annotations

import numpy as np

from rocke.attention.patterns import ListPattern, Pattern
from rocke.runtime import ArgumentError


def check_contents(
    pattern: Pattern, seqlen_k: int, sizes: np.ndarray | None, order: np.ndarray | None
) -> None:
    """Refuse a pattern whose launch would not mean what it says.

    Raises :class:`ArgumentError` that names the array, the place, the value and what is right.
    """
    blocks = -(-seqlen_k // pattern.block_k)
    if isinstance(pattern, ListPattern):
        _check_lists(pattern, blocks)
    if sizes is not None:
        wrong = (sizes < 0) | (sizes > pattern.block_k)
        _refuse("variable_block_sizes", sizes, wrong, f"0 to {pattern.block_k}")
    if order is not None:
        rows = order.shape[-1]
        _refuse("row_order", order, (order < 0) | (order >= rows), f"0 to {rows - 1}")
        _refuse("row_order", order, _repeated(order), "each query block once")


def _check_lists(pattern: ListPattern, blocks: int) -> None:
    indices, counts, width = pattern.indices, pattern.counts, pattern.width
    wrong = (counts < 0) | (counts > width)
    _refuse("counts", pattern.given["counts"], wrong, f"0 to the width, {width}")
    listed = np.arange(width) < counts[..., None]
    indices, listed = np.broadcast_arrays(indices, listed)
    wrong = listed & ((indices < 0) | (indices >= blocks))
    right = f"a key block, 0 to {blocks - 1}" if blocks else "counts of 0, as there are no keys"
    _refuse("indices", np.broadcast_to(pattern.given["indices"], wrong.shape), wrong, right)
    # What is past the count becomes negative and different: it repeats nothing.
    distinct = np.where(listed, indices, -1 - np.arange(width))
    _refuse("indices", indices, _repeated(distinct), "each key block once a row")


def _repeated(array: np.ndarray) -> np.ndarray:
    """Where an entry stands further left in the same row already."""
    order = np.argsort(array, axis=-1, kind="stable")
    ordered = np.take_along_axis(array, order, axis=-1)
    again = np.zeros(array.shape, bool)
    again[..., 1:] = ordered[..., 1:] == ordered[..., :-1]
    found = np.zeros(array.shape, bool)
    np.put_along_axis(found, order, again, axis=-1)
    return found


def _refuse(name: str, array: np.ndarray, wrong: np.ndarray, right: str) -> None:
    if wrong.any():
        place = tuple(int(i) for i in np.argwhere(wrong)[0])
        raise ArgumentError(f"{name}{list(place)}: {array[place]}, expected {right}")
