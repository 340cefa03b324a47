"""Online softmax, base 2, that rescales only when it must.

A lane holds scores of one query row. The row's reference ``m`` need not be its maximum: weights
``2**(scale (s - m) + lift)`` stay in range as long as no score exceeds ``m`` by more than
:attr:`Reach.slack` in log2. So the common path only checks that no row of the wave has outgrown its
``m``, in-lane and without an exchange between lanes; when one has, the whole wave takes the new
maxima and rescales. Row sums stay partial, a share in each lane group, until the end.

Method: Milakov and Gimelshein, "Online normalizer calculation for softmax" (2018); the lazy rescale
is FlashAttention 4's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from rocke.core.ir import BF16, F16, F32, IRBuilder, Value, vec

from .bsa_shape import Shape

LOWEST = -3.4028234663852886e38
"""The least finite f32: a maximum over nothing."""
LEAST_SCALE = 1e-30
"""A scale below it counts as it: then a score of -inf weighs nothing even where the scale is 0, and
finite scores still weigh the same."""


@dataclass(frozen=True)
class Reach:
    """The range of the weights: ``2**lift`` at the reference, at most ``2**(lift + slack)``.

    The matrix unit takes them as elements. bf16 reaches as far as f32. f16 ends below 2**16, so the
    weights use the range up to 2**15: a lift keeps small ones, of keys far below the maximum,
    from being subnormal, with few bits, or nothing at all where the matrix unit flushes them; there
    more of the range goes to the lift, for somewhat more rescales. Every sum of a row has the same
    lift, so O and LSE are free of it.
    """

    slack: float
    lift: float

    @staticmethod
    def of(shape: Shape) -> Reach:
        """The reach that suits the element type and the target."""
        if shape.elem != F16:
            return Reach(slack=8.0, lift=0.0)
        slack = 4.0 if shape.facts.matrix_flushes_subnormals else 8.0
        return Reach(slack, lift=15.0 - slack)


@dataclass(frozen=True)
class State:
    """What the loop over key tiles carries (f32): of the lane's row, and its output.

    ``reference`` is m, unscaled; ``offset`` is ``lift - scale m``; ``limit`` the score above which
    the row must be rescaled; ``total`` the lane's share of the row sum; ``output`` the O^T
    registers.
    """

    reference: Value
    offset: Value
    limit: Value
    total: Value
    output: tuple[Value, ...]

    @staticmethod
    def of(values: Sequence[Value]) -> State:
        """The inverse of :meth:`values`."""
        reference, offset, limit, total, *output = values
        return State(reference, offset, limit, total, tuple(output))

    def values(self) -> list[Value]:
        """As a flat list, for loops and branches."""
        return [self.reference, self.offset, self.limit, self.total, *self.output]


class Softmax:
    """The softmax stages of one kernel; ``scale`` (f32) turns scores into log2 units."""

    def __init__(self, b: IRBuilder, shape: Shape, scale: Value) -> None:
        self.b, self.shape = b, shape
        self.scale = b.fmax(scale, LEAST_SCALE)
        self.reach = Reach.of(shape)
        self.slack = b.fmul(b.rcp_fast(self.scale), self.reach.slack)

    def start(self) -> State:
        """The state before any key."""
        b, atoms = self.b, self.shape.atoms
        lowest, none = b.const_f32(LOWEST), b.const_f32(float("-inf"))
        zero = b.zero_vec(F32, atoms.registers)
        return State(
            reference=lowest,
            offset=self._offset(lowest),
            limit=none,
            total=b.const_f32(0.0),
            output=(zero,) * self.shape.output_tiles,
        )

    def grow(self, state: State, scores: Sequence[Value]) -> State:
        """Rescale the state to the scores' maxima, if any row of the wave has outgrown its own."""
        b = self.b
        highest = _highest(b, state.reference, scores)
        old = state.values()
        branch = b.scf_if(b.wave_any(b.fcmp("ogt", highest, state.limit)), [v.type for v in old])
        with branch:
            b.scf_yield(*self._rescaled(state, highest).values())
        with branch.orelse():
            b.scf_yield(*old)
        return State.of(branch.results)

    def _rescaled(self, state: State, highest: Value) -> State:
        b = self.b
        reference = across_groups(b, self.shape, highest, b.fmax)
        offset = self._offset(reference)
        factor = b.exp2_fast(b.fsub(offset, state.offset))
        factors = b.vec_splat(factor, self.shape.atoms.registers)
        return State(
            reference,
            offset,
            b.fadd(reference, self.slack),
            b.fmul(state.total, factor),
            tuple(b.fmul(o, factors) for o in state.output),
        )

    def _offset(self, reference: Value) -> Value:
        """``lift - scale reference``; finite before any key, so that a score of -inf stays -inf."""
        b = self.b
        return b.fmin(b.fsub(self.reach.lift, b.fmul(reference, self.scale)), -LOWEST)

    def weigh(self, state: State, scores: Sequence[Value]) -> tuple[State, Value]:
        """The weights of a chunk of scores as an operand, and the state with them summed.

        A score of -inf, a key that takes no part, weighs exactly 0.
        """
        b = self.b
        plain = [b.exp2_fast(b.fma(s, self.scale, state.offset)) for s in scores]
        pairs = [self._pack(*plain[i : i + 2]) for i in range(0, len(plain), 2)]
        total = self._sum(state.total, plain, pairs)
        return replace(state, total=total), b.vec_concat(*pairs)

    def _pack(self, low: Value, high: Value) -> Value:
        """Two weights as a pair of elements.

        f16 without a packed conversion to nearest is cut where the row sum is of the cut weights,
        numerator and denominator alike.
        """
        b, elem, packed = self.b, self.shape.elem, self.shape.facts.has_cvt_pk_bf16_f32
        if elem == F16 and not packed and self._sums_pairs:
            return b.cvt_pkrtz_f16_f32(low, high)
        if elem == BF16 and not packed:
            return b.cvt_pk_bf16_f32_fast(low, high)
        return b.cast_f32_to(b.vec_pack([low, high]), vec(elem, 2))

    @property
    def _sums_pairs(self) -> bool:
        """Whether row sums are of the weights as rounded, two at a time.

        That is exact for O, whose weights are the same, but LSE takes the weights themselves.
        """
        has_dot = self.shape.elem == F16 or self.shape.facts.has_cvt_pk_bf16_f32
        return has_dot and not self.shape.spec.need_lse

    def _sum(self, total: Value, plain: Sequence[Value], pairs: Sequence[Value]) -> Value:
        b, elem = self.b, self.shape.elem
        if not self._sums_pairs:
            for weight in plain:
                total = b.fadd(total, weight)
            return total
        ones = b.const(vec(elem, 2), 1.0)
        for pair in pairs:
            total = b.dot2(pair, ones, total)
        return total


def _highest(b: IRBuilder, reference: Value, scores: Sequence[Value]) -> Value:
    """The greatest of the reference and the scores, three at a time."""
    highest, rest = reference, list(scores)
    while len(rest) >= 2:
        highest = b.fmax3(highest, rest.pop(0), rest.pop(0))
    return b.fmax(highest, rest[0]) if rest else highest


def across_groups(b: IRBuilder, shape: Shape, value: Value, combine: object) -> Value:
    """A row's value combined over the lane groups that hold shares of it; each lane gets it."""
    assert callable(combine)
    if shape.facts.has_permlane32_swap:
        value = combine(*b.permlane32_swap(value, value))
    else:
        value = combine(value, b.warp_shuffle_xor(value, 32))
    if shape.atoms.groups == 4:
        value = combine(value, b.warp_shuffle_xor(value, 16))
    return value
