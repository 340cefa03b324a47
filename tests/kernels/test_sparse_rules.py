"""What the sparse kernels promise beside numbers: cost, zeros, isolation, lengths, lists."""

import numpy as np
import pytest

from rocke.runtime import Launcher
from tests.kernels.sparse_runs import attended, check, kernel, launch, problem
from tests.kernels.sparse_specs import ARCHS, jenga, vsa

FAMILIES = {"jenga": jenga, "vsa": vsa}
both = pytest.mark.parametrize("family", FAMILIES)
every_arch = pytest.mark.parametrize("arch", ARCHS)
pytestmark = pytest.mark.normal


def with_nan_outside(given, name, keep):
    """Replace a K or V by one whose rows outside ``keep`` (bool by row) are NaN or infinite."""
    array = given.arguments[name]
    array[~keep] = np.nan
    array[~keep, :, ::2] = np.inf


@both
@every_arch
def test_cost_falls_with_density(family, arch):
    spec = FAMILIES[family](128, 1280, block_q=64, shape={"head_size": 128})
    executed = {}
    for density in (0.1, 0.5, 1.0):
        given = problem(spec, arch, density=density)
        executed[density] = launch(spec, arch, given)[1]
    assert executed[1.0] == kernel(spec, arch).family.matrix_instructions(spec, arch)
    assert executed[0.1] <= 0.15 * executed[1.0]
    assert executed[0.5] == pytest.approx(0.5 * executed[1.0])


@both
def test_a_skipped_tile_executes_next_to_nothing(family):
    spec = FAMILIES[family](16, 2048, block_q=16, shape={"head_size": 128})
    made = kernel(spec, "gfx950")
    counts = []
    for pattern in ("none", "all"):
        launch(spec, "gfx950", problem(spec, "gfx950", pattern=pattern))
        counts.append(made.device.counters.instructions)
    assert counts[0] < 0.15 * counts[1]


