"""Find the first instruction of a random program after which device and interpreter differ.

python -m tests.emulator.random_programs.find SEED...
"""

from __future__ import annotations

import dataclasses
import sys

from rocke.emulator import EmulatedDevice

from .compare import differences
from .generator import LEAST_F32, LEAST_F64, LEAST_PACKED, Program, generate
from .kernel import build
from .program import Const, Inst


def beginning(program: Program, length: int) -> Program:
    """The first instructions, with the labels that they jump to, as a program of its own name."""
    body = list(program.body[:length])
    labels = {inst.label for inst in body}
    for inst in program.body[:length]:
        if inst.target and inst.target not in labels:
            labels.add(inst.target)
            body.append(Inst("s_nop", src=(Const(0),), label=inst.target))
    return dataclasses.replace(program, body=tuple(body), seed=program.seed * 1000 + length)


def replaces_nan(inst: Inst) -> bool:
    """Whether the instruction only makes a NaN of the one before it a number."""
    return any(x in (LEAST_F32, LEAST_F64, LEAST_PACKED) for x in inst.src)


def find(seed: int) -> str:
    """What differs first, and after which instruction."""
    program = generate(seed)
    ends = [
        n
        for n in range(1, len(program.body) + 1)
        if n == len(program.body) or not replaces_nan(program.body[n])
    ]
    parts = [beginning(program, n) for n in ends]
    code, device = build(parts), EmulatedDevice(program.arch, threads=1, max_instructions=100_000)
    if not differences(device, code, parts[-1]):
        return f"{seed}: no difference"
    good, bad = -1, len(parts) - 1
    while bad - good > 1:
        middle = (good + bad) // 2
        if differences(device, code, parts[middle]):
            bad = middle
        else:
            good = middle
    since = program.body[ends[good] if good >= 0 else 0 : ends[bad]]
    listed = "\n".join(str(inst) for inst in since)
    found = "\n  ".join(differences(device, code, parts[bad]))
    return f"{seed} on {program.arch}, {program.mode}:\n{listed}\n  {found}"


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        print(find(int(argument)))
