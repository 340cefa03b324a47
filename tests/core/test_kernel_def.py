"""The kernel as data: parameters, signature, attributes, targets, pickling, text."""

from __future__ import annotations

import inspect
import pickle
import subprocess
import sys

import pytest

from rocke.arch import TARGETS
from rocke.compiler import CompileError, compile_kernel, compile_stages
from rocke.core.ir import F16, F32, I8, I32, IRBuilder, IRError, Param, ptr
from rocke.core.kernel_def import KNOWN_TARGETS
from tests.core import programs


def small(b: IRBuilder) -> None:
    b.global_store(b.param("o", ptr(F32)), b.thread_id_x(), 1.0)
    b.ret()


def test_the_signature_is_there_before_the_body():
    b = IRBuilder("k")
    b.param("Q", ptr(F16), readonly=True, align=16)
    b.param("mask", ptr(I8, "constant"))
    b.param("n", I32)
    b.param("scale", F32)
    assert b.kernel.signature() == [
        {"name": "Q", "type": "ptr<f16, global>"},
        {"name": "mask", "type": "ptr<i8, constant>"},
        {"name": "n", "type": "i32"},
        {"name": "scale", "type": "f32"},
    ]
    first = Param("Q", ptr(F16), readonly=True, writeonly=False, align=16, noalias=True)
    assert b.kernel.params[0] == first
    assert b.kernel.params[2] == Param("n", I32)


def test_parameter_promises_are_argument_attributes():
    b = IRBuilder("k")
    b.param("a", ptr(F16), readonly=True, align=16)
    b.param("o", ptr(F16), writeonly=True, noalias=False)
    b.param("io", ptr(F16))
    b.ret()
    text = b.kernel.mlir
    arguments = {p.split(":")[0]: p for p in text.split("gpu.func @k(%")[1].split(", %")}
    assert "llvm.align = 16 : i64, llvm.noalias, llvm.noundef, llvm.readonly}" in arguments["a"]
    assert "{llvm.noundef, llvm.writeonly}" in arguments["o"]
    assert "{llvm.noundef}" in arguments["io"]


def test_attributes_reach_the_code_object():
    b = IRBuilder("k")
    b.kernel.attributes["max_workgroup_size"] = 128
    b.kernel.attributes["waves_per_eu"] = 2
    small(b)
    assert 'flat_work_group_size = "1,128"' in b.kernel.mlir
    info = compile_stages(b.kernel, "gfx942").code_object.kernels[0]
    assert info.max_workgroup_size == 128


def test_an_exact_workgroup_size_is_required_by_the_code_object():
    b = IRBuilder("k")
    b.kernel.attributes["max_workgroup_size"] = 256
    b.kernel.attributes["required_workgroup_size"] = (64, 2, 1)
    small(b)
    info = compile_stages(b.kernel, "gfx942").code_object.kernels[0]
    assert info.required_workgroup_size == (64, 2, 1)
    assert info.max_workgroup_size == 128


def test_defaults_of_the_attributes():
    assert IRBuilder("k").kernel.attributes == {
        "max_workgroup_size": 256,
        "waves_per_eu": None,
        "required_workgroup_size": None,
    }


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("max_workgroup_size", 0, "1 to 1024, got 0"),
        ("max_workgroup_size", 2048, "1 to 1024, got 2048"),
        ("max_workgroup_size", True, "got True"),
        ("waves_per_eu", 9, "1 to 8"),
        ("waves_per_eu", (3, 2), "fewest, most"),
        ("required_workgroup_size", (1024, 2, 1), "x, y, z"),
        ("num_warps", 4, "known: max_workgroup_size, waves_per_eu"),
    ],
)
def test_attributes_that_nothing_honours_are_refused(key, value, message):
    kernel = IRBuilder("k").kernel
    with pytest.raises(IRError, match=message):
        kernel.attributes[key] = value
    with pytest.raises(IRError, match=message):
        kernel.attributes.update({key: value})
    with pytest.raises(IRError, match=r"test_kernel_def\.py:\d+"):
        kernel.attributes[key] = value


def test_changing_an_attribute_changes_the_text():
    b = IRBuilder("k")
    small(b)
    first = b.kernel.mlir
    b.kernel.attributes["max_workgroup_size"] = 64
    assert first != b.kernel.mlir
    assert b.kernel.mlir is b.kernel.mlir


