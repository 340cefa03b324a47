"""KernelDef to code object: MLIR passes, LLVM code generation, linking, and a cache on disk.

The names are loaded at first use: reading code objects needs neither MLIR nor LLVM.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rocke.compiler.cache import CompileCache as CompileCache
    from rocke.compiler.cache import default_cache as default_cache
    from rocke.compiler.code_object import CodeObject as CodeObject
    from rocke.compiler.code_object import CodeObjectError as CodeObjectError
    from rocke.compiler.code_object import KernelArgument as KernelArgument
    from rocke.compiler.code_object import KernelInfo as KernelInfo
    from rocke.compiler.driver import Stages as Stages
    from rocke.compiler.driver import compile_kernel as compile_kernel
    from rocke.compiler.driver import compile_stages as compile_stages
    from rocke.compiler.errors import CacheWarning as CacheWarning
    from rocke.compiler.errors import CompileError as CompileError
    from rocke.compiler.errors import CompileWarning as CompileWarning
    from rocke.compiler.errors import SpillWarning as SpillWarning
    from rocke.compiler.options import CompileOptions as CompileOptions
    from rocke.compiler.source import KernelText as KernelText
    from rocke.compiler.source import ParameterText as ParameterText
    from rocke.compiler.worker import CompileWorker as CompileWorker
    from rocke.compiler.worker import compile_in_worker as compile_in_worker

_HOME = {
    "CacheWarning": "errors",
    "CodeObject": "code_object",
    "CodeObjectError": "code_object",
    "CompileCache": "cache",
    "CompileError": "errors",
    "CompileOptions": "options",
    "CompileWarning": "errors",
    "CompileWorker": "worker",
    "KernelArgument": "code_object",
    "KernelInfo": "code_object",
    "KernelText": "source",
    "ParameterText": "source",
    "SpillWarning": "errors",
    "Stages": "driver",
    "compile_in_worker": "worker",
    "compile_kernel": "driver",
    "compile_stages": "driver",
    "default_cache": "cache",
}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
