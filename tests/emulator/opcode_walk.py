"""Every opcode of the targets, walked through with the disassembler.

The list of what exists does not come from this project: each encoding's opcode field is counted
through, with several operands, and what the disassembler reads is collected.
``python -m tests.emulator.opcode_walk`` prints what the emulated device does not execute.
"""

from __future__ import annotations

import functools
import itertools
import random
import struct
from collections.abc import Iterator

from rocke.emulator.blocks import NO_OPERATIONS
from rocke.emulator.decoder import decode
from rocke.emulator.instruction import Instruction
from rocke.emulator.semantics import FloatMode, UnknownInstruction, lower
from rocke.emulator.semantics.alu_special import chooses_mode, mode_choices
from rocke.emulator.translator import CONTROL

ARCHS = ("gfx90a", "gfx942", "gfx950")

V0, V2, V4 = 0x100, 0x102, 0x104
VOP3_SOURCES = (
    V2 | V4 << 9 | V0 << 18,
    V2 | V4 << 9,
    V2 | 4 << 9 | 6 << 18,
    V2 | 4 << 9,
    4 | 6 << 9,
    V2 | V4 << 9 | 6 << 18,
)
MEMORY_WORDS = (0, 0x04020102, 0x1C020100, 0x007F0000)
SDWA, DPP = 0xF9, 0xFA
SDWA_WORDS = (0x06060602, 0x06861602)
DPP_WORD = 0xFF00E402

ENCODINGS: dict[str, list[tuple[int, tuple[int, ...]]]] = {
    "sop1": [(0x17D << 23 | 4 << 16 | op << 8 | s, (0,)) for op in range(256) for s in (6, 128)],
    "sop2": [(2 << 30 | op << 23 | 4 << 16 | 8 << 8 | 6, (0,)) for op in range(96)],
    "sopk": [(0xB << 28 | op << 23 | 4 << 16 | k, (0,)) for op in range(27) for k in (1, 0x1801)],
    "sopc": [(0x17E << 23 | op << 16 | s << 8 | 6, (0,)) for op in range(128) for s in (8, 1)],
    "sopp": [(0x17F << 23 | op << 16 | k, (0,)) for op in range(128) for k in (0, 1)],
    "smem": [(0x30 << 26 | op << 18 | 1 << 17 | 4 << 6, MEMORY_WORDS) for op in range(256)],
    "vop1": [
        (0x3F << 25 | op << 9 | s, words)
        for op in range(256)
        for s, words in ((V2, (0,)), (V4, (0,)), (SDWA, SDWA_WORDS), (DPP, (DPP_WORD,)))
    ],
    "vop2": [
        (op << 25 | 4 << 9 | s, words)
        for op in range(62)
        for s, words in ((V2, (0,)), (SDWA, SDWA_WORDS), (DPP, (DPP_WORD,)))
    ],
    "vopc": [
        (0x3E << 25 | op << 17 | 4 << 9 | s, words)
        for op in range(256)
        for s, words in ((V2, (0,)), (SDWA, (0x06060002, 0x06068402)))
    ],
    "vop3": [(0x34 << 26 | op << 16 | d, VOP3_SOURCES) for op in range(896) for d in (0, 6, 0x600)],
    "vop3p": [
        (
            0x1A7 << 23 | op << 16 | third << 14,
            (*MEMORY_WORDS, *(3 << 27 | s for s in VOP3_SOURCES)),
        )
        for op in range(128)
        for third in range(2)
    ],
    "ds": [
        (0x36 << 26 | op << 17 | gds << 16, MEMORY_WORDS) for op in range(256) for gds in range(2)
    ],
    "flat": [
        (0x37 << 26 | op << 18 | segment << 14 | lds << 13, MEMORY_WORDS)
        for op in range(128)
        for segment in range(3)
        for lds in range(2)
    ],
    "mubuf": [
        (0x38 << 26 | op << 18 | lds << 16, MEMORY_WORDS) for op in range(128) for lds in range(2)
    ],
    "mtbuf": [
        (0x3A << 26 | numbers << 23 | data << 19 | op << 15, MEMORY_WORDS)
        for op in range(16)
        for numbers, data in ((7, 14), (7, 12))
    ],
}


RANDOM_BITS = {
    **dict.fromkeys(("sop1", "sop2", "sopk", "sopc", "sopp"), 7),
    **dict.fromkeys(("ds", "flat", "mubuf", "mtbuf", "smem", "vop3p"), 0xFFFF),
    **dict.fromkeys(("vop1", "vop2", "vopc"), 0),
    "vop3": 0xFF07,
}
"""Bits of the first word that are no part of the opcode."""


@functools.cache
def instructions(encoding: str, arch: str) -> tuple[Instruction, ...]:
    """What the disassembler reads from all words of an encoding."""
    return tuple(_instructions(encoding, arch))


def _instructions(encoding: str, arch: str) -> Iterator[Instruction]:
    for first, seconds in ENCODINGS[encoding]:
        for second in seconds:
            (inst, *_) = decode(struct.pack("<4I", first, second, 0, 0), arch)
            if inst.mnemonic:
                yield inst


def random_instructions(encoding: str, arch: str, seed: int) -> Iterator[Instruction]:
    """Each opcode of an encoding with random operands and modifiers."""
    rng = random.Random(f"{encoding} {arch} {seed}")
    for first, seconds in ENCODINGS[encoding]:
        low, high = first ^ rng.getrandbits(32) & RANDOM_BITS[encoding], rng.getrandbits(32)
        if encoding.startswith("vop3"):
            high = high & ~0x7FF_FFFF | rng.choice(seconds) & 0x7FF_FFFF
        (inst, *_) = decode(struct.pack("<4I", low, high, rng.getrandbits(32), 0), arch)
        if inst.mnemonic:
            yield inst


def is_executed(inst: Instruction, arch: str) -> bool:
    """Whether the emulated device executes exactly this."""
    if inst.mnemonic in NO_OPERATIONS or inst.mnemonic in CONTROL:
        return True
    try:
        if chooses_mode(inst):
            return bool(mode_choices(inst, FloatMode()))
        lower(inst, arch, True)
        lower(inst, arch, False)
    except UnknownInstruction:
        return False
    return True


@functools.cache
def missing(encoding: str, arch: str) -> dict[tuple[str, str], str]:
    """(mnemonic, encoding suffix) of which no form is executed, with an example."""
    good, bad = set(), {}
    for inst in instructions(encoding, arch):
        key = inst.mnemonic, inst.encoding
        if is_executed(inst, arch):
            good.add(key)
        else:
            bad.setdefault(key, inst.text)
    return {key: text for key, text in bad.items() if key not in good}


def main() -> None:
    """Print what is missing."""
    for arch, encoding in itertools.product(ARCHS, ENCODINGS):
        for (name, suffix), text in missing(encoding, arch).items():
            print(f"{arch} {encoding:6} {name:32} {suffix:5} {text}")


if __name__ == "__main__":
    main()
