"""Patterns as they are taken: types, copies, leading axes."""

import numpy as np
import pytest

from rocke.attention import BitmapPattern, ListPattern
from tests.attention.runs import as_list, attended, run, tensors


@pytest.mark.parametrize("dtype", [np.bool_, np.int8, np.uint8])
def test_bytes_are_used_as_they_are(dtype):
    bitmap = np.array([[0, 1], [1, 1]], dtype)
    made = BitmapPattern(bitmap)
    assert np.shares_memory(made.bitmap, bitmap)
    assert made.bitmap.dtype == np.int8
    assert made.bitmap.shape == (1, 1, 2, 2)
    assert (made.num_q_blocks, made.lead) == (2, (1, 1))


@pytest.mark.parametrize("dtype", [np.int16, np.int32, np.int64, np.uint64])
def test_wider_masks_keep_what_is_not_zero(dtype):
    made = BitmapPattern(np.array([[0, 256], [1, 0]], dtype))
    np.testing.assert_array_equal(made.bitmap[0, 0] != 0, [[False, True], [True, False]])


def test_i32_lists_are_used_as_they_are():
    indices, counts = np.zeros((3, 2, 4), np.int32), np.zeros(2, np.int32)
    made = ListPattern(indices, counts, 128, 32)
    assert np.shares_memory(made.indices, indices)
    assert np.shares_memory(made.counts, counts)
    assert made.indices.shape == (1, 3, 2, 4)
    assert made.counts.shape == (1, 1, 2)
    assert (made.num_q_blocks, made.width, made.lead) == (2, 4, (1, 3))


def test_wide_integers_are_converted_and_never_wrap():
    indices = np.array([[2**32, -(2**40), 5, 2**31]], np.int64)
    made = ListPattern(indices, np.array([2**33]))
    assert made.indices.dtype == made.counts.dtype == np.int32
    assert made.indices.ravel().tolist() == [2**31 - 1, -(2**31), 5, 2**31 - 1]
    assert made.counts.ravel().tolist() == [2**31 - 1]
    unsigned = ListPattern(np.array([[2**63 + 1]], np.uint64), np.array([3], np.uint8))
    assert unsigned.indices.ravel().tolist() == [2**31 - 1]


def test_other_layouts_are_copied():
    bitmap = np.zeros((4, 2), np.int8).T
    bitmap[0, 3] = 1
    made = BitmapPattern(bitmap)
    assert made.bitmap.strides[-1] == 1
    np.testing.assert_array_equal(made.bitmap[0, 0], bitmap)
    reverse = np.arange(6, dtype=np.int32).reshape(2, 3)[::-1]
    made = ListPattern(reverse, np.array([1, 2], np.int32)[::-1])
    np.testing.assert_array_equal(made.indices[0, 0], reverse)
    assert min(made.indices.strides) > 0


def test_a_shared_axis_keeps_its_stride_of_zero():
    shared = np.broadcast_to(np.ones((1, 2, 4), np.int8), (6, 2, 4))
    assert BitmapPattern(shared).bitmap.strides[1] == 0


def fortran(array):
    """The same values, the first axis contiguous."""
    return np.asfortranarray(array)


def backwards(array):
    """The same values, every stride negative."""
    flip = (slice(None, None, -1),) * array.ndim
    return np.ascontiguousarray(array[flip])[flip]


def spaced(array):
    """The same values, every second element of a longer axis."""
    return np.repeat(array, 2, -1)[..., ::2]


LAYOUTS = [fortran, backwards, spaced]


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint64, np.int16])
def test_metadata_in_any_layout_gives_the_same_bits(layout, dtype):
    given = tensors(1, batch=2, seqlen_q=192)
    blocks = attended(1, 2, 2, 3, 4)
    listed = as_list(blocks, width=4)
    indices = np.maximum(listed.indices, 0)
    sizes, order = np.array([64, 3, 0, 60]), np.array([2, 0, 1])
    options = {"variable_block_sizes": sizes, "row_order": order}
    plain, _ = run(given, ListPattern(indices, listed.counts), "gfx950", **options)
    laid = [layout(a.astype(dtype)) for a in (indices, listed.counts, sizes, order)]
    options = {"variable_block_sizes": laid[2], "row_order": laid[3]}
    found, _ = run(given, ListPattern(*laid[:2]), "gfx950", **options)
    np.testing.assert_array_equal(found, plain)
    bitmap = layout(blocks.astype(dtype))
    found, _ = run(given, BitmapPattern(bitmap), "gfx950", **options)
    expected, _ = run(given, BitmapPattern(blocks), "gfx950", **options)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("form", ["list", "bitmap"])
def test_strides_of_axes_of_one_do_not_matter(form):
    given = tensors(2, heads=1, seqlen_q=50, seqlen_k=60)
    pattern = {"list": ListPattern, "bitmap": BitmapPattern}[form]
    arrays = [np.zeros((1, 1, 1, 1), np.int32), np.ones((1, 1, 1), np.int32)]
    if form == "bitmap":
        arrays = [np.ones((1, 1, 1, 1), np.int8)]
    one = np.ones(1, np.int32)
    options = {"variable_block_sizes": 60 * one, "row_order": 0 * one}
    plain, _ = run(given, pattern(*arrays), "gfx950", **options)
    flipped = [a[(slice(None, None, -1),) * a.ndim] for a in arrays]
    options = {name: array[::-1] for name, array in options.items()}
    turned = {name: array[::-1, ::-1] for name, array in given.items()}
    found, _ = run(turned, pattern(*flipped), "gfx950", **options)
    np.testing.assert_array_equal(found, plain)


def test_numpy_integers_and_flags_are_taken():
    given, blocks = tensors(3), attended(3, 2, 4)
    pattern = BitmapPattern(blocks, np.int64(64), np.uint8(64))
    assert (type(pattern.block_q), type(pattern.block_k)) == (int, int)
    options = {"causal": np.True_, "need_lse": np.True_, "checked": np.False_}
    o, lse = run(given, pattern, "gfx950", **options)
    plain, _ = run(given, BitmapPattern(blocks), "gfx950", causal=True, need_lse=True)
    np.testing.assert_array_equal(o, plain)
    assert lse is not None
