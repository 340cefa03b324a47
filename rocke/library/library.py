"""A kernel library at run time: open, select, load, launch. No compiler takes part."""

from __future__ import annotations

import copy
import os
import threading
from dataclasses import dataclass, replace
from typing import Any
from weakref import WeakKeyDictionary

from rocke.compiler.code_object import CodeObject
from rocke.library import expressions
from rocke.library.constraints import MISSING, Problem, Unusable, plain_problem
from rocke.library.errors import LibraryError, NoKernel
from rocke.library.explaining import Explanation, explain, family_of
from rocke.library.manifest import KernelEntry, Manifest
from rocke.library.selector import Selector
from rocke.library.store import Store, open_store
from rocke.runtime.device import Device
from rocke.runtime.launcher import Launcher


@dataclass(frozen=True)
class LibraryKernel:
    """A selected kernel. ``entry`` holds what the manifest says of it."""

    entry: KernelEntry
    library: KernelLibrary

    @property
    def id(self) -> str:
        """The kernel's name and target."""
        return self.entry.id

    def code_object(self) -> CodeObject:
        """The packaged object, after its sha256 and everything it states were checked.

        Raises :class:`LibraryError`.
        """
        return self.library.code_object(self.entry)

    def grid(self, problem: Problem) -> tuple[int, int, int]:
        """Workgroups of a launch; raises ``ValueError`` that names what the problem leaves out."""
        values = self._sizes(problem)
        try:
            x, y, z = (expressions.evaluate(g, values) for g in self.entry.grid)
        except ValueError as error:
            raise ValueError(f"grid of {self.id}: {error}") from None
        return x, y, z

    def launcher(self, device: Device, problem: Problem | None = None) -> Launcher:
        """The kernel, loaded on a device and called with named arguments.

        ``problem`` holds the fields that the grid depends on, if it does. A device loads each
        kernel once. A launch that gives such a field another value is refused. Raises
        :class:`LibraryError` for a damaged object, ``ValueError`` for a grid that the problem does
        not give, :class:`DeviceError` when the device refuses.
        """
        asked = problem or {}
        grid, sizes = self.grid(asked), self._sizes(asked)
        names = {name for g in self.entry.grid for name in expressions.names(g)}
        counted = {name: sizes[name] for name in names}
        return self.library.loaded(self.entry, device).with_grid(grid, counted=counted)

    def _sizes(self, problem: Problem) -> dict[str, Any]:
        """The problem's values, and what it leaves out."""
        defaults = {c.field: c.default for c in self.entry.constraints if c.default is not MISSING}
        given = plain_problem(problem)
        shown = {n: problem[n] if isinstance(v, Unusable) else v for n, v in given.items()}
        return {**defaults, **shown}


@dataclass(frozen=True)
class _Loaded:
    """A launcher without its device, which a library does not keep alive."""

    launcher: Launcher
    detached: bool

    @staticmethod
    def of(launcher: Launcher) -> _Loaded:
        kept = copy.copy(launcher)
        detached = kept.kernel.device is launcher.device
        if detached:
            kept.kernel = replace(kept.kernel, device=_NO_DEVICE)
        kept.device = _NO_DEVICE
        return _Loaded(kept, detached)

    def on(self, device: Device) -> Launcher:
        made = copy.copy(self.launcher)
        made.device = device
        if self.detached:
            made.kernel = replace(made.kernel, device=device)
        return made


_NO_DEVICE: Any = None


