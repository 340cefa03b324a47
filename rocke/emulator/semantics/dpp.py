"""Data-parallel primitives: the lane permutation on the first source of a vector instruction.

Source: AMD Instinct MI300 ISA guide, *Data Parallel Primitives (DPP)*: quad_perm, row shifts and
rotations within 16 lanes, shifts by one lane over the wave, mirrors, broadcasts of the last lane of
a row to the next rows, and (gfx90a and later) row_newbcast. A lane whose source is out of range, or
off in EXEC, is not written, or reads 0 with bound_ctrl; row_mask and bank_mask choose the lanes
that may be written.
"""

from __future__ import annotations

from dataclasses import dataclass

from rocke.emulator.instruction import Instruction
from rocke.emulator.semantics.interface import UnknownInstruction
from rocke.emulator.semantics.lanes import LaneLoop
from rocke.emulator.state import LANES, ROW_BYTES

_NONE = -1


@dataclass(frozen=True)
class DppControl:
    """A DPP control: the source lane of each lane (-1: none) and which lanes may be written."""

    sources: tuple[int, ...]
    bound_ctrl: bool
    row_mask: int
    bank_mask: int
    tag: str

    @property
    def lane_limit(self) -> int | None:
        """Mask of the lanes that may be written; None for all."""
        mask = 0
        for lane, source in enumerate(self.sources):
            row, bank = lane // 16, lane % 16 // 4
            if (
                self.row_mask >> row & 1
                and self.bank_mask >> bank & 1
                and (source != _NONE or self.bound_ctrl)
            ):
                mask |= 1 << lane
        return None if mask == (1 << LANES) - 1 else mask - (mask >> 63 << 64)

    def permute(self, loop: LaneLoop, pointer: str, rows: int = 1) -> str:
        """Copy the permuted registers to a temporary before the loop; returns its address."""
        name = f"{pointer}.dpp"
        indices = ", ".join(
            f"i32 {LANES if source == _NONE else source}" for source in self.sources
        )
        if loop.exec is not None:
            loop.entry += [
                f"{name}.on = bitcast i64 {loop.exec} to <{LANES} x i1>",
                f"{name}.good = shufflevector <{LANES} x i1> {name}.on,"
                f" <{LANES} x i1> zeroinitializer, <{LANES} x i32> <{indices}>",
            ]
            if not self.bound_ctrl:
                loop.entry.append(f"{name}.bits = bitcast <{LANES} x i1> {name}.good to i64")
                loop.restrict(f"{name}.bits")
        loop.entry.append(f"{name} = alloca [{rows} x <{LANES} x i32>], align 64")
        for row in range(rows):
            step = f"{name}.{row}"
            loop.entry += [
                f"{step}.from = getelementptr i8, ptr {pointer}, i64 {row * ROW_BYTES}",
                f"{step}.to = getelementptr i8, ptr {name}, i64 {row * ROW_BYTES}",
                f"{step}.in = load <{LANES} x i32>, ptr {step}.from, align 64",
                f"{step}.out = shufflevector <{LANES} x i32> {step}.in,"
                f" <{LANES} x i32> zeroinitializer, <{LANES} x i32> <{indices}>",
            ]
            value = f"{step}.out"
            if loop.exec is not None and self.bound_ctrl:
                value = f"{step}.kept"
                loop.entry.append(
                    f"{value} = select <{LANES} x i1> {name}.good, <{LANES} x i32> {step}.out,"
                    f" <{LANES} x i32> zeroinitializer"
                )
            loop.entry.append(f"store <{LANES} x i32> {value}, ptr {step}.to, align 64")
        return name


def dpp_control(inst: Instruction) -> DppControl:
    """The control of a DPP instruction. Raises UnknownInstruction for one that is not known."""
    modifiers = inst.modifiers
    for key, make in _PATTERNS.items():
        value = modifiers.get(key)
        if value is None:
            continue
        if key == "quad_perm":
            if not isinstance(value, tuple):
                break
            sources = tuple(lane & ~3 | value[lane & 3] for lane in range(LANES))
            label = "qp" + "".join(map(str, value))
        else:
            amount = int(value) if isinstance(value, int) else 0
            sources = tuple(make(lane, amount) for lane in range(LANES))
            label = f"{key}{amount}"
        row_mask, bank_mask = (int(_number(modifiers.get(k))) for k in ("row_mask", "bank_mask"))
        bound_ctrl = "bound_ctrl" in modifiers
        tag = f"{label}_{row_mask:x}{bank_mask:x}{'z' if bound_ctrl else ''}"
        return DppControl(sources, bound_ctrl, row_mask, bank_mask, tag)
    raise UnknownInstruction(inst, "DPP control is not known")


def _number(value: int | bool | str | tuple[int, ...] | None) -> int:
    return value if isinstance(value, int) else 0xF


def _in_row(lane: int, column: int) -> int:
    return lane & ~15 | column if 0 <= column < 16 else _NONE


def _bcast15(lane: int, _: int) -> int:
    return (lane & ~15) - 1 if lane >= 16 else _NONE


def _bcast31(lane: int, _: int) -> int:
    return 31 if lane >= 32 else _NONE


def _broadcast(lane: int, amount: int) -> int:
    return _bcast15(lane, 0) if amount == 15 else _bcast31(lane, 0)


_PATTERNS = {
    "quad_perm": lambda lane, n: lane,
    "row_shl": lambda lane, n: _in_row(lane, lane % 16 + n),
    "row_shr": lambda lane, n: _in_row(lane, lane % 16 - n),
    "row_ror": lambda lane, n: lane & ~15 | (lane - n) % 16,
    "wave_shl": lambda lane, n: lane + 1 if lane < LANES - 1 else _NONE,
    "wave_shr": lambda lane, n: lane - 1,
    "wave_rol": lambda lane, n: (lane + 1) % LANES,
    "wave_ror": lambda lane, n: (lane - 1) % LANES,
    "row_mirror": lambda lane, n: lane & ~15 | 15 - lane % 16,
    "row_half_mirror": lambda lane, n: lane & ~7 | 7 - lane % 8,
    "row_bcast": _broadcast,
    "row_newbcast": lambda lane, n: lane & ~15 | n,
    "row_share": lambda lane, n: lane & ~15 | n,
}

DPP_MODIFIERS = (*_PATTERNS, "row_mask", "bank_mask", "bound_ctrl")
"""Names of the modifiers of the DPP encoding."""
