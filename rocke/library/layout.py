"""What an archive of a library holds, entry by entry, by its manifest alone.

Packing writes this, and opening an archive compares with it.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping

from rocke.library.manifest import KernelEntry, Manifest
from rocke.library.naming import package

MANIFEST = "manifest.json"
GROUP = "rocke.libraries"
"""The entry-point group of installed libraries: name -> package that holds the files."""

Layout = Mapping[str, bytes | KernelEntry]
"""Names in their order -> the bytes, or the kernel whose object stands there."""


def zip_layout(manifest: Manifest) -> Layout:
    """A zip: the manifest, then the objects."""
    return _files(manifest, "")


def wheel_layout(manifest: Manifest) -> Layout:
    """A wheel: a package without code that holds the files, and the texts that pip reads."""
    folder = f"{package(manifest.name)}-{manifest.version}.dist-info"
    files: dict[str, bytes | KernelEntry] = {
        f"{package(manifest.name)}/__init__.py": _init(manifest),
        **_files(manifest, f"{package(manifest.name)}/"),
        f"{folder}/METADATA": _metadata(manifest),
        f"{folder}/WHEEL": b"Wheel-Version: 1.0\nGenerator: rocke pack\n"
        b"Root-Is-Purelib: true\nTag: py3-none-any\n",
        f"{folder}/entry_points.txt": (
            f"[{GROUP}]\n{manifest.name} = {package(manifest.name)}\n".encode()
        ),
    }
    record = "".join(f"{name},{_recorded(item)}\n" for name, item in files.items())
    return {**files, f"{folder}/RECORD": f"{record}{folder}/RECORD,,\n".encode()}


def _files(manifest: Manifest, prefix: str) -> dict[str, bytes | KernelEntry]:
    return {
        f"{prefix}{MANIFEST}": manifest.to_bytes(),
        **{f"{prefix}{kernel.file}": kernel for kernel in manifest.kernels},
    }


def _init(manifest: Manifest) -> bytes:
    text = f"Kernels for AMD GPUs: ``rocke.library.KernelLibrary.open({manifest.name!r})``."
    return f'"""{text}"""\n'.encode()


def _metadata(manifest: Manifest) -> bytes:
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


def _recorded(item: bytes | KernelEntry) -> str:
    if isinstance(item, bytes):
        digest, size = hashlib.sha256(item).digest(), len(item)
    else:
        digest, size = bytes.fromhex(item.sha256), item.size
    text = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
    return f"sha256={text},{size}"
