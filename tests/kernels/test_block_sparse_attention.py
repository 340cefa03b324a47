"""What the fast block-sparse attention kernel computes, rule by rule, on every target."""

from __future__ import annotations

import numpy as np
import pytest

from rocke.kernels.common.block_sparse_attention import (
    EMPTY_LSE,
    NO_WINDOW,
    BlockSparseAttentionSpec,
)
from tests.kernels.block_sparse_runs import (
    ARCHS,
    TYPES,
    Problem,
    arguments,
    attended,
    check,
    launch,
    listed,
    random_problem,
    reference,
    run,
    with_options,
)

pytestmark = pytest.mark.parametrize("arch", ARCHS)

PLAIN = BlockSparseAttentionSpec(64, "f16", 64, 64)
ALL_FEATURES = BlockSparseAttentionSpec(
    64, "bf16", 64, 64, mask_mode="band", variable_blocks=True, need_lse=True, row_order=True
)

SPECS = [
    BlockSparseAttentionSpec(128, "bf16", 64, 64, need_lse=True),
    BlockSparseAttentionSpec(128, "f16", 128, 128, pattern="bitmap"),
    BlockSparseAttentionSpec(128, "bf16", 64, 64, variable_blocks=True, row_order=True),
    BlockSparseAttentionSpec(64, "f16", 128, 64, mask_mode="band", need_lse=True),
    ALL_FEATURES,
    BlockSparseAttentionSpec(48, "f16", 48, 80, variable_blocks=True, need_lse=True),
    BlockSparseAttentionSpec(80, "bf16", 16, 16, pattern="bitmap"),
    BlockSparseAttentionSpec(96, "f16", 160, 96, need_lse=True),
    BlockSparseAttentionSpec(256, "bf16", 64, 32),
]


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


@pytest.mark.parametrize("spec", SPECS, ids=lambda s: s.kernel_name()[24:])
def test_random_problems(arch, spec):
    check(spec, arch, random_problem(spec, rng(1)))
    check(spec, arch, random_problem(spec, rng(2), batch=2, heads=4, kv_heads=2, seqlen_q=97))


def test_the_shape_that_breaks_others(arch):
    spec = BlockSparseAttentionSpec(128, "bf16", 64, 64)
    given = random_problem(spec, rng(), heads=2, kv_heads=2, seqlen_q=257, seqlen_k=481)
    check(spec, arch, given)


@pytest.mark.parametrize("seqlen_k", [1, 17, 64, 65, 53 * 64])
def test_key_lengths(arch, seqlen_k):
    given = random_problem(PLAIN, rng(), seqlen_q=70, seqlen_k=seqlen_k, density=0.7)
    given.pattern[:, 0, -1] = True
    check(PLAIN, arch, given)


def test_more_blocks_than_one_portion_holds(arch):
    spec = with_options(PLAIN, block_k=16, variable_blocks=True)
    given = random_problem(spec, rng(), heads=1, seqlen_q=128, seqlen_k=16 * 300, density=0.6)
    check(spec, arch, given)
    check(with_options(spec, pattern="bitmap"), arch, given)


def test_counts_that_differ_between_neighbours(arch):
    given = random_problem(PLAIN, rng(), heads=1, seqlen_q=4 * 64, seqlen_k=20 * 64)
    given.pattern[0, 0] = False
    for row, count in enumerate((19, 0, 1, 20)):
        given.pattern[0, 0, row, :count] = True
    check(PLAIN, arch, given)


def test_list_order_changes_only_rounding(arch):
    spec = BlockSparseAttentionSpec(128, "f16", 64, 64)
    given = random_problem(spec, rng(), heads=1, seqlen_q=64, seqlen_k=9 * 64, density=1.0)
    for order in (range(9), range(8, -1, -1), [4, 0, 8, 2, 6, 1, 3, 7, 5]):
        given.lists = listed(list(order))
        check(spec, arch, given)


def test_entries_out_of_range_are_ignored(arch):
    given = random_problem(PLAIN, rng(), heads=1, seqlen_q=64, seqlen_k=4 * 64)
    given.pattern[...] = [True, False, True, False]
    given.lists = listed([-1, 2, 4, 2**31 - 1, 0, -(2**31)])
    check(PLAIN, arch, given)


