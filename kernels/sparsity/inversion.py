"""List inversion: from the key blocks of each query block to the query blocks of each key block."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from rocke.core.ir import I8, I32, IRBuilder, Value

from .companion import (
    MAX_GRID,
    NO_BLOCK,
    WAVE_SIZE,
    Companion,
    CompanionSpec,
    Grid,
    Parameter,
    counts_of,
    fill,
    listed,
    ranks,
    reads,
    row_of,
    shapes,
    writes,
)
from .problems import invert_index_reference, make_invert_index_problem

TILE_K = 64
"""Key blocks of a workgroup."""
CHUNK = 256
"""Query blocks whose attendance stands in LDS at a time."""
PITCH = TILE_K + 4
"""Bytes between their rows: 17 banks, so that 64 rows of one column lie in different banks."""


@dataclass(frozen=True)
class InvertIndexSpec(CompanionSpec):
    """``indices`` i32 ``[matrices, num_q_blocks, width]``, ``counts`` to ``inverse`` i32
    ``[matrices, num_k_blocks, inverse_width]``, ``inverse_counts``.

    A matrix is the pattern of one batch and head. The query blocks come out ascending and each
    once; -1 stands behind them. A count above ``inverse_width`` says that the list was cut.
    """

    name: str = "rocke_invert_index"


def _parameters(spec: InvertIndexSpec) -> list[Parameter]:
    return [
        reads("indices", I32),
        reads("counts", I32),
        writes("inverse", I32),
        writes("inverse_counts", I32),
        *counts_of("matrices", "num_q_blocks", "num_k_blocks", "width", "inverse_width"),
    ]


def _grid(spec: InvertIndexSpec, arguments: Mapping[str, Any]) -> Grid:
    return -(-int(arguments["num_k_blocks"]) // TILE_K), int(arguments["matrices"]), 1


def _limits(spec: InvertIndexSpec) -> dict[str, Any]:
    limits = shapes(
        *("num_q_blocks", "num_k_blocks", "width", "inverse_width"),
        indices=("matrices", "num_q_blocks", "width"),
        counts=("matrices", "num_q_blocks"),
        inverse=("matrices", "num_k_blocks", "inverse_width"),
        inverse_counts=("matrices", "num_k_blocks"),
    )
    return limits | {"matrices": (1, MAX_GRID)}


class _Inversion:
    """A workgroup: the inverse lists of ``TILE_K`` key blocks of one matrix."""

    def __init__(self, b: IRBuilder, spec: InvertIndexSpec, params: Mapping[str, Value]) -> None:
        self.b, self.spec, self.params = b, spec, params
        self.thread = b.thread_id_x()
        self.lane = b.land(self.thread, WAVE_SIZE - 1)
        self.wave = b.readfirstlane(b.lshr(self.thread, 6))
        self.first_k = b.mul(b.block_id_x(), TILE_K)
        self.attends = b.smem_alloc(I8, [CHUNK * PITCH], "attends")
        self.found = b.smem_alloc(I32, [TILE_K], "found")

    def emit(self) -> None:
        """Chunk by chunk of query blocks: who attends what into LDS, then append to the lists."""
        b, queries = self.b, self.params["num_q_blocks"]
        with b.scf_if(b.cmp_lt(self.thread, TILE_K)):
            b.smem_store_vN(self.found, self.thread, 0, 1)
        with b.scf_for(0, queries, CHUNK) as first_q:
            self._clear()
            b.sync()
            for i in self._shared(b.smin(b.sub(queries, first_q), CHUNK)):
                self._mark(first_q, i)
            b.sync()
            for key in self._shared(self._keys()):
                self._append(first_q, key)
            b.sync()
        # Without any query block the loop's barriers are missing.
        b.sync()
        for key in self._shared(self._keys()):
            self._finish(key)

    def _keys(self) -> Value:
        return self.b.smin(self.b.sub(self.params["num_k_blocks"], self.first_k), TILE_K)

    def _shared(self, n: Value) -> Iterator[Value]:
        """A loop over the numbers below n that are this wave's."""
        with self.b.scf_for(self.wave, n, self.spec.waves) as i:
            yield i

    def _clear(self) -> None:
        b, step = self.b, self.spec.block[0]
        words = b.smem_view(self.attends, I32, [CHUNK * PITCH // 4])
        with b.scf_for(self.thread, CHUNK * PITCH // 4, step) as word:
            b.smem_store_vN(words, word, 0, 1)

    def _matrix_row(self, per_matrix: Value, row: Value) -> Value:
        """The row's number over all matrices (i32)."""
        return self.b.add(self.b.mul(self.b.block_id_y(), per_matrix), row)

    def _mark(self, first_q: Value, i: Value) -> None:
        """Mark what query block ``first_q + i`` attends of this tile."""
        b, width = self.b, self.params["width"]
        row = self._matrix_row(self.params["num_q_blocks"], b.add(first_q, i))
        count = listed(b, b.readfirstlane(b.global_load_i32(self.params["counts"], row)), width)
        indices = row_of(b, self.params["indices"], row, width)
        keys = self._keys()
        with b.scf_for(0, count, WAVE_SIZE) as first:
            place = b.add(first, self.lane)
            with b.scf_if(b.cmp_lt(place, count)):
                key = b.sub(b.global_load_i32(indices, place), self.first_k)
                with b.scf_if(b.cmp_ult(key, keys)):
                    b.smem_store_vN(self.attends, b.add(b.mul(i, PITCH), key), 1, 1)

    def _append(self, first_q: Value, key: Value) -> None:
        """Append this chunk's query blocks to the list of key block ``key`` of the tile."""
        b, width = self.b, self.params["inverse_width"]
        inverse = self._list(key)
        start = b.readfirstlane(b.vec_extract(b.smem_load_vN(self.found, key), 0))
        loop = b.scf_for_iter(0, CHUNK, WAVE_SIZE, [("count", start)])
        with loop as (part, (count,)):
            row = b.add(part, self.lane)
            flag = b.vec_extract(b.smem_load_vN(self.attends, b.add(b.mul(row, PITCH), key)), 0)
            wanted = b.cmp_ne(flag, 0)
            rank, total = ranks(b, wanted)
            place = b.add(count, rank)
            with b.scf_if(b.land(wanted, b.cmp_lt(place, width))):
                b.global_store(inverse, place, b.add(first_q, row))
            b.scf_yield(b.add(count, total))
        with b.scf_if(b.cmp_eq(self.lane, 0)):
            b.smem_store_vN(self.found, key, loop.results[0], 1)

    def _finish(self, key: Value) -> None:
        """Fill the rest of a list and store its count."""
        b, width = self.b, self.params["inverse_width"]
        count = b.readfirstlane(b.vec_extract(b.smem_load_vN(self.found, key), 0))
        fill(b, self._list(key), count, width, self.lane, NO_BLOCK)
        with b.scf_if(b.cmp_eq(self.lane, 0)):
            b.global_store(self.params["inverse_counts"], self._key_row(key), count)

    def _key_row(self, key: Value) -> Value:
        b = self.b
        return self._matrix_row(self.params["num_k_blocks"], b.add(self.first_k, key))

    def _list(self, key: Value) -> Value:
        row = self._key_row(key)
        return row_of(self.b, self.params["inverse"], row, self.params["inverse_width"])


def _emit(b: IRBuilder, spec: InvertIndexSpec, params: Mapping[str, Value]) -> None:
    _Inversion(b, spec, params).emit()


INVERT_INDEX = Companion(
    name="invert_index",
    summary="lists of key blocks to lists of query blocks",
    spec_type=InvertIndexSpec,
    parameters=_parameters,
    emit=_emit,
    grid=_grid,
    grid_text=f"(ceil(num_k_blocks / {TILE_K}), matrices, 1)",
    limits=_limits,
    make_problem=make_invert_index_problem,
    reference=invert_index_reference,
)
