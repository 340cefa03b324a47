"""A case as it is declared: which kernel, how it is compiled, which problem it solves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

ARCHS = ("gfx90a", "gfx942", "gfx950")


@dataclass(frozen=True)
class Declared:
    """``grid`` is a Python expression for the number of workgroups (a tuple of one to three).

    Its names are the problem's integer arguments, ``parameters``, ``constexprs``, and
    ``cdiv(a, b)``. ``block`` is the workgroup size for OpenCL and assembly; Triton's follows from
    ``options["num_warps"]``.
    """

    name: str
    source: str
    kernel: str
    problem: str
    parameters: Mapping[str, Any]
    grid: str
    constexprs: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    archs: tuple[str, ...] = ARCHS
    block: tuple[int, int, int] = (64, 1, 1)
    buffers: bool = True
    """Triton: pointers are declared to reach less than 2 GiB, which allows buffer instructions."""
    lines: bool = False
    """Keep the line table."""


def concrete_grid(rule: str, names: Mapping[str, Any]) -> tuple[int, int, int]:
    """Evaluate a grid rule."""
    value = eval(rule, {"__builtins__": {}, "cdiv": lambda a, b: -(-a // b)}, dict(names))
    whole = (value,) if isinstance(value, int) else tuple(value)
    return (*whole, *(1,) * (3 - len(whole)))  # type: ignore[return-value]