@pytest.mark.parametrize(("count", "used"), [(7, 3), (-5, 0), (2**31 - 1, 3)])
def test_counts_are_cut_to_the_list(arch, count, used):
    given = random_problem(PLAIN, rng(), heads=1, seqlen_q=64, seqlen_k=4 * 64)
    given.pattern[...] = np.arange(4) < used
    given.lists = listed([0, 1, 2])
    made = arguments(PLAIN, given, rng())
    made["counts"][...] = count
    launch(PLAIN, arch, made)
    out = np.asarray(made["O"]).astype(np.float64)
    expected, _ = reference(PLAIN, given)
    assert np.linalg.norm(out - expected) <= 1e-3 * np.linalg.norm(expected)
    assert used or (out == 0).all()


@pytest.mark.parametrize("pattern", ["list", "bitmap"])
def test_empty_blocks_add_nothing_in_any_order(arch, pattern):
    spec = with_options(PLAIN, pattern=pattern, variable_blocks=True, need_lse=True)
    given = random_problem(spec, rng(), heads=1, seqlen_q=128, seqlen_k=5 * 64, density=1.0)
    given.pattern[...] = True
    for sizes in ([0, 64, 3, 0, 64], [0, 0, 0, 0, 0], [0, 0, 0, 0, 1], [1, 0, 0, 0, 0]):
        given.sizes = np.array(sizes, np.int32)
        check(spec, arch, given)


def test_sizes_out_of_range_count_as_the_nearest(arch):
    spec = with_options(PLAIN, variable_blocks=True)
    given = random_problem(spec, rng(), heads=1, seqlen_q=64, seqlen_k=3 * 64 - 10, density=1.0)
    given.pattern[...] = True
    given.sizes = np.array([-7, 1000, 1000], np.int32)
    out, _ = run(spec, arch, given)
    given.sizes = np.array([0, 64, 64], np.int32)
    expected, _ = reference(spec, given)
    assert np.linalg.norm(out - expected) <= 1e-3 * np.linalg.norm(expected)


@pytest.mark.parametrize("window", [(NO_WINDOW, 0), (40, 25), (0, 0), (NO_WINDOW, -100), (-5, 90)])
@pytest.mark.parametrize("lengths", [(130, 130), (70, 300), (300, 70)])
def test_causal_and_sliding_windows(arch, window, lengths):
    spec = with_options(PLAIN, mask_mode="band", need_lse=True)
    rows, keys = lengths
    given = random_problem(spec, rng(), seqlen_q=rows, seqlen_k=keys, density=0.9, window=window)
    given.pattern[:, 1] = True
    check(spec, arch, given)


def test_grouped_queries_read_their_own_head(arch):
    given = random_problem(PLAIN, rng(), batch=2, heads=6, kv_heads=3)
    check(PLAIN, arch, given)
    check(PLAIN, arch, random_problem(PLAIN, rng(), heads=5, kv_heads=1))


def test_any_strides(arch):
    spec = BlockSparseAttentionSpec(64, "bf16", 64, 64)
    given = random_problem(spec, rng(), batch=2, heads=2, kv_heads=2)
    plain, _ = run(spec, arch, given)
    tokens_first = Problem(
        *(np.ascontiguousarray(x.swapaxes(1, 2)).swapaxes(1, 2) for x in (given.q, given.k)),
        given.v,
        given.pattern,
    )
    assert (run(spec, arch, tokens_first)[0] == plain).all()
    wide = np.zeros((2, 2, 200, 3 * 64), TYPES["bf16"])
    wide[..., 64:128] = given.q
    sliced = Problem(wide[..., 64:128], given.k, given.v, given.pattern)
    assert (run(spec, arch, sliced)[0] == plain).all()


def test_patterns_shared_over_batch_and_heads(arch):
    given = random_problem(PLAIN, rng(), batch=2, heads=2)
    given.pattern[...] = given.pattern[:1, :1]
    made = arguments(PLAIN, given, rng())
    launch(PLAIN, arch, made)
    shared = arguments(PLAIN, given, rng())
    shared["O"][...] = np.nan
    for name in ("indices", "counts"):
        shared[name] = np.ascontiguousarray(made[name][:1, :1])
        shared[f"stride_{name}_batch"] = shared[f"stride_{name}_head"] = 0
    launch(PLAIN, arch, shared)
    first, second = (np.asarray(m["O"]).view(np.uint16) for m in (made, shared))
    # The shared lists are those of the first head; the others' were shuffled differently.
    assert (first[0, 0] == second[0, 0]).all()
    error = np.abs(made["O"].astype(np.float64) - shared["O"].astype(np.float64)).max()
    assert error < 2e-3


