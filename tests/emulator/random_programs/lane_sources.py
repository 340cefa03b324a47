"""Where a vector source comes from: DPP lane moves and SDWA parts of a register."""

from __future__ import annotations

import numpy as np

from .machine import LANES, Machine
from .program import Inst

_ROW = LANES // 16 * 16


def dpp_source(inst: Inst) -> np.ndarray:
    """The lane that each lane reads; -1 where there is none."""
    for name, value in inst.mods.items():
        if name == "quad_perm":
            return LANES // 4 * 4 + np.array(value)[LANES % 4]
        if name in ("row_shl", "row_shr"):
            moved = LANES % 16 + (value if name == "row_shl" else -value)
            return np.where((moved >= 0) & (moved < 16), _ROW + moved, -1)
        if name == "row_ror":
            return _ROW + (LANES % 16 - value) % 16
        if name == "wave_shl":
            return np.where(LANES < 63, LANES + 1, -1)
        if name == "wave_shr":
            return LANES - 1
        if name == "wave_rol":
            return (LANES + 1) % 64
        if name == "wave_ror":
            return (LANES - 1) % 64
        if name == "row_mirror":
            return _ROW + 15 - LANES % 16
        if name == "row_half_mirror":
            return LANES // 8 * 8 + 7 - LANES % 8
        if name == "row_bcast":
            if value == 15:
                return np.where(LANES >= 16, LANES // 16 * 16 - 1, -1)
            return np.where(LANES >= 32, 31, -1)
        if name == "row_newbcast":
            return _ROW + value
    raise ValueError(f"{inst}: no DPP control")


def dpp(m: Machine, inst: Inst, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Source 0 after the move, and the lanes that are written."""
    source = dpp_source(inst)
    valid = (source >= 0) & m.exec[source]
    moved = np.where(valid, values[source], 0).astype(values.dtype)
    rows = inst.mods["row_mask"] >> (LANES // 16) & 1
    banks = inst.mods["bank_mask"] >> (LANES % 16 // 4) & 1
    written = m.exec & (rows == 1) & (banks == 1)
    if "bound_ctrl" not in inst.mods:
        written &= valid
    return moved, written


def sdwa_source(values: np.ndarray, select: str, sext: bool) -> np.ndarray:
    """The selected byte or word, extended to 32 bits."""
    kind, _, which = select.partition("_")
    if kind == "DWORD":
        return values
    bits = 8 if kind == "BYTE" else 16
    part = values >> np.uint32(bits * int(which)) & np.uint32((1 << bits) - 1)
    if sext:
        sign = np.uint32(1 << (bits - 1))
        part = (part ^ sign) - sign
    return part.astype(np.uint32)


def sdwa_result(inst: Inst, old: np.ndarray, value: np.ndarray) -> np.ndarray:
    """The destination's new bits: ``value`` in the selected part, the rest as told."""
    kind, _, which = inst.mods["dst_sel"].partition("_")
    if kind == "DWORD":
        return value
    bits = 8 if kind == "BYTE" else 16
    shift = bits * int(which)
    ones = np.uint32((1 << bits) - 1)
    placed = (value & ones) << np.uint32(shift)
    unused = inst.mods["dst_unused"]
    if unused == "UNUSED_PRESERVE":
        return old & ~(ones << np.uint32(shift)) | placed
    if unused == "UNUSED_SEXT":
        above = np.uint32((0xFFFFFFFF << (shift + bits)) & 0xFFFFFFFF)
        return placed | np.where(value >> np.uint32(bits - 1) & np.uint32(1), above, np.uint32(0))
    return placed
