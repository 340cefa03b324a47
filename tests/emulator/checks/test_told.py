"""What a finding tells besides what is wrong: lines, both sides of a race, addresses, arguments."""

from __future__ import annotations

import inspect
import re

import numpy as np
import pytest

from rocke.compiler import compile_kernel
from rocke.compiler.code_object import CodeObject
from rocke.core.ir import F32, IRBuilder, ptr
from rocke.emulator import CheckError, EmulatedDevice, Finding
from rocke.emulator.source_lines import SourceLines
from rocke.runtime import Launcher
from tests.emulator.checks import kernels
from tests.emulator.checks.planting import deleted, named, nth, run
from tests.emulator.small_kernels import build

pytestmark = pytest.mark.normal
ARCHS = ("gfx90a", "gfx942", "gfx950")


def reverse(*, written: int, barriers: int) -> IRBuilder:
    """Waves exchange floats through LDS twice; ``written`` work-items write theirs."""
    b = IRBuilder("reverse")
    b.kernel.attributes["max_workgroup_size"] = 256
    x, y = b.param("x", ptr(F32), readonly=True), b.param("y", ptr(F32))
    tile = b.smem_alloc(F32, 256)
    i = b.thread_id_x()
    with b.scf_if(b.cmp_lt(i, written)):
        b.smem_store(tile, [i], b.global_load(x, i, F32))  # first write
    if barriers > 0:
        b.sync()
    b.global_store(y, i, b.smem_load(tile, [b.sub(255, i)]))  # read
    if barriers > 1:
        b.sync()
    b.smem_store(tile, [i], b.const_f32(1.0))  # second write
    b.sync()
    b.global_store(y, i, b.smem_load(tile, [i]))
    b.ret()
    return b


def place(comment: str) -> str:
    """``file:line`` of a line of :func:`reverse`."""
    lines, first = inspect.getsourcelines(reverse)
    (number,) = (first + n for n, line in enumerate(lines) if line.rstrip().endswith(comment))
    return f"test_told.py:{number}"


def findings(arch: str, check: str, **options: int) -> tuple[Finding, ...]:
    code = compile_kernel(reverse(**options).kernel, arch)
    x, y = np.ones(256, np.float32), np.zeros(256, np.float32)
    launch = Launcher(
        EmulatedDevice(arch, check=check, threads=1), code, grid=(1, 1, 1), block=(256, 1, 1)
    )
    try:
        launch(x=x, y=y)
    except CheckError as error:
        return error.findings
    return ()


@pytest.mark.parametrize("arch", ARCHS)
def test_the_cause_of_an_undefined_value_has_a_line(arch: str) -> None:
    assert findings(arch, "all", written=256, barriers=2) == ()
    (found,) = findings(arch, "uninitialised", written=200, barriers=2)
    assert found.source.endswith(place("# read"))
    assert "ds_read_b32" in found.cause
    assert found.cause.endswith(f"{place('# read')})")
    assert found.cause_source.endswith(place("# read"))


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize(
    ("barriers", "ours", "theirs"),
    [(0, "# read", "# first write"), (1, "# second write", "# read")],
)
def test_a_race_has_two_sides(arch: str, barriers: int, ours: str, theirs: str) -> None:
    found = findings(arch, "race", written=256, barriers=barriers)
    line = re.compile(r"test_told\.py:\d+")
    sides = {(line.findall(f.source)[0], line.findall(f.cause)[0]) for f in found}
    wanted = {(place(ours), place(theirs)), (place(theirs), place(ours))}
    assert sides & wanted, [str(f) for f in found]
    for each in found:
        assert re.match(r"0x[0-9a-f]+: ds_(read|write)_b32 ", each.cause)
        assert each.memory_address is not None
        assert 0 <= each.memory_address < 1024
        assert hex(each.memory_address) in each.detail


@pytest.mark.parametrize("arch", ARCHS)
def test_a_race_in_global_memory_has_two_sides(arch: str) -> None:
    code = build(kernels.NEIGHBOUR, arch)
    data, out = (np.zeros(256, dtype=np.int32) for _ in range(2))
    broken = deleted(code, nth(code, 0, named("s_barrier")))
    for found in run(broken, data, out, block=256, check="race"):
        one, other = found.instruction.split()[0], found.cause.split()[1]
        assert {one, other} == {"global_load_dword", "global_store_dword"}
        assert found.memory_address is not None
        assert 0 <= found.memory_address - data.ctypes.data < 1024
        assert "before the end of the wrapped array of 1024 bytes" in found.detail


