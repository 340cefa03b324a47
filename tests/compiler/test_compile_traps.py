"""Each way in which the toolchain can end the process, or give bytes that do not load."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from rocke.arch import TARGETS
from rocke.compiler import CompileError, CompileOptions, compile_kernel, toolchain
from rocke.compiler.codegen import lds_bytes
from rocke.compiler.link import link
from rocke.compiler.toolchain import find_linker
from tests.compiler.mlir_sources import STORE_IDS, kernel_text, lds_kernel, store_ids


@pytest.mark.parametrize("arch", sorted(TARGETS))
def test_lds_over_the_limit(arch: str) -> None:
    limit = TARGETS[arch].lds_bytes
    assert compile_kernel(lds_kernel(limit), arch, cache=None).kernel().lds == limit
    with pytest.raises(CompileError) as caught:
        compile_kernel(lds_kernel(limit + 1), arch, cache=None)
    wanted = f"k: needs {limit + 1} bytes of LDS, a workgroup on {arch} has at most {limit}"
    assert str(caught.value) == wanted


def test_lds_of_several_arrays_is_counted_as_the_code_generator_packs_them() -> None:
    sizes = (3, 17, 40, 1, 9, 1000)
    arrays = "\n".join(
        f"llvm.mlir.global private @l{i}() {{addr_space = 3 : i32}} : !llvm.array<{s} x i8>"
        for i, s in enumerate(sizes)
    )
    body = ["%c = llvm.mlir.constant(1 : i8) : i8"]
    for i in range(len(sizes)):
        body += [
            f"%a{i} = llvm.mlir.addressof @l{i} : !llvm.ptr<3>",
            f"%q{i} = llvm.getelementptr %a{i}[%n] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, i8",
            f"llvm.store volatile %c, %q{i} : i8, !llvm.ptr<3>",
        ]
    import llvmlite.binding as llvm

    from rocke.compiler import compile_stages

    stages = compile_stages(kernel_text("\n".join(body), globals_=arrays), "gfx942")
    module = llvm.parse_assembly(stages.optimized_ir)
    data = llvm.create_target_data(module.data_layout)
    assert lds_bytes(module, data) == stages.code_object.kernel().lds


def test_an_unconverted_operation() -> None:
    body = """
%x = "tensor.empty"() : () -> tensor<4xf32>
%c = arith.index_cast %n : i32 to index
%e = tensor.extract %x[%c] : tensor<4xf32> loc("kernels/demo.py":78:0)
llvm.store %e, %p : f32, !llvm.ptr<1>
"""
    with pytest.raises(CompileError, match=r"^k: .*: tensor\.\w+ cannot be lowered: no pass"):
        compile_kernel(kernel_text(body), "gfx950", cache=None)


def test_an_operation_that_a_pass_refuses() -> None:
    body = """
%x = amdgpu.permlane_swap %n 32 : i32 loc("kernels/demo.py":33:0)
llvm.store %x, %p : i32, !llvm.ptr<1>
"""
    with pytest.raises(CompileError, match=r"^k: .*kernels/demo\.py:33: .*amdgpu.permlane_swap"):
        compile_kernel(kernel_text(body), "gfx942", cache=None)


def test_text_that_does_not_parse() -> None:
    with pytest.raises(CompileError, match=r"^k: the MLIR text is refused: .*nonsense"):
        compile_kernel(kernel_text("%x = nonsense.op"), "gfx950", cache=None)


def test_math_becomes_an_undefined_function() -> None:
    body = """
%x = llvm.load %p : !llvm.ptr<1> -> f32
%y = math.exp2 %x : f32 loc("kernels/demo.py":5:0)
llvm.store %y, %p : f32, !llvm.ptr<1>
"""
    with pytest.raises(CompileError, match=r"^k: kernels/demo\.py:5: calls __ocml_exp2_f32, which"):
        compile_kernel(kernel_text(body), "gfx950", cache=None)


def test_the_hardwares_own_operation_compiles() -> None:
    body = """
