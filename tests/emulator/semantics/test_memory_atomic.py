"""Atomics of all address spaces against a sequential model, lanes in ascending order."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from rocke.emulator import state
from tests.emulator.semantics.memory_harness import FULL, Wave
from tests.emulator.semantics.test_memory_buffer import Descriptor
from tests.emulator.semantics.test_memory_global import registers

MASKS = [FULL, 0x8000_0FF0_1234_5671]


def signed(value: int, bits: int) -> int:
    return value - (1 << bits) if value >> (bits - 1) else value


def integer_model(name: str, bits: int):
    mask = (1 << bits) - 1
    return {
        "swap": lambda old, x: x,
        "add": lambda old, x: (old + x) & mask,
        "sub": lambda old, x: (old - x) & mask,
        "rsub": lambda old, x: (x - old) & mask,
        "smin": lambda old, x: min(old, x, key=lambda v: signed(v, bits)),
        "smax": lambda old, x: max(old, x, key=lambda v: signed(v, bits)),
        "umin": min,
        "umax": max,
        "and": lambda old, x: old & x,
        "or": lambda old, x: old | x,
        "xor": lambda old, x: old ^ x,
        "inc": lambda old, x: 0 if old >= x else old + 1,
        "dec": lambda old, x: x if old == 0 or old > x else old - 1,
    }[name]


def float_model(name: str, type_: type):
    def convert(bits: int) -> np.ndarray:
        unsigned = {2: np.uint16, 4: np.uint32, 8: np.uint64}[np.dtype(type_).itemsize]
        return np.array([bits], unsigned).view(type_)

    operation = {"add": np.add, "min": np.fmin, "max": np.fmax}[name]

    def model(old: int, x: int) -> int:
        return int.from_bytes(operation(convert(old), convert(x)).astype(type_).tobytes(), "little")

    return model


def packed_model(type_: type):
    one = float_model("add", type_)
    return lambda old, x: one(old & 0xFFFF, x & 0xFFFF) | one(old >> 16, x >> 16) << 16


INTEGER_NAMES = [
    *("swap", "add", "sub", "smin", "umin", "smax", "umax", "and", "or", "xor", "inc", "dec"),
]
GLOBAL = [(name, integer_model(name, 32), 4, None) for name in INTEGER_NAMES]
GLOBAL += [(f"{name}_x2", integer_model(name, 64), 8, None) for name in INTEGER_NAMES]
GLOBAL += [
    ("add_f32", float_model("add", np.float32), 4, np.float32),
    ("add_f64", float_model("add", np.float64), 8, np.float64),
    ("min_f64", float_model("min", np.float64), 8, np.float64),
    ("max_f64", float_model("max", np.float64), 8, np.float64),
    ("pk_add_f16", packed_model(np.float16), 4, np.float16),
    ("pk_add_bf16", packed_model(ml_dtypes.bfloat16), 4, ml_dtypes.bfloat16),
]


def random_bits(rng, count: int, size: int, type_: type | None) -> np.ndarray:
    unsigned = {4: np.uint32, 8: np.uint64}[size]
    if type_ is None:
        small = rng.integers(0, 8, count).astype(unsigned)
        wide = rng.integers(0, 2**32, count).astype(unsigned) << unsigned(8 * size - 32)
        return np.where(rng.integers(0, 2, count) == 0, small, wide)
    per = size // np.dtype(type_).itemsize
    return rng.standard_normal(count * per).astype(np.float32).astype(type_).view(unsigned)


def put(wave: Wave, register: int, values: np.ndarray) -> None:
    if values.dtype == np.uint64:
        wave.set_pair(register, values)
    else:
        wave.v[register] = values


def get(wave: Wave, register: int, size: int) -> np.ndarray:
    low = wave.v[register].astype(np.uint64)
    return low if size == 4 else low | wave.v[register + 1].astype(np.uint64) << np.uint64(32)


def check(wave, cells, index, size, model, data, text, result=None):
    """``cells``: a view of the memory; lane l works on ``cells[index[l]]``."""
    old_result = get(wave, result, size) if result is not None else None
    expected, returned = cells.copy(), np.zeros(64, np.uint64)
    for lane in np.flatnonzero(wave.active):
        returned[lane] = expected[index[lane]]
        expected[index[lane]] = model(int(expected[index[lane]]), int(data[lane]))
    assert wave.run(text) == 0
    np.testing.assert_array_equal(cells, expected)
    if result is not None:
        np.testing.assert_array_equal(
            get(wave, result, size), np.where(wave.active, returned, old_result)
        )


OTHER_SPACES = ("swap", "smax_x2", "add_f64", "pk_add_bf16")
"""Flat and buffer share the operations with global: some of them are enough."""


@pytest.mark.normal
@pytest.mark.parametrize("returns", [False, True])
@pytest.mark.parametrize(
    ("space", "name"),
    [("global", g[0]) for g in GLOBAL]
    + [(space, name) for space in ("flat", "buffer") for name in OTHER_SPACES],
)
def test_vector_memory(space, name, returns):
    model, size, type_ = next(g[1:] for g in GLOBAL if g[0] == name)
    rng = np.random.default_rng(1)
    unsigned = {4: np.uint32, 8: np.uint64}[size]
    for mask in MASKS if space == "global" else MASKS[:1]:
        wave = Wave("gfx942")
        memory = wave.allocate(32 * size)
        cells = memory.view(unsigned)
        cells[:] = random_bits(rng, 32, size, type_)
        wave.exec = mask
        index = rng.integers(0, 32, 64)
        data = random_bits(rng, 64, size, type_)
        put(wave, 20, data)
        data_text = registers(20, size // 4)
        if space == "buffer":
            wave.s[8:12] = Descriptor(records=32 * size).words(memory.ctypes.data)
            wave.v[10] = index * size
            text = f"buffer_atomic_{name} {data_text}, v10, s[8:11], 0 offen"
            check(
                wave, cells, index, size, model, data,
                text + (" sc0" if returns else ""), 20 if returns else None,
            )  # fmt: skip
            continue
        wave.set_pair(10, memory.ctypes.data + index * size - 8)
        dst = f"{registers(30, size // 4)}, " if returns else ""
        off = ", off" if space == "global" else ""
        sc0 = " sc0" if returns else ""
        text = f"{space}_atomic_{name} {dst}v[10:11], {data_text}{off} offset:8{sc0}"
        check(wave, cells, index, size, model, data, text, 30 if returns else None)


LDS = [
    *((f"{n}_u", n, None) for n in ("add", "sub", "rsub", "inc", "dec")),
    *((f"{n}_b", n, None) for n in ("and", "or", "xor")),
    ("min_i", "smin", None),
    ("max_i", "smax", None),
    ("min_u", "umin", None),
    ("max_u", "umax", None),
    *((f"{n}_f", n, float) for n in ("add", "min", "max")),
]


@pytest.mark.normal
@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize("returns", [False, True])
@pytest.mark.parametrize(("mnemonic", "name", "kind"), LDS)
def test_lds(mnemonic, name, kind, returns, bits):
    rng = np.random.default_rng(2)
    size = bits // 8
    type_ = None if kind is None else {32: np.float32, 64: np.float64}[bits]
    model = integer_model(name, bits) if type_ is None else float_model(name, type_)
    wave = Wave(lds=1024)
    cells = wave.lds.view({4: np.uint32, 8: np.uint64}[size])
    cells[:] = random_bits(rng, cells.size, size, type_)
    wave.exec = MASKS[1] if returns else FULL
    index = rng.integers(1, 16, 64)
    data = random_bits(rng, 64, size, type_)
    put(wave, 20, data)
    wave.v[10] = index * size - 4
    stem, letter = mnemonic.rsplit("_", 1)
    middle = "_rtn" if returns else ""
    dst = f"{registers(30, size // 4)}, " if returns else ""
    text = f"ds_{stem}{middle}_{letter}{bits} {dst}v10, {registers(20, size // 4)} offset:4"
    check(wave, cells, index, size, model, data, text, 30 if returns else None)


@pytest.mark.parametrize("bits", [32, 64])
def test_lds_two_operand_forms(bits):
    rng = np.random.default_rng(3)
    size, rows = bits // 8, bits // 32
    unsigned = {4: np.uint32, 8: np.uint64}[size]
    for name in ("wrxchg_rtn_b", "mskor_b", "cmpst_b", "cmpst_rtn_b", "cmpst_f"):
        wave = Wave(lds=256)
        cells = wave.lds.view(unsigned)
        cells[:] = rng.integers(0, 4, cells.size)
        index = rng.integers(0, 4, 64)
        first = rng.integers(0, 4, 64).astype(unsigned)
        second = rng.integers(0, 4, 64).astype(unsigned)
        put(wave, 20, first)
        put(wave, 24, second)
        wave.v[10] = index * size
        expected, returned = cells.copy(), np.zeros(64, unsigned)
        for lane in range(64):
            old = expected[index[lane]]
            returned[lane] = old
            if name.startswith("wrxchg"):
                new = first[lane]
            elif name.startswith("mskor"):
                new = old & ~first[lane] | second[lane]
            else:
                new = second[lane] if old == first[lane] else old
            expected[index[lane]] = new
        returns = "_rtn" in name
        dst = f"{registers(30, rows)}, " if returns else ""
        data = registers(20, rows)
        if not name.startswith("wrxchg"):
            data += f", {registers(24, rows)}"
        assert wave.run(f"ds_{name}{bits} {dst}v10, {data}") == 0
        np.testing.assert_array_equal(cells, expected)
        if returns:
            np.testing.assert_array_equal(get(wave, 30, size), returned)


def test_float_compare_of_lds_takes_zeros_as_equal():
    wave = Wave(lds=64)
    wave.lds.view(np.float32)[0] = -0.0
    wave.exec = 1
    wave.v[20] = 0
    wave.v[21] = 7
    assert wave.run("ds_cmpst_f32 v10, v20, v21") == 0
    assert wave.lds.view(np.uint32)[0] == 7


@pytest.mark.parametrize(("suffix", "rows"), [("", 1), ("_x2", 2)])
@pytest.mark.parametrize("space", ["global", "buffer"])
def test_compare_and_swap(space, suffix, rows):
    """New value in the first half of the data, comparand in the second."""
    rng = np.random.default_rng(4)
    unsigned = {1: np.uint32, 2: np.uint64}[rows]
    wave = Wave()
    memory = wave.allocate(8 * 4 * rows)
    cells = memory.view(unsigned)
    cells[:] = rng.integers(0, 3, 8)
    index = rng.integers(0, 8, 64)
    new = rng.integers(0, 3, 64).astype(unsigned)
    comparand = rng.integers(0, 3, 64).astype(unsigned)
    put(wave, 20, new)
    put(wave, 20 + rows, comparand)
    expected, returned = cells.copy(), np.zeros(64, np.uint64)
    for lane in range(64):
        returned[lane] = expected[index[lane]]
        if expected[index[lane]] == comparand[lane]:
            expected[index[lane]] = new[lane]
    data = registers(20, 2 * rows)
    if space == "global":
        wave.set_pair(10, memory.ctypes.data + index * 4 * rows)
        result = 30
        text = f"global_atomic_cmpswap{suffix} {registers(30, rows)}, v[10:11], {data}, off sc0"
    else:
        wave.s[8:12] = Descriptor(records=memory.size).words(memory.ctypes.data)
        wave.v[10] = index * 4 * rows
        result = 20
        text = f"buffer_atomic_cmpswap{suffix} {data}, v10, s[8:11], 0 offen sc0"
    assert wave.run(text) == 0
    np.testing.assert_array_equal(cells, expected)
    np.testing.assert_array_equal(get(wave, result, 4 * rows), returned)


def test_packed_lds_add():
    for name, type_ in (("f16", np.float16), ("bf16", ml_dtypes.bfloat16)):
        rng = np.random.default_rng(5)
        wave = Wave(lds=64)
        cells = wave.lds.view(np.uint32)
        cells[:] = random_bits(rng, 16, 4, type_)
        data = random_bits(rng, 64, 4, type_)
        wave.v[20] = data
        index = rng.integers(0, 16, 64)
        wave.v[10] = index * 4
        text = f"ds_pk_add_{name} v10, v20"
        check(wave, cells, index, 4, packed_model(type_), data, text)


def test_buffer_atomic_out_of_range_does_nothing_and_returns_zero():
    wave = Wave()
    memory = wave.allocate(1024, fill=1)
    wave.s[8:12] = Descriptor(records=128 + 2).words(memory.ctypes.data)
    wave.v[10] = np.arange(64) * 4
    wave.v[20] = 5
    assert wave.run("buffer_atomic_add v20, v10, s[8:11], 0 offen sc0") == 0
    dwords = memory.view(np.uint32)
    assert (dwords[:32] == 0x01010106).all()
    assert (dwords[32:] == 0x01010101).all()
    assert (wave.v[20, :32] == 0x01010101).all()
    assert (wave.v[20, 32:] == 0).all()


@pytest.mark.parametrize(
    ("text", "step", "kind"),
    [
        ("global_atomic_add v[10:11], v20, off", 4, state.Fault.GLOBAL_WRITE),
        ("global_atomic_add_x2 v[10:11], v[20:21], off", 8, state.Fault.GLOBAL_WRITE),
    ],
)
def test_faults(text, step, kind):
    wave = Wave()
    memory = wave.allocate(64 * step, fill=0)
    wave.v[20:22] = 1
    wave.set_pair(10, memory.ctypes.data + np.arange(64) * step + step)
    assert wave.run(text) == 1
    assert wave.fault == (kind, memory.ctypes.data + memory.size, 1 << 63, step)
    assert not memory.any()
    wave.set_pair(10, memory.ctypes.data + np.arange(64) * step)
    wave.v[10, 4] += step // 2
    assert wave.run(text) == 1
    assert wave.fault[0] is state.Fault.MISALIGNED
    assert wave.fault[2] == 1 << 4
    assert not memory.any()


def test_atomics_need_writable_memory():
    wave = Wave()
    memory = wave.allocate(256, writable=False)
    wave.set_pair(10, memory.ctypes.data)
    assert wave.run("global_atomic_or v[10:11], v20, off") == 1


def test_flat_atomic_in_lds():
    wave = Wave(lds=256)
    wave.set_pair(10, (state.SHARED_APERTURE_HI << 32) + np.arange(64) % 2 * 4)
    wave.v[20] = 1
    assert wave.run("flat_atomic_add v[10:11], v20") == 0
    np.testing.assert_array_equal(wave.lds.view(np.uint32)[:2], 0xEEEEEEEE + 32)