@pytest.mark.parametrize(
    "spec",
    [PLAIN, ALL_FEATURES, BlockSparseAttentionSpec(128, "bf16", 128, 128)],
    ids=("plain", "all", "128"),
)
def test_results_are_the_same_bits(arch, spec):
    """Between runs, batch sizes, row orders, and between bitmap and ascending list."""
    given = random_problem(spec, rng(3), batch=3, heads=2, kv_heads=2, seqlen_k=15 * spec.block_k)
    rows = given.pattern.reshape(-1, given.pattern.shape[-1])
    given.lists = [np.flatnonzero(row) for row in rows]
    first = run(spec, arch, given)
    assert (run(spec, arch, given)[0] == first[0]).all()
    bitmap = run(with_options(spec, pattern="bitmap"), arch, given)
    assert (bitmap[0] == first[0]).all()
    other = run(with_options(spec, row_order=not spec.row_order), arch, given)
    assert (other[0] == first[0]).all()
    one = Problem(given.q[1:2], given.k[1:2], given.v[1:2], given.pattern[1:2], given.sizes)
    one.window = given.window
    one.lists = [np.flatnonzero(row) for row in one.pattern.reshape(-1, rows.shape[-1])]
    alone = run(spec, arch, one)
    assert (alone[0] == first[0][1:2]).all()
    if first[1] is not None:
        assert (bitmap[1] == first[1]).all()
        assert (alone[1] == first[1][1:2]).all()


@pytest.mark.parametrize("poison", [np.nan, np.inf, -np.inf])
def test_keys_that_take_no_part_never_reach_the_output(arch, poison):
    spec = with_options(PLAIN, variable_blocks=True, need_lse=True)
    given = random_problem(spec, rng(), heads=1, seqlen_q=128, seqlen_k=6 * 64)
    given.pattern[...] = [True, True, False, True, True, False]
    given.sizes = np.array([64, 5, 64, 0, 40, 64], np.int32)
    given.seqlen_k = 4 * 64 + 30
    given.pattern = given.pattern[..., :5]
    used = attended(spec, given).any((0, 1, 2))
    clean, clean_lse = run(spec, arch, given)
    for tensor in (given.k, given.v):
        tensor[:, :, : given.seqlen_k][:, :, ~used] = poison
        tensor[:, :, given.seqlen_k :] = poison
    check(spec, arch, given)
    out, lse = run(spec, arch, given)
    assert (out == clean).all()
    assert (lse == clean_lse).all()


@pytest.mark.parametrize("where", ["k", "v", "q"])
def test_a_nan_reaches_the_rows_that_attend_it_and_no_others(arch, where):
    given = random_problem(PLAIN, rng(), heads=2, kv_heads=2, seqlen_q=256, seqlen_k=256)
    given.pattern[...] = np.eye(4, dtype=bool) | (np.arange(4) == 2)
    clean, _ = run(PLAIN, arch, given)
    tensor = getattr(given, where)
    tensor[0, 1, 70, 3] = np.nan
    out, _ = run(PLAIN, arch, given)
    hit = np.zeros(out.shape, bool)
    if where == "q":
        hit[0, 1, 70] = True
    elif where == "k":
        hit[0, 1] = attended(PLAIN, given)[0, 1, :, 70][:, None]
    else:
        hit[0, 1, :, 3] = attended(PLAIN, given)[0, 1, :, 70]
    assert np.isnan(out[hit]).all()
    assert (out[~hit] == clean[~hit]).all()


def test_a_nan_behind_the_window_stays_in_its_tile(arch):
    spec = with_options(PLAIN, mask_mode="band")
    given = random_problem(spec, rng(), heads=1, seqlen_q=192, seqlen_k=192, window=(NO_WINDOW, 0))
    given.pattern[...] = True
    clean, _ = run(spec, arch, given)
    given.k[0, 0, 100] = np.nan
    out, _ = run(spec, arch, given)
    assert (out[:, :, :100] == clean[:, :, :100]).all()
    assert np.isnan(out[:, :, 100:]).all()


@pytest.mark.parametrize("pattern", ["list", "bitmap"])
def test_keys_whose_score_is_minus_infinity_weigh_nothing(arch, pattern):
    """A row with no other score is as one that attends nothing."""
    spec = with_options(PLAIN, pattern=pattern, need_lse=True)
    given = random_problem(spec, rng(), heads=1, seqlen_q=128, seqlen_k=192)
    given.pattern[...] = [[[[True, True, False], [True, True, True]]]]
    given.q[...] = np.abs(given.q)
    given.k[:, :, :128, 5] = -np.inf
    made = arguments(spec, given, rng())
    launch(spec, arch, made)
    out = made["O"].astype(np.float64)
    assert (out[:, :, :64] == 0).all()
    assert (made["LSE"][:, :, :64] == np.float32(EMPTY_LSE)).all()
    expected, lse = reference(spec, given)
    assert np.linalg.norm(out - expected) <= 1e-3 * np.linalg.norm(expected)
    assert np.abs(made["LSE"] - lse)[:, :, 64:].max() < 1e-4


