"""A built library to one file, a wheel or a zip: the same library, the same bytes."""

from __future__ import annotations

import base64
import hashlib
import re
from pathlib import Path

from rocke.compiler.cache import write_atomically
from rocke.library.container import MAX_ENTRIES, write_archive
from rocke.library.errors import LibraryError
from rocke.library.library import KernelLibrary
from rocke.library.store import GROUP, MANIFEST


def pack_zip(library: KernelLibrary) -> bytes:
    """The library as a zip: the manifest, then the objects, each checked."""
    return write_archive(_files(library, ""))


def pack_wheel(library: KernelLibrary) -> bytes:
    """The library as a wheel, which pip installs beside rocke and finds by its name.

    It holds no code: a package with the files, an entry point of the group ``rocke.libraries``, and
    a dependency on rocke's run-time part.
    """
    manifest = library.manifest
    package = package_name(library)
    files = {f"{package}/__init__.py": _init(library), **_files(library, f"{package}/")}
    folder = f"{package}-{manifest.version}.dist-info"
    files |= {
        f"{folder}/METADATA": _metadata(library),
        f"{folder}/WHEEL": b"Wheel-Version: 1.0\nGenerator: rocke pack\n"
        b"Root-Is-Purelib: true\nTag: py3-none-any\n",
        f"{folder}/entry_points.txt": f"[{GROUP}]\n{manifest.name} = {package}\n".encode(),
    }
    record = "".join(f"{name},sha256={_digest(data)},{len(data)}\n" for name, data in files.items())
    files[f"{folder}/RECORD"] = f"{record}{folder}/RECORD,,\n".encode()
    if len(files) > MAX_ENTRIES:
        raise LibraryError(f"{library.source}: {len(files)} files, expected at most {MAX_ENTRIES}")
    return write_archive(files)


def wheel_name(library: KernelLibrary) -> str:
    """The file name that pip expects."""
    return f"{package_name(library)}-{library.manifest.version}-py3-none-any.whl"


def zip_name(library: KernelLibrary) -> str:
    """The file name of the zip."""
    return f"{library.manifest.name}-{library.manifest.version}.zip"


def package_name(library: KernelLibrary) -> str:
    """The package that a wheel installs."""
    return re.sub(r"[-_.]+", "_", library.manifest.name).lower()


def write_file(path: Path, data: bytes) -> None:
    """Write a file whole or not at all; raises :class:`LibraryError`."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, data)
    except OSError as error:
        raise LibraryError(f"{path} cannot be written: {error.strerror}") from None


def _files(library: KernelLibrary, prefix: str) -> dict[str, bytes]:
    files = {f"{prefix}{MANIFEST}": library.manifest.to_bytes()}
    for kernel in library.kernels:
        files[f"{prefix}{kernel.entry.file}"] = kernel.code_object().data
    return files


def _init(library: KernelLibrary) -> bytes:
    name = library.manifest.name
    text = f"Kernels for AMD GPUs: ``rocke.library.KernelLibrary.open({name!r})``."
    return f'"""{text}"""\n'.encode()


def _metadata(library: KernelLibrary) -> bytes:
    manifest = library.manifest
    targets = ", ".join(dict.fromkeys(k.arch for k in manifest.kernels))
    lines = [
        "Metadata-Version: 2.1",
        f"Name: {manifest.name}",
        f"Version: {manifest.version}",
        f"Summary: {manifest.description or f'Kernels for {targets}'}",
        "Requires-Python: >=3.10",
        f"Requires-Dist: rocke>={manifest.rocke}",
    ]
    return ("\n".join(lines) + "\n").encode()


def _digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
