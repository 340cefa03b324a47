"""Which key tiles a workgroup visits: pattern, valid sizes and window to a list in one register.

A *step* is one tile of ``tile_k`` keys. Full steps, whose every key every row attends, are visited
first, by the loop without masks; then the partial ones. Each wave keeps the next 64 steps in one
vector register, a lane a step (``step << 8 | valid keys``), and takes them out by readlane: the
bitmap and the list form meet here, and neither needs LDS. What is out of range, empty or outside of
the window never becomes a step.

The order of steps is that of the pattern, whatever the 64-entry portions: a bitmap and its
ascending list give the same bits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rocke.core.ir import I32, I64, IRBuilder, Value

from .bsa_layout import WAVE_SIZE
from .bsa_shape import Place, Shape

PORTION = WAVE_SIZE
"""Steps that a wave's register holds: one a lane."""
VALID_BITS = 8
"""Low bits of a list entry: the valid keys of the step, at most 255."""


AHEAD = {"list": 1, "bitmap": 4}
"""Loads of the pattern under way: a bitmap has many positions for each step found."""


@dataclass(frozen=True)
class Portion:
    """Up to 64 steps, where the search goes on, and a mask of lanes that saw a step of the other
    kind (``count``, ``following`` and ``others`` uniform).
    """

    entries: Value
    count: Value
    following: Value
    others: Value


@dataclass(frozen=True)
class Window:
    """The band mask of a tile of rows: keys from ``low`` (of a row: row + low) to row + high.

    ``low`` and ``high`` are relative to the row's number; ``first_row`` and ``last_row`` bound the
    workgroup's rows (all i32, uniform).
    """

    low: Value
    high: Value
    first_row: Value
    last_row: Value