@pytest.mark.parametrize("arch", ARCHS)
def test_a_race_of_workgroups_has_two_sides(arch: str) -> None:
    sums, x = np.zeros(128, dtype=np.float32), np.zeros(128, dtype=np.float32)
    (found,) = run(build(kernels.ADD, arch), x, x.copy(), sums, 63, grid=2, check="race")
    assert found.cause == f"{found.address:#x}: {found.instruction}"


@pytest.mark.parametrize("arch", ARCHS)
def test_an_early_use_of_a_direct_copy_names_the_copy(arch: str) -> None:
    code = build(kernels.COPY, arch)
    broken = deleted(code, nth(code, 0, lambda inst: "vmcnt(0)" in inst.text))
    x, out = np.arange(256, dtype=np.int32), np.zeros(256, dtype=np.int32)
    found = run(broken, x, out, block=256, check="race")
    assert "lds" in found[0].cause


@pytest.mark.parametrize("arch", ARCHS)
def test_bounds_name_argument_and_allocations(arch: str) -> None:
    whole = np.zeros(192, dtype=np.float32)
    x, out = whole[:64], whole[64:128]
    listed = np.arange(64, dtype=np.int32)
    listed[5] = 64
    code = build(kernels.GATHER, arch)
    (found,) = run(code, listed, x, out, 0, check="bounds")
    assert found.argument == "x"
    assert (
        f"which is argument 'x' (wrapped array of 256 bytes at {x.ctypes.data:#x})" in found.detail
    )
    assert (
        f"before the end of the wrapped array of 256 bytes at {out.ctypes.data:#x}" in found.detail
    )
    assert found.memory_address == out.ctypes.data


@pytest.mark.parametrize("arch", ARCHS)
def test_races_between_two_lines_are_one_finding(arch: str) -> None:
    b = IRBuilder("unrolled")
    b.kernel.attributes["max_workgroup_size"] = 256
    y = b.param("y", ptr(F32))
    tile = b.smem_alloc(F32, 256 * 16)
    i = b.thread_id_x()
    far = b.sub(255, i)
    for n in range(16):
        b.smem_store(tile, [b.add(i, 256 * n)], b.const_f32(1.0 + n))
    values = [b.smem_load(tile, [b.add(far, 256 * n)]) for n in range(16)]
    for n, value in enumerate(values):
        b.global_store(y, b.add(i, 256 * n), value)
    b.ret()
    device = EmulatedDevice(arch, check="race", threads=1)
    code = compile_kernel(b.kernel, arch)
    launch = Launcher(device, code, grid=(1, 1, 1), block=(256, 1, 1))
    with pytest.raises(CheckError) as error:
        launch(y=np.zeros(4096, np.float32))
    kinds = {(f.source, f.cause_source, f.detail.split(" what ")[0]) for f in error.value.findings}
    assert len(kinds) == len(error.value.findings) <= 2
    first = max(error.value.findings, key=lambda f: len(f.also))
    assert len(first.also) >= 3
    assert f"  also at {'; '.join(first.also[:3])}" in str(first)
    assert all(re.match(r"0x[0-9a-f]+: ds_(read|write)", text) for text in first.also)
    assert first.count >= 1 + len(first.also)


class _Lines(SourceLines):
    """Lines at some addresses."""

    def __init__(self, known: dict[int, str]) -> None:
        self._known = known

    def at(self, address: int) -> str:
        return self._known.get(address, "")


def test_the_line_of_a_merged_instruction_is_the_one_before_it() -> None:
    lines = _Lines({100: "k.py:1", 112: "k.py:3"})
    block = [0, 4, 8, 12]
    assert lines.near(100, 0, block) == "k.py:1"
    assert lines.near(100, 8, block) == "near k.py:1"
    assert lines.near(100, 12, block) == "k.py:3"
    assert lines.near(100, 4, [4, 8, 12]) == ""


def test_merged_reads_of_a_kernel_have_a_line_near() -> None:
    b = IRBuilder("pair")
    y = b.param("y", ptr(F32))
    tile = b.smem_alloc(F32, 128)
    i = b.thread_id_x()
    b.smem_store(tile, [i], b.const_f32(1.0))
    first = b.smem_load(tile, [i])
    second = b.smem_load(tile, [b.add(i, 64)])
    b.global_store(y, i, b.fadd(first, second))
    b.ret()
    code: CodeObject = compile_kernel(b.kernel, "gfx942")
    device = EmulatedDevice("gfx942", check="uninitialised")
    with pytest.raises(CheckError) as error:
        Launcher(device, code, grid=(1, 1, 1), block=(64, 1, 1))(y=np.zeros(64, np.float32))
    cause = error.value.findings[0].cause
    assert "ds_read" in cause
    assert "test_told.py:" in cause
