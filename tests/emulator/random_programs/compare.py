"""Compare the registers of device and interpreter after a program."""

from __future__ import annotations

import numpy as np

from rocke.compiler.code_object import CodeObject
from rocke.emulator import EmulatedDevice

from .generator import LOOSE, Program
from .kernel import SCALARS, run_emulated, run_reference

ULPS = 2
"""How far the results of reciprocal, square root, exponential and logarithm may be off."""

NAMES = [f"s{i}" for i in SCALARS] + ["vcc_lo", "vcc_hi", "m0", "exec_lo", "exec_hi", "scc"]
SHOWN = 6


def _ordered(bits: np.ndarray) -> np.ndarray:
    """Floats as integers in the order of their values."""
    whole = bits.astype(np.int64)
    return np.where(whole >> 31, 0x80000000 - whole, whole)


def differences(device: EmulatedDevice, code: CodeObject, program: Program) -> list[str]:
    """``register lane: device, interpreter`` for each difference; the first few, then a count."""
    expected, _ = run_reference(program)
    got = run_emulated(device, code, program)
    found = []
    for file, ours, theirs in (("v", got.v, expected.v), ("a", got.a, expected.a)):
        wrong = ours != theirs
        if file == "v":
            wrong[LOOSE] = np.abs(_ordered(ours[LOOSE]) - _ordered(theirs[LOOSE])) > ULPS
        for row, lane in np.argwhere(wrong):
            found.append(
                f"{file}{row} lane {lane}: {ours[row, lane]:#x}, expected {theirs[row, lane]:#x}"
            )
    for name, value, right in zip(NAMES, got.s, expected.s, strict=True):
        if value != right:
            found.append(f"{name}: {value:#x}, expected {right:#x}")
    rest = len(found) - SHOWN
    return found[:SHOWN] + ([f"and {rest} more"] if rest > 0 else [])
