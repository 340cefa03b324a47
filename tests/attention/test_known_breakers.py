"""Inputs on which other implementations of block-sparse attention go wrong.

One kernel (list, valid sizes, lse) and one without valid sizes serve them all, on every target.
"""

import numpy as np
import pytest

from rocke.attention import ListPattern
from tests.attention.runs import GARBAGE, TARGETS, as_list, attended, check, run, tensors

pytestmark = pytest.mark.parametrize("arch", TARGETS)


def full(blocks, size=64):
    return np.full(blocks, size, np.int32)


def sized(given, blocks, arch, sizes, **options):
    return check(
        given, blocks, arch, variable_block_sizes=sizes.astype(np.int32), need_lse=True, **options
    )


def test_first_listed_block_has_no_valid_key(arch):
    given, blocks = tensors(1), np.ones((2, 4), bool)
    sizes = full(4)
    sizes[2] = 0
    indices = np.array([[2, 0, 3, 1], [2, 1, 0, 3]], np.int32)
    pattern = ListPattern(indices, np.array([4, 4], np.int32))
    sized(given, blocks, arch, sizes, pattern=pattern)


def test_no_listed_block_has_a_valid_key(arch):
    given, blocks = tensors(2), np.array([[1, 0, 1, 0], [1, 1, 1, 1]], bool)
    sizes = full(4)
    sizes[[0, 2]] = 0
    o = sized(given, blocks, arch, sizes)
    assert (o[:, :, :64] == 0).all()
    assert (o[:, :, 64:] != 0).any()
    sized(given, blocks, arch, full(4, 0))


def test_counts_that_differ_between_neighbours(arch):
    given = tensors(3, seqlen_q=5 * 64, seqlen_k=9 * 64)
    blocks = np.zeros((5, 9), bool)
    blocks[[0, 2]] = True
    blocks[4, 7] = True
    o = check(given, blocks, arch)
    assert (o[:, :, 64:128] == 0).all()


@pytest.mark.parametrize("blocks", [1, 3, 7, 53])
def test_odd_numbers_of_blocks(arch, blocks):
    given = tensors(4, heads=1, seqlen_q=64, seqlen_k=64 * blocks)
    check(given, np.ones((1, blocks), bool), arch)
    check(given, attended(blocks, 1, blocks), arch)


def test_int64_metadata(arch):
    given, blocks = tensors(5), attended(5, 2, 4)
    sizes = np.array([64, 1, 0, 33], np.int64)
    pattern = as_list(blocks, dtype=np.int64)
    check(given, blocks, arch, pattern=pattern, variable_block_sizes=sizes, need_lse=True)
    past = np.full((2, 6), 2**40)
    past[:, 0] = (3, 1)
    pattern = ListPattern(past, np.array([1, 1]))
    blocks = np.zeros((2, 4), bool)
    blocks[[0, 1], [3, 1]] = True
    check(given, blocks, arch, pattern=pattern, variable_block_sizes=sizes, need_lse=True)


@pytest.mark.parametrize("order", ["random", "reversed"])
def test_unsorted_lists(arch, order):
    given, blocks = tensors(6, seqlen_k=11 * 64 - 5), attended(6, 2, 2, 11, density=0.7)
    check(given, blocks, arch, pattern=as_list(blocks, order=order))


@pytest.mark.parametrize("garbage", GARBAGE.tolist())
def test_garbage_after_the_count(arch, garbage):
    given, blocks = tensors(7), attended(7, 2, 4)
    pattern = as_list(blocks, width=70)
    past = np.arange(70) >= pattern.counts[..., None]
    pattern.indices[past] = garbage
    check(given, blocks, arch, pattern=pattern)


@pytest.mark.parametrize("sign", [1, -1])
def test_scores_of_ten_thousand(arch, sign):
    given = tensors(8)
    given["q"][...] = np.abs(given["q"]) / 4 + 1
    given["k"][:, :, 70:75] = sign * 156
    given["k"][:, :, 200] = 2 * sign
    check(given, np.ones((2, 4), bool), arch, softmax_scale=1.0)
    given["k"][...] = sign * 156
    check(given, np.ones((2, 4), bool), arch, softmax_scale=1.0)


