"""The constraints language: what must hold for a problem that a kernel serves, as plain data.

A problem is a mapping of field names to integers, booleans and texts. A constraint is
``{"field", "op", "value"}`` with an op of

- ``eq``: the value itself (of the same type);
- ``in``: one of a list of values;
- ``min``, ``max``: bounds of an integer, both allowed;
- ``multiple_of``: a step of an integer, at least 1.

Integers are those of 64 bits. Numpy's integers, booleans and texts count as Python's own; any other
kind of value, such as a float or an array, satisfies nothing.

With ``"default"`` the problem may leave the field out and then means that value; without it the
field must be given. All constraints of a kernel must hold, and a problem may name no field that the
kernel does not know: a kernel never serves a request that it would not honour.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import lcm
from typing import Any

import numpy as np

from rocke.library.naming import check_text, short

Value = int | bool | str
Problem = Mapping[str, Any]

OPERATIONS = ("eq", "in", "min", "max", "multiple_of")
MISSING: Any = object()
"""Stands for "no default"."""


@dataclass(frozen=True)
class Constraint:
    """One constraint; ``default`` is :data:`MISSING` where the field must be given."""

    field: str
    op: str
    value: Any
    default: Any = MISSING

    @classmethod
    def parse(cls, raw: Any, where: str) -> Constraint:
        """Read plain data; raises ``ValueError`` that begins with ``where``."""
        if not isinstance(raw, Mapping) or not {"field", "op", "value"} <= set(raw):
            raise ValueError(f"{where}: {raw!r}, expected a table with field, op and value")
        extra = sorted(set(raw) - {"field", "op", "value", "default"})
        if extra:
            raise ValueError(f"{where}: unknown key {extra[0]!r}")
        field, op, value = raw["field"], raw["op"], raw["value"]
        default = raw.get("default", MISSING)
        if not isinstance(field, str) or not (field.isidentifier() and field.isascii()):
            raise ValueError(f"{where}: field is {short(field)}, expected a name")
        if op not in OPERATIONS:
            raise ValueError(f"{where}: op is {op!r}, expected one of {', '.join(OPERATIONS)}")
        if op == "in":
            if not isinstance(value, Sequence) or isinstance(value, str) or not value:
                raise ValueError(f"{where}: value is {short(value)}, expected a list of values")
            value = tuple(value)
        values = value if op == "in" else (value,)
        if not all(_plain(v) for v in values) or not (default is MISSING or _plain(default)):
            wrong = next(v for v in (*values, default) if v is not MISSING and not _plain(v))
            raise ValueError(
                f"{where}: values are integers of 64 bits, booleans and texts, not {short(wrong)}"
            )
        for text in (*values, default):
            if isinstance(text, str):
                check_text(text, where)
        if op not in ("eq", "in") and not _integer(value):
            raise ValueError(f"{where}: value is {short(value)}, expected an integer for {op}")
        if op == "multiple_of" and value < 1:
            raise ValueError(f"{where}: value is {value!r}, expected at least 1")
        return cls(field, op, value, default)

    def plain(self) -> dict[str, Any]:
        """The constraint as data that JSON holds."""
        value = list(self.value) if self.op == "in" else self.value
        raw = {"field": self.field, "op": self.op, "value": value}
        return raw if self.default is MISSING else {**raw, "default": self.default}

    def reason(self, problem: Problem) -> str:
        """Why the constraint does not hold for ``problem``; empty if it does."""
        given = problem.get(self.field, self.default)
        if given is MISSING:
            return f"{self.field} is not given, expected {self.expected()}"
        value = plain_value(given)
        if self.holds(value):
            return ""
        return f"{self.field} is {shown(given)}, expected {self.expected()}"

    def expected(self) -> str:
        """What would hold, in words."""
        return {
            "eq": f"{self.value!r}",
            "in": f"one of {', '.join(map(repr, self.value))}" if self.op == "in" else "",
            "min": f"at least {self.value}",
            "max": f"at most {self.value}",
            "multiple_of": f"a multiple of {self.value}",
        }[self.op]

    def holds(self, value: Any) -> bool:
        """Whether a plain value satisfies the constraint."""
        if self.op == "eq":
            return same(value, self.value)
        if self.op == "in":
            return any(same(value, v) for v in self.value)
        if not _integer(value):
            return False
        if self.op == "min":
            return bool(value >= self.value)
        if self.op == "max":
            return bool(value <= self.value)
        return bool(value % self.value == 0)


class Unusable:
    """Stands for a value that satisfies nothing."""


@dataclass(frozen=True)
class Real(Unusable):
    """A floating-point number: it satisfies no constraint, but may be a kernel's argument."""

    value: float


_UNUSABLE = Unusable()


def plain_value(value: Any) -> Any:
    """An integer, boolean or text as Python's own type; anything else gives :class:`Unusable`."""
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    if isinstance(value, (int, np.integer)):
        return int(value)
    if isinstance(value, (float, np.floating)):
        return Real(float(value))
    if isinstance(value, Unusable):
        return value
    # An enumeration's own text is its name: str() of a text that is a member is not its value.
    return str.__str__(value) if isinstance(value, str) else _UNUSABLE


def shown(given: Any) -> str:
    """A problem's value for people: what it counts as, or what it is and of which type."""
    value = plain_value(given)
    if not isinstance(value, Unusable):
        return short(value)
    own = value.value if isinstance(value, Real) else given
    return f"{short(own)} ({type(given).__name__})"


def plain_problem(problem: Problem) -> Problem:
    """The problem with plain values; raises ``TypeError`` for what is no mapping."""
    if not isinstance(problem, Mapping):
        raise TypeError(f"problem: {short(problem)}, expected a mapping of field names to values")
    for value in problem.values():
        if type(value) not in _OWN:
            return {name: plain_value(v) for name, v in problem.items()}
    return problem


_OWN = frozenset({int, bool, str})


def contradiction(constraints: Sequence[Constraint]) -> str:
    """Why no value satisfies all of one field's constraints; empty if one does."""
    exact = [c for c in constraints if c.op in ("eq", "in")]
    if exact:
        first = exact[0]
        values = first.value if first.op == "in" else (first.value,)
        if any(all(c.holds(v) for c in constraints) for v in values):
            return ""
    else:
        low = max((c.value for c in constraints if c.op == "min"), default=-(2**63))
        high = min((c.value for c in constraints if c.op == "max"), default=2**63 - 1)
        step = lcm(*(c.value for c in constraints if c.op == "multiple_of"))
        if -(-low // step) * step <= high:
            return ""
    return f"no value is {' and '.join(dict.fromkeys(c.expected() for c in constraints))}"


def same(a: Any, b: Any) -> bool:
    """Equality of plain values that keeps booleans apart from integers."""
    return bool(a == b) and isinstance(a, bool) == isinstance(b, bool)


def _integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _plain(value: Any) -> bool:
    return isinstance(value, str) or (isinstance(value, int) and -(2**63) <= value < 2**63)
