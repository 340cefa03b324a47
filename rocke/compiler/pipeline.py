"""MLIR half of the compiler: kernel text to the LLVM dialect and to LLVM IR text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mlir import ir
from mlir.dialects import llvm as llvm_dialect
from mlir.passmanager import PassManager

from rocke.arch import Target
from rocke.compiler.checks import check_lowered, location_text
from rocke.compiler.errors import CompileError
from rocke.compiler.options import CODE_OBJECT_VERSION
from rocke.compiler.source import KernelText
from rocke.compiler.stderr_capture import capture_stderr

INDEX_BITS = 32
"""Width of ``index`` on the device: address arithmetic in 32 bits costs half of that in 64."""


@dataclass(frozen=True)
class Lowered:
    """``llvm_dialect`` is MLIR text (llvm and rocdl operations only), ``llvm_ir`` LLVM IR text."""

    llvm_dialect: str
    llvm_ir: str


def pass_pipeline(target: Target, mlir: str) -> str:
    """The MLIR passes for a text, in the form that ``mlir-opt --pass-pipeline`` takes.

    Those for dialects that the text does not name are left out.
    """
    chip = target.name
    device = (
        *(("expand-strided-metadata", "lower-affine") if _names(mlir, "memref", "affine") else ()),
        *((f"convert-amdgpu-to-rocdl{{chipset={chip}}}",) if _names(mlir, "amdgpu") else ()),
        "convert-scf-to-cf",
        f"convert-gpu-to-rocdl{{chipset={chip} runtime=HIP index-bitwidth={INDEX_BITS} "
        "use-bare-ptr-memref-call-conv=true}",
        "convert-vector-to-llvm",
        "reconcile-unrealized-casts",
        "canonicalize",
        "cse",
    )
    return f"builtin.module(gpu.module({','.join(device)}),ensure-debug-info-scope-on-llvm-func)"


def _names(mlir: str, *dialects: str) -> bool:
    """Whether operations, types or attributes of a dialect stand in the text; quoted ones too."""
    return any(dialect in mlir for dialect in dialects)


def lower(kernel: KernelText, target: Target, *, texts: bool = False) -> Lowered:
    """Lower a kernel's MLIR text in a context of its own, so that threads do not meet.

    Without ``texts`` the text of the LLVM dialect is left empty: printing it takes time.

    Raises :class:`CompileError` for text that does not parse or verify, for a module without
    exactly one ``gpu.module`` that holds the kernel, and as
    :func:`rocke.compiler.checks.check_lowered`.
    """
    # Most errors raise; but a pass or the translation may also crash after printing why.
    with capture_stderr(f"lowering {kernel.name} for {target.name}"), ir.Context() as context:
        context.enable_multithreading(False)
        try:
            module = ir.Module.parse(kernel.mlir)
        except ir.MLIRError as error:
            raise _failed(kernel, "the MLIR text is refused", error) from None
        try:
            PassManager.parse(pass_pipeline(target, kernel.mlir)).run(module.operation)
        except ir.MLIRError as error:
            raise _failed(kernel, f"lowering for {target.name} failed", error) from None
        device = _device_module(kernel, module)
        check_lowered(kernel, target, device)
        function = _kernel_function(kernel, device)
        _set_function_attributes(kernel, function)
        _pin_code_object_version(device)
        text = module.operation.get_asm(enable_debug_info=True) if texts else ""
        return Lowered(text, llvm_dialect.translate_module_to_llvmir(device))


def _failed(kernel: KernelText, what: str, error: ir.MLIRError) -> CompileError:
    parts = []
    for diagnostic in error.error_diagnostics:
        notes = "".join(f"; {n.message}" for n in diagnostic.notes)
        parts.append(f"{location_text(diagnostic.location)}: {diagnostic.message}{notes}")
    return CompileError(f"{kernel.name}: {what}: " + " | ".join(parts or [str(error)]))


def _device_module(kernel: KernelText, module: ir.Module) -> ir.Operation:
    found = [op.operation for op in module.body.operations if op.operation.name == "gpu.module"]
    if len(found) != 1:
        raise CompileError(
            f"{kernel.name}: the module holds {len(found)} gpu.module operations, expected one"
        )
    return found[0]


def _kernel_function(kernel: KernelText, device: ir.Operation) -> ir.Operation:
    functions = [
        op.operation
        for op in device.regions[0].blocks[0].operations
        if op.operation.name == "llvm.func" and "rocdl.kernel" in op.operation.attributes
    ]
    names = [ir.StringAttr(f.attributes["sym_name"]).value for f in functions]
    if names != [kernel.name]:
        there = ", ".join(names) or "none"
        raise CompileError(f"{kernel.name}: the module holds the kernels: {there}")
    return functions[0]


def _set_function_attributes(kernel: KernelText, function: ir.Operation) -> None:
    attributes: Any = function.attributes
    size = kernel.max_workgroup_size
    if size is not None and "rocdl.flat_work_group_size" not in attributes:
        attributes["rocdl.flat_work_group_size"] = ir.StringAttr.get(f"1,{size}")
    required = kernel.required_workgroup_size
    if required is not None and "rocdl.reqd_work_group_size" not in attributes:
        attributes["rocdl.reqd_work_group_size"] = ir.DenseI32ArrayAttr.get(list(required))
    waves = kernel.waves_per_eu
    if waves is not None and "rocdl.waves_per_eu" not in attributes:
        text = ",".join(str(w) for w in waves if w is not None)
        pair = ir.ArrayAttr.get([ir.StringAttr.get(t) for t in ("amdgpu-waves-per-eu", text)])
        before = (
            list(ir.ArrayAttr(attributes["passthrough"])) if "passthrough" in attributes else []
        )
        attributes["passthrough"] = ir.ArrayAttr.get([*before, pair])


def _pin_code_object_version(device: ir.Operation) -> None:
    version = f'"amdhsa_code_object_version", {CODE_OBJECT_VERSION}00 : i32'
    flag = f"#llvm.mlir.module_flag<error, {version}>"
    with ir.InsertionPoint.at_block_begin(device.regions[0].blocks[0]), device.location:
        ir.Operation.create(
            "llvm.module_flags", attributes={"flags": ir.Attribute.parse(f"[{flag}]")}
        )