def test_all_scores_are_equal(arch):
    given = tensors(9)
    given["k"][...] = given["k"][:, :, :1]
    check(given, np.array([[1, 0, 1, 1], [0, 0, 0, 1]], bool), arch)
    given["q"][...] = 0
    check(given, np.array([[1, 0, 1, 1], [0, 0, 0, 1]], bool), arch)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_bad_keys_that_take_no_part(arch, bad):
    sizes = np.array([64, 5, 64, 64], np.int32)
    blocks = np.array([[1, 1, 0, 0], [0, 1, 0, 1]], bool)
    clean = tensors(10, seqlen_k=250)
    dirty = {"q": clean["q"]}
    for name in "kv":
        # The tensors are views of larger ones, with bad rows behind the last key too.
        whole = np.full((1, 2, 320, 64), bad, np.float16)
        whole[:, :, :250] = clean[name]
        whole[:, :, 69:192] = bad
        dirty[name] = whole[:, :, :250]
    options = {"variable_block_sizes": sizes, "need_lse": True}
    pattern = as_list(blocks)
    for a, b in zip(
        run(clean, pattern, arch, **options), run(dirty, pattern, arch, **options), strict=True
    ):
        np.testing.assert_array_equal(a, b)
        assert np.isfinite(b).all()


@pytest.mark.parametrize("name", ["k", "v"])
def test_nan_in_an_attended_key_reaches_its_rows_only(arch, name):
    given = tensors(11)
    blocks = np.array([[1, 0, 1, 0], [0, 1, 1, 0]], bool)
    given[name][0, 0, 70] = np.nan
    o, _ = run(given, as_list(blocks), arch)
    assert np.isnan(o[0, 0, 64:]).all()
    assert np.isfinite(o[0, 0, :64]).all()
    assert np.isfinite(o[0, 1]).all()


@pytest.mark.parametrize("keys", [1, 15, 16, 17, 63])
def test_fewer_keys_than_a_block(arch, keys):
    check(tensors(12, seqlen_q=65, seqlen_k=keys), np.ones((2, 1), bool), arch)


def test_lists_of_width_one(arch):
    blocks = np.array([[0, 0, 1, 0], [0, 0, 0, 0]], bool)
    check(tensors(13), blocks, arch, pattern=as_list(blocks, width=1))


def test_per_head_patterns_shared_by_stride_zero(arch):
    given = tensors(14, batch=2)
    one = attended(14, 1, 1, 2, 4)
    made = as_list(one)
    shape = (2, 2, *made.indices.shape[2:])
    indices = np.broadcast_to(made.indices, shape)
    pattern = ListPattern(indices, np.broadcast_to(made.counts, shape[:3]))
    assert pattern.indices.strides[:2] == (0, 0)
    check(given, one, arch, pattern=pattern)


def test_a_sliced_query(arch):
    given, blocks = tensors(15, heads=4), attended(15, 1, 2, 2, 4)
    given["q"] = given["q"][:, 1:4:2]
    given["k"], given["v"] = given["k"][:, :2], given["v"][:, 2:]
    check(given, blocks, arch)
    packed = np.random.default_rng(16).standard_normal((1, 256, 3, 2, 64)).astype(np.float16)
    q, k, v = (packed[:, :, i] for i in range(3))
    given = {"q": q[:, :128], "k": k, "v": v}
    check(given, blocks, arch, layout="bshd")


@pytest.mark.normal
@pytest.mark.parametrize("form", ["list", "bitmap"])
def test_257_rows_481_keys_of_128(arch, form):
    given = tensors(17, seqlen_q=257, seqlen_k=481, head_size=128)
    check(given, attended(17, 2, 5, 8), arch, form=form)
