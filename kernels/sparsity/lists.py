"""Bitmap to lists (``map_to_index``) and lists to bitmap (``index_to_map``).

Matrices are row-major and dense. ``rows`` counts query blocks over all batches and heads.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rocke.core.ir import I8, I32, IRBuilder, Value

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
    ranks,
    reads,
    row_of,
    rows_grid,
    shapes,
    wave_row,
    writes,
)
from .problems import (
    index_to_map_reference,
    make_index_to_map_problem,
    make_map_to_index_problem,
    map_to_index_reference,
)


@dataclass(frozen=True)
class MapToIndexSpec(CompanionSpec):
    """Bitmap i8 ``[rows, num_k_blocks]`` to ``indices`` i32 ``[rows, width]`` and ``counts``.

    The attended blocks come out ascending; -1 stands behind them. A count is that of the bitmap's
    row: more than ``width`` says that the list was cut.
    """

    name: str = "rocke_map_to_index"


@dataclass(frozen=True)
class IndexToMapSpec(CompanionSpec):
    """Lists to a bitmap of 0 and 1: counts are clamped to the width, entries outside of
    ``[0, num_k_blocks)`` ignored.
    """

    name: str = "rocke_index_to_map"


def _map_to_index_parameters(spec: MapToIndexSpec) -> list[Parameter]:
    return [
        reads("bitmap", I8),
        writes("indices", I32),
        writes("counts", I32),
        *counts_of("rows", "num_k_blocks", "width"),
    ]


def _index_to_map_parameters(spec: IndexToMapSpec) -> list[Parameter]:
    return [
        reads("indices", I32),
        reads("counts", I32),
        writes("bitmap", I8),
        *counts_of("rows", "num_k_blocks", "width"),
    ]


def _map_to_index(b: IRBuilder, spec: MapToIndexSpec, params: Mapping[str, Value]) -> None:
    blocks, width = params["num_k_blocks"], params["width"]
    with wave_row(b, spec, params["rows"]) as (row, lane):
        bitmap = b.buffer_rsrc(row_of(b, params["bitmap"], row, blocks), blocks)
        indices = row_of(b, params["indices"], row, width)
        loop = b.scf_for_iter(0, blocks, WAVE_SIZE, [("count", b.const_i32(0))])
        with loop as (first, (count,)):
            block = b.add(first, lane)
            # Past the row the descriptor reads 0: not attended.
            wanted = b.cmp_ne(b.buffer_load(bitmap, block), 0)
            rank, total = ranks(b, wanted)
            place = b.add(count, rank)
            with b.scf_if(b.land(wanted, b.cmp_lt(place, width))):
                b.global_store(indices, place, block)
            b.scf_yield(b.add(count, total))
        (count,) = loop.results
        fill(b, indices, count, width, lane, NO_BLOCK)
        with b.scf_if(b.cmp_eq(lane, 0)):
            b.global_store(params["counts"], row, count)


def _index_to_map(b: IRBuilder, spec: IndexToMapSpec, params: Mapping[str, Value]) -> None:
    blocks, width = params["num_k_blocks"], params["width"]
    with wave_row(b, spec, params["rows"]) as (row, lane):
        bitmap = row_of(b, params["bitmap"], row, blocks)
        with b.scf_for(0, blocks, WAVE_SIZE) as first:
            block = b.add(first, lane)
            with b.scf_if(b.cmp_lt(block, blocks)):
                b.global_store(bitmap, block, 0)
        # The ones go where other lanes of this wave have stored the zeros.
        b.s_waitcnt(vmcnt=0)
        indices = row_of(b, params["indices"], row, width)
        count = listed(b, b.readfirstlane(b.global_load_i32(params["counts"], row)), width)
        with b.scf_for(0, count, WAVE_SIZE) as first:
            place = b.add(first, lane)
            with b.scf_if(b.cmp_lt(place, count)):
                block = b.global_load_i32(indices, place)
                with b.scf_if(b.cmp_ult(block, blocks)):
                    b.global_store(bitmap, block, 1)


def _limits(spec: CompanionSpec) -> dict[str, Any]:
    return shapes(
        *("rows", "num_k_blocks", "width"),
        bitmap=("rows", "num_k_blocks"),
        indices=("rows", "width"),
        counts=("rows",),
    )


MAP_TO_INDEX = Companion(
    name="map_to_index",
    summary="bitmap to ascending lists of key blocks",
    spec_type=MapToIndexSpec,
    parameters=_map_to_index_parameters,
    emit=_map_to_index,
    grid=rows_grid,
    grid_text=ROWS_GRID,
    limits=_limits,
    make_problem=make_map_to_index_problem,
    reference=map_to_index_reference,
)

INDEX_TO_MAP = Companion(
    name="index_to_map",
    summary="lists of key blocks to a bitmap",
    spec_type=IndexToMapSpec,
    parameters=_index_to_map_parameters,
    emit=_index_to_map,
    grid=rows_grid,
    grid_text=ROWS_GRID,
    limits=_limits,
    make_problem=make_index_to_map_problem,
    reference=index_to_map_reference,
)
