"""Where rows, keys and dimensions lie: in the lanes of a wave, and in LDS without bank conflicts.

**Lanes.** A wave computes ``S^T = K Q^T`` and ``O^T = V^T P^T`` with ``M``-row matrix instructions
(M = 32 or 16), whose lanes form ``G = 64 / M`` groups. Lane ``l`` has query ``l mod M`` throughout.
Its scores come in *quads*: quad ``q`` holds the keys ``4 G q + 4 g + 0..3`` of the tile, g = l / M.
Packed as they are, two quads (or one) are the B operand of the second product, whose contraction
order is free: the A operand takes the same keys from V.

**LDS.** A tile is rows of 16-byte slots. Lanes that an instruction serves together read one slot of
many rows, which must start at different banks: by padding, or by permuting the slots of each row.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from math import gcd

from rocke.arch import MatrixOp, Target, UnknownMatrixOp
from rocke.core.ir import IRBuilder, Value

WAVE_SIZE = 64
SLOT = 8
"""16-bit elements of a 16-byte slot."""


@dataclass(frozen=True)
class Atoms:
    """The matrix instructions of one wave: ``narrow`` takes 4 elements a lane, ``wide`` 8.

    ``wide`` is None where the target lacks it: two narrow ones do the same.
    """

    rows: int
    narrow: MatrixOp
    wide: MatrixOp | None

    @staticmethod
    def of(facts: Target, rows: int, dtype: str) -> Atoms:
        """The instructions with ``rows`` rows (16 or 32) on a target."""
        depth = 16 * 16 // rows
        narrow = facts.find_matrix_op(rows, rows, depth, dtype)
        try:
            return Atoms(rows, narrow, facts.find_matrix_op(rows, rows, 2 * depth, dtype))
        except UnknownMatrixOp:
            return Atoms(rows, narrow, None)

    @property
    def groups(self) -> int:
        """Lane groups, G."""
        return WAVE_SIZE // self.rows

    @property
    def quads(self) -> int:
        """Quads of f32 registers of one result."""
        return self.rows // (4 * self.groups)

    @property
    def quad_keys(self) -> int:
        """Keys (or head dimensions) of one quad, over all groups."""
        return 4 * self.groups

    @property
    def registers(self) -> int:
        """f32 registers of one result."""
        return 4 * self.quads

    def multiply(self, b: IRBuilder, a: Value, x: Value, c: Value, width: int) -> Value:
        """``a @ x + c`` over ``width`` elements a lane (vectors of 4 or 8)."""
        if width == 4:
            return b.mma(self.narrow, a, x, c)
        if self.wide is not None:
            return b.mma(self.wide, a, x, c)
        for half in (0, 4):
            c = b.mma(self.narrow, b.vec_slice(a, half, 4), b.vec_slice(x, half, 4), c)
        return c

    def instructions(self, width: int) -> int:
        """Instructions that :meth:`multiply` emits."""
        return 1 if width == 4 or self.wide is not None else 2

    def chunks(self, quads: int) -> tuple[tuple[int, int], ...]:
        """``(first quad, elements a lane)`` that cover ``quads``: two at a time, then one."""
        pairs = tuple((q, 8) for q in range(0, quads - 1, 2))
        return pairs if quads % 2 == 0 else (*pairs, (quads - 1, 4))


class TileLayout(ABC):
    """A tile of K or V in LDS: ``rows`` rows of ``slots`` 16-byte slots.

    A copy instruction of a wave moves a *piece* of 64 slots, lane after lane without gaps. Reads
    take *units* of ``unit`` neighbouring slots (more than 1 for transposed reads).
    """

    rows: int
    slots: int
    unit: int

    @property
    @abstractmethod
    def piece_elements(self) -> int:
        """Elements from one piece to the next."""

    @property
    def pieces(self) -> int:
        """Pieces of the tile; the last may reach past the rows."""
        return -(-self.rows * self.slots // WAVE_SIZE)

    @abstractmethod
    def element(self, row: int, slot: int) -> int:
        """Where a slot lies, in elements from the tile's start."""

    @abstractmethod
    def emit_source(self, b: IRBuilder, piece: Value, lane: Value) -> tuple[Value, Value]:
        """The row and the slot (i32) that a lane moves in piece ``piece`` (i32)."""

    @abstractmethod
    def split(self, row: int, unit: int) -> tuple[int, int]:
        """What ``row`` and ``unit`` add to a lane's address: ``flip`` for :meth:`emit_lane`, and a
        constant in elements.

        ``row`` is a multiple of a power of two that the lanes' rows are below, ``unit`` one that
        their units are below.
        """

    @abstractmethod
    def emit_lane(self, b: IRBuilder, row: Value, unit: Value | None, flip: int) -> Value:
        """The lane's part of an address: its row and unit, in elements."""


