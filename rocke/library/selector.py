"""Find the kernel that serves a problem, in microseconds.

Kernels of one family and target whose constraints are alike form a group; within it a dictionary
leads from the values of the exact fields to the few kernels that differ in ranges alone, best
first. :func:`rocke.library.explaining.explain` gives the same answer from the constraints one by
one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from math import inf, prod
from typing import Any

import numpy as np

from rocke.library import expressions
from rocke.library.constraints import Constraint, Problem, plain_problem
from rocke.library.manifest import KernelEntry
from rocke.library.value_rules import ValueRule, value_rules

FAMILY = "family"
"""The field of a problem that names the family."""
_TRUE, _FALSE = object(), object()
_EXACT = 2**53
"""Integers below it are exact in float64."""
_FEW = 24
"""Up to so many kernels are compared one by one; more, all at once."""


Order = tuple[int, int, str]


def rank(entry: KernelEntry) -> Order:
    """The order of kernels that serve the same problem: the best first.

    The highest priority, then the tightest upper bounds, then the name.
    """
    bounds: dict[str, int] = {}
    for c in entry.constraints:
        if c.op == "max":
            bounds[c.field] = min(c.value, bounds.get(c.field, c.value))
    return (-entry.priority, prod(max(b, 1) for b in bounds.values()), entry.id)


def known_fields(entry: KernelEntry) -> frozenset[str]:
    """The fields that a problem may name for this kernel."""
    fields = {c.field for c in entry.constraints}
    values = (a.name for a in entry.arguments if a.kind == "by_value")
    in_grid = (n for g in entry.grid for n in expressions.names(g))
    return frozenset({FAMILY, *fields, *values, *in_grid})


def argument_rules(entry: KernelEntry) -> tuple[ValueRule, ...]:
    """What a problem may give for the kernel's value arguments."""
    values = ((a.name, a.type) for a in entry.arguments if a.kind == "by_value")
    return value_rules(values, entry.limits)


@dataclass(frozen=True)
class _Range:
    field: str
    low: float
    high: float
    default: Any


@dataclass(frozen=True)
class _Candidate:
    entry: KernelEntry
    order: Order
    ranges: tuple[_Range, ...]
    rest: tuple[Constraint | ValueRule, ...]

    def fits(self, problem: Problem) -> bool:
        for r in self.ranges:
            value = problem.get(r.field, r.default)
            if type(value) is not int:
                return False
            if not r.low <= value <= r.high:
                return False
        return not self.rest or self.rest_fits(problem)

    def rest_fits(self, problem: Problem) -> bool:
        return all(not c.reason(problem) for c in self.rest)


class _Bucket:
    """Kernels that share every exact value, best first."""

    def __init__(self, candidates: Iterable[_Candidate]) -> None:
        self.candidates = sorted(candidates, key=lambda c: c.order)
        fields = {tuple((r.field, r.default) for r in c.ranges) for c in self.candidates}
        self.fields: tuple[tuple[str, Any], ...] | None = None
        if len(self.candidates) > _FEW and len(fields) == 1:
            (self.fields,) = fields
            count = len(self.fields)
            lows = [[c.ranges[f].low for c in self.candidates] for f in range(count)]
            highs = [[c.ranges[f].high for c in self.candidates] for f in range(count)]
            self.lows, self.highs = np.array(lows, np.float64), np.array(highs, np.float64)

    def find(self, problem: Problem) -> _Candidate | None:
        if self.fields is not None:
            return self._find_in_table(self.fields, problem)
        for candidate in self.candidates:
            if candidate.fits(problem):
                return candidate
        return None

    def _find_in_table(
        self, fields: tuple[tuple[str, Any], ...], problem: Problem
    ) -> _Candidate | None:
        inside = np.ones(len(self.candidates), np.bool_)
        for (name, default), low, high in zip(fields, self.lows, self.highs, strict=True):
            value = problem.get(name, default)
            if type(value) is not int:
                return None
            if not -_EXACT < value < _EXACT:  # numpy's comparison takes no larger ones
                value = _EXACT if value > 0 else -_EXACT
            inside &= low <= value
            inside &= high >= value
        start = int(inside.argmax())
        if inside[start] and self.candidates[start].rest_fits(problem):
            return self.candidates[start]
        for index in np.flatnonzero(inside):
            if self.candidates[index].rest_fits(problem):
                return self.candidates[index]
        return None


@dataclass
class _Group:
    """Kernels of one family and target with the same exact fields, defaults and known fields."""

    exact: tuple[tuple[str, Any], ...]
    known: frozenset[str]
    collected: dict[tuple[Any, ...], list[_Candidate]] = field(default_factory=dict)
    buckets: dict[tuple[Any, ...], _Bucket] = field(default_factory=dict)

    def find(self, problem: Problem) -> _Candidate | None:
        get = problem.get
        key = []
        for name, default in self.exact:
            value = get(name, default)
            if value is True:
                value = _TRUE
            elif value is False:
                value = _FALSE
            key.append(value)
        bucket = self.buckets.get(tuple(key))
        if bucket is None or not problem.keys() <= self.known:
            return None
        return bucket.find(problem)


class Selector:
    """The index over a library's kernels; immutable, so threads may share it."""

    def __init__(self, entries: Iterable[KernelEntry]) -> None:
        groups: dict[tuple[str, str], dict[Any, _Group]] = {}
        for entry in entries:
            exact, candidate = _split(entry)
            fields = tuple((c.field, c.default) for c in exact)
            known = known_fields(entry)
            same_kind = groups.setdefault((entry.family, entry.arch), {})
            names = tuple((name, _keyed(default)) for name, default in fields)
            group = same_kind.setdefault((names, known), _Group(fields, known))
            key = tuple(_keyed(c.value) for c in exact)
            group.collected.setdefault(key, []).append(candidate)
        self._groups = {key: tuple(found.values()) for key, found in groups.items()}
        for found in self._groups.values():
            for group in found:
                group.buckets = {k: _Bucket(v) for k, v in group.collected.items()}
                group.collected = {}

    def find(self, family: str, arch: str, problem: Problem) -> KernelEntry | None:
        """The best kernel for a problem, or ``None``; ``TypeError`` for what is no problem."""
        best = None
        plain = plain_problem(problem)
        for group in self._groups.get((family, arch), ()):
            found = group.find(plain)
            if found is not None and (best is None or found.order < best.order):
                best = found
        return None if best is None else best.entry


def _split(entry: KernelEntry) -> tuple[list[Constraint], _Candidate]:
    """The exact constraints in the order of their fields' names, and the rest as a candidate."""
    exact: dict[str, Constraint] = {}
    ranges: dict[str, _Range] = {}
    rest: list[Constraint | ValueRule] = [*argument_rules(entry)]
    for c in entry.constraints:
        if c.op == "eq" and c.field not in exact:
            exact[c.field] = c
        elif c.op in ("min", "max") and abs(c.value) < _EXACT:
            known = ranges.get(c.field, _Range(c.field, -inf, inf, c.default))
            if _keyed(known.default) != _keyed(c.default):
                rest.append(c)
                continue
            low = max(known.low, c.value) if c.op == "min" else known.low
            high = min(known.high, c.value) if c.op == "max" else known.high
            ranges[c.field] = _Range(c.field, low, high, c.default)
        else:
            rest.append(c)
    candidate = _Candidate(entry, rank(entry), tuple(ranges.values()), tuple(rest))
    return [exact[name] for name in sorted(exact)], candidate


def _keyed(value: Any) -> Any:
    """Booleans that do not equal integers."""
    if isinstance(value, bool):
        return _TRUE if value else _FALSE
    return value
