"""Irregular control flow, calls, private arrays."""

from __future__ import annotations

import numpy as np

from .problem import Expected, Problem, poisoned


def _wrap(value: int) -> int:
    """To a signed 32-bit integer."""
    return (value + (1 << 31)) % (1 << 32) - (1 << 31)


def _run(program: list[int], x: int, i: int) -> int:
    """The stack machine of control.cl."""
    stack = [0] * 16
    top, pc = 1, 0
    stack[0], stack[1] = x, i
    for _ in range(200):
        if pc >= 64:
            break
        code = program[pc]
        pc += 1
        argument, operation, t = code >> 4, code & 15, stack[top]
        if operation == 0:
            stack[top] = _wrap(t + argument)
        elif operation == 1:
            stack[top] = _wrap(-t)
        elif operation == 2:
            stack[top] = _wrap(t * (2 * argument + 1))
        elif operation == 3 and top < 15:
            top += 1
            stack[top] = argument
        elif operation == 4 and top > 0:
            top -= 1
            stack[top] = _wrap(stack[top] + t)
        elif operation == 5 and top > 0:
            top -= 1
            stack[top] ^= t
        elif operation == 6 and top < 15:
            copied = stack[top - argument if argument <= top else 0]
            top += 1
            stack[top] = copied
        elif operation == 7 and t & 1:
            pc += argument
        elif operation == 8 and t > 1000 and pc > argument:
            stack[top] = t - 1000
            pc -= argument
        elif operation == 9:
            stack[top] = abs(t) // (argument + 1) * (1 if t >= 0 else -1)
        elif operation == 10:
            stack[top], stack[0] = stack[0], stack[top]
        elif operation == 11:
            stack[top] = _wrap(t % (1 << 32) >> argument)
        elif operation == 12:
            stack[argument if argument < top else top] |= 1 << argument
    total = 0
    for j in range(top + 1):
        total = _wrap(total * 31 + stack[j])
    return total


def stack_machine(rng: np.random.Generator, *, n: int) -> Problem:
    program = rng.integers(0, 256, size=(n, 64)).astype(np.uint8)
    x = rng.integers(-(1 << 31), 1 << 31, size=n).astype(np.int32)
    out = [_run(p, v, i) for i, (p, v) in enumerate(zip(program.tolist(), x.tolist(), strict=True))]
    return Problem(
        {"program": program, "x": x, "out": poisoned(n, "i32"), "n": n},
        {"out": Expected(np.array(out))},
    )


def _level(v: int, left: int) -> int:
    if left == 0:
        return v
    mixed = _wrap(v * 33) ^ _wrap(left + (v >> 3))
    low = _level(mixed, left - 1)
    return _wrap(low + _level(low ^ left, max(left - 2, 0)))


def nested_calls(rng: np.random.Generator, *, n: int) -> Problem:
    x = rng.integers(-(1 << 31), 1 << 31, size=n).astype(np.int32)
    out = [_level(v, 3 + (i & 3)) for i, v in enumerate(x.tolist())]
    return Problem({"x": x, "out": poisoned(n, "i32"), "n": n}, {"out": Expected(np.array(out))})


def generic_pick(rng: np.random.Generator, *, n: int) -> Problem:
    """A place in a private array, LDS or memory by x % 3; workgroups of 64."""
    x = rng.integers(0, 100000, size=n).astype(np.int32)
    out = []
    for i, v in enumerate(x.tolist()):
        t = i % 64
        mine = [0] * 8
        for j in range(8):
            mine[(j + t) & 7] = j * t
        if v % 3 == 0:
            got = mine[v & 7]
            mine[v & 7] = got + v
        else:
            got = (t ^ 21) * 3 if v % 3 == 1 else 1000
        out.append(got + got + v + (0 if v % 3 == 2 else mine[3]))
    return Problem({"x": x, "out": poisoned(n, "i32"), "n": n}, {"out": Expected(np.array(out))})


PROBLEMS = (stack_machine, nested_calls, generic_pick)
