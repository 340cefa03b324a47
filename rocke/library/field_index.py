"""Which of many kernels accept a value of one field of a problem, as the bits of an integer.

Bit i stands for kernel i. Where very many kernels have different bounds a mask may hold a kernel
too many, and never one too few: then :attr:`FieldIndex.exact` is false, and who asks compares what
is left with the constraints themselves.
"""

from __future__ import annotations

import functools
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import inf, lcm
from typing import Any

import numpy as np

from rocke.library.constraints import Constraint
from rocke.library.value_rules import ValueRule

_TRUE, _FALSE = object(), object()
_EXACT = 2**52
"""Below it a quotient in float64 is whole only where the division leaves no rest."""
_FEW = 16
"""So many steps are tried one by one; more, all at once."""
_TABLE_BYTES = 4 << 20
"""Of the masks of all bounds of a field; with more bounds some share a mask."""
_MEMORY = 256
"""Values of a field whose masks are kept."""


def keyed(value: Any) -> Any:
    """Booleans that do not equal integers."""
    if isinstance(value, bool):
        return _TRUE if value else _FALSE
    return value


def bits(kernels: Iterable[int], count: int) -> int:
    """The mask of some of ``count`` kernels."""
    data = bytearray(count // 8 + 1)
    for i in kernels:
        data[i >> 3] |= 1 << (i & 7)
    return int.from_bytes(data, "little")


class FieldIndex:
    """What each kernel demands of one field: its constraints, and the rule of its argument.

    A kernel in neither ``constraints`` nor ``rules`` takes any value if it is in ``known``, and
    none otherwise. ``exact`` tells whether masks hold no kernel too many.
    """

    def __init__(
        self,
        count: int,
        known: Iterable[int],
        constraints: Mapping[int, Sequence[Constraint]],
        rules: Mapping[int, ValueRule],
    ) -> None:
        demands = _Demands()
        for i, own in constraints.items():
            for c in own:
                demands.add_constraint(i, c)
        for i, rule in rules.items():
            demands.add_rule(i, rule)
        numbers = demands.low.keys() | demands.high.keys() | demands.steps.keys()
        self._known = bits(known, count)
        self._not_numbers = ~bits(numbers, count)
        self._open = ~bits(demands.exact, count)
        accepting: dict[Any, list[int]] = {}
        for i, values in demands.exact.items():
            for value in values:
                accepting.setdefault(value, []).append(i)
        self._accepting = {value: bits(own, count) for value, own in accepting.items()}
        self._unconstrained = ~bits(constraints, count)
        self._rules = [(r, ~bits(own, count)) for r, own in demands.rules.items()]
        self._low, low_exact = _prefixes(((demands.low.get(i, -inf), i) for i in numbers), count)
        self._high, high_exact = _prefixes(((-demands.high.get(i, inf), i) for i in numbers), count)
        self.exact = low_exact and high_exact
        self._steps = _steps(demands.steps, count)
        self.mask: Callable[[Any], int] = functools.lru_cache(_MEMORY, typed=True)(self._mask)

    def _mask(self, value: Any) -> int:
        found = self._known
        kind = type(value)
        if kind is int:
            found &= self._not_numbers | (self._low(value) & self._high(-value))
        elif kind is bool or kind is str:
            found &= self._not_numbers
        else:
            found &= self._not_numbers & self._unconstrained
        if found:
            found &= self._open | self._accepting.get(keyed(value), 0)
        for rule, others in self._rules:
            if not rule.holds(value):
                found &= others
        if found and kind is int:
            found &= self._steps(value)
        return found


class _Demands:
    def __init__(self) -> None:
        self.exact: dict[int, frozenset[Any]] = {}
        self.low: dict[int, float] = {}
        self.high: dict[int, float] = {}
        self.steps: dict[int, int] = {}
        self.rules: dict[ValueRule, list[int]] = {}

    def add_constraint(self, i: int, c: Constraint) -> None:
        if c.op in ("eq", "in"):
            values = frozenset(map(keyed, c.value if c.op == "in" else (c.value,)))
            self.exact[i] = self.exact[i] & values if i in self.exact else values
        elif c.op == "min":
            self.low[i] = max(c.value, self.low.get(i, -inf))
        elif c.op == "max":
            self.high[i] = min(c.value, self.high.get(i, inf))
        else:
            self.steps[i] = lcm(c.value, self.steps.get(i, 1))

    def add_rule(self, i: int, rule: ValueRule) -> None:
        for c in rule.constraints():
            self.add_constraint(i, c)
        if not rule.integer or rule.step != int(rule.step):
            self.rules.setdefault(rule, []).append(i)


def _prefixes(
    bounds: Iterable[tuple[float, int]], count: int
) -> tuple[Callable[[float], int], bool]:
    """The mask of the kernels whose bound is at most a value, and whether each bound has one."""
    starts: list[float] = []
    masks = [0]
    by_bound: dict[float, list[int]] = {}
    for bound, i in bounds:
        by_bound.setdefault(bound, []).append(i)
    ordered = sorted(by_bound)
    shared = -(-len(ordered) * (count // 8 + 1) // _TABLE_BYTES) or 1
    data = bytearray(count // 8 + 1)
    for first in range(0, len(ordered), shared):
        for bound in ordered[first : first + shared]:
            for i in by_bound[bound]:
                data[i >> 3] |= 1 << (i & 7)
        starts.append(ordered[first])
        masks.append(int.from_bytes(data, "little"))
    return (lambda value: masks[bisect_right(starts, value)]), shared == 1


def _steps(steps: Mapping[int, int], count: int) -> Callable[[int], int]:
    """The mask of the kernels whose step divides a value, and of those without one."""
    by_step: dict[int, list[int]] = {}
    for i, step in steps.items():
        by_step.setdefault(step, []).append(i)
    many = len(by_step) > _FEW
    quick = {i: step for i, step in steps.items() if many and step < _EXACT}
    each = [(step, ~bits(own, count)) for step, own in by_step.items()]
    large = [(step, others) for step, others in each if not many or step >= _EXACT]
    divisors = np.ones(count)
    for i, step in quick.items():
        divisors[i] = step

    def mask(value: int) -> int:
        found = -1
        tried = large
        if quick and -_EXACT < value < _EXACT:
            quotients = value / divisors
            whole = np.packbits(np.floor(quotients) == quotients, bitorder="little")
            found = int.from_bytes(whole.tobytes(), "little")
        elif quick:
            tried = each
        for step, others in tried:
            if value % step:
                found &= others
        return found

    return mask
