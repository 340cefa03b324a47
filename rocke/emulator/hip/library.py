"""The shared library: C entry points that jump to Python, built on first use and kept.

llvmlite emits the entry points as an object of the host and lld links it, so no C compiler is
needed. Each function that the stand-in has takes its Python object from a table and calls it; a
function whose object is null answers that there is no GPU. All other names that ``hip-python``
looks up call one common object with their number. The file lies in the user's cache folder under a
digest of everything that changes it.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import subprocess
import tempfile
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

from rocke.emulator.hip.entry_points import library_ir
from rocke.runtime.device import DeviceError

SONAME = "libamdhip64.so"
_DIGEST = "sha256"


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
