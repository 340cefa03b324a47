"""The shared library: C entry points that jump to Python, built on first use and kept.

llvmlite emits the entry points as an object of the host and lld links it, so no C compiler is
needed. Each function that the stand-in has loads its pointer from a table and calls it; a function
whose pointer is null answers that there is no GPU. All other names that ``hip-python`` looks up
call one common pointer with their number. The file lies in the user's cache folder under a digest
of everything that changes it.
"""

from __future__ import annotations

import ctypes
import hashlib
import importlib.util
import os
import subprocess
import tempfile
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from rocke.emulator.hip.errors import HipCode
from rocke.emulator.hip.signatures import PER_THREAD, RETURNS_POINTER, SIGNATURES, UNSUPPORTED
from rocke.runtime.device import DeviceError

SONAME = "libamdhip64.so"
TABLE = "rocke_hip_stand_in"
"""The table's symbol; it tells the stand-in from a real HIP library."""
_DIGEST = "sha256"
_IR_TYPES = {"p": "ptr", "i": "i32", "u": "i32", "z": "i64", "h": "i16", "b": "i8"}
# Addresses are taken as integers: ctypes turns a null pointer into None, integers stay integers.
_C_TYPES = {
    "p": ctypes.c_size_t,
    "z": ctypes.c_size_t,
    "i": ctypes.c_int32,
    "u": ctypes.c_uint32,
    "h": ctypes.c_uint16,
    "b": ctypes.c_uint8,
}


def slots() -> tuple[str, ...]:
    """The table's entries: one a function, and last the one of all unsupported functions."""
    return (*SIGNATURES, "unsupported")


def prototype(name: str) -> Any:
    """The ctypes type of a table entry."""
    parameters = SIGNATURES.get(name, "u")
    result = ctypes.c_size_t if name in RETURNS_POINTER else ctypes.c_int32
    return ctypes.CFUNCTYPE(result, *(_C_TYPES[letter] for letter in parameters))


def library_ir(triple: str) -> str:
    """LLVM IR of the whole library."""
    names = slots()
    parts = [
        f'target triple = "{triple}"',
        f"@{TABLE} = global [{len(names)} x ptr] zeroinitializer",
    ]
    per_thread = {f"{name.removesuffix('_spt')}": name for name in PER_THREAD}
    for index, name in enumerate(names[:-1]):
        parameters = [_IR_TYPES[letter] for letter in SIGNATURES[name]]
        parts.append(_function(name, index, parameters, name in RETURNS_POINTER))
        if name in per_thread:
            parts.append(_function(per_thread[name], index, parameters, False))
    for number, name in enumerate(UNSUPPORTED):
        parts.append(_function(name, len(names) - 1, [], False, f"i32 {number}"))
    return "\n".join(parts)


def _function(
    name: str, slot: int, parameters: Sequence[str], pointer: bool, passed: str = ""
) -> str:
    declared = ", ".join(f"{kind} %a{i}" for i, kind in enumerate(parameters))
    result, absent = ("ptr", "null") if pointer else ("i32", str(int(HipCode.NO_DEVICE)))
    return f"""
define {result} @{name}({declared}) {{
  %slot = getelementptr ptr, ptr @{TABLE}, i64 {slot}
  %target = load atomic ptr, ptr %slot acquire, align 8
  %empty = icmp eq ptr %target, null
  br i1 %empty, label %absent, label %present
present:
  %result = tail call {result} %target({passed or declared})
  ret {result} %result
absent:
  ret {result} {absent}
}}"""


def find_linker() -> tuple[str, ...]:
    """The command of the pinned lld; raises :class:`DeviceError` with what to install."""
    spec = importlib.util.find_spec("ziglang")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        path = Path(folder, "zig")
        if path.is_file():
            return (str(path), "ld.lld")
    raise DeviceError(
        "the HIP stand-in needs a linker once: pip install ziglang, or name an ld.lld "
        "(linker=['/usr/bin/ld.lld'])"
    )


def ensure_library(linker: Sequence[str] | None = None) -> Path:
    """The library's file, built if it is not in the cache.

    ``linker`` is the command of an ``ld.lld`` (the one of ``ziglang`` unless given). Raises
    :class:`DeviceError` when there is no linker, it fails, or no folder can be written.
    """
    key = _key()
    folders = [f for f in (_cache_folder(key),) if f is not None]
    for folder in folders:
        path = folder / SONAME
        if _intact(path):
            return path
    data = _build(linker)
    for folder in folders:
        try:
            return _store(folder, data)
        except OSError:  # a read-only or full cache: a file for this process alone
            continue
    try:
        return _store(Path(tempfile.mkdtemp(prefix="rocke-hip-")), data)
    except OSError as error:
        raise DeviceError(f"the HIP stand-in cannot be written: {error}") from error


def _key() -> str:
    digest = hashlib.sha256()
    for text in (library_ir("host"), os.uname().machine, metadata.version("llvmlite")):
        digest.update(text.encode() + b"\0")
    return digest.hexdigest()[:24]


def _cache_folder(key: str) -> Path | None:
    base = os.environ.get("XDG_CACHE_HOME", "")
    try:
        root = Path(base) if os.path.isabs(base) else Path.home() / ".cache"
        folder = root / "rocke" / "hip" / key
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError):
        return None
    return folder


def _intact(path: Path) -> bool:
    try:
        stated = path.with_name(_DIGEST).read_text()
        return hashlib.sha256(path.read_bytes()).hexdigest() == stated
    except OSError:
        return False


def _store(folder: Path, data: bytes) -> Path:
    for name, content in (
        (_DIGEST, hashlib.sha256(data).hexdigest().encode()),
        (SONAME, data),
    ):
        with tempfile.NamedTemporaryFile(dir=folder, delete=False) as file:
            file.write(content)
        os.replace(file.name, folder / name)
    return folder / SONAME


def _build(linker: Sequence[str] | None) -> bytes:
    import llvmlite.binding as llvm

    command = tuple(linker) if linker else find_linker()
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    triple = llvm.get_process_triple()
    machine = llvm.Target.from_triple(triple).create_target_machine(opt=1, reloc="pic")
    module = llvm.parse_assembly(library_ir(triple), llvm.create_context())
    module.verify()
    with tempfile.TemporaryDirectory(prefix="rocke-hip-") as folder:
        Path(folder, "stand_in.o").write_bytes(machine.emit_object(module))
        flags = ("-shared", "-soname", SONAME, "--no-undefined", "stand_in.o", "-o", SONAME)
        try:
            done = subprocess.run([*command, *flags], cwd=folder, capture_output=True, text=True)
        except OSError as error:
            raise DeviceError(
                f"the HIP stand-in's linker {command[0]} does not run: {error}"
            ) from error
        if done.returncode != 0:
            said = " | ".join((done.stderr + done.stdout).split("\n")).strip(" |")
            raise DeviceError(f"the HIP stand-in was not linked: {said}")
        return Path(folder, SONAME).read_bytes()