%x = llvm.load %p : !llvm.ptr<1> -> f32
%y = rocdl.exp2 %x f32 -> f32
llvm.store %y, %p : f32, !llvm.ptr<1>
"""
    assert compile_kernel(kernel_text(body), "gfx950", cache=None).kernel().kernarg_size == 12


def test_the_linker_refuses_undefined_symbols() -> None:
    import llvmlite.binding as llvm

    compile_kernel(store_ids(), "gfx950", cache=None)  # the AMDGPU target is set up
    module = llvm.parse_assembly(
        'target triple = "amdgcn-amd-amdhsa"\n'
        "declare float @__ocml_sin_f32(float)\n"
        "define amdgpu_kernel void @k(ptr addrspace(1) %p) {\n"
        "%x = call float @__ocml_sin_f32(float 1.0)\n"
        "store float %x, ptr addrspace(1) %p\nret void }"
    )
    machine = llvm.Target.from_triple("amdgcn-amd-amdhsa").create_target_machine(
        cpu="gfx950", reloc="pic", codemodel="default"
    )
    with pytest.raises(
        CompileError, match=r"^k: linking failed: .*undefined symbol: __ocml_sin_f32"
    ):
        link("k", machine.emit_object(module), find_linker())


@pytest.mark.parametrize(
    ("body", "what"),
    [
        (
            "%s = rocdl.permlane32.swap %n, %n, false, false : "
            '(i32, i32) -> !llvm.struct<(i32, i32)> loc("kernels/demo.py":9:0)',
            "the target has no permlane32.swap",
        ),
        (
            "%a = llvm.mlir.zero : vector<8xf16>\n%c = llvm.mlir.zero : vector<4xf32>\n"
            "%i = llvm.mlir.constant(0 : i32) : i32\n"
            "%d = rocdl.mfma.f32.16x16x32.f16 %a, %a, %c, %i, %i, %i : (vector<8xf16>, "
            "vector<8xf16>, vector<4xf32>, i32, i32, i32) -> vector<4xf32> "
            'loc("kernels/demo.py":9:0)\nllvm.store volatile %d, %p : vector<4xf32>, !llvm.ptr<1>',
            "the target has no matrix instruction mfma.f32.16x16x32.f16",
        ),
        (
            "%l = llvm.mlir.zero : !llvm.ptr<3>\n"
            "%d = rocdl.ds.read.tr16.b64 %l : !llvm.ptr<3> -> vector<4xf16> "
            'loc("kernels/demo.py":9:0)\nllvm.store volatile %d, %p : vector<4xf16>, !llvm.ptr<1>',
            "the target has no ds.read.tr16.b64",
        ),
        (
            'llvm.inline_asm has_side_effects "s_nop 0", "" : () -> () loc("kernels/demo.py":9:0)',
            "inline assembly cannot be assembled here",
        ),
    ],
)
def test_an_operation_that_the_target_does_not_have(body: str, what: str) -> None:
    with pytest.raises(CompileError, match=rf"^k: kernels/demo\.py:9: {what}"):
        compile_kernel(kernel_text(body), "gfx942", cache=None)


def test_a_matrix_intrinsic_called_by_name_is_checked_too() -> None:
    body = """
%a = llvm.mlir.zero : vector<8xf16>
%c = llvm.mlir.zero : vector<4xf32>
%i = llvm.mlir.constant(0 : i32) : i32
%d = llvm.call_intrinsic "llvm.amdgcn.mfma.f32.16x16x32.f16"(%a, %a, %c, %i, %i, %i) :
  (vector<8xf16>, vector<8xf16>, vector<4xf32>, i32, i32, i32) -> vector<4xf32>
"""
    with pytest.raises(CompileError, match=r"no matrix instruction mfma.f32.16x16x32.f16"):
        compile_kernel(kernel_text(body), "gfx90a", cache=None)
    compile_kernel(kernel_text(body), "gfx950", cache=None)


def test_an_intrinsic_that_llvm_does_not_have() -> None:
    body = """
