"""From a kernel family to plain data: what a problem must satisfy, and the limits of a launch."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import lcm
from typing import Any

from rocke.kernels.registry import Family
from rocke.library.catalogue import Entry
from rocke.library.constraints import MISSING, Constraint, contradiction
from rocke.library.errors import CatalogueError
from rocke.library.grids import grid_arguments
from rocke.library.naming import short
from rocke.library.value_rules import value_rules

NAME_FIELD = "name"
"""The start of a kernel's name: no property of a problem."""
_FAMILY = "family"


def selection(family: Family, spec: Any, entry: Entry) -> tuple[Constraint, ...]:
    """What a problem must satisfy: in each field of the spec its value, or its range.

    A field that is also an argument with a range of values (a length, say) takes that range, and so
    does an argument that the grid depends on. A field with a default may be left out of a problem.
    ``free`` fields and the name do not count; the entry's ``select`` narrows a field further, or
    adds one. Raises :class:`CatalogueError` for a ``select`` that contradicts the family.
    """
    limits = family.limits(spec)
    flat = family.flatten(spec)
    found: dict[str, list[Constraint]] = {}
    for field in family.fields:
        if field.name not in (NAME_FIELD, *entry.free):
            default = MISSING if field.required else field.default
            exact = Constraint(field.name, "eq", flat[field.name], default)
            found[field.name] = _range(field.name, limits) or [exact]
    for name in sorted(grid_arguments(family, entry) - set(flat)):
        if _range(name, limits):
            found[name] = _range(name, limits)
    for name, table in entry.select.items():
        _check_selected(name, family, spec, entry)
        own = found.get(name) or _of_argument(name, family, spec, f"{entry.where} select.{name}")
        found[name] = _narrowed(name, table, own, f"{entry.where} select.{name}")
    return tuple(c for own in found.values() for c in own)


def _range(name: str, limits: Mapping[str, Any]) -> list[Constraint]:
    limit = limits.get(name)
    if not isinstance(limit, tuple):
        return []
    bounds = zip(("min", "max", "multiple_of"), limit, strict=False)
    return [Constraint(name, op, value) for op, value in bounds]


def _of_argument(name: str, family: Family, spec: Any, where: str) -> list[Constraint]:
    """What a launch takes for a value argument; nothing for a field of the caller's own."""
    types = ((a["name"], a["type"]) for a in family.signature(spec))
    for rule in value_rules(types, family.limits(spec)):
        if rule.field == name:
            if not rule.integer:
                raise CatalogueError(f"{where}: {name} is {rule.type}; select takes integers")
            return rule.constraints()
    return []


def _check_selected(name: str, family: Family, spec: Any, entry: Entry) -> None:
    where = f"{entry.where} select.{name}"
    if name in (_FAMILY, NAME_FIELD):
        raise CatalogueError(f"{where}: {name} is no field of a problem to narrow")
    if name in entry.free:
        raise CatalogueError(f"{where}: {name} is in free: no problem asks for it")
    known = {*family.flatten(spec), *family.limits(spec), *family.problem_options}
    known |= grid_arguments(family, entry)
    if name not in known:
        close = difflib.get_close_matches(name, sorted(known), n=1, cutoff=0.8)
        if close:
            raise CatalogueError(f"{where}: unknown field, did you mean {close[0]!r}?")


def _narrowed(
    name: str, table: Mapping[str, Any], own: Sequence[Constraint], where: str
) -> list[Constraint]:
    """The family's constraints of a field and those of ``select``, as few as say the same."""
    default = table.get("default", own[0].default if own else MISSING)
    asked = []
    for op, value in table.items():
        if op != "default":
            raw = {"field": name, "op": op, "value": value}
            raw |= {"default": table["default"]} if "default" in table else {}
            try:
                asked.append(replace(Constraint.parse(raw, where), default=default))
            except ValueError as error:
                raise CatalogueError(str(error)) from None
    merged = [*(replace(c, default=default) for c in own), *asked]
    if not merged or not table:
        raise CatalogueError(f"{where}: {dict(table)} says nothing of the field")
    reason = contradiction(merged)
    if reason:
        raise CatalogueError(f"{where}: {short(dict(table))} leaves nothing: {reason}")
    if "default" in table and not all(c.holds(default) for c in merged):
        wanted = " and ".join(dict.fromkeys(c.expected() for c in merged))
        raise CatalogueError(f"{where}: default is {default!r}, expected {wanted}")
    exact = [c for c in merged if c.op in ("eq", "in")]
    if exact:
        values = exact[0].value if exact[0].op == "in" else (exact[0].value,)
        left = tuple(v for v in values if all(c.holds(v) for c in merged))
        one = len(left) == 1
        return [Constraint(name, "eq" if one else "in", left[0] if one else left, default)]
    tightest: dict[str, Callable[[list[int]], int]]
    tightest = {"min": max, "max": min, "multiple_of": lambda steps: lcm(*steps)}
    by_op = {op: [c.value for c in merged if c.op == op] for op in tightest}
    return [
        Constraint(name, op, tightest[op](values), default)
        for op, values in by_op.items()
        if values
    ]


def check_free(family: Family, entry: Entry) -> None:
    """Refuse a ``free`` field that changes what a launch takes or gives, as the family says.

    Raises :class:`CatalogueError`.
    """
    for name in entry.free:
        if name not in (NAME_FIELD, *family.tuning):
            may = ", ".join([*family.tuning, NAME_FIELD])
            raise CatalogueError(
                f"{entry.where} free: {name!r} decides what a launch takes or gives: problems must "
                f"ask for it (free may be: {may})"
            )


def plain_limits(limits: Mapping[str, Any]) -> dict[str, Any]:
    """Limits of the launcher as data that JSON holds."""
    return {name: _lists(limit) for name, limit in limits.items()}


def _lists(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _lists(item) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        return [_lists(item) for item in value]
    return value
