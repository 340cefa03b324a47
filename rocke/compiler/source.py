"""What the compiler needs to know of a kernel."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from rocke.compiler.errors import CompileError

_READ = frozenset({"name", "mlir", "attributes", "arch", "params"})


class ParameterSource(Protocol):
    """One kernel parameter: its name, and whether the kernel only reads or only writes it.

    Optional: ``type`` (with the ``name`` that signatures write), ``align`` and ``noalias``, as
    :class:`ParameterText` has them.
    """

    @property
    def name(self) -> str: ...  # noqa: D102
    @property
    def readonly(self) -> bool: ...  # noqa: D102
    @property
    def writeonly(self) -> bool: ...  # noqa: D102


class KernelSource(Protocol):
    """A kernel as the compiler sees it; ``rocke.core.ir.KernelDef`` is one.

    ``mlir`` is the text of a module that holds one ``gpu.module`` with the kernel function
    ``name``. ``attributes`` may hold ``max_workgroup_size`` (work-items),
    ``required_workgroup_size`` (x, y, z) and ``waves_per_eu`` (fewest wavefronts a SIMD, or a pair
    of fewest and most). ``arch`` is the target that the kernel
    is bound to, or ``None``; an optional ``targets`` lists those that have all of its operations,
    and an optional ``needs`` maps sets of targets to the first operation that only they have.
    """

    @property
    def name(self) -> str: ...  # noqa: D102
    @property
    def mlir(self) -> str: ...  # noqa: D102
    @property
    def attributes(self) -> Mapping[str, Any]: ...  # noqa: D102
    @property
    def arch(self) -> str | None: ...  # noqa: D102
    @property
    def params(self) -> Sequence[ParameterSource]: ...  # noqa: D102


@dataclass(frozen=True)
class ParameterText:
    """A parameter as plain values.

    ``type`` is written as signatures write it (``ptr<f16, global>``, ``i32``); empty if it is not
    known. ``align`` (bytes) and ``noalias`` are what the caller promises about a pointer. All of it
    goes into the code object's metadata, where a launcher finds it.
    """

    name: str
    readonly: bool = False
    writeonly: bool = False
    type: str = ""
    align: int | None = None
    noalias: bool = False

    @property
    def access(self) -> str:
        """OpenCL's word for the access, which the metadata note uses; ``none`` for any access."""
        if self.readonly:
            return "read_only"
        return "write_only" if self.writeonly else "none"

    @property
    def type_name(self) -> str:
        """The type with the alignment, as the metadata note holds it; empty if not known."""
        return self.type + (f" align({self.align})" if self.type and self.align else "")

    @property
    def qualifier(self) -> str:
        """OpenCL's word for a pointer that no other argument aliases, or none."""
        return "restrict" if self.noalias else ""

    @classmethod
    def of(cls, parameter: ParameterSource) -> ParameterText:
        """Copy what the compiler reads from ``parameter``."""
        type_ = getattr(parameter, "type", None)
        return cls(
            parameter.name,
            parameter.readonly,
            parameter.writeonly,
            str(getattr(type_, "name", type_ or "")),
            getattr(parameter, "align", None),
            getattr(parameter, "noalias", False),
        )


@dataclass(frozen=True)
class KernelText:
    """A kernel as plain values: what a worker process or a cache key is made from."""

    name: str
    mlir: str
    attributes: Mapping[str, Any] = field(default_factory=dict)
    arch: str | None = None
    params: tuple[ParameterText, ...] = ()
    targets: tuple[str, ...] | None = None
    needs: tuple[tuple[tuple[str, ...], str], ...] = field(default=(), compare=False)
    """Pairs of targets and the first operation, with its source line, that only they have."""

    @classmethod
    def of(cls, kernel: KernelSource) -> KernelText:
        """Copy what the compiler reads from ``kernel``.

        Raises :class:`CompileError` for what is no kernel.
        """
        if isinstance(kernel, cls):
            return kernel
        if not set(dir(kernel)) >= _READ:
            is_builder = set(dir(getattr(kernel, "kernel", None))) >= _READ
            text = "MLIR text goes into a rocke.compiler.KernelText"
            raise CompileError(
                f"kernel: {type(kernel).__name__}, expected the KernelDef of a builder: "
                + ("pass its .kernel" if is_builder else text)
            )
        params = tuple(map(ParameterText.of, kernel.params))
        targets = getattr(kernel, "targets", None)
        needs = tuple(getattr(kernel, "needs", {}).items())
        return cls(
            kernel.name, kernel.mlir, dict(kernel.attributes), kernel.arch, params, targets, needs
        )

    def missing_on(self, target: str) -> str:
        """The first operation, with its source line, that ``target`` does not have, or nothing."""
        return next((where for targets, where in self.needs if target not in targets), "")

    @property
    def max_workgroup_size(self) -> int | None:
        """Work-items a workgroup, at most; raises :class:`CompileError` unless 1 to 1024."""
        size: Any = self.attributes.get("max_workgroup_size")
        if size is None:
            return None
        if not _count(size, 1024):
            raise CompileError(
                f"{self.name}: max_workgroup_size is {size!r}, expected an int from 1 to 1024"
            )
        return int(size)

    @property
    def required_workgroup_size(self) -> tuple[int, int, int] | None:
        """The only launch size (x, y, z); raises :class:`CompileError` unless 1 to 1024 in all."""
        size = self.attributes.get("required_workgroup_size")
        if size is None:
            return None
        good = isinstance(size, Sequence) and len(size) == 3
        if not good or not all(_count(n, 1024) for n in size) or math.prod(size) > 1024:
            raise CompileError(
                f"{self.name}: required_workgroup_size is {size!r}, expected three ints, 1 to 1024 "
                "work-items in all"
            )
        return size[0], size[1], size[2]

    @property
    def waves_per_eu(self) -> tuple[int, int | None] | None:
        """Fewest and most wavefronts a SIMD; raises :class:`CompileError` unless 1 to 8."""
        waves = self.attributes.get("waves_per_eu")
        if waves is None:
            return None
        low, high = (waves, None) if isinstance(waves, int) else _pair(self.name, waves)
        for count in (low, high):
            if count is not None and not _count(count, 8):
                raise CompileError(
                    f"{self.name}: waves_per_eu is {waves!r}, expected an int from 1 to 8 or a pair"
                )
        if high is not None and high < low:
            raise CompileError(
                f"{self.name}: waves_per_eu is {waves!r}: the second is below the first"
            )
        return low, high


def _count(value: Any, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= most


def _pair(name: str, waves: Any) -> tuple[int, int]:
    if isinstance(waves, Sequence) and not isinstance(waves, str) and len(waves) == 2:
        return waves[0], waves[1]
    raise CompileError(f"{name}: waves_per_eu is {waves!r}, expected an int from 1 to 8 or a pair")
