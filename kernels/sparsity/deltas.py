"""Lists as differences and back.

CK and AITER code a list as its first block and the difference of each entry to the one before it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rocke.core.ir import I32, IRBuilder, Value

from .companion import (
    NO_BLOCK,
    ROWS_GRID,
    WAVE_SIZE,
    Companion,
    CompanionSpec,
    Parameter,
    counts_of,
    fill,
    listed,
    reads,
    row_of,
    rows_grid,
    shapes,
    wave_row,
    writes,
)
from .problems import (
    deltas_to_index_reference,
    index_to_deltas_reference,
    make_deltas_to_index_problem,
    make_index_to_deltas_problem,
)


@dataclass(frozen=True)
class IndexToDeltasSpec(CompanionSpec):
    """``indices`` i32 ``[rows, width]`` with ``counts`` to ``deltas``; 0 past the count."""

    name: str = "rocke_index_to_deltas"


@dataclass(frozen=True)
class DeltasToIndexSpec(CompanionSpec):
    """``deltas`` i32 ``[rows, width]`` with ``counts`` to ``indices``; -1 past the count."""

    name: str = "rocke_deltas_to_index"


def _parameters(source: str, result: str) -> list[Parameter]:
    return [
        reads(source, I32),
        reads("counts", I32),
        writes(result, I32),
        *counts_of("rows", "width"),
    ]


def _index_to_deltas(b: IRBuilder, spec: CompanionSpec, params: Mapping[str, Value]) -> None:
    width = params["width"]
    with wave_row(b, spec, params["rows"]) as (row, lane):
        indices, deltas = (row_of(b, params[n], row, width) for n in ("indices", "deltas"))
        count = listed(b, b.readfirstlane(b.global_load_i32(params["counts"], row)), width)
        with b.scf_for(0, count, WAVE_SIZE) as first:
            place = b.add(first, lane)
            with b.scf_if(b.cmp_lt(place, count)):
                before = b.global_load_i32(indices, b.smax(b.sub(place, 1), 0))
                before = b.select(b.cmp_eq(place, 0), b.const_i32(0), before)
                b.global_store(deltas, place, b.sub(b.global_load_i32(indices, place), before))
        fill(b, deltas, count, width, lane, 0)


def _deltas_to_index(b: IRBuilder, spec: CompanionSpec, params: Mapping[str, Value]) -> None:
    width = params["width"]
    with wave_row(b, spec, params["rows"]) as (row, lane):
        deltas, indices = (row_of(b, params[n], row, width) for n in ("deltas", "indices"))
        count = listed(b, b.readfirstlane(b.global_load_i32(params["counts"], row)), width)
        source = b.buffer_rsrc(deltas, b.mul(count, I32.bytes))
        loop = b.scf_for_iter(0, count, WAVE_SIZE, [("last", b.const_i32(0))])
        with loop as (first, (last,)):
            place = b.add(first, lane)
            # Past the count the descriptor reads 0: the sum stays what it is.
            block = b.add(_inclusive_sum(b, lane, b.buffer_load(source, place)), last)
            with b.scf_if(b.cmp_lt(place, count)):
                b.global_store(indices, place, block)
            b.scf_yield(b.readlane(block, WAVE_SIZE - 1))
        fill(b, indices, count, width, lane, NO_BLOCK)


def _inclusive_sum(b: IRBuilder, lane: Value, value: Value) -> Value:
    """Of each lane, the sum of its value and those of all lanes below it.

    Six steps: in step s every lane adds the sum of the ``2**s`` lanes that end ``2**s`` below it.
    """
    for step in (1, 2, 4, 8, 16, 32):
        source = b.shl(b.sub(lane, step), 2)
        below = b.ds_bpermute(source, value)
        value = b.add(value, b.select(b.cmp_ge(lane, step), below, b.const_i32(0)))
    return value


def _limits(spec: CompanionSpec) -> dict[str, Any]:
    lists = ("rows", "width")
    return shapes("rows", "width", indices=lists, deltas=lists, counts=("rows",))


INDEX_TO_DELTAS = Companion(
    name="index_to_deltas",
    summary="lists of key blocks to differences",
    spec_type=IndexToDeltasSpec,
    parameters=lambda spec: _parameters("indices", "deltas"),
    emit=_index_to_deltas,
    grid=rows_grid,
    grid_text=ROWS_GRID,
    limits=_limits,
    make_problem=make_index_to_deltas_problem,
    reference=index_to_deltas_reference,
)

DELTAS_TO_INDEX = Companion(
    name="deltas_to_index",
    summary="lists of differences to key blocks",
    spec_type=DeltasToIndexSpec,
    parameters=lambda spec: _parameters("deltas", "indices"),
    emit=_deltas_to_index,
    grid=rows_grid,
    grid_text=ROWS_GRID,
    limits=_limits,
    make_problem=make_deltas_to_index_problem,
    reference=deltas_to_index_reference,
)
