"""The two matrix products of a tile, from K and V in LDS: ``S^T = K Q^T``, ``O^T += V^T P^T``.

The order of the head dimensions in the first product is free as long as K and Q agree: a lane takes
8 neighbours at a time, one 16-byte read, the operand of one wide instruction or of two narrow ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rocke.core.ir import F32, IRBuilder, Value

from .bsa_layout import SLOT
from .bsa_shape import Place, Shape


@dataclass(frozen=True)
class KeyReader:
    """Reads K fragments of a tile in LDS."""

    b: IRBuilder
    shape: Shape
    array: Value
    starts: tuple[Value, ...]
    """For each chunk, where the lane's row has it, in elements from the tile's start."""

    @staticmethod
    def of(b: IRBuilder, shape: Shape, place: Place, array: Value) -> KeyReader:
        """The reader; ``array`` is the LDS that holds the tiles."""
        layout = shape.keys
        row = b.mul(place.column, layout.slots * SLOT)
        key = layout.emit_key(b, place.column)
        starts = []
        for first, width in shape.dimension_chunks():
            if width == SLOT:
                at = layout.emit_unit(b, key, first, place.group)
            else:
                at = layout.emit_unit(b, key, first, b.lshr(place.group, 1))
                at = b.add(at, b.mul(b.land(place.group, 1), SLOT // 2))
            starts.append(b.add(row, at))
        return KeyReader(b, shape, array, tuple(starts))

    def scores(self, tile: Value, query: Sequence[Value]) -> list[Value]:
        """The lane's scores of the tile at element ``tile``, key by key within its quads."""
        b, atoms = self.b, self.shape.atoms
        starts = [b.add(start, tile) for start in self.starts]
        step = atoms.rows * self.shape.keys.slots * SLOT
        found: list[Value] = []
        for t in range(self.shape.score_tiles):
            total = b.zero_vec(F32, atoms.registers)
            for (_, width), start, q in zip(
                self.shape.dimension_chunks(), starts, query, strict=True
            ):
                at = b.add(start, t * step)
                key = b.smem_load_vN(self.array, at, n=width, align=2 * width)
                total = atoms.multiply(b, key, q, total, width)
            found.extend(b.vec_extract(total, r) for r in range(atoms.registers))
        return found


class ValueReader:
    """Reads fragments of V^T of a tile in LDS."""

    def __init__(self, b: IRBuilder, shape: Shape, place: Place, array: Value) -> None:
        self.b, self.shape, self.array = b, shape, array
        self._transposing = shape.facts.has_transposed_lds_read
        self._starts = self._row_starts(place) if self._transposing else self._column_starts(place)

    def accumulate(
        self, tile: Value, weights: Sequence[Value], output: Sequence[Value]
    ) -> list[Value]:
        """``V^T P^T + O^T`` for the tile at element ``tile``; ``weights`` as :func:`chunks`."""
        b, atoms, result = self.b, self.shape.atoms, list(output)
        starts = {at: b.add(start, tile) for at, start in self._starts.items()}
        chunks = atoms.chunks(self.shape.key_quads)
        for (quad, width), weight in zip(chunks, weights, strict=True):
            for d in range(self.shape.output_tiles):
                value = self._fragment(starts, d, quad, width)
                result[d] = atoms.multiply(b, value, weight, result[d], width)
        return result

    def _row_starts(self, place: Place) -> dict[tuple[int, int], Value]:
        """gfx950: lane t of 16 addresses 4 dimensions, t mod 4, of key t / 4 of its group."""
        b, layout = self.b, self.shape.values
        inner = b.land(place.lane, 15)
        key_row = b.add(place.half_offset(b), b.lshr(inner, 2))
        column = b.mul(b.land(inner, 3), 4)
        if self.shape.atoms.rows == 32:
            column = b.add(column, b.land(place.lane, 16))
        start = b.add(b.mul(key_row, layout.slots * SLOT), column)
        key = layout.emit_key(b, key_row)
        return {
            (d, 0): b.add(start, layout.emit_unit(b, key, d))
            for d in range(self.shape.output_tiles)
        }

    def _column_starts(self, place: Place) -> dict[tuple[int, int], Value]:
        """V is transposed in LDS: a lane reads its dimension's keys of two quads at once."""
        b, layout, atoms = self.b, self.shape.values, self.shape.atoms
        key = layout.emit_key(b, place.column)
        starts = {}
        for d in range(self.shape.output_tiles):
            row = d * atoms.rows
            line = b.mul(b.add(place.column, row), layout.slots * SLOT)
            for quad, width in atoms.chunks(self.shape.key_quads):
                unit, flip = quad * atoms.groups // 2, layout.key(row)
                if width == SLOT:
                    at = layout.emit_unit(b, key, unit, place.group, flip)
                else:
                    at = layout.emit_unit(b, key, unit, b.lshr(place.group, 1), flip)
                    at = b.add(at, b.mul(b.land(place.group, 1), SLOT // 2))
                starts[d, quad] = b.add(line, at)
        return starts

    def _fragment(
        self, starts: dict[tuple[int, int], Value], d: int, quad: int, width: int
    ) -> Value:
        b = self.b
        if not self._transposing:
            return b.smem_load_vN(self.array, starts[d, quad], n=width, align=2 * width)
        step = self.shape.atoms.quad_keys * self.shape.values.slots * SLOT
        read = [
            b.ds_read_tr16_b64(self.array, b.add(starts[d, 0], q * step))
            for q in range(quad, quad + width // 4)
        ]
        return b.vec_concat(*read)
