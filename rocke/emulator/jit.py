"""Host code: compiles LLVM IR text by llvmlite and keeps the objects in the user's cache folder.

Helpers and the native executor are compiled at level 3 and shared by all kernels of the process;
those that a kernel lacks are compiled together, as one *batch*. The code of a kernel's blocks is
only calls, and compiled at level 0.

On disk: one folder for each combination of llvmlite, host processor and source text of the
emulator; in it one file a batch, and one a kernel. A file is complete or absent (written elsewhere,
then renamed) and carries the digest of its object code, so that many processes may use the folder
at once. When the folder cannot be used, everything is compiled again.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import itertools
import json
import os
import shutil
import struct
import tempfile
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import llvmlite
import llvmlite.binding as llvm

from rocke.emulator.checks.runtime import CHECK_SYMBOLS
from rocke.emulator.runtime_ir import RUNTIME_IR
from rocke.emulator.semantics import Helper

_MAGIC = b"ROCKEJIT"
_UNUSED_SECONDS = 14 * 86400.0
_MAX_BYTES = 512 << 20
_RUNTIME_SYMBOLS = ("rk_run", "rk_find_read", "rk_find_write", "rk_fault", *CHECK_SYMBOLS)


class JitError(RuntimeError):
    """Generated code did not compile: an error of the emulator itself."""


class Library:
    """Code in memory. ``addresses`` stay valid as long as the library is referenced."""

    def __init__(self, tracker: llvm.orcjit.ResourceTracker, names: Iterable[str]) -> None:
        self._tracker = tracker
        self.addresses: dict[str, int] = {name: tracker[name] for name in names}


class Jit:
    """The process's compiler of host code; see :func:`jit`."""

    def __init__(self, folder: Path | None) -> None:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        self._lock = threading.RLock()
        self._folder = folder
        self._numbers = itertools.count()
        self._optimising = _target_machine(3)
        self._quick = _target_machine(0)
        self._lljit = llvm.create_lljit_compiler(_target_machine(3), use_jit_link=True)
        self._libraries: list[Library] = []
        self._batches: dict[Path, tuple[str, ...]] = {}
        self.compiled = 0
        """Helpers compiled by this process, for tests and benchmarks."""
        self.addresses: dict[str, int] = {}
        self._load_runtime()

    def helpers(self, helpers: Sequence[Helper]) -> dict[str, int]:
        """The addresses of helpers by name, compiling those that are not known yet."""
        with self._lock:
            missing = {h.name: h for h in helpers if h.name not in self.addresses}
            if missing:
                self._load_batches(missing)
                rest = [h for name, h in missing.items() if name not in self.addresses]
                if rest:
                    self._compile_batch(rest)
            return {h.name: self.addresses[h.name] for h in helpers}

    def blocks(self, ir: str, names: Sequence[str], helpers: Mapping[str, int]) -> Library:
        """Load the functions ``names`` of a module that calls ``helpers``."""
        with self._lock:
            stem = f"kernel-{hashlib.sha256(ir.encode()).hexdigest()[:40]}"
            data = self._read(stem, names) or self._compile(ir, self._quick)
            self._write(stem, names, data)
            return self._link(data, names, helpers)

    def _load_runtime(self) -> None:
        data = self._read("runtime", _RUNTIME_SYMBOLS)
        if data is None:
            data = self._compile(RUNTIME_IR, self._optimising)
            self._write("runtime", _RUNTIME_SYMBOLS, data)
        library = self._link(data, _RUNTIME_SYMBOLS, {})
        self._libraries.append(library)
        self.runtime = library.addresses

    def _load_batches(self, missing: Mapping[str, Helper]) -> None:
        if self._folder is None:
            return
        for path in sorted(self._folder.glob("batch-*.obj")):
            if path not in self._batches:
                self._batches[path] = _names_of(path)
            names = self._batches[path]
            if any(n in missing and n not in self.addresses for n in names):
                data = _read_object(path, names)
                if data is not None:
                    self._add_helpers(data, names)

    def _compile_batch(self, helpers: Sequence[Helper]) -> None:
        declares = sorted(frozenset().union(*(h.declares for h in helpers)))
        defined = {f"@{h.name}(" for h in helpers}
        needed = [d for d in declares if not any(name in d for name in defined)]
        ir = "\n".join([*needed, *(h.ir() for h in helpers)])
        names = tuple(h.name for h in helpers)
        data = self._compile(ir, self._optimising, names)
        self.compiled += len(names)
        self._add_helpers(data, names)
        key = hashlib.sha256("\n".join(sorted(names)).encode()).hexdigest()[:24]
        self._write(f"batch-{key}", names, data)

    def _add_helpers(self, data: bytes, names: Sequence[str]) -> None:
        library = self._link(data, names, self.runtime)
        self._libraries.append(library)
        for name, address in library.addresses.items():
            self.addresses.setdefault(name, address)

    def _compile(
        self, ir: str, machine: llvm.targets.TargetMachine, names: Sequence[str] = ()
    ) -> bytes:
        context = llvm.create_context()
        try:
            module = llvm.parse_assembly(ir, context)
            if machine is self._optimising:
                module.verify()
                options = llvm.create_pipeline_tuning_options(speed_level=3)
                builder = llvm.create_pass_builder(machine, options)
                builder.getModulePassManager().run(module, builder)
        except RuntimeError as error:
            what = f" (among {', '.join(names)})" if names else ""
            raise JitError(f"generated code does not compile{what}: {error}") from error
        return bytes(machine.emit_object(module))

    def _link(self, data: bytes, names: Sequence[str], imports: Mapping[str, int]) -> Library:
        builder = llvm.JITLibraryBuilder().add_object_img(data).add_current_process()
        for name, address in imports.items():
            builder.import_symbol(name, address)
        for name in names:
            builder.export_symbol(name)
        try:
            tracker = builder.link(self._lljit, f"rocke{next(self._numbers)}")
        except RuntimeError as error:
            raise JitError(f"generated code does not link: {error}") from error
        return Library(tracker, names)

    def _read(self, stem: str, names: Sequence[str]) -> bytes | None:
        return _read_object(self._folder / f"{stem}.obj", names) if self._folder else None

    def _write(self, stem: str, names: Sequence[str], data: bytes) -> None:
        if self._folder is None:
            return
        path = self._folder / f"{stem}.obj"
        if path.exists():
            return
        if _source_digest() != self._folder.name:  # the sources were edited while we run
            self._folder = None
            return
        digest = hashlib.sha256(data).hexdigest()
        header = json.dumps({"names": list(names), "sha256": digest}).encode()
        try:
            with tempfile.NamedTemporaryFile(dir=self._folder, delete=False) as file:
                file.write(_MAGIC + struct.pack("<I", len(header)) + header + data)
            os.replace(file.name, path)
        except OSError:  # a full or read-only disk costs time, not results
            self._folder = None


