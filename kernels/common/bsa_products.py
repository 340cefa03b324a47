"""The two matrix products of a tile, from K and V in LDS: ``S^T = K Q^T``, ``O^T += V^T P^T``.

The order of the head dimensions in the first product is free as long as K and Q agree: a lane takes
8 neighbours at a time, one 16-byte read, the operand of one wide instruction or of two narrow ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rocke.core.ir import F32, IRBuilder, Value

from .bsa_layout import SLOT, LaneAddress, TileLayout
from .bsa_shape import Place, Shape


def next_phase(b: IRBuilder) -> None:
    """Between phases: LDS reads of the one before have arrived, and nothing is scheduled across.

    A phase reads for the next one while it multiplies what the one before has read, so this one
    wait stands for a wait before every product.
    """
    b.s_waitcnt(lgkmcnt=0)
    b.sched_barrier(0)


class KeyReader:
    """Reads K fragments of a tile in LDS; ``array`` is the LDS that holds the tiles."""

    def __init__(self, b: IRBuilder, shape: Shape, place: Place, array: Value) -> None:
        self.b, self.shape, self.array = b, shape, array
        rows = [t * shape.atoms.rows for t in range(shape.score_tiles)]
        self._addresses = _slot_addresses(b, shape.keys, place, rows, shape.dimension_chunks())

    def scores(
        self, tile: Value, query: Sequence[Value], meanwhile: Sequence[Callable[[], None]]
    ) -> list[Value]:
        """The lane's scores of the tile at element ``tile``, key by key within its quads.

        ``meanwhile`` emits what else goes on, a part beside each phase of products.
        """
        b, shape = self.b, self.shape
        within, beside = _Within(b, tile), list(meanwhile)
        chunks = list(zip(shape.dimension_chunks(), query, strict=True))
        # What is under way through registers leaves fewer for fragments.
        size = 4 if shape.direct else 2
        portions = [chunks[i : i + size] for i in range(0, len(chunks), size)]
        totals = [b.zero_vec(F32, shape.atoms.registers) for _ in range(shape.score_tiles)]
        ahead = self._read(within, portions[0])
        for portion, following in zip(portions, [*portions[1:], []], strict=True):
            next_phase(b)
            keys, ahead = ahead, self._read(within, following)
            while beside and (not following or len(beside) == len(meanwhile)):
                beside.pop(0)()
            for (_, q), row in zip(portion, keys, strict=True):
                totals = [
                    shape.atoms.multiply(b, key, q, total, key.type.count)  # type: ignore[attr-defined]
                    for key, total in zip(row, totals, strict=True)
                ]
        return [b.vec_extract(t, r) for t in totals for r in range(shape.atoms.registers)]

    def _read(
        self, within: _Within, chunks: Sequence[tuple[tuple[int, int], Value]]
    ) -> list[list[Value]]:
        """For each chunk, the fragments of all score tiles."""
        b, rows = self.b, self.shape.atoms.rows
        return [
            [
                b.smem_load_vN(
                    self.array,
                    within(self._addresses[width].at(t * rows, slot)),
                    n=width,
                    align=2 * width,
                )
                for t in range(self.shape.score_tiles)
            ]
            for (slot, width), _ in chunks
        ]


class ValueReader:
    """Reads fragments of V^T of a tile in LDS."""

    def __init__(self, b: IRBuilder, shape: Shape, place: Place, array: Value) -> None:
        self.b, self.shape, self.array = b, shape, array
        if shape.facts.has_transposed_lds_read:
            self._row = self._transposing_address(place)
        else:
            rows = [d * shape.atoms.rows for d in range(shape.output_tiles)]
            chunks = [
                (quad * shape.atoms.groups // 2, width)
                for quad, width in shape.atoms.chunks(shape.key_quads)
            ]
            self._columns = _slot_addresses(b, shape.values, place, rows, chunks)

    def within(self, tile: Value) -> _Within:
        """The tile at element ``tile``, for :meth:`read`."""
        return _Within(self.b, tile)

    def read(self, within: _Within, chunk: int) -> list[Value]:
        """V^T of a chunk of keys (as ``atoms.chunks``), for each tile of the dimensions."""
        quad, width = self.shape.atoms.chunks(self.shape.key_quads)[chunk]
        tiles = range(self.shape.output_tiles)
        return [self._fragment(within, d, quad, width) for d in tiles]

    def accumulate(
        self, fragments: Sequence[Value], weight: Value, output: Sequence[Value]
    ) -> list[Value]:
        """``V^T P^T + O^T`` over a chunk of keys."""
        b, width = self.b, weight.type.count  # type: ignore[attr-defined]
        return [
            self.shape.atoms.multiply(b, value, weight, old, width)
            for value, old in zip(fragments, output, strict=True)
        ]

    def _transposing_address(self, place: Place) -> LaneAddress:
        """gfx950: lane t of 16 addresses 4 dimensions, t mod 4, of key t / 4 of its group."""
        b = self.b
        inner = b.land(place.lane, 15)
        column = b.mul(b.land(inner, 3), 4)
        if self.shape.atoms.rows == 32:
            column = b.add(column, b.land(place.lane, 16))
        key = b.add(place.half_offset(b), b.lshr(inner, 2))
        quads, tiles = range(self.shape.key_quads), range(self.shape.output_tiles)
        places = [(q * self.shape.atoms.quad_keys, d) for q in quads for d in tiles]
        return LaneAddress(b, self.shape.values, places, key, inner=column)

    def _fragment(self, within: _Within, d: int, quad: int, width: int) -> Value:
        """V^T, tile ``d`` of the dimensions, keys of ``width / 4`` quads."""
        b, atoms = self.b, self.shape.atoms
        if not self.shape.facts.has_transposed_lds_read:
            # V is transposed in LDS: a slot holds a group's keys of two quads.
            slot = quad * atoms.groups // 2
            at = within(self._columns[width].at(d * atoms.rows, slot))
            return b.smem_load_vN(self.array, at, n=width, align=2 * width)
        quads = range(quad, quad + width // 4)
        found = [within(self._row.at(q * atoms.quad_keys, d)) for q in quads]
        return b.vec_concat(*(b.ds_read_tr16_b64(self.array, at) for at in found))


class _Within:
    """Addresses within the tile at element ``tile``."""

    def __init__(self, b: IRBuilder, tile: Value) -> None:
        self.b, self.tile = b, tile
        self._moved: dict[int, Value] = {}

    def __call__(self, address: tuple[Value, int]) -> Value:
        lane_part, constant = address
        # The constant comes last: it becomes the instruction's offset, the sum is shared.
        if id(lane_part) not in self._moved:
            self._moved[id(lane_part)] = self.b.add(lane_part, self.tile)
        return self.b.add(self._moved[id(lane_part)], constant)


def _slot_addresses(
    b: IRBuilder,
    layout: TileLayout,
    place: Place,
    rows: Sequence[int],
    chunks: Sequence[tuple[int, int]],
) -> dict[int, LaneAddress]:
    """Where a lane reads chunks ``(first slot, elements a lane)`` of its row, by elements a lane:
    8 are a slot for each lane group, 4 half a slot.
    """
    found = {}
    for width in {width for _, width in chunks}:
        places = [(row, slot) for row in rows for slot, w in chunks if w == width]
        if width == SLOT:
            found[width] = LaneAddress(b, layout, places, place.column, place.group)
        else:
            half = b.mul(b.land(place.group, 1), SLOT // 2)
            slot = b.lshr(place.group, 1)
            found[width] = LaneAddress(b, layout, places, place.column, slot, half)
    return found
