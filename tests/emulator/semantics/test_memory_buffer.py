"""Buffer instructions against a lane-by-lane statement of the addressing and range rules."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from rocke.emulator import state
from tests.emulator.semantics.memory_harness import FULL, Wave
from tests.emulator.semantics.test_memory_global import registers

SOME = 0xFFF0_FFFF_0F0F_FFFF


@dataclass
class Descriptor:
    stride: int = 0
    records: int = 1 << 20
    swizzle: bool = False
    index_stride: int = 8
    ignored: int = 0
    """Bits 116:115, an element size in older targets."""
    add_tid: bool = False

    def words(self, base: int) -> list[int]:
        high = base >> 32 & 0xFFFF | (self.stride & 0x3FFF) << 16 | self.swizzle << 31
        word3 = (
            {8: 0, 16: 1, 32: 2, 64: 3}[self.index_stride] << 21
            | self.ignored << 19
            | self.add_tid << 23
            | (self.stride >> 14 if self.add_tid else 4) << 15
        )
        return [base & 0xFFFFFFFF, high, self.records, word3]

    def place(self, offset: int, index: int, soffset: int, idxen: bool, size: int) -> int | None:
        """Byte distance from the base of one dword (or less), None when out of range."""
        if self.stride and (idxen or self.add_tid):
            good = index < self.records and offset + size <= self.stride
        else:
            good = offset + size <= self.records - soffset
        if not good:
            return None
        if not self.swizzle:
            return soffset + offset + self.stride * index
        i, e = self.index_stride, 4
        return (
            soffset + (index // i * self.stride + offset // e * e) * i + index % i * e + offset % e
        )


PLAIN = [
    Descriptor(),
    Descriptor(records=600),
    Descriptor(records=5),
    Descriptor(records=0),
    Descriptor(stride=24, records=40),
    Descriptor(stride=24, records=600),
    Descriptor(stride=32, records=50, swizzle=True),
    Descriptor(stride=32, records=64, swizzle=True, index_stride=16, ignored=2),
    Descriptor(stride=0, records=4096, swizzle=True, index_stride=64, add_tid=True),
    Descriptor(stride=16, records=60, add_tid=True),
    Descriptor(stride=1 << 14, records=3, add_tid=True),
]


def setup(descriptor: Descriptor, mode: str, seed: int = 1):
    rng = np.random.default_rng(seed)
    wave = Wave()
    memory = wave.allocate(1 << 17)
    memory[:] = rng.integers(0, 256, memory.size)
    wave.v[:] = rng.integers(0, 2**32, wave.v.shape, dtype=np.uint32)
    wave.s[8:12] = descriptor.words(memory.ctypes.data)
    wave.s[20] = 64
    offset = rng.integers(0, 40, 64) * 4 if descriptor.stride else rng.integers(0, 256, 64) * 4
    if descriptor.stride:
        offset %= max(descriptor.stride, 8) + 8
    index = rng.permutation(64)
    if "idxen" in mode:
        wave.v[10] = index
    if "offen" in mode:
        wave.v[10 + ("idxen" in mode)] = offset
    return wave, memory, index, offset


def expected_places(descriptor, mode, index, offset, immediate, soffset, rows, size):
    lanes = np.arange(64)
    out = {}
    for lane in lanes:
        o = immediate + (int(offset[lane]) if "offen" in mode else 0)
        i = (int(index[lane]) if "idxen" in mode else 0) + (lane if descriptor.add_tid else 0)
        for row in range(rows):
            out[lane, row] = descriptor.place(
                o + 4 * row, int(i), soffset, "idxen" in mode, min(size, 4)
            )
    return out


def address_text(mode: str) -> str:
    count = ("idxen" in mode) + ("offen" in mode)
    return registers(10, count) if count else "off"


@pytest.mark.normal
@pytest.mark.parametrize("mask", [FULL, SOME])
@pytest.mark.parametrize("mode", ["", "offen", "idxen", "idxen offen"])
@pytest.mark.parametrize("descriptor", PLAIN, ids=str)
def test_load_and_store(descriptor, mode, mask):
    for width, size, rows in (("ubyte", 1, 1), ("dword", 4, 1), ("dwordx4", 16, 4)):
        wave, memory, index, offset = setup(descriptor, mode)
        wave.exec = mask
        places = expected_places(descriptor, mode, index, offset, 12, 64, rows, size)
        expected = wave.v.copy()
        for (lane, row), place in places.items():
            if mask >> int(lane) & 1:
                part = memory[place : place + min(size, 4)].tobytes() if place is not None else b""
                expected[30 + row, lane] = int.from_bytes(part, "little")
        text = f"{registers(30, rows)}, {address_text(mode)}, s[8:11], s20 {mode} offset:12"
        assert wave.run(f"buffer_load_{width} {text}") == 0
        np.testing.assert_array_equal(wave.v, expected)

        stored = memory.copy()
        for lane in range(64):
            for row in range(rows):
                place = places[lane, row]
                if mask >> lane & 1 and place is not None:
                    data = wave.v[30 + row, lane].tobytes()[: min(size, 4)]
                    stored[place : place + len(data)] = list(data)
        assert wave.run(f"buffer_store_{width.replace('u', '', 1)} {text}") == 0
        np.testing.assert_array_equal(memory, stored)


def test_partly_out_of_range_by_dword():
    wave, memory, _, _ = setup(Descriptor(records=24), "offen")
    wave.s[20] = 0
    wave.v[10] = np.arange(64) * 2
    assert wave.run("buffer_load_dwordx4 v[30:33], v10, s[8:11], 0 offen") == 0
    for lane in range(64):
        for row in range(4):
            at = 2 * lane + 4 * row
            want = int.from_bytes(memory[at : at + 4].tobytes(), "little") if at + 4 <= 24 else 0
            assert wave.v[30 + row, lane] == want


def test_offset_register_may_be_overwritten():
    for records in (1 << 20, 200):
        wave, memory, _, offset = setup(Descriptor(records=records), "offen")
        places = expected_places(Descriptor(records=records), "offen", offset, offset, 0, 64, 4, 16)
        assert wave.run("buffer_load_dwordx4 v[10:13], v10, s[8:11], s20 offen") == 0
        dwords = memory.view(np.uint32)
        for (lane, row), place in places.items():
            assert wave.v[10 + row, lane] == (0 if place is None else dwords[place // 4])
    wave, memory, index, _ = setup(Descriptor(stride=16), "idxen")
    assert wave.run("buffer_load_dwordx3 v[10:12], v10, s[8:11], 0 idxen") == 0
    rows = memory.view(np.uint32)[: 64 * 4].reshape(64, 4)
    np.testing.assert_array_equal(wave.v[10:13].T, rows[index][:, :3])


def test_negative_offset_register_is_out_of_range():
    wave, _, _, _ = setup(Descriptor(), "offen")
    wave.v[10] = 0xFFFF_FFFC
    assert wave.run("buffer_load_dword v30, v10, s[8:11], 0 offen offset:8") == 0
    assert (wave.v[30] == 0).all()


@pytest.mark.parametrize("mode", ["offen", "idxen"])
def test_in_range_but_outside_memory_is_a_fault(mode):
    descriptor = Descriptor(stride=16 if mode == "idxen" else 0, records=0xFFFFFFFF)
    wave, memory, _, _ = setup(descriptor, mode)
    wave.v[10] = 0
    wave.v[10, 3] = memory.size // (16 if mode == "idxen" else 1)
    before = wave.v.copy()
    assert wave.run(f"buffer_load_dwordx2 v[30:31], v10, s[8:11], 0 {mode}") == 1
    assert wave.fault is not None
    assert wave.fault[:3] == (state.Fault.GLOBAL_READ, memory.ctypes.data + memory.size, 8)
    np.testing.assert_array_equal(wave.v, before)
    bytes_before = memory.copy()
    assert wave.run(f"buffer_store_dword v30, v10, s[8:11], 0 {mode}") == 1
    assert wave.fault[0] is state.Fault.GLOBAL_WRITE
    np.testing.assert_array_equal(memory, bytes_before)
    wave.exec = FULL ^ 8
    assert wave.run(f"buffer_store_dword v30, v10, s[8:11], 0 {mode}") == 0


def test_half_register_load():
    wave, memory, _, _ = setup(Descriptor(records=64), "offen")
    wave.v[10] = np.arange(64) * 2
    old = wave.v[30].copy()
    assert wave.run("buffer_load_short_d16_hi v30, v10, s[8:11], 0 offen") == 0
    halves = np.where(np.arange(64) < 32, memory.view(np.uint16)[:64], 0).astype(np.uint32)
    np.testing.assert_array_equal(wave.v[30], old & 0xFFFF | halves << 16)


@pytest.mark.parametrize("mask", [FULL, SOME])
@pytest.mark.parametrize(
    ("width", "step", "rows"),
    [("ubyte", 4, 1), ("dword", 4, 1), ("dwordx3", 16, 3), ("dwordx4", 16, 4)],
)
def test_buffer_load_to_lds(width, step, rows, mask):
    rng = np.random.default_rng(3)
    wave = Wave("gfx950", lds=4096)
    memory = wave.allocate(4096)
    memory[:] = rng.integers(0, 256, memory.size)
    wave.s[8:12] = Descriptor(records=1000).words(memory.ctypes.data)
    wave.s[124] = 1024
    wave.exec = mask
    wave.v[10] = rng.permutation(64) * 16
    registers_before, expected = wave.v.copy(), wave.lds.copy()
    for lane in np.flatnonzero(wave.active):
        for row in range(rows):
            at = int(wave.v[10, lane]) + 8 + 4 * row
            size = 1 if width == "ubyte" else 4
            part = memory[at : at + size].tobytes() if at + size <= 1000 else b""
            target = 1024 + 8 + step * int(lane) + 4 * row
            expected[target : target + 4] = list(part.ljust(4, b"\0"))
    text = f"buffer_load_{width} v10, s[8:11], 0 offen offset:8 lds"
    assert wave.run(text) == 0
    np.testing.assert_array_equal(wave.lds, expected)
    np.testing.assert_array_equal(wave.v, registers_before)


def test_load_to_lds_beyond_the_allocation_faults_before_anything_moves():
    wave = Wave(lds=1024)
    memory = wave.allocate(4096, fill=1)
    wave.s[8:12] = Descriptor().words(memory.ctypes.data)
    wave.s[124] = 1024 - 252
    before = wave.lds.copy()
    assert wave.run("buffer_load_dword off, s[8:11], 0 lds") == 1
    assert wave.fault == (state.Fault.LDS_WRITE, 1024, 1 << 63, 4)
    np.testing.assert_array_equal(wave.lds, before)
    wave.s[124] = 1024 - 256
    assert wave.run("buffer_load_dword off, s[8:11], 0 lds") == 0


@pytest.mark.parametrize("scalar", [False, True])
def test_global_load_to_lds(scalar):
    rng = np.random.default_rng(4)
    wave = Wave("gfx950", lds=4096)
    memory = wave.allocate(4096)
    memory[:] = rng.integers(0, 256, memory.size)
    wave.s[124] = 512
    places = rng.permutation(64) * 32
    if scalar:
        wave.v[10] = places
        wave.set64(state.sgpr(2), memory.ctypes.data)
        text = "v10, s[2:3]"
    else:
        wave.set_pair(10, memory.ctypes.data + places)
        text = "v[10:11], off"
    assert wave.run(f"global_load_lds_dwordx4 {text} offset:16") == 0
    got = wave.lds[512 + 16 : 512 + 16 + 1024].view(np.uint32).reshape(64, 4)
    np.testing.assert_array_equal(got, memory.view(np.uint32).reshape(-1, 4)[places // 16 + 1])
    assert wave.run(f"global_load_lds_dword {text} offset:-4") == 1 - int(places.min() > 0)


@pytest.mark.parametrize("mask", [FULL, 0x8000_0000_FFFF_0001])
def test_store_from_lds(mask):
    rng = np.random.default_rng(5)
    wave = Wave("gfx90a", lds=2048)
    wave.lds[:] = rng.integers(0, 256, wave.lds.size)
    memory = wave.allocate(4096)
    wave.s[8:12] = Descriptor(records=1000).words(memory.ctypes.data)
    wave.s[124] = 512
    wave.exec = mask
    wave.v[10] = rng.permutation(64) * 16
    expected, before = memory.copy(), wave.lds.copy()
    for lane in np.flatnonzero(wave.active):
        at, source = int(wave.v[10, lane]) + 8, 512 + 8 + 4 * int(lane)
        if at + 4 <= 1000:
            expected[at : at + 4] = wave.lds[source : source + 4]
    text = "buffer_store_lds_dword v10, s[8:11], 0 offen offset:8 lds"
    assert wave.run(text) == 0
    np.testing.assert_array_equal(memory, expected)
    np.testing.assert_array_equal(wave.lds, before)
    wave.s[124] = 2048 - 256
    assert wave.run(text) == 1
    assert wave.fault is not None
    assert wave.fault[:2] == (state.Fault.LDS_READ, 2048 if mask == FULL else 2052)
    np.testing.assert_array_equal(memory, expected)