@dataclass(frozen=True)
class PaddedLayout(TileLayout):
    """Neighbouring rows in neighbouring pieces, ``pad`` elements after each piece.

    So the rows that are read together start at different banks, and every slot of a row, row by
    row, is at a constant distance from the lane's first: one address register serves all reads.
    """

    rows: int
    slots: int
    pad: int
    unit: int = 1

    @property
    def piece_elements(self) -> int:
        """See :class:`TileLayout`."""
        return WAVE_SIZE * SLOT + self.pad

    def element(self, row: int, slot: int) -> int:
        """See :class:`TileLayout`."""
        line, piece = divmod(row, self.pieces)
        return piece * self.piece_elements + (line * self.slots + slot) * SLOT

    def emit_source(self, b: IRBuilder, piece: Value, lane: Value) -> tuple[Value, Value]:
        """See :class:`TileLayout`."""
        line = b.div(lane, self.slots)
        return b.add(piece, b.mul(line, self.pieces)), b.sub(lane, b.mul(line, self.slots))

    def split(self, row: int, unit: int) -> tuple[int, int]:
        """See :class:`TileLayout`."""
        return 0, self.element(row, unit * self.unit)

    def emit_lane(self, b: IRBuilder, row: Value, unit: Value | None, flip: int) -> Value:
        """See :class:`TileLayout`."""
        bits = self.pieces.bit_length() - 1
        start = b.mul(b.land(row, self.pieces - 1), self.piece_elements)
        start = b.add(start, b.mul(b.lshr(row, bits), self.slots * SLOT))
        return start if unit is None else b.add(start, b.mul(unit, self.unit * SLOT))


