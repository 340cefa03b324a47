"""Sizes that depend on the problem, as plain data: the grid rule of a manifest.

An expression is an integer, the name of a problem field or kernel argument, or a list of an
operation and two expressions: ``["ceil_div", "seqlen_q", 64]``, ``["mul", a, b]``, ``["add", a,
b]``. It is data, not code: nothing is ever evaluated but these three operations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from rocke.library.naming import short

Expression = int | str | tuple[Any, ...]

OPERATIONS = ("mul", "add", "ceil_div")
MAX_DEPTH = 8


def parse(raw: Any, where: str, depth: int = 0) -> Expression:
    """Read plain data; raises ``ValueError`` that begins with ``where``."""
    if isinstance(raw, int) and not isinstance(raw, bool) and 0 <= raw < 2**31:
        return raw
    if isinstance(raw, str) and raw.isidentifier() and raw.isascii():
        return raw
    good = isinstance(raw, (list, tuple)) and len(raw) == 3 and raw[0] in OPERATIONS
    if not good or depth >= MAX_DEPTH:
        raise ValueError(
            f"{where}: {short(raw)}, expected a count below 2**31, a name, or "
            f"[{' or '.join(OPERATIONS)}, a, b] nested at most {MAX_DEPTH} deep"
        )
    return (raw[0], parse(raw[1], where, depth + 1), parse(raw[2], where, depth + 1))


def plain(expression: Expression) -> Any:
    """The expression as data that JSON holds."""
    if isinstance(expression, tuple):
        return [expression[0], plain(expression[1]), plain(expression[2])]
    return expression


def names(expression: Expression) -> Iterator[str]:
    """The names in an expression, in order."""
    if isinstance(expression, str):
        yield expression
    elif isinstance(expression, tuple):
        yield from names(expression[1])
        yield from names(expression[2])


def evaluate(expression: Expression, values: Mapping[str, Any]) -> int:
    """The value of an expression; raises ``ValueError`` for a name without an integer value."""
    if isinstance(expression, int):
        return expression
    if isinstance(expression, str):
        value = values.get(expression)
        if not isinstance(value, int) or isinstance(value, bool):
            raise ValueError(f"{expression} is {short(value)}, expected an integer")
        return value
    op, left, right = expression
    a, b = evaluate(left, values), evaluate(right, values)
    if op == "mul":
        return a * b
    if op == "add":
        return a + b
    if b < 1:
        raise ValueError(f"division by {b} in {plain(expression)}")
    return -(-a // b)


def substitute(expression: Expression, values: Mapping[str, Any]) -> Expression:
    """The expression with names that ``values`` has replaced, and constant parts computed."""
    if isinstance(expression, int):
        return expression
    if isinstance(expression, str):
        value = values.get(expression)
        return value if isinstance(value, int) and not isinstance(value, bool) else expression
    op, left, right = expression
    made = (op, substitute(left, values), substitute(right, values))
    return made if any(names(made)) else evaluate(made, {})


def to_c(expression: Expression) -> str:
    """The expression in C over variables of the same names, as 64-bit unsigned arithmetic.

    It uses the header's macro ``ROCKE_CAST(type, value)``.
    """
    if isinstance(expression, int):
        return f"{expression}ull"
    if isinstance(expression, str):
        return f"ROCKE_CAST(unsigned long long, {expression})"
    op, left, right = expression
    a, b = to_c(left), to_c(right)
    if op == "ceil_div":
        return f"(({a} + {b} - 1ull) / {b})"
    return f"({a} {'*' if op == 'mul' else '+'} {b})"


def rename(expression: Expression, new: Callable[[str], str]) -> Expression:
    """The expression with every name replaced."""
    if isinstance(expression, str):
        return new(expression)
    if isinstance(expression, tuple):
        return (expression[0], rename(expression[1], new), rename(expression[2], new))
    return expression