%x = llvm.call_intrinsic "llvm.amdgcn.unheard"() : () -> i32 loc("kernels/demo.py":9:0)
llvm.store %x, %p : i32, !llvm.ptr<1>
"""
    wanted = r"^k: kernels/demo\.py:9: LLVM has no intrinsic llvm\.amdgcn\.unheard"
    with pytest.raises(CompileError, match=wanted):
        compile_kernel(kernel_text(body), "gfx942", cache=None)


LAST_WORDS = """
import sys
from rocke.compiler import codegen, compile_kernel
from tests.compiler.mlir_sources import kernel_text, lds_kernel
codegen.check_lds = lambda *a: None
call = '%f = llvm.load %p : !llvm.ptr<1> -> f32\\n%x = llvm.call_intrinsic '
call += '"llvm.amdgcn.{}"(%f) : (f32) -> f32\\nllvm.store %x, %p : f32, !llvm.ptr<1>'
kernels = {
    "exit": lds_kernel(70000),
    "abort": kernel_text(call.format("tanh.f32")),
    "crash": kernel_text(call.format("permlane32.swap")),
}
compile_kernel(kernels[sys.argv[1]], "gfx950" if sys.argv[1] == "crash" else "gfx942", cache=None)
print("survived")
"""


@pytest.mark.parametrize(
    ("how", "doing", "words"),
    [
        ("exit", "compiling k for gfx942", "local memory (70000) exceeds limit"),
        ("abort", "compiling k for gfx942", "Cannot select: intrinsic %llvm.amdgcn.tanh"),
        ("crash", "lowering k for gfx950", "LLVM Translation failed"),
    ],
)
def test_a_death_of_the_process_keeps_its_last_words(how: str, doing: str, words: str) -> None:
    """What no check knows beforehand ends the process; the message must not be lost with it."""
    done = subprocess.run(
        [sys.executable, "-c", LAST_WORDS, how],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
    )
    assert done.returncode != 0
    assert done.stdout == ""
    assert f"rocke: LLVM ended the process while {doing}:" in done.stderr
    assert words in done.stderr


def test_standard_error_of_others_passes_through(capfd: pytest.CaptureFixture[str]) -> None:
    from rocke.compiler.stderr_capture import capture_stderr

    with capture_stderr("testing") as captured:
        os.write(2, b"another thread's line\nwarning: an LLVM line\n")
    assert captured.diagnostics == ["warning: an LLVM line"]
    assert capfd.readouterr().err == "another thread's line\n"


def test_targets() -> None:
    with pytest.raises(CompileError, match=r"^k: unknown target 'gfx1100': expected one of gfx90a"):
        compile_kernel(store_ids(), "gfx1100", cache=None)
    with pytest.raises(CompileError, match=r"^k: no target: give arch"):
        compile_kernel(store_ids(), cache=None)
    with pytest.raises(CompileError, match=r"^k: its operations are bound to gfx942.* gfx950$"):
        compile_kernel(store_ids(arch="gfx942"), "gfx950", cache=None)
    with pytest.raises(CompileError, match=r"^k: its operations exist on gfx942, gfx950"):
        compile_kernel(store_ids(targets=("gfx942", "gfx950")), "gfx90a", cache=None)
    assert compile_kernel(store_ids(arch="gfx942"), cache=None).arch == "gfx942"


def test_a_missing_linker_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toolchain, "LINKER_PACKAGE", "no-such-linker-package")
    with pytest.raises(CompileError, match=r"^no linker: install it with `.* -m pip install ") as e:
        compile_kernel(store_ids(), "gfx950", cache=None)
    assert "\n" not in str(e.value)


def test_another_linker_must_exist_and_run(tmp_path: Path) -> None:
    options = CompileOptions(linker=str(tmp_path / "ld.lld"))
    with pytest.raises(CompileError, match=r"is not an executable file: name an ld.lld"):
        compile_kernel(store_ids(), "gfx950", options=options, cache=None)
    broken = tmp_path / "ld.lld"
    broken.write_text("#!/bin/sh\necho 'this is no linker' >&2; exit 3\n")
    broken.chmod(0o755)
    with pytest.raises(CompileError, match=r"^k: linking failed: this is no linker$"):
        compile_kernel(store_ids(), "gfx950", options=options, cache=None)


def test_a_temporary_folder_that_cannot_be_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "missing"))
    with pytest.raises(CompileError, match=r"^k: linking failed in the temporary folder .*missing"):
        compile_kernel(store_ids(), "gfx950", cache=None)


def test_another_linker_is_used(tmp_path: Path) -> None:
    pinned = find_linker()
    wrapper = tmp_path / "ld.lld"
    words = " ".join(f"'{w}'" for w in pinned.command)
    wrapper.write_text(f'#!/bin/sh\ntouch "{tmp_path}/used"\nexec {words} "$@"\n')
    wrapper.chmod(0o755)
    options = CompileOptions(linker=str(wrapper))
    code_object = compile_kernel(store_ids(), "gfx950", options=options, cache=None)
    assert (tmp_path / "used").exists()
    assert code_object == compile_kernel(store_ids(), "gfx950", cache=None)


def test_the_declared_parameters_must_be_the_functions() -> None:
    from rocke.compiler.source import ParameterText

    kernel = kernel_text(STORE_IDS, params=(ParameterText("only_one"),))
    with pytest.raises(CompileError, match=r"declares 1 parameters, .* function has 2 arguments"):
        compile_kernel(kernel, "gfx950", cache=None)
