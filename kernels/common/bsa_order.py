"""Which query block and head a workgroup takes, so that a head's K and V stay in one L2.

A device of several dies (XCDs) deals workgroups to them in turn, by their number in the launch,
and each die has an L2 of its own. With the grid taken as it is, neighbouring query blocks of one
head would read the same keys into every L2. So the tasks, numbered query block by query block, head
by head, batch by batch, are cut into a run of neighbours for each die, equal but for one.
"""

from __future__ import annotations

from dataclasses import dataclass

from rocke.core.ir import IRBuilder, Value


@dataclass(frozen=True)
class Task:
    """Numbers along the grid's axes (i32, uniform): workgroup of the query blocks, head, batch."""

    x: Value
    head: Value
    batch: Value

    @staticmethod
    def of(b: IRBuilder, dies: int) -> Task:
        """The task of this workgroup, with ``dies`` (a power of two) that are dealt to in turn.

        Every task belongs to one workgroup, whatever the grid and however workgroups really are
        dealt out. The launch has less than 2**31 workgroups.
        """
        grid = Task(b.block_id_x(), b.block_id_y(), b.block_id_z())
        if dies == 1:
            return grid
        along_x, heads, batches = b.grid_sizes()
        number = b.add(grid.x, b.mul(along_x, b.add(grid.head, b.mul(heads, grid.batch))))
        count = b.mul(along_x, b.mul(heads, batches))
        # Die d gets the workgroups d, d + dies, ...: one more where d < count % dies.
        die, nth = b.land(number, dies - 1), b.lshr(number, dies.bit_length() - 1)
        share, rest = b.lshr(count, dies.bit_length() - 1), b.land(count, dies - 1)
        task = b.add(b.add(b.mul(die, share), b.smin(die, rest)), nth)
        row = _quotient(b, task, along_x)
        batch = _quotient(b, row, heads)
        return Task(b.sub(task, b.mul(row, along_x)), b.sub(row, b.mul(batch, heads)), batch)


def _quotient(b: IRBuilder, number: Value, divisor: Value) -> Value:
    """Of numbers that are not negative; cheaper than the signed division."""
    return b._op("arith.divui", [number, divisor], [number.type]).result
