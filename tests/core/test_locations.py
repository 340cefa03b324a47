"""Every operation carries the file and line that asked for it, the same in every folder."""

from __future__ import annotations

import inspect
import re
import types

from rocke.compiler import compile_stages
from rocke.core.ir import F32, IRBuilder, ptr
from tests.core import programs

KERNEL = """
def body(b, o, helper):
    t = b.thread_id_x()
    x = b.sitofp_f32(
        b.add(t, 1),
    )
    b.global_store(o, t, helper(b, x))
    b.ret()
"""
HELPER = "def helper(b, x):\n    return b.fmul(x, 3.0)\n"


def module(name: str, source: str, file: str) -> types.ModuleType:
    made = types.ModuleType(name)
    exec(compile(source, file, "exec"), made.__dict__)
    return made


def made_in(folder: str, kernel: str, helper: str) -> str:
    body = module(kernel, KERNEL, f"{folder}/user/kernel_file.py").body
    double = module(helper, HELPER, f"{folder}/user/helper_file.py").helper
    b = IRBuilder("k")
    body(b, b.param("o", ptr(F32)), double)
    return b.kernel.mlir


def location_of(text: str, operation: str) -> str:
    line = next(line for line in text.splitlines() if operation in line)
    (reference,) = re.findall(r"loc\((#loc\d*)\)$", line)
    while True:
        (definition,) = re.findall(rf"^{reference} = loc\((.*)\)$", text, re.MULTILINE)
        inner = re.match(r'".*"\((#loc\d*)\)$', definition)
        if inner is None:
            return definition
        reference = inner.group(1)


def test_kernels_and_helpers_are_named_by_their_module():
    text = made_in("/a", "rocke.kernels.common.some", "rocke.helpers.deep.other")
    assert location_of(text, "rocdl.workitem") == '"rocke/kernels/common/some.py":3:0'
    assert location_of(text, "arith.addi") == '"rocke/kernels/common/some.py":5:0'
    assert location_of(text, "arith.mulf") == '"rocke/helpers/deep/other.py":2:0'
    assert location_of(text, "llvm.store") == '"rocke/kernels/common/some.py":7:0'


def test_the_innermost_frame_inside_the_library_wins_over_the_users_callback():
    text = made_in("/a", "rocke.kernels.common.some", "users_callback")
    assert location_of(text, "arith.mulf") == '"rocke/kernels/common/some.py":7:0'


def test_other_files_are_named_by_their_base_name():
    text = made_in("/a", "mine", "also_mine")
    assert location_of(text, "rocdl.workitem") == '"kernel_file.py":3:0'
    assert location_of(text, "arith.mulf") == '"helper_file.py":2:0'


def test_the_text_is_the_same_in_every_folder():
    for names in (("mine", "also_mine"), ("rocke.kernels.some", "rocke.helpers.other")):
        assert made_in("/a", *names) == made_in("/somewhere/else", *names)


def test_no_absolute_path_is_in_the_text():
    for name in programs.PROGRAMS:
        assert "/" not in "".join(re.findall(r'loc\("([^"]*)":\d', programs.build(name).mlir))


def test_every_operation_has_a_location():
    for name in programs.PROGRAMS:
        text = programs.build(name).mlir
        assert "loc(unknown)" not in text
        for line in text.splitlines():
            if re.match(r"\s+(%|rocdl|llvm|scf\.yield|gpu\.return|arith)", line):
                assert re.search(r"loc\(#loc\d*\)$|\{$", line), line


def test_lines_survive_into_the_assembly():
    b = IRBuilder("k")
    o = b.param("o", ptr(F32))
    line = inspect.currentframe().f_lineno + 1
    b.global_store(o, b.thread_id_x(), 1.0)
    b.ret()
    assembly = compile_stages(b.kernel, "gfx950").assembly
    (file,) = re.findall(r'\.file\s+(\d+).*"test_locations\.py"', assembly)
    store = assembly.index("global_store_dword")
    *_, last = re.finditer(r"\.loc\s+(\d+)\s+(\d+)", assembly[:store])
    assert last.groups() == (file, str(line))


def test_name_hints_name_the_ssa_values():
    b = IRBuilder("k")
    b._op("llvm.mlir.undef", result_types=[F32], result_name_hint="nothing")
    b.ret()
    assert "%nothing = llvm.mlir.undef : f32" in b.kernel.mlir


def test_a_file_name_that_is_not_text_is_written_with_stand_ins():
    body = module("k", KERNEL, "/some/folder/caf\udce9.py").body
    b = IRBuilder("k")
    body(b, b.param("o", ptr(F32)), lambda b, x: x)
    assert '"caf?.py":' in b.kernel.mlir
