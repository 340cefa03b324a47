"""The part of a build that runs in another process, perhaps on another machine."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Task:
    """A kernel to compile, as plain values that travel."""

    family: str
    spec: Mapping[str, Any]
    arch: str
    linker: str | None = None


@dataclass(frozen=True)
class Compiled:
    """What came of a task: the object's bytes, or ``error``.

    ``cached`` says that the compile cache of the worker's machine had it; ``toolchain`` is what it
    was (or would be) compiled with; ``said`` are warnings. ``sha256`` is of the bytes as they were
    made: what is damaged on its way is found.
    """

    hsaco: bytes = field(repr=False)
    toolchain: tuple[str, ...] = ()
    cached: bool = False
    said: tuple[str, ...] = ()
    error: str = ""
    sha256: str = ""


def compile_task(task: Task) -> Compiled:
    """Build and compile one kernel; every error of it is in the answer."""
    try:
        return _compile(task)
    except Exception as error:
        text = " ".join(str(error).split()) or "no message"
        return Compiled(b"", error=f"{type(error).__name__}: {text}")


def _compile(task: Task) -> Compiled:
    from rocke.compiler import CompileOptions, compile_in_worker, default_cache
    from rocke.compiler.cache import cache_key
    from rocke.compiler.source import KernelText
    from rocke.compiler.toolchain import find_linker
    from rocke.kernels.registry import family

    found = family(task.family)
    kernel = found.build(found.make_spec(task.spec), task.arch)
    options = CompileOptions(linker=task.linker)
    linker = find_linker(task.linker)
    cache = default_cache()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        key = cache_key(KernelText.of(kernel), task.arch, options, linker)
        cached = cache.get(key) is not None
        code_object = compile_in_worker(kernel, task.arch, options=options, cache=cache)
    said = tuple(dict.fromkeys(str(w.message) for w in caught))
    tools = toolchain(task.linker)
    return Compiled(code_object.data, tools, cached, said, sha256=code_object.sha256)


def toolchain(linker: str | None = None) -> tuple[str, ...]:
    """Versions of everything that decides the bytes of an object, of this process."""
    from rocke.compiler.toolchain import find_linker, fingerprint

    return (*fingerprint(), find_linker(linker).identity)