@both
@pytest.mark.parametrize("block_q", [1, 24, 64])
def test_nan_in_dropped_blocks_reaches_no_row(family, block_q):
    """Each row attends its own blocks only; all that some row does not attend is NaN for it."""
    spec = FAMILIES[family](32, 256, block_q=block_q, block_k=32)
    given = problem(spec, "gfx942", 3, density=0.3)
    blocks = attended(spec, given)
    expected = kernel(spec, "gfx942").family.reference(spec, given)["O"]
    dropped = 5
    keep = np.arange(256) // 32 != dropped
    for name in ("K", "V"):
        with_nan_outside(given, name, keep)
    out, _ = launch(spec, "gfx942", given)
    poisoned = np.array([dropped in blocks[row // block_q] for row in range(32)])
    assert np.isnan(out[poisoned]).all()
    clean = ~poisoned
    assert np.linalg.norm(out[clean] - expected[clean]) <= 1e-3 * np.linalg.norm(expected[clean])


@both
@pytest.mark.parametrize(("seqlen_q", "seqlen_k"), [(64, 131), (33, 256), (1, 1), (50, 17)])
def test_shorter_run_time_lengths(family, seqlen_q, seqlen_k):
    """Keys past the end hold NaN, rows past the end must stay as they were."""
    spec = FAMILIES[family](64, 256, block_q=24, block_k=32)
    given = problem(spec, "gfx90a", 4, pattern="all", seqlen_q=seqlen_q, seqlen_k=seqlen_k)
    longer = dict(given.arguments)
    for name, rows, used in (("K", 256, seqlen_k), ("V", 256, seqlen_k), ("O", 64, seqlen_q)):
        short = longer[name]
        longer[name] = np.full((rows, *short.shape[1:]), np.nan, short.dtype)
        longer[name][:used] = short
    long_given = type(given)(longer, given.outputs)
    out, _ = launch(spec, "gfx90a", long_given)
    assert np.isnan(out[seqlen_q:]).all()
    exact = check(spec, "gfx90a", given)
    assert np.array_equal(out[:seqlen_q], exact)


@both
def test_exact_arrays_are_enough(family):
    """No access past the last row: arrays of exactly the run-time lengths do not fault."""
    spec = FAMILIES[family](64, 256, block_q=1, block_k=64, dtype="bf16")
    for layout in ("token", "head"):
        given = problem(spec, "gfx950", 5, layout=layout, seqlen_q=47, seqlen_k=201)
        check(spec, "gfx950", given)


@both
def test_views_of_one_packed_tensor(family):
    """Q, K and V as slices of one projection: strides other than the shape's."""
    spec = FAMILIES[family](64, 64, block_q=16, shape={"num_query_heads": 2, "num_kv_heads": 2})
    given = problem(spec, "gfx950", 6, pattern="all")
    packed = np.empty((64, 3, 2, 64), np.float16)
    arguments = dict(given.arguments)
    for i, name in enumerate(("Q", "K", "V")):
        packed[:, i] = arguments[name]
        arguments[name] = packed[:, i]
        arguments[f"stride_{name.lower()}_token"] = 3 * 2 * 64
    check(spec, "gfx950", type(given)(arguments, given.outputs))


@both
def test_rows_of_one_tile_keep_their_own_blocks(family):
    """block_q 1: of one tile's 16 rows, each attends another block, one attends none."""
    spec = FAMILIES[family](16, 15 * 16, block_q=1, block_k=16)
    given = problem(spec, "gfx950", 7, pattern="none")
    for row in range(15):
        if family == "jenga":
            given.arguments["mask"][row, 14 - row] = 1
        else:
            given.arguments["block_lut"][row, 0] = 14 - row
            given.arguments["block_count"][row] = 1
    out = check(spec, "gfx950", given)
    assert (out[15] == 0).all()
    assert (np.abs(out[:15]) > 0).any(axis=(1, 2)).all()


@every_arch
@pytest.mark.parametrize("ballot", [True, False])
def test_dirty_lists_are_harmless(arch, ballot):
    """Entries out of range, duplicates, garbage past the count and counts past the row."""
    spec = vsa(
        128, 1024, block_q=16, block_k=16, max_blocks_per_q=70, use_wave_ballot_scatter=ballot
    )
    for density in (0.2, 1.0):
        check(spec, arch, problem(spec, arch, 8, density=density, lists="dirty"))


def test_negative_counts_are_empty_rows():
    spec = vsa(32, 256, block_q=16)
    given = problem(spec, "gfx950", 9, pattern="all")
    given.arguments["block_count"][:] = (-1, -(2**31))
    assert (check(spec, "gfx950", given) == 0).all()


@pytest.mark.parametrize("block_q", [1, 64])
def test_patterns_and_scatter_forms_give_the_same_bits(block_q):
    lists = vsa(64, 512, block_q=block_q, block_k=32, dtype="bf16")
    branch = vsa(64, 512, block_q=block_q, block_k=32, dtype="bf16", use_wave_ballot_scatter=False)
    bitmap = jenga(64, 512, block_q=block_q, block_k=32, dtype="bf16")
    given = problem(lists, "gfx942", 10, density=0.5)
    first = check(lists, "gfx942", given)
    assert np.array_equal(check(lists, "gfx942", given), first)
    assert np.array_equal(check(branch, "gfx942", given), first)
    mask = np.zeros((bitmap.num_q_blocks, bitmap.num_k_blocks), np.int8)
    for row, blocks in zip(mask, attended(lists, given), strict=True):
        row[blocks] = 1
    arguments = {k: v for k, v in given.arguments.items() if not k.startswith("block_")}
    arguments["mask"] = mask
    assert np.array_equal(check(bitmap, "gfx942", type(given)(arguments, ("O",))), first)


@both
def test_scores_far_apart(family):
    """Scores over a range that overflows 2**s unless the maximum is taken off."""
    spec = FAMILIES[family](32, 256, block_q=16)
    given = problem(spec, "gfx950", 11, pattern="all")
    given.arguments["Q"][...] *= 30
    given.arguments["K"][...] *= 30
    check(spec, "gfx950", given)


@both
def test_negative_scale(family):
    spec = FAMILIES[family](32, 256, block_q=16)
    given = problem(spec, "gfx950", 12, pattern="all")
    arguments = {**given.arguments, "scale_log2": -1.5}
    check(spec, "gfx950", type(given)(arguments, given.outputs))


@both
def test_lengths_of_zero_do_no_harm(family):
    """The launcher refuses them; a kernel launched without its limits still stays in bounds."""
    spec = FAMILIES[family](32, 256, block_q=16)
    made = kernel(spec, "gfx950")
    code_object = made.launcher.kernel.code_object
    unlimited = Launcher(
        made.device, code_object, made.family.signature(spec), grid=(2, 2, 1), block=(64, 1, 1)
    )
    given = problem(spec, "gfx950", 13, pattern="all")
    unlimited(**{**given.arguments, "seqlen_q": 0})
    assert np.isnan(given.arguments["O"]).all()
    unlimited(**{**given.arguments, "seqlen_k": 0})
    assert (given.arguments["O"] == 0).all()