@dataclass(frozen=True)
class SwizzledLayout(TileLayout):
    """Rows without gaps, the units of each XORed with a number that differs between rows which
    would else start at the same bank.

    ``window`` slots are one sweep over all banks. ``spread`` also varies the permutation between
    octets of rows: for tiles that are written one slot column at a time.
    """

    rows: int
    slots: int
    window: int
    unit: int = 1
    spread: bool = False

    @property
    def piece_elements(self) -> int:
        """See :class:`TileLayout`."""
        return WAVE_SIZE * SLOT

    @cached_property
    def cycle(self) -> int:
        """How many rows would start at the same bank, at most: a power of two."""
        return gcd(self.slots // self.unit, self.window // self.unit)

    @property
    def shift(self) -> int:
        """Rows that are distinct by themselves, as a power of two."""
        return (self.window // self.unit // self.cycle).bit_length() - 1

    def key(self, row: int) -> int:
        """What unit numbers of ``row`` are XORed with; linear in the row's bits."""
        found = row >> self.shift & self.cycle - 1
        if self.spread and self.cycle > 1:
            half = self.cycle // 2
            found ^= (row >> 3) % half + half * (row >> 5 & 1)
        return found

    def emit_key(self, b: IRBuilder, row: Value) -> Value:
        """:meth:`key` of an i32 row."""
        found = b.land(b.lshr(row, self.shift), self.cycle - 1)
        if not self.spread or self.cycle == 1:
            return found
        half = self.cycle // 2
        octet = b.land(b.lshr(row, 3), half - 1)
        return b.xor(found, b.add(octet, b.mul(b.land(b.lshr(row, 5), 1), half)))

    def element(self, row: int, slot: int) -> int:
        """See :class:`TileLayout`."""
        unit, inner = divmod(slot, self.unit)
        return (row * self.slots + (unit ^ self.key(row)) * self.unit + inner) * SLOT

    def emit_source(self, b: IRBuilder, piece: Value, lane: Value) -> tuple[Value, Value]:
        """See :class:`TileLayout`."""
        position = b.add(b.mul(piece, WAVE_SIZE), lane)
        row = b.div(position, self.slots)
        there = b.sub(position, b.mul(row, self.slots))
        return row, b.xor(there, b.mul(self.emit_key(b, row), self.unit))

    def split(self, row: int, unit: int) -> tuple[int, int]:
        """See :class:`TileLayout`."""
        inside = unit % self.cycle
        whole = row * self.slots + (unit - inside) * self.unit
        return inside ^ self.key(row), whole * SLOT

    def emit_lane(self, b: IRBuilder, row: Value, unit: Value | None, flip: int) -> Value:
        """See :class:`TileLayout`."""
        moved = b.xor(self.emit_key(b, row), flip)
        moved = moved if unit is None else b.xor(moved, unit)
        return b.add(b.mul(row, self.slots * SLOT), b.mul(moved, self.unit * SLOT))


class LaneAddress:
    """Addresses of one lane's reads: its ``row`` and ``unit`` (i32), ``inner`` elements further.

    ``places`` are the ``(row, unit)`` that will be asked for: what differs between lanes is
    computed here, once, and shared where it can be.
    """

    def __init__(
        self,
        b: IRBuilder,
        layout: TileLayout,
        places: Iterable[tuple[int, int]],
        row: Value,
        unit: Value | None = None,
        inner: Value | None = None,
    ) -> None:
        self._layout = layout
        self._parts: dict[int, Value] = {}
        for flip in sorted({layout.split(*place)[0] for place in places}):
            part = layout.emit_lane(b, row, unit, flip)
            self._parts[flip] = part if inner is None else b.add(part, inner)

    def at(self, row: int, unit: int) -> tuple[Value, int]:
        """Of a place: the lane's part and a constant to add."""
        flip, constant = self._layout.split(row, unit)
        return self._parts[flip], constant


def key_layout(facts: Target, rows: int, tile_k: int, head_size: int) -> TileLayout:
    """K, a row a key, for 16-byte reads of one slot of many rows (``rows`` a wave)."""
    if _padded(facts, rows, tile_k, head_size):
        return PaddedLayout(tile_k, head_size // SLOT, SLOT)
    return SwizzledLayout(tile_k, head_size // SLOT, _window(facts))


def value_layout(facts: Target, rows: int, tile_k: int, head_size: int) -> TileLayout:
    """V: a row a key for transposed reads, else a row a head dimension (transposed when stored)."""
    if not facts.has_transposed_lds_read:
        return SwizzledLayout(head_size, tile_k // SLOT, _window(facts), spread=True)
    if _padded(facts, rows, tile_k, head_size):
        return PaddedLayout(tile_k, head_size // SLOT, rows, unit=rows // SLOT)
    return SwizzledLayout(tile_k, head_size // SLOT, _window(facts), unit=rows // SLOT)


def _padded(facts: Target, rows: int, tile_k: int, head_size: int) -> bool:
    """Whether padding keeps rows apart: 16 of them, by 16 bytes a piece, or by 16 a piece and by
    a row's length where a sweep holds several rows.

    Padding needs LDS to spare, which targets with direct copies have, and whole rows in a piece.
    """
    slots = head_size // SLOT
    pieces, rest = divmod(tile_k * slots, WAVE_SIZE)
    power = slots & slots - 1 == 0 and pieces & pieces - 1 == 0
    apart = pieces >= _window(facts) or pieces == slots
    return 16 in facts.direct_lds_bytes and rows == 32 and power and not rest and apart


def _window(facts: Target) -> int:
    return facts.lds_banks * 4 // 16
