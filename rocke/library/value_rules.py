"""What a problem may give for a kernel's value arguments: what their types and limits allow.

Constraints say which fields a problem must have. These rules hold for whatever argument it names
besides, so that no kernel is selected whose launch would refuse the problem's own values.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from rocke.library.constraints import Constraint, Problem, Real, plain_value, shown

_BITS = {"i8": 8, "i16": 16, "i32": 32, "i64": 64}


@dataclass(frozen=True)
class ValueRule:
    """One value argument of type ``type``: both ends are allowed, ``step`` divides the value."""

    field: str
    type: str
    low: float
    high: float
    step: int = 1

    @property
    def integer(self) -> bool:
        """Whether only integers will do."""
        return self.type in _BITS

    def reason(self, problem: Problem) -> str:
        """Why a launch would refuse what the problem gives; empty if it would not."""
        if self.field not in problem or self.holds(problem[self.field]):
            return ""
        return f"{self.field} is {shown(problem[self.field])}, expected {self.expected()}"

    def holds(self, given: Any) -> bool:
        """Whether the argument may have a value, of Python's types, numpy's, or a plain one."""
        value = plain_value(given)
        if isinstance(value, Real):
            value = value.value
        if type(value) is bool:
            return self.type == "i1"
        if type(value) is not int and (type(value) is not float or self.integer):
            return False
        return self.low <= value <= self.high and (self.step == 1 or value % self.step == 0)

    def expected(self) -> str:
        """What would hold, in words."""
        kind = "an integer" if self.integer else "a number"
        step = f", a multiple of {self.step}" if self.step != 1 else ""
        return f"{kind} of {self.low} to {self.high}{step}"

    def constraints(self) -> list[Constraint]:
        """The rule of an integer as constraints; none for other types."""
        if not self.integer:
            return []
        own = [Constraint(self.field, "min", self.low), Constraint(self.field, "max", self.high)]
        return own + [Constraint(self.field, "multiple_of", self.step)] * (self.step != 1)


def value_rules(
    types: Iterable[tuple[str, str]], limits: Mapping[str, Any]
) -> tuple[ValueRule, ...]:
    """The rules of arguments, given as ``(name, type)``; pointers have none.

    ``limits`` is as :mod:`rocke.runtime.limits` has it.
    """
    return tuple(
        _rule(name, kind, limits.get(name)) for name, kind in types if not kind.startswith("ptr<")
    )


def _rule(name: str, kind: str, limit: Any) -> ValueRule:
    low: float = -math.inf
    high: float = math.inf
    if kind == "i1":
        low, high = 0, 1
    elif kind in _BITS:
        low, high = -(2 ** (_BITS[kind] - 1)), 2 ** (_BITS[kind] - 1) - 1
    step = 1
    if isinstance(limit, tuple):
        low, high = max(low, limit[0]), min(high, limit[1])
        step = limit[2] if len(limit) == 3 else 1
    return ValueRule(name, kind, low, high, step)
