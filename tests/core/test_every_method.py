"""Every method of the builder: emitted operations, acceptance by mlir-opt, code for its targets."""

from __future__ import annotations

import inspect
import re

import pytest

from rocke.compiler import compile_stages
from rocke.core.ir import IRBuilder
from rocke.core.matrix import ATOMS, F8F6F4_SHAPES
from tests.core import programs


@pytest.mark.parametrize("name", programs.PROGRAMS)
def test_mlir_opt_accepts_it_and_it_has_the_expected_operations(name, mlir_opt):
    text = mlir_opt(programs.build(name).mlir)
    for operation in programs.EXPECTED[name]:
        assert operation in text


def test_every_public_method_is_called_by_a_program():
    called = set()

    class Recording(IRBuilder):
        def __getattribute__(self, key):
            if inspect.currentframe().f_back.f_globals["__name__"] == programs.__name__:
                called.add(key)
            return super().__getattribute__(key)

    for name in programs.PROGRAMS:
        programs.build(name, Recording)
    public = {n for n, f in inspect.getmembers(IRBuilder, inspect.isfunction) if n[0] != "_"}
    assert public - called == set()
    assert "_op" in called


def test_every_public_method_says_what_it_emits():
    silent = {"param", "bind_arch", "static_for", "scf_if", "ptr_cast"}
    for name, method in inspect.getmembers(IRBuilder, inspect.isfunction):
        if name[0] == "_" or name in silent:
            continue
        text = inspect.getdoc(method)
        emits = re.search(r"Emits|``rocdl\.mfma|arith\.cmpi", text)
        assert emits or name.startswith("const_"), name


@pytest.mark.parametrize("name", programs.PROGRAMS)
def test_the_compiler_makes_code_for_every_target_that_has_it(name):
    kernel = programs.build(name)
    for arch in programs.TARGETS[name]:
        assert compile_stages(kernel, arch).code_object.kernels[0].name == name
    known = kernel.targets or programs.ALL
    assert set(known) == set(programs.TARGETS[name]) or kernel.arch == "gfx950"


INSTRUCTIONS = [
    ("floats", "gfx90a", ("v_max3_f32", "v_exp_f32", "v_rcp_f32", "v_log_f32", "v_rsq_f32")),
    ("casts", "gfx950", ("v_cvt_pk_bf16_f32", "v_perm_b32", "v_cvt_pkrtz_f16_f32")),
    ("casts", "gfx942", ("v_perm_b32",)),
    ("global_memory", "gfx942", ("global_load_dwordx4", "global_store_dwordx4", "s_load_dword")),
    ("buffers", "gfx90a", ("buffer_load_dwordx4", "buffer_load_ubyte", "buffer_store_short")),
    ("lds", "gfx90a", ("ds_write_b128", "ds_read_b128", "ds_read_b64", "ds_write_b8", "s_barrier")),
    ("direct_copy", "gfx90a", ("buffer_load_dword v", " lds", "s_waitcnt vmcnt(0)")),
    ("direct_copy_global", "gfx942", ("global_load_lds_dword",)),
    (
        "wide_copy_and_transpose",
        "gfx950",
        (
            "buffer_load_dwordx4",
            "global_load_lds_dwordx3",
            "ds_read_b64_tr_b16",
            "ds_read_b64_tr_b8",
        ),
    ),
    (
        "cross_lane",
        "gfx942",
        (
            "v_readfirstlane_b32",
            "quad_perm:[1,0,3,2]",
            "row_mirror",
            "ds_swizzle_b32",
            "ds_bpermute",
        ),
    ),
    ("permlane", "gfx950", ("v_permlane32_swap_b32",)),
    ("synchronisation", "gfx950", ("s_waitcnt vmcnt(3) lgkmcnt(2)", "s_setprio 2", "s_barrier")),
]


@pytest.mark.parametrize(("name", "arch", "instructions"), INSTRUCTIONS)
def test_methods_become_the_instructions_that_they_promise(name, arch, instructions):
    assembly = compile_stages(programs.build(name), arch).assembly
    for instruction in instructions:
        assert instruction in assembly


def test_sync_waits_for_both_counters_right_before_the_barrier():
    assembly = compile_stages(programs.build("lds"), "gfx942").assembly
    code = [line.split(";")[0].strip() for line in assembly.splitlines()]
    code = [line for line in code if re.match(r"[sv]_|ds_|global_|buffer_", line)]
    assert code[code.index("s_barrier") - 1] == "s_waitcnt vmcnt(0) lgkmcnt(0)"


def test_a_uniform_vote_becomes_a_scalar_branch():
    assembly = compile_stages(programs.build("cross_lane"), "gfx950").assembly
    assert "s_cbranch_scc" in assembly
    assert "s_and_saveexec" not in assembly


def test_the_matrix_atoms_are_those_of_the_target_table():
    from rocke.arch import TARGETS

    by_name = {}
    for target in TARGETS.values():
        for op in target.matrix_ops:
            by_name.setdefault(op.name, (op, []))[1].append(target.name)
    assert set(by_name) == set(ATOMS) | set(F8F6F4_SHAPES)
    for name, (op, targets) in by_name.items():
        assert callable(getattr(IRBuilder, name))
        if name in F8F6F4_SHAPES:
            assert op.m * op.n // 64 == F8F6F4_SHAPES[name][1]
            continue
        atom = ATOMS[name]
        assert (atom.m, atom.n, atom.k) == (op.m, op.n, op.k)
        assert atom.mlir_name == f"rocdl.{op.intrinsic}"
        assert sorted(atom.targets) == sorted(targets)
        kinds = {"fp8e4m3": "fp8", "bf8e5m2": "bf8"}
        assert kinds.get(atom.a.name, atom.a.name) == op.a_type
        assert kinds.get(atom.b.name, atom.b.name) == op.b_type
