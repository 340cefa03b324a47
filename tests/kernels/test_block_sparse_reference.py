"""The float64 reference of block-sparse attention against a dense formula written key by key."""

from math import exp, log2, sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rocke.kernels.common.block_sparse_reference import (
    EMPTY_LSE,
    attended_by_bitmap,
    attended_by_list,
    block_sparse_attention_reference,
)


def dense_row(q, k, v, wanted, scale):
    """One row's output and lse: the softmax as it is defined, in Python numbers."""
    scores = [scale * sum(float(a) * float(b) for a, b in zip(q, key, strict=True)) for key in k]
    kept = [j for j, keep in enumerate(wanted) if keep]
    if not kept:
        return [0.0] * v.shape[1], EMPTY_LSE
    top = max(scores[j] for j in kept)
    weights = {j: exp(scores[j] - top) for j in kept}
    total = sum(weights.values())
    row = [sum(weights[j] * float(v[j, d]) for j in kept) / total for d in range(v.shape[1])]
    return row, (top + np.log(total)) / np.log(2)


@st.composite
def problems(draw):
    seed = draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    batch, kv_heads, group = (draw(st.integers(1, 2)) for _ in range(3))
    rows, keys = draw(st.integers(1, 9)), draw(st.integers(1, 9))
    block_q, block_k = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    heads = kv_heads * group
    bound = st.one_of(st.none(), st.integers(0, 6))
    shared = draw(st.tuples(st.booleans(), st.booleans()))
    lead = (1 if shared[0] else batch, 1 if shared[1] else heads)
    blocks = (-(-rows // block_q), -(-keys // block_k))
    return {
        "q": rng.standard_normal((batch, heads, rows, 3)),
        "k": rng.standard_normal((batch, kv_heads, keys, 3)),
        "v": rng.standard_normal((batch, kv_heads, keys, 3)),
        "attended": rng.random((*lead, *blocks)) < draw(st.floats(0, 1)),
        "block_q": block_q,
        "block_k": block_k,
        "softmax_scale": draw(st.one_of(st.none(), st.floats(0, 2))),
        "block_sizes": draw(st.one_of(st.none(), st.just(rng.integers(0, block_k + 1, blocks[1])))),
        "causal": draw(st.booleans()),
        "window": draw(st.tuples(bound, bound)),
    }


@settings(max_examples=60)
@given(problems())
def test_every_rule_against_the_definition(p):
    found = block_sparse_attention_reference(**p)
    q, k, v = p["q"], p["k"], p["v"]
    (batch, heads, rows, size), keys = q.shape, k.shape[2]
    scale = 1 / sqrt(size) if p["softmax_scale"] is None else p["softmax_scale"]
    left, right = p["window"]
    shape = (batch, heads, *p["attended"].shape[-2:])
    attended = np.broadcast_to(p["attended"], shape)
    for n, h, r in np.ndindex(batch, heads, rows):

        def wanted(c, n=n, h=h, r=r):
            block, distance = c // p["block_k"], c - (r + keys - rows)
            return (
                attended[n, h, r // p["block_q"], block]
                and (p["block_sizes"] is None or c % p["block_k"] < p["block_sizes"][block])
                and not (p["causal"] and distance > 0)
                and (left is None or distance >= -left)
                and (right is None or distance <= right)
            )

        kv = h // (heads // k.shape[1])
        o, lse = dense_row(q[n, h, r], k[n, kv], v[n, kv], [wanted(c) for c in range(keys)], scale)
        np.testing.assert_allclose(found.o[n, h, r], o, rtol=1e-11, atol=1e-13)
        np.testing.assert_allclose(found.lse[n, h, r], lse, rtol=1e-11, atol=1e-12)


def simple(**changes):
    rng = np.random.default_rng(5)
    q, k, v = (rng.standard_normal((1, 2, 12, 4)) for _ in range(3))
    given_ = {"attended": np.array([[1, 0, 1], [0, 0, 0], [1, 1, 0]]) != 0, "block_q": 4}
    return block_sparse_attention_reference(q, k, v, **{**given_, "block_k": 4, **changes})


def test_rows_that_attend_nothing_are_zero_with_a_finite_lse():
    found = simple()
    assert (found.o[:, :, 4:8] == 0).all()
    assert (found.lse[:, :, 4:8] == np.float32(-3.4028234663852886e38)).all()
    assert (found.lse[:, :, :4] > -100).all()


def test_single_precision_is_near_double():
    single, double = simple(dtype=np.float32), simple()
    assert single.o.dtype == np.float32
    np.testing.assert_allclose(single.o, double.o, atol=2e-6)
    np.testing.assert_allclose(single.lse, double.lse, atol=2e-6, rtol=1e-6)


def test_a_sample_of_query_blocks_is_the_same_and_the_rest_is_not_computed():
    sample, whole = simple(q_blocks=[2]), simple()
    np.testing.assert_array_equal(sample.o[:, :, 8:], whole.o[:, :, 8:])
    np.testing.assert_array_equal(sample.lse[:, :, 8:], whole.lse[:, :, 8:])
    assert np.isnan(sample.o[:, :, :8]).all()
    assert np.isnan(sample.lse[:, :, :8]).all()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("where", ["k", "v"])
def test_a_bad_key_reaches_the_rows_that_attend_it_and_no_others(bad, where):
    rng = np.random.default_rng(7)
    tensors = {name: rng.standard_normal((1, 1, 8, 4)) for name in "qkv"}
    attended = np.array([[1, 1], [1, 0]]) != 0
    options = {"attended": attended, "block_q": 4, "block_k": 4, "causal": True}
    clean = block_sparse_attention_reference(**tensors, **options)
    tensors[where][0, 0, 2] = bad
    dirty = block_sparse_attention_reference(**tensors, **options)
    np.testing.assert_array_equal(dirty.o[0, 0, :2], clean.o[0, 0, :2])
    if where == "v" or np.isnan(bad):
        assert not np.isfinite(dirty.o[0, 0, 2:]).any()
    tensors[where][0, 0, 2] = 0
    tensors[where][0, 0, 6] = bad
    dirty = block_sparse_attention_reference(**tensors, **options)
    assert np.isfinite(dirty.o).all()


def test_log2_is_the_base_of_lse():
    q = np.zeros((1, 1, 1, 2))
    k = v = np.ones((1, 1, 8, 2))
    found = block_sparse_attention_reference(q, k, v, np.ones((1, 1), bool), block_q=1, block_k=8)
    assert found.lse[0, 0, 0] == log2(8)


def test_lists_ignore_what_is_past_the_count_out_of_range_or_twice():
    indices = np.array([[2, 0, -1, 7], [1, 1, 2**31 - 1, 0], [-5, 3, 0, 1]])
    attended = attended_by_list(indices, np.array([2, 3, 9]), 3)
    expected = [[1, 0, 1], [0, 1, 0], [1, 1, 0]]
    np.testing.assert_array_equal(attended, np.array(expected) != 0)
    shared = attended_by_list(indices[None], np.array([[[1, 0, -4]], [[4, 4, 4]]]), 3)
    assert shared.shape == (2, 1, 3, 3)
    assert shared[0].sum() == 1


def test_bitmaps_attend_where_they_are_not_zero():
    np.testing.assert_array_equal(
        attended_by_bitmap(np.array([[0, 1, -3, 2]], np.int8)), [[False, True, True, True]]
    )


@pytest.mark.parametrize("causal", [False, True])
def test_scores_of_minus_infinity_weigh_nothing(causal):
    rng = np.random.default_rng(0)
    q, k, v = (rng.random((1, 1, 8, 4)) for _ in range(3))
    k[:, :, :4] = -np.inf
    attended = np.array([[True, False], [True, True]])
    found = block_sparse_attention_reference(q, k, v, attended, block_q=4, block_k=4, causal=causal)
    assert (found.o[:, :, :4] == 0).all()
    assert (found.lse[:, :, :4] == EMPTY_LSE).all()
    finite = block_sparse_attention_reference(
        q, k, v, np.array([[False, False], [False, True]]), block_q=4, block_k=4, causal=causal
    )
    np.testing.assert_allclose(found.o[:, :, 4:], finite.o[:, :, 4:], rtol=1e-12)
    np.testing.assert_allclose(found.lse[:, :, 4:], finite.lse[:, :, 4:], rtol=1e-12)
