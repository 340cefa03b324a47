"""Flat and scratch instructions."""

from __future__ import annotations

import numpy as np
import pytest

from rocke.emulator import state
from tests.emulator.semantics.memory_harness import FULL, Wave
from tests.emulator.semantics.test_memory_global import MASKS, registers

SHARED, PRIVATE = state.SHARED_APERTURE_HI << 32, state.PRIVATE_APERTURE_HI << 32


def mixed_wave(seed: int):
    """Lanes 0, 3, 6 ... in global memory, 1, 4 ... in LDS, 2, 5 ... in scratch."""
    rng = np.random.default_rng(seed)
    wave = Wave(lds=2048, scratch=64)
    memory = wave.allocate(4096)
    for part in (memory, wave.lds, wave.scratch):
        part[:] = rng.integers(0, 256, part.size)
    wave.v[:] = rng.integers(0, 2**32, wave.v.shape, dtype=np.uint32)
    where = np.zeros(64, np.uint64)
    for lane in range(64):
        base = [memory.ctypes.data, SHARED, PRIVATE][lane % 3]
        limit = [4096, 2048, 64][lane % 3]
        where[lane] = base + int(rng.integers(0, limit // 16 - 1)) * 16
    return wave, memory, where


def read_byte(wave: Wave, memory: np.ndarray, address: int, lane: int) -> np.ndarray:
    """A view of the byte at a flat address."""
    high, low = address >> 32, address & 0xFFFFFFFF
    if high == state.SHARED_APERTURE_HI:
        return wave.lds[low : low + 1]
    if high == state.PRIVATE_APERTURE_HI:
        at = low // 4 * 256 + lane * 4 + low % 4
        return wave.scratch[at : at + 1]
    at = address - memory.ctypes.data
    return memory[at : at + 1]


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize(("width", "size"), [("ubyte", 1), ("dword", 4), ("dwordx4", 16)])
def test_flat_segments(width, size, mask):
    wave, memory, where = mixed_wave(size)
    wave.exec = mask
    wave.set_pair(20, where)
    rows = max(1, size // 4)
    expected = wave.v.copy()
    for lane in np.flatnonzero(wave.active):
        data = [read_byte(wave, memory, int(where[lane]) + 12 + i, lane)[0] for i in range(size)]
        for row in range(rows):
            part = bytes(data[4 * row : 4 * row + 4])
            expected[20 + row, lane] = int.from_bytes(part, "little")
    # The data overwrites the address.
    assert wave.run(f"flat_load_{width} {registers(20, rows)}, v[20:21] offset:12") == 0
    np.testing.assert_array_equal(wave.v, expected)

    wave.set_pair(30, where)
    parts = (memory, wave.lds, wave.scratch)
    after = [part.copy() for part in parts]
    for lane in np.flatnonzero(wave.active):
        data = np.ascontiguousarray(wave.v[40 : 40 + rows, lane]).view(np.uint8)[:size]
        for i, byte in enumerate(data):
            read_byte(wave, memory, int(where[lane]) + i, lane)[0] = byte
    wanted = [part.copy() for part in parts]
    for part, old in zip(parts, after, strict=True):
        part[:] = old
    name = {"ubyte": "byte"}.get(width, width)
    assert wave.run(f"flat_store_{name} v[30:31], {registers(40, rows)}") == 0
    for part, want in zip(parts, wanted, strict=True):
        np.testing.assert_array_equal(part, want)


def test_flat_global_only():
    wave, memory, _ = mixed_wave(9)
    wave.set_pair(20, memory.ctypes.data + np.arange(64) * 4)
    assert wave.run("flat_load_dword v30, v[20:21]") == 0
    np.testing.assert_array_equal(wave.v[30], memory.view(np.uint32)[:64])


@pytest.mark.parametrize(
    ("address", "kind"),
    [
        (SHARED + 2048 - 3, state.Fault.LDS_READ),
        (PRIVATE + 64, state.Fault.SCRATCH),
        (PRIVATE + 2, state.Fault.MISALIGNED),
        (16, state.Fault.GLOBAL_READ),
    ],
)
def test_flat_faults(address, kind):
    wave, _, where = mixed_wave(10)
    where[17] = address
    wave.set_pair(20, where)
    before = wave.v.copy()
    assert wave.run("flat_load_dword v30, v[20:21]") == 1
    assert wave.fault == (kind, address, 1 << 17, 4)
    np.testing.assert_array_equal(wave.v, before)
    wave.exec = FULL ^ 1 << 17
    assert wave.run("flat_load_dword v30, v[20:21]") == 0


@pytest.mark.parametrize("mask", [FULL, 0x0FF0_1234_5678_9ABC])
@pytest.mark.parametrize(
    ("operands", "base"),
    [("off, s20", 16), ("off, off", 0), ("v10, off", None), ("v10, s20", None)],
)
def test_scratch(operands, base, mask):
    rng = np.random.default_rng(11)
    wave = Wave(scratch=128)
    wave.scratch[:] = rng.integers(0, 256, wave.scratch.size)
    wave.v[:] = rng.integers(0, 2**32, wave.v.shape, dtype=np.uint32)
    wave.v[10] = rng.integers(0, 12, 64) * 4
    wave.s[20] = 16
    wave.exec = mask
    lane_base = wave.v[10].astype(int) if base is None else np.full(64, base)
    if operands == "v10, s20":
        lane_base = lane_base + 16
    # dword[a // 4][lane]
    dwords = wave.scratch.view(np.uint32).reshape(32, 64)
    expected = wave.v.copy()
    for lane in np.flatnonzero(wave.active):
        for row in range(4):
            expected[30 + row, lane] = dwords[(lane_base[lane] + 32) // 4 + row, lane]
    assert wave.run(f"scratch_load_dwordx4 v[30:33], {operands} offset:32") == 0
    np.testing.assert_array_equal(wave.v, expected)
    wanted = dwords.copy()
    for lane in np.flatnonzero(wave.active):
        for row in range(2):
            wanted[(lane_base[lane] + 8) // 4 + row, lane] = wave.v[40 + row, lane]
    operand_list = operands.split(", ")
    text = f"scratch_store_dwordx2 {operand_list[0]}, v[40:41], {operand_list[1]} offset:8"
    assert wave.run(text) == 0
    np.testing.assert_array_equal(dwords, wanted)
    assert wave.run(f"scratch_load_sbyte v30, {operands} offset:5") == 0
    bytes_ = wave.scratch.view(np.int8).reshape(32, 64, 4)
    for lane in np.flatnonzero(wave.active):
        at = lane_base[lane] + 5
        assert np.int32(wave.v[30].view(np.int32)[lane]) == bytes_[at // 4, lane, at % 4]


def test_scratch_faults():
    wave = Wave(scratch=64)
    wave.v[10] = 0
    wave.v[10, 2] = 64 - 12
    assert wave.run("scratch_load_dwordx4 v[30:33], v10, off") == 1
    assert wave.fault == (state.Fault.SCRATCH, 52, 4, 16)
    wave.v[10, 2] = 2
    assert wave.run("scratch_store_dword v10, v30, off") == 1
    assert wave.fault == (state.Fault.MISALIGNED, 2, 4, 4)
    assert wave.run("scratch_store_short v10, v30, off") == 0


@pytest.mark.parametrize("mask", [FULL, 0x8421_0FF0_FFFF_0001])
@pytest.mark.parametrize(
    ("operands", "base"), [("v10, off", 0), ("off, s8", 8), ("v10, s8", 8), ("off, off", 0)]
)
def test_scratch_load_to_lds(operands, base, mask):
    rng = np.random.default_rng(6)
    for width, type_ in (("dword", np.uint32), ("sshort", np.int16), ("ubyte", np.uint8)):
        wave = Wave("gfx942", lds=1024, scratch=128)
        wave.scratch[:] = rng.integers(0, 256, wave.scratch.size)
        wave.v[10] = rng.integers(0, 20, 64) * 4
        wave.s[8], wave.s[124] = base, 256
        wave.exec = mask
        expected = wave.lds.copy()
        for lane in np.flatnonzero(wave.active):
            at = base + 16 + (int(wave.v[10, lane]) if "v10" in operands else 0)
            start = at // 4 * 256 + 4 * lane
            value = wave.scratch[start : start + np.dtype(type_).itemsize].view(type_)[0]
            word = np.uint32(int(value) & 0xFFFFFFFF)
            expected[256 + 16 + 4 * lane :][:4] = np.frombuffer(word.tobytes(), np.uint8)
        assert wave.run(f"scratch_load_lds_{width} {operands} offset:16") == 0
        np.testing.assert_array_equal(wave.lds, expected)


def test_scratch_load_to_lds_faults():
    wave = Wave("gfx942", lds=1024, scratch=64)
    wave.v[10] = 0
    wave.v[10, 5] = 64
    assert wave.run("scratch_load_lds_dword v10, off") == 1
    assert wave.fault == (state.Fault.SCRATCH, 64, 1 << 5, 4)
