"""The code of the fast block-sparse attention kernel: its cost, measured by what it executes."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np
import pytest

from rocke.arch import target
from rocke.emulator.counters import Counters
from rocke.kernels.common.block_sparse_attention import BlockSparseAttentionSpec
from tests.kernels.block_sparse_runs import (
    ARCHS,
    arguments,
    attended,
    compiled,
    launch,
    listed,
    random_problem,
    with_options,
)

TUNED = [(size, block) for size in (64, 128) for block in (64, 128)]
FEW, MANY = 4, 20
"""Key tiles of two launches whose difference is the main loop's alone."""

BUDGET = {("gfx950", "f16"): 280, ("gfx950", "bf16"): 280}
BUDGET |= {(arch, "f16"): 380 for arch in ("gfx942", "gfx90a")}
BUDGET |= {(arch, "bf16"): 420 for arch in ("gfx942", "gfx90a")}


@dataclass(frozen=True)
class PerTile:
    """What one more 64-key tile costs: wave instructions of one wave, bytes of the workgroup."""

    instructions: float
    matrix: float
    global_bytes: float
    lds_conflicts: float
    store_conflicts: float


def tuned(size: int, block: int, dtype: str) -> BlockSparseAttentionSpec:
    return BlockSparseAttentionSpec(size, dtype, block, block)


def counted(spec: BlockSparseAttentionSpec, arch: str, blocks: int) -> Counters:
    """One query block that attends ``blocks`` key blocks, all keys equal: nothing is rescaled."""
    rng = np.random.default_rng(0)
    keys = blocks * spec.block_k
    given = random_problem(spec, rng, heads=1, seqlen_q=spec.block_q, seqlen_k=keys, density=1.0)
    given.pattern[...] = True
    given.k[...] = given.k[:, :, :1]
    if given.sizes is not None:
        given.sizes[...] = spec.block_k
    given.lists = listed(list(range(blocks)))
    counters = launch(spec, arch, arguments(spec, given, rng), counters="full").counters
    assert counters is not None
    return counters


@functools.lru_cache(maxsize=32)
def per_tile(spec: BlockSparseAttentionSpec, arch: str) -> PerTile:
    few, many = (counted(spec, arch, n) for n in (FEW, MANY))
    tiles = (MANY - FEW) * spec.block_k // 64
    waves = spec.block_q // 32

    def conflicts(kind: str) -> int:
        return sum(row.lds_conflicts for row in many.detail or () if kind in row.mnemonic)

    return PerTile(
        (many.instructions - few.instructions) / tiles / waves,
        (many.matrix_instructions - few.matrix_instructions) / tiles / waves,
        (many.bytes_by_level["global"][0] - few.bytes_by_level["global"][0]) / tiles,
        conflicts("ds_read"),
        conflicts("ds_write"),
    )


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("dtype", ["f16", "bf16"])
@pytest.mark.parametrize("block", [64, 128])
def test_instructions_of_a_full_tile(arch, dtype, block):
    """32 query rows by 64 keys at head size 128, everything of the loop counted."""
    cost = per_tile(tuned(128, block, dtype), arch)
    assert cost.instructions <= BUDGET[arch, dtype]
    assert cost.matrix == (32 if arch == "gfx950" else 64)


def within_budget(arch: str, dtype: str, **features: object) -> None:
    cost = per_tile(with_options(tuned(128, 64, dtype), **features), arch)
    assert cost.instructions <= BUDGET[arch, dtype]
    assert cost.matrix == (32 if arch == "gfx950" else 64)


@pytest.mark.normal
@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("dtype", ["f16", "bf16"])
@pytest.mark.parametrize("pattern", ["list", "bitmap"])
def test_full_tiles_cost_no_more_with_every_feature(arch, dtype, pattern):
    """Windows and valid sizes cost the partial tiles alone; LSE has room in the budget."""
    features = {"mask_mode": "band", "variable_blocks": True, "need_lse": True}
    within_budget(arch, dtype, pattern=pattern, row_order=True, **features)


@pytest.mark.slow
@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("dtype", ["f16", "bf16"])
@pytest.mark.parametrize("pattern", ["list", "bitmap"])
@pytest.mark.parametrize("mask_mode", ["none", "band"])
@pytest.mark.parametrize("variable_blocks", [False, True])
@pytest.mark.parametrize("need_lse", [False, True])
def test_full_tiles_cost_no_more_with_any_features(
    arch, dtype, pattern, mask_mode, variable_blocks, need_lse
):
    features = {"mask_mode": mask_mode, "variable_blocks": variable_blocks, "need_lse": need_lse}
    within_budget(arch, dtype, pattern=pattern, **features)


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize(("size", "block"), TUNED)
def test_main_loop_reads_each_byte_once_and_without_bank_conflicts(arch, size, block):
    spec = tuned(size, block, "bf16")
    cost = per_tile(spec, arch)
    settings = spec.resolve(arch)
    # Beside K and V each wave reads the list entry of each of its steps.
    entries = 4 * settings.work_items // 64 * 64 // settings.tile_k
    assert cost.global_bytes == 2 * 64 * size * 2 + entries
    assert cost.lds_conflicts == 0


