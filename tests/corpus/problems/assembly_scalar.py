"""The model of salu.s: results and SCC of scalar instructions, in two pairs of rows."""

from __future__ import annotations

import numpy as np

from .assembly import MASK, WIDE_MASK, _inputs, _problem, _signed
from .problem import Problem


class _Results:
    """Result words, and the SCC noted beside each (0 where an instruction has none)."""

    def __init__(self) -> None:
        self.values: list[int] = []
        self.carries: list[int] = []

    def put(self, *words: int, scc: bool | int = 0) -> None:
        """SCC belongs to the first word."""
        for i, word in enumerate(words):
            self.values.append(word & MASK)
            self.carries.append(int(scc) if i == 0 else 0)

    def wide(self, value: int, scc: bool | int = 0) -> None:
        self.put(value, value >> 32, scc=scc)

    def rows(self) -> list[np.ndarray]:
        return [np.array([*v, *[0] * (64 - len(v))]) for v in (self.values, self.carries)]


def _field(value: int, first: int, width: int, signed: bool) -> int:
    part = value >> first & (1 << width) - 1
    return _signed(part, width) if signed else part


def _reverse(value: int, bits: int) -> int:
    return int(f"{value:0{bits}b}"[::-1], 2)


def _leading(value: int, bits: int) -> int:
    return bits - value.bit_length() if value else -1


def _leading_sign(value: int, bits: int) -> int:
    """Leading bits equal to the sign; -1 when all are."""
    turned = ~value & (1 << bits) - 1 if value >> bits - 1 else value
    return bits - turned.bit_length() if turned else -1


def _lowest(value: int) -> int:
    return (value & -value).bit_length() - 1


def _first(r: _Results, a: int, b: int, c: int, d: int) -> None:
    ab, cd = a | b << 32, c | d << 32
    r.put(((1 << (a & 31)) - 1) << (b & 31))
    for first, width, signed in ((5, 8, False), (3, 7, True)):
        part = _field(a, first, width, signed)
        r.put(part, scc=part != 0)
    for first, width, signed in ((0x13, 0x17, False), (0x11, 0x15, True)):
        part = _field(ab, first, width, signed)
        r.wide(part, scc=part != 0)
    r.put(_reverse(a, 32))
    r.wide(_reverse(ab, 64))
    zeros = 32 - a.bit_count()
    r.put(zeros, scc=zeros != 0)
    r.put(ab.bit_count(), scc=ab != 0)
    r.put(_lowest(~a & MASK))
    r.put(_lowest(b))
    r.put(_lowest(cd))
    r.put(_leading(c, 32))
    r.put(_leading_sign(d, 32))
    r.put(_leading_sign(cd, 64))
    r.put(-1)
    r.put(-1)
    r.put(_signed(a, 8))
    r.put(_signed(b, 16))
    c0 = c & ~(1 << (a & 31))
    r.put(c0)
    r.put(c0 | 1 << (b & 31))
    quads = sum((a >> 4 * i & 15 != 0) << i for i in range(8))
    r.put(quads, scc=quads != 0)
    whole = sum((c >> 4 * i & 15 != 0) * 15 << 4 * i for i in range(8))
    r.put(whole, scc=whole != 0)
    for value in (
        abs(_signed(a)), abs(_signed(_signed(a) - _signed(b))), a & ~b, a | ~b,
        ~(a & b), ~(a | b), ~(a ^ a),
    ):  # fmt: skip
        r.put(value, scc=value & MASK != 0)
    r.put(a & 0xFFFF | b << 16)
    r.put(a & 0xFFFF | b & 0xFFFF0000)
    r.put(a >> 16 | b & 0xFFFF0000)
    r.put((a << 1) + b, scc=(a << 1) + b > MASK)
    r.put((c << 4) + d, scc=(c << 4) + d > MASK)
    r.put(_signed(a) * _signed(b) >> 32)
    r.put(a * b >> 32)


def _comparisons() -> int:
    """The bits that the comparisons of 100 and -3 append, first one highest."""
    bits = [1, 0, 1, 1, 0, 0, 1, 1, 1, 0, 1, 1, 0, 1, 1]
    return int("".join(map(str, bits)), 2)


def _second(r: _Results, a: int, b: int, c: int, d: int, e: int, f: int) -> None:
    ab, cd, ef = a | b << 32, c | d << 32, e | f << 32
    moved = _signed(a) + 0x7FFF
    r.put(moved, scc=moved != _signed(moved))
    r.put(_signed(b) * -321)
    r.put(min(_signed(a), _signed(b)), scc=_signed(a) < _signed(b))
    r.put(max(a, b), scc=a > b)
    r.wide(sum((a >> i & 1) * 3 << 2 * i for i in range(32)))
    carry = a + c > MASK
    r.put(b + d + carry, scc=b + d + carry > MASK)
    borrow = c > a
    r.put(b - d - borrow, scc=d + borrow > b)
    for value in (_signed(ab, 64) >> (e & 63), ab << 37 & WIDE_MASK, ~ab & WIDE_MASK):
        r.wide(value, scc=value != 0)
    r.put(_comparisons())
    r.put(-77)
    r.put(-77)  # SCC is clear: no move
    r.wide(cd)
    r.put(d)
    r.put(b)
    exec1 = ab
    exec2 = ~cd & exec1 & WIDE_MASK
    exec3 = (ef | ~exec2) & WIDE_MASK
    r.wide(exec1)
    r.wide(exec2)
    r.wide(exec3)
    r.put(-1)
    r.put(exec1)
    r.put(exec2)
    r.put(16)
    r.put(49)


def salu(rng: np.random.Generator) -> Problem:
    x = _inputs(rng)
    a, b, c, d, e, f = (int(v) for v in x[0, :6])
    first, second = _Results(), _Results()
    _first(first, a, b, c, d)
    _second(second, a, b, c, d, e, f)
    return _problem(x, [*first.rows(), *second.rows()])


PROBLEMS = (salu,)
