from __future__ import annotations

import numpy as np
import pytest

from rocke.emulator import state
from tests.emulator.semantics.memory_harness import FULL, Wave

MASKS = [FULL, 0, 1, 1 << 63, 0x5555_5555_5555_5555, 0x0000_FFFF_0000_0007]
LOADS = {
    "ubyte": (np.uint8, 1),
    "sbyte": (np.int8, 1),
    "ushort": (np.uint16, 1),
    "sshort": (np.int16, 1),
    "dword": (np.uint32, 1),
    "dwordx2": (np.uint32, 2),
    "dwordx3": (np.uint32, 3),
    "dwordx4": (np.uint32, 4),
}
PATTERNS = ["contiguous", "reversed", "random", "unaligned"]


def addresses(rng, memory: np.ndarray, size: int, pattern: str) -> np.ndarray:
    base = memory.ctypes.data
    if pattern == "contiguous":
        return base + 16 + np.arange(64) * size
    if pattern == "reversed":
        return base + np.arange(64)[::-1] * size
    if pattern == "random":
        return base + rng.integers(0, (memory.size - size) // 16, 64) * 16
    return base + rng.permutation(memory.size - size)[:64]


def registers(base: int, count: int) -> str:
    return f"v{base}" if count == 1 else f"v[{base}:{base + count - 1}]"


def filled_wave(rng, size: int = 4096) -> tuple[Wave, np.ndarray]:
    wave = Wave()
    memory = wave.allocate(size)
    memory[:] = rng.integers(0, 256, size)
    wave.v[:] = rng.integers(0, 2**32, wave.v.shape, dtype=np.uint32)
    return wave, memory


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("width", list(LOADS))
def test_load(width, pattern):
    rng = np.random.default_rng(1)
    type_, count = LOADS[width]
    size = np.dtype(type_).itemsize * count
    for mask in MASKS:
        wave, memory = filled_wave(rng)
        wave.exec = mask
        where = addresses(rng, memory, size, pattern)
        wave.set_pair(10, where - 8)
        before = wave.v.copy()
        assert wave.run(f"global_load_{width} {registers(20, count)}, v[10:11], off offset:8") == 0
        expected = before.copy()
        for lane in np.flatnonzero(wave.active):
            start = int(where[lane]) - memory.ctypes.data
            values = memory[start : start + size].view(type_).astype(np.int64) & 0xFFFFFFFF
            expected[20 : 20 + count, lane] = values
        np.testing.assert_array_equal(wave.v, expected)


@pytest.mark.parametrize("width", ["byte", "short", "dword", "dwordx2", "dwordx3", "dwordx4"])
@pytest.mark.parametrize("pattern", PATTERNS)
def test_store(width, pattern):
    rng = np.random.default_rng(2)
    size = {"byte": 1, "short": 2, "dword": 4, "dwordx2": 8, "dwordx3": 12, "dwordx4": 16}[width]
    count = max(1, size // 4)
    for mask in MASKS:
        wave, memory = filled_wave(rng)
        wave.exec = mask
        where = addresses(rng, memory, size, pattern)
        wave.set_pair(10, where + 16)
        expected = memory.copy()
        for lane in np.flatnonzero(wave.active):
            start = int(where[lane]) - memory.ctypes.data
            data = np.ascontiguousarray(wave.v[20 : 20 + count, lane]).view(np.uint8)[:size]
            expected[start : start + size] = data
        text = f"global_store_{width} v[10:11], {registers(20, count)}, off offset:-16"
        assert wave.run(text) == 0
        np.testing.assert_array_equal(memory, expected)


def test_destination_may_overlap_the_address():
    rng = np.random.default_rng(3)
    wave, memory = filled_wave(rng)
    wave.set_pair(10, memory.ctypes.data + np.arange(64) * 16)
    assert wave.run("global_load_dwordx4 v[8:11], v[10:11], off") == 0
    np.testing.assert_array_equal(wave.v[8:12].T, memory[:1024].view(np.uint32).reshape(64, 4))


def test_scalar_base_with_unsigned_offset():
    rng = np.random.default_rng(4)
    wave, memory = filled_wave(rng, 1 << 16)
    wave.v[10] = rng.integers(0, 1 << 14, 64) * 4
    base = memory.ctypes.data + 64
    wave.set64(state.sgpr(4), base)
    wave.exec = FULL >> 3
    old = wave.v[20].copy()
    assert wave.run("global_load_dword v20, v10, s[4:5] offset:-64") == 0
    expected = memory.view(np.uint32)[wave.v[10] // 4]
    np.testing.assert_array_equal(wave.v[20], np.where(wave.active, expected, old))
    # 32 bits, unsigned: 0x8000_0000 is not a negative offset.
    wave.v[10] = 0x80000000
    wave.set64(state.sgpr(4), memory.ctypes.data - 0x80000000)
    assert wave.run("global_load_dword v20, v10, s[4:5]") == 0
    np.testing.assert_array_equal(wave.v[20, :61], memory.view(np.uint32)[0])


@pytest.mark.parametrize("high", [False, True])
@pytest.mark.parametrize("source", ["ubyte", "sbyte", "short"])
def test_half_register_load(source, high):
    rng = np.random.default_rng(5)
    wave, memory = filled_wave(rng)
    wave.exec = 0xFFFF_0F0F_FFFF_FFFF
    wave.set_pair(10, memory.ctypes.data + np.arange(64) * 6)
    old = wave.v[20].copy()
    name = f"global_load_{source}_d16{'_hi' if high else ''}"
    assert wave.run(f"{name} v20, v[10:11], off") == 0
    type_ = {"ubyte": np.uint8, "sbyte": np.int8, "short": np.uint16}[source]
    loaded = memory[: 64 * 6].reshape(64, 6)[:, : np.dtype(type_).itemsize]
    value = (np.ascontiguousarray(loaded).view(type_)[:, 0].astype(np.int64) & 0xFFFF).astype(
        np.uint32
    )
    merged = (old & 0xFFFF) | (value << 16) if high else (old & 0xFFFF0000) | value
    np.testing.assert_array_equal(wave.v[20], np.where(wave.active, merged, old))


@pytest.mark.parametrize("width", ["byte", "short"])
def test_high_half_store(width):
    rng = np.random.default_rng(6)
    wave, memory = filled_wave(rng)
    wave.set_pair(10, memory.ctypes.data + np.arange(64) * 4)
    assert wave.run(f"global_store_{width}_d16_hi v[10:11], v20, off") == 0
    stored = memory[:256].view(np.uint32)
    bits = 0xFF if width == "byte" else 0xFFFF
    np.testing.assert_array_equal(stored & bits, (wave.v[20] >> 16) & bits)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize(
    ("text", "size", "kind"),
    [
        ("global_load_dwordx4 v[20:23], v[10:11], off", 16, state.Fault.GLOBAL_READ),
        ("global_load_ubyte v20, v[10:11], off", 1, state.Fault.GLOBAL_READ),
        ("global_store_dwordx3 v[10:11], v[20:22], off", 12, state.Fault.GLOBAL_WRITE),
    ],
)
def test_fault_names_lanes_and_changes_nothing(text, size, kind, masked):
    rng = np.random.default_rng(8)
    wave, memory = filled_wave(rng)
    where = memory.ctypes.data + np.arange(64) * 16
    end = memory.ctypes.data + memory.size
    bad = {9: end - size + 1, 40: memory.ctypes.data - 1, 63: 0}
    for lane, address in bad.items():
        where[lane] = address
    wave.set_pair(10, where)
    registers_before, memory_before = wave.v.copy(), memory.copy()
    if masked:
        wave.exec = FULL ^ 1 << 9 ^ 1
    assert wave.run(text) == 1
    first = 40 if masked else 9
    lanes = sum(1 << lane for lane in bad if wave.exec >> lane & 1)
    assert wave.fault == (kind, bad[first], lanes, size)
    np.testing.assert_array_equal(wave.v, registers_before)
    np.testing.assert_array_equal(memory, memory_before)
    # The bad lanes switched off: no fault.
    wave.exec = FULL ^ sum(1 << lane for lane in bad)
    assert wave.run(text) == 0


def test_last_good_access_of_an_allocation():
    wave = Wave()
    memory = wave.allocate(16, fill=7)
    wave.set_pair(10, memory.ctypes.data)
    assert wave.run("global_load_dwordx4 v[20:23], v[10:11], off") == 0
    assert (wave.v[20:24] == 0x07070707).all()
    assert wave.run("global_load_dwordx4 v[20:23], v[10:11], off offset:1") == 1


def test_lanes_may_be_in_different_allocations():
    rng = np.random.default_rng(9)
    wave = Wave()
    parts = [wave.allocate(256) for _ in range(5)]
    for part in parts:
        part[:] = rng.integers(0, 256, 256)
    chosen = rng.integers(0, 5, 64)
    where = np.array([parts[c].ctypes.data + 4 * lane for lane, c in enumerate(chosen)])
    wave.set_pair(10, where)
    assert wave.run("global_load_dword v20, v[10:11], off") == 0
    expected = [parts[c].view(np.uint32)[lane] for lane, c in enumerate(chosen)]
    np.testing.assert_array_equal(wave.v[20], expected)


def test_store_into_read_only_memory_faults():
    wave = Wave()
    memory = wave.allocate(256, writable=False)
    wave.set_pair(10, memory.ctypes.data)
    assert wave.run("global_load_dword v20, v[10:11], off") == 0
    assert wave.run("global_store_dword v[10:11], v20, off") == 1
    assert wave.fault is not None
    assert wave.fault[0] is state.Fault.GLOBAL_WRITE


def test_an_empty_cache_accepts_nothing():
    wave = Wave()
    wave.set_pair(10, 0)
    assert wave.run("global_load_dwordx4 v[20:23], v[10:11], off") == 1
