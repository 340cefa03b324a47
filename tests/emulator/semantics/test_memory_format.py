"""Buffer instructions with formats, against a component-by-component statement."""

from __future__ import annotations

import numpy as np
import pytest

from rocke.emulator import state
from rocke.emulator.semantics import UnknownInstruction
from tests.emulator.semantics.memory_harness import FULL, Wave, lower_text
from tests.emulator.semantics.test_memory_buffer import Descriptor
from tests.emulator.semantics.test_memory_global import registers

SOME = 0xFFF0_FFFF_0F0F_FFFF
DATA = {1: 4, 2: 11, 3: 13, 4: 14}
NUMBER = {"UINT": 4, "SINT": 5, "FLOAT": 7}
NAMES = ["x", "xy", "xyz", "xyzw"]
IN_ORDER = (4, 5, 6, 7)


def setup(descriptor: Descriptor, components: int, number: str, select=IN_ORDER):
    rng = np.random.default_rng(components)
    wave = Wave()
    memory = wave.allocate(1 << 14)
    memory[:] = rng.integers(0, 256, memory.size)
    wave.v[:] = rng.integers(0, 1 << 32, wave.v.shape, dtype=np.uint32)
    words = descriptor.words(memory.ctypes.data)
    fields = sum(code << 3 * i for i, code in enumerate(select))
    words[3] = words[3] & ~0x7FFFF | fields | NUMBER[number] << 12 | DATA[components] << 15
    wave.s[8:12] = words
    wave.s[20] = 32
    wave.v[10] = rng.permutation(64)
    wave.v[11] = rng.integers(0, 4, 64) * 4
    return wave, memory


def places(descriptor: Descriptor, wave: Wave, components: int) -> list[list[int] | None]:
    """Bytes of every lane's components from the base; None out of range."""
    found: list[list[int] | None] = []
    for index, offset in zip(wave.v[10].tolist(), wave.v[11].tolist(), strict=True):
        # A record that holds the whole element is what makes it in range.
        whole = descriptor.place(offset + 4, index, 32, True, 4 * components)
        one = [descriptor.place(offset + 4 + 4 * c, index, 32, True, 4) for c in range(components)]
        found.append(None if whole is None else [p for p in one if p is not None])
    return found


DESCRIPTORS = [
    Descriptor(stride=24, records=50),
    Descriptor(stride=24, records=64, swizzle=True),
    Descriptor(stride=0, records=60),
]


@pytest.mark.normal
@pytest.mark.parametrize(
    ("typed", "mask", "number"),
    [(False, SOME, "UINT"), (False, SOME, "FLOAT"), (True, FULL, "FLOAT")],
)
@pytest.mark.parametrize("components", [1, 2, 3, 4])
@pytest.mark.parametrize("descriptor", DESCRIPTORS, ids=str)
def test_load_and_store(descriptor, components, typed, mask, number):
    one = {"UINT": 1, "FLOAT": 0x3F800000}[number]
    bits = "_".join(["32"] * components)
    kind = f"format:[BUF_DATA_FORMAT_{bits},BUF_NUM_FORMAT_{number}]" if typed else ""
    prefix = "tbuffer" if typed else "buffer"
    for count, name in enumerate(NAMES, 1):
        # A typed instruction does not look at the descriptor's format.
        wave, memory = setup(descriptor, 1 if typed else components, number)
        wave.exec = mask
        where = places(descriptor, wave, components)
        expected = wave.v.copy()
        for lane in np.flatnonzero(wave.active):
            values = [0, 0, 0, one]
            for c in range(components):
                at = where[lane]
                values[c] = 0 if at is None else int(memory[at[c] : at[c] + 4].view(np.uint32)[0])
            expected[30 : 30 + count, lane] = values[:count]
        operands = f"{registers(30, count)}, v[10:11], s[8:11], s20 {kind} idxen offen offset:4"
        assert wave.run(f"{prefix}_load_format_{name} {operands}") == 0
        np.testing.assert_array_equal(wave.v, expected)
        if count < components:
            continue
        stored = memory.copy()
        wave.v[30:34] ^= np.uint32(0x5A5A5A5A)
        for lane in np.flatnonzero(wave.active):
            for c, at in enumerate(where[lane] or []):
                stored[at : at + 4].view(np.uint32)[0] = wave.v[30 + c, lane]
        assert wave.run(f"{prefix}_store_format_{name} {operands}") == 0
        np.testing.assert_array_equal(memory, stored)


def test_component_selection():
    descriptor = Descriptor(stride=24, records=64)
    wave, memory = setup(descriptor, 3, "SINT", (6, 1, 7, 0))
    where = places(descriptor, wave, 3)
    expected = wave.v.copy()
    for lane in range(64):
        at = where[lane]
        b = 0 if at is None else int(memory[at[2] : at[2] + 4].view(np.uint32)[0])
        expected[30:34, lane] = (b, 1, 1, 0)
    assert (
        wave.run("buffer_load_format_xyzw v[30:33], v[10:11], s[8:11], s20 idxen offen offset:4")
        == 0
    )
    np.testing.assert_array_equal(wave.v, expected)


@pytest.mark.parametrize(
    ("text", "word3"),
    [
        ("buffer_load_format_x v30, v10, s[8:11], 0 idxen", 10 << 15 | 7 << 12),
        ("buffer_load_format_x v30, v10, s[8:11], 0 idxen", 4 << 15 | 0 << 12),
        ("buffer_load_format_x v30, v10, s[8:11], 0 idxen", 4 << 15 | 7 << 12 | 1 << 23),
        ("buffer_store_format_x v30, v10, s[8:11], 0 idxen", 11 << 15 | 7 << 12),
    ],
)
def test_formats_that_are_not_implemented_are_faults(text, word3):
    wave, memory = setup(Descriptor(stride=16, records=64), 1, "UINT")
    wave.s[11] = word3
    before, kept = memory.copy(), wave.v.copy()
    assert wave.run(text) == 1
    assert wave.fault[:2] == (state.Fault.UNSUPPORTED, word3)
    np.testing.assert_array_equal(memory, before)
    np.testing.assert_array_equal(wave.v, kept)


def test_a_typed_format_that_is_not_implemented_is_refused():
    text = "tbuffer_load_format_x v0, off, s[8:11], 0"
    for form in ("", " format:[BUF_DATA_FORMAT_16,BUF_NUM_FORMAT_FLOAT]"):
        with pytest.raises(UnknownInstruction, match="not of 32-bit"):
            lower_text(text + form)


def test_memory_outside_the_map_is_a_fault():
    wave, memory = setup(Descriptor(stride=16, records=1 << 20), 2, "UINT")
    wave.v[10] = np.arange(64) * 16
    wave.v[10, 7] = 1 << 12
    assert wave.run("buffer_load_format_xy v[30:31], v10, s[8:11], 0 idxen") == 1
    assert wave.fault[:2] == (state.Fault.GLOBAL_READ, memory.ctypes.data + (1 << 16))
