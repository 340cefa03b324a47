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


NARROW_DATA = {(1, 1): 1, (1, 2): 3, (1, 4): 10, (2, 1): 2, (2, 2): 5, (2, 4): 12} | {
    (4, count): code for count, code in DATA.items()
}
ALL_NUMBERS = {"UNORM": 0, "SNORM": 1, "USCALED": 2, "SSCALED": 3} | NUMBER
UNSIGNED = {1: np.uint8, 2: np.uint16, 4: np.uint32}
SIGNED = {1: np.int8, 2: np.int16, 4: np.int32}


def converted(raw: np.ndarray, size: int, number: str, d16: bool) -> int:
    """The register bits of a component that memory holds as ``size`` bytes."""
    unsigned, signed = raw.view(UNSIGNED[size])[0], raw.view(SIGNED[size])[0]
    if number == "FLOAT" and size == 2 and not d16:
        return int(raw.view(np.float16).astype(np.float32).view(np.uint32)[0])
    if number in ("UINT", "FLOAT"):
        return int(unsigned)
    if number == "SINT":
        return int(signed) & (0xFFFF if d16 else 0xFFFFFFFF)
    value = np.float32(unsigned if number.startswith("U") else signed)
    if number == "UNORM":
        value /= np.float32((1 << 8 * size) - 1)
    if number == "SNORM":
        value = max(value / np.float32((1 << 8 * size - 1) - 1), np.float32(-1))
    return int(value.view(np.uint32))