@pytest.mark.parametrize("arch", ["gfx90a", "gfx942"])
@pytest.mark.parametrize(("size", "block"), TUNED)
def test_stores_of_k_and_transposed_v_meet_no_bank_conflict(arch, size, block):
    assert per_tile(tuned(size, block, "bf16"), arch).store_conflicts == 0


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize(("size", "block"), TUNED)
@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_tuned_settings_do_not_spill(arch, size, block, dtype):
    plain = tuned(size, block, dtype)
    every = with_options(
        plain, mask_mode="band", variable_blocks=True, need_lse=True, row_order=True
    )
    for spec in (plain, every, with_options(plain, pattern="bitmap")):
        info = compiled(spec, arch).kernel(None)
        assert (info.vgpr_spills, info.sgpr_spills, info.scratch) == (0, 0, 0)


SHORT_OF_REGISTERS = [
    ("gfx942", BlockSparseAttentionSpec(128, "f16", 128, 64, need_lse=True)),
    ("gfx942", BlockSparseAttentionSpec(128, "bf16", 256, 64)),
    ("gfx90a", BlockSparseAttentionSpec(128, "bf16", 128, 64, mask_mode="band")),
    ("gfx942", BlockSparseAttentionSpec(256, "bf16", 64, 32, mask_mode="band", need_lse=True)),
    ("gfx942", BlockSparseAttentionSpec(96, "f16", 64, 64, variable_blocks=True)),
    (
        "gfx950",
        BlockSparseAttentionSpec(
            *(256, "f16", 16, 64, "bitmap", "band"),
            variable_blocks=True,
            need_lse=True,
            row_order=True,
        ),
    ),
    ("gfx950", BlockSparseAttentionSpec(256, "bf16", 32, 64, "bitmap", "band", need_lse=True)),
]
"""The nearest to the end of the vector registers, and on gfx950 of the scalar ones."""


@pytest.mark.normal
@pytest.mark.parametrize(("arch", "spec"), SHORT_OF_REGISTERS)
def test_defaults_short_of_registers_do_not_spill(arch, spec):
    info = compiled(spec, arch).kernel(None)
    assert (info.vgpr_spills, info.sgpr_spills, info.scratch) == (0, 0, 0)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(150))
def test_no_default_spills(seed):
    draw = np.random.default_rng(seed)
    spec = BlockSparseAttentionSpec(
        *(int(draw.choice(range(32, 257, 16))), str(draw.choice(["f16", "bf16"]))),
        *(int(draw.choice([16, 32, 64, 128, 256])) for _ in "qk"),
        *(str(draw.choice(["list", "bitmap"])), str(draw.choice(["none", "band"]))),
        *(bool(draw.integers(2)) for _ in range(3)),
    )
    info = compiled(spec, str(draw.choice(ARCHS))).kernel(None)
    assert (info.vgpr_spills, info.sgpr_spills, info.scratch) == (0, 0, 0)


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize(("size", "block"), TUNED)
def test_settings_leave_room_for_the_waves_they_count_on(arch, size, block):
    spec = tuned(size, block, "bf16")
    settings, facts = spec.resolve(arch), target(arch)
    info = compiled(spec, arch).kernel(None)
    assert info.lds == settings.lds_bytes(facts, size)
    assert facts.waves_per_simd(info.vgpr) >= settings.waves_per_simd(facts, size)
    if arch != "gfx950":
        assert info.lds <= 32 * 1024


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize(("size", "block"), TUNED)
def test_matrix_work_is_that_of_the_kept_blocks(arch, size, block):
    spec = tuned(size, block, "bf16")
    rng = np.random.default_rng(5)
    given = random_problem(spec, rng, seqlen_q=4 * block, seqlen_k=20 * block, density=0.1, heads=2)
    counters = launch(spec, arch, arguments(spec, given, rng)).counters
    assert counters is not None
    pairs = int(attended(spec, given).sum()) // block**2
    depth = 16 if arch == "gfx950" else 8
    ideal = pairs * 2 * block * block * size // (32 * 32 * depth)
    assert counters.matrix_instructions == ideal
