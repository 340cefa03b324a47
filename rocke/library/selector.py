"""Find the kernel that serves a problem, in microseconds.

The kernels of one family and target are ordered, best first. For each field that a problem names an
index tells which of them accept its value, as bits; the lowest bit that is left of all is the best
kernel. What was asked lately is remembered. :func:`rocke.library.explaining.explain` gives the same
answer from the constraints one by one.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

from rocke.library import expressions
from rocke.library.constraints import MISSING, Constraint, Problem, plain_problem
from rocke.library.field_index import FieldIndex, bits
from rocke.library.manifest import KernelEntry
from rocke.library.value_rules import ValueRule, value_rules

FAMILY = "family"
"""The field of a problem that names the family."""
_MEMORY = 1024
"""Problems whose answers are kept."""


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
class _Candidate:
    entry: KernelEntry
    known: frozenset[str]
    constraints: Mapping[str, tuple[Constraint, ...]]
    types: Mapping[str, str]
    """Of the value arguments."""

    @staticmethod
    def of(entry: KernelEntry) -> _Candidate:
        own: dict[str, tuple[Constraint, ...]] = {}
        for c in entry.constraints:
            own[c.field] = (*own.get(c.field, ()), c)
        types = {a.name: a.type for a in entry.arguments if a.kind == "by_value"}
        return _Candidate(entry, known_fields(entry), own, types)

    def needed(self) -> Iterator[str]:
        """The fields that a problem cannot leave out."""
        for name, own in self.constraints.items():
            if any(c.default is MISSING or not c.holds(c.default) for c in own):
                yield name

    def rule(self, name: str) -> ValueRule | None:
        """What a problem may give for an argument; ``None`` for other fields."""
        if name not in self.types:
            return None
        return next(iter(value_rules([(name, self.types[name])], self.entry.limits)), None)

    def fits(self, problem: Problem) -> bool:
        """Whether the kernel serves a problem of plain values."""
        for name, own in self.constraints.items():
            for c in own:
                value = problem.get(name, c.default)
                if value is MISSING or not c.holds(value):
                    return False
        for name, value in problem.items():
            if name not in self.known:
                return False
            rule = self.rule(name)
            if rule is not None and not rule.holds(value):
                return False
        return True


class _Group:
    """The kernels of one family and target."""

    def __init__(self, entries: Iterable[KernelEntry]) -> None:
        self.candidates = [_Candidate.of(e) for e in sorted(entries, key=rank)]
        self._names = frozenset().union(*(c.known for c in self.candidates))
        constrained = {name for c in self.candidates for name in c.constraints}
        self._fields = {name: self._index(name) for name in constrained}
        self._always, self._when = self._needed()

    def _index(self, name: str) -> FieldIndex:
        numbered = list(enumerate(self.candidates))
        rules = ((i, c.rule(name)) for i, c in numbered)
        return FieldIndex(
            len(self.candidates),
            (i for i, c in numbered if name in c.known),
            {i: c.constraints[name] for i, c in numbered if name in c.constraints},
            {i: rule for i, rule in rules if rule is not None},
        )

    def _needed(self) -> tuple[int, Mapping[str, list[tuple[frozenset[str], int]]]]:
        """The mask of the kernels that need no field; the others, by the rarest that they need."""
        by_set: dict[frozenset[str], list[int]] = {}
        for i, candidate in enumerate(self.candidates):
            by_set.setdefault(frozenset(candidate.needed()), []).append(i)
        often = Counter(name for needed, own in by_set.items() for name in needed for _ in own)
        masks = {needed: bits(own, len(self.candidates)) for needed, own in by_set.items()}
        always = masks.pop(frozenset(), 0)
        when: dict[str, list[tuple[frozenset[str], int]]] = {}
        for needed, mask in masks.items():
            rarest = min(needed, key=lambda name: (often[name], name))
            when.setdefault(rarest, []).append((needed, mask))
        return always, when

    def find(self, problem: Problem) -> KernelEntry | None:
        """The best kernel for a problem of plain values."""
        if not problem.keys() <= self._names:
            return None
        left = self._always
        for name in problem:
            for needed, mask in self._when.get(name, ()):
                if needed <= problem.keys():
                    left |= mask
        exact = True
        for name, value in problem.items():
            field = self._fields.get(name)
            if field is None:  # an argument without constraints, seldom named
                field = self._fields[name] = self._index(name)
            left &= field.mask(value)
            if not left:
                return None
            exact = exact and field.exact
        while left:
            best = left & -left
            candidate = self.candidates[best.bit_length() - 1]
            if exact or candidate.fits(problem):
                return candidate.entry
            left ^= best
        return None


class Selector:
    """The index over a library's kernels; threads may share it."""

    def __init__(self, entries: Iterable[KernelEntry]) -> None:
        own: dict[tuple[str, str], list[KernelEntry]] = {}
        for entry in entries:
            own.setdefault((entry.family, entry.arch), []).append(entry)
        groups = {key: _Group(found) for key, found in own.items()}

        @functools.lru_cache(_MEMORY)
        def find(
            key: tuple[str, str], items: tuple[tuple[str, Any], ...], types: tuple[type, ...]
        ) -> KernelEntry | None:
            """``types`` keep True apart from 1."""
            return groups[key].find(dict(items)) if key in groups else None

        self._find = find

    def find(self, family: str, arch: str, problem: Problem) -> KernelEntry | None:
        """The best kernel for a problem, or ``None``; ``TypeError`` for what is no problem."""
        plain = plain_problem(problem)
        return self._find((family, arch), tuple(plain.items()), tuple(map(type, plain.values())))
