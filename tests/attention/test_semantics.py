"""What the host function promises, one rule at a time; all of them together in test_random.py."""

import itertools

import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided

from rocke.attention import BitmapPattern, ListPattern
from tests.attention.runs import (
    TARGETS,
    as_list,
    as_pattern,
    attended,
    check,
    compare,
    reference,
    run,
    tensors,
)

FORMS = ("list", "bitmap")
each_target = pytest.mark.parametrize("arch", TARGETS)


@each_target
@pytest.mark.parametrize("form", FORMS)
def test_any_batch_head_and_length_with_one_kernel(arch, form):
    for seed, (batch, heads, rows, keys) in enumerate(
        [(1, 1, 1, 1), (3, 1, 64, 65), (1, 5, 191, 64), (2, 2, 129, 500), (1, 1, 63, 1300)]
    ):
        shape = {"batch": batch, "heads": heads, "seqlen_q": rows, "seqlen_k": keys}
        blocks = attended(seed, batch, heads, -(-rows // 64), -(-keys // 64))
        check(tensors(seed, **shape), blocks, arch, form=form)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("lead", [(), (2,), (1,), (3, 2), (1, 2), (3, 1), (1, 1)])
def test_patterns_shared_by_heads_and_batch(form, lead):
    given = tensors(1, batch=3)
    blocks = attended(1, *lead, 2, 4)
    check(given, blocks, "gfx950", form=form)


def test_lists_and_counts_are_shared_each_on_its_own():
    given = tensors(2, batch=2)
    indices = np.array([[3, 1, 0, 2], [0, 2, 1, 3]], np.int32)
    counts = np.array([[1, 4], [3, 0]], np.int32)[:, None]
    blocks = np.zeros((2, 1, 2, 4), bool)
    for n, row in itertools.product(range(2), range(2)):
        blocks[n, 0, row, indices[row, : counts[n, 0, row]]] = True
    check(given, blocks, "gfx950", pattern=ListPattern(indices, counts))


@pytest.mark.parametrize("count", range(5))
@pytest.mark.parametrize("form", FORMS)
def test_every_count_from_none_to_all(form, count):
    blocks = np.zeros((2, 4), bool)
    blocks[1, :count] = True
    check(tensors(3), blocks, "gfx950", form=form)


@pytest.mark.parametrize("kv_heads", [1, 2, 3, 6])
def test_query_heads_share_key_heads(kv_heads):
    given = tensors(4, heads=6, kv_heads=kv_heads, batch=2)
    check(given, attended(4, 2, 6, 2, 4), "gfx950")


@each_target
def test_causal_is_aligned_to_the_last_row_and_key(arch):
    for rows, keys in ((128, 128), (100, 300), (300, 100), (1, 200)):
        given = tensors(5, seqlen_q=rows, seqlen_k=keys)
        blocks = attended(5, 2, -(-rows // 64), -(-keys // 64), density=0.8)
        o = check(given, blocks, arch, causal=True)
        if rows > keys:
            assert (o[:, :, : rows - keys] == 0).all()


@each_target
@pytest.mark.parametrize(
    "window", [(0, 0), (5, 70), (64, None), (None, 3), (-1, 100), (None, None), (10**9, 2**40)]
)
def test_windows(arch, window):
    given, blocks = tensors(6, seqlen_q=200, seqlen_k=260), attended(6, 4, 5, density=0.8)
    plain = tuple(None if bound == -1 else bound for bound in window)
    o, _ = run(given, as_list(blocks), arch, window=window)
    compare(o, None, reference(given, blocks, block_q=64, block_k=64, window=plain))


def test_a_causal_window_looks_back_only():
    given, blocks = tensors(7), np.ones((2, 4), bool)
    both, _ = run(given, as_list(blocks), "gfx950", window=(50, 20), causal=True)
    compare(both, None, reference(given, blocks, block_q=64, block_k=64, window=(50, 0)))


@each_target
@pytest.mark.parametrize("form", FORMS)
def test_valid_sizes_with_a_partial_last_block(arch, form):
    given, blocks = tensors(8, seqlen_k=230), attended(8, 2, 2, 4, density=0.8)
    sizes = np.array([0, 17, 64, 40], np.int32)
    check(given, blocks, arch, form=form, variable_block_sizes=sizes, need_lse=True)


@pytest.mark.normal
@pytest.mark.parametrize("dtype", ["f16", "bf16"])
@pytest.mark.parametrize("layout", ["bhsd", "bshd"])
def test_layouts_and_types(layout, dtype):
    given = tensors(9, batch=2, seqlen_q=100, layout=layout, dtype=dtype)
    check(given, attended(9, 2, 2, 4), "gfx950", layout=layout)


@each_target
@pytest.mark.parametrize("form", FORMS)
def test_lse_is_optional_and_in_base_two(arch, form):
    given, blocks = tensors(10), np.array([[1, 0, 1, 1], [0, 0, 0, 0]], bool)
    o = check(given, blocks, arch, form=form, need_lse=True)
    alone = check(given, blocks, arch, form=form)
    assert o.shape == alone.shape
    _, lse = run(given, as_pattern(form, blocks), arch, need_lse=True)
    assert (lse[:, :, 64:] == np.float32(-3.4028234663852886e38)).all()


@pytest.mark.parametrize("scale", [0, 0.5, 1, np.float32(0.01)])
def test_the_scale(scale):
    check(tensors(11), attended(11, 2, 2, 4), "gfx950", softmax_scale=scale)


def test_entries_that_are_no_blocks_are_ignored():
    given = tensors(12)
    indices = np.array([[-1, 2, 4, -(2**31)], [2**31 - 1, 0, 5, 3]], np.int32)
    blocks = np.array([[0, 0, 1, 0], [1, 0, 0, 1]], bool)
    pattern = ListPattern(indices, np.array([4, 4], np.int32))
    check(given, blocks, "gfx950", pattern=pattern)


def test_counts_beyond_the_width_are_cut_and_negative_ones_are_none():
    given = tensors(13)
    indices = np.array([[3, 2], [1, 0]], np.int32)
    blocks = np.array([[0, 0, 1, 1], [0, 0, 0, 0]], bool)
    for counts in ((1000, -2), (2**31 - 1, -(2**31))):
        pattern = ListPattern(indices, np.array(counts, np.int32))
        check(given, blocks, "gfx950", pattern=pattern)


def test_duplicates_do_not_fault():
    indices = np.array([[1, 1, 2, 1], [0, 0, 0, 0]], np.int32)
    o, _ = run(tensors(14), ListPattern(indices, np.array([4, 4], np.int32)), "gfx950")
    assert np.isfinite(o).all()


def test_any_byte_but_0_attends():
    given = tensors(15)
    bitmap = np.array([[0, -128, 0, 2], [127, 0, -1, 0]], np.int8)
    for dtype in (np.int8, np.uint8, np.int32, np.int64):
        check(given, bitmap != 0, "gfx950", pattern=BitmapPattern(bitmap.astype(dtype)))


def test_row_order_changes_nothing():
    given, blocks = tensors(16, seqlen_q=300), attended(16, 2, 5, 4)
    plain, _ = run(given, as_list(blocks), "gfx950")
    orders = np.stack([np.array([4, 2, 0, 1, 3]), np.arange(5)])
    for order in (orders[0], orders, orders[None].astype(np.int64)):
        o, _ = run(given, as_list(blocks), "gfx950", row_order=order)
        np.testing.assert_array_equal(o, plain)


@pytest.mark.parametrize(
    ("shape", "width"),
    [
        ({"batch": 0}, 1),
        ({"seqlen_q": 0}, 1),
        ({"seqlen_k": 0}, 1),
        ({}, 0),
    ],
)
def test_nothing_to_do_or_nothing_to_attend(shape, width):
    given = tensors(17, **shape)
    rows = -(-given["q"].shape[2] // 64)
    pattern = ListPattern(np.zeros((rows, width), np.int32), np.zeros(rows, np.int32))
    o, lse = run(given, pattern, "gfx950", need_lse=True)
    assert o.shape == given["q"].shape
    assert lse.shape == given["q"].shape[:3]
    assert (o == 0).all()
    assert (lse == np.float32(-3.4028234663852886e38)).all()


@pytest.mark.normal
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("block_q", "block_k"), [(16, 16), (128, 128), (64, 128), (32, 64), (48, 80), (256, 256)]
)
def test_block_sizes(form, block_q, block_k):
    given = tensors(18, heads=1, seqlen_q=300, seqlen_k=4 * block_k + 7)
    blocks = attended(18, -(-300 // block_q), 5)
    for arch in ("gfx942", "gfx950"):
        check(given, blocks, arch, form=form, block_q=block_q, block_k=block_k)


@pytest.mark.slow
@each_target
@pytest.mark.parametrize("dtype", ["f16", "bf16"])
@pytest.mark.parametrize("head_size", range(32, 257, 16))
def test_every_head_size(arch, dtype, head_size):
    given = tensors(19, heads=1, head_size=head_size, dtype=dtype, seqlen_q=70, seqlen_k=200)
    for form in FORMS:
        check(given, attended(19, 2, 4, density=0.6), arch, form=form)


@pytest.mark.normal
@pytest.mark.parametrize(("arch", "head_size"), [("gfx950", 32), ("gfx942", 80), ("gfx90a", 256)])
def test_some_head_sizes(arch, head_size):
    given = tensors(19, heads=1, head_size=head_size, seqlen_q=70, seqlen_k=200)
    check(given, attended(19, 2, 4, density=0.6), arch)


def test_the_pattern_decides_the_cost():
    from tests.attention.runs import device

    given = tensors(20, seqlen_q=256, seqlen_k=1280)
    executed = []
    for kept in (20, 10, 2):
        blocks = np.zeros((4, 20), bool)
        blocks[:, :kept] = True
        run(given, as_pattern("list", blocks), "gfx950")
        executed.append(device("gfx950").counters.matrix_instructions)
    assert executed[0] == 2 * executed[1] == 10 * executed[2] > 0


@each_target
def test_heads_that_lie_more_than_32_bits_apart(arch):
    given, blocks = tensors(21), attended(21, 2, 2, 4, density=0.7)
    far = {}
    for name, array in given.items():
        # Mostly untouched, and so without memory behind it.
        whole = np.empty((1, 2, 2**31 // 64 + 1000, 64), np.float16)
        far[name] = whole[:, :, : array.shape[2]]
        far[name][...] = array
        assert far[name].strides[1] > 2**32
    near, _ = run(given, as_list(blocks), arch)
    np.testing.assert_array_equal(check(far, blocks, arch, pattern=as_list(blocks)), near)


@pytest.mark.parametrize("arch", TARGETS)
@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_scores_up_to_the_limit_that_is_promised(arch, dtype):
    """2**23 in units of log2, of both signs; the best key of a row is far from the second."""
    given = tensors(12, heads=1, seqlen_k=200, dtype=dtype)
    limit = 2**23
    scores = given["q"][0, 0].astype(np.float64) @ given["k"][0, 0].astype(np.float64).T
    scale = limit / (np.abs(scores).max() * np.log2(np.e))
    assert scores.min() < 0 < scores.max()
    blocks = np.ones((1, 1, 2, 4), bool)
    check(given, blocks, arch, softmax_scale=scale, need_lse=True)


@each_target
@pytest.mark.parametrize("step", [0, 8, 48])
def test_rows_of_q_k_and_v_may_overlap(arch, step):
    """Past the last key and past the valid ones lie the same bytes as before them."""
    flat = np.random.default_rng(14).standard_normal(200 * 48 + 64).astype(np.float16)
    given = {
        name: as_strided(flat[start:], (1, 2, rows, 64), (0, 16, 2 * step, 2))
        for name, start, rows in (("q", 0, 100), ("k", 16, 170), ("v", 24, 170))
    }
    blocks = np.array([[1, 0, 1], [0, 1, 1]], bool)
    sizes = np.array([64, 9, 40], np.int32)
    check(given, blocks, arch, variable_block_sizes=sizes, need_lse=True)