def test_the_required_size_and_the_largest_size_agree():
    b = IRBuilder("k")
    b.kernel.attributes["required_workgroup_size"] = (512, 1, 1)
    assert b.kernel.attributes["max_workgroup_size"] == 512
    b.ret()
    assert pickle.loads(pickle.dumps(b.kernel)).attributes == b.kernel.attributes
    message = r"required_workgroup_size \(\d+, 1, 1\) is \d+ work-items, max_workgroup_size is 64"
    with pytest.raises(IRError, match=message):
        b.kernel.attributes["max_workgroup_size"] = 64
    other = IRBuilder("k").kernel.attributes
    other["max_workgroup_size"] = 64
    with pytest.raises(IRError, match=message):
        other["required_workgroup_size"] = (128, 1, 1)
    assert other["required_workgroup_size"] is None
    other["required_workgroup_size"] = (32, 2, 1)


def test_binding_to_a_target():
    b = IRBuilder("k")
    assert b.kernel.arch is None
    b.bind_arch("gfx942")
    b.bind_arch("gfx942")
    assert b.kernel.arch == "gfx942"
    with pytest.raises(IRError, match="bound to gfx942, it cannot be bound to gfx950"):
        b.bind_arch("gfx950")
    x = b.param("x", F32)
    with pytest.raises(IRError, match=r"permlane32_swap: only gfx950 .* for gfx942"):
        b.permlane32_swap(x, x)


def test_operations_rule_targets_out():
    b = IRBuilder("k")
    x = b.param("x", F32)
    b.cvt_pk_fp8_f32(x, x)
    assert b.kernel.targets == ("gfx942", "gfx950")
    assert b.kernel.arch is None
    with pytest.raises(IRError, match="cannot be for gfx90a: it has no cvt_pk_fp8_f32"):
        b.bind_arch("gfx90a")
    b.permlane32_swap(x, x)
    assert b.kernel.targets == ("gfx950",)
    assert b.kernel.arch == "gfx950"
    with pytest.raises(IRError, match="cannot be for gfx942: it has no permlane32_swap"):
        b.bind_arch("gfx942")


def test_the_known_targets_are_those_of_the_target_table():
    assert tuple(TARGETS) == KNOWN_TARGETS
    with pytest.raises(IRError, match="unknown target 'mi300'; known: gfx90a, gfx942, gfx950"):
        IRBuilder("k").bind_arch("mi300")


def test_the_operation_that_rules_a_target_out_is_named_with_its_line():
    b = IRBuilder("k")
    x = b.param("x", F32)
    b.permlane32_swap(x, x)
    line = inspect.currentframe().f_lineno - 1
    b.ret()
    where = rf"permlane32_swap \(at \S*test_kernel_def.py:{line}\)"
    for kernel in (b.kernel, pickle.loads(pickle.dumps(b.kernel))):
        with pytest.raises(CompileError, match=f"^k: gfx942 has no {where}$"):
            compile_kernel(kernel, "gfx942", cache=None)
    with pytest.raises(IRError, match=f"cannot be for gfx90a: it has no {where}"):
        b.bind_arch("gfx90a")


def test_a_pickled_kernel_is_the_same_kernel():
    kernel = programs.build("permlane")
    again = pickle.loads(pickle.dumps(kernel))
    assert again.mlir == kernel.mlir == str(again)
    assert again.params == kernel.params
    assert again.signature() == kernel.signature()
    assert (again.name, again.arch, again.targets) == (kernel.name, "gfx950", ("gfx950",))
    assert again.attributes == kernel.attributes
    assert pickle.loads(pickle.dumps(again)).mlir == kernel.mlir
    again.attributes["max_workgroup_size"] = 64
    with pytest.raises(IRError, match="cannot be changed"):
        _ = again.mlir


def test_types_need_no_mlir():
    code = "import sys, rocke.core.types as t; t.vec(t.F16, 4); assert 'mlir' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_repr_shows_the_parameters():
    b = IRBuilder("k")
    b.param("Q", ptr(F16))
    assert repr(b.kernel) == "KernelDef(k(Q: ptr<f16, global>))"
