"""The compiler's entry functions: a kernel to its code object, or to the text of every stage."""

from __future__ import annotations

import contextlib
import inspect
import os
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from rocke.arch import TARGETS, Target, UnknownTarget
from rocke.arch import target as find_target
from rocke.compiler.cache import (
    CacheEntry,
    CompileCache,
    cache_key,
    default_cache,
    write_atomically,
)
from rocke.compiler.code_object import CodeObject, CodeObjectError, KernelInfo
from rocke.compiler.errors import CompileError, CompileWarning, SpillWarning
from rocke.compiler.options import DEFAULT_OPTIONS, CompileOptions
from rocke.compiler.source import KernelSource, KernelText
from rocke.compiler.toolchain import find_linker


class DefaultCache:
    """The type of the marker for "the default cache"."""


DEFAULT_CACHE: Final = DefaultCache()
"""Asks for :func:`rocke.compiler.default_cache`, looked up at the call."""
_PACKAGE: Final = os.path.join(Path(__file__).parents[1], "")


@dataclass(frozen=True)
class Stages:
    """Every stage of one compilation, as text, and the code object.

    ``object`` is the relocatable object file before linking. ``warnings`` are the code generator's
    own lines.
    """

    name: str
    mlir: str = field(repr=False)
    llvm_dialect: str = field(repr=False)
    llvm_ir: str = field(repr=False)
    optimized_ir: str = field(repr=False)
    assembly: str = field(repr=False)
    object: bytes = field(repr=False)
    code_object: CodeObject
    warnings: tuple[str, ...] = ()

    def write(self, folder: str | os.PathLike[str]) -> tuple[Path, ...]:
        """Write ``<name>.mlir``, ``.ll`` (optimised IR), ``.s`` and ``.hsaco``; returns the paths.

        Each file appears whole or not at all. Makes the folder. Raises ``OSError``.
        """
        base = Path(folder)
        base.mkdir(parents=True, exist_ok=True)
        contents = {
            ".mlir": self.mlir.encode(),
            ".ll": self.optimized_ir.encode(),
            ".s": self.assembly.encode(),
            ".hsaco": self.code_object.data,
        }
        paths = []
        for suffix, data in contents.items():
            path = base / (self.name + suffix)
            write_atomically(path, data)
            paths.append(path)
        return tuple(paths)


def compile_kernel(
    kernel: KernelSource,
    arch: str | None = None,
    *,
    options: CompileOptions = DEFAULT_OPTIONS,
    cache: CompileCache | DefaultCache | None = DEFAULT_CACHE,
) -> CodeObject:
    """Compile a kernel for ``arch`` (or the target that it is bound to).

    ``cache=None`` compiles anew and stores nothing. Warns with
    :class:`~rocke.compiler.SpillWarning` for spills or scratch memory and with
    :class:`~rocke.compiler.CompileWarning` for what the code generator could not honour, from the
    cache as well. Raises :class:`~rocke.compiler.CompileError`.
    """
    text = KernelText.of(kernel)
    target = resolve_target(text, arch)
    return cached(text, target, options, cache, lambda: build(text, target, options))


def cached(
    text: KernelText,
    target: Target,
    options: CompileOptions,
    cache: CompileCache | DefaultCache | None,
    compile_: Callable[[], Stages],
) -> CodeObject:
    """The code object from ``cache``, or by ``compile_``, which is then kept; tells its warnings.

    The warnings name the first caller outside this package.
    """
    linker = find_linker(options.linker)
    store = default_cache() if isinstance(cache, DefaultCache) else cache
    key = cache_key(text, target.name, options, linker) if store is not None else ""
    entry = store.get(key) if store is not None else None
    code_object = None
    if entry is not None:
        with contextlib.suppress(CodeObjectError):  # another program's entry: compiled again
            code_object = CodeObject.from_bytes(entry.hsaco, source=text.name)
    if entry is None or code_object is None:
        stages = compile_()
        entry = CacheEntry(stages.code_object.data, stages.warnings)
        if store is not None:
            store.put(key, entry)
        code_object = stages.code_object
    tell(code_object, entry.warnings)
    return code_object


