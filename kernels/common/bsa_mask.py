"""Scores of a partial tile: those of keys that the row does not attend become -inf.

A lane's keys rise with the number of its scores, and the attended ones are a range: one bit for
each score, in a register, is all there is to keep. Applying it takes two vector instructions a
score and no condition code, whose registers would run out.
"""

from __future__ import annotations

from collections.abc import Sequence

from rocke.core.ir import F32, I32, I64, IRBuilder, Value

from .bsa_shape import Place, Shape

WORD = 32
HIDDEN = -(2**31) | 0x7F800000
"""The bits of -inf, as a signed number."""


def hide_others(
    b: IRBuilder, shape: Shape, place: Place, scores: Sequence[Value], low: Value, end: Value
) -> list[Value]:
    """The scores, -inf where the key's number in the tile is not in ``[low, end)`` (i32)."""
    first, last = (_scores_below(b, shape, place, x) for x in (low, end))
    found: list[Value] = []
    for start in range(0, len(scores), WORD):
        word = scores[start : start + WORD]
        bounds = (b.smin(b.smax(b.sub(n, start), 0), len(word)) for n in (first, last))
        below_first, below_last = (_ones(b, n) for n in bounds)
        taken = b.land(below_last, b.lnot(below_first))
        found.extend(_hidden_unless(b, taken, bit, score) for bit, score in enumerate(word))
    return found


def _scores_below(b: IRBuilder, shape: Shape, place: Place, key: Value) -> Value:
    """How many of the lane's scores have a key below ``key``, if there were no end of them."""
    keys = shape.atoms.quad_keys
    rest = b.smax(b.sub(key, place.half_offset(b)), 0)
    quads = b.lshr(rest, keys.bit_length() - 1)
    return b.add(b.mul(quads, 4), b.smin(b.land(rest, keys - 1), 4))


def _ones(b: IRBuilder, count: Value) -> Value:
    """``count`` low ones, 0 to 32."""
    return b.trunc(b.sub(b.shl(b.const_i64(1), b.zext(count, I64)), 1), I32)


def _hidden_unless(b: IRBuilder, taken: Value, bit: int, score: Value) -> Value:
    mask = b.bit_mask(taken, bit)
    kept = b.land(b.bitcast(score, I32), mask)
    return b.bitcast(b.lor(kept, b.land(b.lnot(mask), HIDDEN)), F32)