def _target_machine(level: int) -> llvm.targets.TargetMachine:
    target = llvm.Target.from_triple(llvm.get_process_triple())
    return target.create_target_machine(
        cpu=llvm.get_host_cpu_name(),
        features=llvm.get_host_cpu_features().flatten(),
        opt=level,
        reloc="pic",
        codemodel="small",
    )


def _header(path: Path) -> tuple[dict[str, object], int] | None:
    """The header of a cache file and where its object begins; ``None`` for a damaged file."""
    try:
        with path.open("rb") as file:
            if file.read(len(_MAGIC)) != _MAGIC:
                return None
            (length,) = struct.unpack("<I", file.read(4))
            header = json.loads(file.read(length))
            return (header, file.tell()) if isinstance(header, dict) else None
    except (OSError, ValueError, struct.error):
        return None


def _names_of(path: Path) -> tuple[str, ...]:
    found = _header(path)
    names = found[0].get("names") if found else None
    return tuple(names) if isinstance(names, list) else ()


def _read_object(path: Path, names: Sequence[str]) -> bytes | None:
    found = _header(path)
    if found is None or found[0].get("names") != list(names):
        return None
    try:
        data = path.read_bytes()[found[1] :]
    except OSError:
        return None
    return data if hashlib.sha256(data).hexdigest() == found[0].get("sha256") else None


def _source_digest() -> str:
    digest = hashlib.sha256()
    here = Path(__file__).parent
    for path in sorted(
        [*here.glob("*.py"), *here.glob("semantics/**/*.py"), *here.glob("checks/*.py")]
    ):
        digest.update(path.name.encode())
        digest.update(path.read_bytes())
    digest.update(llvmlite.__version__.encode())
    digest.update(llvm.get_host_cpu_name().encode())
    digest.update(llvm.get_host_cpu_features().flatten().encode())
    return digest.hexdigest()[:24]


def default_folder() -> Path | None:
    """``rocke/emulator/<digest>`` in the user's cache folder; ``None`` when it cannot be made."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    try:
        root = Path(base) if os.path.isabs(base) else Path.home() / ".cache"
        folder = root / "rocke" / "emulator" / _source_digest()
        folder.mkdir(parents=True, exist_ok=True)
        os.utime(folder)
    except (OSError, RuntimeError):
        return None
    prune(folder)
    return folder


def prune(
    folder: Path, *, unused_seconds: float = _UNUSED_SECONDS, max_bytes: int = _MAX_BYTES
) -> None:
    """Remove old neighbours of ``folder``, and its oldest kernels when it has grown too large.

    Folders of other versions go when no process has opened them for ``unused_seconds``. Files that
    another process removes first, or that may not be removed, are left alone.
    """
    oldest = time.time() - unused_seconds
    for other in folder.parent.iterdir():
        if other != folder and other.is_dir() and _modified(other) < oldest:
            shutil.rmtree(other, ignore_errors=True)
    kernels = sorted(folder.glob("kernel-*.obj"), key=_modified, reverse=True)
    total = 0
    for path in kernels:
        with contextlib.suppress(OSError):
            total += path.stat().st_size
            if total > max_bytes:
                path.unlink()


def _modified(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


_once = threading.Lock()


@functools.cache
def _shared() -> Jit:
    return Jit(default_folder())


def jit() -> Jit:
    """The compiler that all devices of the process share."""
    with _once:
        return _shared()
