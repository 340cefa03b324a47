"""LLVM half of the compiler: LLVM IR text to optimised IR, assembly and an AMDGPU object file."""

from __future__ import annotations

import posixpath
import re
import threading
from dataclasses import dataclass

import llvmlite.binding as llvm

from rocke.arch import Target
from rocke.compiler.errors import CompileError
from rocke.compiler.options import CompileOptions
from rocke.compiler.source import KernelText
from rocke.compiler.stderr_capture import capture_stderr

TRIPLE = "amdgcn-amd-amdhsa"
LDS_ADDRESS_SPACE = 3

_FILE = re.compile(r'!DIFile\(filename: "(?P<name>[^"]*)", directory: "(?P<folder>[^"]*)"\)')
_INITIALISED = threading.Event()


@dataclass(frozen=True)
class Generated:
    """``object`` is a relocatable AMDGPU ELF file; ``assembly`` is empty unless asked for.

    ``warnings`` are the code generator's own lines.
    """

    optimized_ir: str
    assembly: str
    object: bytes
    warnings: tuple[str, ...]


def generate(
    kernel: KernelText,
    target: Target,
    llvm_ir: str,
    options: CompileOptions,
    *,
    texts: bool = False,
) -> Generated:
    """Optimise and emit; ``texts`` asks for the optimised IR and the assembly too.

    Raises :class:`CompileError` for IR that LLVM refuses and for LDS beyond the target's limit (the
    code generator would end the process).
    """
    _initialise()
    machine = _target_machine(target, options)
    try:
        module = llvm.parse_assembly(_with_metadata(kernel, llvm_ir), llvm.create_context())
    except RuntimeError as error:
        raise CompileError(f"{kernel.name}: LLVM refuses the translated IR: {error}") from None
    module.triple = TRIPLE
    module.data_layout = str(machine.target_data)
    _name_arguments(kernel, module)
    with capture_stderr(f"compiling {kernel.name} for {target.name}") as captured:
        _optimise(module, machine, options)
        check_lds(kernel.name, target, module, machine.target_data)
        # Code generation changes the module, so each emission gets a copy.
        data = machine.emit_object(module.clone())
    assembly = ""
    if texts:
        with capture_stderr(f"printing the assembly of {kernel.name} for {target.name}"):
            assembly = machine.emit_assembly(module.clone())
    return Generated(str(module) if texts else "", assembly, data, tuple(captured.diagnostics))


def _initialise() -> None:
    if not _INITIALISED.is_set():
        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()
        _INITIALISED.set()


def _target_machine(target: Target, options: CompileOptions) -> llvm.TargetMachine:
    return llvm.Target.from_triple(TRIPLE).create_target_machine(
        cpu=target.name, opt=options.opt_level, reloc="pic", codemodel="default"
    )


def _optimise(module: llvm.ModuleRef, machine: llvm.TargetMachine, options: CompileOptions) -> None:
    tuning = llvm.create_pipeline_tuning_options(speed_level=options.opt_level)
    builder = llvm.create_pass_builder(machine, tuning)
    builder.getModulePassManager().run(module, builder)


def _with_metadata(kernel: KernelText, llvm_ir: str) -> str:
    """Add what MLIR cannot say: one path a source file, and the access of each argument."""
    text = _FILE.sub(_joined_file, llvm_ir)
    if not kernel.params:
        return text
    words = ", ".join(f'!"{p.access}"' for p in kernel.params)
    head = re.compile(rf'^(define amdgpu_kernel void @"?{re.escape(kernel.name)}"?\(.*) \{{$', re.M)
    return head.sub(lambda m: f"{m.group(1)} !kernel_arg_access_qual !{{{words}}} {{", text)


def _joined_file(match: re.Match[str]) -> str:
    """A line table drops the folder of the first file only, unless names hold it."""
    name = posixpath.join(match.group("folder"), match.group("name"))
    return f'!DIFile(filename: "{name}", directory: "")'


def _name_arguments(kernel: KernelText, module: llvm.ModuleRef) -> None:
    """Give the arguments the parameters' names; the metadata note then carries them."""
    if not kernel.params:
        return
    arguments = list(module.get_function(kernel.name).arguments)
    if len(arguments) != len(kernel.params):
        raise CompileError(
            f"{kernel.name}: the kernel declares {len(kernel.params)} parameters, its lowered "
            f"function has {len(arguments)} arguments"
        )
    for argument, parameter in zip(arguments, kernel.params, strict=True):
        argument.name = parameter.name


def lds_bytes(module: llvm.ModuleRef, data: llvm.TargetData) -> int:
    """Static LDS of a module in bytes: its LDS variables, packed as the code generator does.

    The most aligned come first; LLVM raises the alignment of each to its size's (2, 4, 8, 16)
    [LLVM AMDGPULowerModuleLDSPass, super-align].
    """
    sizes = []
    for variable in module.global_variables:
        text = str(variable)
        if f"addrspace({LDS_ADDRESS_SPACE})" not in text.split("=", 1)[1][:120]:
            continue
        size = data.get_abi_size(variable.global_value_type)
        declared = re.search(r", align (\d+)", text)
        natural = next((a for limit, a in ((8, 16), (4, 8), (2, 4), (1, 2)) if size > limit), 1)
        sizes.append((max(natural, int(declared.group(1)) if declared else 1), size))
    end = 0
    for align, size in sorted(sizes, reverse=True):
        end = -(-end // align) * align + size
    return end


def check_lds(name: str, target: Target, module: llvm.ModuleRef, data: llvm.TargetData) -> None:
    """Raise :class:`CompileError` when a module needs more LDS than the target has."""
    need = lds_bytes(module, data)
    if need > target.lds_bytes:
        raise CompileError(
            f"{name}: needs {need} bytes of LDS, a workgroup on {target.name} has at most "
            f"{target.lds_bytes}"
        )
