"""From text to code object: what the bytes say, and that they are always the same."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import rocke
from rocke.arch import TARGETS
from rocke.compiler import (
    CodeObject,
    CompileError,
    CompileOptions,
    CompileWarning,
    SpillWarning,
    compile_kernel,
    compile_stages,
)
from rocke.compiler.line_table import line_table
from rocke.compiler.source import ParameterText
from rocke.core.ir import F16, F32, I32, IRBuilder, ptr
from tests.compiler.mlir_sources import (
    STORE_IDS,
    kernel_text,
    lds_kernel,
    register_hungry_kernel,
    store_ids,
)

PARAMETERS = (ParameterText("out", writeonly=True), ParameterText("factor"))


@pytest.mark.parametrize("arch", sorted(TARGETS))
def test_metadata_is_read_back_from_the_bytes(arch: str) -> None:
    code_object = compile_kernel(store_ids(params=PARAMETERS), arch, cache=None)
    assert code_object == CodeObject.from_bytes(code_object.data)
    assert (code_object.arch, code_object.version) == (arch, 5)
    kernel = code_object.kernel("k")
    assert [(a.name, a.offset, a.size, a.kind) for a in kernel.arguments] == [
        ("out", 0, 8, "global_buffer"),
        ("factor", 8, 4, "by_value"),
    ]
    assert kernel.arguments[0].access == "write_only"
    assert kernel.arguments[1].access == ""
    assert kernel.kernarg_size == 12, "hidden arguments"
    assert (kernel.wave_size, kernel.max_workgroup_size) == (64, 64)
    assert (kernel.lds, kernel.scratch, kernel.spills) == (0, 0, 0)


def test_what_a_parameter_promises_is_in_the_metadata() -> None:
    b = IRBuilder("k")
    x = b.param("x", ptr(F16), readonly=True, align=16)
    b.param("io", ptr(F32))
    n = b.param("n", I32)
    b.global_store(b.param("y", ptr(F16, "global"), noalias=True), n, b.global_load(x, n, F16))
    b.ret()
    kernel = compile_kernel(b.kernel, "gfx942", cache=None).kernel()
    assert [(a.type_name, a.restrict, a.access) for a in kernel.arguments] == [
        ("ptr<f16, global> align(16)", True, "read_only"),
        ("ptr<f32, global>", False, ""),
        ("i32", False, ""),
        ("ptr<f16, global>", True, "write_only"),  # LLVM found out that nothing reads it
    ]


@pytest.mark.parametrize(
    ("ids", "dimensions"), [(("x",), 1), (("x", "y"), 2), (("x", "z"), 3), ((), 1)]
)
def test_the_object_says_which_work_item_numbers_it_is_given(
    ids: tuple[str, ...], dimensions: int
) -> None:
    b = IRBuilder("k")
    out = b.param("out", ptr(I32))
    for i, axis in enumerate(ids):
        at = b._op(f"rocdl.workitem.id.{axis}", (), (I32,)).result
        b.global_store(out, b.add(at, 64 * i), at)
    b.ret()
    kernel = compile_kernel(b.kernel, "gfx90a", cache=None).kernel()
    assert kernel.work_item_dimensions == dimensions


def test_what_is_no_kernel_is_refused_with_what_to_pass() -> None:
    with pytest.raises(CompileError, match=r"^kernel: IRBuilder, expected .*: pass its \.kernel$"):
        compile_kernel(IRBuilder("k"), "gfx942")  # type: ignore[arg-type]
    with pytest.raises(CompileError, match=r"^kernel: str, expected .*: MLIR text goes into"):
        compile_kernel("module {}", "gfx942")  # type: ignore[arg-type]


def test_lds_bytes_are_read_back() -> None:
    assert compile_kernel(lds_kernel(5000), "gfx942", cache=None).kernel().lds == 5000


@pytest.mark.parametrize("size", [64, 256, 1024])
def test_max_workgroup_size_is_honoured(size: int) -> None:
    kernel = store_ids(attributes={"max_workgroup_size": size})
    assert compile_kernel(kernel, "gfx950", cache=None).kernel().max_workgroup_size == size


def test_waves_per_eu_bounds_the_registers() -> None:
    free = compile_kernel(register_hungry_kernel(40), "gfx942", cache=None).kernel()
    attributes = {"max_workgroup_size": 64, "waves_per_eu": 4}
    kernel = register_hungry_kernel(40, attributes=attributes)
    with pytest.warns(SpillWarning):
        bound = compile_kernel(kernel, "gfx942", cache=None).kernel()
    assert free.vgpr > 128 >= bound.vgpr


@pytest.mark.parametrize(
    ("attributes", "wrong"),
    [
        ({"max_workgroup_size": 0}, "max_workgroup_size is 0"),
        ({"max_workgroup_size": 2048}, "max_workgroup_size is 2048"),
        ({"waves_per_eu": 9}, "waves_per_eu is 9"),
        ({"waves_per_eu": (4, 2)}, "the second is below the first"),
        ({"waves_per_eu": "2"}, "waves_per_eu is '2'"),
    ],
)
def test_bad_attributes_are_refused(attributes: dict[str, object], wrong: str) -> None:
    with pytest.raises(CompileError, match=f"^k: .*{wrong}".replace("(4, 2)", r"\(4, 2\)")):
        compile_kernel(store_ids(attributes=attributes), "gfx950", cache=None)


def test_spills_are_a_warning_with_counts() -> None:
    kernel = register_hungry_kernel(60, attributes={"max_workgroup_size": 1024})
    with pytest.warns(SpillWarning) as caught:
        info = compile_kernel(kernel, "gfx950", cache=None).kernel()
    assert info.vgpr_spills > 0
    assert info.scratch > 0
    text = str(caught[0].message)
    assert (
        f"k: {info.vgpr_spills} vector registers spilled, {info.scratch} bytes of scratch" in text
    )
    assert caught[0].filename == __file__


def test_a_missed_occupancy_target_is_a_warning_and_prints_nothing(
    capfd: pytest.CaptureFixture[str],
) -> None:
    attributes = {"max_workgroup_size": 64, "waves_per_eu": 8}
    with pytest.warns(CompileWarning, match=r"failed to meet occupancy target .* 'k'"):
        compile_kernel(lds_kernel(60000, attributes=attributes), "gfx942", cache=None)
    assert capfd.readouterr().err == ""


def test_lines_of_the_source_survive() -> None:
    code_object = compile_kernel(store_ids(), "gfx950", cache=None)
    table = line_table(code_object)
    assert table == sorted(table)
    assert {("kernels/demo.py", 12), ("helpers/store.py", 14)} <= {(e.file, e.line) for e in table}
    kernel = code_object.kernel()
    assert table[0].address == kernel.entry_address
    last = table[-1]
    assert last.line == 0, "the end of the code"
    words = code_object.data[kernel.entry : kernel.entry + last.address - kernel.entry_address]
    assert words[-4:] == bytes.fromhex("000081bf"), "s_endpgm is the last instruction"


def test_stages_hold_the_text_of_each_stage(tmp_path: Path) -> None:
    kernel = store_ids()
    stages = compile_stages(kernel, "gfx950")
    assert stages.mlir == kernel.mlir
    assert "rocdl.workitem.id.x" in stages.llvm_dialect
    assert "amdhsa_code_object_version" in stages.llvm_ir
    assert "define amdgpu_kernel void @k(" in stages.optimized_ir
    assert "s_endpgm" in stages.assembly
    assert ".amdhsa_code_object_version 5" in stages.assembly
    assert stages.object[:4] == b"\x7fELF"
    assert stages.code_object == compile_kernel(kernel, "gfx950", cache=None)
    paths = stages.write(tmp_path / "new" / "folder")
    assert [p.name for p in paths] == ["k.mlir", "k.ll", "k.s", "k.hsaco"]
    assert paths[3].read_bytes() == stages.code_object.data
    assert paths[2].read_text() == stages.assembly
    assert sorted(p.name for p in paths[0].parent.iterdir()) == sorted(p.name for p in paths)


def test_assembly_and_object_agree_whatever_was_emitted_first() -> None:
    kernel = register_hungry_kernel(8)
    once = compile_kernel(kernel, "gfx942", cache=None)
    assert compile_stages(kernel, "gfx942").code_object == once
    assert compile_kernel(kernel, "gfx942", cache=None) == once


def test_addresses_are_computed_in_32_bits() -> None:
    body = """
