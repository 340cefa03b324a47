"""Patterns made on the device."""

import numpy as np
import pytest

from rocke.attention import (
    BitmapPattern,
    ListPattern,
    bitmap_to_list,
    block_means,
    invert_list,
    list_from_deltas,
    list_to_bitmap,
    list_to_deltas,
    longest_first,
    select_blocks,
)
from rocke.runtime import ArgumentError
from tests.attention.runs import as_list, as_pattern, attended, check, device, run, tensors

ON = device("gfx950")


def test_bitmaps_and_lists_and_back():
    blocks = attended(1, 2, 3, 5, 70)
    listed = bitmap_to_list(BitmapPattern(blocks, 128, 32), device=ON)
    assert (listed.block_q, listed.block_k, listed.width) == (128, 32, 70)
    ascending = as_list(blocks, order="ascending", width=70)
    np.testing.assert_array_equal(listed.counts, ascending.counts)
    for place in np.ndindex(listed.counts.shape):
        count = listed.counts[place]
        np.testing.assert_array_equal(
            listed.indices[place][:count], ascending.indices[place][:count]
        )
    back = list_to_bitmap(as_list(blocks), 70, device=ON)
    np.testing.assert_array_equal(back.bitmap != 0, blocks)


def test_shared_axes_stay_shared():
    blocks = attended(2, 5, 9)
    listed = bitmap_to_list(BitmapPattern(blocks), device=ON, width=4)
    assert listed.indices.shape == (1, 1, 5, 4)
    np.testing.assert_array_equal(listed.counts[0, 0], blocks.sum(axis=1))


def test_inversion():
    blocks = attended(3, 2, 1, 6, 11)
    found = invert_list(as_list(blocks, block_q=128, block_k=32), 11, device=ON)
    assert (found.block_q, found.block_k) == (32, 128)
    expected = bitmap_to_list(BitmapPattern(blocks.swapaxes(2, 3)), device=ON)
    np.testing.assert_array_equal(found.counts, expected.counts)
    np.testing.assert_array_equal(found.indices, expected.indices)


def test_differences():
    blocks = attended(4, 2, 5, 40)
    pattern = as_list(blocks)
    deltas = list_to_deltas(pattern, device=ON)
    assert deltas[0, 0, 0, 0] == pattern.indices[0, 0, 0, 0]
    back = list_from_deltas(deltas[0], pattern.counts[0], device=ON)
    np.testing.assert_array_equal(list_to_bitmap(back, 40, device=ON).bitmap[0] != 0, blocks)


def test_longest_first():
    blocks = attended(5, 2, 9, 12)
    counts = blocks.sum(axis=-1)
    expected = np.argsort(-counts, axis=-1, kind="stable")
    for pattern in (as_list(blocks), BitmapPattern(blocks)):
        np.testing.assert_array_equal(longest_first(pattern, device=ON)[0], expected)


@pytest.mark.normal
@pytest.mark.parametrize("form", ["list", "bitmap"])
def test_attention_in_the_order_of_length(form):
    given, blocks = tensors(6, seqlen_q=300), attended(6, 2, 5, 4)
    pattern = as_pattern(form, blocks)
    plain, _ = run(given, pattern, "gfx950")
    ordered, _ = run(given, pattern, "gfx950", row_order="longest_first")
    np.testing.assert_array_equal(plain, ordered)


def test_selection_by_means_end_to_end():
    given = tensors(7, seqlen_q=200, seqlen_k=520, layout="bshd")
    q = block_means(given["q"], 64, device=ON, layout="bshd")
    k = block_means(given["k"], 64, device=ON, layout="bshd")
    pattern = select_blocks(q @ k.swapaxes(2, 3), 3, device=ON)
    assert (pattern.counts == 3).all()
    whole = list_to_bitmap(pattern, 9, device=ON).bitmap != 0
    assert (whole.sum(axis=-1) == 3).all()
    check(given, whole, "gfx950", pattern=pattern, layout="bshd")


def test_means_of_real_tokens():
    x = tensors(8, seqlen_k=100)["k"]
    sizes = np.array([64, 10])
    found = block_means(x, 64, device=ON, sizes=sizes)
    expected = x[:, :, 64:74].astype(np.float64).mean(axis=2)
    np.testing.assert_allclose(found[:, :, 1], expected, atol=1e-6)


