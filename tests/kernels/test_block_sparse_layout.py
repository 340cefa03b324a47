"""Settings, validation, names, and LDS layouts of the fast block-sparse attention kernel."""

from __future__ import annotations

from collections import Counter

import pytest

from rocke.arch import TARGETS, LdsPhases
from rocke.kernels.common.block_sparse_attention import (
    BlockSparseAttentionSpec,
    BlockSparseSettings,
    block_sparse_attention_grid,
    block_sparse_attention_signature,
    build_block_sparse_attention,
    default_settings,
    is_valid_block_sparse_spec,
)
from rocke.kernels.common.bsa_layout import PaddedLayout, SwizzledLayout, key_layout, value_layout
from rocke.kernels.common.bsa_settings import MOST_OF_TABLE
from rocke.kernels.common.bsa_spec import longest_key_stride
from rocke.kernels.common.bsa_staging import MOST_IMMEDIATE
from tests.kernels.block_sparse_runs import ARCHS, with_options

STEPS = range(16, 257, 16)
SPEC = BlockSparseAttentionSpec(128, "bf16", 64, 64)
SETTINGS = default_settings(TARGETS["gfx950"], 128, 64, 64)

LAYOUTS = [
    SwizzledLayout(64, 16, 16),
    SwizzledLayout(48, 10, 16, unit=2),
    SwizzledLayout(64, 16, 16, unit=4),
    SwizzledLayout(128, 8, 8, spread=True),
    SwizzledLayout(256, 4, 8, spread=True),
    PaddedLayout(64, 16, 8),
    PaddedLayout(64, 8, 32, unit=4),
    PaddedLayout(64, 32, 32, unit=4),
]


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("head_size", range(32, 257, 16))
def test_every_size_has_settings(arch, head_size):
    for block_q in STEPS:
        for block_k in STEPS:
            spec = BlockSparseAttentionSpec(head_size, block_q=block_q, block_k=block_k)
            assert is_valid_block_sparse_spec(spec, arch) == (True, "ok")
            settings = spec.resolve(arch)
            assert settings.tile_k <= MOST_OF_TABLE[0]
            assert settings.waves_q <= MOST_OF_TABLE[1]
            assert settings.rows * spec.workgroups_per_block(arch) >= block_q
            assert settings.work_items <= 1024
            if arch != "gfx950":
                assert settings.lds_bytes(TARGETS[arch], head_size) <= 32 * 1024


