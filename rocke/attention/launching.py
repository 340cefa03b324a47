"""Kernels of a process: compiled or taken from a library, and loaded on a device once."""

from __future__ import annotations

import functools
import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

from rocke.runtime import ArgumentError, Launcher
from rocke.runtime.device import Device

if TYPE_CHECKING:
    from rocke.attention.settings import BlockSparseSettings
    from rocke.compiler import CodeObject
    from rocke.kernels.registry import Family

_MOST = 128
"""Launchers that are kept; each keeps its device, so the number has a bound."""
_MAY_BE_EMPTY = frozenset({"batch", "list_width", "seqlen_k", "seqlen_q"})
_kept: OrderedDict[tuple[int, Kernel], Launcher] = OrderedDict()
_lock = threading.Lock()


@dataclass(frozen=True)
class Kernel:
    """A kernel by its family and the fields of its spec; ``settings`` stand beside them.

    The family is looked up when it is compiled: what a library serves needs no compiler.
    """

    family: str
    fields: tuple[tuple[str, Any], ...]
    settings: BlockSparseSettings | None = None

    @staticmethod
    def of(family: str, settings: object = None, /, **fields: Any) -> Kernel:
        """The kernel; raises :class:`ArgumentError` for settings that are none."""
        if settings is None:
            return Kernel(family, tuple(fields.items()))
        from rocke.attention.settings import checked_settings

        return Kernel(family, tuple(fields.items()), checked_settings(settings))

    def check(self, device: Device) -> Any:
        """The spec, if its family builds it for the device, else :class:`ArgumentError`."""
        family = _family(self.family)
        spec = family.make_spec(dict(self.fields))
        if self.settings is not None:
            spec = replace(spec, settings=self.settings)
        ok, reason = family.validate(spec, device.arch)
        if not ok:
            raise ArgumentError(f"{self.family}: {reason}")
        return spec


class LibraryKernel(Protocol):
    """A kernel of a library."""

    def launcher(self, device: Device, problem: Mapping[str, Any]) -> Launcher:
        """The kernel, loaded, with the grid of a problem."""
        ...


class Library(Protocol):
    """What is asked of a library: ``rocke.library.KernelLibrary`` is one."""

    def select(self, problem: Mapping[str, Any], arch: str) -> LibraryKernel:
        """The kernel that serves a problem on a target; raises ``LookupError``."""
        ...


def launch(
    kernel: Kernel,
    device: Device,
    arguments: Mapping[str, Any],
    *,
    library: Library | None = None,
    sizes: Mapping[str, int] | None = None,
) -> None:
    """Run a kernel once.

    With a ``library`` its kernel for the spec's fields, the integers among the arguments (but the
    strides) and ``sizes``, those that are no arguments.

    Raises :class:`ArgumentError` for a spec that the family does not build for the device, and as
    :class:`rocke.runtime.Launcher`; what the library raises where it has no kernel.
    """
    if library is None:
        launcher_of(kernel, device)(**arguments)
        return
    problem = _problem(kernel, arguments, sizes or {})
    library.select(problem, device.arch).launcher(device, problem)(**arguments)


def check(
    kernel: Kernel,
    device: Device,
    arguments: Mapping[str, Any],
    *,
    library: Library | None = None,
    sizes: Mapping[str, int],
) -> None:
    """What :func:`launch` refuses about the kernel, where a size of 0 leaves nothing to run.

    A library is asked with 1 for such a size, which no kernel takes as 0. Raises as :func:`launch`.
    """
    if library is None:
        kernel.check(device)
        return
    problem = _problem(kernel, arguments, sizes)
    for name in _MAY_BE_EMPTY & problem.keys():
        problem[name] = max(problem[name], 1)
    library.select(problem, device.arch)


def _problem(
    kernel: Kernel, arguments: Mapping[str, Any], sizes: Mapping[str, int]
) -> dict[str, Any]:
    """What a library is asked for."""
    integers = {
        name: value
        for name, value in arguments.items()
        if isinstance(value, int) and not name.startswith("stride_")
    }
    return {"family": kernel.family, **dict(kernel.fields), **integers, **sizes}


def check_library(library: object, settings: object = None) -> None:
    """Refuse what is no library, and settings beside one; raises :class:`ArgumentError`."""
    if library is None:
        return
    if not callable(getattr(library, "select", None)):
        raise ArgumentError(
            f"library: {library!r}, expected an open one: rocke.library.KernelLibrary.open(...)"
        )
    if settings is not None:
        raise ArgumentError("settings: given with a library, whose kernels have settings already")


def launcher_of(kernel: Kernel, device: Device) -> Launcher:
    """The loaded kernel; raises :class:`ArgumentError` with the family's reason."""
    key = (id(device), kernel)
    with _lock:
        found = _kept.get(key)
        if found is not None:
            _kept.move_to_end(key)
            return found
    spec = kernel.check(device)
    code = _code_object(kernel.family, spec, device.arch)
    made = Launcher.of_family(device, code, _family(kernel.family), spec)
    with _lock:
        _kept[key] = made
        while len(_kept) > _MOST:
            _kept.popitem(last=False)
    return made


@functools.lru_cache(maxsize=256)
def _code_object(family: str, spec: Any, arch: str) -> CodeObject:
    from rocke.compiler import compile_kernel

    return compile_kernel(_family(family).build(spec, arch), arch)


def _family(name: str) -> Family:
    from rocke.kernels.registry import FAMILIES

    return FAMILIES[name]
