"""An interpreter of one wave, written from the ISA guides alone: numpy, one instruction at a time.

It shares nothing with the emulated device: it works on the generator's instructions, not on bytes.
Registers are u32; an operation gets arrays of 64 lanes in its operands' types and returns one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .program import Const, Inst, Operand, Reg

LANES = np.arange(64)
VCC, M0, EXEC = 106, 124, 126
MASK32 = 0xFFFFFFFF
STEPS = 20_000

WIDTH = {"u": "u", "i": "i", "b": "u", "f": "f"}


def numpy_type(type_: str) -> np.dtype:
    return np.dtype(f"{WIDTH[type_[0]]}{int(type_[1:]) // 8}")


def bits_of(values: np.ndarray) -> np.ndarray:
    """The bit patterns, as u16, u32 or u64."""
    values = np.ascontiguousarray(values)
    return values.view(f"u{values.itemsize}")


def mask_of(lanes: np.ndarray) -> int:
    """Booleans of 64 lanes as an integer."""
    return int(sum(1 << int(i) for i in np.flatnonzero(lanes)))


def lanes_of(mask: int) -> np.ndarray:
    return (np.uint64(mask) >> LANES.astype(np.uint64) & np.uint64(1)).astype(bool)


@dataclass(frozen=True)
class Mode:
    """What the MODE register says: subnormals kept or not, IEEE handling of NaN, clamping."""

    keep32: bool = True
    keep16_64: bool = True
    ieee: bool = True
    dx10_clamp: bool = True

    def keeps(self, bits: int) -> bool:
        return self.keep32 if bits == 32 else self.keep16_64


class Machine:
    """Registers ``v``, ``a`` (256 rows of 64 lanes), ``s`` (128), ``scc``, LDS bytes."""

    def __init__(self, arch: str, mode: Mode, lds_bytes: int) -> None:
        self.arch, self.mode = arch, mode
        self.v = np.zeros((256, 64), np.uint32)
        self.a = np.zeros((256, 64), np.uint32)
        self.s = np.zeros(128, np.uint32)
        self.scc = 0
        self.lds = np.zeros(lds_bytes, np.uint8)
        self.executed: dict[str, int] = {}

    # Scalar registers

    def s32(self, index: int) -> int:
        return int(self.s[index])

    def s64(self, index: int) -> int:
        return int(self.s[index]) | int(self.s[index + 1]) << 32

    def set_s32(self, index: int, value: int) -> None:
        self.s[index] = value & MASK32

    def set_s64(self, index: int, value: int) -> None:
        self.s[index], self.s[index + 1] = value & MASK32, value >> 32 & MASK32

    @property
    def exec(self) -> np.ndarray:
        return lanes_of(self.s64(EXEC))

    # Operands

    def scalar(self, operand: Operand, bits: int = 32) -> int:
        """An unsigned scalar source of a scalar operation."""
        if isinstance(operand, Reg):
            return self.s32(operand.index) if bits == 32 else self.s64(operand.index)
        if isinstance(operand.value, float):
            return constant_bits(operand.value, bits)
        value = operand.value
        if operand.literal:
            value = value - (1 << 32) if value >> 31 else value
        return value & ((1 << bits) - 1)

    def lanes(self, operand: Operand, bits: int) -> np.ndarray:
        """The 64 lanes of a vector source: u32, or u64 (``bits`` 64)."""
        wide = bits == 64
        if isinstance(operand, Const):
            if isinstance(operand.value, float):
                number = constant_bits(operand.value, bits)
            elif operand.literal:
                number = operand.value
            else:
                number = operand.value & ((1 << (64 if wide else 32)) - 1)
            return np.full(64, number, np.uint64 if wide else np.uint32)
        if operand.file == "s":
            number = self.s64(operand.index) if wide else self.s32(operand.index)
            return np.full(64, number, np.uint64 if wide else np.uint32)
        rows = self.v if operand.file == "v" else self.a
        if not wide:
            return rows[operand.index].copy()
        low, high = rows[operand.index].astype(np.uint64), rows[operand.index + 1]
        return low | high.astype(np.uint64) << np.uint64(32)

    def write(self, reg: Reg, value: np.ndarray, lanes: np.ndarray | None = None) -> None:
        """Write u32 or u64 lanes where EXEC (or ``lanes``) is on."""
        where = self.exec if lanes is None else lanes
        rows = self.v if reg.file == "v" else self.a
        if value.dtype == np.uint64:
            rows[reg.index][where] = (value & np.uint64(MASK32)).astype(np.uint32)[where]
            rows[reg.index + 1][where] = (value >> np.uint64(32)).astype(np.uint32)[where]
        else:
            rows[reg.index][where] = value[where]

    # Control

    def run(self, program: list[Inst], table: dict[str, Callable[[Machine, Inst], str | None]]):
        """Execute to the end; an operation may return a label to go to."""
        places = {inst.label: i for i, inst in enumerate(program) if inst.label}
        at = steps = 0
        with np.errstate(all="ignore"):
            while at < len(program):
                inst = program[at]
                goto = table[inst.op](self, inst)
                self.executed[inst.op] = self.executed.get(inst.op, 0) + 1
                at = places[goto] if goto else at + 1
                steps += 1
                if steps > STEPS:
                    raise RuntimeError("the generated program does not end")


def constant_bits(value: float, bits: int) -> int:
    """A float inline constant in an operand's width."""
    return int(bits_of(np.array([value], f"f{bits // 8}"))[0])
