"""What a kernel family is: all that command line, tests and libraries know about kernels."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rocke.core.ir import KernelDef


class SpecError(ValueError):
    """Field values from which no spec can be made; the text names the field."""


class _Required:
    def __repr__(self) -> str:
        return "required"


REQUIRED = _Required()
"""The default of a field that has none."""


@dataclass(frozen=True)
class Field:
    """One field of a spec, flattened: how users name and type it.

    ``default`` is :data:`REQUIRED` where there is none; ``choices`` is empty where any value of the
    type may be given (the family's validator still decides).
    """

    name: str
    type: type
    default: Any
    help: str
    choices: tuple[Any, ...] = ()

    @property
    def required(self) -> bool:
        """Whether the field must be given."""
        return self.default is REQUIRED


@dataclass(frozen=True)
class Problem:
    """Arguments of one launch, by parameter name: numpy arrays and numbers.

    ``outputs`` names the arrays that the kernel writes; they start filled with NaN.
    """

    arguments: Mapping[str, Any]
    outputs: tuple[str, ...]


@dataclass(frozen=True)
class Family:
    """A kernel family.

    ``make_spec(values)`` turns flat field values into a spec (:class:`SpecError` names an unknown,
    missing or ill-typed field); ``flatten(spec)`` is its inverse. ``validate(spec, arch)`` gives
    ``(ok, reason)``, the same answer as ``build(spec, arch)``, which raises ``ValueError``.
    ``grid(spec)`` counts workgroups of ``block`` work-items. ``limits(spec)`` are those of
    ``rocke.runtime.limits``. ``make_problem(spec, rng, **options)`` draws random arguments,
    ``reference(spec, problem)`` gives the float64 outputs by name, ``tolerance(spec)`` the accepted
    ``norm(out - ref) / norm(ref)``. ``matrix_instructions(spec, arch)`` counts the matrix
    instructions of a launch that skips nothing.
    """

    name: str
    summary: str
    spec_type: type
    fields: tuple[Field, ...]
    flatten: Callable[[Any], dict[str, Any]]
    assemble: Callable[[Mapping[str, Any]], Any]
    validate: Callable[[Any, str], tuple[bool, str]]
    build: Callable[[Any, str], KernelDef]
    grid: Callable[[Any], tuple[int, int, int]]
    block: tuple[int, int, int]
    signature: Callable[[Any], list[dict[str, str]]]
    limits: Callable[[Any], dict[str, Any]]
    make_problem: Callable[..., Problem]
    reference: Callable[[Any, Problem], dict[str, np.ndarray]]
    tolerance: Callable[[Any], float]
    matrix_instructions: Callable[[Any, str], int]
    demo: Mapping[str, Any] = field(default_factory=dict)

    def make_spec(self, values: Mapping[str, Any]) -> Any:
        """The spec of flat field values; fields left out take their default.

        Raises :class:`SpecError`.
        """
        known = {f.name: f for f in self.fields}
        unknown = [name for name in values if name not in known]
        missing = [f.name for f in self.fields if f.required and f.name not in values]
        if unknown or missing:
            wrong = [f"unknown field {name!r}" for name in unknown]
            wrong += [f"missing field {name!r}" for name in missing]
            raise SpecError(f"{self.name}: {'; '.join(wrong)} (fields: {', '.join(known)})")
        for name, value in values.items():
            wanted = known[name].type
            if type(value) is not wanted:
                raise SpecError(
                    f"{self.name}: field {name!r} is {value!r}, expected {wanted.__name__}"
                )
        return self.assemble({f.name: values.get(f.name, f.default) for f in self.fields})
