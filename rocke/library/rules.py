"""From a kernel family to plain data: selection, grid and limits as a manifest holds them."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rocke.kernels.registry import Family
from rocke.library import expressions
from rocke.library.catalogue import Entry
from rocke.library.constraints import MISSING, Constraint
from rocke.library.errors import CatalogueError

NAME_FIELD = "name"
"""The start of a kernel's name: no property of a problem."""


def selection(family: Family, spec: Any, entry: Entry) -> tuple[Constraint, ...]:
    """What a problem must satisfy: in each field of the spec its value, or its range.

    A field that is also an argument with a range of values (a length, say) takes that range, and so
    does an argument that the grid depends on. A field with a default may be left out of a problem.
    ``free`` fields and the name do not count; the entry's ``select`` replaces a field's
    constraints, or adds a field.
    """
    limits = family.limits(spec)
    flat = family.flatten(spec)
    found: list[Constraint] = []
    for field in family.fields:
        if field.name in (NAME_FIELD, *entry.free, *entry.select):
            continue
        default = MISSING if field.required else field.default
        limit = limits.get(field.name)
        if isinstance(limit, tuple):
            bounds = zip(("min", "max", "multiple_of"), limit, strict=False)
            found += [Constraint(field.name, op, value) for op, value in bounds]
        else:
            found.append(Constraint(field.name, "eq", flat[field.name], default))
    for name in sorted(grid_arguments(family, entry) - set(flat) - set(entry.select)):
        limit = limits.get(name)
        if isinstance(limit, tuple):
            bounds = zip(("min", "max", "multiple_of"), limit, strict=False)
            found += [Constraint(name, op, value) for op, value in bounds]
    for name, table in entry.select.items():
        default = table.get("default", MISSING)
        for op, value in table.items():
            if op != "default":
                raw = {"field": name, "op": op, "value": value}
                raw |= {} if default is MISSING else {"default": default}
                found.append(_parsed(raw, f"{entry.where} select.{name}"))
    return tuple(found)


def grid(
    family: Family,
    spec: Any,
    arch: str,
    entry: Entry,
    constraints: Sequence[Constraint],
    *,
    check: bool = True,
) -> tuple[expressions.Expression, ...]:
    """The grid rule in workgroups, as data.

    A family whose spec holds all sizes has a constant one. Otherwise the entry gives it over the
    spec's fields and properties (those are put in), value arguments, and fields of the problem that
    ``select`` declares; with ``check`` it must agree with the family's own rule on a problem of
    the family. Raises :class:`CatalogueError`.
    """
    if family.launch is None:
        if entry.grid is not None:
            raise CatalogueError(f"{entry.where} launch grid: {family.name} has a grid of its own")
        return family.grid(spec)
    if entry.grid is None:
        raise CatalogueError(
            f"{entry.where} launch grid: missing; in words it is {family.launch.text}"
        )
    known = _properties(family, spec, arch, entry.grid)
    made = tuple(expressions.substitute(g, known) for g in entry.grid)
    declared = {c.field for c in constraints}
    for name in (n for g in made for n in expressions.names(g)):
        if name not in declared:
            raise CatalogueError(
                f"{entry.where} launch grid: {name!r} is no field or property of the spec; a field "
                f"of the problem is declared in select, as in {name} = {{min = 1}}"
            )
    if check:
        _agree(family, spec, arch, entry, made, constraints)
    return made


def grid_arguments(family: Family, entry: Entry) -> set[str]:
    """The names in the entry's grid; empty for a family with a constant one."""
    if family.launch is None or entry.grid is None:
        return set()
    return {name for g in entry.grid for name in expressions.names(g)}


def _properties(
    family: Family, spec: Any, arch: str, grid: Sequence[expressions.Expression]
) -> dict[str, int]:
    """What the names of a grid are for a spec: its fields, its properties, its methods of arch."""
    ranged = {name for name, limit in family.limits(spec).items() if isinstance(limit, tuple)}
    flat = family.flatten(spec)
    found = {}
    for name in {n for g in grid for n in expressions.names(g)} - ranged:
        value = flat[name] if name in flat else getattr(spec, name, None)
        value = value(arch) if callable(value) else value
        if isinstance(value, int) and not isinstance(value, bool):
            found[name] = value
    return found


def _agree(
    family: Family,
    spec: Any,
    arch: str,
    entry: Entry,
    grid: Sequence[expressions.Expression],
    constraints: Sequence[Constraint],
) -> None:
    """Compare the grid with the family's own rule, on a problem of the family."""
    problem = family.make_problem(spec, np.random.default_rng(0), **entry.problem)
    values = problem_fields(family, problem.arguments, entry.problem, constraints)
    own = family.grid_of(spec, arch, problem.arguments)
    try:
        found = tuple(expressions.evaluate(g, values) for g in grid)
    except ValueError as error:
        raise CatalogueError(f"{entry.where} launch grid: {error}; give it in problem") from None
    if found != tuple(own):
        raise CatalogueError(
            f"{entry.where} launch grid: it is {found} where the family's rule gives {own}"
        )


def problem_fields(
    family: Family,
    arguments: Mapping[str, Any],
    options: Mapping[str, Any],
    constraints: Sequence[Constraint],
) -> dict[str, Any]:
    """Field values of a problem that the family drew: its numbers, its options, and defaults."""
    parameters = inspect.signature(family.make_problem).parameters.values()
    defaults = {p.name: p.default for p in parameters if isinstance(p.default, int)}
    own = {c.field: c.default for c in constraints if c.default is not MISSING}
    numbers = {n: v for n, v in arguments.items() if isinstance(v, (int, float))}
    return {**own, **defaults, **options, **numbers}


def plain_limits(limits: Mapping[str, Any]) -> dict[str, Any]:
    """Limits of the launcher as data that JSON holds."""
    return {name: _lists(limit) for name, limit in limits.items()}


def _lists(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _lists(item) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        return [_lists(item) for item in value]
    return value


def _parsed(raw: Mapping[str, Any], where: str) -> Constraint:
    try:
        return Constraint.parse(raw, where)
    except ValueError as error:
        raise CatalogueError(str(error)) from None
