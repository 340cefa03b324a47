"""LDS instructions with addresses from M0, two exchanges, wrap and conditional exchange."""

from __future__ import annotations

import numpy as np
import pytest

from rocke.emulator import state
from rocke.emulator.instruction import M0
from tests.emulator.semantics.memory_harness import FULL, Wave
from tests.emulator.semantics.test_memory_atomic import check, put
from tests.emulator.semantics.test_memory_global import registers
from tests.emulator.semantics.test_memory_lds import filled

MASKS = [FULL, 0x8000_0FF0_1234_5671]


@pytest.mark.parametrize("mask", MASKS)
def test_wrap(mask):
    rng = np.random.default_rng(1)
    wave = Wave(lds=256)
    cells = wave.lds.view(np.uint32)
    cells[:] = rng.integers(0, 20, cells.size)
    wave.exec = mask
    limit, more = rng.integers(0, 20, (2, 64), dtype=np.uint32)
    index = rng.integers(1, 16, 64)
    wave.v[10], wave.v[20], wave.v[21] = index * 4 - 4, limit, more
    pairs = np.arange(64)

    def model(old: int, lane: int) -> int:
        return old - limit[lane] if old >= limit[lane] else old + more[lane]

    check(
        wave, cells, index, 4, lambda old, lane: int(model(old, lane)), pairs,
        "ds_wrap_rtn_b32 v30, v10, v20, v21 offset:4", 30,
    )  # fmt: skip


@pytest.mark.parametrize("mask", MASKS)
def test_conditional_exchange(mask):
    rng = np.random.default_rng(2)
    wave = Wave(lds=256)
    cells = wave.lds.view(np.uint64)
    cells[:] = rng.integers(0, 1 << 64, cells.size, dtype=np.uint64)
    wave.exec = mask
    data = rng.integers(0, 1 << 64, 64, dtype=np.uint64)
    put(wave, 20, data)
    index = rng.integers(1, 16, 64)
    wave.v[10] = index * 8 - 8

    def model(old: int, new: int) -> int:
        halves = [(old >> s & 0xFFFFFFFF, new >> s & 0xFFFFFFFF) for s in (0, 32)]
        low, high = (n & 0x7FFFFFFF if n >> 31 else o for o, n in halves)
        return low | high << 32

    text = "ds_condxchg32_rtn_b64 v[30:31], v10, v[20:21] offset:8"
    check(wave, cells, index, 8, model, data, text, 30)


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize(("stride", "unit"), [("", 1), ("st64", 64)])
@pytest.mark.parametrize("rows", [1, 2])
def test_two_exchanges(rows, stride, unit, mask):
    rng = np.random.default_rng(3)
    size = 4 * rows
    wave = filled(rng, 8192)
    cells = wave.lds.view({1: np.uint32, 2: np.uint64}[rows])
    wave.exec = mask
    index = rng.integers(0, 100, 64)
    wave.v[10] = index * size
    expected, kept = cells.copy(), wave.v.copy()
    # The results overlap the data: both must be read first.
    target, data = 20, (20, 24)
    for lane in np.flatnonzero(wave.active):
        for half, (first, place) in enumerate(zip(data, (1, 4), strict=True)):
            at = index[lane] + place * unit
            raw = np.ascontiguousarray(wave.v[first : first + rows, lane]).tobytes()
            old = np.frombuffer(expected[at].tobytes(), np.uint32)
            kept[target + half * rows : target + (half + 1) * rows, lane] = old
            expected[at] = np.frombuffer(raw, cells.dtype)[0]
    operands = f"{registers(target, 2 * rows)}, v10, " + ", ".join(
        registers(first, rows) for first in data
    )
    assert wave.run(f"ds_wrxchg2{stride}_rtn_b{32 * rows} {operands} offset0:1 offset1:4") == 0
    np.testing.assert_array_equal(cells, expected)
    np.testing.assert_array_equal(wave.v, kept)


def test_two_exchanges_check_both_addresses():
    for offsets in ("offset0:8", "offset1:8"):
        wave = filled(np.random.default_rng(4), 256)
        before, registers_before = wave.lds.copy(), wave.v.copy()
        wave.v[10] = registers_before[10] = 224
        assert wave.run(f"ds_wrxchg2_rtn_b32 v[20:21], v10, v22, v23 {offsets}") == 1
        assert wave.fault[:2] == (state.Fault.LDS_WRITE, 256)
        np.testing.assert_array_equal(wave.lds, before)
        np.testing.assert_array_equal(wave.v, registers_before)


@pytest.mark.parametrize("mask", [*MASKS, 0])
@pytest.mark.parametrize(("mnemonic", "sign"), [("ds_append", 1), ("ds_consume", -1)])
def test_counters(mnemonic, sign, mask):
    wave = filled(np.random.default_rng(5), 256)
    cells = wave.lds.view(np.uint32)
    wave.s[M0] = 40 << 16 | 0x1234
    wave.exec = mask
    expected, kept = cells.copy(), wave.v.copy()
    kept[20, wave.active] = cells[12]
    expected[12] = (int(cells[12]) + sign * mask.bit_count()) & 0xFFFFFFFF
    assert wave.run(f"{mnemonic} v20 offset:8") == 0
    np.testing.assert_array_equal(cells, expected)
    np.testing.assert_array_equal(wave.v, kept)


@pytest.mark.parametrize(
    ("place", "kind"), [(256, state.Fault.LDS_WRITE), (42, state.Fault.MISALIGNED)]
)
def test_counter_at_a_bad_address(place, kind):
    wave = filled(np.random.default_rng(6), 256)
    wave.s[M0] = place << 16
    wave.exec = MASKS[1]
    assert wave.run("ds_append v20") == 1
    assert wave.fault == (kind, place, MASKS[1], 4)
    wave.exec = 0
    assert wave.run("ds_append v20") == 0


@pytest.mark.parametrize("mask", MASKS)
def test_add_thread_id(mask):
    rng = np.random.default_rng(7)
    wave = filled(rng, 1024)
    cells = wave.lds.view(np.uint32)
    wave.s[M0] = 0xABCD_0000 | 100
    wave.exec = mask
    kept = wave.v.copy()
    kept[20, wave.active] = cells[27:91][wave.active]
    assert wave.run("ds_read_addtid_b32 v20 offset:8") == 0
    np.testing.assert_array_equal(wave.v, kept)
    expected = cells.copy()
    expected[30:94][wave.active] = wave.v[21, wave.active]
    assert wave.run("ds_write_addtid_b32 v21 offset:20") == 0
    np.testing.assert_array_equal(cells, expected)
    wave.s[M0] = 1020
    assert wave.run("ds_write_addtid_b32 v21") == 1
    assert wave.fault[0] is state.Fault.LDS_WRITE
