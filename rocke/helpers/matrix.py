"""Operands of the 16-row matrix instructions, as attention uses them.

Both products of a transposed attention step, S^T = K Q^T and O^T = V^T P^T, contract over an index
whose order is free as long as both operands agree, and the rows of O^T may stand for the head
dimensions in any order. The orders chosen here let every lane load whole vectors:

- **contraction over the head dimension** (:func:`contraction_chunks`): lane group ``g = lane / 16``
  takes 8 neighbouring elements of each 32. They are one operand of a 16x16x32 instruction, or the
  operands of two 16x16x16 instructions.
- **rows of V^T** (:func:`row_groups`): of ``16 * w`` neighbouring head dimensions, row ``i`` of
  the group's ``c``-th instruction is dimension ``w * i + c``, so a lane loads ``w`` neighbours of a
  key.
"""

from __future__ import annotations

from dataclasses import dataclass

from rocke.arch import MatrixOp, UnknownMatrixOp, target
from rocke.core.ir import IRBuilder, Value

ROWS = 16
LANE_GROUPS = 4
ACCUMULATORS = 4
"""f32 registers of a 16x16 result."""


@dataclass(frozen=True)
class AttentionAtoms:
    """The matrix instructions of one target and element type.

    ``narrow`` contracts 16 elements, ``wide`` 32 where the target has it. For operand layouts see
    :class:`rocke.arch.MatrixOp`.
    """

    narrow: MatrixOp
    wide: MatrixOp | None

    @staticmethod
    def of(arch: str, dtype: str) -> AttentionAtoms:
        """The atoms of ``arch``; raises ``UnknownTarget`` or ``UnknownMatrixOp``."""
        facts = target(arch)
        narrow = facts.find_matrix_op(16, 16, 16, dtype)
        try:
            return AttentionAtoms(narrow, facts.find_matrix_op(16, 16, 32, dtype))
        except UnknownMatrixOp:
            return AttentionAtoms(narrow, None)

    def instructions(self, width: int) -> int:
        """Instructions that contract a chunk of ``width`` elements a lane (4 or 8)."""
        return 1 if width == 4 or self.wide is not None else 2

    def multiply(self, b: IRBuilder, a: Value, x: Value, c: Value, width: int) -> Value:
        """``a @ x + c`` over a chunk of ``width`` elements a lane (vectors of 4 or 8)."""
        if width == 4:
            return b.mma(self.narrow, a, x, c)
        if self.wide is not None:
            return b.mma(self.wide, a, x, c)
        for half in (0, 4):
            c = b.mma(self.narrow, b.vec_slice(a, half, 4), b.vec_slice(x, half, 4), c)
        return c


def contraction_chunks(head_size: int) -> tuple[tuple[int, int], ...]:
    """``(first dimension, elements a lane)`` of each chunk; lane group g starts g chunks further.

    Chunks cover 32 dimensions with 8 elements a lane, and a last 16 with 4.
    """
    wide = tuple((d, 8) for d in range(0, head_size - 31, 32))
    return wide if head_size % 32 == 0 else (*wide, (head_size - 16, 4))


def row_groups(head_size: int) -> tuple[tuple[int, int], ...]:
    """``(first dimension, width)`` of each group of ``16 * width``; widths 8, 4, 2 and 1."""
    groups: list[tuple[int, int]] = []
    base, tiles = 0, head_size // ROWS
    for width in (8, 4, 2, 1):
        while tiles >= width:
            groups.append((base, width))
            base, tiles = base + ROWS * width, tiles - width
    return tuple(groups)


def transpose_columns(b: IRBuilder, rows: list[Value], width: int) -> list[Value]:
    """From vectors of ``width`` elements, one a row, the ``width`` vectors of their columns."""
    return [b.vec_pack([b.vec_extract(row, c) for row in rows]) for c in range(width)]
