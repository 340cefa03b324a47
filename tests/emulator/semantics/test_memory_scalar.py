from __future__ import annotations

import numpy as np
import pytest

from rocke.emulator import state
from tests.emulator.semantics.memory_harness import FULL, Wave

COUNTS = {"dword": 1, "dwordx2": 2, "dwordx4": 4, "dwordx8": 8, "dwordx16": 16}


def scalar_registers(base: int, count: int) -> str:
    return f"s{base}" if count == 1 else f"s[{base}:{base + count - 1}]"


def wave_with_memory() -> tuple[Wave, np.ndarray]:
    wave = Wave()
    memory = wave.allocate(1024)
    memory[:] = np.random.default_rng(1).integers(0, 256, 1024)
    return wave, memory


@pytest.mark.parametrize("width", list(COUNTS))
@pytest.mark.parametrize(
    ("operands", "offset"), [("0x44", 0x44), ("-0x10", -16), ("s9", 100), ("s9 offset:0x14", 120)]
)
def test_scalar_load(width, operands, offset):
    wave, memory = wave_with_memory()
    count = COUNTS[width]
    wave.set64(state.sgpr(4), memory.ctypes.data + 256)
    wave.s[9] = 100
    before = wave.s.copy()
    assert wave.run(f"s_load_{width} {scalar_registers(16, count)}, s[4:5], {operands}") == 0
    start = (256 + offset) // 4
    before[16 : 16 + count] = memory.view(np.uint32)[start : start + count]
    np.testing.assert_array_equal(wave.s, before)


def test_destination_may_be_the_base_and_low_bits_are_dropped():
    wave, memory = wave_with_memory()
    wave.set64(state.sgpr(4), memory.ctypes.data + 3)
    assert wave.run("s_load_dwordx4 s[4:7], s[4:5], 0x4") == 0
    np.testing.assert_array_equal(wave.s[4:8], memory.view(np.uint32)[1:5])


def test_scalar_load_outside_memory():
    wave, memory = wave_with_memory()
    wave.set64(state.sgpr(4), memory.ctypes.data)
    assert wave.run("s_load_dwordx4 s[8:11], s[4:5], 0x3f0") == 0
    assert wave.run("s_load_dwordx4 s[8:11], s[4:5], 0x3f4") == 1
    assert wave.fault == (state.Fault.GLOBAL_READ, memory.ctypes.data + 0x3F4, FULL, 16)
    wave.set64(state.sgpr(4), 0)
    assert wave.run("s_load_dword s8, s[4:5], 0x0") == 1


@pytest.mark.parametrize(("stride", "records"), [(0, 64), (16, 4)])
def test_scalar_buffer_load_reads_zero_beyond_the_records(stride, records):
    wave, memory = wave_with_memory()
    base = memory.ctypes.data
    wave.s[4] = base & 0xFFFFFFFF
    wave.s[5] = base >> 32 | stride << 16
    wave.s[6] = records
    wave.s[7] = 0x00020000
    wave.s[9] = 32
    dwords = memory.view(np.uint32)
    assert wave.run("s_buffer_load_dwordx8 s[16:23], s[4:7], 0x10") == 0
    np.testing.assert_array_equal(wave.s[16:24], dwords[4:12])
    assert wave.run("s_buffer_load_dwordx8 s[16:23], s[4:7], s9 offset:0x10") == 0
    np.testing.assert_array_equal(wave.s[16:24], [*dwords[12:16], 0, 0, 0, 0])
    assert wave.run("s_buffer_load_dwordx2 s[16:17], s[4:7], 0x40") == 0
    np.testing.assert_array_equal(wave.s[16:18], [0, 0])


def test_scalar_buffer_whose_records_exceed_memory_faults():
    wave, memory = wave_with_memory()
    base = memory.ctypes.data
    wave.s[4:8] = [base & 0xFFFFFFFF, base >> 32, 0xFFFFFFFF, 0]
    assert wave.run("s_buffer_load_dword s8, s[4:7], 0x400") == 1


def test_clock():
    wave = Wave()
    wave.set64(state.CLOCK, 0x1234_5678_9ABC)
    assert wave.run("s_memtime s[20:21]") == 0
    assert wave.get64(state.sgpr(20)) == 0x1234_5678_9ABC


@pytest.mark.parametrize("text", ["s_dcache_inv", "buffer_wbl2 sc1", "buffer_inv sc0 sc1"])
def test_cache_operations_do_nothing(text):
    wave, memory = wave_with_memory()
    before, bytes_before = wave.memory.copy(), memory.copy()
    assert wave.run(text) == 0
    np.testing.assert_array_equal(wave.memory, before)
    np.testing.assert_array_equal(memory, bytes_before)
