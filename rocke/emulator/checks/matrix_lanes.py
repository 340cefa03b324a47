"""Which lanes of A and B each element of a matrix instruction's result depends on.

The layouts are those that :mod:`rocke.emulator.semantics.matrix_kernel` states; its sources hold
here too (AMD matrix instruction calculator; MI300 ISA guide).
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import dataclass

from rocke.emulator.checks.effects import AGPRS, VGPRS
from rocke.emulator.instruction import Instruction, Operand, OperandKind
from rocke.emulator.semantics.interface import UnknownInstruction
from rocke.emulator.semantics.matrix_forms import MATRIX_FORMS
from rocke.emulator.semantics.matrix_options import BLGP_GROUPS
from rocke.emulator.semantics.matrix_sparse import SPARSE_FORMS

_BASES = {OperandKind.VGPR: VGPRS, OperandKind.AGPR: AGPRS}


@dataclass(frozen=True)
class MatrixLanes:
    """The layout of one form: ``blocks`` products of M x M; ``double``: f64 results.

    ``cbsz`` and ``abid`` choose the blocks of A, ``blgp`` the lane groups of B.
    """

    m: int
    blocks: int
    double: bool
    registers: int
    cbsz: int = 0
    abid: int = 0
    blgp: int = 0

    def place(self, register: int, lane: int) -> tuple[int, int, int]:
        """(row, column, block) of an element of D."""
        if self.m == 4 and self.double:
            return lane // 16, lane % 4, lane // 4 % 4
        if self.double:
            return 4 * (register // 2) + lane // 16, lane % 16, 0
        if self.m == 4:
            return register, lane % 4, lane // 4
        if self.m == 16:
            return 4 * (lane // 16) + register % 4, lane % 16, register // 4
        row = 8 * (register % 16 // 4) + 4 * (lane // 32) + register % 4
        return row, lane % 32, register // 16

    def _lanes(self, place: int, block: int) -> list[int]:
        """Lanes that hold a row of A (or a column of B) of a block."""
        if self.m == 4 and self.double:
            return [16 * k + 4 * block + place for k in range(4)]
        if self.blocks > 1:
            return [self.m * block + place]
        return [self.m * group + place for group in range(64 // self.m)]

    def depends(self, register: int, lane: int) -> tuple[int, int]:
        """Masks of the lanes of A and of B that an element of D comes from."""
        row, column, block = self.place(register, lane)
        source = (block & -(1 << self.cbsz)) + self.abid if self.cbsz else block
        groups = BLGP_GROUPS[self.blgp]
        b = [16 * groups[at // 16] + at % 16 for at in self._lanes(column, block)]
        return _mask(self._lanes(row, source)), _mask(b)

    @functools.cache  # noqa: B019  (a few forms, all of them constant)
    def words(self) -> tuple[int, ...]:
        """The table that :func:`rocke.emulator.checks.moved.matrix` reads, in i32."""
        found: list[int] = []
        for register in range(self.registers):
            for lane in range(64):
                for mask in self.depends(register, lane):
                    found += [_signed(mask & 0xFFFF_FFFF), _signed(mask >> 32)]
        return tuple(found)


def _mask(lanes: Iterable[int]) -> int:
    return functools.reduce(lambda mask, lane: mask | 1 << lane, lanes, 0)


def _signed(value: int) -> int:
    return value - (1 << 32) if value >> 31 else value


@dataclass(frozen=True)
class MatrixUse:
    """Registers of one matrix instruction; ``results`` are (number, D, C or None), in an order in
    which no C is overwritten before it is read."""

    lanes: MatrixLanes
    a: tuple[int, ...]
    b: tuple[int, ...]
    results: tuple[tuple[int, int, int | None], ...]


def matrix_use(inst: Instruction) -> MatrixUse:
    """The use of a dense or sparse matrix instruction. Raises :class:`UnknownInstruction`."""
    d, a, b, last, *scales = inst.operands
    numbers = _registers(d)
    side_a, side_b = _registers(a), _registers(b)
    sparse = SPARSE_FORMS.get(inst.mnemonic)
    if sparse is not None:
        lanes = MatrixLanes(sparse.m, 1, False, len(numbers))
        side_a += _registers(last)  # the places of A's values
        c = numbers
    else:
        form = MATRIX_FORMS.get(inst.mnemonic)
        if form is None:
            raise UnknownInstruction(inst, "no form of a matrix instruction")
        chosen = {key: _number(inst, key) for key in ("cbsz", "abid", "blgp")}
        if inst.mnemonic.endswith("f8f6f4"):  # formats
            chosen = {}
        lanes = MatrixLanes(form.m, form.blocks, form.result == "f64", len(numbers), **chosen)
        c = _registers(last)
    if scales:
        side_a, side_b = side_a + _registers(scales[0]), side_b + _registers(scales[1])
    results = tuple((i, n, c[i] if c else None) for i, n in enumerate(numbers))
    if c and numbers[0] > c[0]:
        results = results[::-1]
    return MatrixUse(lanes, side_a, side_b, results)


def _registers(operand: Operand) -> tuple[int, ...]:
    base = _BASES.get(operand.kind)
    if base is None:
        return ()
    return tuple(range(base + operand.index, base + operand.index + operand.count))


def _number(inst: Instruction, key: str) -> int:
    value = inst.modifiers.get(key, 0)
    return value if isinstance(value, int) else 0