def last_row(layout, waves_q):
    """The last row that the pieces of a tile address, as many of them in every wave."""
    pieces = -(-layout.pieces // waves_q) * waves_q
    if isinstance(layout, PaddedLayout):
        return pieces - 1 + (64 // layout.slots - 1) * layout.pieces
    return (64 * pieces - 1) // layout.slots


@pytest.mark.parametrize("waves_q", range(1, 9))
@pytest.mark.parametrize("head_size", range(32, 257, 16))
def test_no_offset_of_a_tile_comes_round_at_32_bits(head_size, waves_q):
    for wave_rows, tile_k in ((16, 16), (16, 48), (32, 64), (32, 256)):
        settings = BlockSparseSettings(wave_rows, waves_q, 1, tile_k, 2)
        spec = BlockSparseAttentionSpec(head_size, settings=settings)
        stride = longest_key_stride(spec) // 8 * 8
        for layout_of in (key_layout, value_layout):
            layout = layout_of(TARGETS["gfx950"], wave_rows, tile_k, head_size)
            row = last_row(layout, waves_q)
            assert row >= tile_k - 1
            assert 2 * (row * stride + head_size) + MOST_IMMEDIATE < 2**32


REFUSED = [
    ({"head_size": 24}, "head_size is 24"),
    ({"head_size": 272}, "head_size is 272"),
    ({"dtype": "f32"}, "dtype is 'f32'"),
    ({"block_q": 8}, "block_q is 8"),
    ({"block_k": 100}, "block_k is 100"),
    ({"pattern": "mask"}, "pattern is 'mask'"),
    ({"mask_mode": "causal"}, "mask_mode is 'causal'"),
    ({"need_lse": 1}, "need_lse is 1"),
    ({"row_order": None}, "row_order is None"),
    ({"name": "a b"}, "name is 'a b'"),
    ({"settings": 3}, "settings is 3"),
    ({"settings": BlockSparseSettings(24, 2, 2, 64, 2)}, "settings.wave_rows is 24"),
    ({"settings": BlockSparseSettings(32, 4, 1, 64, 2)}, "settings.waves_q is 4"),
    ({"settings": BlockSparseSettings(32, 2, 3, 64, 2)}, "settings.waves_k is 3"),
    ({"settings": BlockSparseSettings(32, 2, 1, 64, 1)}, "settings.buffers is 1"),
    ({"settings": BlockSparseSettings(32, 2, 1, 48, 2)}, "settings.tile_k is 48, expected 32 to"),
    ({"settings": BlockSparseSettings(32, 2, 1, 128, 2)}, "settings.tile_k is 128"),
    (
        {"block_k": 256, "settings": BlockSparseSettings(32, 2, 2, 256, 2)},
        "bytes of LDS; gfx950 has 163840",
    ),
    ({"block_k": 192, "settings": BlockSparseSettings(32, 2, 1, 128, 2)}, "a divisor of block_k"),
    (
        {"head_size": 256, "block_q": 256, "settings": BlockSparseSettings(32, 8, 2, 32, 2)},
        "settings.waves_k is 2: 8 waves merge in 266240 bytes",
    ),
    ({"head_size": 48, "settings": BlockSparseSettings(32, 2, 1, 64, 2)}, "head_size is 48"),
]


@pytest.mark.parametrize(("changes", "reason"), REFUSED)
def test_refusals_name_the_field_and_the_builder_gives_the_same_reason(changes, reason):
    spec = with_options(SPEC, **changes)
    ok, said = is_valid_block_sparse_spec(spec, "gfx950")
    assert not ok
    assert reason in said
    with pytest.raises(ValueError, match="invalid block-sparse attention spec") as caught:
        build_block_sparse_attention(spec, "gfx950")
    assert said in str(caught.value)


def test_unknown_target_and_direct_copies_elsewhere_are_refused():
    assert is_valid_block_sparse_spec(SPEC, "gfx1100")[1].startswith("unknown target 'gfx1100'")
    spec = with_options(SPEC, settings=SETTINGS)
    assert "settings.buffers is 2" in is_valid_block_sparse_spec(spec, "gfx942")[1]


def test_names_tell_every_field_apart():
    changes = [
        {},
        {"head_size": 64},
        {"dtype": "f16"},
        {"block_q": 128},
        {"block_k": 128},
        {"pattern": "bitmap"},
        {"mask_mode": "band"},
        {"variable_blocks": True},
        {"need_lse": True},
        {"row_order": True},
        {"name": "other"},
        {"settings": BlockSparseSettings(16, 4, 1, 64, 2)},
        {"settings": BlockSparseSettings(32, 1, 2, 64, 2)},
        {"settings": BlockSparseSettings(32, 2, 1, 64, 2)},
        {"settings": BlockSparseSettings(32, 2, 2, 32, 2)},
    ]
    names = {with_options(SPEC, **c).kernel_name("gfx950") for c in changes}
    assert len(names) == len(changes)
    assert SPEC.kernel_name("gfx942") != SPEC.kernel_name("gfx950")


@pytest.mark.parametrize("arch", ARCHS)
def test_the_kernel_has_the_name_and_signature_that_the_spec_says(arch):
    for spec in (SPEC, with_options(SPEC, pattern="bitmap", need_lse=True, row_order=True)):
        kernel = build_block_sparse_attention(spec, arch)
        assert kernel.name == spec.kernel_name(arch)
        assert kernel.signature() == block_sparse_attention_signature(spec)
        assert kernel.arch == arch


def test_grid():
    spec = with_options(SPEC, block_q=160)
    assert spec.workgroups_per_block("gfx950") == 2
    assert block_sparse_attention_grid(spec, "gfx950", batch=3, heads=5, seqlen_q=161) == (4, 5, 3)


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_layouts_put_every_slot_somewhere_else(layout):
    places = [layout.element(r, s) for r in range(layout.rows) for s in range(layout.slots)]
    assert len(set(places)) == len(places)
    assert all(place % 8 == 0 for place in places)
    assert max(places) + 8 <= layout.pieces * layout.piece_elements


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_layouts_keep_units_together(layout):
    for row in range(layout.rows):
        for slot in range(0, layout.slots, layout.unit):
            start = layout.element(row, slot)
            found = [layout.element(row, slot + i) for i in range(layout.unit)]
            assert found == [start + 8 * i for i in range(layout.unit)]


def phases(arch: str, instruction: str) -> LdsPhases:
    return next(p for p in TARGETS[arch].lds_phases if p.instruction == instruction)


def worst_conflict(rule: LdsPhases, addresses: list[int], size: int) -> int:
    """The most different dwords that one bank serves for one phase; byte addresses by lane."""
    worst = 0
    for group in rule.groups:
        words = {addresses[lane] // 4 + i for lane in group for i in range(size // 4)}
        worst = max(worst, *Counter(word % rule.banks for word in words).values())
    return worst


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("head_size", [32, 64, 96, 128, 160, 192, 224, 256])
@pytest.mark.parametrize("tile_k", [32, 64])
def test_32_row_reads_of_keys_meet_no_bank_twice(arch, head_size, tile_k):
    layout = key_layout(TARGETS[arch], 32, tile_k, head_size)
    rule = phases(arch, "ds_read_b128")
    for chunk in range(head_size // 16):
        for tile in range(tile_k // 32):
            lanes = [
                2 * layout.element(32 * tile + lane % 32, 2 * chunk + lane // 32)
                for lane in range(64)
            ]
            assert worst_conflict(rule, lanes, 16) == 1


@pytest.mark.parametrize("head_size", [32, 64, 96, 128, 160, 192, 224, 256])
@pytest.mark.parametrize("tile_k", [32, 64])
def test_transposed_reads_of_values_meet_no_bank_twice(head_size, tile_k):
    layout = value_layout(TARGETS["gfx950"], 32, tile_k, head_size)
    rule = phases("gfx950", "ds_read_b64")
    for quad in range(tile_k // 8):
        for tile in range(head_size // 32):
            lanes = []
            for lane in range(64):
                key = 8 * quad + 4 * (lane // 32) + lane % 16 // 4
                byte = 64 * tile + 32 * (lane // 16 % 2) + 8 * (lane % 4)
                lanes.append(2 * layout.element(key, byte // 16) + byte % 16)
            assert worst_conflict(rule, lanes, 8) == 1


@pytest.mark.parametrize("arch", ["gfx90a", "gfx942"])
@pytest.mark.parametrize("head_size", [32, 64, 96, 128, 160, 192, 224, 256])
@pytest.mark.parametrize("tile_k", [32, 64])
def test_reads_of_transposed_values_meet_no_bank_twice(arch, head_size, tile_k):
    layout = value_layout(TARGETS[arch], 32, tile_k, head_size)
    rule = phases(arch, "ds_read_b128")
    for slot in range(0, tile_k // 8, 2):
        for tile in range(head_size // 32):
            lanes = [
                2 * layout.element(32 * tile + lane % 32, slot + lane // 32) for lane in range(64)
            ]
            assert worst_conflict(rule, lanes, 16) == 1
