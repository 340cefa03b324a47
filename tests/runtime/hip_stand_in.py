"""A small ``libamdhip64.so`` for tests: hip-python opens it by name, Python answers the calls.

The library is emitted for the host by llvmlite and linked by lld. Every exported function jumps
through a slot; the slots hold ctypes callbacks, which keep device memory in host memory.
"""

from __future__ import annotations

import ctypes
import random
import string
import subprocess
import sys
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm

I, U, P, Z = "i32", "i32", "ptr", "i64"
FUNCTIONS: dict[str, tuple[str, ...]] = {
    "hipGetDeviceCount": (P,),
    "hipSetDevice": (I,),
    "hipGetDevicePropertiesR0600": (P, I),
    "hipMalloc": (P, Z),
    "hipFree": (P,),
    "hipMemcpy": (P, P, Z, I),
    "hipModuleLoadData": (P, P),
    "hipModuleUnload": (P,),
    "hipModuleGetFunction": (P, P, P),
    "hipModuleLaunchKernel": (P, U, U, U, U, U, U, U, P, P, P),
    "hipDeviceSynchronize": (),
    "hipRuntimeGetVersion": (P,),
    "hipGetErrorString": (I,),
}
CTYPES = {"i32": ctypes.c_uint32, "ptr": ctypes.c_void_p, "i64": ctypes.c_size_t}
INVALID_VALUE, INVALID_DEVICE, NOT_FOUND, LAUNCH_FAILURE = 1, 101, 500, 719


def result_type(name: str) -> str:
    return "ptr" if name == "hipGetErrorString" else "i32"


def build_library(folder: Path) -> Path:
    lines = [f'target triple = "{llvm.get_process_triple()}"']
    for name, parameters in FUNCTIONS.items():
        result = result_type(name)
        declared = ", ".join(f"{t} %{i}" for i, t in enumerate(parameters))
        lines += [
            f"@slot_{name} = global ptr null",
            f"define {result} @{name}({declared}) {{",
            f"  %f = load ptr, ptr @slot_{name}",
            f"  %r = call {result} %f({declared})",
            f"  ret {result} %r",
            "}",
        ]
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine(reloc="pic")
    built = folder / "stand_in.o"
    built.write_bytes(machine.emit_object(llvm.parse_assembly("\n".join(lines))))
    library = folder / "libamdhip64.so"
    linker = [sys.executable, "-m", "ziglang", "ld.lld", "-shared", "-soname", library.name]
    subprocess.run([*linker, "-o", str(library), str(built)], check=True)
    return library


class StandIn:
    """A device of one GPU; ``launched`` holds (symbol, grid, block, LDS, argument bytes)."""

    def __init__(self, library: Path, target: str = "gfx942:sramecc+:xnack-") -> None:
        self.target = target.encode()
        self.memory: dict[int, Any] = {}
        self.handles: dict[int, Any] = {}
        self.launched: list[tuple[Any, ...]] = []
        self.fail_synchronize = False
        self.fail_next = 0
        self._loaded = ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL)
        self._kept = []
        for name, parameters in FUNCTIONS.items():
            kind = ctypes.CFUNCTYPE(
                CTYPES[result_type(name)], *(CTYPES[parameter] for parameter in parameters)
            )
            callback = kind(getattr(self, name))
            slot = ctypes.c_void_p.in_dll(self._loaded, f"slot_{name}")
            slot.value = ctypes.cast(callback, ctypes.c_void_p).value
            self._kept.append(callback)

    def hipGetDeviceCount(self, count):
        ctypes.c_int.from_address(count).value = 1
        return 0

    def hipSetDevice(self, index):
        return 0 if index == 0 else INVALID_DEVICE

    def hipGetDevicePropertiesR0600(self, properties, index):
        name_at, target_at = property_offsets()
        ctypes.memmove(properties + name_at, b"Stand-in\0", 9)
        ctypes.memmove(properties + target_at, self.target + b"\0", len(self.target) + 1)
        return 0

    def hipMalloc(self, out, nbytes):
        if nbytes > 1 << 30:
            return 2
        block = (ctypes.c_uint8 * (nbytes + 256))()
        address = (ctypes.addressof(block) + 255) & ~255
        self.memory[address] = block
        ctypes.c_void_p.from_address(out).value = address
        return 0

    def hipFree(self, address):
        return 0 if self.memory.pop(address, None) is not None else INVALID_VALUE

    def hipMemcpy(self, destination, source, nbytes, kind):
        device = {1: destination, 2: source}.get(kind)
        if device not in self.memory:
            return INVALID_VALUE
        ctypes.memmove(destination, source, nbytes)
        return 0

    def hipModuleLoadData(self, out, image):
        handle = 0x1000 + len(self.handles)
        self.handles[handle] = ctypes.string_at(image, 12)
        ctypes.c_void_p.from_address(out).value = handle
        return 0

    def hipModuleUnload(self, module):
        return 0 if self.handles.pop(module, None) is not None else 400

    def hipModuleGetFunction(self, out, module, name):
        symbol = ctypes.string_at(name)
        if module not in self.handles or symbol == b"absent":
            return NOT_FOUND
        handle = 0x9000 + len(self.handles)
        self.handles[handle] = symbol
        ctypes.c_void_p.from_address(out).value = handle
        return 0

    def hipModuleLaunchKernel(self, function, gx, gy, gz, bx, by, bz, lds, stream, params, extra):
        words = (ctypes.c_size_t * 5).from_address(extra)
        if params or (words[0], words[2], words[4]) != (1, 2, 3):
            return INVALID_VALUE
        size = ctypes.c_size_t.from_address(words[3]).value
        arguments = ctypes.string_at(words[1], size)
        grid, block = (gx, gy, gz), (bx, by, bz)
        self.launched.append((self.handles[function].decode(), grid, block, lds, arguments))
        return 0

    def hipDeviceSynchronize(self):
        return LAUNCH_FAILURE if self.fail_synchronize else 0

    def hipRuntimeGetVersion(self, out):
        ctypes.c_int.from_address(out).value = 70_226_015
        return 0

    def hipGetErrorString(self, error):
        self._text = ctypes.create_string_buffer(b"error %d of the stand-in" % error)
        return ctypes.addressof(self._text)


def property_offsets() -> tuple[int, int]:
    """Where ``name`` and ``gcnArchName`` are in ``hipDeviceProp_t``: found by reading a pattern."""
    from hip import hip

    pattern = random.Random(1).choices(string.ascii_letters.encode(), k=4096)
    buffer = (ctypes.c_uint8 * 4096)(*pattern)
    properties = hip.hipDeviceProp_t.fromObj(ctypes.addressof(buffer))
    raw = bytes(buffer)
    return tuple(
        raw.find(as_bytes(getattr(properties, field))[:24]) for field in ("name", "gcnArchName")
    )


def as_bytes(value: str | bytes) -> bytes:
    return value.encode() if isinstance(value, str) else value
