"""Where rows, keys and dimensions lie: in the lanes of a wave, and in LDS without bank conflicts.

**Lanes.** A wave computes ``S^T = K Q^T`` and ``O^T = V^T P^T`` with ``M``-row matrix instructions
(M = 32 or 16), whose lanes form ``G = 64 / M`` groups. Lane ``l`` has query ``l mod M`` throughout.
Its scores come in *quads*: quad ``q`` holds the keys ``4 G q + 4 g + 0..3`` of the tile, g = l / M.
Packed as they are, two quads (or one) are the B operand of the second product, whose contraction
order is free: the A operand takes the same keys from V.

**LDS.** A tile is rows of 16-byte slots. Lanes that an instruction serves together read one slot of
many rows, so slots are permuted within each row: XOR with a number that differs between rows which
would else start at the same bank.
"""

from __future__ import annotations

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


@dataclass(frozen=True)
class SlotLayout:
    """A tile in LDS: ``rows`` rows of ``slots`` 16-byte slots without gaps, slots permuted.

    ``unit`` slots stay together (more than 1 for transposed reads, which take whole runs);
    ``window`` slots are one sweep over all banks. ``spread`` also varies the permutation between
    octets of rows: for tiles that are written one slot column at a time.
    """

    rows: int
    slots: int
    window: int
    unit: int = 1
    spread: bool = False

    @property
    def units(self) -> int:
        """Units in a row."""
        return self.slots // self.unit

    @cached_property
    def cycle(self) -> int:
        """How many rows would start at the same bank, at most: a power of two."""
        return gcd(self.units, self.window // self.unit)

    @property
    def shift(self) -> int:
        """Rows that are distinct by themselves, as a power of two."""
        return (self.window // self.unit // self.cycle).bit_length() - 1

    def key(self, row: int) -> int:
        """What unit numbers of ``row`` are XORed with."""
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

    def slot(self, row: int, slot: int) -> int:
        """The position of a row's slot in the tile, in slots."""
        unit, inner = divmod(slot, self.unit)
        return row * self.slots + (unit ^ self.key(row)) * self.unit + inner

    def emit_unit(
        self, b: IRBuilder, key: Value, unit: int, lane_unit: Value | None = None, flip: int = 0
    ) -> Value:
        """Elements from a row's start to its unit ``unit + lane_unit``.

        ``key`` (i32) is the row's, XORed with ``flip`` where the rows of one instruction start at
        a later row than ``key`` speaks of. ``lane_unit`` is below the power of two that ``unit`` is
        a multiple of. What the permutation leaves alone of ``unit`` comes out as a constant to add.
        """
        inside = unit % self.cycle
        moved = key if lane_unit is None else b.xor(key, lane_unit)
        moved = b.xor(moved, inside ^ flip)
        return b.add(b.mul(moved, self.unit * SLOT), (unit - inside) * self.unit * SLOT)

    def emit_slot_of(self, b: IRBuilder, position: Value) -> tuple[Value, Value]:
        """The row and the slot (both i32) that lie at ``position`` slots: :meth:`slot` inverted."""
        row = b.div(position, self.slots)
        there = b.sub(position, b.mul(row, self.slots))
        key = b.mul(self.emit_key(b, row), self.unit)
        return row, b.xor(there, key)


def key_layout(facts: Target, tile_k: int, head_size: int) -> SlotLayout:
    """K, a row a key, for 16-byte reads of one slot of many rows."""
    return SlotLayout(tile_k, head_size // SLOT, _window(facts))


def value_layout(facts: Target, rows: int, tile_k: int, head_size: int) -> SlotLayout:
    """V: a row a key for transposed reads, else a row a head dimension (transposed when stored)."""
    if facts.has_transposed_lds_read:
        return SlotLayout(tile_k, head_size // SLOT, _window(facts), unit=rows // SLOT)
    return SlotLayout(head_size, tile_k // SLOT, _window(facts), spread=True)


def _window(facts: Target) -> int:
    return facts.lds_banks * 4 // 16
