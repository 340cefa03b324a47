"""What a builder makes: a kernel as data."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from rocke.core.errors import IRError
from rocke.core.locations import source_place
from rocke.core.types import PtrType, ScalarType, Type

KNOWN_TARGETS = ("gfx90a", "gfx942", "gfx950")
"""The targets that a builder knows: those of ``rocke.arch``."""


@dataclass(frozen=True)
class Param:
    """One kernel parameter.

    ``type`` is a scalar or a pointer. ``readonly`` and ``writeonly`` are promises about what the
    kernel does through the pointer, ``noalias`` that no other parameter reaches the same bytes,
    ``align`` the alignment of the address in bytes that the caller guarantees (None: the
    element's).
    """

    name: str
    type: ScalarType | PtrType
    readonly: bool = False
    writeonly: bool = False
    align: int | None = None
    noalias: bool = False


def _workgroup_size(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= 1024


def _waves(value: Any) -> bool:
    if isinstance(value, tuple):
        return len(value) == 2 and all(map(_wave_count, value)) and value[0] <= value[1]
    return value is None or _wave_count(value)


def _wave_count(value: Any) -> bool:
    return _workgroup_size(value) and value <= 8


def _exact_size(value: Any) -> bool:
    return value is None or (
        isinstance(value, tuple)
        and len(value) == 3
        and all(map(_workgroup_size, value))
        and value[0] * value[1] * value[2] <= 1024
    )


_KNOWN: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "max_workgroup_size": (_workgroup_size, "work-items a workgroup, 1 to 1024"),
    "waves_per_eu": (
        _waves,
        "waves a SIMD to compile for, 1 to 8, as the fewest or (fewest, most), or None",
    ),
    "required_workgroup_size": (_exact_size, "the only launch size (x, y, z) allowed, or None"),
}


class KernelAttributes(dict[str, Any]):
    """Attributes of a kernel; a key that nothing would honour, or a bad value, is refused.

    ``max_workgroup_size`` (int, default 256, or what ``required_workgroup_size`` makes),
    ``waves_per_eu`` (int, (fewest, most) or None: the compiler's register budget),
    ``required_workgroup_size`` ((x, y, z) or None; not more work-items than a
    ``max_workgroup_size`` that was given).
    """

    def __init__(self, values: Mapping[str, Any] | None = None) -> None:
        super().__init__(max_workgroup_size=256, waves_per_eu=None, required_workgroup_size=None)
        self._limited = False
        self.update(values or {})

    def __setitem__(self, key: str, value: Any) -> None:
        if key not in _KNOWN:
            known = ", ".join(_KNOWN)
            raise IRError(f"unknown kernel attribute {key!r}; known: {known} (at {source_place()})")
        accepts, wanted = _KNOWN[key]
        if not accepts(value):
            raise IRError(
                f"kernel attribute {key!r}: expected {wanted}, got {value!r} (at {source_place()})"
            )
        required = value if key == "required_workgroup_size" else self["required_workgroup_size"]
        most = value if key == "max_workgroup_size" else self["max_workgroup_size"]
        self._limited |= key == "max_workgroup_size"
        if required is not None and self._limited and math.prod(required) > most:
            raise IRError(
                f"kernel attribute {key!r}: required_workgroup_size {required} is "
                f"{math.prod(required)} work-items, max_workgroup_size is {most} "
                f"(at {source_place()})"
            )
        super().__setitem__(key, value)
        if required is not None and not self._limited:
            super().__setitem__("max_workgroup_size", math.prod(required))

    def update(self, *mappings: Mapping[str, Any], **values: Any) -> None:  # type: ignore[override]
        """Sets several attributes, each checked."""
        for mapping in (*mappings, values):
            for key, value in mapping.items():
                self[key] = value

    def setdefault(self, key: str, default: Any = None) -> Any:
        """As of a dict, checked."""
        if key not in self:
            self[key] = default
        return self[key]


class KernelDef:
    """A kernel: name, ordered parameters, MLIR module, attributes, bound target.

    The builder's ``b.kernel`` is live: parameters and attributes may still be added. ``mlir``
    verifies and prints the module; that text with the name and the attributes is all that a
    compiler needs. A pickled KernelDef carries the text only, so it can travel to another process.
    """

    def __init__(self, name: str, render: Callable[[KernelDef], str]) -> None:
        self.name = name
        self.params: tuple[Param, ...] = ()
        self.attributes: dict[str, Any] = KernelAttributes()
        self.targets: tuple[str, ...] | None = None
        """Targets that have every operation of the body; None: nothing in it is specific."""
        self.needs: dict[tuple[str, ...], str] = {}
        """Targets -> the first operation that only they have, with its source line."""
        self._bound: str | None = None
        self._render = render

    @property
    def arch(self) -> str | None:
        """The target that the body is bound to, or None where it is the same for all targets."""
        if self._bound is None and self.targets is not None and len(self.targets) == 1:
            return self.targets[0]
        return self._bound

    @property
    def mlir(self) -> str:
        """The verified module as MLIR text with locations; IRError where it does not verify."""
        return self._render(self)

    def signature(self) -> list[dict[str, str]]:
        """``[{"name", "type"}]`` in order; types as ``ptr<f16, global>``, ``i32``, ``f32``."""
        return [{"name": p.name, "type": p.type.name} for p in self.params]

    def __str__(self) -> str:
        return self.mlir

    def __repr__(self) -> str:
        params = ", ".join(f"{p.name}: {p.type}" for p in self.params)
        return f"KernelDef({self.name}({params}))"

    def __reduce__(self) -> tuple[Any, ...]:
        state = (
            self.name,
            self.mlir,
            self.params,
            dict(self.attributes),
            self.targets,
            self._bound,
            dict(self.needs),
        )
        return _restored, state


def _restored(
    name: str,
    text: str,
    params: tuple[Param, ...],
    attributes: Mapping[str, Any],
    targets: tuple[str, ...] | None,
    bound: str | None,
    needs: Mapping[tuple[str, ...], str],
) -> KernelDef:
    made = KernelAttributes(attributes)

    def render(kernel: KernelDef) -> str:
        if kernel.attributes != made:
            raise IRError(f"kernel {name}: the attributes of an unpickled kernel cannot be changed")
        return text

    kernel = KernelDef(name, render)
    kernel.params = params
    kernel.attributes.update(attributes)
    kernel.targets, kernel._bound, kernel.needs = targets, bound, dict(needs)
    return kernel


def parameter_type(type_: Type) -> bool:
    """Whether a kernel parameter can have this type."""
    if isinstance(type_, PtrType):
        return type_.space in ("global", "constant")
    return isinstance(type_, ScalarType) and type_.bits >= 8 and not type_.is_fp8
