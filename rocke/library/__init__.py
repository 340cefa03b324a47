"""Kernel libraries: built ahead of time from a catalogue, packaged, selected without a compiler.

Building: :class:`Catalogue`, :func:`build_library`. Packaging: :func:`pack_zip`,
:func:`pack_wheel`, :func:`c_header`. At run time: :class:`KernelLibrary`.

The names are loaded at first use; those of the run time need neither MLIR nor LLVM.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rocke.library.build import Report as Report
    from rocke.library.build import build_library as build_library
    from rocke.library.catalogue import Catalogue as Catalogue
    from rocke.library.diffing import diff_libraries as diff_libraries
    from rocke.library.errors import BuildError as BuildError
    from rocke.library.errors import CatalogueError as CatalogueError
    from rocke.library.errors import LibraryError as LibraryError
    from rocke.library.errors import NoKernel as NoKernel
    from rocke.library.header import c_header as c_header
    from rocke.library.library import KernelLibrary as KernelLibrary
    from rocke.library.library import LibraryKernel as LibraryKernel
    from rocke.library.manifest import Manifest as Manifest
    from rocke.library.pack import pack_wheel as pack_wheel
    from rocke.library.pack import pack_zip as pack_zip
    from rocke.library.verifying import verify_library as verify_library

_HOME = {
    "BuildError": "errors",
    "Catalogue": "catalogue",
    "CatalogueError": "errors",
    "KernelLibrary": "library",
    "LibraryError": "errors",
    "LibraryKernel": "library",
    "Manifest": "manifest",
    "NoKernel": "errors",
    "Report": "build",
    "build_library": "build",
    "c_header": "header",
    "diff_libraries": "diffing",
    "pack_wheel": "pack",
    "pack_zip": "pack",
    "verify_library": "verifying",
}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        module = import_module(f"{__name__}.{_HOME[name]}")
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] not in ("mlir", "llvmlite", "ziglang", "tomli"):
            raise
        raise ModuleNotFoundError(
            f"{name} needs {error.name}, which is not installed: pip install 'rocke[compiler]'",
            name=error.name,
        ) from None
    return getattr(module, name)
