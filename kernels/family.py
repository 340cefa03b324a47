"""What a kernel family is: all that command line, tests and libraries know about kernels."""

from __future__ import annotations

import difflib
import functools
import inspect
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

    ``outputs`` names the arrays that the kernel writes; they start filled with NaN. ``sentinels``
    maps an output to the value that stands in it where there is no result: it is compared exactly,
    and takes no part in a norm.
    """

    arguments: Mapping[str, Any]
    outputs: tuple[str, ...]
    sentinels: Mapping[str, float] = field(default_factory=dict)


Grid = tuple[int, int, int]
Arguments = Mapping[str, Any]


@dataclass(frozen=True)
class LaunchRule:
    """How a kernel is launched whose sizes are launch arguments.

    ``grid(spec, arch, arguments)`` counts workgroups and ``matrix_instructions(spec, arch,
    arguments)`` the matrix instructions of a launch that skips nothing, for the arguments by name;
    ``block(spec, arch)`` counts work-items. ``text`` says the grid in words.
    """

    grid: Callable[[Any, str, Arguments], Grid]
    block: Callable[[Any, str], Grid]
    matrix_instructions: Callable[[Any, str, Arguments], int]
    text: str


BY_LAUNCH: Grid = (0, 0, 0)
"""The ``block`` of a family whose launch rule decides."""


def _by_launch(*arguments: Any) -> Any:
    raise ValueError("it depends on the launch arguments: ask the family's launch rule")


@dataclass(frozen=True)
class Family:
    """A kernel family.

    ``make_spec(values)`` turns flat field values into a spec (:class:`SpecError` names an unknown,
    missing or ill-typed field); ``flatten(spec)`` is its inverse. ``validate(spec, arch)`` gives
    ``(ok, reason)``, the same answer as ``build(spec, arch)``, which raises ``ValueError``.
    ``limits(spec)`` are those of ``rocke.runtime.limits``. ``make_problem(spec, rng, **options)``
    draws random arguments (an unknown option is a ``ValueError`` that lists
    :attr:`problem_options`), ``reference(spec, problem)`` gives the outputs by name (float64, or
    exact), ``tolerance(spec)`` the accepted ``norm(out - ref) / norm(ref)``.
    ``problem_bytes(spec, options)``, for every option of ``make_problem``, estimates the most bytes
    that drawing a problem and computing its reference hold at once; it is seldom too low.

    Where the spec holds all sizes, ``grid(spec)`` counts workgroups of ``block`` work-items and
    ``matrix_instructions(spec, arch)`` the matrix instructions of a launch that skips nothing;
    where sizes are launch arguments ``launch`` has the rule instead. The methods :meth:`grid_of`,
    :meth:`block_of` and :meth:`dense_matrix_instructions` answer for both.
    ``kernel_name(spec, arch)`` is the name that ``build`` gives, without building. ``tuning`` names
    the fields that only tune: specs that differ in them alone take the same arguments and give the
    same results, so who launches need not know them.
    """

    name: str
    summary: str
    spec_type: type
    fields: tuple[Field, ...]
    flatten: Callable[[Any], dict[str, Any]]
    assemble: Callable[[Mapping[str, Any]], Any]
    validate: Callable[[Any, str], tuple[bool, str]]
    build: Callable[[Any, str], KernelDef]
    signature: Callable[[Any], list[dict[str, str]]]
    limits: Callable[[Any], dict[str, Any]]
    make_problem: Callable[..., Problem]
    reference: Callable[[Any, Problem], dict[str, np.ndarray]]
    tolerance: Callable[[Any], float]
    problem_bytes: Callable[[Any, Mapping[str, Any]], int]
    grid: Callable[[Any], Grid] = _by_launch
    block: Grid = BY_LAUNCH
    matrix_instructions: Callable[[Any, str], int] = _by_launch
    launch: LaunchRule | None = None
    kernel_name: Callable[[Any, str], str] | None = None
    demo: Mapping[str, Any] = field(default_factory=dict)
    tuning: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "make_problem", _checked(self.make_problem))
        open_ = [
            self.grid is _by_launch,
            self.block is BY_LAUNCH,
            self.matrix_instructions is _by_launch,
        ]
        if open_ != [self.launch is not None] * len(open_):
            raise TypeError(
                f"family {self.name}: expected grid, block and matrix_instructions, or launch"
            )
        unknown = set(self.tuning) - {f.name for f in self.fields}
        if unknown:
            raise TypeError(f"family {self.name}: tuning: no field {', '.join(sorted(unknown))}")

    @property
    def problem_options(self) -> dict[str, Any]:
        """The options of :attr:`make_problem` by name, with their defaults."""
        return _options(self.make_problem)

    def name_of(self, spec: Any, arch: str) -> str:
        """The kernel's name, as its code object has it; every field of the spec is in it."""
        if self.kernel_name is not None:
            return self.kernel_name(spec, arch)
        return self.build(spec, arch).name

    def grid_of(self, spec: Any, arch: str, arguments: Arguments) -> Grid:
        """Workgroups of a launch with these arguments.

        Raises ``ValueError`` where the family's rule needs arguments that are not given.
        """
        if self.launch is not None:
            try:
                return self.launch.grid(spec, arch, arguments)
            except KeyError as missing:
                raise ValueError(
                    f"the grid of {self.name} is {self.launch.text}: give {missing}"
                ) from None
        return self.grid(spec)

    def block_of(self, spec: Any, arch: str) -> Grid:
        """Work-items of a workgroup."""
        if self.launch is not None:
            return self.launch.block(spec, arch)
        return self.block

    def dense_matrix_instructions(self, spec: Any, arch: str, arguments: Arguments) -> int:
        """Matrix instructions of a launch with these arguments that skips nothing."""
        if self.launch is not None:
            return self.launch.matrix_instructions(spec, arch, arguments)
        return self.matrix_instructions(spec, arch)

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


def _options(make_problem: Callable[..., Problem]) -> dict[str, Any]:
    parameters = inspect.signature(make_problem).parameters.values()
    return {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY}


def _checked(make_problem: Callable[..., Problem]) -> Callable[..., Problem]:
    known = _options(make_problem)

    @functools.wraps(make_problem)
    def checked(spec: Any, rng: np.random.Generator, **options: Any) -> Problem:
        for name in options:
            if name not in known:
                close = difflib.get_close_matches(name, known, n=1)
                hint = f", did you mean {close[0]!r}?" if close else ""
                raise ValueError(
                    f"unknown problem option {name!r}{hint} (options: {', '.join(known)})"
                )
        return make_problem(spec, rng, **options)

    return checked
