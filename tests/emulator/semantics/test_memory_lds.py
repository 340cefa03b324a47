from __future__ import annotations

import numpy as np
import pytest

from rocke.emulator import state
from tests.emulator.semantics.memory_harness import FULL, Wave
from tests.emulator.semantics.test_memory_global import MASKS, registers

READS = {
    "u8": (np.uint8, 1),
    "i8": (np.int8, 1),
    "u16": (np.uint16, 1),
    "i16": (np.int16, 1),
    "b32": (np.uint32, 1),
    "b64": (np.uint32, 2),
    "b96": (np.uint32, 3),
    "b128": (np.uint32, 4),
}


def filled(rng, lds: int = 4096, arch: str = "gfx942") -> Wave:
    wave = Wave(arch, lds=lds)
    wave.lds[:] = rng.integers(0, 256, lds)
    wave.v[:] = rng.integers(0, 2**32, wave.v.shape, dtype=np.uint32)
    return wave


def lane_bytes(rng, size: int, pattern: str) -> np.ndarray:
    if pattern == "contiguous":
        return np.arange(64) * size
    if pattern == "rows":
        return (np.arange(64) % 16) * 136 + np.arange(64) // 16 * size
    return rng.integers(0, 4096 - 16 - 64, 64)


@pytest.mark.parametrize("pattern", ["contiguous", "rows", "unaligned"])
@pytest.mark.parametrize("width", list(READS))
def test_read(width, pattern):
    rng = np.random.default_rng(1)
    type_, count = READS[width]
    size = np.dtype(type_).itemsize * count
    for mask in MASKS:
        wave = filled(rng)
        wave.exec = mask
        where = lane_bytes(rng, size, pattern)
        wave.v[10] = where
        expected = wave.v.copy()
        assert wave.run(f"ds_read_{width} {registers(20, count)}, v10 offset:64") == 0
        for lane in np.flatnonzero(wave.active):
            start = where[lane] + 64
            values = wave.lds[start : start + size].copy().view(type_)
            expected[20 : 20 + count, lane] = values.astype(np.int64) & 0xFFFFFFFF
        np.testing.assert_array_equal(wave.v, expected)