BITMAP = BitmapPattern(np.ones((1, 3), bool))
LISTED = ListPattern(np.zeros((1, 3), int), np.zeros(1, int))
HALF = np.ones((1, 1, 4, 32), np.float16)


def test_nothing_to_convert():
    none = ListPattern(np.zeros((2, 0), np.int32), np.zeros(2, np.int32))
    assert (list_to_bitmap(none, 4, device=ON).bitmap == 0).all()
    assert (invert_list(none, 4, device=ON).counts == 0).all()
    assert list_to_deltas(none, device=ON).shape == (1, 1, 2, 0)
    empty = np.zeros((0, 4), bool)
    assert bitmap_to_list(BitmapPattern(empty), device=ON).indices.shape == (1, 1, 0, 4)
    assert longest_first(BitmapPattern(empty), device=ON).shape == (1, 1, 0)
    no_keys = BitmapPattern(np.zeros((3, 0), bool))
    listed = bitmap_to_list(no_keys, device=ON)
    assert (listed.indices.shape, listed.counts.tolist()) == ((1, 1, 3, 0), [[[0, 0, 0]]])
    assert longest_first(no_keys, device=ON).tolist() == [[[0, 1, 2]]]
    assert bitmap_to_list(BitmapPattern(np.zeros((0, 1, 2, 3), bool)), device=ON).width == 3
    given = tensors(seqlen_k=0)
    for pattern in (BitmapPattern(np.zeros((2, 0), bool)), none):
        o, lse = run(given, pattern, "gfx950", row_order="longest_first", need_lse=True)
        assert (o == 0).all()
        assert (lse == np.finfo(np.float32).min).all()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: bitmap_to_list(BitmapPattern(np.ones((1, 1), bool)), device=ON, width=0),
            "width: 0",
        ),
        (lambda: list_to_bitmap(as_list(np.ones((1, 1), bool)), -1, device=ON), "num_k_blocks: -1"),
        (lambda: select_blocks(np.ones((2, 3)), 1, device=ON), "scores: float64, expected"),
        (lambda: select_blocks(np.ones(3, np.float32), 1, device=ON), r"scores: shape \(3,\)"),
        (lambda: select_blocks(np.ones((2, 3), np.float32), 0, device=ON), "k: 0, expected"),
        (
            lambda: select_blocks(np.ones((1, 2049), np.float32), 1, device=ON),
            "scores: 2049 key blocks, expected at most 2048",
        ),
        (
            lambda: list_to_bitmap(LISTED, 2**40, device=ON),
            "num_k_blocks: 1099511627776, expected at most 2147483584",
        ),
        (lambda: bitmap_to_list(LISTED, device=ON), "pattern: ListPattern, expected a Bitmap"),
        (lambda: list_to_bitmap(BITMAP, 3, device=ON), "pattern: BitmapPattern, expected a List"),
        (lambda: invert_list(BITMAP, 3, device=ON), "pattern: BitmapPattern, expected a ListPat"),
        (lambda: list_to_deltas(BITMAP, device=ON), "pattern: BitmapPattern, expected a ListPat"),
        (lambda: longest_first(np.ones(3), device=ON), "pattern: ndarray, expected a ListPattern"),
        (lambda: longest_first(LISTED, device=ON, library=3), "library: 3, expected an open one"),
        (
            lambda: block_means(HALF, 64, device=ON, sizes=[1]),
            r"sizes: list, expected integers of shape \(1,\)",
        ),
        (
            lambda: block_means(HALF[:, :, ::-1], 64, device=ON),
            "x: token stride -64 bytes, expected a multiple of 4",
        ),
        (lambda: block_means(np.ma.array(HALF), 64, device=ON), "x: a masked array"),
        (lambda: block_means(np.ones((1, 1, 4, 32)), 4, device=ON), "x: float64 of shape"),
        (
            lambda: block_means(np.ones((1, 1, 4, 24), np.float16), 4, device=ON),
            "block_means: head_size is 24, expected 16 to 256",
        ),
        (
            lambda: block_means(
                np.ones((1, 1, 4, 32), np.float16), 4, device=ON, sizes=np.ones(2, int)
            ),
            r"sizes: int64 of shape \(2,\), expected integers of shape \(1,\)",
        ),
    ],
)
def test_a_wrong_argument_is_named(call, message):
    with pytest.raises(ArgumentError, match=message):
        call()
