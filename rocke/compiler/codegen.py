"""LLVM half of the compiler: LLVM IR text to optimised IR, assembly and an AMDGPU object file."""

from __future__ import annotations

import posixpath
import re
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import llvmlite.binding as llvm
from llvmlite.binding.newpassmanagers import NewPassManager

from rocke.arch import Target
from rocke.compiler.errors import CompileError
from rocke.compiler.options import CompileOptions
from rocke.compiler.source import KernelText
from rocke.compiler.stderr_capture import capture_stderr

TRIPLE = "amdgcn-amd-amdhsa"

_FILE = re.compile(r'!DIFile\(filename: "(?P<name>[^"]*)", directory: "(?P<folder>[^"]*)"\)')
_LDS_VARIABLE = re.compile(r"@[^=]+=[^@]*\baddrspace\(3\)[^@]*\b(?:global|constant)\b")
_ALIGN = re.compile(r", align (\d+)")
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
    doing = f"compiling {kernel.name} for {target.name}"
    with (
        _target_machine(target, options) as machine,
        _parsed(kernel, llvm_ir) as module,
    ):
        module.triple = TRIPLE
        module.data_layout = str(machine.target_data)
        _name_arguments(kernel, module)
        with capture_stderr(doing) as captured:
            _optimise(module, machine, options)
            check_lds(kernel.name, target, module, machine.target_data)
            # Code generation changes the module, so each emission gets a copy; also where there is
            # one only, since a module and its copy are not emitted to the same bytes.
            with module.clone() as copy:
                data = machine.emit_object(copy)
        if not texts:
            return Generated("", "", data, tuple(captured.diagnostics))
        with capture_stderr(doing), module.clone() as copy:
            assembly = machine.emit_assembly(copy)
        return Generated(str(module), assembly, data, tuple(captured.diagnostics))


@contextmanager
def _parsed(kernel: KernelText, llvm_ir: str) -> Iterator[llvm.ModuleRef]:
    """The module, in a context of its own; both are freed here, in the only order that is safe.

    Left to the garbage collector, the context may go first, and freeing the module then crashes.
    """
    with llvm.create_context() as context:
        try:
            module = llvm.parse_assembly(_with_metadata(kernel, llvm_ir), context)
        except RuntimeError as error:
            raise CompileError(f"{kernel.name}: LLVM refuses the translated IR: {error}") from None
        with module:
            yield module


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
    with (
        llvm.create_pass_builder(machine, tuning) as builder,
        _pass_manager(builder) as manager,
    ):
        manager.run(module, builder)


@contextmanager
def _pass_manager(builder: llvm.PassBuilder) -> Iterator[llvm.ModulePassManager]:
    manager = builder.getModulePassManager()
    try:
        yield manager
    finally:
        # close() frees nothing: the empty _dispose of its first base class wins.
        NewPassManager._dispose(manager)
        manager.detach()


def _with_metadata(kernel: KernelText, llvm_ir: str) -> str:
    """Add what MLIR cannot say: one path a source file, and facts of each argument."""
    text = _FILE.sub(_joined_file, llvm_ir)
    if not kernel.params:
        return text
    said = {
        "access_qual": [p.access for p in kernel.params],
        "type": [p.type_name for p in kernel.params],
        "type_qual": [p.qualifier for p in kernel.params],
    }
    nodes = " ".join(f"!kernel_arg_{key} !{{{_strings(words)}}}" for key, words in said.items())
    head = re.compile(rf'^(define amdgpu_kernel void @"?{re.escape(kernel.name)}"?\(.*) \{{$', re.M)
    return head.sub(lambda m: f"{m.group(1)} {nodes} {{", text)


def _strings(words: Iterable[str]) -> str:
    return ", ".join(f'!"{word}"' for word in words)


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

    The alignment of each is raised to its size's power of two, 16 at most; the most aligned come
    first, and smaller ones fill the gaps. [LLVM AMDGPULowerModuleLDSPass, OptimizedStructLayout]
    """
    fields = []
    for variable in module.global_variables:
        head, declared = _LDS_VARIABLE.match(str(variable)), _ALIGN.search(str(variable))
        if head is None:
            continue
        size = data.get_abi_size(variable.global_value_type)
        natural = next((a for limit, a in ((8, 16), (4, 8), (2, 4), (1, 2)) if size > limit), 1)
        fields.append((max(natural, int(declared.group(1)) if declared else 1), size))
    fields.sort(reverse=True)
    end = 0
    while fields:
        aligned = -(-end // fields[0][0]) * fields[0][0]
        filler = (f for f in fields if end % f[0] == 0 and end + f[1] <= aligned)
        chosen = next(filler, None)
        if chosen is None:
            end, chosen = aligned, fields[0]
        fields.remove(chosen)
        end += chosen[1]
    return end


def check_lds(name: str, target: Target, module: llvm.ModuleRef, data: llvm.TargetData) -> None:
    """Raise :class:`CompileError` when a module needs more LDS than the target has."""
    need = lds_bytes(module, data)
    if need > target.lds_bytes:
        raise CompileError(
            f"{name}: needs {need} bytes of LDS, a workgroup on {target.name} has at most "
            f"{target.lds_bytes}"
        )
