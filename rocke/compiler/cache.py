"""Compiled kernels on disk, under a key of everything that changes their bytes.

One file an entry: 32 bytes SHA-256 of the rest, then MessagePack. Files appear by ``os.replace``,
so many processes can share a folder; two that compile the same kernel write the same bytes.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import tempfile
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgpack

from rocke.compiler.errors import CacheWarning
from rocke.compiler.options import CompileOptions
from rocke.compiler.source import KernelText
from rocke.compiler.toolchain import Linker, fingerprint

_SUFFIX = ".kernel"
_FORMAT = "1"
_PRUNE_EVERY = 64
_UNFINISHED = ".rocke-"
_UNFINISHED_SECONDS = 3600
"""A file that is still unfinished after this time was left by a process that was killed."""


@dataclass(frozen=True)
class CacheEntry:
    """``hsaco`` is the code object's bytes, ``warnings`` what the code generator said."""

    hsaco: bytes
    warnings: tuple[str, ...]


def cache_key(kernel: KernelText, arch: str, options: CompileOptions, linker: Linker) -> str:
    """SHA-256, in hexadecimal, over everything that changes the bytes."""
    parts = {
        "format": _FORMAT,
        "name": kernel.name,
        "mlir": kernel.mlir,
        "attributes": sorted((str(k), repr(v)) for k, v in kernel.attributes.items()),
        "params": [(p.name, p.access, p.type_name, p.qualifier) for p in kernel.params],
        "arch": arch,
        "opt_level": options.opt_level,
        "linker": linker.identity,
        "toolchain": fingerprint(),
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


class CompileCache:
    """A folder of compiled kernels of at most ``max_bytes``; the least recently used go first.

    A folder that cannot be written or a full disk is a :class:`CacheWarning`, once an object, and
    kernels are compiled without it.
    """

    def __init__(self, folder: str | os.PathLike[str], *, max_bytes: int = 1 << 30) -> None:
        if max_bytes <= 0:
            raise ValueError(f"max_bytes is {max_bytes}, expected more than 0")
        self.folder = Path(folder)
        self.max_bytes = max_bytes
        self._warned = False

    def path(self, key: str) -> Path:
        """Where the entry of ``key`` is, or would be."""
        return self.folder / key[:2] / (key[2:] + _SUFFIX)

    def get(self, key: str) -> CacheEntry | None:
        """The entry, or ``None`` when there is none or its bytes are damaged or no entry."""
        path = self.path(key)
        try:
            raw = path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            self._warn("read", error)
            return None
        if hashlib.sha256(raw[32:]).digest() != raw[:32]:
            return None
        with contextlib.suppress(
            OSError
        ):  # a read-only cache serves; only the order of use is lost
            os.utime(path)
        return _entry(raw[32:])

    def put(self, key: str, entry: CacheEntry) -> None:
        """Store an entry; never raises for the file system's troubles."""
        payload = msgpack.packb([entry.hsaco, list(entry.warnings)])
        path = self.path(key)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(path, hashlib.sha256(payload).digest() + payload)
            if int(key[:4], 16) % _PRUNE_EVERY == 0:  # looking at every entry takes time
                self._prune()
        except OSError as error:
            self._warn("written", error)

    def clear(self) -> int:
        """Remove every entry; the number removed."""
        count = 0
        for path, _ in list(self._entries()):
            path.unlink(missing_ok=True)
            count += 1
        return count

    def size(self) -> int:
        """Bytes in use."""
        return sum(stat.st_size for _, stat in self._entries())

    def _entries(self) -> Iterator[tuple[Path, os.stat_result]]:
        for path in self.folder.glob(f"??/*{_SUFFIX}"):
            try:
                yield path, path.stat()
            except FileNotFoundError:
                continue  # another process removed it

    def _prune(self) -> None:
        for path in self.folder.glob(f"??/{_UNFINISHED}*"):
            with contextlib.suppress(OSError):
                if path.stat().st_mtime < time.time() - _UNFINISHED_SECONDS:
                    path.unlink()
        entries = sorted(self._entries(), key=lambda e: e[1].st_mtime_ns)
        excess = sum(stat.st_size for _, stat in entries) - self.max_bytes
        for path, stat in entries:
            if excess <= 0:
                return
            path.unlink(missing_ok=True)
            excess -= stat.st_size

    def _warn(self, what: str, error: OSError) -> None:
        if not self._warned:
            self._warned = True
            warnings.warn(
                f"the compile cache {self.folder} cannot be {what} ({error.strerror or error}): "
                "kernels are compiled without it",
                CacheWarning,
                stacklevel=4,
            )


def _entry(payload: bytes) -> CacheEntry | None:
    """The entry of a file whose digest is right; ``None`` if another program wrote it."""
    try:
        hsaco, said = msgpack.unpackb(payload)
        texts = tuple(said)
    except (ValueError, TypeError, msgpack.UnpackException):
        return None
    right = isinstance(hsaco, bytes) and all(isinstance(text, str) for text in texts)
    return CacheEntry(hsaco, texts) if right else None


def write_atomically(path: Path, data: bytes, *, unfinished: Path | None = None) -> None:
    """Write a file so that readers see the old bytes or all of the new ones.

    The bytes are collected in the folder ``unfinished`` of the same file system (default: beside
    ``path``). Raises ``OSError`` that names ``path``.
    """
    try:
        _write_and_replace(path, data, unfinished or path.parent)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error


def _write_and_replace(path: Path, data: bytes, folder: Path) -> None:
    handle, temporary = tempfile.mkstemp(dir=folder, prefix=_UNFINISHED)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


@functools.cache
def _umask() -> int:
    mask = os.umask(0o022)
    os.umask(mask)
    return mask


def default_folder() -> Path:
    """``rocke/kernels`` in the user's cache folder (``XDG_CACHE_HOME``, else ``~/.cache``)."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    if os.path.isabs(base):
        return Path(base, "rocke", "kernels")
    try:
        return Path.home() / ".cache" / "rocke" / "kernels"
    except RuntimeError:  # a user without a home folder: every use fails, and warns
        return Path(os.devnull, "no-home-folder", "rocke")


@functools.cache
def default_cache() -> CompileCache:
    """The cache that :func:`rocke.compiler.compile_kernel` uses unless told otherwise."""
    return CompileCache(default_folder())
