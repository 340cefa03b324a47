"""Full counting: lanes, bytes and LDS bank conflicts, against the addresses worked out in numpy."""

import json
import struct

import numpy as np
import pytest

from rocke.arch import target
from rocke.emulator import EmulatedDevice
from rocke.runtime.device import DeviceError
from tests.emulator import small_kernels as kernels
from tests.emulator.small_kernels import TARGETS, build

LDS_BYTES = 16384

TYPES = {"i8": 1, "i32": 4, "<2 x i32>": 8, "<3 x i32>": 12, "<4 x i32>": 16}


def access_kernel(type_: str, store: bool, atomic: bool = False) -> str:
    """Lane t accesses the LDS byte that ``where[t]`` says, where ``where[t] >= 0``."""
    align = 16 if type_ == "<3 x i32>" else TYPES[type_]
    if atomic:
        body = (
            "%old = atomicrmw add ptr addrspace(3) %s, i32 1 monotonic\n"
            "store i32 %old, ptr addrspace(1) %p"
        )
    elif store:
        body = f"store volatile {type_} zeroinitializer, ptr addrspace(3) %s, align {align}"
    else:
        body = (
            f"%v = load volatile {type_}, ptr addrspace(3) %s, align {align}\n"
            f"store {type_} %v, ptr addrspace(1) %out, align 1"
        )
    return f"""
@tile = internal addrspace(3) global [{LDS_BYTES} x i8] poison, align 16
define amdgpu_kernel void @access(ptr addrspace(1) %where, ptr addrspace(1) %out) #0 {{
  %t = call i32 @llvm.amdgcn.workitem.id.x()
  %p = getelementptr i32, ptr addrspace(1) %where, i32 %t
  %a = load i32, ptr addrspace(1) %p
  %on = icmp sge i32 %a, 0
  br i1 %on, label %go, label %end
go:
  %s = getelementptr i8, ptr addrspace(3) @tile, i32 %a
  {body}
  br label %end
end:
  ret void
}}
attributes #0 = {{ "amdgpu-flat-work-group-size"="1,64" }}
"""


def count(arch, ir, where, threads=1, grid=1):
    device = EmulatedDevice(arch, threads=threads, counters="full")
    out = np.zeros(64, np.uint8)
    where = where.astype(np.int32)
    raw = struct.pack("<QQ", device.wrap(where).address, device.wrap(out).address)
    device.launch(device.load(build(ir, arch)), (grid, 1, 1), (64, 1, 1), raw)
    return device.counters


def lds_row(counters):
    (row,) = [r for r in counters.detail if r.level == "lds"]
    return row