%t = gpu.thread_id x
%b = gpu.block_id x
%c64 = arith.constant 64 : index
%r = arith.muli %b, %c64 : index
%i = arith.addi %r, %t : index
%v = memref.load %m[%i] : memref<4096xf32, #gpu.address_space<global>>
%a = llvm.mlir.addressof @lds : !llvm.ptr<3>
%j = arith.index_cast %i : index to i32
%q = llvm.getelementptr %a[%j] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, f32
llvm.store volatile %v, %q : f32, !llvm.ptr<3>
"""
    array = "llvm.mlir.global private @lds() {addr_space = 3 : i32} : !llvm.array<64 x f32>"
    argument = "%m: memref<4096xf32, #gpu.address_space<global>>"
    stages = compile_stages(kernel_text(body, arguments=argument, globals_=array), "gfx950")
    assert "trunc" not in stages.llvm_ir
    assert "mul i32" in stages.llvm_ir
    assert "mul i64" not in stages.llvm_ir


FRESH = """
import hashlib, sys
from tests.compiler.mlir_sources import store_ids
from rocke.compiler import compile_kernel
import rocke
assert rocke.__file__.startswith(sys.argv[1]), rocke.__file__
print(compile_kernel(store_ids(), "gfx942", cache=None).sha256)
"""


def test_the_same_bytes_from_any_folder(tmp_path: Path) -> None:
    here = compile_kernel(store_ids(), "gfx942", cache=None)
    assert str(Path(rocke.__file__).parent).encode() not in here.data
    copy = tmp_path / "a copy of the project"
    shutil.copytree(
        Path(rocke.__file__).parent,
        copy / "rocke",
        ignore=shutil.ignore_patterns("__pycache__"),
    )
    path = os.pathsep.join([str(copy), str(Path(__file__).parents[2])])
    done = subprocess.run(
        [sys.executable, "-c", FRESH, str(copy)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == here.sha256


def test_optimisation_level_is_honoured() -> None:
    level = CompileOptions(opt_level=0)
    none = compile_kernel(store_ids(), "gfx942", options=level, cache=None)
    assert none.data != compile_kernel(store_ids(), "gfx942", cache=None).data
    with pytest.raises(ValueError, match="opt_level is 4"):
        CompileOptions(opt_level=4)


def test_threads_compile_at_once() -> None:
    from concurrent.futures import ThreadPoolExecutor

    archs = sorted(TARGETS) * 2
    expected = {a: compile_kernel(store_ids(), a, cache=None).data for a in TARGETS}
    with ThreadPoolExecutor(3) as pool:
        found = list(pool.map(lambda a: compile_kernel(store_ids(), a, cache=None).data, archs))
    assert found == [expected[a] for a in archs]


def test_the_kernel_function_must_have_the_kernels_name() -> None:
    other = kernel_text(STORE_IDS, name="other")
    wrong = type(other)("k", other.mlir)
    with pytest.raises(CompileError, match=r"^k: the module holds the kernels: other$"):
        compile_kernel(wrong, "gfx950", cache=None)
