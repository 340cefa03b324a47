"""Patterns as they are taken: types, copies, leading axes."""

import numpy as np
import pytest

from rocke.attention import BitmapPattern, ListPattern


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
