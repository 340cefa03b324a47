"""The grid rule of a catalogue as data, compared with the family's own."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from rocke.kernels.registry import Family
from rocke.library import expressions
from rocke.library.catalogue import Catalogue, Entry, shipped
from rocke.library.constraints import Constraint
from rocke.library.errors import CatalogueError
from rocke.library.problems import defaults_of, fields_of, samples

Grid = tuple[expressions.Expression, ...]


def grid(
    family: Family, spec: Any, arch: str, entry: Entry, constraints: Sequence[Constraint]
) -> Grid:
    """The grid rule in workgroups, as data.

    A family whose spec holds all sizes has a constant one. Otherwise the entry gives it over the
    spec's fields and properties (those are put in), value arguments, and fields of the problem that
    ``select`` declares. Raises :class:`CatalogueError`.
    """
    where = f"{entry.where} launch grid"
    if family.launch is None:
        if entry.grid is not None:
            raise CatalogueError(f"{where}: {family.name} has a grid of its own")
        return family.grid(spec)
    if entry.grid is None:
        raise CatalogueError(
            f"{where}: missing; in words it is {family.launch.text}{_advice(family)}"
        )
    known = _properties(family, spec, arch, entry.grid)
    made = tuple(expressions.substitute(g, known) for g in entry.grid)
    declared = {c.field for c in constraints}
    for name in (n for g in made for n in expressions.names(g)):
        if name not in declared:
            fields = {*declared, *family.flatten(spec), *family.limits(spec)}
            close = difflib.get_close_matches(name, sorted(fields), n=1)
            hint = f", did you mean {close[0]!r}?" if close else ""
            raise CatalogueError(
                f"{where}: {name!r} is no field or property of the spec{hint}; a field of the "
                f"problem is declared in select, as in {name} = {{min = 1}}"
            )
    return made


def grid_arguments(family: Family, entry: Entry) -> set[str]:
    """The names in the entry's grid; empty for a family with a constant one."""
    if family.launch is None or entry.grid is None:
        return set()
    return {name for g in entry.grid for name in expressions.names(g)}


class GridCheck:
    """Compares grids of one entry with the family's own rule, on problems of many sizes.

    The problems are drawn once, for the first kernel: a rule takes their sizes alone.
    """

    def __init__(self, family: Family, entry: Entry) -> None:
        self.family = family
        self.entry = entry
        self._problems: list[tuple[Mapping[str, Any], Mapping[str, Any], Mapping[str, Any]]] = []

    def compare(
        self, spec: Any, arch: str, made: Grid, constraints: tuple[Constraint, ...]
    ) -> None:
        """Raises :class:`CatalogueError` that names a size for which the grids differ."""
        if self.family.launch is None:
            return
        if not self._problems:
            self._problems = [
                (
                    options,
                    problem.arguments,
                    fields_of(self.family, problem.arguments, {**self.entry.problem, **options}),
                )
                for options, problem in samples(self.family, spec)
            ]
        found = self._difference(spec, arch, made, constraints)
        if found:
            raise CatalogueError(f"{self.entry.where} launch grid: {found}{_advice(self.family)}")

    def _difference(
        self, spec: Any, arch: str, made: Grid, constraints: tuple[Constraint, ...]
    ) -> str:
        defaults = defaults_of(constraints)
        for options, arguments, fields in self._problems:
            values = {**defaults, **fields}
            own = tuple(self.family.grid_of(spec, arch, arguments))
            try:
                given = tuple(expressions.evaluate(g, values) for g in made)
            except ValueError as error:
                return f"{error}; give it in problem"
            if given != own:
                sizes = ", ".join(f"{n} = {v}" for n, v in options.items())
                return f"it is {given} where the family's rule gives {own}, for {sizes}"
        return ""


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


def _advice(family: Family) -> str:
    """The lines to write, as a catalogue that comes with rocke has them."""
    for path in shipped().values():
        for entry in Catalogue.load(path).entries:
            if entry.family == family.name and entry.grid is not None:
                lines = json.dumps([expressions.plain(g) for g in entry.grid])
                found = f"; write grid = {lines} in [kernels.launch]"
                if entry.select:
                    rules = "; ".join(f"{n} = {_table(t)}" for n, t in entry.select.items())
                    found += f", and in [kernels.select] {rules}"
                return found
    return ""


def _table(table: Mapping[str, Any]) -> str:
    return "{" + ", ".join(f"{key} = {json.dumps(value)}" for key, value in table.items()) + "}"