def expected(arch, size, write, where, atomic=False):
    """Cycles and conflicts, phase by phase: dwords that meet in one bank."""
    phases = target(arch).lds_phases_of(write, size)
    cycles = conflicts = 0
    for group in phases.groups:
        banks = [[] for _ in range(phases.banks)]
        for lane in group:
            if where[lane] >= 0:
                for dword in range(where[lane] // 4, (where[lane] + size - 1) // 4 + 1):
                    banks[dword % phases.banks].append(dword)
        worst = max(len(b) if atomic else len(set(b)) for b in banks)
        cycles += worst
        conflicts += max(worst, 1) - 1
    return cycles, conflicts


@pytest.mark.parametrize("arch", TARGETS)
@pytest.mark.parametrize("store", [False, True], ids=["read", "write"])
@pytest.mark.parametrize("type_", list(TYPES))
def test_conflicts_of_random_addresses(arch, store, type_):
    size = TYPES[type_]
    align = 16 if size == 12 else size
    where = np.random.default_rng(size).integers(0, LDS_BYTES // align, 64) * align
    where[[3, 40]] = where[5]
    counters = count(arch, access_kernel(type_, store), where)
    row = lds_row(counters)
    assert row.mnemonic.startswith("ds_write" if store else "ds_read")
    assert (row.lds_cycles, row.lds_conflicts) == expected(arch, size, store, where)
    assert row.lds_conflicts > 0
    assert counters.lds_conflicts == row.lds_conflicts
    assert (row.count, row.lanes, row.partial) == (1, 64, 0)


@pytest.mark.parametrize("arch", TARGETS)
@pytest.mark.parametrize("type_", list(TYPES))
def test_consecutive_lanes_have_no_conflicts(arch, type_):
    size = TYPES[type_]
    where = np.arange(64) * (16 if size == 12 else size)
    for store in (False, True):
        assert lds_row(count(arch, access_kernel(type_, store), where)).lds_conflicts == 0


@pytest.mark.parametrize(
    ("arch", "stride", "cycles"),
    [
        ("gfx942", 2, 4),
        ("gfx942", 32, 64),
        ("gfx942", 33, 2),
        ("gfx942", 0, 2),
        ("gfx950", 2, 2),
        ("gfx950", 32, 32),
        ("gfx950", 64, 64),
        ("gfx950", 65, 1),
    ],
)
def test_dword_reads_at_a_stride(arch, stride, cycles):
    counters = count(arch, access_kernel("i32", False), np.arange(64) * 4 * stride % LDS_BYTES)
    assert lds_row(counters).lds_cycles == cycles


@pytest.mark.parametrize("arch", TARGETS)
def test_lanes_that_are_off_do_not_count(arch):
    where = np.where(np.arange(64) % 3 == 0, np.arange(64) * 128, -1)
    counters = count(arch, access_kernel("i32", False), where)
    row = lds_row(counters)
    assert (row.lanes, row.partial) == (22, 1)
    assert (row.lds_cycles, row.lds_conflicts) == expected(arch, 4, False, where)
    assert row.bytes_read == 88
    assert counters.partial_instructions >= 2  # the load, and the store of what it gave


@pytest.mark.parametrize("arch", TARGETS)
def test_atomics_on_one_address_are_served_one_by_one(arch):
    where = np.zeros(64, np.int64)
    row = lds_row(count(arch, access_kernel("i32", True, atomic=True), where))
    assert row.lds_cycles == expected(arch, 4, True, where, atomic=True)[0] == 64
    assert row.bytes_read == row.bytes_written == 256


BUFFER = """
declare <2 x i32> @llvm.amdgcn.raw.buffer.load.v2i32(<4 x i32>, i32, i32, i32)
declare void @llvm.amdgcn.raw.buffer.store.i8(i8, <4 x i32>, i32, i32, i32)
declare i32 @llvm.amdgcn.raw.buffer.atomic.add.i32(i32, <4 x i32>, i32, i32, i32)
define amdgpu_kernel void @ranges(ptr addrspace(1) %where, ptr addrspace(1) %out) #0 {
  %t = call i32 @llvm.amdgcn.workitem.id.x()
  %i = ptrtoint ptr addrspace(1) %where to i64
  %v = bitcast i64 %i to <2 x i32>
  %r = shufflevector <2 x i32> %v, <2 x i32> <i32 132, i32 159744>,
                     <4 x i32> <i32 0, i32 1, i32 2, i32 3>
  %o = shl i32 %t, 3
  %l = call <2 x i32> @llvm.amdgcn.raw.buffer.load.v2i32(<4 x i32> %r, i32 %o, i32 0, i32 0)
  %x = extractelement <2 x i32> %l, i32 0
  %y = extractelement <2 x i32> %l, i32 1
  %s = add i32 %x, %y
  %b = trunc i32 %s to i8
  call void @llvm.amdgcn.raw.buffer.store.i8(i8 %b, <4 x i32> %r, i32 %o, i32 0, i32 0)
  %a = call i32 @llvm.amdgcn.raw.buffer.atomic.add.i32(i32 1, <4 x i32> %r, i32 %o, i32 0, i32 0)
  %p = getelementptr i8, ptr addrspace(1) %out, i32 %t
  %c = trunc i32 %a to i8
  store i8 %c, ptr addrspace(1) %p
  ret void
}
attributes #0 = { "amdgpu-flat-work-group-size"="1,64" }
"""
"""Lane t accesses a buffer of 132 bytes from byte 8 * t on."""


@pytest.mark.parametrize("arch", TARGETS)
def test_buffer_accesses_out_of_range_move_no_bytes(arch):
    rows = count(arch, BUFFER, np.zeros(64)).detail
    found = {r.mnemonic: (r.lanes, r.bytes_read, r.bytes_written) for r in rows}
    assert found["buffer_load_dwordx2"] == (64, 16 * 8 + 4, 0)
    assert found["buffer_store_byte"] == (64, 0, 17)
    assert found["buffer_atomic_add"] == (64, 17 * 4, 17 * 4)


def test_sums_over_workgroups_and_threads():
    where = np.arange(64) * 8
    one = count("gfx942", access_kernel("i32", False), where)
    many = count("gfx942", access_kernel("i32", False), where, threads=2, grid=37)
    assert many.lds_conflicts == 37 * one.lds_conflicts == 37 * 2
    assert many.bytes_by_level["lds"] == (37 * 256, 0)
    assert many.bytes_by_level["global"] == (37 * 256, 37 * 256)
    assert many.bytes_by_level["scalar"][0] >= 37 * 16


def test_the_table_and_json_name_the_conflicts():
    counters = count("gfx950", access_kernel("<4 x i32>", False), np.arange(64) * 256)
    text = counters.table()
    assert "by bank conflicts" in text
    assert "ds_read_b128" in text
    facts = json.loads(counters.to_json())
    assert facts["lds_conflicts"] == counters.lds_conflicts > 0
    assert facts["detail"][0]["mnemonic"]
    assert facts["resources"]["lds"] == LDS_BYTES


def test_basic_counting_has_no_detail():
    device = EmulatedDevice("gfx942")
    out = np.zeros(64, np.uint8)
    where = np.zeros(64, np.int32)
    raw = struct.pack("<QQ", device.wrap(where).address, device.wrap(out).address)
    device.launch(
        device.load(build(access_kernel("i32", False), "gfx942")), (1, 1, 1), (64, 1, 1), raw
    )
    counters = device.counters
    assert counters.detail is None
    assert (
        counters.lds_conflicts is counters.bytes_by_level is counters.partial_instructions is None
    )
    assert counters.resources.waves_per_simd == 1  # 16 KiB of 64: four workgroups of one wave
    assert counters.resources.limit == "LDS"


def test_results_do_not_change():
    rng = np.random.default_rng(3)
    data = rng.integers(0, 1000, 256 * 3, dtype=np.int32)
    results = []
    for counters in ("basic", "full"):
        device = EmulatedDevice("gfx90a", counters=counters)
        copy = data.copy()
        raw = struct.pack("<Qi", device.wrap(copy).address, 4)
        device.launch(device.load(build(kernels.REVERSE, "gfx90a")), (3, 1, 1), (256, 1, 1), raw)
        results.append((copy, device.counters))
    np.testing.assert_array_equal(results[0][0], results[1][0])
    assert results[0][1].by_address == results[1][1].by_address


def test_an_unknown_kind_of_counting_is_refused():
    with pytest.raises(DeviceError, match="'all', expected 'basic' or 'full'"):
        EmulatedDevice("gfx942", counters="all")
