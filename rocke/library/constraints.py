"""The constraints language: what must hold for a problem that a kernel serves, as plain data.

A problem is a mapping of field names to integers, booleans and texts. A constraint is
``{"field", "op", "value"}`` with an op of

- ``eq``: the value itself (of the same type);
- ``in``: one of a list of values;
- ``min``, ``max``: bounds of an integer, both allowed;
- ``multiple_of``: a step of an integer, at least 1.

With ``"default"`` the problem may leave the field out and then means that value; without it the
field must be given. All constraints of a kernel must hold, and a problem may name no field that the
kernel does not know: a kernel never serves a request that it would not honour.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

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
        if not isinstance(field, str) or not field.isidentifier():
            raise ValueError(f"{where}: field is {field!r}, expected a name")
        if op not in OPERATIONS:
            raise ValueError(f"{where}: op is {op!r}, expected one of {', '.join(OPERATIONS)}")
        if op == "in":
            if not isinstance(value, Sequence) or isinstance(value, str) or not value:
                raise ValueError(f"{where}: value is {value!r}, expected a list of values")
            value = tuple(value)
        values = value if op == "in" else (value,)
        if not all(_plain(v) for v in values) or not (default is MISSING or _plain(default)):
            raise ValueError(f"{where}: values are integers, booleans and texts, not {value!r}")
        if op not in ("eq", "in") and not _integer(value):
            raise ValueError(f"{where}: value is {value!r}, expected an integer for {op}")
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
        if self._holds(given):
            return ""
        return f"{self.field} is {given!r}, expected {self.expected()}"

    def expected(self) -> str:
        """What would hold, in words."""
        return {
            "eq": f"{self.value!r}",
            "in": f"one of {', '.join(map(repr, self.value))}" if self.op == "in" else "",
            "min": f"at least {self.value}",
            "max": f"at most {self.value}",
            "multiple_of": f"a multiple of {self.value}",
        }[self.op]

    def _holds(self, given: Any) -> bool:
        if self.op == "eq":
            return same(given, self.value)
        if self.op == "in":
            return any(same(given, v) for v in self.value)
        if not _integer(given):
            return False
        if self.op == "min":
            return bool(given >= self.value)
        if self.op == "max":
            return bool(given <= self.value)
        return bool(given % self.value == 0)


def same(a: Any, b: Any) -> bool:
    """Equality that keeps booleans apart from integers."""
    return bool(a == b) and isinstance(a, bool) == isinstance(b, bool)


def _integer(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def _plain(value: Any) -> bool:
    return isinstance(value, (int, str))
