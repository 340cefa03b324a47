"""The order of query blocks by list length, longest first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rocke.core.ir import I32, IRBuilder, Value

from .companion import (
    MAX_GRID,
    WAVE_SIZE,
    Companion,
    CompanionSpec,
    Grid,
    Parameter,
    counts_of,
    listed,
    reads,
    row_of,
    shapes,
    writes,
)
from .problems import make_row_order_problem, row_order_reference


@dataclass(frozen=True)
class RowOrderSpec(CompanionSpec):
    """``counts`` i32 ``[matrices, num_q_blocks]``, clamped to ``0 .. width``, to ``order`` i32 of
    the same shape: the query blocks by count, largest first, the lower one first among equals.
    """

    name: str = "rocke_row_order"


def _parameters(spec: RowOrderSpec) -> list[Parameter]:
    return [
        reads("counts", I32),
        writes("order", I32),
        *counts_of("matrices", "num_q_blocks", "width"),
    ]


def _grid(spec: RowOrderSpec, arguments: Mapping[str, Any]) -> Grid:
    return -(-int(arguments["num_q_blocks"]) // spec.block[0]), int(arguments["matrices"]), 1


def _limits(spec: RowOrderSpec) -> dict[str, Any]:
    rows = ("matrices", "num_q_blocks")
    limits = shapes("num_q_blocks", "width", counts=rows, order=rows)
    return limits | {"matrices": (1, MAX_GRID), "width": (0, 2**31 - 1)}


def _emit(b: IRBuilder, spec: RowOrderSpec, params: Mapping[str, Value]) -> None:
    """A lane counts the rows that come before its own: that is its row's place."""
    n, width = params["num_q_blocks"], params["width"]
    thread = b.thread_id_x()
    lane = b.land(thread, WAVE_SIZE - 1)
    row = b.add(b.mul(b.block_id_x(), spec.block[0]), thread)
    matrix = b.block_id_y()
    counts = b.buffer_rsrc(row_of(b, params["counts"], matrix, n), b.mul(n, I32.bytes))
    own = listed(b, b.buffer_load(counts, row), width)
    loop = b.scf_for_iter(0, n, WAVE_SIZE, [("before", b.const_i32(0))])
    with loop as (first, (before,)):
        there = b.add(first, lane)
        count = listed(b, b.buffer_load(counts, there), width)
        # Past the last row stands less than any count.
        count = b.select(b.cmp_lt(there, n), count, b.const_i32(-1))
        inner = b.scf_for_iter(0, WAVE_SIZE, 1, [("before", before)])
        with inner as (i, (found,)):
            other = b.readlane(count, i)
            lower = b.cmp_lt(b.add(first, i), row)
            ahead = b.lor(b.cmp_gt(other, own), b.land(b.cmp_eq(other, own), lower))
            b.scf_yield(b.add(found, b.zext(ahead, I32)))
        b.scf_yield(inner.results[0])
    with b.scf_if(b.cmp_lt(row, n)):
        b.global_store(row_of(b, params["order"], matrix, n), loop.results[0], row)


ROW_ORDER = Companion(
    name="row_order",
    summary="query blocks by list length, longest first",
    spec_type=RowOrderSpec,
    parameters=_parameters,
    emit=_emit,
    grid=_grid,
    grid_text="(ceil(num_q_blocks / (64 * waves)), matrices, 1)",
    limits=_limits,
    make_problem=make_row_order_problem,
    reference=row_order_reference,
)