def test_scores_of_huge_magnitude(arch):
    spec = BlockSparseAttentionSpec(64, "bf16", 64, 64, need_lse=True)
    given = random_problem(spec, rng(), seqlen_q=128, seqlen_k=256, density=0.8)
    given.k *= TYPES["bf16"].type(1000)
    scores = given.q.astype(np.float64) @ given.k.astype(np.float64).swapaxes(2, 3)
    assert np.abs(scores).max() > 1e4
    check(spec, arch, given, tolerance=2e-2)


@pytest.mark.parametrize("block", [64, 128])
def test_a_maximum_that_keeps_growing_is_rescaled(arch, block):
    spec = BlockSparseAttentionSpec(64, "f16", block, block, need_lse=True)
    given = random_problem(spec, rng(), heads=1, seqlen_q=block, seqlen_k=8 * block, density=1.0)
    given.pattern[...] = True
    growth = np.linspace(0.1, 12, given.k.shape[2])[:, None]
    given.k[...] = (np.abs(given.q).mean(2, keepdims=True) * growth).astype(np.float16)
    given.q[...] = np.abs(given.q)
    given.lists = listed(list(range(8)))
    check(spec, arch, given)
    given.lists = listed(list(range(7, -1, -1)))
    check(spec, arch, given)


def test_equal_scores_average_the_values(arch):
    spec = with_options(PLAIN, need_lse=True)
    given = random_problem(spec, rng(), heads=1, seqlen_q=64, seqlen_k=200, density=1.0)
    given.pattern[...] = True
    given.q[...] = 0
    check(spec, arch, given)


def test_a_scale_of_zero_averages_the_values(arch):
    spec = with_options(PLAIN, variable_blocks=True, need_lse=True)
    given = random_problem(spec, rng(), heads=1, seqlen_q=64, seqlen_k=200, density=1.0)
    given.pattern[...] = True
    given.sizes = np.array([64, 20, 0, 64], np.int32)
    given.scale_log2 = 1e-38
    made = arguments(spec, given, rng())
    made["scale_log2"] = 0.0
    launch(spec, arch, made)
    expected, lse = reference(spec, given)
    out = np.asarray(made["O"]).astype(np.float64)
    assert np.linalg.norm(out - expected) <= 1e-3 * np.linalg.norm(expected)
    assert np.abs(made["LSE"] - lse).max() < 1e-4


def test_an_order_entry_out_of_range_is_skipped(arch):
    spec = with_options(PLAIN, row_order=True)
    given = random_problem(spec, rng(), heads=1, seqlen_q=130)
    made = arguments(spec, given, rng())
    made["order"][...] = [2, -1, 3]
    launch(spec, arch, made)
    out = np.asarray(made["O"]).astype(np.float64)
    assert np.isnan(out[:, :, :128]).all()
    expected, _ = reference(spec, given)
    assert np.allclose(out[:, :, 128:], expected[:, :, 128:], atol=2e-3)


@pytest.mark.parametrize("seed", range(6))
def test_random_combinations(arch, seed):
    draw = rng(1000 + seed)
    spec = BlockSparseAttentionSpec(
        head_size=int(draw.choice([32, 48, 64, 112, 128])),
        dtype=str(draw.choice(["f16", "bf16"])),
        block_q=int(draw.choice([16, 32, 64, 96, 128, 144, 256])),
        block_k=int(draw.choice([16, 32, 48, 64, 128, 192, 256])),
        pattern=str(draw.choice(["list", "bitmap"])),
        mask_mode=str(draw.choice(["none", "band"])),
        variable_blocks=bool(draw.integers(2)),
        need_lse=bool(draw.integers(2)),
        row_order=bool(draw.integers(2)),
    )
    kv_heads = int(draw.integers(1, 3))
    given = random_problem(
        spec,
        draw,
        batch=int(draw.integers(1, 3)),
        heads=kv_heads * int(draw.integers(1, 3)),
        kv_heads=kv_heads,
        seqlen_q=int(draw.integers(1, 400)),
        seqlen_k=int(draw.integers(1, 700)),
        density=float(draw.random()),
        window=(int(draw.integers(0, 300)), int(draw.integers(-20, 300))),
    )
    check(spec, arch, given)