@pytest.mark.parametrize("pattern", ["contiguous", "rows", "unaligned"])
@pytest.mark.parametrize("width", ["b8", "b16", "b32", "b64", "b96", "b128"])
def test_write(width, pattern):
    rng = np.random.default_rng(2)
    size = int(width[1:]) // 8
    count = max(1, size // 4)
    for mask in MASKS:
        wave = filled(rng)
        wave.exec = mask
        where = lane_bytes(rng, size, pattern)
        wave.v[10] = where - 32
        expected = wave.lds.copy()
        for lane in np.flatnonzero(wave.active):
            data = np.ascontiguousarray(wave.v[20 : 20 + count, lane]).view(np.uint8)[:size]
            expected[where[lane] : where[lane] + size] = data
        assert wave.run(f"ds_write_{width} v10, {registers(20, count)} offset:32") == 0
        np.testing.assert_array_equal(wave.lds, expected)


@pytest.mark.parametrize("mask", [FULL, 0x0F0F_F0F0_FFFF_0001])
@pytest.mark.parametrize(("width", "stride"), [("", 1), ("st64", 64)])
@pytest.mark.parametrize("count", [1, 2])
def test_two_addresses(count, width, stride, mask):
    rng = np.random.default_rng(3)
    wave = filled(rng, 1 << 15)
    wave.exec = mask
    unit = 4 * count * stride
    wave.v[10] = rng.permutation(64) * 8
    name = f"2{width}_b{32 * count}"
    dwords = wave.lds.view(np.uint32)
    expected = wave.v.copy()
    for half, offset in enumerate((3, 20)):
        for row in range(count):
            values = dwords[(wave.v[10] + offset * unit) // 4 + row]
            at = 20 + half * count + row
            expected[at] = np.where(wave.active, values, wave.v[at])
    text = f"ds_read{name} {registers(20, 2 * count)}, v10 offset0:3 offset1:20"
    assert wave.run(text) == 0
    np.testing.assert_array_equal(wave.v, expected)

    lds = dwords.copy()
    for offset, data in ((3, 30), (20, 40)):
        for lane in np.flatnonzero(wave.active):
            for row in range(count):
                lds[(wave.v[10, lane] + offset * unit) // 4 + row] = wave.v[data + row, lane]
    text = f"ds_write{name} v10, {registers(30, count)}, {registers(40, count)}"
    assert wave.run(f"{text} offset0:3 offset1:20") == 0
    np.testing.assert_array_equal(dwords, lds)


@pytest.mark.parametrize(
    ("text", "size", "kind"),
    [
        ("ds_read_b128 v[20:23], v10 offset:16", 16, state.Fault.LDS_READ),
        ("ds_write_b8 v10, v20 offset:16", 1, state.Fault.LDS_WRITE),
    ],
)
def test_beyond_the_allocation(text, size, kind):
    rng = np.random.default_rng(4)
    wave = filled(rng, 1024)
    wave.v[10] = np.arange(64) * 8
    wave.v[10, 5] = 1024 - size - 16 + 1
    wave.v[10, 50] = 0xFFFF_FF00
    before, lds = wave.v.copy(), wave.lds.copy()
    assert wave.run(text) == 1
    assert wave.fault is not None
    assert wave.fault[0] is kind
    assert wave.fault[2] == 1 << 5 | 1 << 50
    assert wave.fault[3] == size
    np.testing.assert_array_equal(wave.v, before)
    np.testing.assert_array_equal(wave.lds, lds)
    wave.exec = FULL ^ (1 << 5 | 1 << 50)
    assert wave.run(text) == 0


@pytest.mark.parametrize("offsets", [(0, 2), (2, 0)])
def test_both_addresses_are_checked(offsets):
    wave = Wave(lds=1024)
    wave.v[10] = 0
    wave.v[10, 7] = 1024 - 16
    before = wave.v.copy()
    text = f"ds_read2_b64 v[20:23], v10 offset0:{offsets[0]} offset1:{offsets[1]}"
    assert wave.run(text) == 1
    assert wave.fault == (state.Fault.LDS_READ, 1024, 1 << 7, 8)
    np.testing.assert_array_equal(wave.v, before)


def test_last_bytes_and_no_allocation():
    wave = Wave(lds=64)
    wave.v[10] = 48
    assert wave.run("ds_read_b128 v[20:23], v10") == 0
    assert wave.run("ds_read_b128 v[20:23], v10 offset:1") == 1
    assert Wave().run("ds_read_u8 v20, v10") == 1


def test_offset_wraps_around_at_32_bits():
    wave = Wave(lds=64)
    wave.lds[:] = np.arange(64)
    wave.v[10] = 0xFFFF_FFFC
    assert wave.run("ds_read_u8 v20, v10 offset:7") == 0
    assert (wave.v[20] == 3).all()


@pytest.mark.parametrize(
    ("mnemonic", "bits", "rows"),
    [
        ("ds_read_b64_tr_b16", 16, 2),
        ("ds_read_b64_tr_b8", 8, 2),
        ("ds_read_b64_tr_b4", 4, 2),
        ("ds_read_b96_tr_b6", 6, 3),
    ],
)
def test_transposed_read(mnemonic, bits, rows):
    rng = np.random.default_rng(5)
    wave = filled(rng, arch="gfx950")
    where = rng.permutation(256)[:64] * 16
    wave.v[10] = where
    size, count = 4 * rows, 32 * rows // bits
    # Each lane's bytes as one integer, then its elements.
    words = [int.from_bytes(wave.lds[a : a + size].tobytes(), "little") for a in where]
    elements = np.array([[w >> bits * i & (1 << bits) - 1 for i in range(count)] for w in words])
    assert wave.run(f"{mnemonic} {registers(20, rows)}, v10") == 0
    # Sixteen lanes hold `count` rows of 16 elements; a lane gets a column.
    for group in range(4):
        matrix = elements[16 * group : 16 * group + 16].reshape(count, 16)
        for lane in range(16):
            got = int.from_bytes(
                np.ascontiguousarray(wave.v[20 : 20 + rows, 16 * group + lane]).tobytes(), "little"
            )
            column = sum(int(v) << bits * i for i, v in enumerate(matrix[:, lane]))
            assert got == column


def test_transposed_read_of_16_bits_by_the_documented_rule():
    """Element e of lane t comes from element t mod 4 of what lane 4 e + t / 4 addressed."""
    wave = Wave("gfx950", lds=512)
    wave.lds.view(np.uint16)[:] = np.arange(256)
    wave.v[10] = np.arange(64) * 8
    assert wave.run("ds_read_b64_tr_b16 v[20:21], v10") == 0
    halves = np.ascontiguousarray(wave.v[20:22].T).view(np.uint16).reshape(64, 4)
    for lane in range(64):
        group, t = lane // 16 * 16, lane % 16
        assert list(halves[lane]) == [(group + 4 * e + t // 4) * 4 + t % 4 for e in range(4)]


def test_transposed_read_needs_all_lanes_and_alignment():
    wave = Wave("gfx950", lds=4096)
    wave.v[10] = np.arange(64) * 8
    wave.exec = FULL ^ 6
    assert wave.run("ds_read_b64_tr_b16 v[20:21], v10") == 1
    assert wave.fault is not None
    assert wave.fault[0] is state.Fault.EXEC
    assert wave.fault[2] == 6
    wave.exec = FULL
    wave.v[10, 3] += 4
    assert wave.run("ds_read_b64_tr_b16 v[20:21], v10") == 1
    assert wave.fault[0] is state.Fault.MISALIGNED
    assert wave.fault[2] == 8
