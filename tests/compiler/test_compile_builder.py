"""Kernels made by the builder, and the seed kernels, through the whole compiler."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from rocke.arch import TARGETS
from rocke.compiler import CodeObject, CompileError, compile_in_worker, compile_kernel
from rocke.compiler.line_table import line_table
from rocke.core.ir import F32, I32, IRBuilder, PtrType
from rocke.kernels.registry import SEED_FAMILIES


def scale_kernel() -> IRBuilder:
    b = IRBuilder("scale")
    source = b.param("source", PtrType(F32), readonly=True)
    result = b.param("result", PtrType(F32), writeonly=True)
    count = b.param("count", I32)
    index = b.add(b.mul(b.block_id_x(), b.const_i32(64)), b.thread_id_x())
    with b.scf_if(b.cmp_lt(index, count)):
        value = b.global_load(source, index, F32)
        b.global_store(result, index, b.fmul(value, b.const_f32(3.0)))  # the store's line
    b.ret()
    return b


def line_of(text: str) -> int:
    lines = Path(__file__).read_text().splitlines()
    return next(i for i, line in enumerate(lines, 1) if line.rstrip().endswith(text))


@pytest.mark.parametrize("arch", sorted(TARGETS))
def test_a_builder_kernel(arch: str) -> None:
    kernel = scale_kernel().kernel
    info = compile_kernel(kernel, arch, cache=None).kernel("scale")
    assert [(a.name, a.size, a.access) for a in info.arguments] == [
        ("source", 8, "read_only"),
        ("result", 8, "write_only"),
        ("count", 4, ""),
    ]
    assert info.max_workgroup_size == kernel.attributes["max_workgroup_size"]
    assert info.required_workgroup_size is None


def test_a_required_workgroup_size_is_honoured() -> None:
    kernel = scale_kernel().kernel
    kernel.attributes["required_workgroup_size"] = (32, 4, 1)
    info = compile_kernel(kernel, "gfx950", cache=None).kernel()
    assert info.required_workgroup_size == (32, 4, 1)
    assert info.max_workgroup_size == 128


def test_python_lines_survive_to_the_code_object() -> None:
    table = line_table(compile_kernel(scale_kernel().kernel, "gfx950", cache=None))
    here = Path(__file__).name
    assert (here, line_of("# the store's line")) in {(e.file, e.line) for e in table}
    assert not [e.file for e in table if e.file.startswith("/")]


def test_a_kernel_bound_to_a_target() -> None:
    b = scale_kernel()
    b.bind_arch("gfx942")
    assert compile_kernel(b.kernel, cache=None).arch == "gfx942"
    with pytest.raises(CompileError, match="bound to gfx942"):
        compile_kernel(b.kernel, "gfx950", cache=None)


def seed_kernel(name: str, arch: str, **fields: object) -> CodeObject:
    family = SEED_FAMILIES[name]
    kernel = family.build(family.make_spec({**family.demo, **fields}), arch)
    return compile_kernel(kernel, arch, cache=None)


@pytest.mark.parametrize("name", sorted(SEED_FAMILIES))
@pytest.mark.parametrize("arch", sorted(TARGETS))
def test_seed_kernels(name: str, arch: str) -> None:
    family = SEED_FAMILIES[name]
    code_object = seed_kernel(name, arch)
    info = code_object.kernel()
    signature = family.signature(family.make_spec(family.demo))
    assert [a.name for a in info.arguments] == [p["name"] for p in signature]
    assert (info.spills, info.scratch) == (0, 0)
    files = {e.file for e in line_table(code_object) if e.line}
    assert files
    assert all(f.startswith(("rocke/kernels/", "rocke/helpers/")) for f in files), files


FRESH = """
import sys
from tests.compiler.test_compile_builder import seed_kernel
print(seed_kernel(*sys.argv[1:]).sha256)
"""


@pytest.mark.normal
@pytest.mark.parametrize("seed", ["1", "2"])
def test_a_fresh_process_gives_the_same_bytes(seed: str, tmp_path: Path) -> None:
    name = sorted(SEED_FAMILIES)[0]
    done = subprocess.run(
        [sys.executable, "-c", FRESH, name, "gfx942"],
        cwd=tmp_path,
        env={
            **os.environ,
            "PYTHONHASHSEED": seed,
            "PYTHONPATH": str(Path(__file__).parents[2]),
        },
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == seed_kernel(name, "gfx942").sha256


@pytest.mark.normal
def test_a_builder_kernel_in_a_worker() -> None:
    kernel = scale_kernel().kernel
    inside = compile_in_worker(kernel, "gfx90a", cache=None)
    assert inside == compile_kernel(kernel, "gfx90a", cache=None)
