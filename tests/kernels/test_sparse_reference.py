"""The float64 reference and the random problems, against plain loops."""

import ml_dtypes
import numpy as np
import pytest

from rocke.kernels.common.sparse_attention_reference import (
    attended_by_bitmap,
    attended_by_list,
    sparse_attention_reference,
)
from rocke.kernels.registry import FAMILIES, SEED_FAMILIES
from tests.kernels.sparse_specs import jenga, vsa

SPECS = {"jenga_sparse_attention": jenga, "vsa_sparse_attention": vsa}


def plain(arguments, attends, seqlen_q, seqlen_k):
    """Attention row by row, key by key; ``attends(row, key)``."""
    q, k, v = (np.asarray(arguments[n], np.float64) for n in "QKV")
    out = np.zeros(q.shape)
    ratio = q.shape[1] // k.shape[1]
    for row in range(seqlen_q):
        keys = [key for key in range(seqlen_k) if attends(row, key)]
        for head in range(q.shape[1]):
            if keys:
                scores = np.array([q[row, head] @ k[key, head // ratio] for key in keys])
                scores *= np.float32(arguments["scale_log2"])
                weights = 2.0 ** (scores - scores.max())
                values = np.array([v[key, head // ratio] for key in keys])
                out[row, head] = weights @ values / weights.sum()
    return out


@pytest.mark.parametrize("block_q", [1, 5, 16, 64])
@pytest.mark.parametrize("layout", ["token", "head"])
def test_reference_is_attention(block_q, layout):
    spec = jenga(32, 96, block_q=block_q, block_k=32, shape={"num_query_heads": 4, "head_size": 16})
    family = FAMILIES["jenga_sparse_attention"]
    problem = family.make_problem(
        spec, np.random.default_rng(1), density=0.5, layout=layout, seqlen_q=27, seqlen_k=70
    )
    mask = problem.arguments["mask"]
    expected = plain(problem.arguments, lambda r, c: mask[r // block_q, c // 32], 27, 70)
    assert np.allclose(family.reference(spec, problem)["O"], expected, atol=1e-12)


def test_lists_and_bitmaps_mean_the_same():
    lut = np.array([[3, 1, -1, 9], [9, 9, 9, 9], [2, 2, 4, 0], [0, 1, 2, 3]], np.int32)
    count = np.array([2, -7, 3, 99], np.int32)
    attended = attended_by_list(lut, count, 4)
    assert [list(a) for a in attended] == [[1, 3], [], [2], [0, 1, 2, 3]]
    mask = np.zeros((4, 4), np.int8)
    for row, blocks in zip(mask, attended, strict=True):
        row[blocks] = 1
    for a, b in zip(attended_by_bitmap(mask), attended, strict=True):
        assert np.array_equal(a, b)


def test_nan_in_keys_that_take_no_part_stays_out():
    spec = jenga(16, 64, block_q=16, block_k=16, shape={"head_size": 16})
    family = FAMILIES["jenga_sparse_attention"]
    problem = family.make_problem(spec, np.random.default_rng(2), pattern="first", seqlen_k=10)
    before = family.reference(spec, problem)["O"]
    given = problem.arguments
    big = {n: np.full((64, *given[n].shape[1:]), np.nan, np.float16) for n in "KV"}
    for name, array in big.items():
        array[:10] = given[name][:10]
    out = sparse_attention_reference({**given, **big}, attended_by_bitmap(given["mask"]), 16, 16)
    assert np.array_equal(before, out)
    assert np.isfinite(out).all()


@pytest.mark.parametrize("name", SEED_FAMILIES)
@pytest.mark.parametrize(
    ("pattern", "counts"),
    [("none", {0}), ("one", {1}), ("first", {1}), ("last", {1}), ("all", {8}), ("random", {2, 3})],
)
def test_patterns(name, pattern, counts):
    spec = SPECS[name](640, 512, block_q=16)
    family = FAMILIES[name]
    rng = np.random.default_rng(3)
    density = 0.3 if pattern == "random" else None
    problem = family.make_problem(spec, rng, pattern=pattern, density=density)
    if "mask" in problem.arguments:
        attended = attended_by_bitmap(problem.arguments["mask"])
    else:
        given = problem.arguments
        attended = attended_by_list(given["block_lut"], given["block_count"], 8)
    assert {len(a) for a in attended} == counts
    if pattern == "first":
        assert {a[0] for a in attended} == {0}
    if pattern == "last":
        assert {a[0] for a in attended} == {7}


def test_lists_are_unsorted_and_end_in_garbage():
    spec = vsa(1024, 2048, block_q=16, max_blocks_per_q=32)
    family = FAMILIES["vsa_sparse_attention"]
    given = family.make_problem(spec, np.random.default_rng(4), density=0.5).arguments
    lut, count = given["block_lut"], given["block_count"]
    assert any((np.diff(row[:n]) < 0).any() for row, n in zip(lut, count, strict=True))
    past = np.concatenate([row[n:] for row, n in zip(lut, count, strict=True)])
    assert ((past < 0) | (past >= spec.num_k_blocks)).all()
    dirty = family.make_problem(
        spec, np.random.default_rng(4), density=1.0, lists="dirty"
    ).arguments
    assert (dirty["block_count"] > 32).any()
    rows = [
        row[: min(n, 32)] for row, n in zip(dirty["block_lut"], dirty["block_count"], strict=True)
    ]
    assert any(((row < 0) | (row >= spec.num_k_blocks)).any() for row in rows)
    assert any(len(np.unique(row)) < len(row) for row in rows)


@pytest.mark.parametrize("name", SEED_FAMILIES)
def test_problems_are_repeatable_and_start_with_nan_outputs(name):
    spec, family = SPECS[name](dtype="bf16"), FAMILIES[name]
    a, b = (family.make_problem(spec, np.random.default_rng(5)) for _ in range(2))
    assert [*a.arguments] == [p["name"] for p in family.signature(spec)]
    assert a.outputs == ("O",)
    assert a.arguments["Q"].dtype == np.dtype(ml_dtypes.bfloat16)
    assert np.isnan(a.arguments["O"].astype(np.float32)).all()
    for key, value in a.arguments.items():
        assert np.array_equal(value, b.arguments[key]) or key == "O"


@pytest.mark.parametrize("layout", ["token", "head"])
def test_strides_are_those_of_the_layout(layout):
    spec = jenga(64, 128, shape={"num_query_heads": 6, "num_kv_heads": 3, "head_size": 32})
    given = (
        FAMILIES["jenga_sparse_attention"]
        .make_problem(spec, np.random.default_rng(6), layout=layout)
        .arguments
    )
    token, head = (3 * 32, 32) if layout == "token" else (32, 128 * 32)
    assert given["K"].shape == (128, 3, 32)
    assert (given["stride_k_token"], given["stride_k_head"]) == (token, head)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"density": 1.5}, "density is 1.5, expected 0 to 1"),
        ({"pattern": "some"}, "pattern is 'some', expected one of random, none"),
        ({"layout": "d"}, "layout is 'd'"),
        ({"lists": "x"}, "lists is 'x'"),
        ({"seqlen_q": 0}, "seqlen_q is 0, expected 1 to the spec's 64"),
        ({"seqlen_q": 16.0}, "seqlen_q is 16.0, expected an integer"),
        ({"seqlen_k": "x"}, "seqlen_k is 'x', expected an integer"),
        ({"seqlen_k": 257}, "seqlen_k is 257, expected 1 to the spec's 256"),
    ],
)
def test_impossible_options_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        FAMILIES["vsa_sparse_attention"].make_problem(vsa(), np.random.default_rng(7), **options)
