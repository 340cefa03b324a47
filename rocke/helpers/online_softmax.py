"""Online softmax, base 2, over transposed 16x16 score tiles.

A lane holds 4 scores (keys ``4 * (lane / 16) + r``) of one query row (``lane mod 16``), so the
row's maximum and sum are in-lane steps and two exchanges between the four lane groups.

Method: Milakov and Gimelshein, "Online normalizer calculation for softmax" (2018); Dao et al.,
"FlashAttention" (2022).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rocke.core.ir import IRBuilder, Value

LOWEST = -3.4028234663852886e38
"""The least finite f32: a maximum over nothing. Finite, so that no difference is inf - inf."""


@dataclass(frozen=True)
class SoftmaxState:
    """Running row maximum (in the scaled, base-2 domain) and this lane's part of the row sum."""

    maximum: Value
    total: Value

    @staticmethod
    def start(b: IRBuilder) -> SoftmaxState:
        """The state before any key."""
        return SoftmaxState(b.const_f32(LOWEST), b.const_f32(0.0))


@dataclass(frozen=True)
class SoftmaxStep:
    """A tile's weights (4 f32 a lane), the factor for what was summed before, the new state."""

    weights: list[Value]
    rescale: Value
    state: SoftmaxState


def softmax_step(b: IRBuilder, state: SoftmaxState, scores: list[Value]) -> SoftmaxStep:
    """Take a tile's scaled scores in. ``-inf`` marks a key that takes no part: its weight is 0."""
    tile = scores[0]
    for score in scores[1:]:
        tile = b.fmax(tile, score)
    maximum = b.fmax(state.maximum, across_lane_groups(b, tile, b.fmax))
    weights = [b.exp2_fast(b.fsub(score, maximum)) for score in scores]
    rescale = b.exp2_fast(b.fsub(state.maximum, maximum))
    total = b.fmul(state.total, rescale)
    for weight in weights:
        total = b.fadd(total, weight)
    return SoftmaxStep(weights, rescale, SoftmaxState(maximum, total))


def softmax_normalizer(b: IRBuilder, state: SoftmaxState) -> Value:
    """1 / row sum; 0 for a row without any key, whose accumulators are 0 and so is its result."""
    total = across_lane_groups(b, state.total, b.fadd)
    empty = b.fcmp("oeq", total, b.const_f32(0.0))
    return b.select(empty, b.const_f32(0.0), b.rcp_fast(total))


def across_lane_groups(b: IRBuilder, value: Value, combine: Callable[..., Value]) -> Value:
    """Combine a value of one row over the four lane groups; each lane gets the result."""
    for distance in (16, 32):
        value = combine(value, b.warp_shuffle_xor(value, distance))
    return value


def select_state(b: IRBuilder, keep: Value, new: SoftmaxState, old: SoftmaxState) -> SoftmaxState:
    """The new state where ``keep`` (i1, by lane) holds, the old one elsewhere."""
    return SoftmaxState(
        b.select(keep, new.maximum, old.maximum), b.select(keep, new.total, old.total)
    )
