"""Jenga and VSA kernels on the emulated device against the float64 reference.

Each test compiles one kernel, so a broken one hides no other. The quick set takes every target with
every type and goes through the other axes in turn; the whole product, in which only the head ratios
take turns, is marked slow.
"""

import itertools

import pytest

from rocke.kernels.common.sparse_problems import PATTERNS
from tests.kernels.sparse_runs import check, problem
from tests.kernels.sparse_specs import ARCHS, DTYPES, jenga, vsa

FAMILIES = {"jenga": jenga, "vsa": vsa}
HEAD_SIZES = (32, 64, 128, 192, 256)
HEADS = ((2, 2), (4, 2), (3, 1))
BLOCKS = ((1, 64), (16, 16), (64, 64), (5, 32), (24, 48), (128, 96))


def check_patterns(spec, arch, patterns=PATTERNS):
    for seed, pattern in enumerate(patterns):
        layout = ("token", "head")[seed % 2]
        density = 0.4 if pattern == "random" else None
        given = problem(spec, arch, seed, pattern=pattern, density=density, layout=layout)
        check(spec, arch, given)


def make(family, dtype, head_size, heads, blocks):
    shape = {"head_size": head_size, "num_query_heads": heads[0], "num_kv_heads": heads[1]}
    block_q, block_k = blocks
    return FAMILIES[family](
        48, 4 * block_k, dtype=dtype, shape=shape, block_q=block_q, block_k=block_k
    )


QUICK = [
    (family, arch, dtype, HEAD_SIZES[i % 5], HEADS[i % 3], BLOCKS[i % 6])
    for i, (dtype, family, arch) in enumerate(itertools.product(DTYPES, FAMILIES, ARCHS))
]


@pytest.mark.normal
@pytest.mark.parametrize(("family", "arch", "dtype", "head_size", "heads", "blocks"), QUICK)
def test_quick_sweep(family, arch, dtype, head_size, heads, blocks):
    check_patterns(make(family, dtype, head_size, heads, blocks), arch)


@pytest.mark.slow
@pytest.mark.parametrize("blocks", BLOCKS)
@pytest.mark.parametrize("head_size", HEAD_SIZES)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("family", FAMILIES)
def test_whole_sweep(family, arch, dtype, head_size, blocks):
    # Head ratios take turns, so that each meets every block size and every head size.
    heads = HEADS[(HEAD_SIZES.index(head_size) + BLOCKS.index(blocks)) % 3]
    check_patterns(make(family, dtype, head_size, heads, blocks), arch)


@pytest.mark.slow
@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("head_size", range(16, 257, 16))
def test_every_head_size(head_size, arch):
    spec = jenga(32, 128, block_q=16, shape={"head_size": head_size})
    check_patterns(spec, arch, ("random", "all"))


@pytest.mark.normal
@pytest.mark.parametrize("head_size", [16, 48, 112])
def test_head_sizes_that_are_no_multiple_of_32(head_size):
    spec = vsa(32, 128, block_q=16, shape={"head_size": head_size})
    check_patterns(spec, "gfx942", ("random", "all"))


@pytest.mark.normal
@pytest.mark.parametrize("family", FAMILIES)
def test_rows_with_any_count_from_none_to_all(family):
    blocks = 9
    spec = FAMILIES[family](16 * (blocks + 1), 16 * blocks, block_q=16, block_k=16)
    given = problem(spec, "gfx950", 1, pattern="all")
    for row in range(blocks + 1):
        if family == "jenga":
            given.arguments["mask"][row, row:] = 0
        else:
            given.arguments["block_count"][row] = row
    check(spec, "gfx950", given)


@pytest.mark.normal
@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("family", FAMILIES)
def test_a_row_whose_every_score_is_minus_infinity_is_0(family, arch):
    spec = FAMILIES[family](32, 64, block_q=16, block_k=16)
    given = problem(spec, arch, 1, pattern="all")
    q, k = given.arguments["Q"], given.arguments["K"]
    q[:16] = abs(q[:16])
    q[16:, :, 0] = 0  # 0 * inf is NaN: the other rows attend one finite block alone
    k[:48, :, 0] = float("-inf")
    if family == "jenga":
        given.arguments["mask"][:] = [[1, 1, 1, 0], [0, 0, 0, 1]]
    else:
        given.arguments["block_count"][:] = [3, 1]
        given.arguments["block_lut"][0, :3] = [2, 0, 1]
        given.arguments["block_lut"][1, 0] = 3
    out = check(spec, arch, given)
    assert (out[:16] == 0).all()
    assert (out[16:] != 0).any()
