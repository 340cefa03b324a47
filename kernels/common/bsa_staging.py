"""K and V from memory to LDS, one tile ahead of the products.

:class:`DirectStaging` copies straight into LDS, into one buffer while the products read another.
:class:`RegisterStaging` loads the next tile into registers while the products read the only buffer,
and transposes V on the way to LDS, for targets that cannot read it transposed.

Both are used as ``carried = begin(...)``, then in each step of the loop ``tiles = arrive(carried)``
in every wave of the workgroup alike, and ``fetch_keys`` and ``fetch_values``, which give what the
next step carries, in the waves that use the tiles. A step that is not wanted is fetched through an
empty descriptor: no memory is read, and no branch parts the copies from the products.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from rocke.core.ir import I8, I32, I64, IRBuilder, Value, VectorType, vec

from .bsa_layout import SLOT, WAVE_SIZE, TileLayout
from .bsa_shape import Place, Shape


@dataclass(frozen=True)
class Rows:
    """K or V of one head: pointer to its first row, elements between rows (i32)."""

    base: Value
    stride: Value


@dataclass(frozen=True)
class Step:
    """A tile of keys: its number, how many of its keys are real (None: all), and -1 where there is
    such a tile, else 0 (all i32, uniform).
    """

    number: Value
    valid: Value | None
    wanted: Value


@dataclass(frozen=True)
class Tiles:
    """Where a step's K and V lie, in elements of the LDS array."""

    keys: Value
    values: Value


class Staging(ABC):
    """What both ways share: the source, the LDS array, and where a copy's 16 bytes come from."""

    def __init__(self, b: IRBuilder, shape: Shape, place: Place, keys: Rows, values: Rows) -> None:
        self.b, self.shape, self.place = b, shape, place
        self.keys, self.values = keys, values
        settings = shape.settings
        own = settings.buffers * shape.buffer_elements
        self.array = b.smem_alloc(shape.elem, [settings.waves_k * own], "tiles")
        self.base = b.mul(place.key_group, own)
        self.thread = b.add(b.mul(place.row_wave, WAVE_SIZE), place.lane)

    def layout(self, rows: Rows) -> TileLayout:
        """Of K or V in LDS."""
        return self.shape.keys if rows is self.keys else self.shape.values

    def tiles(self, buffer: Value) -> Tiles:
        """The tiles of the buffer at element ``buffer``."""
        return Tiles(buffer, self.b.add(buffer, self.shape.key_elements))

    @abstractmethod
    def begin(self, step: Step, buffer: Value) -> list[Value]:
        """Start staging the first step, in ``buffer`` (0 or 1). Every wave must come here."""

    @abstractmethod
    def arrive(self, carried: Sequence[Value]) -> Tiles:
        """Finish the step under way. Every wave must come here."""

    @abstractmethod
    def fetch_keys(self, carried: Sequence[Value], step: Step) -> list[Value]:
        """Start staging K of the next step, after :meth:`arrive`; gives the first of what the next
        turn carries.
        """

    @abstractmethod
    def fetch_values(self, carried: Sequence[Value], step: Step) -> list[Value]:
        """The same for V; gives the rest."""

    def source(self, rows: Rows, step: Step, lead: int = 0) -> Value:
        """A descriptor of a step's rows that ends with the last real one; empty if not wanted.

        It begins ``lead`` bytes before the first row. Its elements are bytes, so that offsets are
        made before the loops once, not as others in front of each loop.
        """
        b, tile_k = self.b, self.shape.settings.tile_k
        # An unsigned product of 32-bit factors: two scalar instructions.
        stride = b.mul(rows.stride, tile_k * self.shape.elem.bytes)
        first = b.mul(b.zext(step.number, I64), b.zext(stride, I64))
        count = b.const_i32(tile_k) if step.valid is None else step.valid
        span = b.add(b.mul(b.sub(count, 1), rows.stride), self.shape.spec.head_size)
        size = b.land(b.add(self._bytes(span), lead), step.wanted)
        base = b.ptr_cast(rows.base, I8)
        base = earlier(b, base, lead) if lead else base
        return b.buffer_rsrc(b.ptr_add(base, first), size)

    def piece_offset(self, rows: Rows, piece: Value) -> Value:
        """Where the lane's 16 bytes of a piece of the tile come from, in bytes of the rows."""
        b = self.b
        row, slot = self.layout(rows).emit_source(b, piece, self.place.lane)
        return self._bytes(b.add(b.mul(row, rows.stride), b.mul(slot, SLOT)))

    def _bytes(self, elements: Value) -> Value:
        return self.b.mul(elements, self.shape.elem.bytes)


