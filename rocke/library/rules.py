"""From a kernel family to plain data: selection, grid and limits as a manifest holds them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rocke.kernels.registry import Family
from rocke.library import expressions
from rocke.library.catalogue import Entry
from rocke.library.constraints import MISSING, Constraint
from rocke.library.errors import CatalogueError

NAME_FIELD = "name"
"""The start of a kernel's name: no property of a problem."""


def selection(family: Family, spec: Any, entry: Entry) -> tuple[Constraint, ...]:
    """What a problem must satisfy: in each field of the spec its value, or its range.

    A field that is also an argument with a range of values (a length, say) takes that range. A
    field with a default may be left out of a problem. ``free`` fields and the name do not count;
    the entry's ``select`` replaces a field's constraints, or adds a field.
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
    for name, table in entry.select.items():
        default = table.get("default", MISSING)
        for op, value in table.items():
            if op != "default":
                raw = {"field": name, "op": op, "value": value}
                raw |= {} if default is MISSING else {"default": default}
                found.append(_parsed(raw, f"{entry.where} select.{name}"))
    return tuple(found)


def grid(family: Family, spec: Any, entry: Entry) -> tuple[expressions.Expression, ...]:
    """The grid rule in workgroups: the entry's with the spec's fields put in, or the family's."""
    if entry.grid is None:
        return family.grid(spec)
    flat = {n: v for n, v in family.flatten(spec).items() if n not in _ranged(family, spec)}
    return tuple(expressions.substitute(g, flat) for g in entry.grid)


def plain_limits(limits: Mapping[str, Any]) -> dict[str, Any]:
    """Limits of the launcher as data that JSON holds."""
    return {name: _lists(limit) for name, limit in limits.items()}


def _ranged(family: Family, spec: Any) -> set[str]:
    return {name for name, limit in family.limits(spec).items() if isinstance(limit, tuple)}


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
