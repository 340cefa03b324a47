"""The best blocks of each row: top-k selection over block scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rocke.core.ir import F32, I32, IRBuilder, Value
from rocke.helpers.spec import check_int

from .companion import (
    NO_BLOCK,
    ROWS_GRID,
    WAVE_SIZE,
    Companion,
    CompanionSpec,
    Parameter,
    counts_of,
    fill,
    ranks,
    reads,
    row_of,
    rows_grid,
    shapes,
    wave_row,
    writes,
)
from .problems import make_top_k_problem, top_k_reference

LOWEST = -(2**31)
"""The key of what is never selected."""
MINUS_INFINITY = -0x7F80_0001
"""The key of the score -inf."""


@dataclass(frozen=True)
class TopKSpec(CompanionSpec):
    """``scores`` f32 ``[rows, num_k_blocks]`` to ``indices`` i32 ``[rows, width]``, ``counts``.

    The ``k`` blocks of highest score, the lower block among equals (-0 equals 0), in ascending
    order; -1 stands behind them. Scores of -inf and NaN are never selected, so that a count may be
    below ``k``; it is at most ``width``. ``max_blocks`` is the most blocks of a row: a lane keeps
    ``max_blocks / 64`` scores in registers.
    """

    max_blocks: int = 2048
    name: str = "rocke_top_k"

    def parts(self) -> tuple[str, ...]:
        """``max_blocks``."""
        return (f"N{self.max_blocks}",)

    def reasons(self) -> list[str]:
        """The reason against ``max_blocks``."""
        return [check_int("max_blocks", self.max_blocks, 64, 2048, multiple_of=64)]


def _parameters(spec: TopKSpec) -> list[Parameter]:
    return [
        reads("scores", F32),
        writes("indices", I32),
        writes("counts", I32),
        *counts_of("rows", "num_k_blocks", "width", "k"),
    ]


def _emit(b: IRBuilder, spec: TopKSpec, params: Mapping[str, Value]) -> None:
    blocks, width = params["num_k_blocks"], params["width"]
    k = b.smin(params["k"], width)
    with wave_row(b, spec, params["rows"]) as (row, lane):
        scores = row_of(b, params["scores"], row, blocks)
        scores = b.buffer_rsrc(scores, b.mul(blocks, F32.bytes))
        places = [b.add(lane, r * WAVE_SIZE) for r in range(spec.max_blocks // WAVE_SIZE)]
        keys = [_key(b, b.buffer_load(scores, place)) for place in places]
        lowest = b.const_i32(LOWEST)
        keys = [
            b.select(b.cmp_lt(place, blocks), key, lowest)
            for place, key in zip(places, keys, strict=True)
        ]
        least = _threshold(b, keys, k)
        # Every block above the threshold is selected, and of those on it the first few.
        above = _total(b, [b.cmp_gt(key, least) for key in keys])
        indices = row_of(b, params["indices"], row, width)
        count = _store(b, keys, places, least, b.sub(k, above), indices)
        fill(b, indices, count, width, lane, NO_BLOCK)
        with b.scf_if(b.cmp_eq(lane, 0)):
            b.global_store(params["counts"], row, count)


def _key(b: IRBuilder, score: Value) -> Value:
    """An i32 that orders as the score does: NaN below everything, -0 as 0."""
    bits = b.bitcast(score, I32)
    magnitude = b.land(bits, 0x7FFF_FFFF)
    key = b.xor(bits, b.land(b.ashr(bits, 31), 0x7FFF_FFFF))
    key = b.select(b.cmp_eq(magnitude, 0), b.const_i32(0), key)
    return b.select(b.cmp_gt(magnitude, 0x7F80_0000), b.const_i32(LOWEST), key)


def _threshold(b: IRBuilder, keys: Sequence[Value], k: Value) -> Value:
    """The k-th largest key, or the lowest possible one where there are fewer than k.

    Bit by bit from the top: a bit is set if at least k keys are not below the result with it. In
    offset form (top bit flipped) the keys are unsigned.
    """
    loop = b.scf_for_iter(0, 32, 1, [("found", b.const_i32(0))])
    with loop as (i, (found,)):
        tried = b.lor(found, b.lshr(b.const_i32(LOWEST), i))
        bound = b.xor(tried, LOWEST)
        enough = b.cmp_ge(_total(b, [b.cmp_ge(key, bound) for key in keys]), k)
        b.scf_yield(b.select(enough, tried, found))
    return b.xor(loop.results[0], LOWEST)


def _total(b: IRBuilder, flags: Sequence[Value]) -> Value:
    """How many flags are set over all lanes (uniform)."""
    total = b.const_i32(0)
    for flag in flags:
        total = b.add(total, b.zext(flag, I32))
    for mask in (1, 2, 4, 8, 16, 32):
        total = b.add(total, b.warp_shuffle_xor(total, mask))
    return b.readfirstlane(total)


def _store(
    b: IRBuilder,
    keys: Sequence[Value],
    places: Sequence[Value],
    least: Value,
    equals: Value,
    indices: Value,
) -> Value:
    """Store the selected blocks, ascending; ``equals``: how many on the threshold. Their count."""
    count = seen = b.const_i32(0)
    for key, place in zip(keys, places, strict=True):
        equal = b.cmp_eq(key, least)
        rank, total = ranks(b, equal)
        first = b.land(equal, b.cmp_lt(b.add(seen, rank), equals))
        wanted = b.land(b.lor(b.cmp_gt(key, least), first), b.cmp_gt(key, MINUS_INFINITY))
        seen = b.add(seen, total)
        rank, total = ranks(b, wanted)
        with b.scf_if(wanted):
            b.global_store(indices, b.add(count, rank), place)
        count = b.add(count, total)
    return count


def _limits(spec: TopKSpec) -> dict[str, Any]:
    limits = shapes(
        *("rows", "width"),
        scores=("rows", "num_k_blocks"),
        indices=("rows", "width"),
        counts=("rows",),
    )
    return limits | {"num_k_blocks": (1, spec.max_blocks), "k": (0, 2**31 - 1)}


TOP_K = Companion(
    name="top_k",
    summary="the k blocks of highest score of each row, as ascending lists",
    spec_type=TopKSpec,
    parameters=_parameters,
    emit=_emit,
    grid=rows_grid,
    grid_text=ROWS_GRID,
    limits=_limits,
    make_problem=make_top_k_problem,
    reference=top_k_reference,
    field_help={"max_blocks": "most blocks of a row: a multiple of 64, 64 to 2048"},
)
