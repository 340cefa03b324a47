from __future__ import annotations

import numpy as np
import pytest

from rocke.emulator.semantics.crosslane import swizzle_sources
from tests.emulator.semantics.memory_harness import FULL, Wave
from tests.emulator.semantics.test_memory_global import MASKS

LANES = np.arange(64)


def random_wave(mask: int, arch: str = "gfx942") -> tuple[Wave, np.random.Generator]:
    rng = np.random.default_rng(mask % 1000 + 1)
    wave = Wave(arch)
    wave.v[:] = rng.integers(0, 2**32, wave.v.shape, dtype=np.uint32)
    wave.exec = mask
    return wave, rng


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("offset", [0, 12, 65535])
def test_bpermute(mask, offset):
    wave, _ = random_wave(mask)
    before = wave.v.copy()
    source = (wave.v[1].astype(np.int64) + offset) // 4 % 64
    value = np.where(wave.active[source], wave.v[2][source], 0)
    assert wave.run(f"ds_bpermute_b32 v3, v1, v2 offset:{offset}") == 0
    before[3] = np.where(wave.active, value, before[3])
    np.testing.assert_array_equal(wave.v, before)


@pytest.mark.parametrize("mask", MASKS)
def test_permute_sends_and_the_highest_lane_wins(mask):
    wave, _ = random_wave(mask)
    before = wave.v.copy()
    got = np.zeros(64, np.uint32)
    for lane in np.flatnonzero(wave.active):
        got[(int(wave.v[1, lane]) + 4) // 4 % 64] = wave.v[2, lane]
    assert wave.run("ds_permute_b32 v2, v1, v2 offset:4") == 0
    before[2] = np.where(wave.active, got, before[2])
    np.testing.assert_array_equal(wave.v, before)


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize(
    ("pattern", "sources"),
    [
        ("swizzle(QUAD_PERM,1,0,3,2)", LANES ^ 1),
        ('swizzle(BITMASK_PERM,"00p11")', LANES & 32 | LANES & 4 | 3),
        ('swizzle(BITMASK_PERM,"pppip")', LANES ^ 2),
        ("swizzle(SWAP,16)", LANES ^ 16),
        ("swizzle(REVERSE,8)", LANES ^ 7),
        ("swizzle(BROADCAST,32,5)", LANES & 32 | 5),
    ],
)
def test_swizzle(pattern, sources, mask):
    encodings = {  # the immediate that the assembler makes of each
        "swizzle(QUAD_PERM,1,0,3,2)": 0x80B1,
        'swizzle(BITMASK_PERM,"00p11")': 0x0064,
        'swizzle(BITMASK_PERM,"pppip")': 0x081F,
        "swizzle(SWAP,16)": 0x401F,
        "swizzle(REVERSE,8)": 0x1C1F,
        "swizzle(BROADCAST,32,5)": 0x00A0,
    }
    wave, _ = random_wave(mask)
    before = wave.v.copy()
    value = np.where(wave.active[sources], wave.v[2][sources], 0)
    assert wave.run(f"ds_swizzle_b32 v3, v2 offset:{encodings[pattern]}") == 0
    before[3] = np.where(wave.active, value, before[3])
    np.testing.assert_array_equal(wave.v, before)


def test_swizzle_rotation():
    assert swizzle_sources(0xC000 | 3 << 5) == [lane & 32 | (lane + 3) % 32 for lane in range(64)]
    with pytest.raises(ValueError, match="FFT"):
        swizzle_sources(0xE000)


@pytest.mark.parametrize("row", [16, 32])
def test_permlane_swap(row):
    wave, _ = random_wave(FULL, "gfx950")
    first, second = wave.v[1].copy(), wave.v[2].copy()
    assert wave.run(f"v_permlane{row}_swap_b32_e32 v1, v2") == 0
    odd = (LANES & row) != 0
    np.testing.assert_array_equal(wave.v[1][~odd], first[~odd])
    np.testing.assert_array_equal(wave.v[1][odd], second[~odd])
    np.testing.assert_array_equal(wave.v[2][~odd], first[odd])
    np.testing.assert_array_equal(wave.v[2][odd], second[odd])


def test_permlane_swap_writes_active_lanes_only():
    mask = 0xFFFF_0000_FFFF_FFF0
    wave, _ = random_wave(mask, "gfx950")
    first, second = wave.v[1].copy(), wave.v[2].copy()
    assert wave.run("v_permlane32_swap_b32_e32 v1, v2") == 0
    usable = wave.active & np.roll(wave.active, 32)
    np.testing.assert_array_equal(wave.v[1][32:], np.where(usable[32:], second[:32], first[32:]))
    np.testing.assert_array_equal(wave.v[2][:32], np.where(usable[:32], first[32:], second[:32]))
    np.testing.assert_array_equal(wave.v[1][:32], first[:32])
    np.testing.assert_array_equal(wave.v[2][32:], second[32:])
