"""Where a library's files are: a folder, a zip, a wheel, or an installed wheel."""

from __future__ import annotations

import importlib.util
import mmap
import os
from importlib import metadata
from pathlib import Path
from typing import Protocol

from rocke.library.container import Archive
from rocke.library.errors import LibraryError
from rocke.library.manifest import MAX_BYTES, KernelEntry, Manifest

MANIFEST = "manifest.json"
GROUP = "rocke.libraries"
"""The entry-point group of installed libraries: name -> package that holds the files."""
DIST_INFO = ("METADATA", "WHEEL", "entry_points.txt", "RECORD")


class Store(Protocol):
    """The files of one library. ``source`` names it in errors."""

    source: str

    def manifest(self) -> bytes:
        """The bytes of the manifest; raises :class:`LibraryError`."""
        ...

    def check(self, manifest: Manifest) -> None:
        """Refuse files that are missing, of another size, or too many (in archives)."""
        ...

    def read(self, entry: KernelEntry) -> bytes:
        """The bytes of an object, not yet checked; raises :class:`LibraryError`."""
        ...


def open_store(library: str | os.PathLike[str]) -> Store:
    """The store of a path, or of an installed library's name. Raises :class:`LibraryError`."""
    path = Path(library)
    if path.is_dir():
        return FolderStore(path)
    if path.exists():
        return ArchiveStore(path)
    for entry in metadata.entry_points(group=GROUP):
        if entry.name == str(library):
            return FolderStore(_package_folder(entry))
    names = ", ".join(installed()) or "none"
    raise LibraryError(
        f"{library}: no such file or folder, and no installed library of that name "
        f"(installed: {names})"
    )


def installed() -> tuple[str, ...]:
    """The names of the installed libraries."""
    return tuple(sorted({entry.name for entry in metadata.entry_points(group=GROUP)}))


def _package_folder(entry: metadata.EntryPoint) -> Path:
    """The folder of an installed library; its package is not imported: nothing of it runs."""
    if "." in entry.module or entry.attr:
        raise LibraryError(f"library {entry.name}: entry point {entry.value!r} is no package")
    spec = importlib.util.find_spec(entry.module)
    folders = [] if spec is None else list(spec.submodule_search_locations or ())
    if not folders:
        raise LibraryError(f"library {entry.name}: its package {entry.module!r} is not installed")
    return Path(folders[0])


class FolderStore:
    """A build folder, or the package of an installed wheel."""

    def __init__(self, folder: Path) -> None:
        self.source = str(folder)
        self.folder = folder.resolve()

    def manifest(self) -> bytes:
        """The bytes of the manifest; raises :class:`LibraryError`."""
        path = self.folder / MANIFEST
        try:
            size = path.stat().st_size
            if size > MAX_BYTES:
                raise LibraryError(f"{path}: {size} bytes, expected at most {MAX_BYTES}")
            return path.read_bytes()
        except OSError as error:
            raise LibraryError(f"{path}: {error.strerror}: not a built library") from None

    def check(self, manifest: Manifest) -> None:
        """Refuse objects that are missing, of another size, or links out of the folder."""
        for entry in manifest.kernels:
            path = self._path(entry)
            try:
                size = path.stat().st_size
            except OSError as error:
                raise LibraryError(f"{path}: {error.strerror}") from None
            if size != entry.size:
                raise LibraryError(f"{path}: {size} bytes, the manifest says {entry.size}")

    def read(self, entry: KernelEntry) -> bytes:
        """The bytes of an object, not yet checked; raises :class:`LibraryError`."""
        path = self._path(entry)
        try:
            with (
                path.open("rb") as file,
                mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped,
            ):
                return mapped[:]
        except ValueError:
            raise LibraryError(f"{path}: the file is empty") from None
        except OSError as error:
            raise LibraryError(f"{path}: {error.strerror}") from None

    def _path(self, entry: KernelEntry) -> Path:
        path = self.folder / entry.file
        if path.is_symlink() or path.parent.is_symlink():
            raise LibraryError(f"{path}: a link, expected a file of the library itself")
        return path


class ArchiveStore:
    """A zip or a wheel of ``rocke pack``, used where it lies."""

    def __init__(self, path: Path) -> None:
        self.source = str(path)
        try:
            self.archive = Archive(path)
        except OSError as error:
            raise LibraryError(f"{path}: {error.strerror}") from None
        manifests = [n for n in self.archive.names if n.split("/")[-1] == MANIFEST]
        if len(manifests) != 1 or manifests[0].count("/") > 1:
            raise LibraryError(f"{path}: {len(manifests)} manifests: not a library of rocke pack")
        self.prefix = manifests[0][: -len(MANIFEST)]

    def manifest(self) -> bytes:
        """The bytes of the manifest; raises :class:`LibraryError`."""
        return self.archive.read(self.prefix + MANIFEST)

    def check(self, manifest: Manifest) -> None:
        """Refuse entries that are missing, of another size, or that the manifest does not name."""
        left = set(self.archive.names) - {self.prefix + MANIFEST}
        for entry in manifest.kernels:
            name = self.prefix + entry.file
            if name not in left:
                raise LibraryError(f"{self.source}: {name} is missing")
            left.remove(name)
            size = self.archive.size(name)
            if size != entry.size:
                raise LibraryError(
                    f"{self.source}: {name}: {size} bytes, the manifest says {entry.size}"
                )
        for name in sorted(left):
            if not self._known(name):
                raise LibraryError(f"{self.source}: {name} does not belong to a library")
            self.archive.read(name)

    def read(self, entry: KernelEntry) -> bytes:
        """The bytes of an object, not yet checked; raises :class:`LibraryError`."""
        return bytes(self.archive.view(self.prefix + entry.file))

    def _known(self, name: str) -> bool:
        """What a wheel holds besides the library."""
        if not self.prefix:
            return False
        folder, _, file = name.rpartition("/")
        if folder.endswith(".dist-info"):
            return "/" not in folder and file in DIST_INFO
        return name == self.prefix + "__init__.py"
