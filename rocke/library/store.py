"""Where a library's files are: a folder, a zip, a wheel, or an installed wheel."""

from __future__ import annotations

import importlib.util
import os
from importlib import metadata
from pathlib import Path
from typing import Protocol

from rocke.library.container import Archive
from rocke.library.errors import LibraryError
from rocke.library.files import read_file
from rocke.library.layout import GROUP, MANIFEST, wheel_layout, zip_layout
from rocke.library.manifest import MAX_BYTES, KernelEntry, Manifest
from rocke.library.naming import package

STATE = ".rocke-build"
"""The folder of a build folder in which the build keeps its own files."""
UNFINISHED = "unfinished"
"""A file in it: the last build has not ended well."""


class Store(Protocol):
    """The files of one library. ``source`` names it in errors."""

    source: str

    def manifest(self) -> bytes:
        """The bytes of the manifest; raises :class:`LibraryError`."""
        ...

    @property
    def outdated(self) -> bool:
        """Whether a later build into the same folder failed, was interrupted, or still runs."""
        ...

    def check(self, manifest: Manifest) -> None:
        """Refuse files that are missing, of another size, or too many (in archives)."""
        ...

    def read(self, entry: KernelEntry) -> bytes:
        """The bytes of an object, not yet checked; raises :class:`LibraryError`."""
        ...

    def close(self) -> None:
        """Let go of open files; nothing is read afterwards."""
        ...


def open_store(library: str | os.PathLike[str]) -> Store:
    """The store of a path, or of an installed library's name. Raises :class:`LibraryError`.

    A folder or file that is no library hides no installed one.
    """
    path = Path(library)
    entry = find_installed(str(library))
    if entry is not None and not (is_built(path) or is_archive(path)):
        return FolderStore(_package_folder(entry))
    if path.is_dir():
        return FolderStore(path)
    if path.exists():
        return ArchiveStore(path)
    raise LibraryError(not_found(str(library)))


def not_found(library: str) -> str:
    """What is told of a library that is neither a path nor installed."""
    names = ", ".join(installed()) or "none"
    return (
        f"{library}: no such file or folder, and no installed library of that name "
        f"(installed: {names})"
    )


def is_archive(path: Path) -> bool:
    """Whether a path is a file that begins as archives do."""
    try:
        with path.open("rb") as file:
            return file.read(2) == b"PK"
    except OSError:
        return False


def find_installed(name: str) -> metadata.EntryPoint | None:
    """The entry point of an installed library; names are compared as packages' names are."""
    for entry in metadata.entry_points(group=GROUP):
        if package(entry.name) == package(name):
            return entry
    return None


def is_built(folder: Path) -> bool:
    """Whether a folder holds a library, or the beginning of one."""
    return folder.joinpath(MANIFEST).exists() or folder.joinpath(STATE).exists()


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
        if path.exists():
            return read_file(path, MAX_BYTES)
        if self.folder.joinpath(STATE).exists():
            raise LibraryError(f"{self.source}: the build is not finished, run it again")
        raise LibraryError(f"{path}: No such file or directory: not a built library")

    @property
    def outdated(self) -> bool:
        """Whether a later build into the folder failed, was interrupted, or still runs."""
        return self.folder.joinpath(STATE, UNFINISHED).exists()

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
        return read_file(self._path(entry), entry.size)

    def close(self) -> None:
        """No file is held open."""

    def _path(self, entry: KernelEntry) -> Path:
        path = self.folder / entry.file
        if path.is_symlink() or path.parent.is_symlink():
            raise LibraryError(f"{path}: a link, expected a file of the library itself")
        return path


class ArchiveStore:
    """A zip or a wheel of ``rocke pack``, used where it lies."""

    outdated = False

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
        name = self.prefix + MANIFEST
        size = self.archive.size(name)
        if size > MAX_BYTES:
            raise LibraryError(f"{self.source}: {name}: {size} bytes, expected at most {MAX_BYTES}")
        return self.archive.read(name)

    def check(self, manifest: Manifest) -> None:
        """Refuse what ``rocke pack`` would not write for this manifest.

        Every entry but the objects is compared byte by byte; of those the name, the place and the
        size: their bytes are checked when they are read.
        """
        expected = wheel_layout(manifest) if self.prefix else zip_layout(manifest)
        names = self.archive.names
        present = frozenset(names)
        for name in expected:
            if name not in present:
                raise self._fail(f"{name} is missing")
        for name in names:
            if name not in expected:
                raise self._fail(f"{name} does not belong to a library")
        for name, wanted in zip(names, expected, strict=True):
            if name != wanted:
                raise self._fail(f"{name} stands where rocke pack writes {wanted}")
        for name, item in expected.items():
            size = self.archive.size(name)
            if isinstance(item, KernelEntry):
                if size != item.size:
                    raise self._fail(f"{name}: {size} bytes, the manifest says {item.size}")
            elif size != len(item) or self.archive.read(name) != item:
                raise self._fail(f"{name}: not what rocke pack writes for this manifest")

    def read(self, entry: KernelEntry) -> bytes:
        """The bytes of an object, not yet checked; raises :class:`LibraryError`."""
        return self.archive.read(self.prefix + entry.file)

    def close(self) -> None:
        """Close the archive."""
        self.archive.close()

    def _fail(self, what: str) -> LibraryError:
        return LibraryError(f"{self.source}: {what}")