def compile_stages(
    kernel: KernelSource, arch: str | None = None, *, options: CompileOptions = DEFAULT_OPTIONS
) -> Stages:
    """Compile a kernel and keep the text of every stage; never uses the cache.

    Warns and raises as :func:`compile_kernel`.
    """
    text = KernelText.of(kernel)
    stages = build(text, resolve_target(text, arch), options, texts=True)
    tell(stages.code_object, stages.warnings)
    return stages


def resolve_target(kernel: KernelText, arch: str | None) -> Target:
    """The target to compile for; raises :class:`CompileError` for none, two or an unknown one."""
    culprit = kernel.missing_on(arch) if arch is not None and arch in TARGETS else ""
    if culprit:
        raise CompileError(f"{kernel.name}: {arch} has no {culprit}")
    if arch is not None and kernel.arch is not None and arch != kernel.arch:
        raise CompileError(
            f"{kernel.name}: its operations are bound to {kernel.arch}, it cannot be compiled for "
            f"{arch}"
        )
    name = arch if arch is not None else kernel.arch
    if name is not None and kernel.targets is not None and name not in kernel.targets:
        raise CompileError(
            f"{kernel.name}: its operations exist on {', '.join(kernel.targets)}, it cannot "
            f"be compiled for {name}"
        )
    if name is None:
        raise CompileError(f"{kernel.name}: no target: give arch, for example 'gfx950'")
    try:
        return find_target(name)
    except UnknownTarget as error:
        raise CompileError(f"{kernel.name}: {error}") from None


def build(
    kernel: KernelText, target: Target, options: CompileOptions, *, texts: bool = False
) -> Stages:
    """Run every stage, silently; without ``texts`` the dialect, IR and assembly stay empty."""
    from rocke.compiler.codegen import generate
    from rocke.compiler.link import link
    from rocke.compiler.pipeline import lower

    linker = find_linker(options.linker)
    lowered = lower(kernel, target, texts=texts)
    generated = generate(kernel, target, lowered.llvm_ir, options, texts=texts)
    data = link(kernel.name, generated.object, linker)
    return Stages(
        name=kernel.name,
        mlir=kernel.mlir,
        llvm_dialect=lowered.llvm_dialect,
        llvm_ir=lowered.llvm_ir,
        optimized_ir=generated.optimized_ir,
        assembly=generated.assembly,
        object=generated.object,
        code_object=CodeObject.from_bytes(data, source=kernel.name),
        warnings=generated.warnings,
    )


def tell(code_object: CodeObject, said: Iterable[str]) -> None:
    """Issue the warnings of a compilation, at the first caller outside this package."""
    stacklevel, frame = 1, inspect.currentframe()
    while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        stacklevel, frame = stacklevel + 1, frame.f_back
    for line in said:
        warnings.warn(line, CompileWarning, stacklevel=stacklevel)
    for kernel in code_object.kernels:
        text = spill_text(kernel)
        if text:
            warnings.warn(f"{text} (on {code_object.arch})", SpillWarning, stacklevel=stacklevel)


def spill_text(kernel: KernelInfo) -> str:
    """What a kernel spills or keeps in scratch memory, in words; empty for none."""
    parts = [
        f"{count} {what}"
        for count, what in (
            (kernel.vgpr_spills, "vector registers spilled"),
            (kernel.sgpr_spills, "scalar registers spilled"),
            (kernel.scratch, "bytes of scratch memory a work-item"),
        )
        if count
    ]
    if kernel.uses_dynamic_stack:
        parts.append("a stack of unknown size")
    if parts and not kernel.spills:
        parts.append("no register spilled")
    return f"{kernel.name}: " + ", ".join(parts) if parts else ""
