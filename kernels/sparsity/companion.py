"""What the kernels around a sparsity pattern share: spec, declaration, one wave a row."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rocke.arch import UnknownTarget, target
from rocke.core.ir import I32, I64, IRBuilder, KernelDef, PtrType, ScalarType, Type, Value, ptr
from rocke.helpers.spec import check_int, check_name, first_reason, kernel_name_join

from ..family import Problem

WAVE_SIZE = 64
MAX_WAVES = 16
"""A workgroup has at most 1,024 work-items."""
MAX_SIZE = 2**31 - 64
"""Sizes are counted in i32, with room for a loop's last step."""
MAX_GRID = 65535
"""HIP limits the grid's y and z dimension to 16 bits."""
NO_BLOCK = -1
"""What stands in a list past its count."""

Parameter = tuple[str, Type, dict[str, Any]]
Grid = tuple[int, int, int]


@dataclass(frozen=True)
class CompanionSpec:
    """``waves``: wavefronts of a workgroup; each works on rows of its own."""

    waves: int = 4
    name: str = "rocke_companion"

    @property
    def block(self) -> Grid:
        """The workgroup in work-items."""
        return self.waves * WAVE_SIZE, 1, 1

    def kernel_name(self) -> str:
        """The kernel's symbol: every field stands in it."""
        return kernel_name_join(self.name, *self.parts(), f"W{self.waves}")

    def parts(self) -> tuple[str, ...]:
        """The fields beyond ``waves`` and ``name``, as they stand in the kernel's name."""
        return ()

    def reasons(self) -> list[str]:
        """Why fields beyond ``waves`` and ``name`` are wrong; empty texts where they are not."""
        return []


@dataclass(frozen=True)
class Companion:
    """One kernel: its declaration and its body.

    ``parameters(spec)`` are (name, type, promises); ``emit(b, spec, params)`` writes the body;
    ``grid(spec, arguments)`` counts workgroups for the arguments of a launch, ``grid_text`` says
    how. ``limits(spec)``, ``make_problem(spec, rng, **options)`` and ``reference(spec, problem)``
    are as a family has them; outputs are exact.
    """

    name: str
    summary: str
    spec_type: type[CompanionSpec]
    parameters: Callable[[Any], list[Parameter]]
    emit: Callable[[IRBuilder, Any, Mapping[str, Value]], None]
    grid: Callable[[Any, Mapping[str, Any]], Grid]
    grid_text: str
    limits: Callable[[Any], dict[str, Any]]
    make_problem: Callable[..., Problem]
    reference: Callable[[Any, Problem], dict[str, np.ndarray]]
    field_help: Mapping[str, str] = field(default_factory=dict)

    def validate(self, spec: Any, arch: str = "gfx950") -> tuple[bool, str]:
        """Whether :meth:`build` builds the spec; returns ``(ok, reason)``."""
        if not isinstance(spec, self.spec_type):
            wanted = self.spec_type.__name__
            return False, f"spec is {type(spec).__name__}, expected {wanted}"
        try:
            target(arch)
        except UnknownTarget as error:
            return False, str(error)
        return first_reason(
            check_name("name", spec.name),
            check_int("waves", spec.waves, 1, MAX_WAVES),
            *spec.reasons(),
        )

    def build(self, spec: Any, arch: str = "gfx950") -> KernelDef:
        """The kernel; raises ``ValueError`` with the reason of :meth:`validate`."""
        ok, reason = self.validate(spec, arch)
        if not ok:
            raise ValueError(f"invalid {self.name} spec: {reason}")
        b = IRBuilder(spec.kernel_name())
        b.kernel.attributes["max_workgroup_size"] = spec.block[0]
        b.kernel.attributes["required_workgroup_size"] = spec.block
        params = {
            name: b.param(name, type_, **promises)
            for name, type_, promises in self.parameters(spec)
        }
        self.emit(b, spec, params)
        b.ret()
        return b.kernel

    def signature(self, spec: Any) -> list[dict[str, str]]:
        """The kernel's ordered ``{"name", "type"}`` parameters."""
        return [{"name": name, "type": type_.name} for name, type_, _ in self.parameters(spec)]


def reads(name: str, elem: ScalarType, **promises: Any) -> Parameter:
    """A pointer that the kernel only reads."""
    return name, ptr(elem), {"readonly": True, **promises}


def writes(name: str, elem: ScalarType, **promises: Any) -> Parameter:
    """A pointer that the kernel only writes."""
    return name, ptr(elem), {"writeonly": True, **promises}


def counts_of(*names: str) -> list[Parameter]:
    """i32 values."""
    return [(name, I32, {}) for name in names]


def shapes(*sizes: str, **arrays: tuple[str | int, ...]) -> dict[str, Any]:
    """Limits: every size at least 1, arrays of exactly these shapes."""
    limits: dict[str, Any] = {size: (1, MAX_SIZE) for size in sizes}
    return limits | {name: {"shape": shape} for name, shape in arrays.items()}


ROWS_GRID = "(ceil(rows / waves), 1, 1)"


def rows_grid(spec: CompanionSpec, arguments: Mapping[str, Any]) -> Grid:
    """One wave for each of ``rows`` rows."""
    return -(-int(arguments["rows"]) // spec.waves), 1, 1


@contextmanager
def wave_row(b: IRBuilder, spec: CompanionSpec, rows: Value) -> Iterator[tuple[Value, Value]]:
    """Emits the body where this wave has a row: gives ``(row, lane)``, i32, the row uniform."""
    thread = b.thread_id_x()
    wave = b.readfirstlane(b.lshr(thread, 6))
    row = b.add(b.mul(b.block_id_x(), spec.waves), wave)
    with b.scf_if(b.cmp_lt(row, rows)):
        yield row, b.land(thread, WAVE_SIZE - 1)


def row_of(b: IRBuilder, pointer: Value, row: Value, width: Value) -> Value:
    """The pointer to a row of a row-major matrix; the offset is 64-bit."""
    assert isinstance(pointer.type, PtrType)
    return b.ptr_add(pointer, b.mul(b.sext(row, I64), b.sext(width, I64)))


def ranks(b: IRBuilder, wanted: Value) -> tuple[Value, Value]:
    """Of each lane, how many wanted lanes are below it; and how many there are (uniform)."""
    rank = b.lanes_below(b.wave_ballot(wanted))
    one, zero = b.const_i32(1), b.const_i32(0)
    return rank, b.readlane(b.add(rank, b.select(wanted, one, zero)), WAVE_SIZE - 1)


def fill(b: IRBuilder, row: Value, start: Value, end: Value, lane: Value, value: int) -> None:
    """Store ``value`` in elements ``start`` to ``end`` of a row of i32."""
    with b.scf_for(start, end, WAVE_SIZE) as first:
        place = b.add(first, lane)
        with b.scf_if(b.cmp_lt(place, end)):
            b.global_store(row, place, value)


def listed(b: IRBuilder, count: Value, width: Value) -> Value:
    """A list's count, clamped to ``0 .. width``."""
    return b.smax(b.smin(count, width), 0)