MOST_IMMEDIATE = 4095
"""Bytes by which an instruction's immediate can move a copy's two addresses."""


class DirectStaging(Staging):
    """Two buffers, filled by copies of 16 bytes a lane. Carries the current buffer's offset.

    A wave copies neighbouring pieces. A few of them share one LDS address in M0, an immediate
    takes them apart. It moves the source as well, so those offsets are less by it, and the
    descriptor begins so much earlier that none is negative.
    """

    def __init__(self, b: IRBuilder, shape: Shape, place: Place, keys: Rows, values: Rows) -> None:
        super().__init__(b, shape, place, keys, values)
        self.offsets = {rows: self._offsets(rows) for rows in (keys, values)}

    def _offsets(self, rows: Rows) -> list[Value]:
        """For each piece that this wave copies, the lane's offset from the descriptor's begin."""
        b, share, lead = self.b, self._share(rows), self._lead(rows)
        first = b.mul(self.place.row_wave, share)
        offsets = (self.piece_offset(rows, b.add(first, i)) for i in range(share))
        return [b.add(at, lead - self._immediate(rows, i)) for i, at in enumerate(offsets)]

    def _share(self, rows: Rows) -> int:
        """Pieces of a tile that a wave copies."""
        return -(-self.layout(rows).pieces // self.shape.settings.waves_q)

    def _immediate(self, rows: Rows, i: int) -> int:
        """Of the wave's piece ``i``, in bytes."""
        size = self.layout(rows).piece_elements * self.shape.elem.bytes
        return i % (1 + MOST_IMMEDIATE // size) * size

    def _lead(self, rows: Rows) -> int:
        """The greatest immediate."""
        return max(self._immediate(rows, i) for i in range(self._share(rows)))

    def begin(self, step: Step, buffer: Value) -> list[Value]:
        """See :meth:`Staging.begin`."""
        self.b.sync()
        start = self.b.mul(buffer, self.shape.buffer_elements)
        for rows in (self.keys, self.values):
            self._copy(rows, step, start)
        return [start]

    def arrive(self, carried: Sequence[Value]) -> Tiles:
        """See :meth:`Staging.arrive`."""
        b = self.b
        b.s_waitcnt(vmcnt=0, lgkmcnt=0)
        b.s_barrier_bare()
        return self.tiles(b.add(self.base, carried[0]))

    def fetch_keys(self, carried: Sequence[Value], step: Step) -> list[Value]:
        """See :meth:`Staging.fetch_keys`."""
        other = self.b.sub(self.shape.buffer_elements, carried[0])
        self._copy(self.keys, step, other)
        return [other]

    def fetch_values(self, carried: Sequence[Value], step: Step) -> list[Value]:
        """See :meth:`Staging.fetch_values`."""
        self._copy(self.values, step, self.b.sub(self.shape.buffer_elements, carried[0]))
        return []

    def _copy(self, rows: Rows, step: Step, buffer: Value) -> None:
        b, share, size = self.b, self._share(rows), self.layout(rows).piece_elements
        tiles = self.tiles(b.add(self.base, buffer))
        tile = tiles.keys if rows is self.keys else tiles.values
        own = b.add(tile, b.mul(self.place.row_wave, share * size))
        descriptor = self.source(rows, step, self._lead(rows))
        for i, offset in enumerate(self.offsets[rows]):
            both = self._immediate(rows, i)
            at = b.add(own, i * size - both // self.shape.elem.bytes)
            b.buffer_load_lds(descriptor, offset, self.array, at, nbytes=16, immediate=both)


class RegisterStaging(Staging):
    """One buffer, filled from registers. Carries the pieces of K and the rows of V under way.

    A lane takes units of V, of ``4 * quads`` keys (a lane group's of one or two quads) by ``width``
    dimensions, as large as there are enough of: it loads them row by row and stores a dimension's
    keys together.
    """

    def __init__(self, b: IRBuilder, shape: Shape, place: Place, keys: Rows, values: Rows) -> None:
        super().__init__(b, shape, place, keys, values)
        waves, elements = shape.settings.waves_q, shape.settings.waves_k * shape.buffer_elements
        self.as_bytes = b.smem_view(self.array, I8, [elements * shape.elem.bytes])
        self.key_offsets = [
            self.piece_offset(keys, b.add(place.row_wave, i * waves))
            for i in range(-(-shape.keys.pieces // waves))
        ]
        for self.quads, self.width in ((2, SLOT), (1, SLOT), (1, SLOT // 2)):
            self.units = shape.settings.tile_k * shape.spec.head_size
            self.units //= 4 * self.quads * self.width
            if shape.key_quads % self.quads == 0 and self.units >= shape.group_lanes:
                break
        self.rounds = -(-self.units // shape.group_lanes)
        self._places = [self._unit_place(r) for r in range(self.rounds)]

    def begin(self, step: Step, buffer: Value) -> list[Value]:
        """See :meth:`Staging.begin`."""
        return [*self.fetch_keys((), step), *self.fetch_values((), step)]

    def arrive(self, carried: Sequence[Value]) -> Tiles:
        """See :meth:`Staging.arrive`."""
        b = self.b
        b.s_waitcnt(lgkmcnt=0)
        b.s_barrier_bare()
        self._store(carried)
        b.s_waitcnt(lgkmcnt=0)
        b.s_barrier_bare()
        return self.tiles(self.base)

    def fetch_keys(self, carried: Sequence[Value], step: Step) -> list[Value]:
        """See :meth:`Staging.fetch_keys`."""
        descriptor = self.source(self.keys, step)
        return [self._load(descriptor, offset, SLOT) for offset in self.key_offsets]

    def fetch_values(self, carried: Sequence[Value], step: Step) -> list[Value]:
        """See :meth:`Staging.fetch_values`."""
        descriptor = self.source(self.values, step)
        offsets = [offset for unit, _, _ in self._places for offset in unit]
        return [self._load(descriptor, offset, self.width) for offset in offsets]

    def _load(self, descriptor: Value, offset: Value, count: int) -> Value:
        b, elem = self.b, self.shape.elem
        loaded = b.buffer_load_vN(descriptor, offset, I8, count * elem.bytes)
        return b.bitcast(loaded, vec(elem, count))

    def _store(self, pieces: Sequence[Value]) -> None:
        b, lanes = self.b, self.shape.group_lanes
        own = b.add(self.base, b.mul(self.thread, SLOT))
        count, waves = len(self.key_offsets), self.shape.settings.waves_q
        for i in range(count):
            at = b.add(own, i * lanes * SLOT)
            if (i + 1) * waves <= self.shape.keys.pieces:
                b.smem_store_vN(self.array, at, pieces[i], SLOT, align=16)
                continue
            piece = b.add(self.place.row_wave, i * waves)
            with b.scf_if(b.cmp_lt(piece, self.shape.keys.pieces)):
                b.smem_store_vN(self.array, at, pieces[i], SLOT, align=16)
        rows = 4 * self.quads
        for r, (_, targets, there) in enumerate(self._places):
            unit = pieces[count + r * rows : count + (r + 1) * rows]
            if there is None:
                self._store_unit(targets, unit)
                continue
            with b.scf_if(there):
                self._store_unit(targets, unit)

    def _store_unit(self, targets: Sequence[Value], rows: Sequence[Value]) -> None:
        b = self.b
        nbytes = len(rows) * self.shape.elem.bytes
        for target, column in zip(targets, transposed(b, rows), strict=True):
            packed = b.bitcast(column, vec(I8, nbytes))
            b.smem_store_vN(self.as_bytes, target, packed, nbytes, align=nbytes)

    def _unit_place(self, r: int) -> tuple[list[Value], list[Value], Value | None]:
        """Of the lane's unit of round ``r``: source offsets and LDS targets in bytes, and whether
        it exists.
        """
        b, atoms, layout = self.b, self.shape.atoms, self.shape.values
        unit = b.add(self.thread, r * self.shape.group_lanes)
        chunk, group, column = self._unit(unit)
        dimension = b.mul(column, self.width)
        key = b.add(b.mul(chunk, atoms.quad_keys * self.quads), b.mul(group, 4))
        offsets = [
            self._bytes(
                b.add(b.mul(b.add(key, q * atoms.quad_keys + j), self.values.stride), dimension)
            )
            for q in range(self.quads)
            for j in range(4)
        ]
        start = b.add(self.base, self.shape.key_elements)
        slot, half = self._slot_of(chunk, group)
        targets = []
        for d in range(self.width):
            row = b.add(dimension, d)
            at = b.add(layout.emit_lane(b, row, slot, 0), half)
            targets.append(self._bytes(b.add(start, at)))
        exists = (r + 1) * self.shape.group_lanes <= self.units
        return offsets, targets, None if exists else b.cmp_lt(unit, self.units)

    def _unit(self, unit: Value) -> tuple[Value, Value, Value]:
        """Of a unit: its chunk of ``quads`` quads, lane group, and number along the dimensions.

        Units of one quad fill half a slot. 16 lanes store together: 8 columns, which the layout
        puts to different banks, of both halves, so that they fill 8 slots and no bank waits.
        """
        b, groups = self.b, self.shape.atoms.groups
        across = self.shape.spec.head_size // self.width
        bits = groups.bit_length() - 1
        if self.quads == 2 or self.shape.key_quads % 2 or across % 8:
            line = b.div(unit, across)
            return (
                b.lshr(line, bits),
                b.land(line, groups - 1),
                b.sub(unit, b.mul(line, across)),
            )
        rest, octets = b.lshr(unit, 4), across // 8
        line = b.div(rest, octets)
        octet = b.sub(rest, b.mul(line, octets))
        half = b.land(b.lshr(unit, 3), 1)
        chunk = b.add(b.mul(b.lshr(line, bits), 2), half)
        return chunk, b.land(line, groups - 1), b.add(b.mul(octet, 8), b.land(unit, 7))

    def _slot_of(self, chunk: Value, group: Value) -> tuple[Value, Value]:
        """Slot and element within it of a unit: a slot has a group's keys of two quads."""
        b, groups, quads = self.b, self.shape.atoms.groups, self.shape.key_quads
        if self.quads == 2:
            return b.add(b.mul(chunk, groups), group), b.const_i32(0)
        # One quad a unit: quads 2c and 2c + 1 share a slot, but a last odd one fills half slots.
        pair = b.lshr(chunk, 1)
        shared = b.add(b.mul(pair, groups), group)
        half = b.mul(b.land(chunk, 1), SLOT // 2)
        if quads % 2 == 0:
            return shared, half
        alone = b.cmp_eq(chunk, quads - 1)
        last = b.add(b.mul(pair, groups), b.lshr(group, 1))
        last_half = b.mul(b.land(group, 1), SLOT // 2)
        return b.select(alone, last, shared), b.select(alone, last_half, half)


def earlier(b: IRBuilder, pointer: Value, nbytes: int) -> Value:
    """The address ``nbytes`` before a pointer, of no array: so not as pointer arithmetic, which
    must stay within one. Besides, LLVM would move a pointer's constant offset into the loop.
    """
    number = b._op("llvm.ptrtoint", [pointer], [I64]).result
    return b._op("llvm.inttoptr", [b.sub(number, nbytes)], [pointer.type]).result


def transposed(b: IRBuilder, rows: Sequence[Value]) -> list[Value]:
    """The columns of rows of 16-bit elements: one byte permute for every two elements."""
    type_ = rows[0].type
    assert isinstance(type_, VectorType)
    words = [b.bitcast(row, vec(I32, type_.count // 2)) for row in rows]
    columns = []
    for d in range(type_.count):
        # Selector bytes 0-3 name the second source, 4-7 the first: the low or the high halves.
        selector = b.const_i32(0x07060302 if d % 2 else 0x05040100)
        pairs = []
        for low, high in zip(words[::2], words[1::2], strict=True):
            sources = (b.vec_extract(high, d // 2), b.vec_extract(low, d // 2), selector)
            pairs.append(b.byte_permute(*sources))
        columns.append(b.bitcast(b.vec_pack(pairs), vec(type_.elem, len(rows))))
    return columns


def staging(b: IRBuilder, shape: Shape, place: Place, keys: Rows, values: Rows) -> Staging:
    """The way that the settings ask for."""
    made = DirectStaging if shape.direct else RegisterStaging
    return made(b, shape, place, keys, values)
