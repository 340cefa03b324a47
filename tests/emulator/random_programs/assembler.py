"""Assembly text to code objects, by the assembler inside librocmllvm.

The library ends the process on bad input, and does not share a process with the MLIR bindings, so
it runs in a child: ``python assembler.py LIBRARY CPU SOURCE OBJECT``.
"""

from __future__ import annotations

import ctypes
import subprocess
import sys
import tempfile
from pathlib import Path


class AssemblyError(ValueError):
    """The assembler refused the text; its messages."""


def assemble(source: str, arch: str) -> bytes:
    """The linked code object of an assembly file for processor ``arch``."""
    from rocke.emulator.disassembler import library_path

    with tempfile.TemporaryDirectory() as folder:
        text, obj, linked = (Path(folder, n) for n in ("a.s", "a.o", "a.hsaco"))
        text.write_text(source)
        command = [sys.executable, __file__, str(library_path()), arch, str(text), str(obj)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode or "error:" in done.stderr:
            raise AssemblyError(done.stderr or f"the assembler ended with {done.returncode}")
        linker = [sys.executable, "-m", "ziglang", "ld.lld", "-shared", "-o", str(linked), str(obj)]
        subprocess.run(linker, check=True, capture_output=True)
        return linked.read_bytes()


def _main(library: str, cpu: str, source: str, obj: str) -> None:
    llvm = ctypes.CDLL(library)
    for part in ("TargetInfo", "Target", "TargetMC", "AsmPrinter", "AsmParser"):
        getattr(llvm, f"LLVMInitializeAMDGPU{part}")()
    pointer, text = ctypes.c_void_p, ctypes.c_char_p
    for name in ("LLVMModuleCreateWithName", "LLVMCreateTargetMachine"):
        getattr(llvm, name).restype = pointer
    module = pointer(llvm.LLVMModuleCreateWithName(b"programs"))
    triple = b"amdgcn-amd-amdhsa"
    llvm.LLVMSetTarget(module, triple)
    assembly = Path(source).read_bytes()
    llvm.LLVMSetModuleInlineAsm2(module, assembly, ctypes.c_size_t(len(assembly)))
    target, message = pointer(), text()
    if llvm.LLVMGetTargetFromTriple(triple, ctypes.byref(target), ctypes.byref(message)):
        raise SystemExit(message.value)
    llvm.LLVMCreateTargetMachine.argtypes = [pointer, text, text, text, *[ctypes.c_int] * 3]
    machine = pointer(llvm.LLVMCreateTargetMachine(target, triple, cpu.encode(), b"", 0, 2, 0))
    emit = llvm.LLVMTargetMachineEmitToFile
    if emit(machine, module, obj.encode(), 1, ctypes.byref(message)):
        raise SystemExit(message.value)


if __name__ == "__main__":
    _main(*sys.argv[1:])
