"""A built library to one file, a wheel or a zip: the same library, the same bytes."""

from __future__ import annotations

from pathlib import Path

from rocke.compiler.cache import write_atomically
from rocke.library import naming
from rocke.library.container import MAX_ENTRIES, write_archive
from rocke.library.errors import LibraryError
from rocke.library.layout import Layout, wheel_layout, zip_layout
from rocke.library.library import KernelLibrary


def pack_zip(library: KernelLibrary) -> bytes:
    """The library as a zip: the manifest, then the objects, each checked."""
    return _written(library, zip_layout(library.manifest))


def pack_wheel(library: KernelLibrary) -> bytes:
    """The library as a wheel, which pip installs beside rocke and finds by its name.

    It holds no code: a package with the files, an entry point of the group ``rocke.libraries``, and
    a dependency on rocke's run-time part.
    """
    return _written(library, wheel_layout(library.manifest))


def wheel_name(library: KernelLibrary) -> str:
    """The file name that pip expects."""
    return f"{package_name(library)}-{library.manifest.version}-py3-none-any.whl"


def zip_name(library: KernelLibrary) -> str:
    """The file name of the zip."""
    return f"{library.manifest.name}-{library.manifest.version}.zip"


def package_name(library: KernelLibrary) -> str:
    """The package that a wheel installs."""
    return naming.package(library.manifest.name)


def write_file(path: Path, data: bytes) -> None:
    """Write a file whole or not at all; raises :class:`LibraryError`."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, data)
    except OSError as error:
        raise LibraryError(f"{path} cannot be written: {error.strerror}") from None


def _written(library: KernelLibrary, layout: Layout) -> bytes:
    if len(layout) > MAX_ENTRIES:
        raise LibraryError(f"{library.source}: {len(layout)} files, expected at most {MAX_ENTRIES}")
    return write_archive(
        {
            name: item if isinstance(item, bytes) else library.code_object(item).data
            for name, item in layout.items()
        }
    )