class KernelLibrary:
    """Kernels that were built ahead of time. Threads may share one.

    It may be closed, or used as a context manager. It keeps no device alive.
    """

    def __init__(self, store: Store, manifest: Manifest) -> None:
        self.source = store.source
        self.manifest = manifest
        self._store = store
        self._selector = Selector(manifest.kernels)
        self._families = sorted({k.family for k in manifest.kernels})
        self._kernels = {k.id: LibraryKernel(k, self) for k in manifest.kernels}
        self._objects: dict[str, CodeObject] = {}
        self._launchers: WeakKeyDictionary[Device, dict[str, _Loaded]] = WeakKeyDictionary()
        self._closed = False
        self._lock = threading.Lock()

    @classmethod
    def open(cls, library: str | os.PathLike[str]) -> KernelLibrary:
        """Open a build folder, a zip, a wheel, or an installed library by its name.

        Nothing of it is executed; objects are read, and checked, when they are loaded. Raises
        :class:`LibraryError` that names the file and what is wrong.
        """
        store = open_store(library)
        manifest = Manifest.from_bytes(store.manifest(), f"{store.source}: manifest.json")
        store.check(manifest)
        return cls(store, manifest)

    @property
    def outdated(self) -> bool:
        """Whether a later build into the library's folder failed, was interrupted, or still runs:
        the library is then the one of the build before.
        """
        return self._store.outdated

    @property
    def kernels(self) -> tuple[LibraryKernel, ...]:
        """Every kernel, in the order of the manifest."""
        return tuple(self._kernels.values())

    def select(self, problem: Problem, arch: str) -> LibraryKernel:
        """The best kernel for a problem on a target.

        ``problem`` maps field names to values; ``family`` may be left out where the library has
        one. A field that a kernel has a default for may be left out; one that no kernel knows is
        refused. Raises :class:`NoKernel`, whose text is that of :meth:`explain`, and ``TypeError``
        for a problem that is no mapping.
        """
        plain = plain_problem(problem)
        family = family_of(problem, self._families)
        found = None
        if family is not None and isinstance(arch, str):
            found = self._selector.find(family, arch, plain)
        if found is None:
            asked = dict(problem)
            raise NoKernel(lambda: str(self.explain(asked, arch)))
        return self._kernels[found.id]

    def explain(self, problem: Problem, arch: str) -> Explanation:
        """Which kernel :meth:`select` takes and why not another, kernel by kernel."""
        return explain(self.manifest.kernels, problem, arch)

    def kernel(self, ident: str) -> LibraryKernel:
        """The kernel of an id; raises :class:`LibraryError`."""
        try:
            return self._kernels[ident]
        except KeyError:
            raise LibraryError(f"{self.source}: no kernel {ident!r}") from None

    def code_object(self, entry: KernelEntry) -> CodeObject:
        """The checked object of an entry, read once; raises :class:`LibraryError`."""
        with self._lock:
            return self._checked(entry)

    def loaded(self, entry: KernelEntry, device: Device) -> Launcher:
        """The launcher of an entry without a grid, loaded once a device."""
        own = self._launchers.get(device)
        found = None if own is None else own.get(entry.id)
        if found is None:
            with self._lock:
                own = self._launchers.setdefault(device, {})
                found = own.get(entry.id)
                if found is None:
                    found = own[entry.id] = _Loaded.of(self._load(entry, device))
        return found.on(device)

    def close(self) -> None:
        """Let go of the file and of what was loaded from it.

        Launchers that were given out go on; what the library would have to read from now on is a
        :class:`LibraryError`. A library that is not closed is when nothing refers to it any more.
        """
        with self._lock:
            self._store.close()
            self._objects.clear()
            self._launchers.clear()
            self._closed = True

    def __enter__(self) -> KernelLibrary:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _load(self, entry: KernelEntry, device: Device) -> Launcher:
        if device.arch != entry.arch:
            raise LibraryError(f"{entry.id} is for {entry.arch}, the device is {device.arch}")
        return Launcher(
            device,
            self._checked(entry),
            entry.signature,
            kernel=entry.symbol,
            block=entry.block,
            limits=entry.limits,
        )

    def _checked(self, entry: KernelEntry) -> CodeObject:
        if self._closed:
            raise LibraryError(f"{self.source}: the library was closed")
        found = self._objects.get(entry.id)
        if found is None:
            source = f"{self.source}: {entry.file}"
            found = entry.check(self._store.read(entry), source)
            self._objects[entry.id] = found
        return found