def halves(wave: Wave, register: int) -> np.ndarray:
    """Two registers as four halves a lane, ``[4, 64]``."""
    words = wave.v[register : register + 2]
    return np.stack(
        [words[i // 2] >> np.uint32(16 * (i % 2)) & np.uint32(0xFFFF) for i in range(4)]
    )


def narrow_setup(size: int, components: int, number: str):
    descriptor = Descriptor(stride=24, records=50)
    wave, memory = setup(descriptor, 1, "UINT")
    if number == "FLOAT" and size == 2:
        memory.view(np.float16)[:] = np.random.default_rng(9).normal(size=memory.size // 2)
    fields = ALL_NUMBERS[number] << 12 | NARROW_DATA[size, components] << 15
    wave.s[11] = int(wave.s[11]) & ~(0xF << 15 | 7 << 12) | fields
    wave.exec = SOME
    elements: list[list[np.ndarray] | None] = []
    for index, offset in zip(wave.v[10].tolist(), wave.v[11].tolist(), strict=True):
        start = descriptor.place(offset + 4, index, 32, True, size * components)
        parts = [] if start is None else [start + size * c for c in range(components)]
        elements.append([memory[at : at + size] for at in parts] or None)
    return wave, memory, elements


ADDRESS = "v[10:11], s[8:11], s20 idxen offen offset:4"


@pytest.mark.normal
@pytest.mark.parametrize("number", list(ALL_NUMBERS))
@pytest.mark.parametrize("size", [1, 2])
@pytest.mark.parametrize("components", [1, 2, 4])
def test_narrow_components_in_whole_registers(components, size, number):
    if (size, number) == (1, "FLOAT"):
        wave, _, _ = narrow_setup(size, components, number)
        assert wave.run(f"buffer_load_format_x v30, {ADDRESS}") == 1
        assert wave.fault[0] is state.Fault.UNSUPPORTED
        return
    one = 1 if number in ("UINT", "SINT") else 0x3F800000
    wave, _, elements = narrow_setup(size, components, number)
    expected = wave.v.copy()
    for lane in np.flatnonzero(wave.active):
        values = [0, 0, 0, one]
        for c in range(components):
            parts = elements[lane]
            values[c] = 0 if parts is None else converted(parts[c].copy(), size, number, False)
        expected[30:34, lane] = values
    assert wave.run(f"buffer_load_format_xyzw v[30:33], {ADDRESS}") == 0
    np.testing.assert_array_equal(wave.v, expected)


@pytest.mark.normal
@pytest.mark.parametrize(
    ("size", "number"), [(1, "UINT"), (1, "SINT"), (2, "UINT"), (2, "SINT"), (2, "FLOAT")]
)
@pytest.mark.parametrize("components", [1, 2, 4])
@pytest.mark.parametrize("typed", [False, True])
def test_two_components_a_register(typed, components, size, number):
    one = 0x3C00 if number == "FLOAT" else 1
    bits = "_".join([str(8 * size)] * components)
    prefix = "tbuffer" if typed else "buffer"
    kind = f" format:[BUF_DATA_FORMAT_{bits},BUF_NUM_FORMAT_{number}]" if typed else ""
    for count, name in enumerate(NAMES, 1):
        wave, memory, elements = narrow_setup(size, components, number)
        if typed:
            wave.s[11] = int(wave.s[11]) & ~(0xF << 15)
        before, kept = halves(wave, 30), wave.v.copy()
        for lane in np.flatnonzero(wave.active):
            values = [0, 0, 0, one]
            for c in range(components):
                parts = elements[lane]
                values[c] = 0 if parts is None else converted(parts[c].copy(), size, number, True)
            before[:count, lane] = values[:count]
        operand = registers(30, (count + 1) // 2)
        assert wave.run(f"{prefix}_load_format_d16_{name} {operand}, {ADDRESS}{kind}") == 0
        np.testing.assert_array_equal(halves(wave, 30), before)
        others = [r for r in range(256) if r not in (30, 31)]
        np.testing.assert_array_equal(wave.v[others], kept[others])
        if count < components or size == 1:
            continue
        wave.v[30:32] ^= np.uint32(0x5A5A1234)
        written = memory.copy()
        for lane in np.flatnonzero(wave.active):
            for c, part in enumerate(elements[lane] or []):
                at = part.ctypes.data - memory.ctypes.data
                written[at : at + 2].view(np.uint16)[0] = halves(wave, 30)[c, lane]
        assert wave.run(f"{prefix}_store_format_d16_{name} {operand}, {ADDRESS}{kind}") == 0
        np.testing.assert_array_equal(memory, written)


def test_one_component_in_the_high_half():
    wave, memory, elements = narrow_setup(2, 1, "FLOAT")
    expected = wave.v.copy()
    for lane in np.flatnonzero(wave.active):
        parts = elements[lane]
        high = 0 if parts is None else int(parts[0].view(np.uint16)[0])
        expected[30, lane] = int(wave.v[30, lane]) & 0xFFFF | high << 16
    assert wave.run(f"buffer_load_format_d16_hi_x v30, {ADDRESS}") == 0
    np.testing.assert_array_equal(wave.v, expected)
    wave.v[30] ^= np.uint32(0x12345A5A)
    written = memory.copy()
    for lane in np.flatnonzero(wave.active):
        for part in elements[lane] or []:
            at = part.ctypes.data - memory.ctypes.data
            written[at : at + 2].view(np.uint16)[0] = wave.v[30, lane] >> np.uint32(16)
    assert wave.run(f"buffer_store_format_d16_hi_x v30, {ADDRESS}") == 0
    np.testing.assert_array_equal(memory, written)


@pytest.mark.parametrize(
    ("text", "word3"),
    [
        ("buffer_load_format_x v30, v10, s[8:11], 0 idxen", 10 << 15 | 7 << 12),
        ("buffer_load_format_x v30, v10, s[8:11], 0 idxen", 4 << 15 | 0 << 12),
        ("buffer_load_format_x v30, v10, s[8:11], 0 idxen", 8 << 15 | 7 << 12),
        ("buffer_load_format_d16_x v30, v10, s[8:11], 0 idxen", 4 << 15 | 7 << 12),
        ("buffer_load_format_d16_x v30, v10, s[8:11], 0 idxen", 2 << 15 | 0 << 12),
        ("buffer_store_format_x v30, v10, s[8:11], 0 idxen", 2 << 15 | 7 << 12),
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


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("load_format_x v0, off, s[8:11], 0 format:[BUF_NUM_FORMAT_FLOAT]", "the conversion of"),
        ("load_format_d16_x v0, off, s[8:11], 0", "the conversion of"),
        ("store_format_x v0, off, s[8:11], 0", "the conversion of"),
        (
            "load_format_x v0, off, s[8:11], 0"
            " format:[BUF_DATA_FORMAT_2_10_10_10,BUF_NUM_FORMAT_UNORM]",
            "is not implemented",
        ),
        ("load_format_x v0, off, s[8:11], 0 format:[BUF_DATA_FORMAT_INVALID]", "not implemented"),
    ],
)
def test_a_typed_format_that_is_not_implemented_is_refused(text, why):
    with pytest.raises(UnknownInstruction, match=why):
        lower_text(f"tbuffer_{text}")


def test_the_typed_format_that_the_printer_leaves_out():
    wave, _, elements = narrow_setup(1, 1, "UNORM")
    wave.exec = FULL
    assert wave.run(f"tbuffer_load_format_x v30, {ADDRESS}") == 0
    for lane in range(64):
        parts = elements[lane]
        expected = 0 if parts is None else converted(parts[0].copy(), 1, "UNORM", False)
        assert int(wave.v[30, lane]) == expected


def test_memory_outside_the_map_is_a_fault():
    wave, memory = setup(Descriptor(stride=16, records=1 << 20), 2, "UINT")
    wave.v[10] = np.arange(64) * 16
    wave.v[10, 7] = 1 << 12
    assert wave.run("buffer_load_format_xy v[30:31], v10, s[8:11], 0 idxen") == 1
    assert wave.fault[:2] == (state.Fault.GLOBAL_READ, memory.ctypes.data + (1 << 16))