class StepList:
    """Finds the steps of one query block. ``n`` counts the pattern's positions in steps."""

    def __init__(
        self,
        b: IRBuilder,
        shape: Shape,
        place: Place,
        params: Mapping[str, Value],
        pattern: Value,
        blocks: Value,
        window: Window | None,
    ) -> None:
        """``pattern``: a descriptor of the row of the list or bitmap; ``blocks``: its length."""
        self.b, self.shape, self.place, self.params = b, shape, place, params
        self.pattern, self.window = pattern, window
        self.n = b.mul(blocks, shape.steps_per_block)
        block_k = shape.spec.block_k
        self.num_k_blocks = b.div(b.add(params["seqlen_k"], block_k - 1), block_k)
        self.sizes: Value | None = None
        if shape.spec.variable_blocks:
            self.sizes = b.buffer_rsrc(params["block_sizes"], b.mul(self.num_k_blocks, 4))

    def portion(self, start: Value, end: Value, carried_over: Value, *, partial: bool) -> Portion:
        """The next full (or partial) steps of positions ``start`` to ``end``.

        ``carried_over``: an entry to put first, 0 for none.
        """
        b, ahead = self.b, AHEAD[self.shape.spec.pattern]
        count = b.select(b.cmp_eq(carried_over, 0), b.const_i32(0), b.const_i32(1))
        found = [carried_over, count, start, b.const_i64(0)]
        types = [v.type for v in found]
        loaded = [self._load(b.add(start, i * WAVE_SIZE)) for i in range(ahead)]
        loop = b.scf_for_iter(start, end, WAVE_SIZE, [*found, *loaded], iv_name="position")
        with loop as (position, carried):
            *found, others = carried[: len(found)]
            marks, *later = carried[len(types) :]
            later.append(self._load(b.add(position, ahead * WAVE_SIZE)))
            with b.scf_if(b.cmp_lt(found[1], WAVE_SIZE), types) as branch:
                step, full, some = self._look(b.add(position, self.place.lane), marks)
                part = b.land(some, b.lnot(full))
                wanted, other = (part, full) if partial else (full, part)
                new = self._append(found[0], found[1], position, step, wanted)
                b.scf_yield(*new, b.lor(others, b.wave_ballot(other)))
            with branch.orelse():
                b.scf_yield(*carried[: len(types)])
            b.scf_yield(*branch.results, *later)
        return Portion(*loop.results[: len(types)])

    def _load(self, position: Value) -> Value:
        """The lane's entry of the list or the bitmap, ``position`` (uniform) being lane 0's."""
        b, parts = self.b, self.shape.steps_per_block
        own = b.add(position, self.place.lane)
        return b.buffer_load(self.pattern, own if parts == 1 else b.div(own, parts))

    def entry(self, portion: Portion, index: Value) -> Value:
        """The entry at ``index`` (uniform): ``step << 8 | valid keys``, never 0."""
        return self.b.readlane(portion.entries, index)

    def _look(self, position: Value, marks: Value) -> tuple[Value, Value, Value]:
        """The lane's step as a list entry, whether every row attends all of it, and whether any
        attends any; ``marks`` is what the pattern holds there.
        """
        b, shape = self.b, self.shape
        parts, tile_k = shape.steps_per_block, shape.settings.tile_k
        place = position if parts == 1 else b.div(position, parts)
        part = b.sub(position, b.mul(place, parts))
        if shape.spec.pattern == "list":
            block, listed = marks, b.cmp_ult(marks, self.num_k_blocks)
        else:
            block, listed = place, b.cmp_ne(marks, 0)
        listed = b.land(listed, b.cmp_lt(position, self.n))
        valid = b.sub(self.params["seqlen_k"], b.mul(block, shape.spec.block_k))
        if self.sizes is not None:
            valid = b.smin(valid, b.buffer_load(self.sizes, block))
        valid = b.smin(b.sub(valid, b.mul(part, tile_k)), tile_k)
        step = b.add(b.mul(block, parts), part)
        some = b.land(listed, b.cmp_gt(valid, 0))
        full = b.land(listed, b.cmp_eq(valid, tile_k))
        if self.window is not None:
            touched, covered = self._windowed(b.mul(step, tile_k), valid)
            full, some = b.land(full, covered), b.land(some, touched)
        return b.lor(b.shl(step, VALID_BITS), valid), full, some

    def _windowed(self, first: Value, valid: Value) -> tuple[Value, Value]:
        """Whether any row sees any key of a step, and whether every row sees every key."""
        b, w = self.b, self.window
        assert w is not None
        last = b.add(first, b.sub(valid, 1))
        touched = b.land(
            b.cmp_le(first, b.add(w.last_row, w.high)), b.cmp_ge(last, b.add(w.first_row, w.low))
        )
        covered = b.land(
            b.cmp_le(last, b.add(w.first_row, w.high)), b.cmp_ge(first, b.add(w.last_row, w.low))
        )
        return touched, covered

    def _append(
        self, entries: Value, count: Value, position: Value, found: Value, wanted: Value
    ) -> tuple[Value, Value, Value]:
        """Add the wanted lanes' entries behind the first ``count``, as many as have room."""
        b, lane = self.b, self.place.lane
        mask = b.wave_ballot(wanted)
        rank = b.lanes_below(mask)
        total = b.trunc(b._op("llvm.intr.ctpop", [mask], [I64]).result, I32)
        # Every lane sends somewhere: the unwanted behind the wanted, round the register.
        behind = b.add(total, b.sub(lane, rank))
        target = b.land(b.add(count, b.select(wanted, rank, behind)), WAVE_SIZE - 1)
        moved = b.ds_permute(b.shl(target, 2), found)
        new = b.land(b.cmp_ge(lane, count), b.cmp_lt(lane, b.add(count, total)))
        appended = b.select(new, moved, entries)
        left_out = b.wave_ballot(b.land(wanted, b.cmp_ge(b.add(count, rank), WAVE_SIZE)))
        attributes = {"is_zero_poison": False}
        first_left = b._op("llvm.intr.cttz", [left_out], [I64], attributes).result
        following = b.add(position, b.trunc(first_left, I32))
        return appended, b.smin(b.add(count, total), WAVE_SIZE), following
